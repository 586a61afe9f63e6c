"""What the next start of a replica takes: measured, or put together from parts that were measured apart."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.pool.ahead import MOST, Lead, Started, enough_for, lead_ahead, thinned
from autoscaler.core.spread import Spread, spread
from tests.core.pool.builders import NOW_S, node, pool, slot, taken, warm, world

NOTHING = Started((), ())
SLOTS_S = (280.0, 300.0, 300.0, 310.0, 420.0)
"""Five slots from nothing to warm: one in five waits for a slow registry."""

WARM_S = (58.0, 60.0, 60.0, 65.0)
SECONDS = st.lists(st.floats(0.0, 3600.0), min_size=1, max_size=8).map(tuple)
MAYBE = st.one_of(st.just(()), SECONDS)
law = settings(deadline=None)
"""A machine that is busy with other things breaks no law."""


def test_a_warm_slot_leaves_what_replicas_took_on_warm_nodes() -> None:
    lead = lead_ahead(Started(WARM_S, ()), SLOTS_S, warm=True)
    assert lead == Lead(Spread(60.0, 65.0, 4), warm=True, replicas=4)


def test_without_one_every_slot_start_is_joined_with_every_replica_start() -> None:
    """Twenty starts, half of them within 360 s."""
    lead = lead_ahead(Started(WARM_S, ()), SLOTS_S, warm=False)
    assert lead == Lead(Spread(360.0, 480.0, 4), warm=False, slots=5, replicas=4)


def test_parts_that_are_rarely_late_together_are_not_added_as_if_they_were() -> None:
    """Each part takes 100 s and every fifth time 200 s: both at once is one start in 25."""
    part = (100.0, 100.0, 100.0, 100.0, 200.0)
    lead = lead_ahead(Started(part, ()), part, warm=False)
    assert lead is not None
    assert (lead.spread.p50_s, lead.spread.p90_s) == (200.0, 300.0), "and not 400"


@pytest.mark.parametrize(
    ("started", "slots_s", "is_warm"),
    [(NOTHING, SLOTS_S, True), (NOTHING, SLOTS_S, False), (Started(WARM_S, ()), (), False)],
    ids=["no replica on a warm node yet", "nor on any", "no slot from nothing yet"],
)
def test_a_part_that_was_never_measured_makes_the_whole_unknown(
    started: Started, slots_s: tuple[float, ...], is_warm: bool
) -> None:
    assert lead_ahead(started, slots_s, warm=is_warm) is None


def test_few_starts_of_its_own_are_never_undercut_and_five_speak_for_themselves() -> None:
    few = lead_ahead(Started(WARM_S, (500.0, 510.0)), SLOTS_S, warm=False)
    assert few is not None
    assert (few.spread.p50_s, few.spread.p90_s, few.whole) == (500.0, 510.0, 2)
    enough = lead_ahead(Started(WARM_S, (200.0, 210.0, 220.0, 230.0, 240.0)), SLOTS_S, warm=False)
    assert enough == Lead(Spread(220.0, 240.0, 5), warm=False, whole=5)


def test_of_thousands_of_starts_a_few_stand_for_all() -> None:
    many = thinned([float(at) for at in range(3200)])
    assert len(many) == MOST
    assert spread(many).p50_s == pytest.approx(1600.0, rel=0.04)
    assert spread(many).p90_s == pytest.approx(2880.0, rel=0.04)
    assert thinned([3.0, 1.0]) == (1.0, 3.0)


@law
@given(SECONDS, MAYBE, SECONDS, st.floats(0.0, 3600.0))
def test_a_longer_stage_never_makes_a_start_shorter(
    warm_s: tuple[float, ...], cold_s: tuple[float, ...], slots_s: tuple[float, ...], more_s: float
) -> None:
    started = Started(warm_s, cold_s)
    before, after = (
        lead_ahead(started, tuple(took_s + extra_s for took_s in slots_s), warm=False) for extra_s in (0.0, more_s)
    )
    assert before is not None
    assert after is not None
    assert after.spread.p50_s >= before.spread.p50_s
    assert after.spread.p90_s >= before.spread.p90_s


@law
@given(SECONDS, MAYBE, MAYBE)
def test_a_start_onto_a_warm_slot_is_never_longer_than_one_that_needs_a_node(
    warm_s: tuple[float, ...], cold_s: tuple[float, ...], slots_s: tuple[float, ...]
) -> None:
    onto_slot = lead_ahead(Started(warm_s, cold_s), slots_s, warm=True)
    onto_node = lead_ahead(Started(warm_s, cold_s), slots_s, warm=False)
    assert onto_slot is not None
    if onto_node is not None:
        assert onto_slot.spread.p50_s <= onto_node.spread.p50_s
        assert onto_slot.spread.p90_s <= onto_node.spread.p90_s


def test_a_look_tells_what_the_next_replica_finds() -> None:
    """One slot is warm since a while, after 300 s; the other one is under way."""
    seen = world((warm("p-0"), slot("p-1")), nodes=(node("n-p-0", created_s=NOW_S - 1290.0),))
    found = taken(pool(), seen)
    assert found.ahead is not None
    assert (found.ahead.warm, found.ahead.slots_s) == (1, (300.0,))
    assert taken(pool(), replace(seen, slots=None)).ahead is None, "what was not read is not nothing"


@pytest.mark.parametrize(
    ("nodes", "most"), [(("a", "a", "b"), 2), (("a", "b", "c"), 1), ((), 0)], ids=["two on one", "scattered", "none"]
)
def test_slots_count_together_where_one_pod_fits_on_them(nodes: tuple[str, ...], most: int) -> None:
    seen = world([warm(f"p-{at}", name) for at, name in enumerate(nodes)], nodes=[node(n, units=2) for n in "abc"])
    found = taken(pool(), seen)
    assert found.ahead is not None
    assert (found.decision.warm, found.ahead.warm) == (len(nodes), most)


def queued_for_s(step: int, slots: int, start_s: int) -> int:
    """Seconds from a step until its queue is gone: each replica serves one request a second, all that were warm are
    there after one start, and nothing else comes."""
    waiting = 0
    for second in range(100 * start_s):
        waiting += step - (slots if second >= start_s else 0)
        if waiting <= 0:
            return second + 1
    return 100 * start_s


@pytest.mark.parametrize("step", [1, 3, 15, 16, 100])
def test_so_many_warm_slots_clear_the_queue_of_a_step_within_1_6_starts_and_one_fewer_does_not(step: int) -> None:
    enough = enough_for(step)
    assert queued_for_s(step, enough, 1000) <= 1600
    assert queued_for_s(step, enough - 1, 1000) > 1600
    assert queued_for_s(step, step, 1000) == 100_000, "what serves it clears nothing"


def test_no_step_wants_nothing_and_one_of_three_slots_eight() -> None:
    assert [enough_for(step) for step in (0.0, 0.2, 3.0, 6.0)] == [0, 1, 8, 16]
