"""Every reason a decision can carry, provoked by a story; a reason nobody can provoke has no sentence worth reading."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from autoscaler.core.params import Feature, KnownEvent, Params, Slo
from autoscaler.core.reasons import Reason
from autoscaler.core.types import Decision, Limits, Readings
from autoscaler.core.view import view
from tests.core.toy import NAME, Story, Toy, cut


def opened(load: float = 6.0, replicas: int = 4, **params: object) -> Story:
    """Five minutes in: the capacity of a replica, 2 requests/s, is known from a short queue at the start."""
    story = Story(
        Toy.of(replicas, load, queue=15.0 * replicas),
        Params(**{"tick_s": 10.0, "warmup_prior_s": 120.0} | params),  # type: ignore[arg-type]  # Params' own fields
    )
    story.run(300.0)
    return story


def then(story: Story, load: float | Callable[[float], float], span_s: float) -> list[Decision]:
    """Go on with another load."""
    story.toy.load = load if callable(load) else lambda _s: load
    return story.run(span_s)


def demand_now() -> list[Decision]:
    """The load more than doubles at once, within what stands: no forecast knows it yet and no queue grows."""
    return then(opened(6.0, 12), 16.0, 20.0)


def concurrency() -> list[Decision]:
    """Requests become six times as long and rarer: the rate needs one replica, what is in flight fills six."""
    story = opened()
    story.toy.service_s *= 6.0
    return then(story, 2.0, 400.0)


def memory() -> list[Decision]:
    """Long prompts fill every cache while the rate is low, and one in each pod waits for room."""

    def full(readings: Readings) -> Readings:
        return replace(readings, pods=tuple(replace(p, kv_cache_usage=1.0, waiting=1.0) for p in readings.pods or ()))

    return opened(2.0).run(300.0, full)


def forecast() -> list[Decision]:
    return then(opened(), lambda t: 6.0 + 0.02 * (t - 300.0), 600.0)


def backlog() -> list[Decision]:
    return then(opened(), 20.0, 60.0)


def queue_uncalibrated() -> list[Decision]:
    """The first look has nothing to compare with; at the third the capacity is known."""
    return Story(Toy.of(1, 6.0, queue=200.0), Params(tick_s=10.0)).run(20.0)


def concurrency_floor() -> list[Decision]:
    """An hour of bursts that take 20 s of every minute: the mean is low, every minute needed far more. Without the
    forecast term, which knows the same and asks for no less."""
    story = opened(8.0, 40, slo=Slo(wait_s=1.0), without=frozenset({Feature.FORECAST}))
    story.acts = False
    return then(story, lambda t: 60.0 if t % 60.0 < 20.0 else 0.0, 3900.0)


def queue_unseen() -> list[Decision]:
    """More come than four carry, and the gateway that told the line is silent."""

    def hidden(readings: Readings) -> Readings:
        return replace(readings, pods=tuple(replace(p, waiting=0.0) for p in readings.pods or ()), gateway=None)

    story = opened()
    story.toy.load = lambda _s: 32.0
    return story.run(300.0, hidden)


def wake() -> list[Decision]:
    return Story(Toy.of(0, 5.0, queue=9.0), Params(min_replicas=0)).run(10.0)


def late_start() -> list[Decision]:
    story = opened()
    then(story, 20.0, 200.0)
    story.toy.slow_s = 1200.0
    return then(story, 60.0, 400.0)


def event_floor() -> list[Decision]:
    return opened(events=(KnownEvent(300.0, 400.0, floor=11),)).run(20.0)


def event_ceiling() -> list[Decision]:
    return then(opened(events=(KnownEvent(300.0, 400.0, ceiling=5),)), 30.0, 60.0)


def idle() -> list[Decision]:
    return then(opened(min_replicas=0, idle_after_s=300.0), 0.0, 700.0)


def noise() -> list[Decision]:
    """Shadowed: excesses of 20 s every three minutes, then one that is far higher; none ever outlived a start."""
    story = opened(4.0, 3)
    story.acts = False
    then(story, lambda t: 12.0 if t % 180.0 < 20.0 else 3.0, 2100.0)
    return then(story, 200.0, 20.0)


def burst_ceiling() -> list[Decision]:
    """A load that comes and goes every five minutes: its usual error asks for more than 1.3 times its peak."""
    return then(opened(6.0, 4), lambda t: 60.0 if t % 600.0 < 300.0 else 1.0, 7200.0)


def rate_up() -> list[Decision]:
    return then(opened(6.0, 4, max_replicas=1000), 400.0, 60.0)


def rate_down() -> list[Decision]:
    return then(opened(100.0, 60), 2.0, 600.0)


def stabilisation() -> list[Decision]:
    return then(opened(8.0, 5), 2.0, 200.0)


def deadband() -> list[Decision]:
    """The need lies just below a whole number: 5.9 replicas' worth, then a little less."""
    story = opened(8.5, 6)
    return then(story, lambda t: max(6.0, 8.5 - 0.001 * (t - 300.0)), 2400.0)


