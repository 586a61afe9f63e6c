"""Laws that hold for every story: drawn timelines of load, limits, missing signals and failures, in closed loop."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autoscaler.core import engine
from autoscaler.core.params import Params
from autoscaler.core.reasons import Reason
from autoscaler.core.scale.bounds import RATE_DOWN_RATIO
from autoscaler.core.state import Table
from autoscaler.core.types import (
    Decision,
    GatewayReading,
    LatencyReading,
    Limits,
    PodReading,
    Readings,
    ReplicaReading,
    StartingReplica,
    Verdict,
    validate,
)
from tests.core.toy import HOUR_S, NAME, Story, Tamper, Toy, calibrated, counts, cut, stepped


def law(examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A property over this many drawn stories; each takes tens of milliseconds, so there is no deadline."""
    return settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def lost(field: str) -> Tamper:
    """Readings whose pods lack one field."""
    return lambda r: replace(r, pods=tuple(replace(p, **{field: None}) for p in r.pods or ()))  # type: ignore[arg-type]


SIGNALS: dict[str, Tamper] = {
    "gateway": lambda r: replace(r, gateway=None),
    "waiting": lost("waiting"),
    "running": lost("running"),
    "tokens": lost("generation_tokens_total"),
    "kv": lost("kv_cache_usage"),
}


@dataclass(frozen=True)
class Segment:
    """A stretch of a story with one load and one state of the world."""

    ticks: int
    load_rps: float
    quota: int | None = None
    budget: int | None = None
    blind: bool = False
    unschedulable: bool = False


SEGMENTS = st.builds(
    Segment,
    ticks=st.integers(2, 6),
    load_rps=st.sampled_from([0.0, 0.3, 2.0, 5.0, 7.9, 16.0, 60.0, 900.0]),
    quota=st.sampled_from([None, None, None, 0, 3, 12]),
    budget=st.sampled_from([None, None, None, 0, 2, 20]),
    blind=st.sampled_from([False, False, False, True]),
    unschedulable=st.sampled_from([False, False, False, True]),
)
CALM = st.builds(Segment, ticks=st.integers(2, 6), load_rps=st.sampled_from([0.0, 0.3, 2.0, 5.0, 7.9, 16.0, 60.0]))
BOUNDS = st.tuples(st.integers(0, 4), st.integers(1, 60)).map(lambda b: (min(b), max(b)))


def plain(segments: list[Segment], *, replicas: int = 4, queue: float = 60.0, **params: object) -> Story:
    """Tell a story segment by segment, acting on every decision."""
    merged = {"tick_s": 10.0, "warmup_prior_s": 60.0} | params
    story = Story(Toy.of(replicas, 0.0, queue=queue, warmup_s=60.0), Params(**merged))  # type: ignore[arg-type]
    for segment in segments:
        story.toy.load = lambda _s, level=segment.load_rps: level  # type: ignore[misc]
        story.toy.limits = Limits(segment.quota, segment.budget)
        story.toy.unschedulable = segment.unschedulable
        story.run(segment.ticks * 10.0, cut if segment.blind else None)
    return story


def most(decision: Decision, readings: Readings, params: Params) -> float:
    """The lowest hard limit at that moment."""
    limits = (params.max_replicas, readings.limits.quota_replicas, readings.limits.budget_replicas)
    return min(math.inf if limit is None else limit for limit in limits)


def check_decision(decision: Decision, readings: Readings, params: Params) -> None:
    """What every single decision keeps, whatever happened before."""
    desired, limit = readings.replicas.desired, most(decision, readings, params)
    pace = desired - max(1, math.floor(RATE_DOWN_RATIO * desired))
    assert decision.seen_replicas == desired
    assert decision.replicas >= max(0, pace), "never faster down than the pace, on whatever order"
    if desired <= limit:
        assert decision.replicas <= limit, "a hard limit"
    else:
        assert min(limit, pace) <= decision.replicas <= desired, (
            "above a limit nothing grows, and it shrinks at its pace"
        )
    if desired >= params.min_replicas and limit >= params.min_replicas:
        assert decision.replicas >= params.min_replicas, "the minimum"
    check_trace(decision)


