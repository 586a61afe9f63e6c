"""A queue before anybody knows what one replica carries: one request is no evidence, and a hundred are at once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autoscaler.core.observe.told import at_work
from autoscaler.core.params import Params, Slo
from autoscaler.core.reasons import Reason
from autoscaler.core.scale import uncalibrated
from autoscaler.core.scale.uncalibrated import Because, Line, LineColumns
from autoscaler.core.types import Decision, PodReading, Readings, ReplicaReading
from autoscaler.settings.parts import Scrape
from tests.core.toy import Story, Toy, counts, stepped, steps_of

KNOWN = {
    "waiting": 0.0, "before": 0.0, "running": 16.0, "completed": 20.0, "admitted": 20.0, "room": False, "dt_s": 5.0,
    "climb_rps": np.nan,
    "slack_s": 5.0, "lead_s": 30.0, "desired": 1.0, "serving": 1.0, "ready": 1.0, "settled": 1.0,
    "starting": 0.0, "at_work": np.nan, "completing": np.nan,
}  # fmt: skip
"""One replica, full with 16 that stay 4 s each: it completes 4 a second, and nobody knows that it can no more."""


def asked(**fields: float) -> int:
    """Whole replicas, as the proposals round them."""
    line = Line(**{name: np.array([value]) for name, value in (KNOWN | fields).items()})
    return int(np.ceil(uncalibrated.asked(line)[0] - 0.1))


def ordered(told: list[Decision]) -> list[tuple[float, int]]:
    """When another count was decided, and which."""
    return [(d.now_s, d.replicas) for d in told if d.replicas != d.seen_replicas]


# stories ---------------------------------------------------------------------------------------------------------
def glimpsed(readings: Readings) -> Readings:
    """Every 50 s two looks, five seconds apart, each find one request that waits 40 ms for a step to end."""
    first, *others = readings.pods or ()
    seen = 25.0 <= readings.now_s % 50.0 < 35.0
    return replace(readings, pods=(replace(first, waiting=1.0 if seen else 0.0), *others))


def test_one_request_that_waits_for_a_step_to_end_is_no_reason_to_grow() -> None:
    """Two replicas with eight in flight: it took them to 4, 7 and 11 within three minutes."""
    toy = Toy.of(2, 2.0, warmup_s=15.0)
    told = Story(toy, Params(tick_s=5.0, warmup_prior_s=15.0, max_replicas=16)).run(180.0, glimpsed)
    assert set(counts(told)) == {2}


def exploded(tamper: Callable[[Readings], Readings] | None = None) -> Story:
    """One replica of 4 requests/s; at 20 s 3 requests/s become 8, and a start takes 30 s."""
    toy = Toy.of(1, stepped(3.0, 8.0, 20.0), replica_rps=4.0, warmup_s=30.0)
    story = Story(toy, Params(tick_s=5.0, warmup_prior_s=30.0, max_replicas=16, slo=Slo(ttft_s=5.0)))
    story.run(80.0, tamper)
    return story


def test_a_queue_that_outgrows_what_was_ordered_is_answered_before_that_has_landed() -> None:
    """One more was ordered, and it was 30 s until the next order, with 20 more requests waiting every five seconds."""
    orders = ordered(exploded().told)
    assert orders[0] == (30.0, 2), "at the second look at the queue: 40 wait, and one look asks for one more"
    assert orders[1] == (35.0, 4), "60 wait for 16 in flight, and one starts"
    assert orders[-1][0] <= 50.0
    assert 4 <= orders[-1][1] <= 6, "8 requests/s and what waits, on replicas of 4"


def test_what_is_said_names_the_queue_what_runs_and_what_starts() -> None:
    said = [dict(s.evidence) for s in steps_of(exploded().told) if s.reason is Reason.QUEUE_UNCALIBRATED]
    assert [(e["queue"], e["in_flight"], e["starting"]) for e in said[:2]] == [(40.0, 16.0, 0), (60.0, 16.0, 1)]


def watched(
    line: Line, now_s: float, before_s: float | None = None, done_rps: float = 2.0, **columns: float
) -> uncalibrated.Sight:
    """What a look at `now_s` says of a queue that asks for no more, `before_s` after another of the same queue."""
    kept, rows = LineColumns.allocate(1), np.array([0])
    times = {"tick_s": np.array([5.0]), "done_rps": np.array([done_rps])}
    if before_s is not None:
        uncalibrated.look(kept, rows, line, now_s=np.array([before_s]), **times)
    for name, value in columns.items():
        getattr(kept, name)[0] = value
    looked = uncalibrated.look(kept, rows, line, now_s=np.array([now_s]), **times)
    assert int(np.ceil(looked.count[0] - 0.1)) <= line.desired[0], "it asks for no more"
    return uncalibrated.sight(looked, 0)


def woken(replica_rps: float, max_replicas: int = 100) -> Story:
    """Nothing stands and nobody ever served; after two minutes 12 requests/s come, and a start takes ten minutes."""
    toy = Toy.of(0, stepped(0.0, 12.0, 120.0), replica_rps=replica_rps, warmup_s=600.0)
    story = Story(toy, Params(tick_s=5.0, min_replicas=0, max_replicas=max_replicas))
    story.run(1500.0)
    return story


def test_a_queue_that_grows_through_the_first_start_from_nothing_is_not_met_by_one_replica() -> None:
    """It stood at one for ten minutes while 7,000 came to wait: no engine of vLLM's defaults holds more than 256."""
    told = woken(1.0).told
    assert ordered(told)[0] == (125.0, 1), "60 wait, and nothing is known"
    count_at = {d.now_s: d.replicas for d in told}
    assert [count_at[at_s] for at_s in (140.0, 300.0, 600.0)] == [1, 9, 23], "240, 2,160 and 5,760 wait"
    said = next(dict(s.evidence) for s in steps_of(told) if s.reason is Reason.QUEUE_UNCALIBRATED and s.after == 9)
    assert said["held_at_once"] == uncalibrated.HOLDS
    assert not any(d.replicas > 28 for d in told if d.now_s < 720.0), "a level: no more than the queue fills"


