"""One owner for each GPU, whatever the cluster shows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.batch.ledger import Kind, Ledger, Reservation
from autoscaler.core.batch.owners import Owner, PodSeen
from tests.batch.builders import H100, form, ledger_of, node, placed, racks


def test_foreign_pods_a_cordoned_node_and_a_gpu_with_xid_errors_leave_only_what_may_be_used() -> None:
    ledger = Ledger((H100,), 2)
    nodes = [node("shared"), node("cordoned", cordoned=True), node("failing", failing_units=1)]
    pods = [PodSeen("shared", H100, 3), PodSeen("cordoned", H100, 2, Owner.SERVING), PodSeen("failing", H100, 1)]
    assert ledger.see(nodes, pods) == ()
    assert ledger.owners("shared", H100) == {"foreign": 3, "free": 5}
    assert ledger.owners("cordoned", H100) == {"serving": 2, "unavailable": 6, "free": 0}
    assert ledger.owners("failing", H100) == {"foreign": 1, "unavailable": 1, "free": 6}
    assert ledger.contradictions() == []
    spots = placed(ledger, form(11, 1), "train")
    assert spots is not None
    assert "cordoned" not in {ledger.estate.nodes[spot.node].name for spot in spots}
    assert placed(ledger, form(1, 1)) is None


@pytest.mark.parametrize(
    ("more", "owners"),
    [
        pytest.param({"ready": False}, {"unavailable": 8, "free": 0}, id="a node that is not ready"),
        pytest.param({"due_s": 60.0}, {"unavailable": 8, "free": 0}, id="a node that is on its way"),
        pytest.param({"warm_units": 6}, {"serving": 6, "free": 2}, id="idle units of a warm node are serving's"),
        pytest.param({"failing_units": 9}, {"unavailable": 8, "free": 0}, id="more failures than GPUs"),
    ],
)
def test_a_node_that_nobody_uses(more: dict[str, Any], owners: dict[str, int]) -> None:
    ledger = ledger_of([node("n", **more)])
    assert ledger.owners("n", H100) == owners


def test_a_failing_gpu_is_its_users_until_the_user_leaves() -> None:
    ledger = ledger_of([node("n")])
    placed(ledger, form(1, 8), "train")
    ledger.see([node("n", failing_units=2)], ())
    assert ledger.owners("n", H100) == {"batch": 8, "free": 0}
    ledger.release("train")
    assert ledger.owners("n", H100) == {"unavailable": 2, "free": 6}


def test_a_ledger_is_rebuilt_from_the_pods_alone_after_a_restart() -> None:
    ledger = Ledger((H100,), 2)
    pods = [PodSeen("n0", H100, 8, gang="train"), PodSeen("n1", H100, 8, gang="train")]
    ledger.see(racks(1, 2), pods)
    assert ledger.owners("n1", H100) == {"batch": 8, "free": 0}
    ledger.see(racks(1, 2), pods)
    assert ledger.owners("n1", H100) == {"batch": 8, "free": 0}, "seen twice, counted once"
    ledger.release("train")
    assert placed(ledger, form(2, 8)) is not None


def test_a_gang_whose_gpus_others_took_or_whose_node_is_gone_is_named_whole() -> None:
    ledger = ledger_of(racks(1, 3))
    placed(ledger, form(2, 8), "first")
    placed(ledger, form(1, 8), "second")
    (stolen,) = {ledger.estate.nodes[spot.node].name for spot in ledger.holdings["second"].spots}
    assert ledger.see(racks(1, 3), [PodSeen(stolen, H100, 1)]) == ("second",)
    assert ledger.contradictions() == []
    lost = ledger.estate.nodes[ledger.holdings["first"].spots[0].node].name
    assert ledger.see([each for each in racks(1, 3) if each.name != lost], ()) == ("first",)
    assert ledger.holdings == {}


def test_a_robbed_gang_holds_what_its_pods_hold_until_they_are_gone() -> None:
    """A stranger took two of the GPUs that were planned for it; of its three pods one is bound there, one elsewhere."""
    ledger = ledger_of(racks(1, 2))
    placed(ledger, form(4, 4), "train")
    pods = [PodSeen("n0", H100, 4, gang="train"), PodSeen("n1", H100, 4, gang="train"), PodSeen("n0", H100, 2)]
    assert ledger.see(racks(1, 2), pods) == ("train",)
    assert ledger.owners("n0", H100) == {"batch": 4, "foreign": 2, "free": 2}
    assert ledger.owners("n1", H100) == {"batch": 4, "free": 4}
    assert ledger.contradictions() == []
    assert ledger.see(racks(1, 2), pods) == (), "what is told once is not told again"


def test_of_two_gangs_on_a_node_that_is_robbed_the_one_goes_whose_pods_are_not_there() -> None:
    ledger = ledger_of([node("n")])
    placed(ledger, form(1, 4), "early")
    placed(ledger, form(1, 4), "bound")
    pods = [PodSeen("n", H100, 4, gang="bound"), PodSeen("n", H100, 3)]
    assert ledger.see([node("n")], pods) == ("early",)
    assert ledger.owners("n", H100) == {"batch": 4, "foreign": 3, "free": 1}


def test_a_node_that_shrinks_below_what_runs_on_it_gives_nobody_a_unit_twice() -> None:
    ledger = ledger_of([node("n")])
    for name in ("first", "second"):
        placed(ledger, form(1, 4), name)
    pods = [PodSeen("n", H100, 4, gang=name) for name in ("first", "second")]
    assert ledger.see([node("n", units=6)], pods) == ("second",)
    assert ledger.owners("n", H100) == {"batch": 6, "free": 0}
    assert {name: held.spots[0].units for name, held in ledger.holdings.items()} == {"first": 4, "second": 2}
    assert ledger.contradictions() == []


def test_freed_units_pass_to_the_reservation_without_ever_being_free() -> None:
    ledger = ledger_of([node("n")])
    placed(ledger, form(1, 8), "victim")
    ledger.reserve(Reservation("head", Kind.PREEMPTION, {0: 6}, 0.0, 0.0))
    assert ledger.owners("n", H100) == {"batch": 8, "free": 0}
    ledger.release("victim")
    assert ledger.owners("n", H100) == {"reserved": 6, "free": 2}
    assert ledger.reservations["head"].whole
    assert placed(ledger, form(1, 4)) is None


STEPS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(1, 8)), max_size=60)


@given(steps=STEPS, seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_law_every_unit_has_one_owner_whatever_happens(steps: list[tuple[int, int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    ledger = ledger_of(racks(2, 3))
    for what, at, units in steps:
        name = f"g{at}"
        if what <= 1 and name not in ledger.holdings:
            placed(ledger, form(int(rng.integers(1, 4)), units), name)
        elif what == 2:
            ledger.release(name)
        elif what == 3:
            ledger.reserve(Reservation(name, Kind(units % 2), {at: units, (at + 1) % 6: 8}, 0.0, 0.0))
        elif what == 4:
            ledger.unreserve(name)
        else:
            nodes = [
                node(f"n{each}", rack=f"r{each // 3}", cordoned=bool(rng.random() < 0.2),
                     failing_units=int(rng.integers(0, 3)), warm_units=int(rng.integers(0, 4)))
                for each in range(6) if what == 5 or each != at or len(ledger.estate.nodes) < 6
            ]  # fmt: skip
            owner = Owner(int(rng.integers(0, 2)))
            pods = [PodSeen(f"n{at}", H100, units, owner), PodSeen("n1", H100, int(rng.integers(1, 9)))]
            pods += [
                PodSeen(ledger.estate.nodes[spot.node].name, H100, spot.units, gang=gang)
                for gang, holding in ledger.holdings.items() for spot in holding.spots if rng.random() < 0.5
            ]  # fmt: skip
            before = set(ledger.holdings)
            lost = set(ledger.see(nodes, pods))
            assert before - lost <= set(ledger.holdings) <= before
            for gang in lost & set(ledger.holdings):
                bound = sum(pod.units for pod in pods if pod.gang == gang)
                assert sum(spot.units for spot in ledger.holdings[gang].spots) <= bound, "pods that are there, no plan"
            if len(nodes) < 6:
                ledger.see(racks(2, 3), ())
        assert ledger.contradictions() == []