def check_trace(decision: Decision) -> None:
    """The trace is a chain from the number seen to the number decided, and its evidence is finite."""
    assert decision.trace
    assert decision.trace[0].before == decision.seen_replicas
    assert decision.trace[-1].after == decision.replicas
    for step, following in zip(decision.trace, decision.trace[1:], strict=False):
        assert step.after == following.before
    for step in decision.trace:
        for name, value in step.evidence:
            assert isinstance(name, str)
            assert not isinstance(value, float) or math.isfinite(value), (name, value)
    assert (decision.verdict is Verdict.HOLD) == (decision.replicas == decision.seen_replicas)
    assert decision.reason in {step.reason for step in decision.trace} | {Reason.STEADY}
    assert decision.next_due_s >= decision.now_s


@law(25)
@given(st.lists(SEGMENTS, min_size=1, max_size=6), BOUNDS, st.integers(0, 8))
def test_every_decision_of_every_story_keeps_the_limits_and_its_trace(
    segments: list[Segment], bounds: tuple[int, int], replicas: int
) -> None:
    low, high = bounds
    story = plain(segments, replicas=replicas, min_replicas=low, max_replicas=high)
    for decision, readings in zip(story.told, story.seen, strict=True):
        check_decision(decision, readings, story.params)


# wild readings: nothing fits together, everything is legal
AMOUNT = st.one_of(st.none(), st.just(0.0), st.integers(0, 10_000_000).map(float), st.integers(0, 50).map(float))
SHARE = st.one_of(st.none(), st.floats(0.0, 1.0))
WILD_POD = st.builds(
    PodReading,
    name=st.sampled_from(["a", "b", "c", "d"]),
    ready_since_s=st.one_of(st.none(), st.floats(-1e4, 1e4)),
    waiting=AMOUNT,
    waiting_deferred=AMOUNT,
    running=AMOUNT,
    requests_total=AMOUNT,
    prompt_tokens_total=AMOUNT,
    generation_tokens_total=AMOUNT,
    kv_cache_usage=SHARE,
)
WILD_REPLICAS = st.builds(
    ReplicaReading,
    desired=st.integers(0, 200),
    ready=st.integers(0, 200),
    starting=st.lists(
        st.builds(StartingReplica, since_s=st.floats(-1e4, 1e4), name=st.none(), unschedulable=st.booleans()),
        max_size=3,
    ).map(tuple),
)
WILD = st.builds(
    Readings,
    now_s=st.sampled_from([0.0, 0.3, 5.0, 10.0, 30.0, 3600.0]),
    replicas=WILD_REPLICAS,
    pods=st.one_of(st.none(), st.lists(WILD_POD, max_size=4, unique_by=lambda pod: pod.name).map(tuple)),
    gateway=st.one_of(st.none(), st.builds(GatewayReading, queued=AMOUNT, requests_total=AMOUNT)),
    latency=st.one_of(st.none(), st.builds(LatencyReading, queue_s_p90=AMOUNT, ttft_s_p90=AMOUNT, tpot_s_p90=AMOUNT)),
    limits=st.builds(Limits, st.one_of(st.none(), st.integers(0, 100)), st.one_of(st.none(), st.integers(0, 100))),
)


@law(40)
@given(st.lists(WILD, min_size=1, max_size=12), BOUNDS)
def test_readings_that_make_no_sense_break_no_limit_and_no_trace(wild: list[Readings], bounds: tuple[int, int]) -> None:
    params = Params(min_replicas=bounds[0], max_replicas=bounds[1])
    table, now_s = Table.empty(1), 0.0
    table.put(NAME, params)
    for readings in wild:
        now_s += readings.now_s
        moment = replace(readings, now_s=now_s)
        validate(moment)
        check_decision(engine.step(table, [(NAME, moment)]).decisions[0], moment, params)


# missing and unknown
@law(12)
@given(st.lists(CALM, min_size=2, max_size=4), CALM, st.sampled_from(sorted(SIGNALS)))
def test_with_one_signal_missing_nothing_is_lowered(segments: list[Segment], last: Segment, missing: str) -> None:
    story = plain(segments)
    story.toy.load = lambda _s: last.load_rps
    for decision in story.run(last.ticks * 10.0, SIGNALS[missing]):
        assert decision.replicas >= decision.seen_replicas