def test_what_was_asked_for_a_queue_from_nothing_is_let_go_of_once_one_replica_carries_it_all() -> None:
    told = woken(60.0).told
    assert max(counts(told)) == 29, "7,260 wait when the first is ready"
    assert told[-1].replicas <= 2, "12 requests/s on replicas of 60"


def test_a_queue_from_nothing_keeps_to_the_maximum_and_a_replica_that_is_ready_speaks_for_itself() -> None:
    assert max(counts(woken(1.0, max_replicas=5).told)) == 5
    assert asked(waiting=5000.0, serving=0.0, ready=1.0, running=0.0, desired=1.0) == 1, "it hangs: that is no demand"
    assert asked(waiting=5000.0, serving=0.0, ready=0.0, running=0.0, desired=1.0) == 20


SIXTY = {"waiting": 60.0, "completed": 50.0, "slack_s": 10.0, "lead_s": 180.0, "serving": 2.0}
"""60 wait, 16 are in flight and 10 a second are done by two replicas."""


@pytest.mark.parametrize(
    ("fields", "before_s", "columns", "told"),
    [
        pytest.param({"desired": 4.0, "settled": 2.0}, 0.0, {}, (10.0, 6.0, 0, Because.ENOUGH), id="two more start"),
        pytest.param(
            {"desired": 2.0, "settled": 0.0}, 0.0, {}, (10.0, 6.0, 1, Because.ENOUGH), id="one of two counts so far"
        ),
        pytest.param(
            {"desired": 2.0, "settled": 2.0, "waiting": 12.0}, None, {}, (math.nan, math.nan, 0, Because.SEEN_ONCE),
            id="a first look",
        ),
        pytest.param(
            {"desired": 2.0, "settled": 2.0, "waiting": 5.0}, 0.0, {}, (10.0, 0.5, 0, Because.GONE_AT_ONCE),
            id="they wait for half a second",
        ),
        pytest.param(
            {"desired": 2.0, "settled": 2.0}, 0.0, {"grew_at_s": 2.0, "asked": 2.0},
            (10.0, 6.0, 0, Because.ONCE_A_TICK), id="more was asked for three seconds ago",
        ),
        pytest.param(
            {"desired": 2.0, "settled": 2.0, "completed": np.nan}, 4.5, {"grew_at_s": -5.0, "asked": 2.0},
            (2.0, 30.0, 0, Because.WITHIN_A_SECOND), id="half a second after another look",
        ),
        pytest.param(
            {
                "desired": 9.0, "settled": 0.0, "serving": 0.0, "ready": 0.0, "running": 0.0, "completed": np.nan,
                "done_rps": np.nan,
            },
            0.0, {}, (math.nan, math.nan, 0, Because.NOTHING_SERVED), id="nine start",
        ),
        pytest.param(
            {"desired": 4.0, "settled": 2.0, "running": np.nan, "completed": np.nan}, -600.0, {},
            (math.nan, math.nan, 0, Because.QUEUE_ALONE), id="nothing but a queue is known",
        ),
    ],
)  # fmt: skip
def test_a_queue_that_asks_for_no_more_says_what_is_done_and_why(
    fields: dict[str, float], before_s: float | None, columns: dict[str, float], told: tuple[object, ...]
) -> None:
    """At three in the morning "too little is known" reads as blindness, where all of this is seen."""
    given = KNOWN | SIXTY | fields
    done_rps = given.pop("done_rps", 2.0)
    line = Line(**{name: np.array([value]) for name, value in given.items()})
    assert tuple(watched(line, 5.0, before_s, done_rps, **columns)) == pytest.approx(told, nan_ok=True)


