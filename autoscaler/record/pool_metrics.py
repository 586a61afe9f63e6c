"""The catalogue of what is told of warm pools.

Enters: their statuses. Leaves: families. Labels are the pool and closed sets: stages, and the domains of its breakers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from autoscaler.core.pool.clock import Stage
from autoscaler.record.families import Family, Kind, Metric
from autoscaler.record.pool_status import PoolStatus

_POOL: Final = ("pool",)


def _gauge(name: str, text: str) -> Metric:
    return Metric(f"headroom_pool_{name}", Kind.GAUGE, text, _POOL)


def _counter(name: str, text: str) -> Metric:
    return Metric(f"headroom_pool_{name}_total", Kind.COUNTER, text, _POOL)


_FIGURES: Final[Mapping[Metric, Callable[[PoolStatus], float | None]]] = {
    _gauge("target_slots", "Slots that shall be warm."): lambda p: p.target,
    _gauge("warm_slots", "Slots with images and weights in place."): lambda p: p.warm,
    _gauge("starting_slots", "Slots under way."): lambda p: p.starting,
    _gauge("lent_slots", "Slots' worth that gangs of batch work have on loan, overdue left out."): lambda p: p.lent,
    _gauge("overdue_slots", "Slots' worth that gangs were called back from and should long be gone."): (
        lambda p: p.overdue
    ),
    _gauge("gang_gpus", "Physical GPUs that are held for gangs until they start, nodes still to come included."): (
        lambda p: p.gang_gpus
    ),
    _gauge("hit_ratio", "Share of growing demand that found a warm slot, over about a day."): lambda p: p.hit_ratio,
    _gauge("refill_seconds", "From order to warm, in nine of ten cases."): lambda p: p.refill_s,
    _counter("slots_ordered", "Slots that were ordered."): lambda p: p.counts.ordered,
    _counter("slots_deleted", "Slots that were deleted."): lambda p: p.counts.deleted,
    _counter("refusals", "Writes for the pool that the API server refused."): lambda p: p.counts.refused,
    _counter("idle_warm_seconds", "Slot-seconds of warm slots that nobody used."): lambda p: p.counts.idle_warm_s,
    _counter("loans", "Loans to gangs that were made."): lambda p: p.counts.loans,
    _counter("loan_recalls", "Loans to gangs that were called back."): lambda p: p.counts.recalls,
}
_SLOTS: Final = Metric("headroom_pool_slots", Kind.GAUGE, "Slots by the stage of their life.", ("pool", "stage"))
_BREAKER: Final = Metric(
    "headroom_pool_breaker",
    Kind.GAUGE,
    "Where capacity is missing: 2 while nothing is asked for, 1 while one slot asks; absent where nothing is wrong.",
    ("pool", "sku", "zone", "capacity_type"),
)
_CONDITION: Final = Metric(
    "headroom_pool_condition", Kind.GAUGE, "1 for each condition of the pool by its status.", ("pool", "type", "status")
)

POOLS: Final = (*_FIGURES, _SLOTS, _BREAKER, _CONDITION)
"""Every metric of warm pools."""

_STATES: Final = {"open": 2.0, "half-open": 1.0}


def pool_families(pools: Iterable[PoolStatus]) -> Iterator[Family]:
    """The metrics of all pools; a figure that is not known has no value."""
    pools = tuple(pools)
    for metric, figure in _FIGURES.items():
        known = ((pool.pool, figure(pool)) for pool in pools)
        yield Family(metric, {(name,): float(value) for name, value in known if value is not None})
    counted = {pool.pool: dict(pool.stages) for pool in pools if pool.target is not None}
    stages = [stage.name.lower() for stage in Stage]
    yield Family(_SLOTS, {(name, s): float(counts.get(s, 0)) for name, counts in counted.items() for s in stages})
    breakers = ((pool.pool, breaker) for pool in pools for breaker in pool.breakers)
    yield Family(_BREAKER, {(name, b.sku, b.zone, b.capacity_type): _STATES[b.state] for name, b in breakers})
    yield Family(_CONDITION, {(pool.pool, c.type, c.status): 1.0 for pool in pools for c in pool.conditions})
