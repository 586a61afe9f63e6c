"""Where a pod goes among the nodes of a shared shape: where least becomes useless to those that are expected.

Enters: the room of the nodes and the kinds of pods that are asked for. Leaves: a node, and for a share its device. What
is useless to a kind is all that is free on a node that cannot take one of it, else the rests of devices that are too
small for it; what counts is the mean over the kinds, by how often each is asked for (FGD, USENIX ATC 2023). The growth
of that is kept by kind and node, and found anew for nodes that changed: what changed is seen by comparison.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from autoscaler.core.batch.devices import Devices
from autoscaler.core.batch.estate import Estate
from autoscaler.core.batch.gangs import PodSet
from autoscaler.core.batch.params import PER_DEVICE
from autoscaler.core.columns import F64, I64, Bools

MOST_KINDS: Final = 30
"""The commonest kinds count; the others of a trace are a few pods each."""

MOST_KEPT: Final = 1024
"""Kinds whose growths are kept: some 20 kB each for 1,200 nodes."""

NEARLY: Final = 1e-9
"""Of a pod: what rounding may take of cores or memory."""


class PodKind(NamedTuple):
    """All that decides where a pod fits."""

    units: int
    share: int
    """Thousandths; 0 where whole units are asked for."""
    models: frozenset[str]
    cpu: float
    memory_gib: float


def kind_of(each: PodSet) -> PodKind:
    """The kind of a pod set's pods."""
    return new(PodKind, (each.units, each.share, each.models, each.cpu, each.memory_gib))


new: Final = tuple.__new__


@dataclass(slots=True, eq=False)
class _Growths:
    """Of one kind: the growth on each node, infinite where it has no room, and the device for a share."""

    growth: F64
    device: I64
    at: int = 0
    """As of which change."""


@dataclass(frozen=True, slots=True, eq=False)
class _Options:
    """Room of some nodes, one row for each way to use it."""

    free: I64
    rests: I64
    spare: F64
    models: I64