def a_second_page_is_empty(ordered: int, *, ready_for_s: float) -> Decision:
    """One replica holds 16 while a queue grows by four a second to 58; then a second pod is there and tells nothing."""

    def silent(readings: Readings) -> Readings:
        now_s, first = readings.now_s, (readings.pods or ())[0]
        pods = [replace(first, waiting={0.0: 0.0, 5.0: 18.0, 10.0: 38.0, 15.0: 58.0}[now_s], running=16.0)]
        if now_s == 15.0:
            pods.append(PodReading("second", now_s - ready_for_s))
        return replace(readings, replicas=ReplicaReading(ordered, len(pods)), pods=tuple(pods))

    story = Story(Toy.of(1, 4.0, replica_rps=4.0), Params(tick_s=5.0, warmup_prior_s=20.0, max_replicas=16), acts=False)
    return story.run(20.0, silent)[-1]


SLOWEST_S = next(limit.le for limit in Scrape.model_fields["interval_s"].metadata if hasattr(limit, "le"))
"""Settings allow no longer between two readings of a pod's page, nor an answer that takes longer."""


@pytest.mark.parametrize("ready_for_s", [0.4, 2.0 * SLOWEST_S])
@pytest.mark.parametrize("ordered", [2, 3, 4])
def test_a_pod_that_became_ready_and_was_not_read_yet_changes_nothing_of_what_the_queue_asks_for(
    ordered: int, ready_for_s: float
) -> None:
    """Four. Counted as one more that is full it had seven ordered where four stood."""
    told = a_second_page_is_empty(ordered, ready_for_s=ready_for_s)
    assert told.replicas == 4
    if ordered < 4:
        said = next(dict(step.evidence) for step in told.trace if step.reason is Reason.QUEUE_UNCALIBRATED)
        assert (said["in_flight"], said["unread"]) == (16.0, 1)


@pytest.mark.parametrize("ready_for_s", [20.0, -300.0], ids=["for long", "by a node's clock five minutes ahead"])
def test_a_pod_that_was_ready_for_long_and_tells_nothing_is_no_new_one(ready_for_s: float) -> None:
    """It may be as full as the other, and what runs is not known; by a wrong clock it would be new for minutes."""
    told = a_second_page_is_empty(4, ready_for_s=ready_for_s)
    said = next(dict(step.evidence) for step in told.trace if step.reason is Reason.QUEUE_UNCALIBRATED)
    assert (told.replicas, said["in_flight"], "unread" in said) == (7, None, False)


def test_pods_that_start_in_a_second_do_not_multiply_over_a_queue_that_stays_in_an_old_one() -> None:
    """A hundred wait in the first pod and nobody can move them: the new ones idle, and more would idle, too."""

    def stuck(readings: Readings) -> Readings:
        first, *others = readings.pods or ()
        idle = tuple(PodReading(p.name, p.ready_since_s, 0.0, 0.0, 0.0) for p in others)
        return replace(readings, pods=(replace(first, waiting=40.0, running=16.0), *idle))

    toy = Toy.of(1, 4.0, replica_rps=4.0, warmup_s=1.0)
    told = Story(toy, Params(tick_s=2.0, warmup_prior_s=1.0, max_replicas=100)).run(16.0, stuck)
    assert max(counts(told)) <= 4, "40 waiting are those of two and a half replicas with 16 each"