def test_in_the_minute_after_the_gateway_fell_silent_nothing_is_lowered() -> None:
    story = plain([Segment(2, 5.0), Segment(2, 0.0)])
    for decision in story.run(40.0, lambda r: replace(r, gateway=None)):
        assert decision.replicas >= decision.seen_replicas


@law(12)
@given(st.lists(CALM, min_size=1, max_size=4), st.integers(1, 30))
def test_without_any_reading_nothing_is_lowered(segments: list[Segment], ticks: int) -> None:
    story = plain(segments)
    for decision in story.run(ticks * 10.0, cut):
        assert decision.replicas >= decision.seen_replicas


@law(12)
@given(st.integers(1, 30), st.sampled_from([1, 5, 40]))
def test_a_workload_that_was_never_read_stays_as_it_is(ticks: int, replicas: int) -> None:
    story = Story(Toy.of(replicas, 5.0), Params())
    assert set(counts(story.run(ticks * 5.0, cut))) == {replicas}


# repetition, determinism, order
def replay(readings: list[Readings], params: Params, *, times: int = 1, shift_s: float = 0.0) -> list[Decision]:
    """Decisions for recorded readings in open loop, each given this often; the last answer of each is returned."""
    table, told = Table.empty(1), []
    table.put(NAME, params)
    for recorded in readings:
        moment = shifted(recorded, shift_s)
        for _ in range(times):
            decision = engine.step(table, [(NAME, moment)]).decisions[0]
        told.append(decision)
    return told


def shifted(readings: Readings, shift_s: float) -> Readings:
    """The same moment in another time origin."""
    starting = tuple(replace(s, since_s=s.since_s + shift_s) for s in readings.replicas.starting)
    pods = readings.pods and tuple(replace(p, ready_since_s=(p.ready_since_s or 0.0) + shift_s) for p in readings.pods)
    replicas = replace(readings.replicas, starting=starting)
    return replace(readings, now_s=readings.now_s + shift_s, replicas=replicas, pods=pods)


@law(12)
@given(st.lists(SEGMENTS, min_size=1, max_size=4))
def test_the_same_readings_give_the_same_decisions(segments: list[Segment]) -> None:
    story = plain(segments)
    assert repr(replay(story.seen, story.params)) == repr(story.told)


@law(10)
@given(st.lists(SEGMENTS, min_size=1, max_size=4), st.integers(2, 3))
@example([Segment(2, 5.0), Segment(2, 0.0), Segment(2, 16.0)], 2)
@example([Segment(2, 0.0), Segment(2, 16.0, blind=True), Segment(2, 0.0)], 2)
def test_extra_steps_on_unchanged_readings_change_nothing(segments: list[Segment], times: int) -> None:
    story = plain(segments)
    assert counts(replay(story.seen, story.params, times=times)) == counts(story.told)


ORIGINS_S = [HOUR_S, 24 * HOUR_S, 472_222 * HOUR_S, -HOUR_S, -472_222 * HOUR_S]
"""Whole hours, for peaks are kept by the hour; time may have any origin, and be negative throughout."""


@law(12)
@given(st.lists(SEGMENTS, min_size=1, max_size=4), st.sampled_from(ORIGINS_S))
@example([Segment(3, 5.0), Segment(2, 16.0), Segment(2, 0.0)], -472_222 * HOUR_S)
def test_another_origin_of_time_changes_no_decision(segments: list[Segment], shift_s: float) -> None:
    story = plain(segments)
    moved = replay(story.seen, story.params, shift_s=shift_s)
    assert [(d.replicas, d.reason, d.trace) for d in moved] == [(d.replicas, d.reason, d.trace) for d in story.told]


