"""From arrays to decisions: the chain of steps of each row, with the evidence a person needs to check it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoscaler.core.capacity.throughput import Term, Throughput
from autoscaler.core.columns import F64, I64, Bools
from autoscaler.core.demand.peaks import CEILING
from autoscaler.core.forecast.models import Model
from autoscaler.core.inputs import Batch
from autoscaler.core.observe.freshness import SIGNALS
from autoscaler.core.reasons import NEED_UNKNOWN, Reason
from autoscaler.core.scale import uncalibrated
from autoscaler.core.scale.bounds import RATE_DOWN_S, RATE_UP_S, Change, shrinks_at
from autoscaler.core.scale.propose import TERMS, Proposals, Situation
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, Evidence, Readings, Step, Verdict

_LIMITS = tuple(term.name.lower() for term in Term)
_MODELS = tuple(model.name.lower() for model in Model)
"""In the order of their numbers: every decision names one of each."""
_TOLD_ALONE = NEED_UNKNOWN | {Reason.IDLE}
"""Steps that change nothing and are the decision all the same."""
_AGES = {signal: f"{signal}_age_s" for signal in SIGNALS}
"""Every decision tells all of them, and most are 0."""


@dataclass(frozen=True, slots=True)
class Load:
    """The demand stage's result, arrays of shape (B,)."""

    now_rps: F64
    late_share: F64
    burn: F64
    tail: F64
    episode_s: F64
    outlives: F64
    noise: Bools
    idle_s: F64


@dataclass(frozen=True, slots=True)
class Outcome:
    """The scale stage's result: what was wanted, each bound's change, and the final count."""

    situation: Situation
    proposals: Proposals
    looked: uncalibrated.Looked
    """At the queue, as whoever knows no capacity sees it."""
    wanted: I64
    idle: Bools
    unknown: Bools
    changes: tuple[Change, ...]
    replicas: I64


@dataclass(frozen=True, slots=True)
class Stepped:
    """All that one step knew, for explaining: the table, its rows, and each stage's result in the rows' order."""

    table: Table
    rows: I64
    seen: Batch
    capacity: Throughput
    load: Load
    outcome: Outcome


def outdated(workload: str, readings: Readings) -> Decision:
    """Return the decision for readings older than the last ones: nothing changes."""
    desired = readings.replicas.desired
    step = Step("observe", desired, desired, Reason.OUTDATED, (("now_s", readings.now_s),))
    return Decision(workload, readings.now_s, desired, desired, Verdict.HOLD, Reason.OUTDATED, (step,), readings.now_s)


def decisions(stepped: Stepped) -> Iterator[Decision]:
    """Yield one decision per row, in the order of the rows."""
    proposals = stepped.outcome.proposals
    counts = (proposals.asked, proposals.gated, proposals.capped)
    most = (*(count.max(axis=1).tolist() for count in counts), proposals.asked.argmax(axis=1).tolist())
    for i, terms in enumerate(zip(*most, strict=True)):
        yield _decision(stepped, i, terms)


def decision(stepped: Stepped, i: int) -> Decision:
    """Return the decision of the row in place `i`."""
    proposals = stepped.outcome.proposals
    counts = (proposals.asked[i], proposals.gated[i], proposals.capped[i])
    return _decision(stepped, i, [*(int(count.max()) for count in counts), int(proposals.asked[i].argmax())])


def _decision(stepped: Stepped, i: int, most: Sequence[int]) -> Decision:
    seen, track = stepped.seen, stepped.table.track(int(stepped.rows[i]))
    trace = tuple(_trace(stepped, i, most))
    before, after = int(seen.desired[i]), int(stepped.outcome.replicas[i])
    verdict = Verdict.HOLD if after == before else Verdict.SCALE
    now_s = float(seen.now_s[i])
    return Decision(
        track.name, now_s, before, after, verdict, _primary(trace, before), trace, now_s + track.params.tick_s
    )


def _primary(trace: tuple[Step, ...], before: int) -> Reason:
    """The reason of the step that set the final number; STEADY when the terms agree with what stands."""
    last = trace[-1]
    told = [step for step in trace if step.reason is not Reason.WEDGED]
    if len(told) == 1 and last.after == before and last.reason not in _TOLD_ALONE:
        return Reason.STEADY
    return last.reason