def test_a_controller_that_meets_a_queue_orders_nothing_on_top_of_what_it_finds_starting() -> None:
    toy = Toy.of(4, 24.0, queue=960.0, warmup_s=180.0)
    toy.order(35)
    story = Story(toy, Params(warmup_prior_s=180.0, tick_s=10.0, max_replicas=100))
    assert story.tick().replicas == 35
    assert max(counts(story.run(60.0))) <= 1.2 * 35


@pytest.mark.parametrize("every_s", [5, 10, 15])
def test_a_queue_whose_pages_come_only_now_and_then_is_answered_all_the_same(every_s: int) -> None:
    """200 wait for one replica, and its page comes at every tick, every second and every third."""

    def seldom(readings: Readings) -> Readings:
        first, *others = readings.pods or ()
        if readings.now_s % every_s:
            return replace(readings, pods=None)
        return replace(readings, pods=(replace(first, waiting=200.0, running=16.0), *others))

    toy = Toy.of(1, 4.0, replica_rps=4.0, warmup_s=600.0)
    told = Story(toy, Params(tick_s=5.0, warmup_prior_s=600.0, max_replicas=50)).run(120.0, seldom)
    first_s, replicas = ordered(told)[0]
    assert (first_s <= 2.0 * every_s, replicas) == (True, 2), "at the second look at the queue"


def test_a_queue_that_is_there_after_ten_minutes_of_silence_is_answered_at_the_first_page() -> None:
    def silent(readings: Readings) -> Readings:
        first, *others = readings.pods or ()
        if 10.0 <= readings.now_s < 610.0:
            return replace(readings, pods=None)
        waiting = 200.0 if readings.now_s >= 610.0 else 0.0
        return replace(readings, pods=(replace(first, waiting=waiting, running=16.0), *others))

    toy = Toy.of(1, 1.0, replica_rps=4.0, warmup_s=600.0)
    told = Story(toy, Params(tick_s=5.0, warmup_prior_s=600.0, max_replicas=50)).run(630.0, silent)
    assert ordered(told)[0] == (610.0, 2)


def looked(
    now_s: Sequence[float], waiting: Callable[[float], float], tick_s: float = 5.0, **fields: float
) -> list[int]:
    """Replicas after looks at these instants, each order there at once and starting for ever."""
    columns, rows, desired, told = LineColumns.allocate(1), np.array([0]), 1.0, []
    for at_s in now_s:
        line = Line(**{n: np.array([v]) for n, v in (KNOWN | fields | {"waiting": waiting(at_s)}).items()})
        given = replace(line, desired=np.array([desired]), starting=np.array([desired - 1.0]))
        times = {"now_s": np.array([at_s]), "tick_s": np.array([tick_s]), "done_rps": np.array([np.nan])}
        count = uncalibrated.look(columns, rows, given, **times).count[0]
        desired = max(desired, float(np.ceil(count - 0.1)))
        told.append(int(desired))
    return told


def test_a_queue_that_climbs_by_chance_is_not_taken_to_climb_through_a_start() -> None:
    """Thirteen replicas do the 176 requests/s that come, and queues of up to a second come and go, as in the first
    minute of a recorded day. Seven more were asked for, as what grew between two looks went on for 180 s; since nobody
    waited, 40 s ago, it grew by a quarter of that. Four times as many that come at once are no chance.
    """
    full = {"running": 353.0, "completed": 882.0, "admitted": 882.0, "slack_s": 10.0, "lead_s": 180.0}
    fleet = dict.fromkeys(("serving", "ready", "settled", "desired"), 13.0)
    seen = [0.0, 4.0, 3.0, 136.0, 1.0, 22.0, 85.0, 98.0]
    for last, count in ((186.0, 16), (98.0 + 4 * 882.0, 20)):
        columns, told = LineColumns.allocate(1), list[int]()
        for look, waiting in enumerate([*seen, last]):
            line = Line(**{n: np.array([v]) for n, v in (KNOWN | full | fleet | {"waiting": waiting}).items()})
            times = {"now_s": np.array([5.0 * look]), "tick_s": np.array([5.0]), "done_rps": np.array([176.4])}
            told.append(int(np.ceil(uncalibrated.look(columns, np.array([0]), line, **times).count[0] - 0.1)))
        assert told[1:] == [*[13] * 7, count]


