"""When nodes on their way can be used: learnt from those that came, said in a stated way of those that are late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.batch.boots import KEPT, LEAST_STUCK_S, PRIOR_S, Boots
from autoscaler.core.batch.outlook import outlook
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.core.batch.params import Shape
from tests.batch.builders import H100, gang, node, params, racks
from tests.batch.story import Story


def boots(*took_s: float) -> Boots:
    """Nodes that were seen to come took so long."""
    out = Boots()
    for each in took_s:
        out.took(H100, each)
    return out


def test_before_any_was_seen_the_prior_says_when() -> None:
    due = Boots().due(H100, 1000.0, 1000.0)
    assert due is not None
    assert (due.at_s, due.late_s, due.until_s) == (1150.0, 1300.0, 1150.0)


def test_ten_that_came_say_what_half_took_and_what_nine_took() -> None:
    seen = boots(*range(100, 200, 10))
    assert seen.takes_s(H100) == (145.0, 181.0)
    assert seen.takes_s("a100") == PRIOR_S, "each shape by itself"


def test_only_the_last_ones_count() -> None:
    assert boots(*[900.0] * 50, *[60.0] * KEPT).takes_s(H100) == (60.0, 60.0)


@pytest.mark.parametrize("took_s", [-1.0, 3601.0, float("inf"), float("nan")])
def test_what_no_node_can_take_is_not_learnt(took_s: float) -> None:
    seen = boots(took_s)
    seen.was_ready(H100, took_s)
    assert seen.takes_s(H100) == PRIOR_S


def test_that_nodes_were_ready_does_not_say_that_their_gpus_could_be_used_but_that_they_could_not_before() -> None:
    seen = Boots()
    seen.was_ready(H100, 20.0)
    assert seen.takes_s(H100) == PRIOR_S
    for _ in range(3):
        seen.was_ready(H100, 400.0)
    assert seen.takes_s(H100) == (400.0, 400.0)
    seen.took(H100, 100.0)
    assert seen.takes_s(H100) == (100.0, 100.0), "what was seen counts for more"


def test_one_that_is_late_needs_another_tenth_and_is_given_up_at_twice_what_nine_of_ten_took() -> None:
    seen = boots(*[200.0] * 3)
    late = seen.due(H100, 0.0, 300.0)
    assert late is not None
    assert (late.at_s, late.late_s, late.until_s) == (331.0, 331.0, 331.0)
    last = seen.due(H100, 0.0, 399.0)
    assert last is not None
    assert last.until_s == 400.0
    assert seen.due(H100, 0.0, 400.0) is None


def test_none_is_given_up_within_two_minutes_however_quick_the_others_were() -> None:
    assert boots(1.0).due(H100, 0.0, LEAST_STUCK_S - 1.0) is not None
    assert boots(1.0).due(H100, 0.0, LEAST_STUCK_S) is None


@given(st.lists(st.floats(0.0, 3600.0), max_size=40), st.floats(0.0, 8000.0))
def test_what_is_expected_lies_ahead_and_holds_for_a_while(took_s: list[float], age_s: float) -> None:
    due = boots(*took_s).due(H100, 1e9, 1e9 + age_s)
    if due is not None:
        assert 1e9 + age_s < due.until_s <= due.at_s <= due.late_s


def due(story: Story, name: str) -> tuple[float | None, float | None]:
    told = outlook(story.cycles, name, story.now_s)
    assert told is not None
    return told.p50_s, told.p90_s


def forever(*nodes: object, pods: tuple[PodSeen, ...] = (), shared: bool = False) -> Story:
    """A node of eight that never ends what it runs, and these."""
    story = Story(params(shapes=(Shape(H100, shared=shared),)), [*racks(1, 1), *nodes], pods, takes_s=lambda _: 1e9)  # type: ignore[list-item]
    story.submit(gang("runs", units=8, expected_s=1e6))
    story.settle()
    return story


def test_a_start_on_a_node_on_its_way_is_as_late_in_one_case_of_ten_as_the_node_and_names_it() -> None:
    story = forever(node("new", due_s=300.0, late_s=700.0))
    story.submit(gang("g", units=8), gang("next", units=8, created_s=1.0))
    story.settle()
    assert due(story, "g") == (300.0, 700.0)
    told = outlook(story.cycles, "g", 0.0)
    assert told is not None
    assert [(each.node, each.shape, each.units, each.due_s) for each in told.awaits] == [("new", H100, 8, 300.0)]
    behind = outlook(story.cycles, "next", 0.0)
    assert behind is not None
    assert behind.awaits == (), "who stands behind is counted, not placed"


@pytest.mark.parametrize("shared", [False, True])
def test_gangs_behind_the_first_are_counted_on_nodes_on_their_way_too(shared: bool) -> None:
    story = forever(node("new", due_s=300.0), node("newer", due_s=500.0), shared=shared)
    story.submit(gang("g", units=8), gang("next", units=8, created_s=1.0))
    story.settle()
    assert (due(story, "g")[0], due(story, "next")[0]) == (300.0, 500.0)


def test_what_others_will_take_of_a_node_on_its_way_is_not_expected() -> None:
    taken = (PodSeen("new", H100, 5, Owner.SERVING), PodSeen("new", H100, 1))
    story = forever(node("new", due_s=300.0), pods=taken)
    story.submit(gang("small", units=2), gang("g", units=3, created_s=1.0))
    story.settle()
    assert due(story, "small")[0] == 300.0
    story.room.cancel("small", 0.0)
    story.settle()
    assert due(story, "g")[0] == 1e6
    assert story.order() == ["runs"]
