"""What whoever asks is told of a warm pool: a frozen value that writes itself as JSON, and its explanation as text.

Enters: a decision, conditions, what the pool has learnt, and figures that were counted since the process began. Leaves:
one `PoolStatus`. None means not known; a pool whose WarmPool cannot be used has its fault and no figures.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from autoscaler.core.pool.ahead import RECOVERED, enough_for
from autoscaler.core.pool.circuits import Position
from autoscaler.core.pool.clock import SlotClock, Stage
from autoscaler.core.pool.intents import PoolDecision
from autoscaler.core.pool.loans import Lending
from autoscaler.core.pool.state import PoolState
from autoscaler.core.spread import spread
from autoscaler.record.explain import clock, duration
from autoscaler.record.loans import LoanLine, LoanTold, loan_line, loan_sentence
from autoscaler.record.pools import page, sentence
from autoscaler.record.status import Condition

STARTS: Final = ("launch", "join", "GPUs", "images", "weights")
"""The stages of a slot's start, as a person calls them."""

MOST_KINDS: Final = 8
"""Kinds of start that are told of one by one."""


WORST_FIRST: Final = MappingProxyType(
    {
        "Accepted": "invalid",
        "Acting": "not acting",
        "PriorityUsable": "no priority class",
        "SignalsFresh": "not read",
        "NodePoolsUsable": "NodePool faulty",
        "ContentWarms": "content fails",
        "GpusUsable": "GPUs faulty",
        "CapacityAvailable": "no capacity",
        "LoansGivenBack": "loans overdue",
        "WithinLimits": "at its limits",
    }
)
"""Conditions that a person should hear of, and how a table says that one is false."""


@dataclass(frozen=True, slots=True)
class BreakerStatus:
    """Missing capacity in one domain: `state` is open or half-open, `until_s` is when one slot asks again."""

    sku: str
    zone: str
    capacity_type: str
    state: str
    until_s: float


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """What was done and what it cost since the process began."""

    ordered: int = 0
    deleted: int = 0
    refused: int = 0
    """Intents that the server did not let through."""
    idle_warm_s: float = 0.0
    """Slot-seconds of warm slots that nobody used."""
    loans: int = 0
    """Loans that were made."""
    recalls: int = 0
    """Loans that were called back."""


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One warm pool now."""

    pool: str
    now_s: float
    backend: str
    target: int | None = None
    warm: int | None = None
    starting: int | None = None
    supply: int | None = None
    reason: str = ""
    text: str = ""
    """The decision as a sentence, or what is wrong with the WarmPool."""
    explained: str = ""
    """The whole decision, as `headroom explain` prints it."""
    hit_ratio: float | None = None
    refill_s: float | None = None
    stages: tuple[tuple[str, int], ...] = ()
    breakers: tuple[BreakerStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()
    counts: PoolCounts = PoolCounts()
    lent: int | None = None
    """Slots' worth that gangs have on loan, but for those that are overdue."""
    loans: tuple[LoanTold, ...] | None = None
    """The same, gang by gang; None while nobody knows whose they are."""
    overdue: int | None = None
    """Slots' worth besides that gangs were called back from and should long be gone."""
    gang_gpus: float | None = None
    """Physical GPUs that are held for gangs until they start; None while that is not known."""


@dataclass(frozen=True, slots=True)
class PoolLine:
    """One pool as a row of a table."""

    pool: str
    backend: str
    warm: int | None
    target: int | None
    starting: int | None
    hit_ratio: float | None
    refill_s: float | None
    state: str
    """How it does, in a word or two: the worst of what is true of it."""
    text: str
    stages: tuple[tuple[str, int], ...]
    breakers: tuple[BreakerStatus, ...]
    idle_warm_h: float
    """Slot-hours of warm slots that nobody used, since the process began."""
    lent: int | None
    """Slots' worth that gangs have on loan; None while that is not known."""
    loans: tuple[LoanLine, ...]
    """By gang, as far as it is known whose they are."""


def pool_line(pool: PoolStatus) -> PoolLine:
    """The row of a pool."""
    return PoolLine(
        pool.pool, pool.backend, pool.warm, pool.target, pool.starting, pool.hit_ratio, pool.refill_s, _state(pool),
        pool.text, pool.stages, pool.breakers, round(pool.counts.idle_warm_s / 3600.0, 2),
        pool.lent, tuple(loan_line(each, pool.now_s) for each in pool.loans or ()),
    )  # fmt: skip


def _state(pool: PoolStatus) -> str:
    false = {c.type for c in pool.conditions if c.status == "False"}
    for aspect, words in WORST_FIRST.items():
        if aspect in false:
            return words
    if any(breaker.state == Position.OPEN.value for breaker in pool.breakers):
        return "no capacity"
    return "filling" if "Ready" in false else "warm"