def test_looks_in_a_burst_of_which_only_a_gateways_page_comes_grow_no_faster_than_ticks() -> None:
    """300 wait at a gateway for 8 in flight: what would hold them is 38, and a few clear them."""
    bursts = [tick + step for tick in range(0, 20, 5) for step in (0.0, 0.2, 0.5, 1.2, 2.4)]
    told = looked(bursts, lambda at_s: 300.0 + 10.0 * at_s, running=8.0, completed=0.0, lead_s=60.0)
    assert told == [2] * 5 + [4] * 5 + [7] * 5 + [11] * 5, "once in a tick, and by half and one at most"


@pytest.mark.parametrize(
    ("waiting", "told"),
    [
        pytest.param(40.0, [1, 2, 2, 2, 2], id="too many for one step: what would hold them, once"),
        pytest.param(16.0, [1, 1, 1, 1, 2], id="a batch, which the look after the next finds again"),
    ],
)
def test_a_queue_that_appears_within_a_second_of_a_look_is_answered_at_once_where_it_is_clear(
    waiting: float, told: list[int]
) -> None:
    assert looked([0.0, 0.3, 0.6, 5.3, 10.3], lambda at_s: waiting if at_s else 0.0) == told


def test_a_tick_whose_page_is_a_second_old_asks_for_growth_like_any_other() -> None:
    """A look at the end of a tick takes the page that is there, and the next page comes an instant later."""
    told = looked(
        [0.0, 4.0, 6.0, 7.0, 9.0, 13.0], lambda at_s: 300.0 + 10.0 * at_s, running=8.0, completed=0.0, lead_s=60.0
    )
    assert told == [2, 4, 4, 4, 7, 11]


@pytest.mark.parametrize("apart_s", [0.9994, 1.0, 1.0007])
def test_a_queue_is_seen_a_page_after_a_tick_whichever_of_the_two_came_a_millisecond_early(apart_s: float) -> None:
    """One waits at the page after a tick, 20 five seconds later: too few to be clear by themselves, but they stand."""
    waiting = {apart_s: 1.0, apart_s + 5.0: 20.0}
    assert looked([0.0, *waiting], lambda at_s: waiting.get(at_s, 0.0)) == [1, 1, 2]


@pytest.mark.parametrize("tick_s", [5.0, 60.0, 90.0, 300.0])
def test_a_queue_that_stands_is_answered_at_the_second_look_however_long_a_tick_is(tick_s: float) -> None:
    """20 wait for 16 in flight: too few to be clear by itself."""
    assert looked([0.0, tick_s], lambda _: 20.0, tick_s=tick_s) == [1, 2]


def test_a_fleet_that_was_seen_to_start_orders_what_it_needs_five_seconds_after_it_serves() -> None:
    """Ten start when the controller comes; 14 requests/s then meet replicas of one request/s each and 140 that wait.

    It took what all ten completed for the work of one, and asked for nothing until their capacity was known at 30 s.
    """
    toy = Toy.of(0, 14.0, replica_rps=1.0, service_s=16.0, warmup_s=10.0)
    toy.order(10)
    told = Story(toy, Params(tick_s=5.0, warmup_prior_s=180.0, max_replicas=100)).run(60.0)
    assert ordered(told) == [(15.0, 16), (20.0, 22), (25.0, 23)], "14 for the load, and 8 clear 160 within 20 s"


@pytest.mark.parametrize("warmup_s", [1.0, 2.0, 5.0])
@pytest.mark.parametrize(
    ("load_rps", "queue", "most"),
    [pytest.param(4.5, 300.0, 6, id="a queue"), pytest.param(20.0, 0.0, 8, id="a load"), pytest.param(8.0, 100.0, 5)],
)
def test_pods_that_start_in_seconds_and_serve_at_once_are_ordered_once(
    warmup_s: float, load_rps: float, queue: float, most: int
) -> None:
    """Replicas of 4 requests/s: 300 are cleared within 20 s by 3.8 of them, beside 1.1 for the load."""
    toy = Toy.of(1, load_rps, queue=queue, replica_rps=4.0, warmup_s=warmup_s)
    told = Story(toy, Params(tick_s=2.0, warmup_prior_s=warmup_s, max_replicas=100)).run(20.0)
    assert load_rps / 4.0 < max(counts(told)) <= most


BUSY = PodReading("a", 100.0, 9.0, running=16.0, requests_total=40.0)