class Scores:
    """Finds places on the nodes of one shared shape of an estate."""

    def __init__(self, estate: Estate, devices: Devices, shape: int, mix: Mapping[PodKind, float]) -> None:
        self._estate, self._devices = estate, devices
        self.rows: I64 = np.flatnonzero(estate.shape == shape)
        """The nodes."""
        names = sorted({estate.nodes[at].model for at in self.rows.tolist()})
        self._model_bits = {name: 1 << at for at, name in enumerate(names)}
        self._any = (1 << len(names)) - 1
        self._models: I64 = np.array(
            [self._model_bits[estate.nodes[at].model] for at in self.rows.tolist()], dtype=np.int64
        )
        common = sorted(mix.items(), key=lambda each: (-each[1], each[0][:2]))[:MOST_KINDS]
        kinds = [kind for kind, _ in common] or [PodKind(1, 0, frozenset(), 0.0, 0.0)]
        weights = np.array([weight for _, weight in common] or [1.0], dtype=np.float64)
        self._weights: F64 = weights / weights.sum()
        self._units: I64 = np.array([kind.units for kind in kinds], dtype=np.int64)
        self._shares: I64 = np.array([kind.share for kind in kinds], dtype=np.int64)
        self._allowed: I64 = np.array([self._bits(kind.models) for kind in kinds], dtype=np.int64)
        self._needs: F64 = np.array([(kind.cpu, kind.memory_gib) for kind in kinds], dtype=np.float64)
        self._kept: dict[PodKind, _Growths] = {}
        self._changes = 0
        self._changed: I64 = np.zeros(len(self.rows), dtype=np.int64)
        """By node: which change was its last."""
        self._free: I64 = np.full(len(self.rows), -1, dtype=np.int64)
        self._held: I64 = np.zeros((len(self.rows), devices.held.shape[1]), dtype=np.int64)
        self._spare: F64 = np.zeros((len(self.rows), 2), dtype=np.float64)
        self._usable: Bools = np.zeros(len(self.rows), dtype=np.bool_)
        self._barred: Bools = np.zeros(len(self.rows), dtype=np.bool_)
        self._useless: F64 = np.zeros(len(self.rows), dtype=np.float64)
        """What was seen last, and how much of it is useless."""

    def find(self, kind: PodKind, among: Bools | None) -> tuple[int, int] | None:
        """The node for a pod of a kind, and for a share the device on it; None without room.

        Where the growth is the same, the first: the tightest by GPUs or cores leave whole nodes without cores for their
        GPUs. `among` says which of `rows` will do, all of them where it is None.
        """
        self._look()
        kept = self._kept.get(kind)
        if kept is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            count = len(self.rows)
            kept = self._kept[kind] = _Growths(np.full(count, np.inf), np.full(count, -1, dtype=np.int64))
        stale = np.flatnonzero(self._changed > kept.at)
        if stale.size:
            kept.growth[stale], kept.device[stale] = self._growths(kind, stale)
            kept.at = self._changes
        if not len(self.rows):
            return None
        growth = kept.growth if among is None else np.where(among, kept.growth, np.inf)
        best = int(np.argmin(growth))
        if not np.isfinite(growth[best]):
            return None
        return int(self.rows[best]), int(kept.device[best])

    def _look(self) -> None:
        """Take in which nodes are not as they were."""
        estate, rows = self._estate, self.rows
        free, held, spare = estate.free[rows], self._devices.held[rows], estate.spare[rows]
        usable, barred = estate.usable[rows], self._devices.barred[rows]
        differ = (free != self._free) | (spare != self._spare).any(axis=1) | (usable != self._usable)
        differ |= (barred != self._barred) | (held != self._held).any(axis=1)
        at = np.flatnonzero(differ)
        if at.size:
            self._changes += 1
            self._changed[at] = self._changes
            self._free, self._held, self._spare, self._usable, self._barred = free, held, spare, usable, barred
            self._useless[at] = self._useless_of(self._options(at))

    def _options(self, at: I64) -> _Options:
        held = self._held[at]
        return _Options(
            self._free[at], np.where(held > 0, PER_DEVICE - held, 0), self._spare[at], self._models[at]
        )  # fmt: skip

    def _growths(self, kind: PodKind, at: I64) -> tuple[F64, I64]:
        """For some nodes: how much more is useless with a pod of this kind on them, and on which device then."""
        there = self._options(at)
        able = self._usable[at] & ((there.models & self._bits(kind.models)) > 0)
        needs = np.array((kind.cpu, kind.memory_gib))
        able &= (there.spare >= needs * (1.0 - NEARLY)).all(axis=1)
        spare = there.spare - needs
        growth, device = np.full(len(at), np.inf), np.full(len(at), -1, dtype=np.int64)
        fresh = np.flatnonzero(able & (there.free >= max(1, kind.units)))
        rows, begun = fresh, np.full(len(fresh), -1, dtype=np.int64)
        if kind.share:
            # Devices that carry shares come first: where nothing else decides, one of them is taken.
            joins = (there.rests >= kind.share) & (able & ~self._barred[at])[:, None]
            rows, begun = np.nonzero(joins)
            unused = np.argmin(self._held[at] > 0, axis=1)[fresh]
            rows, begun = np.concatenate((rows, fresh)), np.concatenate((begun, unused))
        if not rows.size:
            return growth, device
        free, rests = there.free[rows].copy(), there.rests[rows].copy()
        if kind.share:
            which = np.arange(len(rows))
            is_fresh = which >= len(rows) - len(fresh)
            free[is_fresh] -= 1
            rests[is_fresh, begun[is_fresh]] = PER_DEVICE
            rests[which, begun] -= kind.share
        else:
            free -= kind.units
        after = self._useless_of(_Options(free, rests, spare[rows], there.models[rows]))
        grown = np.round(after - self._useless[at][rows], 6)
        order = np.lexsort((np.arange(len(rows)), grown, rows))
        first = order[np.flatnonzero(np.diff(rows[order], prepend=-1))]
        growth[rows[first]], device[rows[first]] = grown[first], begun[first]
        return growth, device

    def _useless_of(self, there: _Options) -> F64:
        """The mean, over the kinds, of the thousandths that are useless to one."""
        fits = (there.models[:, None] & self._allowed[None, :]) > 0
        for at in range(2):
            fits &= there.spare[:, at, None] >= self._needs[None, :, at] * (1.0 - NEARLY)
        most = there.rests.max(axis=1, initial=0)
        most = np.where(there.free > 0, PER_DEVICE, most)
        fits &= np.where(
            self._shares[None, :] > 0, most[:, None] >= self._shares[None, :],
            there.free[:, None] >= self._units[None, :],
        )  # fmt: skip
        least = np.where(self._shares > 0, self._shares, PER_DEVICE)
        rests = there.rests[:, :, None]
        small = (rests * (rests < least[None, None, :])).sum(axis=1)
        free = PER_DEVICE * there.free + there.rests.sum(axis=1)
        return np.asarray(np.where(fits, small, free[:, None]) @ self._weights, dtype=np.float64)

    def _bits(self, models: frozenset[str]) -> int:
        """Models as bits; all of them where any will do."""
        return sum(self._model_bits.get(name, 0) for name in models) if models else self._any
