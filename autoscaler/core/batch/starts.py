"""When a gang that does not fit now is expected to start, and on which nodes.

Enters: the ledger, gangs that run with their expected ends, nodes on their way. Leaves: the first instant at which the
whole gang has room if everything ends as expected, with the nodes; None where it has room never. More room never hurts,
so the instant is found by halving over the expected ends.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from autoscaler.core.batch.devices import Devices
from autoscaler.core.batch.ledger import Ledger
from autoscaler.core.batch.owners import OCCUPYING, Owner
from autoscaler.core.batch.placement import Ask, Placer
from autoscaler.core.columns import F64, I64


@dataclass(frozen=True, slots=True)
class Ending:
    """Units that are expected to be left."""

    at_s: float
    units: tuple[tuple[int, int], ...]
    """(node, units)."""
    spare: tuple[tuple[int, float, float], ...] = ()
    """(node, cores, GiB)."""
    shares: tuple[tuple[int, int, int], ...] = ()
    """(node, device, thousandths)."""


class _Shares:
    """What shares hold, as endings give them back one after the other."""

    def __init__(self, devices: Devices | None, ordered: Sequence[Ending]) -> None:
        self._now = None if devices is None else devices.held
        rows = [row for each in ordered for row in each.shares]
        self._given: I64 = np.array(rows, dtype=np.int64).reshape(-1, 3)
        """(node, device, thousandths)."""
        self._upto = np.cumsum([0, *(len(each.shares) for each in ordered)]) if rows else None

    def held(self, count: int) -> I64 | None:
        """Thousandths by node and device that are held after so many endings; None where nobody can hold any."""
        if self._now is None or self._upto is None:
            return self._now
        ended = self._given[: int(self._upto[count])]
        held = self._now.copy()
        np.subtract.at(held, (ended[:, 0], ended[:, 1]), ended[:, 2])
        return held

    def with_closed(self, gained: I64, count: int) -> I64:
        """Units by node, and with them the devices that carry shares now and none after so many endings."""
        held = self.held(count)
        if self._now is None or held is None:
            return gained
        return np.asarray(gained + ((self._now > 0) & (held == 0)).sum(axis=1), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Start:
    """The expected start of a gang."""

    at_s: float
    plan: dict[int, int]
    """Units by node."""


def arrivals(ledger: Ledger, level: int) -> list[Ending]:
    """What nodes on their way bring beside what others take there; level 0 as often as not, 1 in nine of ten cases."""
    out = []
    for at, node in enumerate(ledger.estate.nodes):
        if node.due_s is not None:
            left = node.units - node.failing_units - int(ledger.owned[at, OCCUPYING].sum())
            at_s = node.late_s if level and node.late_s is not None else node.due_s
            out.append(Ending(at_s, ((at, max(0, left)),)))
    return out


def first_start(
    ledger: Ledger,
    placer: Placer,
    wanted: Ask,
    *,
    endings: Iterable[Ending],
    now_s: float,
    own: Mapping[int, int] | None = None,
    least: int = 0,
) -> Start | None:
    """The first start, from now on, of a gang that may use `own` units beside those that are free, once as many as
    `least` of the endings are over."""
    estate = ledger.estate
    base = estate.free.copy()
    for node, units in (own or {}).items():
        base[node] += units
    ordered = sorted(endings, key=lambda each: each.at_s)
    upto = np.cumsum([0, *(len(each.units) for each in ordered)])
    nodes = np.array([node for each in ordered for node, _ in each.units], dtype=np.int64)
    left = np.array([units for each in ordered for _, units in each.units], dtype=np.float64)

    shares = _Shares(estate.devices, ordered)

    def room(count: int) -> I64:
        ended = int(upto[count])
        gained = np.bincount(nodes[:ended], weights=left[:ended], minlength=len(base)).astype(np.int64)
        return np.asarray(np.minimum(base + shares.with_closed(gained, count), estate.units), dtype=np.int64)

    low, high = least, len(ordered)
    if not placer.counts(wanted, room(high)):
        return None
    while low < high:
        middle = (low + high) // 2
        if placer.counts(wanted, room(middle)):
            high = middle
        else:
            low = middle + 1

    def spare(count: int) -> F64:
        gained = estate.spare.copy()
        for each in ordered[:count] if wanted.vector else ():
            for node, cpu, memory_gib in each.spare:
                gained[node] += (cpu, memory_gib)
        return gained

    step = 1

    def offered(count: int) -> _Offered:
        return _Offered(room(count), spare(count), shares.held(count), own or ())

    while (plan := _planned(ledger, placer, wanted, offered(low))) is None:
        # The count admits, cores, memory or odd sizes do not: later, in growing steps.
        if low == len(ordered):
            return None
        low, step = min(len(ordered), low + step), 2 * step
    return Start(max(now_s, ordered[low - 1].at_s) if low else now_s, plan)


def could_ever(ledger: Ledger, placer: Placer, wanted: Ask) -> bool:
    """Whether the gang fit if gangs, loans and reservations were gone and nodes on their way had come."""
    estate, room = ledger.estate, left_by_others(ledger)
    if wanted.exact and not wanted.vector:
        return placer.counts(wanted, room)
    held = None if estate.devices is None else np.zeros_like(estate.devices.held)
    offered = _Offered(room, estate.unheld(), held, range(len(estate.nodes)))
    return placer.counts(wanted, room) and _planned(ledger, placer, wanted, offered) is not None


def left_by_others(ledger: Ledger) -> I64:
    """Units by node, of those that may be used or are on their way, beside what serving and others hold."""
    estate = ledger.estate
    occupied = ledger.owned[:, (Owner.SERVING, Owner.STANDBY, Owner.FOREIGN)].sum(axis=1)
    there = np.array([node.usable or node.due_s is not None for node in estate.nodes], dtype=np.bool_)
    failing = np.array([node.failing_units for node in estate.nodes], dtype=np.int64)
    return np.asarray(np.where(there, np.maximum(0, estate.units - occupied - failing), 0), dtype=np.int64)


class _Offered(NamedTuple):
    """What there would be: free units, spare cores and memory, what shares hold of devices (None without any)."""

    free: I64
    spare: F64
    held: I64 | None
    lifted: Collection[int]
    """Nodes on which shares may join others though somebody lacks whole devices there."""


def _planned(ledger: Ledger, placer: Placer, wanted: Ask, offered: _Offered) -> dict[int, int] | None:
    """Units by node of a placement, if this were there; nothing is changed."""
    estate, devices = ledger.estate, ledger.estate.devices
    kept, version, kept_spare = estate.free.copy(), estate.version, estate.spare
    kept_shares = None if devices is None else (devices.held, devices.barred, estate.usable)
    estate.set_all_free(offered.free)
    estate.spare = offered.spare
    if devices is not None and offered.held is not None:
        devices.held, devices.barred = offered.held.copy(), devices.barred.copy()
        devices.barred[list(offered.lifted)] = False
        estate.usable = estate.usable | np.array([node.due_s is not None for node in estate.nodes], dtype=np.bool_)
    spots = placer.take(wanted)
    if spots is not None:
        placer.give(spots, wanted)
    estate.set_all_free(kept)
    if devices is not None and kept_shares is not None:
        devices.held, devices.barred, estate.usable = kept_shares
    estate.version, estate.spare = version, kept_spare
    if spots is None:
        return None
    plan: dict[int, int] = {}
    for spot in spots:
        plan[spot.node] = plan.get(spot.node, 0) + spot.units
    return plan


def fluid(
    ahead_units: Sequence[float], ends_s: Sequence[tuple[float, int]], free: int, flow: float, now_s: float
) -> list[float]:
    """Expected starts of gangs in the order they are taken, `ahead_units` being each one's own and all before it.

    Room is counted only, not placed: the free units, those that running gangs leave, and beyond them a steady flow in
    units a second, at which all that is admitted meanwhile ends.
    """
    ordered = sorted(ends_s)
    times = np.array([now_s, *(at_s for at_s, _ in ordered)])
    gained = free + np.concatenate([np.zeros(1), np.cumsum([units for _, units in ordered])])
    out = []
    for units in ahead_units:
        at = int(np.searchsorted(gained, units - 1e-9))
        if at < len(times):
            out.append(max(now_s, float(times[at])))
        else:
            out.append(float(times[-1]) + (units - float(gained[-1])) / flow if flow > 0 else math.inf)
    return out
