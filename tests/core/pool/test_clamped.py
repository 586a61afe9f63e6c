"""A checkpoint of a machine whose clock was ahead: what it says of instants to come is left out, the rest is kept."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.pool import clock, history
from autoscaler.core.pool.circuits import CAPACITY, CONTENT, GPUS, Circuit, Position, Rule, troubled
from autoscaler.core.pool.clamped import until
from autoscaler.core.pool.clock import SlotClock, StartKind
from autoscaler.core.pool.history import DemandHistory
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import Circuits, GaveBack, Made, Marked, Ordered, PoolState, Unjoined
from tests.core.pool.builders import NOW_S, demand, domain, fleet, known, pool, taken, world

AHEAD_S = 3600.0
LATE_S = NOW_S + AHEAD_S
HERE = domain()


def opened(at_s: float, rule: Rule, times: int = 9) -> Circuit:
    """A circuit that opened so often, the last time at `at_s` for as long as its rule lets it."""
    circuit = Circuit(opened=times - 1, until_s=at_s - 1.0)
    return troubled(circuit, at_s, rule, "r")


FULL = replace(
    known(1.0, 2.0, 3.0, hours=4.0, now_s=LATE_S),
    clock=SlotClock(newest_s=LATE_S, restored_s=LATE_S),
    circuits=Circuits(
        capacity={HERE: opened(LATE_S, CAPACITY)},
        gpus={"first": opened(LATE_S, GPUS)},
        content=opened(LATE_S, CONTENT),
        told={"claim": LATE_S},
    ),
    claims_read_s=LATE_S,
    leveled_bin=int(LATE_S // 60.0),
    targets=((LATE_S, 5),),
    ordered={"p-9": Ordered("first", None, LATE_S)},
    made={"h": Made("g", "first", 1, LATE_S)},
    dropped={"u": LATE_S},
    marked={"u": Marked(LATE_S, 2)},
    gave_back={"g": GaveBack(PoolReason.GANG_LATE, LATE_S + 3600.0)},
    created_s=LATE_S,
)


def test_nothing_that_is_kept_lies_after_now() -> None:
    state = until(FULL, NOW_S)
    assert (state.history.last_bin, state.leveled_bin) == (int(NOW_S // 60.0), int(NOW_S // 60.0))
    assert (state.clock.newest_s, state.clock.restored_s, state.claims_read_s, state.created_s) == (NOW_S,) * 4
    assert (state.targets, state.circuits.told) == (((NOW_S, 5),), {"claim": NOW_S})
    assert (state.ordered["p-9"].at_s, state.made["h"].at_s, state.dropped["u"]) == (NOW_S,) * 3
    assert state.marked["u"] == Marked(NOW_S, 2)
    assert state.gave_back["g"].until_s == NOW_S + 3600.0


@pytest.mark.parametrize(
    ("at_s", "rule"),
    [(LATE_S, CAPACITY), (LATE_S, GPUS), (LATE_S, CONTENT), (NOW_S + 3e7, CAPACITY)],
    ids=["capacity", "GPUs that never came", "content", "capacity, by a clock a year ahead"],
)
def test_a_circuit_stays_open_for_no_longer_than_its_rule_says(at_s: float, rule: Rule) -> None:
    kept = opened(at_s, rule)
    circuits = {
        CAPACITY: Circuits(capacity={HERE: kept}),
        GPUS: Circuits(gpus={"first": kept}),
        CONTENT: Circuits(content=kept),
    }[rule]
    known_to = until(PoolState(circuits=circuits), NOW_S).circuits
    (found,) = {*known_to.capacity.values(), *known_to.gpus.values(), known_to.content} - {Circuit()}
    assert found.position(NOW_S) is Position.OPEN
    assert found.position(NOW_S + 1.1 * rule.most_s) is Position.HALF_OPEN
    assert found.opened == kept.opened, "how often it opened is no instant"


@pytest.mark.parametrize(("ahead_s", "shut"), [(0.0, False), (1805.0, True), (5400.0, False)])
def test_claims_that_were_read_nobody_knows_when_are_held_against_no_tier(ahead_s: float, shut: bool) -> None:
    """Half an hour ago three had not joined and two were not launched; all have come, served and gone since. Read a few
    seconds ago, as the second case has it, they had been given up."""
    coming = {f"c-{at}": Unjoined("np-first", NOW_S - 1900.0, None) for at in range(3)}
    circuits = Circuits(unjoined=coming, unlaunched={"c-8": HERE, "c-9": HERE})
    state = until(replace(known(), circuits=circuits, claims_read_s=NOW_S - 1800.0 + ahead_s), NOW_S)
    found = taken(pool(min_slots=1), world(claims=()), state).state.circuits
    stands = [each.position(NOW_S) for each in (*found.gpus.values(), *found.capacity.values())]
    assert stands == [Position.OPEN] * (2 if shut else 0)


def test_demand_before_now_is_kept_minute_by_minute() -> None:
    before = FULL.history
    after = until(FULL, NOW_S).history
    assert before.last_bin is not None
    later = before.last_bin - int(NOW_S // 60.0)
    assert (later, after.levels.size) == (60, before.levels.size - 60)
    np.testing.assert_array_equal([*after.levels, after.level], before.levels[: after.levels.size + 1])


def test_after_a_year_ahead_demand_is_learnt_again_from_now_on() -> None:
    state = until(known(3.0, hours=24.0, now_s=NOW_S + 3e7), NOW_S)
    assert state.history.known == 0
    again = history.noted(state.history, NOW_S + 60.0, 2.0)
    assert (again.last_bin, again.level) == (int((NOW_S + 60.0) // 60.0), 2.0)


def test_a_pool_does_not_stay_as_large_as_an_hour_that_has_not_come_wanted_it() -> None:
    """Five slots stand idle for ten minutes at most (the default) after what asked for them, whoever's clock it was."""
    params, seen = pool(idle_hot_s=600.0), world(fleet(5), demand=(demand(0.0),))
    ahead = replace(known(0.0, hours=24.0, now_s=LATE_S), targets=((LATE_S, 5),))
    gone = {}
    for name, begun in {"as it stands": ahead, "clamped": until(ahead, NOW_S)}.items():
        state = begun
        for minute in range(30):
            state = taken(params, seen, state, NOW_S + 60.0 * minute).state
        gone[name] = max(slots for _, slots in state.targets)
    assert gone == {"as it stands": 5, "clamped": 0}


