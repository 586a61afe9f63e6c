"""Each bound alone, as a table of counts before and after, then what holds between them."""

import itertools
import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest

from autoscaler.core.columns import F64, I64, Bools
from autoscaler.core.reasons import Reason
from autoscaler.core.scale import bounds, propose
from autoscaler.core.scale.bounds import BoundColumns, BoundInputs, Change

ROW = np.array([0])
FAR = 1_000_000_000
NOW_S = 7200.0


@dataclass
class Case:
    """A wish, the count that stands, and whatever is out of the ordinary. `past` is (age_s, wanted, ordered)."""

    wanted: int
    desired: int
    after: int
    past: list[tuple[float, int, int]] = field(default_factory=list)
    failures: int = 0
    given: dict[str, float | bool] = field(default_factory=dict)


def settings(case: Case, wanted: int) -> BoundInputs:
    plain: dict[str, float | bool] = {
        "now_s": NOW_S, "desired": case.desired, "exact": float(wanted), "lead_s": 120.0, "shrinkable": True,
        "loading": False, "zero_allowed": True, "busy": False, "event_floor": 0, "event_ceiling": FAR,
        "min_replicas": 0, "max_replicas": FAR, "quota": FAR, "budget": FAR,
    }  # fmt: skip
    kinds = ((I64, np.int64), (F64, np.float64), (Bools, np.bool_))
    merged = plain | case.given
    columns: dict[str, Any] = {}
    for spec in fields(BoundInputs):  # a field that the table does not know is nought
        kind = next(dtype for alias, dtype in kinds if alias == spec.type)
        columns[spec.name] = np.array([merged.get(spec.name, 0)], dtype=kind)
    return BoundInputs(**columns)


def started(
    columns: BoundColumns, now_s: float, *, finished: int = 0, failed: int = 0, died: int = 0, completed: bool = False
) -> None:
    counts = {name: np.array([n]) for name, n in (("finished", finished), ("failed", failed), ("died", died))}
    bounds.note_starts(columns, ROW, np.array([now_s]), **counts, completed=np.array([completed]))


def memory(case: Case) -> BoundColumns:
    columns = BoundColumns.allocate(1)
    bounds.note(columns, ROW, np.array([NOW_S - 4000.0]), np.array([0]), np.array([0]))  # met long ago
    for age_s, wanted, ordered in sorted(case.past, reverse=True):
        bounds.note(columns, ROW, np.array([NOW_S - age_s]), np.array([wanted]), np.array([ordered]))
    for _ in range(case.failures):
        started(columns, NOW_S - 5.0, failed=1)
    return columns


def outcome(case: Case) -> tuple[int, list[Reason], list[Change]]:
    columns, wanted = memory(case), np.array([case.wanted])
    inputs = settings(case, case.wanted)
    soft = bounds.soft(columns, ROW, wanted, inputs)
    hard = bounds.hard(columns, ROW, soft[-1].after if soft else wanted, inputs)
    chain = [*soft, *hard]
    return int(chain[-1].after[0]) if chain else case.wanted, [change.reason for change in chain], chain


def grown(standing: int) -> int:
    """The most that the rate up allows from here."""
    return max(standing + bounds.RATE_UP_ADD, math.ceil(standing * bounds.RATE_UP_FACTOR))


def paced(standing: int) -> int:
    """The least that the rate down allows from here."""
    return standing - max(1, math.floor(standing * bounds.RATE_DOWN_RATIO))


STEADY_50 = [(age_s, 50, 50) for age_s in np.arange(0.0, 100.0, 10.0)]