def _trace(stepped: Stepped, i: int, most: Sequence[int]) -> Iterator[Step]:
    """The steps of row `i`: `most` is what its terms asked for, behind the gate and the ceiling, and the first term."""
    seen, load, outcome = stepped.seen, stepped.load, stepped.outcome
    asked, gated, capped, term = most
    before = int(seen.desired[i])
    if seen.wedged[i]:
        yield Step("observe", before, before, Reason.WEDGED, (("wedged_pods", int(seen.wedged[i])),))
    if outcome.unknown[i] and asked <= before:
        queued = seen.queue[i] > 0 and not math.isfinite(stepped.capacity.rps[i])
        reason, evidence = (Reason.QUEUE_WATCHED, _queue_evidence) if queued else (Reason.NO_SIGNAL, _ages)
        yield Step("demand", before, before, reason, evidence(stepped, i))
        number = before
    else:
        yield Step("demand", before, asked, TERMS[term], _term_evidence(stepped, i, term))
        number = asked
        if gated != asked:
            yield Step("gate", asked, gated, Reason.NOISE, _noise_evidence(stepped, i))
            number = gated
        if capped != gated:
            limit = (("ceiling_rps", _number(outcome.situation.ceiling_rps[i])), ("factor_ratio", CEILING))
            yield Step("bound", gated, capped, Reason.BURST_CEILING, limit)
            number = capped
    wanted = int(outcome.wanted[i])
    if outcome.idle[i]:
        yield Step("demand", number, 0, Reason.IDLE, (("idle_s", _number(load.idle_s[i])),))
    elif wanted != number:
        yield Step("capacity", number, wanted, Reason.LATE_START, (("late_starts", int(seen.late[i])),))
    for change in outcome.changes:
        if change.before[i] != change.after[i]:
            yield Step(
                "bound",
                int(change.before[i]),
                int(change.after[i]),
                change.reason,
                _bound_evidence(stepped, i, change),
            )


def _term_evidence(stepped: Stepped, i: int, term: int) -> Evidence:
    seen, capacity, load = stepped.seen, stepped.capacity, stepped.load
    out, row = stepped.table.forecaster.out, int(stepped.rows[i])
    replica: Evidence = (
        ("replica_rps", _number(capacity.rps[i])),
        ("replica_limit", _LIMITS[int(capacity.term[i])]),
    )
    present: Evidence = (("load_rps", _number(load.now_rps[i])), ("queue", _number(seen.queue[i])))
    lead: Evidence = (("warmup_s", _number(seen.lead50_s[i])), ("warmup_samples", int(seen.lead_samples[i])))
    ages = _ages(stepped, i)
    reason = TERMS[term]
    if reason is Reason.FORECAST:
        own: Evidence = (
            ("forecast_rps", _number(out.upper_rps[row])),
            ("median_rps", _number(out.median_rps[row])),
            ("level_ratio", _number(out.level[row])),
            ("model", "recurring" if out.recurring[row] else _MODELS[int(out.leading[row])]),
            ("budget_burn_ratio", _number(load.burn[i])),
        )
    elif reason in {Reason.BACKLOG, Reason.WAKE}:
        climb = float(stepped.outcome.situation.climb_rps[i])
        own = (
            ("backlog", _number(stepped.outcome.proposals.backlog[i])),
            ("starting", int(seen.starting[i])),
            ("climb_rps", _number(climb) if climb > 0 else None),
        )
    elif reason is Reason.MEMORY:
        own = (("kv_used_replicas", _number(stepped.outcome.situation.kv_used[i])),)
    elif reason is Reason.CONCURRENCY:
        own = (("in_flight", _number(seen.running[i])), ("slots_per_replica", _number(capacity.slots[i])))
    elif reason is Reason.QUEUE_UNCALIBRATED:
        held: Evidence = () if seen.ready[i] else (("held_at_once", uncalibrated.HOLDS),)
        own = (*_in_line(seen, i), *held)
    elif reason is Reason.QUEUE_UNSEEN:
        full_s = seen.now_s[i] - stepped.table.unseen.since_s[row]
        own = (("full_s", _number(full_s)), *_in_line(seen, i))
    else:
        own = ()
    return own + present + replica + lead + ages


def _in_line(seen: Batch, i: int) -> Evidence:
    unread: Evidence = (("unread", int(seen.unread[i])),) if seen.unread[i] else ()
    return (("in_flight", _number(seen.told_running[i])), ("starting", int(seen.starting[i])), *unread)


def _queue_evidence(stepped: Stepped, i: int) -> Evidence:
    """What is seen of a queue that asks for no more, and what the objective allows it, where it speaks of waiting."""
    seen, policy, row = stepped.seen, stepped.table.policy, int(stepped.rows[i])
    waits = math.isfinite(policy.wait_slo_s[row]) or math.isfinite(policy.ttft_slo_s[row])
    sight = uncalibrated.sight(stepped.outcome.looked, i)
    uncounted: Evidence = (("uncounted", sight.uncounted),) if sight.uncounted else ()
    return (
        ("queue", _number(seen.queue[i])),
        *_in_line(seen, i),
        *uncounted,
        ("load_rps", _number(stepped.load.now_rps[i])),
        ("done_rps", _number(sight.done_rps)),
        ("cleared_s", _number(sight.cleared_s)),
        ("slack_s", _number(policy.slack_s[row]) if waits else None),
        ("because", sight.because.value),
        *_ages(stepped, i),
    )


