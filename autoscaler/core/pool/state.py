"""What a pool remembers between two looks, and its checkpoint.

Enters: nothing. Leaves: plain JSON values and back. The life of slots is not in it: that is read anew every time. What
is in it is experience (demand, starts, missing capacity) and orders that were given and are not seen yet.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from autoscaler.core.pool import clock, history
from autoscaler.core.pool.circuits import Circuit
from autoscaler.core.pool.clock import SlotClock
from autoscaler.core.pool.history import DemandHistory
from autoscaler.core.pool.hourly import HOURS, MORE, REACHES, Rhythm
from autoscaler.core.pool.params import CapacityType, Domain
from autoscaler.core.pool.reasons import PoolReason

VERSION: Final = 1

LEVEL: Final = 0.98
"""The quantile of growth that a pool begins with (a guess), until an hour of demand chooses one."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """A slot that was ordered and is not seen yet."""

    tier: str
    zone: str | None
    at_s: float


@dataclass(frozen=True, slots=True)
class Made:
    """A pod that was made to hold the place of a gang's pod and is not seen yet."""

    gang_uid: str
    tier: str
    units: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Marked:
    """A slot that was asked to say that its node ends, and that was not seen to say so."""

    at_s: float
    """When it was asked last."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Edited:
    """A NodePool that was made or edited."""

    at_s: float
    """When last."""
    limits: tuple[int | None, int | None]
    """What it was to have, in GPUs and nodes."""
    times: int = 1
    """How often for these."""


@dataclass(frozen=True, slots=True)
class Handed:
    """Slots that gave way to replicas of a workload since fewer of these waited last."""

    at_s: float
    """When the last one did."""
    waiting: int
    """Replicas that waited then, or have come to since."""
    slots: int


@dataclass(frozen=True, slots=True)
class GaveBack:
    """A request for nodes for a gang that was given back."""

    reason: PoolReason
    until_s: float
    """Before, none is made for it again."""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Unjoined:
    """A claim that was launched, and whose node had not joined when claims were last read."""

    node_pool: str
    created_s: float
    deleting_s: float | None
    """When its deletion was asked for, by whomever."""


@dataclass(frozen=True, slots=True)
class Circuits:
    """All circuits of a pool."""

    capacity: Mapping[Domain, Circuit] = field(default_factory=dict)
    gpus: Mapping[str, Circuit] = field(default_factory=dict)
    """By tier."""
    content: Circuit = field(default_factory=Circuit)
    told: Mapping[str, float] = field(default_factory=dict)
    """Claims whose trouble was counted, and when."""
    unlaunched: Mapping[str, Domain] = field(default_factory=dict)
    """Claims that were there when they were last read, and not launched."""
    unjoined: Mapping[str, Unjoined] = field(default_factory=dict)
    """By the name of the claim."""
    zones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By tier, those that its NodePool requires, where it names none itself; read anew at each look, and not kept."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """What a pool remembers; the default is a pool that has seen nothing."""

    history: DemandHistory = field(default_factory=DemandHistory)
    clock: SlotClock = field(default_factory=SlotClock)
    circuits: Circuits = field(default_factory=Circuits)
    claims_read_s: float | None = None
    """When claims were last read; None before they were."""
    level: float = LEVEL
    """The quantile of growth that is kept warm for."""
    leveled_bin: int | None = None
    """The bin in which it was chosen."""
    rhythm: Rhythm | None = None
    """The rule by the minute of the hour, chosen with it; None where the time of day speaks."""
    demand: Mapping[str, float] = field(default_factory=dict)
    """The last known demand of each workload, in slots."""
    warm: int = 0
    """Warm slots and free places on warm nodes at the last look."""
    hits: float = 0.0
    misses: float = 0.0
    """Slots of growing demand that found, or did not find, something warm, of the last days."""
    targets: tuple[tuple[float, int], ...] = ()
    """The targets that are the highest since their time, (time, slots), newest last."""
    ordered: Mapping[str, Ordered] = field(default_factory=dict)
    made: Mapping[str, Made] = field(default_factory=dict)
    """By the name of the pod."""
    dropped: Mapping[str, float] = field(default_factory=dict)
    """The uids of slots whose deletion was ordered, and when."""
    marked: Mapping[str, Marked] = field(default_factory=dict)
    """By the uid of the slot."""
    edited: Mapping[str, Edited] = field(default_factory=dict)
    """By NodePool, those of the last hours."""
    handed: Mapping[str, Handed] = field(default_factory=dict)
    """By workload, while its replicas wait all the same."""
    gave_back: Mapping[str, GaveBack] = field(default_factory=dict)
    """By the uid of a gang."""
    created_s: float = -math.inf
    """When a slot was last ordered from capacity that has to be launched, or a pod asked for a gang whether any is
    back."""


def pack(state: PoolState) -> dict[str, Any]:
    """The state as plain JSON values: about 200 KiB after two weeks."""
    circuits = state.circuits
    return {
        "version": VERSION,
        "history": history.pack(state.history),
        "clock": clock.pack(state.clock),
        "capacity": [[*_domain(domain), _circuit(kept)] for domain, kept in circuits.capacity.items()],
        "gpus": {tier: _circuit(kept) for tier, kept in circuits.gpus.items()},
        "content": _circuit(circuits.content),
        "told": dict(circuits.told),
        "unlaunched": [[name, *_domain(domain)] for name, domain in circuits.unlaunched.items()],
        "unjoined": {name: [c.node_pool, c.created_s, c.deleting_s] for name, c in circuits.unjoined.items()},
        "claims_read_s": state.claims_read_s,
        "level": state.level,
        "leveled_bin": state.leveled_bin,
        "rhythm": None if state.rhythm is None else [state.rhythm.hours, state.rhythm.more, state.rhythm.reach],
        "demand": dict(state.demand),
        "warm": state.warm,
        "hits": state.hits,
        "misses": state.misses,
        "targets": [list(entry) for entry in state.targets],
        "ordered": {name: [o.tier, o.zone, o.at_s] for name, o in state.ordered.items()},
        "made": {name: [m.gang_uid, m.tier, m.units, m.at_s] for name, m in state.made.items()},
        "dropped": dict(state.dropped),
        "marked": {uid: [each.at_s, each.times] for uid, each in state.marked.items()},
        "edited": {name: [each.at_s, *each.limits, each.times] for name, each in state.edited.items()},
        "handed": {name: [each.at_s, each.waiting, each.slots] for name, each in state.handed.items()},
        "gave_back": [[uid, each.reason.name, each.until_s, each.times] for uid, each in state.gave_back.items()],
        "created_s": state.created_s if math.isfinite(state.created_s) else None,
    }


def unpack(saved: Mapping[str, Any]) -> PoolState:
    """The state behind a checkpoint. Raises ValueError when it is of another version or shape."""
    if saved.get("version") != VERSION:
        raise ValueError(f"pool: version {saved.get('version')!r}, this build reads {VERSION}")
    try:
        return _unpacked(saved)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"pool: {type(error).__name__}: {error}") from error


def _unpacked(saved: Mapping[str, Any]) -> PoolState:
    level = float(saved["level"])
    if not 0.0 < level < 1.0:
        raise ValueError(f"level {level}")
    return PoolState(
        history=history.unpack(saved["history"]),
        clock=clock.unpack(saved["clock"]),
        circuits=Circuits(
            capacity={_read_domain(domain): _read_circuit(kept) for *domain, kept in saved["capacity"]},
            gpus={str(tier): _read_circuit(kept) for tier, kept in saved["gpus"].items()},
            content=_read_circuit(saved["content"]),
            told={str(claim): float(at_s) for claim, at_s in saved["told"].items()},
            unlaunched={str(name): _read_domain(domain) for name, *domain in saved["unlaunched"]},
            unjoined=_read_unjoined(saved.get("unjoined", {})),
        ),
        claims_read_s=None if saved.get("claims_read_s") is None else float(saved["claims_read_s"]),
        level=level,
        leveled_bin=None if saved["leveled_bin"] is None else int(saved["leveled_bin"]),
        rhythm=_read_rhythm(saved.get("rhythm")),
        demand={str(name): float(slots) for name, slots in saved["demand"].items()},
        warm=int(saved["warm"]),
        hits=float(saved["hits"]),
        misses=float(saved["misses"]),
        targets=tuple((float(at_s), int(slots)) for at_s, slots in saved["targets"]),
        ordered={str(name): Ordered(str(t), zone, float(at_s)) for name, (t, zone, at_s) in saved["ordered"].items()},
        made={
            str(name): Made(str(uid), str(tier), int(units), float(at_s))
            for name, (uid, tier, units, at_s) in saved.get("made", {}).items()
        },
        dropped={str(uid): float(at_s) for uid, at_s in saved["dropped"].items()},
        marked={str(uid): Marked(float(at_s), int(times)) for uid, (at_s, times) in saved.get("marked", {}).items()},
        edited={
            str(name): Edited(float(at_s), (_read_limit(gpus), _read_limit(nodes)), int(times))
            for name, (at_s, gpus, nodes, times) in saved.get("edited", {}).items()
        },
        handed={
            str(name): Handed(float(at_s), int(waiting), int(slots))
            for name, (at_s, waiting, slots) in saved.get("handed", {}).items()
        },
        gave_back={
            str(uid): GaveBack(PoolReason[reason], float(until_s), int(times))
            for uid, reason, until_s, times in saved.get("gave_back", ())
        },
        created_s=-math.inf if saved["created_s"] is None else float(saved["created_s"]),
    )


def _read_limit(saved: Any) -> int | None:
    return None if saved is None else int(saved)


def _domain(domain: Domain) -> tuple[str, str, str]:
    return domain.sku, domain.zone, domain.capacity_type.value


def _read_domain(saved: list[Any]) -> Domain:
    sku, zone, capacity_type = saved
    return Domain(str(sku), str(zone), CapacityType(capacity_type))


def _read_unjoined(saved: Mapping[str, Any]) -> dict[str, Unjoined]:
    """Versions that kept the NodePool alone knew no age: those claims are seen again, if they are there."""
    told = {name: each for name, each in saved.items() if not isinstance(each, str)}
    return {
        str(name): Unjoined(str(node_pool), float(created_s), None if deleting_s is None else float(deleting_s))
        for name, (node_pool, created_s, deleting_s) in told.items()
    }


def _read_rhythm(saved: list[Any] | None) -> Rhythm | None:
    """Checkpoints of versions that knew none have none; two numbers reach as far as all did."""
    if saved is None:
        return None
    hours, more, reach = saved if len(saved) > 2 else (*saved, REACHES[-1])
    if not (1 <= int(hours) <= HOURS[-1] and 0 <= int(more) <= MORE[-1] and int(reach) in REACHES):
        raise ValueError(f"rhythm {saved}")
    return Rhythm(int(hours), int(more), int(reach))


def _circuit(kept: Circuit) -> list[Any]:
    return [list(kept.troubles_s), kept.opened, kept.until_s, kept.trouble_s, kept.success_s]


def _read_circuit(saved: list[Any]) -> Circuit:
    troubles_s, opened, until_s, trouble_s, success_s = saved
    last = [None if at_s is None else float(at_s) for at_s in (trouble_s, success_s)]
    return Circuit(tuple(float(at_s) for at_s in troubles_s), int(opened), float(until_s), *last)