TABLE: dict[str, tuple[Reason | None, Case]] = {
    "nothing binds a modest growth": (None, Case(7, 4, 7)),
    "nothing binds a wish that stands": (None, Case(4, 4, 4)),
    "growth from nought is free": (None, Case(400, 0, 400)),
    # soft
    "growth of many times waits": (Reason.RATE_UP, Case(40_000, 4, grown(4))),
    "growth by a factor counts from the lowest order of the minute": (
        Reason.RATE_UP, Case(40_000, 100, 320, [(30.0, 20, 20)]),
    ),
    "growth by a number counts from the lowest of the last 15 s": (
        Reason.RATE_UP, Case(40_000, 64, 64, [(10.0, 4, 4)]),
    ),
    "then it may go on by as many": (Reason.RATE_UP, Case(40_000, 64, 104, [(20.0, 4, 4), (10.0, 64, 64)])),
    "a minute later it may go on": (Reason.RATE_UP, Case(40_000, 40, grown(40), [(90.0, 4, 4)])),
    "a wish of nought shrinks at the pace": (Reason.RATE_DOWN, Case(0, 50, paced(50))),
    "the pace is at least one": (Reason.RATE_DOWN, Case(0, 2, 1)),
    "what was shrunk within the minute counts": (
        Reason.RATE_DOWN, Case(0, paced(50) + 1, paced(50), [(30.0, 0, 50)]),
    ),
    "a minute later it shrinks on": (Reason.RATE_DOWN, Case(0, paced(50), paced(paced(50)), [(90.0, 0, 50)])),
    "a higher need of a moment ago holds": (Reason.STABILISATION, Case(40, 50, 50, STEADY_50)),
    "a higher need of long ago does not": (None, Case(47, 50, 47, [(1900.0, 50, 50)])),
    "in its first hour a workload is held for longer": (
        Reason.STABILISATION, Case(47, 50, 50, [(250.0, 50, 50)], given={"young": True}),
    ),
    "later it is not": (None, Case(47, 50, 47, [(250.0, 50, 50)])),
    "the hold never raises": (None, Case(3, 3, 3, [(30.0, 60, 3)])),
    "a need just below the smaller count stays": (Reason.DEADBAND, Case(4, 5, 5, given={"exact": 3.95})),
    "of two replicas one goes where half of one is needed": (None, Case(1, 2, 1, given={"exact": 0.4})),
    "of two both stay where nearly one is needed": (Reason.DEADBAND, Case(1, 2, 2, given={"exact": 0.7})),
    "of three all stay a little below two": (Reason.DEADBAND, Case(2, 3, 3, given={"exact": 1.3})),
    "a need clearly below it goes": (None, Case(4, 5, 4, given={"exact": 2.9})),
    "after failures growth pauses": (Reason.BACK_OFF, Case(9, 4, 4, failures=3)),
    "two failures do not pause it": (None, Case(9, 4, 9, failures=2)),
    "a pause holds, it does not shrink": (None, Case(4, 4, 4, failures=5)),
    "a pause never keeps a service at nought": (Reason.BACK_OFF, Case(9, 0, 1, failures=5)),
    "stale readings do not shrink": (Reason.STALE, Case(1, 4, 4, given={"shrinkable": False})),
    "stale readings may grow": (None, Case(6, 4, 6, given={"shrinkable": False})),
    "a loading model is not zeroed": (Reason.LOADING, Case(0, 1, 1, given={"loading": True})),
    "without a signal at nought it keeps one": (Reason.ZERO_REFUSED, Case(0, 1, 1, given={"zero_allowed": False})),
    "work within the residency limit keeps one": (Reason.STABILISATION, Case(0, 1, 1, given={"busy": True})),
    "idle, and seen from a gateway, it goes to nought": (None, Case(0, 1, 0)),
    # hard
    "an event's floor raises": (Reason.EVENT_FLOOR, Case(3, 3, 9, given={"event_floor": 9})),
    "an event's ceiling stops growth": (Reason.EVENT_CEILING, Case(9, 4, 5, given={"event_ceiling": 5})),
    "an event's ceiling keeps the pace": (Reason.EVENT_CEILING, Case(50, 50, paced(50), given={"event_ceiling": 5})),
    "the minimum raises": (Reason.FLOOR, Case(1, 2, 3, given={"min_replicas": 3})),
    "the maximum stops growth": (Reason.MAX, Case(30, 4, 5, given={"max_replicas": 5})),
    "a maximum below what stands shrinks at the pace": (Reason.MAX, Case(50, 50, paced(50), given={"max_replicas": 5})),
    "and on stale readings too": (Reason.MAX, Case(50, 50, paced(50), given={"max_replicas": 5, "shrinkable": False})),
    "and through a fresh high need": (Reason.MAX, Case(50, 50, paced(50), STEADY_50, given={"max_replicas": 5})),
    "the quota stops growth": (Reason.QUOTA, Case(30, 4, 12, given={"quota": 12})),
    "a quota below what stands shrinks at the pace": (Reason.QUOTA, Case(50, 50, paced(50), given={"quota": 0})),
    "the budget stops growth": (Reason.BUDGET, Case(30, 4, 12, given={"budget": 12})),
    "the budget beats the minimum": (Reason.BUDGET, Case(4, 4, 4, given={"min_replicas": 8, "budget": 4})),
    "a budget of nought ends at nought": (Reason.BUDGET, Case(1, 1, 0, given={"budget": 0})),
    "contradicting events change nothing": (
        Reason.INFEASIBLE, Case(6, 5, 5, given={"event_floor": 9, "event_ceiling": 3}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_a_bound_alone(name: str) -> None:
    reason, case = TABLE[name]
    after, reasons, _ = outcome(case)
    assert after == case.after
    assert (reason in reasons) if reason else (reasons == [])


def test_every_bound_stands_in_the_table() -> None:
    named = {reason for reason, _ in TABLE.values()}
    order = [*Reason]
    bound = set(order[order.index(Reason.RATE_UP) : order.index(Reason.INFEASIBLE) + 1])
    bound |= {Reason.EVENT_FLOOR, Reason.EVENT_CEILING}
    assert bound - named == set()


@pytest.mark.parametrize("name", TABLE)
def test_changes_form_a_chain(name: str) -> None:
    case = TABLE[name][1]
    _, _, chain = outcome(case)
    numbers = [case.wanted]
    for change in chain:
        assert int(change.before[0]) == numbers[-1]
        numbers.append(int(change.after[0]))
    assert all(a != b for a, b in itertools.pairwise(numbers))


@pytest.mark.parametrize("limit", ["max_replicas", "quota", "budget"])
def test_a_lowered_limit_is_reached_within_the_pace_and_then_kept(limit: str) -> None:
    columns, count, lows = BoundColumns.allocate(1), 50, [50]
    for i in range(240):
        now_s = NOW_S + 10.0 * i
        case = Case(50, count, 0, given={limit: 10, "now_s": now_s})
        bounds.note(columns, ROW, np.array([now_s]), np.array([50]), np.array([count]))
        inputs = settings(case, 50)
        soft = bounds.soft(columns, ROW, np.array([50]), inputs)
        hard = bounds.hard(columns, ROW, soft[-1].after if soft else np.array([50]), inputs)
        count = int((hard or soft)[-1].after[0])
        lows.append(count)
    assert lows[-1] == 10
    assert all(b <= a for a, b in itertools.pairwise(lows))
    for earlier, later in zip(lows, lows[6:], strict=False):
        assert later >= paced(paced(earlier)), "one pace a minute, and one more where minutes overlap"


@pytest.mark.parametrize("standing", [1, 4, 10, 11, 40])
@pytest.mark.parametrize("begin_s", [0.0, 4.0, 9.9])
def test_a_minute_of_an_absurd_wish_costs_sixteen_times_what_stood_or_160_more(standing: int, begin_s: float) -> None:
    """One bad reading stays in the mean for a minute (to a bin)."""
    columns, count = BoundColumns.allocate(1), standing
    bounds.note(columns, ROW, np.array([NOW_S - 4000.0]), np.array([0]), np.array([0]))
    counted = []
    for i in range(10):
        now_s = NOW_S + begin_s + 5.0 * i
        bounds.note(columns, ROW, np.array([now_s]), np.array([10**6]), np.array([count]))
        inputs = settings(Case(10**6, count, 0, given={"now_s": now_s}), 10**6)
        count = int(bounds.soft(columns, ROW, np.array([10**6]), inputs)[-1].after[0])
        counted.append(count)
    assert counted[0] == grown(standing)
    assert counted[1] <= max(16 * standing, standing + 80), "the next look may be in the next 15 s"
    assert count <= max(16 * standing, standing + 160)


def test_each_failure_after_a_pause_doubles_it_and_one_success_ends_it() -> None:
    columns, now_s, pauses = BoundColumns.allocate(1), 0.0, list[float]()
    for _ in range(10):
        started(columns, now_s, failed=1)
        until_s = float(columns.back_off_until_s[0])
        pauses.append(0.0 if np.isnan(until_s) else until_s - now_s)
        now_s = max(now_s, float(np.nan_to_num(until_s))) + 1.0
    assert pauses == [0.0, 0.0, 60.0, 120.0, 240.0, 480.0, 960.0, 960.0, 960.0, 960.0], "it never gives up for good"
    started(columns, now_s, finished=1)
    assert columns.failures[0] == columns.pauses[0] == 0
    after, reasons, _ = outcome(Case(9, 4, 9))
    assert np.isnan(columns.back_off_until_s[0])
    assert (after, reasons) == (9, [])


def test_after_pods_died_of_their_first_requests_only_a_completed_one_is_a_success() -> None:
    columns = BoundColumns.allocate(1)
    started(columns, 0.0, died=2)
    started(columns, 10.0, finished=2)
    started(columns, 20.0, died=1)
    assert (columns.failures[0], columns.back_off_until_s[0]) == (3, 80.0)
    started(columns, 30.0, finished=3, died=1, completed=True)
    assert columns.failures[0] == columns.died[0] == 0
    assert np.isnan(columns.back_off_until_s[0])


@pytest.mark.parametrize("starting", [8, 0], ids=["while they start", "with their first requests"])
def test_a_node_that_is_lost_with_eight_young_pods_pauses_growth_for_a_minute(starting: int) -> None:
    """It was 16 minutes: two to the power of eight failures. Who fails again after that waits twice as long."""
    columns = BoundColumns.allocate(1)
    started(columns, 0.0, failed=starting, died=8 - starting)
    assert (columns.failures[0], columns.back_off_until_s[0]) == (8, bounds.BACK_OFF_S)
    started(columns, 100.0, died=1)
    assert (columns.failures[0], columns.back_off_until_s[0]) == (9, 100.0 + 2 * bounds.BACK_OFF_S)


def test_a_lost_nodes_pods_that_end_over_several_looks_double_no_pause_and_all_are_told() -> None:
    """Five, then three: it was eight minutes."""
    columns = BoundColumns.allocate(1)
    started(columns, 0.0, failed=5)
    started(columns, 5.0, failed=1, died=1)
    started(columns, 20.0, died=1)
    assert (columns.failures[0], columns.died[0], columns.pauses[0]) == (8, 2, 1)
    assert columns.back_off_until_s[0] == 20.0 + bounds.BACK_OFF_S


@pytest.mark.parametrize(
    ("now_s", "pause_s"), [(900.0, 240.0), (1000.0, 480.0)], ids=["while it pauses", "after its pause"]
)
def test_a_pause_that_an_older_build_kept_goes_on_from_the_failures_that_it_counted(
    now_s: float, pause_s: float
) -> None:
    """Five failures in a row: the third pause of 1, 2, 4 minutes, which ends at 960 s."""
    columns = BoundColumns.allocate(1)
    columns.unpack(0, {"failures": 5.0, "died": 0.0, "back_off_until_s": 960.0})
    started(columns, now_s, failed=1)
    assert (columns.failures[0], columns.back_off_until_s[0]) == (6, now_s + pause_s)


@pytest.mark.parametrize(
    ("until_s", "after"),
    [
        pytest.param(NOW_S + 960.04, 4, id="the longest, as a checkpoint rounds it"),
        pytest.param(NOW_S + 4500.0, 9, id="an hour ahead"),
        pytest.param(NOW_S - 1.0, 9, id="over"),
    ],
)
def test_a_pause_that_a_clock_an_hour_ahead_set_does_not_last_until_then(until_s: float, after: int) -> None:
    columns, wish = memory(Case(9, 4, after)), np.array([9])
    columns.back_off_until_s[0] = until_s
    soft = bounds.soft(columns, ROW, wish, settings(Case(9, 4, after), 9))
    assert int(soft[-1].after[0] if soft else wish[0]) == after


def test_what_a_clock_that_was_an_hour_ahead_kept_limits_nothing_and_holds_nothing() -> None:
    """Two stood by that clock and 50 were wanted; 64 stand, and none of it is of the last minute."""
    columns, wish = BoundColumns.allocate(1), np.array([64_000])
    for age_s in range(-3700, -3500, 10):
        bounds.note(columns, ROW, np.array([NOW_S - age_s]), np.array([50]), np.array([2]))
    columns.met_at_s[0], columns.met_with[0] = NOW_S + 3600.0, 2
    assert bounds.forgotten(columns, ROW, np.array([NOW_S])).all()
    bounds.note(columns, ROW, np.array([NOW_S]), np.array([7]), np.array([64]))
    assert (columns.bin[0] >= 0).sum() == 1
    assert columns.wanted[0][columns.bin[0] >= 0].tolist() == [64], "as at first sight"
    soft = bounds.soft(columns, ROW, wish, settings(Case(64_000, 64, 0), 64_000))
    assert int(soft[-1].after[0]) == 1024


def test_a_clock_set_back_by_minutes_shrinks_nothing_that_was_wanted_until_then() -> None:
    """Four were wanted for 25 minutes and 64 in the last five, by a clock that was so far ahead; a gap needs 20."""
    columns, wish = BoundColumns.allocate(1), np.array([20])
    for at_s in range(-1500, 300, 10):
        count = np.array([4 if at_s <= 0 else 64])
        bounds.note(columns, ROW, np.array([NOW_S + at_s]), count, count)
    bounds.note(columns, ROW, np.array([NOW_S]), wish, np.array([64]))
    soft = bounds.soft(columns, ROW, wish, settings(Case(20, 64, 64), 20))
    assert int(soft[-1].after[0]) == 64


@pytest.mark.parametrize(("tick_s", "after"), [(5.0, 64), (60.0, 64), (120.0, 1024), (300.0, 1024)])
def test_a_tick_of_two_minutes_takes_its_own_last_order_for_no_growth_of_others(tick_s: float, after: int) -> None:
    """Four stood at the look two minutes ago and 60 were ordered, which became ready in the last minute."""
    columns, wish, tick = BoundColumns.allocate(1), np.array([64_000]), np.array([tick_s])
    bounds.note(columns, ROW, np.array([NOW_S - 120.0]), np.array([64]), np.array([4]), tick_s=tick)
    given = {"begun": np.array([0]), "landed": np.array([60]), "tick_s": tick}
    bounds.note(columns, ROW, np.array([NOW_S]), wish, np.array([64]), **given)
    soft = bounds.soft(columns, ROW, wish, settings(Case(64_000, 64, 0), 64_000))
    assert int(soft[-1].after[0]) == after


@pytest.mark.parametrize("desired", [1, 2, 3, 9, 10, 11, 99, 1000])
def test_the_pace_takes_at_least_one_and_never_more_than_its_share(desired: int) -> None:
    left = int(bounds.pace_floor(np.array([desired]))[0])
    assert left == paced(desired)
    assert 0.4 * desired <= left < desired or desired == 1


@pytest.mark.parametrize("need", [1e19, 1e70, 1e300])
def test_a_need_beyond_counting_does_not_wrap(need: float) -> None:
    assert propose.count(np.array([need]))[0] >= 100_000


def test_what_stands_at_first_sight_counts_as_wanted() -> None:
    columns = BoundColumns.allocate(1)
    bounds.note(columns, ROW, np.array([NOW_S]), np.array([2]), np.array([9]))
    bounds.note(columns, ROW, np.array([NOW_S + 10.0]), np.array([2]), np.array([9]))
    assert sorted(columns.wanted[0][columns.bin[0] >= 0].tolist()) == [2, 9]


@pytest.mark.parametrize(
    ("past_s", "known", "begun", "landed", "after"),
    [
        pytest.param(None, 64, 60, 0, 64, id="never met, and they start"),
        pytest.param(None, 64, 0, 60, 64, id="never met, and they serve since"),
        pytest.param(None, 64, 20, 20, 384, id="never met, and some of them do"),
        pytest.param(300.0, 4, 60, 0, 64, id="four stood five minutes ago, the others start"),
        pytest.param(300.0, 4, 0, 60, 64, id="four stood five minutes ago, the others serve since"),
        pytest.param(300.0, 64, 20, 40, 1024, id="as many stood: a rollout"),
        pytest.param(300.0, 4, 0, 0, 1024, id="nothing began"),
        pytest.param(20.0, 64, 20, 40, 1024, id="seen all the time"),
    ],
)
def test_what_began_before_anybody_looked_is_the_minutes_growth(
    past_s: float | None, known: int, begun: int, landed: int, after: int
) -> None:
    """64 stand, of which some started or began to serve within the last minute; a thousand times as many are wished."""
    columns, wish = BoundColumns.allocate(1), np.array([64_000])
    if past_s is not None:
        bounds.note(columns, ROW, np.array([NOW_S - past_s]), np.array([known]), np.array([known]))
    now_s = np.array([NOW_S])
    bounds.note(columns, ROW, now_s, wish, np.array([64]), begun=np.array([begun]), landed=np.array([landed]))
    soft = bounds.soft(columns, ROW, wish, settings(Case(64_000, 64, 0), 64_000))
    assert int(soft[-1].after[0]) == after


def test_rows_do_not_touch_each_other() -> None:
    names = list(TABLE)
    columns = BoundColumns.allocate(len(names))
    for row, name in enumerate(names):
        alone = memory(TABLE[name][1])
        for spec in fields(BoundColumns):
            getattr(columns, spec.name)[row] = getattr(alone, spec.name)[0]
    cases = [TABLE[name][1] for name in names]
    single = [settings(case, case.wanted) for case in cases]
    every = replace(
        single[0], **{f.name: np.concatenate([getattr(s, f.name) for s in single]) for f in fields(BoundInputs)}
    )
    rows, wanted = np.arange(len(names)), np.array([case.wanted for case in cases])
    soft = bounds.soft(columns, rows, wanted, every)
    hard = bounds.hard(columns, rows, soft[-1].after if soft else wanted, every)
    assert hard[-1].after.tolist() == [case.after for case in cases]


@pytest.mark.parametrize(
    "back_s", [0.0, 40.0, 300.0, 2500.0], ids=["steady", "a bin", "five minutes", "beyond what is kept"]
)
def test_what_was_lately_is_found_among_all_that_is_remembered_and_nothing_ahead_of_a_clock_set_back(
    back_s: float,
) -> None:
    """Counts of two workloads over an hour, at even and uneven times; then the clock goes back, or does not."""
    rng, rows, columns = np.random.default_rng(7), np.array([0, 1]), BoundColumns.allocate(2)
    noted: list[dict[int, list[tuple[int, int]]]] = [{}, {}]
    for at_s in np.cumsum(rng.choice([5.0, 10.0, 70.0], 150)).tolist():
        wanted, stood = rng.integers(0, 90, 2), rng.integers(1, 90, 2)
        bounds.note(columns, rows, np.full(2, at_s), wanted, stood)
        for row in rows.tolist():
            noted[row].setdefault(int(at_s // 10), []).append((int(wanted[row]), int(stood[row])))
    for row in rows.tolist():  # met with what stands, as wanted
        first = min(noted[row])
        noted[row][first][0] = (max(noted[row][first][0]), noted[row][first][0][1])
    kept = set({n % bounds.KEEP: n for n in sorted(noted[0])}.values())
    now_s = at_s - back_s
    number = int(now_s // 10)
    for seconds in (15.0, 30.0, 60.0, 300.0):
        found = bounds.least_within(columns, rows, np.full(2, now_s), np.array([50, 50]), seconds)
        for row in rows.tolist():
            lately = [n for n in noted[row] if n in kept and 0 <= (number - n) * 10 < seconds]
            assert found[row] == min([50, *(stood for n in lately for _, stood in noted[row][n])])
    case = Case(0, 100, 0, given={"now_s": now_s, "lead_s": 1200.0})
    inputs = settings(case, 0)
    both = replace(inputs, **{f.name: np.repeat(getattr(inputs, f.name), 2) for f in fields(BoundInputs)})
    held = {c.reason: c.after for c in bounds.soft(columns, rows, np.array([0, 0]), both)}[Reason.STABILISATION]
    for row in rows.tolist():
        lately = [n for n in noted[row] if n in kept and 0 <= (number - n) * 10 <= 300]
        assert held[row] == max(50, *(wanted for n in lately for wanted, _ in noted[row][n])), "half may go in a minute"
