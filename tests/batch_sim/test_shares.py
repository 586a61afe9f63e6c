"""Shares of GPUs beside whole ones: the bound and best fit, by hand and beside each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.errors import InputError
from autoscaler.sim.batch.files import Host, Pod
from autoscaler.sim.batch.packed import every_pod, whole_pods
from autoscaler.sim.batch.shares import best_fit, bound, drawn, whole

law = settings(max_examples=15, deadline=None)


def pod(gpus: float, *models: str, cpu: float = 1.0, memory_gib: float = 1.0) -> Pod:
    return Pod("p", gpus, frozenset(models), cpu, memory_gib)


def host(gpus: int, model: str = "T4", cpu: float = 64.0, memory_gib: float = 256.0) -> Host:
    return Host(f"{model}-{gpus}", model, gpus, cpu, memory_gib)


@pytest.mark.parametrize(
    ("pods", "hosts", "most"),
    [
        pytest.param([pod(0.6)] * 4, [host(2)], 0.6, id="two shares above a half take two GPUs"),
        pytest.param([pod(0.5)] * 4, [host(2)], 1.0, id="two halves take one"),
        pytest.param([pod(0.6)] * 2 + [pod(0.4)] * 2, [host(2)], 1.0, id="a smaller share fills up"),
        pytest.param([pod(2)] * 2, [host(2, "G2"), host(1), host(1)], 0.5, id="two GPUs of two nodes are no pair"),
        pytest.param([pod(1, "G2")] * 4, [host(2), host(2, "G2")], 0.5, id="only the model will do"),
        pytest.param([pod(1, cpu=40.0)] * 2, [host(2)], 0.8, id="cores end before GPUs, cut like sand"),
        pytest.param([pod(1, memory_gib=300.0)], [host(1)], 0.0, id="memory that no node has"),
        pytest.param([pod(8), pod(4)], [host(8), host(4)], 1.0, id="each in its place"),
    ],
)
def test_the_bound_by_hand(pods: list[Pod], hosts: list[Host], most: float) -> None:
    assert bound(pods, hosts) == pytest.approx(most)


def test_best_fit_fills_a_begun_gpu_and_passes_over_who_fits_nowhere() -> None:
    nodes = [host(2), host(1, "G2")]
    assert best_fit([pod(0.3), pod(0.7), pod(2)], nodes) == pytest.approx(1.0)
    assert best_fit([pod(0.3, "T4"), pod(0.8, "T4"), pod(2), pod(1)], nodes) == pytest.approx((0.3 + 0.8 + 1) / 3)
    assert best_fit([pod(1, cpu=40.0)] * 3, nodes) == pytest.approx(2 / 3)


@given(seed=st.integers(0, 10_000))
@law
def test_law_no_packing_allocates_more_than_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    hosts = [
        host(int(rng.choice([1, 2, 4, 8])), str(rng.choice(["T4", "G2"])), float(rng.choice([16.0, 64.0])))
        for _ in range(6)
    ]
    known = [pod(g, *m, cpu=c) for g in (0.2, 0.5, 0.7, 1, 2, 4, 8) for m in ((), ("T4",)) for c in (2.0, 8.0)]
    pods = drawn(known, hosts, seed)
    assert sum(each.gpus for each in pods) >= sum(each.gpus for each in hosts)
    assert max(best_fit(pods, hosts), every_pod(pods, hosts)) <= bound(pods, hosts) + 1e-9
    mine = whole(pods)
    assert all(each.gpus >= 1 and not each.models for each in mine)
    assert max(best_fit(mine, hosts), whole_pods(mine, hosts)) <= bound(mine, hosts) + 1e-9


def test_our_placement_leaves_whole_nodes_to_those_who_need_them() -> None:
    nodes = [host(8), host(4, "G2"), host(4, "G2")]
    assert whole_pods([*[pod(1)] * 8, pod(8)], nodes) == pytest.approx(1.0)
    assert whole_pods([pod(1, cpu=40.0)] * 9, nodes) == pytest.approx(3 / 16)


def test_ours_packs_shares_beside_whole_gpus_on_the_models_that_are_named() -> None:
    nodes = [host(1, "G2"), host(2)]
    assert every_pod([pod(0.3), pod(0.7), pod(2)], nodes) == pytest.approx(1.0), "both shares on the one GPU"
    assert every_pod([pod(0.3, "T4"), pod(0.8, "T4"), pod(2), pod(1)], nodes) == pytest.approx((0.3 + 0.8 + 1) / 3)
    assert every_pod([pod(0.6)] * 4, [host(2)]) == pytest.approx(0.6), "two of them share no GPU"
    assert every_pod([pod(0.5, "V100"), pod(1, cpu=65.0)], nodes) == 0.0
    assert every_pod([pod(1, cpu=40.0)] * 3, nodes) == pytest.approx(2 / 3), "cores of two GPUs of a node are few"


def test_nobody_to_draw_from_is_said() -> None:
    with pytest.raises(InputError, match="0 pods with a GPU, 1 nodes"):
        drawn([pod(0)], [host(1)], seed=1)


def test_our_placement_needs_whole_gpus_and_says_so() -> None:
    with pytest.raises(InputError, match=r"a pod of 0\.5 GPUs"):
        whole_pods([pod(0.5)], [host(1)])