@law(8)
@given(st.lists(st.lists(SEGMENTS, min_size=2, max_size=3), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_a_batch_decides_as_its_members_alone_and_in_any_order(stories: list[list[Segment]], dice: object) -> None:
    told = {f"w{i}": plain(segments, replicas=2 + i) for i, segments in enumerate(stories)}
    batch, shuffled = Table.empty(8), Table.empty(1)
    names = list(told)
    mixed = names.copy()
    dice.shuffle(mixed)  # type: ignore[attr-defined]  # a random.Random that hypothesis controls
    for name in names:
        batch.put(name, told[name].params)
    for name in mixed:
        shuffled.put(name, told[name].params)
    for i in range(max(len(story.seen) for story in told.values())):
        moment = {name: story.seen[i] for name, story in told.items() if i < len(story.seen)}
        alone = {name: told[name].told[i] for name in moment}
        for table, order in ((batch, names), (shuffled, mixed)):
            result = engine.step(table, [(name, moment[name]) for name in order if name in moment])
            assert [d.workload for d in result.decisions] == [name for name in order if name in moment]
            for decision in result.decisions:
                assert repr(replace(decision, workload=NAME)) == repr(alone[decision.workload])


# more load
@law(15)
@given(st.lists(CALM, min_size=2, max_size=4), st.floats(0.0, 60.0), st.floats(0.1, 400.0))
@example([Segment(9, 2.0), Segment(9, 7.9)], 0.0, 1.0)
def test_more_arrivals_in_the_last_reading_never_give_fewer_replicas(
    segments: list[Segment], more: float, still_more: float
) -> None:
    """Held: the history, the queue, requests in flight, completions, cache, replicas and their starts. Only the
    gateway's counter of arrivals differs, in the last reading."""
    story = plain(segments)
    story.toy.advance(1.0)
    last = story.toy.readings()
    assert last.gateway is not None
    told = []
    for extra in (0.0, more, more + still_more):
        table = copy.deepcopy(story.table)
        gateway = replace(last.gateway, requests_total=(last.gateway.requests_total or 0.0) + extra)
        told.append(engine.step(table, [(NAME, replace(last, gateway=gateway))]).decisions[0].replicas)
    assert told == sorted(told)


@law(15)
@given(st.lists(CALM, min_size=2, max_size=4), st.floats(0.1, 3000.0))
def test_a_longer_queue_in_the_last_reading_never_gives_fewer_replicas(segments: list[Segment], more: float) -> None:
    """Held: all but the gateway's queue in the last reading, which was empty before and so proves nothing about what
    a full replica does (a queue at both ends would also teach capacity, which may rightly lower the count)."""
    story = plain(segments)
    story.run(10.0)
    last = story.toy.readings()
    assert last.gateway is not None
    told = []
    for extra in (0.0, more, 2.0 * more):
        table = copy.deepcopy(story.table)
        gateway = replace(last.gateway, queued=(last.gateway.queued or 0.0) + extra)
        told.append(engine.step(table, [(NAME, replace(last, gateway=gateway))]).decisions[0].replicas)
    assert told == sorted(told)


# the tick
@pytest.mark.parametrize("level", [3.0, 9.0])
def test_the_tick_does_not_change_what_a_policy_means(level: float) -> None:
    """Replica-hours of the ten minutes after a load of 6 changed agree within a fifth for ticks of 5 and 10 s."""
    bill = []
    for tick_s in (5.0, 10.0):
        story = calibrated(stepped(6.0, level, 900.0), tick_s=tick_s, warmup_s=60.0)
        bill.append(float(np.mean(counts(story.run(600.0)))))
    assert max(bill) <= 1.2 * min(bill), bill


@pytest.mark.parametrize("field", ["now_s", "pods[0].waiting", "replicas.desired"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_what_is_not_finite_or_negative_is_refused_with_its_field(field: str, value: float) -> None:
    good = Toy.of(1, 1.0).readings()
    bad = {
        "now_s": replace(good, now_s=value),
        "pods[0].waiting": replace(good, pods=(replace((good.pods or ())[0], waiting=value),)),
        "replicas.desired": replace(good, replicas=replace(good.replicas, desired=value)),  # type: ignore[arg-type]
    }
    if field == "now_s" and value == -1.0:
        validate(bad[field])
        return
    with pytest.raises(ValueError, match=field.replace("[", r"\[").replace("]", r"\]")):
        validate(bad[field])