def test_a_start_is_timed_that_ends_before_what_a_clock_ahead_saw_last() -> None:
    kind = StartKind("h100", "a", "on-demand", "c1", True)
    start = clock.Start("u", kind, [NOW_S + at_s for at_s in (0.0, 60.0, 80.0, 100.0, 120.0, 140.0)])
    assert clock.noted(FULL.clock, [start]).walks == {}
    assert clock.noted(until(FULL, NOW_S).clock, [start]).walks == {kind: ((60.0, 20.0, 20.0, 20.0, 20.0),)}


def test_what_holds_nothing_to_come_is_the_very_same() -> None:
    assert until(FULL, LATE_S) is FULL
    nothing = PoolState()
    assert until(nothing, NOW_S) is nothing


@given(bins=st.integers(0, 50), later=st.integers(-5, 60))
def test_a_history_until_now_holds_what_it_held_of_each_minute(bins: int, later: int) -> None:
    levels = np.arange(bins, dtype=float)
    before = DemandHistory(1000, levels, levels + 0.5, float(bins), bins + 0.5)
    after = history.until(before, (1000 - later) * 60.0 + 59.0)
    held = {} if after.last_bin is None else minutes(after)
    assert held == {at: seen for at, seen in minutes(before).items() if at <= 1000 - later}
    assert after.last_bin is not None or math.isnan(after.level)


def minutes(seen: DemandHistory) -> dict[int, tuple[float, float]]:
    """The level and the peak of each minute."""
    assert seen.last_bin is not None
    columns = zip([*seen.levels, seen.level], [*seen.peaks, seen.peak], strict=True)
    return {seen.last_bin - seen.levels.size + at: pair for at, pair in enumerate(columns)}
