"""Where gangs go, proven against brute force."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.batch import chain
from autoscaler.core.batch.gangs import Form, PodSet, Topology
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.placement import Placer
from autoscaler.core.columns import I64
from tests.batch.builders import H100, LEVELS, form, ledger_of, node, placed, racks, where


def counted_to_fit(free: I64, pods: Sequence[tuple[int, int]]) -> bool:
    """The count alone."""
    sizes = chain.chain(8)
    return bool((chain.slots(free, sizes).sum(axis=0) >= chain.needed(pods, sizes)).all())


def brute_force(free: list[int], pods: list[int]) -> bool:
    """Whether pods fit, by trying all ways."""
    if not pods:
        return True
    first, *rest = pods
    tried = set()
    for at, units in enumerate(free):
        if units >= first and units not in tried:
            tried.add(units)
            if brute_force([*free[:at], units - first, *free[at + 1 :]], rest):
                return True
    return False


@given(
    free=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    pods=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=7),
)
@settings(max_examples=300, deadline=None)
def test_law_the_count_decides_exactly_for_pods_of_1_2_4_and_8(free: list[int], pods: list[int]) -> None:
    pods.sort(reverse=True)
    counted = counted_to_fit(np.array(free), [(units, len(list(same))) for units, same in itertools.groupby(pods)])
    assert counted == brute_force(free, pods)


@given(
    free=st.lists(st.integers(0, 8), min_size=1, max_size=5),
    sets=st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.integers(1, 4)), min_size=1, max_size=3),
)
@settings(max_examples=200, deadline=None)
def test_law_what_the_count_admits_is_placed_whole_and_what_it_refutes_changes_nothing(
    free: list[int], sets: list[tuple[int, int]]
) -> None:
    ledger = ledger_of([node(f"n{at}") for at in range(len(free))])
    ledger.see(ledger.estate.nodes, [PodSeen(f"n{at}", H100, 8 - units) for at, units in enumerate(free)])
    wanted = Form(tuple(PodSet(count, units, H100) for units, count in sets))
    before = ledger.estate.free.copy()
    spots = placed(ledger, wanted)
    assert (spots is not None) == counted_to_fit(before, sets)
    taken = sum(spot.units for spot in spots or ())
    assert taken == (sum(wanted.units().values()) if spots is not None else 0)
    assert int(before.sum() - ledger.estate.free.sum()) == taken
    assert ledger.estate.contradictions() == []


def test_small_pods_go_where_a_node_is_begun_and_leave_whole_nodes() -> None:
    ledger = ledger_of(racks(1, 3))
    ledger.see(ledger.estate.nodes, [PodSeen("n1", H100, 5)])
    assert where(ledger, placed(ledger, form(3, 1)) or ()) == {"n1": 3}


def test_a_mix_that_wants_fours_keeps_a_four_whole_where_best_fit_would_break_it() -> None:
    ledger = ledger_of([node("five", 8), node("four", 8)])
    ledger.see(ledger.estate.nodes, [PodSeen("five", H100, 3), PodSeen("four", H100, 4)])
    placer = Placer(ledger.estate, LEVELS, {4: 1.0})
    spots = placer.take(placer.ask(form(1, 1)))
    assert spots is not None
    assert where(ledger, spots) == {"five": 1}


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        pytest.param(form(2, 8, required="rack"), {"r1"}, id="a required rack"),
        pytest.param(form(1, 8, required="rack"), {"r0"}, id="the tightest rack that holds it"),
        pytest.param(form(3, 8, required="rack"), None, id="no rack holds it"),
        pytest.param(form(3, 8, preferred="rack"), {"r0", "r1"}, id="a preferred rack gives way"),
        pytest.param(form(2, 8, preferred="rack"), {"r1"}, id="a preferred rack is taken where there is one"),
        pytest.param(form(4, 2, required="node"), {"r0"}, id="one node"),
        pytest.param(form(9, 1, required="node"), None, id="larger than a node"),
        pytest.param(form(4, 2, required="rack", preferred="node"), {"r0"}, id="preferred within required"),
    ],
)
def test_a_topology_level(wanted: Form, nodes: set[str] | None) -> None:
    ledger = ledger_of([node("a", rack="r0"), node("b", rack="r1"), node("c", rack="r1")])
    spots = placed(ledger, wanted)
    found = None if spots is None else {ledger.estate.nodes[spot.node].domains[0] for spot in spots}
    assert found == nodes


def test_case_31_the_leader_of_an_uneven_gang_does_not_take_the_only_node_its_workers_fit() -> None:
    ledger = ledger_of([node("whole"), node("begun")])
    ledger.see(ledger.estate.nodes, [PodSeen("begun", H100, 7)])
    uneven = Form((PodSet(1, 1, H100), PodSet(1, 8, H100)))
    assert where(ledger, placed(ledger, uneven) or ()) == {"begun": 1, "whole": 8}
    tight = ledger_of([node("tight"), node("loose")])
    tight.see(tight.estate.nodes, [PodSeen("tight", H100, 4), PodSeen("loose", H100, 3)])
    workers = Form((PodSet(1, 1, H100), PodSet(2, 4, H100)))
    assert where(tight, placed(tight, workers) or ()) == {"tight": 4, "loose": 5}, "both have a worker"


def test_case_33_domains_are_told_apart_by_their_path_and_not_by_a_name_they_share() -> None:
    nodes = [
        node("r1", rack="r1", island="i1"), node("n2", rack="r10", island="i1"),
        node("n3", rack="r1", island="i10"), node("n4", rack="r10", island="i10"),
    ]  # fmt: skip
    ledger = ledger_of(nodes)
    assert placed(ledger, form(2, 8, required="island")) is None
    spots = placed(ledger, form(2, 8, required="rack"))
    assert spots is not None
    assert len({ledger.estate.nodes[spot.node].domains[0] for spot in spots}) == 1


def test_a_node_without_labels_is_a_domain_of_its_own() -> None:
    ledger = ledger_of([node("n0", rack="r0"), node("n1", rack="r0")])
    ledger.see([each.__class__(each.name, each.shape, each.units) for each in ledger.estate.nodes], ())
    assert placed(ledger, form(2, 8, required="rack")) is None
    assert placed(ledger, form(1, 8, required="rack")) is not None


def test_a_gang_of_two_shapes_needs_both_in_the_same_rack() -> None:
    nodes = [node("h0", rack="r0"), node("h1", rack="r1"), node("a1", rack="r1", shape="a10", units=4)]
    ledger = ledger_of(nodes, (H100, "a10"))
    both = Form((PodSet(1, 8, H100), PodSet(4, 1, "a10")), Topology("rack"))
    assert where(ledger, placed(ledger, both, "both") or ()) == {"h1": 8, "a1": 4}
    assert placed(ledger, both) is None
    assert ledger.contradictions() == []


def test_slices_and_whole_gpus_of_one_node_are_two_rows_and_never_count_twice() -> None:
    nodes = [node("n", 4), node("n", 28, shape="mig-1g")]
    ledger = ledger_of(nodes, (H100, "mig-1g"))
    assert placed(ledger, form(28, 1, "mig-1g"), "slices") is not None
    assert ledger.owners("n", H100) == {"free": 4}
    assert placed(ledger, form(1, 1, "mig-1g")) is None


def test_cores_and_memory_are_checked_after_the_count_and_come_back_with_the_gang() -> None:
    ledger = ledger_of([node("n0", cpu=16.0, memory_gib=64.0), node("n1", cpu=64.0, memory_gib=64.0)])
    hungry = form(4, 1, cpu=12.0, memory_gib=8.0)
    assert where(ledger, placed(ledger, hungry, "one") or ()) == {"n0": 1, "n1": 3}
    assert placed(ledger, hungry) is None
    assert ledger.estate.free.tolist() == [7, 5]
    ledger.release("one")
    assert placed(ledger, hungry) is not None


def test_sizes_outside_the_chain_are_placed_where_they_fit() -> None:
    ledger = ledger_of(racks(1, 2))
    assert placed(ledger, form(4, 3), "threes") is not None
    assert placed(ledger, form(1, 3)) is None