def back_off() -> list[Decision]:
    """Starts die after 20 s, again and again, while the load grows."""
    story = opened()
    story.toy.fail_after_s = 20.0
    return then(story, lambda t: 20.0 + 0.1 * (t - 300.0), 300.0)


def stale() -> list[Decision]:
    story = opened(20.0, 12)
    story.toy.load = lambda _s: 2.0
    story.run(60.0)
    return story.run(300.0, lambda r: replace(r, pods=tuple(replace(p, running=None) for p in r.pods or ())))


def loading() -> list[Decision]:
    """Asleep, woken by one request whose client gives up; the load takes longer than the residency limit."""
    story = opened(6.0, 2, min_replicas=0, idle_after_s=60.0)
    then(story, 0.0, 1200.0)
    assert story.replicas == 0
    story.toy.queue, story.toy.warmup_s = 1.0, 900.0
    story.run(10.0)
    story.toy.queue = 0.0
    return story.run(600.0)


def zero_refused() -> list[Decision]:
    """Nobody reports a queue at a gateway, so at nought nobody would see a request."""
    story = Story(Toy.of(4, 6.0, queue=60.0), Params(min_replicas=0, idle_after_s=120.0, tick_s=10.0))
    no_gateway: Callable[[Readings], Readings] = lambda r: replace(r, gateway=None)  # noqa: E731 - one line
    story.run(300.0, no_gateway)
    story.toy.load = lambda _s: 0.0
    return story.run(1800.0, no_gateway)


def floor() -> list[Decision]:
    return then(opened(6.0, 6, min_replicas=5), 0.0, 1500.0)


def maximum() -> list[Decision]:
    return then(opened(max_replicas=5), 40.0, 30.0)


def limited(limits: Limits) -> list[Decision]:
    story = opened()
    story.toy.limits = limits
    return then(story, 40.0, 30.0)


def infeasible() -> list[Decision]:
    events = (KnownEvent(300.0, 400.0, floor=9), KnownEvent(300.0, 400.0, ceiling=3))
    return opened(events=events).run(20.0)


def wedged() -> list[Decision]:
    """The first pod holds requests and its counters stand still."""
    story = opened(4.0)
    stuck = (story.toy.readings().pods or ())[0]

    def hang(readings: Readings) -> Readings:
        return replace(readings, pods=(replace(stuck, waiting=9.0, running=8.0), *tuple(readings.pods or ())[1:]))

    return story.run(120.0, hang)


def steady() -> list[Decision]:
    return then(opened(), 8.0, 300.0)


def no_signal() -> list[Decision]:
    return Story(Toy.of(4, 5.0)).run(10.0, cut)


def outdated() -> list[Decision]:
    story = opened()
    story.toy.now_s -= 60.0
    return [story.tick()]


STORIES: dict[Reason, Callable[[], list[Decision]]] = {
    Reason.DEMAND_NOW: demand_now,
    Reason.CONCURRENCY: concurrency,
    Reason.MEMORY: memory,
    Reason.FORECAST: forecast,
    Reason.BACKLOG: backlog,
    Reason.QUEUE_UNCALIBRATED: queue_uncalibrated,
    Reason.QUEUE_UNSEEN: queue_unseen,
    Reason.CONCURRENCY_FLOOR: concurrency_floor,
    Reason.WAKE: wake,
    Reason.LATE_START: late_start,
    Reason.EVENT_FLOOR: event_floor,
    Reason.EVENT_CEILING: event_ceiling,
    Reason.IDLE: idle,
    Reason.NOISE: noise,
    Reason.BURST_CEILING: burst_ceiling,
    Reason.RATE_UP: rate_up,
    Reason.RATE_DOWN: rate_down,
    Reason.STABILISATION: stabilisation,
    Reason.DEADBAND: deadband,
    Reason.BACK_OFF: back_off,
    Reason.STALE: stale,
    Reason.LOADING: loading,
    Reason.ZERO_REFUSED: zero_refused,
    Reason.FLOOR: floor,
    Reason.MAX: maximum,
    Reason.QUOTA: lambda: limited(Limits(quota_replicas=5)),
    Reason.BUDGET: lambda: limited(Limits(budget_replicas=5)),
    Reason.INFEASIBLE: infeasible,
    Reason.WEDGED: wedged,
    Reason.STEADY: steady,
    Reason.NO_SIGNAL: no_signal,
    Reason.QUEUE_WATCHED: lambda: Story(Toy.of(2, 2.0), Params(tick_s=5.0)).run(15.0, one_waits),
    Reason.OUTDATED: outdated,
}