@pytest.mark.parametrize(
    ("others", "told"),
    [
        pytest.param((), (1.0, 1.0), id="one alone"),
        pytest.param(
            (replace(BUSY, ready_since_s=None),), (2.0, 2.0), id="another that is ready since nobody knows when"
        ),
        pytest.param((replace(BUSY, running=4.0, waiting=0.0),), (1.25, 1.25), id="another a quarter as full"),
        pytest.param((replace(BUSY, running=0.0),), (1.0, 1.0), id="another that idles"),
        pytest.param((replace(BUSY, requests_total=0.0),), (2.0, 1.0), id="another with its first requests"),
        pytest.param((replace(BUSY, ready_since_s=201.0),), (2.0, 1.0), id="another that came after the last look"),
        pytest.param((PodReading("b", 100.0),), (1.0, 1.0), id="another that tells nothing"),
    ],
)
def test_pods_are_at_work_by_what_they_hold(others: tuple[PodReading, ...], told: tuple[float, float]) -> None:
    assert at_work((BUSY, *others), 200.0) == told


def test_of_pods_that_hold_nothing_nobody_knows_how_full_they_could_be() -> None:
    assert at_work((replace(BUSY, running=0.0), PodReading("b", 100.0)), 200.0) == pytest.approx(
        (math.nan, math.nan), nan_ok=True
    )


@pytest.mark.parametrize(
    ("then", "now", "replicas"),
    [
        pytest.param((1.0, 0.0), (1.0, 7.0, 2.0), 1, id="nine were let in meanwhile, and seven run"),
        pytest.param((1.0, 7.0), (1.0, 5.0, 3.0), 1, id="one was let in, and seven once ran"),
        pytest.param((1.0, 7.0), (1.0, 5.0, 2.0), 2, id="nobody was let in: it is the same one"),
        pytest.param((1.0, 7.0), (1.0, 7.0, 2.0), 2, id="others come and go, but no more than seven ever ran"),
        pytest.param((1.0, 4.0), (1.0, 4.0, 0.0), 2, id="nothing was done, whatever is on average"),
        pytest.param((1.0, 4.0), (2.0, 7.0, 2.0), 2, id="two wait where one did"),
        pytest.param((1.0, 4.0), (5.0, 16.0, 10.0), 2, id="a rise: five wait and the engine has filled up"),
        pytest.param((1.0, np.nan), (1.0, 7.0, 2.0), 2, id="what ran then is not known"),
    ],
)
def test_one_request_that_waits_where_another_did_is_no_queue_while_the_engine_has_room(
    then: tuple[float, float], now: tuple[float, float, float], replicas: int
) -> None:
    """At 0.5 and 5.5 s of a load of 2 requests/s pages showed one request each, and it bought a second replica."""
    columns, rows, desired = LineColumns.allocate(1), np.array([0]), 1.0
    columns.fullest[0] = 7.0
    for at_s, (waiting, running, completed) in ((0.5, (*then, 0.0)), (5.5, now)):
        fields = KNOWN | {"waiting": waiting, "running": running, "completed": completed, "lead_s": 180.0}
        line = Line(**{name: np.array([value]) for name, value in fields.items()})
        times = {"now_s": np.array([at_s]), "tick_s": np.array([5.0]), "done_rps": np.array([0.4])}
        desired = float(np.ceil(uncalibrated.look(columns, rows, line, **times).count[0] - 0.1))
    assert max(desired, 1.0) == replicas


