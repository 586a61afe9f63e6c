"""Demand that jumps with the clock: slots are there ahead of the minute, and not for the rest of the hour."""

from dataclasses import replace

import numpy as np
import pytest

from autoscaler.core.columns import F64
from autoscaler.core.pool import growth, hourly
from autoscaler.core.pool.clock import SlotClock, StartKind
from autoscaler.core.pool.history import BIN_S, DAY_S, DemandHistory
from autoscaler.core.pool.hourly import Rhythm
from autoscaler.core.pool.params import LoanTerms
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.state import PoolState, pack, unpack
from autoscaler.core.pool.world import LentSeen
from tests.core.pool.builders import CONTENT, NOW_S, demand, fleet, node, pool, taken, world

REFILL_S = 660.0
LEVEL = 0.98
CRON = np.array([22.0] * 10 + [2.0] * 50)
"""Twenty replicas start on the hour and stay for ten minutes."""


def history(levels: F64, minute: int = 0) -> DemandHistory:
    """A history that ends `minute` minutes after an hour."""
    end = int(NOW_S // DAY_S * 1440) + minute
    last = float(levels[-1])
    return DemandHistory(end, levels.copy(), levels.copy(), last, last)


def day(minute: int, hours: int = 24) -> DemandHistory:
    """A day of what CRON starts, and as many minutes of the next hour."""
    return history(np.concatenate((np.tile(CRON, hours), CRON[:minute])), minute)


def chosen(seen: DemandHistory, hit_ratio: float = 0.99) -> Rhythm | None:
    return hourly.rhythm_for(seen, REFILL_S, hit_ratio, LEVEL)


@pytest.mark.parametrize(
    ("minute", "slots"),
    [(20, 0), (40, 0), (47, 0), (48, 20), (55, 20), (59, 20), (15, 0)],
    ids=str,
)
def test_slots_are_kept_for_a_refill_ahead_of_the_hour_and_not_else(minute: int, slots: int) -> None:
    rhythm = chosen(day(minute))
    assert rhythm is not None
    found = hourly.usual(day(minute), REFILL_S, rhythm)
    assert found is not None
    assert found.slots == slots


def test_the_rule_is_judged_by_hours_that_came_after_what_it_speaks_from() -> None:
    assert chosen(history(np.tile(CRON, 2))) is None, "an hour that speaks, and none beyond it that judges"
    assert chosen(history(np.tile(CRON, 6))) is None, "not five hours that judge, and few rises"
    assert chosen(history(np.concatenate((np.tile(CRON, 6), CRON[:15])), 15)) == Rhythm(hours=1, more=0, reach=1)


@pytest.mark.parametrize(("rises", "is_known"), [(18, False), (19, True)], ids=["19 rises", "20 rises"])
def test_an_hour_judges_alone_where_demand_rose_twenty_times_in_it(rises: int, is_known: bool) -> None:
    """Twenty start on the hour, and one every other minute after them, for a minute each. From the second hour's end
    on, a refill and a few minutes later, an hour has judged."""
    levels = CRON.copy()
    levels[12 : 12 + 2 * rises : 2] += 1.0
    found = chosen(history(np.concatenate((np.tile(levels, 2), levels[:12])), 12))
    assert (found is not None) == is_known


@pytest.mark.parametrize(("minute", "slots"), [(0, 20), (1, 0), (2, 0)], ids=str)
def test_what_came_of_a_jump_is_not_kept_for_again(minute: int, slots: int) -> None:
    found = hourly.usual(day(minute), REFILL_S, Rhythm(24, 0))
    assert found is not None
    assert found.slots == slots, "by the hours before it may be three minutes late, and it was in time"


def test_a_jump_that_is_late_is_kept_for_until_it_comes() -> None:
    levels, late = np.tile(CRON, 24), np.full(3, 2.0)
    kept = [hourly.usual(history(np.concatenate((levels, late[:by])), by), REFILL_S, Rhythm(24, 0)) for by in (0, 1, 2)]
    assert [None if each is None else each.slots for each in kept] == [20, 20, 20]


def test_what_rises_by_chance_takes_nothing_from_a_jump_that_is_due() -> None:
    """Five replicas start two minutes before the hour, which no hour before had."""
    levels = np.concatenate((np.tile(CRON, 24), CRON[:58], [7.0, 7.0]))
    for minute in (58, 59):
        seen = history(levels[: 24 * 60 + minute], minute)
        found = hourly.usual(seen, REFILL_S, Rhythm(24, 0))
        assert found is not None
        assert found.slots == 20


def test_jumps_at_any_minute_are_left_to_the_time_of_day() -> None:
    rng = np.random.default_rng(7)
    levels = np.full(2 * 1440, 2.0)
    for at in rng.choice(levels.size - 10, size=48, replace=False):
        levels[at : at + 10] = 22.0
    assert chosen(history(levels)) is None


@pytest.mark.parametrize(("jumps", "is_clock"), [((30, 90), False), ((30, 90, 150), False), ((30, 90, 150, 210), True)])
def test_a_jump_that_came_again_an_hour_later_once_or_twice_takes_no_slots_for_days(
    jumps: tuple[int, ...], is_clock: bool
) -> None:
    """Twenty start in the first hour and once more an hour later, and nothing for half a day: no clock is known, and
    the time of day keeps slots for the next burst."""
    levels = np.full(700, 2.0)
    for at in jumps:
        levels[at : at + 2] += 10.0
        levels[at + 1 : at + 10] += 10.0
    assert (chosen(history(levels)) is not None) == is_clock


def test_a_climb_of_twenty_minutes_that_came_again_an_hour_later_is_one_rise_and_no_clock() -> None:
    levels = np.full(140, 2.0)
    for at in (30, 90):
        levels[at : at + 20] += np.arange(1.0, 21.0)
        levels[at + 20 : at + 30] += 20.0
    assert chosen(history(levels, 20)) is None


@pytest.mark.parametrize("seed", [4, 33])
def test_jumps_that_come_again_after_an_hour_by_chance_come_again_after_other_intervals_too(seed: int) -> None:
    """Two jumps of twenty within 140 minutes, an hour apart, and one replica that comes and goes all the time: the
    slots that it would have kept speak for the rule. A pool that goes by it stays until a jump does not come again."""
    rng = np.random.default_rng(seed)
    levels = np.full(140, 2.0)
    levels += rng.integers(0, 2, levels.size)
    for at in rng.choice(130, size=2, replace=False):
        levels[at : at + 10] += 20.0
    seen = history(levels, 20)
    assert chosen(seen) is None
    assert hourly.rhythm_for(seen, REFILL_S, 0.99, LEVEL, believed=True) is not None


@pytest.mark.parametrize("minutes", [(0,), (0, 30)], ids=["on the hour", "on the hour and its half"])
def test_a_clock_beside_what_starts_at_any_minute_is_found(minutes: tuple[int, ...]) -> None:
    """Two hundred replicas start with the clock, forty within four hours beside it; each stays for ten minutes."""
    rng = np.random.default_rng(1)
    levels = np.full(240, 2.0)
    for at in (60 * hour + minute for hour in range(4) for minute in minutes):
        levels[at : at + 10] += 200.0
    for at in rng.choice(230, size=40, replace=False):
        levels[at : at + 10] += 1.0
    assert chosen(history(levels)) is not None


def test_level_demand_asks_for_no_rule() -> None:
    assert chosen(history(np.full(1440, 5.0))) is None


def test_what_jumps_besides_is_kept_on_top() -> None:
    levels = np.tile(CRON, 24)
    levels[range(30, levels.size, 97)] += 2.0
    rhythm = chosen(history(levels))
    assert rhythm is not None
    assert rhythm.more + (hourly.usual(history(levels), REFILL_S, rhythm) or growth.Growth(0, 0, "")).slots >= 2


def test_a_schedule_that_was_moved_is_left_once_it_missed() -> None:
    moved = np.concatenate((np.tile(CRON, 24), np.roll(np.tile(CRON, 2), 25)))
    rhythm = chosen(history(moved))
    assert rhythm is None or rhythm.hours == 1, "the hours before it speak no more"


def test_holes_are_passed_over_and_hours_that_are_all_holes_leave_it_to_the_time_of_day() -> None:
    levels = np.tile(CRON, 24)
    levels[-90:-50] = np.nan
    rhythm = chosen(history(levels, 47))
    assert rhythm is not None
    assert hourly.usual(history(np.full(1440, np.nan)), REFILL_S, rhythm) is None


def test_an_hour_whose_jump_nobody_saw_does_not_say_that_there_was_none() -> None:
    """From a minute before the hour demand is not known for a quarter of an hour; its minutes before it all are."""
    levels = np.tile(CRON, 24)
    levels[-61:-46] = np.nan
    unseen = history(levels[:-13], 47)
    assert hourly.usual(unseen, REFILL_S, Rhythm(1, 0)) is None, "the time of day decides"
    found = hourly.usual(unseen, REFILL_S, Rhythm(3, 0))
    assert found is not None
    assert (found.slots, found.samples) == (20, 2), "the two hours before it speak"


def test_an_hour_that_nobody_saw_takes_nothing_from_what_the_time_of_day_asks_for() -> None:
    """Twenty start every sixth hour for ten minutes. Of the last six hours the one that had them is not known."""
    quiet = np.full(60, 2.0)
    levels = np.tile(np.concatenate((CRON, *[quiet] * 5)), 8)[:-10]
    seen = {"all": levels, "without a jump": levels.copy()}
    seen["without a jump"][42 * 60 - 20 : 42 * 60 + 20] = np.nan
    targets = {}
    for what, known in seen.items():
        state = replace(PoolState(history=history(known, 50)), rhythm=Rhythm(6, 0, 1), level=0.99)
        state = replace(state, leveled_bin=state.history.last_bin)
        now_s = (state.history.last_bin or 0) * BIN_S
        done = taken(pool(max_slots=40), world(demand=(demand(2.0),)), state, now_s=now_s)
        targets[what] = done.decision.target, done.decision.reason
    assert targets == {"all": (20, PoolReason.RHYTHM), "without a jump": (20, PoolReason.GROWTH)}


def test_with_a_refill_of_an_hour_no_past_hour_could_speak_in_time() -> None:
    assert hourly.rhythm_for(day(0), 3600.0, 0.99, LEVEL) is None


def test_a_pool_says_that_the_minute_of_the_hour_decided_and_remembers_it_over_a_restart() -> None:
    minute = 50
    seen = day(minute)
    assert seen.last_bin is not None
    now_s = seen.last_bin * BIN_S
    done = taken(pool(max_slots=40), world(demand=(demand(2.0),)), PoolState(history=seen), now_s=now_s)
    assert (done.decision.target, done.decision.reason) == (20, PoolReason.RHYTHM)
    assert done.state.rhythm is not None
    assert dict(done.decision.trace[0].evidence)["hours"] == done.state.rhythm.hours
    assert unpack(pack(done.state)).rhythm == done.state.rhythm


def test_what_a_clock_starts_is_ordered_in_time_for_the_latest_of_its_slots() -> None:
    """One start of twenty took a quarter of an hour, the others ten minutes; a minute passes until the next look."""
    kind = StartKind("h100", "", "on-demand", CONTENT, new_node=True)
    took = [(300.0, 20.0, 130.0, 100.0, 50.0)] * 19 + [(600.0, 20.0, 130.0, 100.0, 50.0)]
    begun = {}
    for walks in (took[:19], took):
        for minute in range(40, 60):
            seen = day(minute)
            assert seen.last_bin is not None
            state = PoolState(history=seen, clock=SlotClock({kind: tuple(walks)}))
            done = taken(pool(max_slots=40), world(demand=(demand(2.0),)), state, now_s=seen.last_bin * BIN_S)
            if done.decision.target:
                begun[len(walks)] = minute
                assert dict(done.decision.trace[0].evidence)["refill_s"] == sum(walks[-1])
                break
    assert begun == {19: 48, 20: 43}, "a refill, a look and a minute's reach before the hour"


LENDS = pool(min_slots=24, max_slots=40, loan=LoanTerms())


def lends(seen: DemandHistory) -> int:
    """Of 24 warm slots those on offer."""
    assert seen.last_bin is not None
    state = PoolState(history=seen)
    done = taken(LENDS, world(fleet(24), demand=(demand(seen.level),)), state, now_s=seen.last_bin * BIN_S)
    assert done.state.rhythm is not None
    return sum(slots for _, slots in done.lending.offer)


@pytest.mark.parametrize(("minute", "slots"), [(12, 23), (20, 23), (30, 4), (50, 4)], ids=str)
def test_slots_that_wait_for_the_hour_are_lent_until_half_an_hour_before_it(minute: int, slots: int) -> None:
    """One of 24 slots is never lent; within half an hour of it the twenty are kept that start on the hour."""
    assert lends(day(minute, hours=48)) == slots


def test_one_day_of_a_clock_lends_by_the_time_of_day_alone() -> None:
    """What comes once a day was seen once: within an hour and a half of any minute twenty start."""
    assert lends(day(20, hours=47)) == 4
    unseen = np.concatenate((np.tile(CRON, 48), CRON[:20]))
    unseen[30 * 60 + 20] = np.nan
    assert lends(history(unseen, 20)) == 4, "of one of two days' hours this minute is not known"


def test_a_burst_that_no_clock_foretold_is_kept_idle_for_the_next_one() -> None:
    found = {}
    for more in (0.0, 3.0, 18.0):
        levels = np.concatenate((np.tile(CRON, 48), CRON[:25]))
        levels[-10:] += more
        found[more] = lends(history(levels, 25))
    assert found == {0.0: 23, 3.0: 21, 18.0: 6}, "twenty came a quarter of an hour before, as on every hour"


def test_a_loan_is_called_back_when_the_hour_comes_near_and_not_at_other_minutes() -> None:
    nodes = tuple(node(f"n-p-{at}") for at in range(24))
    lent = tuple(LentSeen(f"n-p-{at}", 1) for at in range(12, 24))
    recalls = {}
    for minute in (30, 52, 57):
        seen = day(minute, hours=48)
        assert seen.last_bin is not None
        here = world(fleet(12), nodes=nodes, lent=lent, demand=(demand(2.0),))
        done = taken(LENDS, here, PoolState(history=seen), now_s=seen.last_bin * BIN_S)
        recalls[minute] = done.lending.recall
    assert recalls == {30: 0, 52: 0, 57: 8}, "a reclaim of a minute, and three minutes that clocks may differ"


def test_a_checkpoint_of_before_has_no_rhythm_and_a_strange_one_is_refused() -> None:
    saved = pack(PoolState())
    del saved["rhythm"]
    assert unpack(saved).rhythm is None
    assert unpack(saved | {"rhythm": [2, 1]}).rhythm == Rhythm(2, 1, reach=3)
    with pytest.raises(ValueError, match="rhythm"):
        unpack(saved | {"rhythm": [0, -1]})
    with pytest.raises(ValueError, match="rhythm"):
        unpack(saved | {"rhythm": [1, 0, 9]})