def pool_status(
    decision: PoolDecision, state: PoolState, conditions: tuple[Condition, ...], counts: PoolCounts, backend: str
) -> PoolStatus:
    """The status after one look."""
    early = {stage.name.lower() for stage in Stage if stage < Stage.WEIGHTS_WARM}
    known = state.hits + state.misses
    return PoolStatus(
        pool=decision.pool,
        now_s=decision.now_s,
        backend=backend,
        target=decision.target,
        warm=decision.warm,
        starting=sum(count for stage, count in decision.by_stage if stage in early) + len(state.ordered),
        supply=decision.supply,
        reason=decision.reason.name,
        text=sentence(decision),
        explained="\n".join([page(decision), *_standing(state, conditions, counts, decision.now_s)]),
        hit_ratio=state.hits / known if known > 0 else None,
        refill_s=decision.refill_s,
        stages=tuple((stage, count) for stage, count in decision.by_stage if count),
        breakers=tuple(_breakers(state, decision.now_s)),
        conditions=conditions,
        counts=counts,
    )


def with_loans(status: PoolStatus, lending: Lending, loans: tuple[LoanTold, ...] | None) -> PoolStatus:
    """The status with what gangs have on loan, its explanation included."""
    lines = [f"  loan: {loan_sentence(each, status.now_s)}" for each in loans or ()]
    overdue = None if lending.lent is None else lending.overdue
    explained = "\n".join([status.explained, *lines])
    return replace(status, lent=lending.lent, overdue=overdue, loans=loans, explained=explained)


def starts(slots: SlotClock) -> Iterator[str]:
    """What the stage clock measured, a sentence for each kind of start, those with most starts first."""
    kinds = sorted(slots.walks.items(), key=lambda item: -len(item[1]))[:MOST_KINDS]
    for kind, walks in kinds:
        whole = spread([sum(walk) for walk in walks])
        parts = (spread([walk[at] for walk in walks]).p50_s for at in range(len(STARTS)))
        told = ", ".join(f"{name} {duration(took_s)}" for name, took_s in zip(STARTS, parts, strict=True))
        where = " ".join(filter(None, (kind.sku, kind.capacity_type, kind.zone and f"in {kind.zone}")))
        node = "a new node" if kind.new_node else "a node that was there"
        digests = kind.content.partition("@")[2]
        where += f" ({digests[:19]})" if digests else ""
        yield (
            f"a slot on {node}, {where}: warm after {duration(whole.p50_s)}, 9 of 10 within {duration(whole.p90_s)}, "
            f"{whole.samples} starts; medians: {told}"
        )


def _standing(state: PoolState, conditions: tuple[Condition, ...], counts: PoolCounts, now_s: float) -> Iterator[str]:
    """What the pool found out, and what is wrong, a line each."""
    known = state.hits + state.misses
    if known > 0:
        yield f"  found warm: {state.hits:.0f} of {known:.0f} slots of growing demand, in about a day"
    yield from _step(sum(state.demand.values()))
    yield f"  idle warm: {counts.idle_warm_s / 3600.0:.1f} slot-hours since this controller began to lead"
    for breaker in _breakers(state, now_s):
        where = " ".join(filter(None, (breaker.sku, breaker.capacity_type, breaker.zone)))
        if breaker.state == Position.OPEN.value:
            yield f"  no capacity: {where}: {breaker.state}, asks again at {clock(breaker.until_s)}"
        else:
            yield f"  capacity may be back: {where}: {breaker.state} since {clock(breaker.until_s)}, one slot asks"
    yield from (f"  start: {words}" for words in starts(state.clock))
    yield from (f"  {c.type}={c.status}: {c.reason}: {c.message}" for c in conditions)


def _step(demand: float) -> Iterator[str]:
    """What a step of demand that nobody foresees wants warm; nothing is a multiple of no demand."""
    if demand > 0:
        double, triple = enough_for(demand), enough_for(2.0 * demand)
        added, more = f"{demand:.3g}", f"{2.0 * demand:.3g}"
        yield (
            f"  a step: to twice the demand of now ({added} slots) wants {double} warm slots for its queue to be gone "
            f"within {RECOVERED:g} times a start on a warm slot, to three times {triple}; "
            f"with only what it adds ({added} and {more}) its queue waits for new nodes"
        )


def _breakers(state: PoolState, now_s: float) -> Iterator[BreakerStatus]:
    for domain, circuit in sorted(state.circuits.capacity.items(), key=lambda item: (item[0].sku, item[0].zone)):
        position = circuit.position(now_s)
        if position is not Position.CLOSED:
            kind = domain.capacity_type.value
            yield BreakerStatus(domain.sku, domain.zone, kind, position.value, circuit.until_s)