def given(decisions: list[Decision]) -> set[Reason]:
    """Every reason these decisions and their steps carry."""
    return {d.reason for d in decisions} | {step.reason for d in decisions for step in d.trace}


EVIDENCE: dict[Reason, set[str]] = {
    Reason.FORECAST: {"forecast_rps", "model", "level_ratio", "replica_rps", "warmup_s", "arrivals_age_s"},
    Reason.BACKLOG: {"backlog", "starting", "queue", "replica_rps", "warmup_s", "queue_age_s"},
    Reason.QUEUE_UNCALIBRATED: {"queue", "in_flight", "starting", "load_rps"},
    Reason.QUEUE_UNSEEN: {"full_s", "in_flight", "starting", "queue_age_s"},
    Reason.CONCURRENCY: {"in_flight", "slots_per_replica"},
    Reason.MEMORY: {"kv_used_replicas"},
    Reason.NOISE: {"load_rps", "age_s", "outlives_ratio", "warmup_s"},
    Reason.MAX: {"max_replicas"},
    Reason.QUOTA: {"quota_replicas"},
    Reason.BUDGET: {"budget_replicas"},
    Reason.FLOOR: {"min_replicas"},
    Reason.BACK_OFF: {"failures", "remaining_s"},
    Reason.LATE_START: {"late_starts"},
    Reason.IDLE: {"idle_s"},
    Reason.STALE: {"in_flight_age_s"},
    Reason.RATE_UP: {"lowest_replicas", "within_s"},
    Reason.RATE_DOWN: {"highest_replicas", "within_s"},
    Reason.EVENT_FLOOR: {"event_replicas", "event_left_s"},
    Reason.EVENT_CEILING: {"event_replicas", "event_left_s"},
    Reason.LOADING: {"starting"},
    Reason.ZERO_REFUSED: {"queue_age_s"},
    Reason.INFEASIBLE: {"floor_replicas", "ceiling_replicas"},
    Reason.WEDGED: {"wedged_pods"},
    Reason.QUEUE_WATCHED: {"queue", "in_flight", "load_rps", "done_rps", "cleared_s", "slack_s", "because"},
}
"""What a person would check before believing a step with this reason."""


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name.lower())
def test_a_story_provokes_it_with_evidence(reason: Reason) -> None:
    assert reason in STORIES, "a new reason needs a story that provokes it"
    told = STORIES[reason]()
    assert reason in given(told)
    for step in (step for decision in told for step in decision.trace if step.reason is reason):
        assert EVIDENCE.get(reason, set()) <= {name for name, _ in step.evidence}


def one_waits(readings: Readings) -> Readings:
    """One request that waits, at every look, for a step of the engine to end."""
    first, *others = readings.pods or ()
    return replace(readings, pods=(replace(first, waiting=1.0), *others))


@pytest.mark.parametrize(
    ("tamper", "known", "reason", "lacks"),
    [
        (cut, (None, None), Reason.NO_SIGNAL, "the load"),
        (one_waits, (2.0, 1.0), Reason.QUEUE_WATCHED, "what one replica carries"),
    ],
    ids=["no page came", "a queue that is no evidence"],
)
def test_what_is_not_known_is_named_whether_or_not_a_page_came(
    tamper: Callable[[Readings], Readings], known: tuple[float | None, float | None], reason: Reason, lacks: str
) -> None:
    story = Story(Toy.of(2, 2.0), Params(tick_s=5.0))
    told = story.run(15.0, tamper)
    seen = view(story.table, NAME)
    assert seen is not None
    assert (seen.load_rps, seen.queue, seen.replica_rps) == (*known, None)
    assert {(each.reason, each.replicas) for each in told} == {(reason, 2)}
    assert lacks in told[-1].reason.value


def test_every_reason_is_a_sentence_of_its_own() -> None:
    assert len({reason.value for reason in Reason}) == len(Reason)
    for reason in Reason:
        assert len(reason.value.split()) >= 3, reason