def _noise_evidence(stepped: Stepped, i: int) -> Evidence:
    seen, load = stepped.seen, stepped.load
    return (
        ("load_rps", _number(load.now_rps[i])),
        ("age_s", _number(load.episode_s[i])),
        ("outlives_ratio", _number(load.outlives[i])),
        ("warmup_s", _number(seen.lead50_s[i])),
    )


def _bound_evidence(stepped: Stepped, i: int, change: Change) -> Evidence:
    table, seen, row, reason = stepped.table, stepped.seen, int(stepped.rows[i]), change.reason
    policy = table.policy
    if reason is Reason.STALE:
        return _ages(stepped, i)
    if reason is Reason.FLOOR:
        return (("min_replicas", int(policy.min_replicas[row])),)
    if reason is Reason.MAX:
        return (("max_replicas", int(policy.max_replicas[row])),)
    if reason is Reason.STABILISATION:
        # The last of several is kept for as long as there was work within the residency limit.
        held_s = policy.idle_after_s[row] if change.within_s is None else change.within_s[i]
        return (("held_s", _number(held_s)), ("warmup_s", _number(seen.lead50_s[i])))
    if reason is Reason.DEADBAND:
        exact = min(float(stepped.outcome.proposals.exact[i]), float(stepped.outcome.wanted[i]))
        least = float(shrinks_at(seen.desired[i : i + 1])[0])
        return (("exact_replicas", _number(exact)), ("shrinks_at_replicas", _number(least)))
    if reason is Reason.BACK_OFF:
        left_s = table.bounds.back_off_until_s[row] - seen.now_s[i]
        died = int(table.bounds.died[row])
        own: Evidence = (("failures", int(table.bounds.failures[row])), ("remaining_s", _number(left_s)))
        return (*own, ("died_at_work", died)) if died else own
    given = seen.readings[i].limits
    if reason is Reason.QUOTA:
        return (("quota_replicas", given.quota_replicas),)
    if reason is Reason.BUDGET:
        words: Evidence = () if given.budget_words is None else (("budget_words", given.budget_words),)
        return (("budget_replicas", given.budget_replicas), *words)
    return _pace_evidence(change, i) or _rule_evidence(stepped, i, reason)


def _pace_evidence(change: Change, i: int) -> Evidence:
    """From which count a pace goes, and over how long; nothing of another bound."""
    stood = None if change.stood is None else int(change.stood[i])
    if change.reason is Reason.RATE_UP:
        return (("lowest_replicas", stood), ("within_s", RATE_UP_S))
    return (("highest_replicas", stood), ("within_s", RATE_DOWN_S)) if change.reason is Reason.RATE_DOWN else ()


def _rule_evidence(stepped: Stepped, i: int, reason: Reason) -> Evidence:
    """What a person wrote or connected that decides here, and what is under way: never a measured load."""
    seen = stepped.seen
    if reason is Reason.LOADING:
        return (("starting", int(seen.starting[i])),)
    if reason is Reason.ZERO_REFUSED:
        return _ages(stepped, i)
    params, now_s = stepped.table.track(int(stepped.rows[i])).params, float(seen.now_s[i])
    now = [event for event in params.events if event.from_s <= now_s < event.to_s]
    floors = [(event.floor, event.to_s) for event in now if event.floor is not None]
    ceilings = [(event.ceiling, -event.to_s) for event in now if event.ceiling is not None]
    if reason is Reason.EVENT_FLOOR:
        floor, to_s = max(floors)
        return (("event_replicas", floor), ("event_left_s", _number(to_s - now_s)))
    if reason is Reason.EVENT_CEILING:
        ceiling, before_s = min(ceilings)
        return (("event_replicas", ceiling), ("event_left_s", _number(-before_s - now_s)))
    if reason is Reason.INFEASIBLE:
        floor = max([params.min_replicas, *(least for least, _ in floors)])
        ceiling = min([params.max_replicas, *(most for most, _ in ceilings)])
        return (("floor_replicas", floor), ("ceiling_replicas", ceiling))
    return ()


def _ages(stepped: Stepped, i: int) -> Evidence:
    track = stepped.table.track(int(stepped.rows[i]))
    ages = track.fresh.ages_s(float(stepped.seen.now_s[i]))
    return tuple([(_AGES[signal], _number(age) if age else 0.0) for signal, age in ages.items()])


def _number(value: float) -> float | None:
    """A figure for a person: four significant digits, None where not known."""
    number = float(value)
    if not math.isfinite(number):
        return None
    # Ages and counts are whole most of the time, and have no more digits than that.
    return number if number.is_integer() and abs(number) < 1e4 else float(f"{number:.4g}")