# the law ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fields", "replicas"),
    [
        pytest.param({"waiting": 1.0}, 1, id="one waits, none did before"),
        pytest.param({"waiting": 1.0, "before": 1.0}, 1, id="one waits at two looks, a quarter of a second each"),
        pytest.param({"waiting": 16.0}, 1, id="a batch waits, seen once"),
        pytest.param({"waiting": 16.0, "before": 16.0}, 2, id="a batch waits at two looks"),
        pytest.param({"waiting": 40.0}, 2, id="too many for one step wait, seen once"),
        pytest.param({"waiting": 40.0, "before": np.nan}, 2, id="a first look, and nothing starts"),
        pytest.param(
            {"waiting": 40.0, "before": np.nan, "starting": 1.0, "desired": 2.0}, 2,
            id="a first look at what was ordered for already",
        ),
        pytest.param({"waiting": 114.0, "before": 94.0, "desired": 2.0}, 4, id="114 wait, one starts"),
        pytest.param({"waiting": 114.0, "before": 94.0, "desired": 5.0}, 5, id="114 wait, enough start"),
        pytest.param({"waiting": 30.0, "before": 30.0, "desired": 5.0}, 2, id="what stands grows no more"),
        pytest.param({"waiting": 5.0, "before": 5.0, "running": 0.0, "completed": 0.0}, 1, id="nothing is in flight"),
        pytest.param(
            {"waiting": 100.0, "before": 90.0, "running": 1.0, "completed": 50.0, "desired": 20.0}, 2,
            id="a stay of 0.1 s: a few clear what is a hundred times in flight",
        ),
        pytest.param(
            {"waiting": 60.0, "before": 60.0, "completed": 50.0, "desired": 2.0, "serving": 2.0, "settled": 0.0,
             "at_work": 2.0, "completing": 2.0}, 3, id="2.6 for 10 requests/s and 60 that wait, both seen to start",
        ),
        pytest.param(
            {"waiting": 60.0, "before": 60.0, "completed": 50.0, "running": 160.0, "desired": 10.0, "serving": 10.0,
             "settled": 0.0, "at_work": 10.0, "completing": 10.0}, 13, id="the same of ten: three more clear it",
        ),
        pytest.param(
            {"waiting": 60.0, "before": 60.0, "running": 64.0, "desired": 4.0, "serving": 4.0, "at_work": 4.0}
            | {"completing": 1.0}, 2, id="three new ones are full and have completed nothing so far",
        ),
        pytest.param(
            {"waiting": 60.0, "before": 110.0, "completed": 60.0, "running": 48.0, "desired": 3.0, "serving": 3.0,
             "at_work": 3.0, "completing": 3.0}, 2, id="two new ones serve, and the queue is gone before another could",
        ),
        pytest.param(
            {"waiting": 9.0, "before": 9.0, "running": np.nan, "completed": np.nan}, 2, id="nothing but a queue"
        ),
        pytest.param(
            {"waiting": 9.0, "before": 9.0, "running": np.nan, "completed": np.nan, "desired": 2.0}, 2,
            id="nothing but a queue, and the last order has not shown",
        ),
    ],
)  # fmt: skip
def test_a_queue_counts_by_its_size(fields: dict[str, float], replicas: int) -> None:
    assert asked(**fields) == replicas


def figures(most: float) -> st.SearchStrategy[float]:
    return st.floats(0.0, most) | st.just(np.nan)


RESTS = st.fixed_dictionaries({
    "before": figures(1e4), "running": figures(1e3), "completed": figures(1e3), "dt_s": st.floats(0.5, 60.0),
    "lead_s": st.floats(1.0, 900.0), "serving": st.integers(1, 50).map(float), "at_work": figures(1.0),
    "completing": st.floats(0.0, 1.0), "settled": st.integers(0, 50).map(float),
})  # fmt: skip

NEXT_TO_NOTHING = {
    "before": np.nan, "running": 2e-309, "completed": 1e-308, "dt_s": 1.0, "lead_s": 1.0, "serving": 1.0,
    "at_work": 1.0, "completing": 1.0, "settled": 0.0,
}  # fmt: skip
"""Figures so small that a queue divided by them has no number."""


@given(queues=st.tuples(st.floats(0.0, 1e4), st.floats(0.0, 1e4)), rest=RESTS, more=st.integers(0, 50))
@example(queues=(0.0, 1.0), rest=NEXT_TO_NOTHING | {"completed": np.nan}, more=0)
@example(queues=(0.0, 1.0), rest=NEXT_TO_NOTHING | {"running": np.nan}, more=0)
def test_a_longer_queue_asks_for_no_fewer_and_none_for_more_than_would_hold_it(
    queues: tuple[float, float], rest: dict[str, float], more: int
) -> None:
    desired = rest["serving"] + more
    held_by = rest["at_work"] * rest["serving"]
    busy = {"at_work": held_by, "completing": rest["completing"] * held_by}
    line = rest | {"desired": desired, "starting": float(more)} | busy
    shorter, longer = (max(asked(waiting=queue, **line), desired) for queue in sorted(queues))
    assert desired <= shorter <= longer <= np.floor(1.5 * desired) + 1
    if rest["running"] > 0:
        assert longer <= max(desired, np.ceil(rest["serving"] * (1.0 + max(queues) / rest["running"])))
