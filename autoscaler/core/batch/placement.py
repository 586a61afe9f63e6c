"""Where a gang goes: the domain, then the nodes, whole or not at all.

Enters: an estate and what a gang's form asks for. Leaves: spots, already taken from the estate, or None with nothing
changed. First the count (chain), which refutes exactly for sizes 1, 2, 4, 8; then largest pods first, each where the
expected fragment grows least; cores and memory are checked on the way. In a shared shape scores say where, pod by pod.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from autoscaler.core.batch import chain
from autoscaler.core.batch.estate import WHOLE, Estate
from autoscaler.core.batch.gangs import NODE, Form, PodSet
from autoscaler.core.batch.scores import PodKind, Scores, kind_of
from autoscaler.core.columns import I64, Bools

new: Final = tuple.__new__
"""Of a named tuple made several times for each admission: to call its class takes twice as long."""

ALL: Final = -1
"""Nodes as bits: every one."""

EVERYWHERE: Final = (ALL,)

NOTHING: Final[Mapping[int, Mapping[PodKind, float]]] = {}


class Spot(NamedTuple):
    """Some equal pods of a gang on one node. A tuple: made several times for each admission, at a third of the time."""

    node: int
    pod_set: int
    pods: int
    units: int
    """Of all these pods together, as are the others."""
    cpu: float = 0.0
    memory_gib: float = 0.0
    device: int = -1
    """Where a share lies; -1 for whole units."""
    share: int = 0
    """Thousandths of that device; one pod then, and no units."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A form in the words of one estate."""

    form: Form
    pods: tuple[tuple[int, int, int, int], ...]
    """(units for each pod, pods, shape, pod set), largest first."""
    need: Mapping[int, I64]
    """Slots by size that it takes, by shape."""
    levels: tuple[int, ...]
    """Levels to try, in order; beyond the last topology level stands the node."""
    vector: bool
    """Whether cores or memory are asked for."""
    exact: bool
    """Whether the count decides in a domain."""
    units: Mapping[int, int] = field(default_factory=dict)
    least: tuple[tuple[int, int, int], ...] = ()
    """`need` where it is above 0: (shape, place of the size, slots); a few plain numbers compare sooner than arrays."""
    scored: bool = False
    """Whether a shape of it is shared, so that pods are placed one by one, where scores say."""


def ask(form: Form, estate: Estate, levels: tuple[str, ...]) -> Ask:
    """What a form asks of an estate. Its shapes and levels are known ones."""
    at_shape = {name: at for at, name in enumerate(estate.shape_names)}
    sets = [(s.units, s.share, s.pods, at_shape[s.shape], -at) for at, s in enumerate(form.pod_sets)]
    pods = [(size, count, shape, at) for size, _, count, shape, at in sorted(sets, reverse=True)]
    scored = not estate.shared.isdisjoint(shape for _, _, shape, _ in pods)
    need: dict[int, I64] = {}
    units: dict[int, int] = {}
    for shape in sorted({shape for _, _, shape, _ in pods}):
        mine = [(size, count) for size, count, where, _ in pods if where == shape]
        need[shape] = chain.needed(mine, estate.sizes)
        units[shape] = sum(size * count for size, count in mine)
    ranks: dict[str | None, int] = {level: at + 1 for at, level in enumerate((*levels, NODE))}
    ranks[None] = WHOLE
    coarsest, finest = ranks[form.topology.required], ranks[form.topology.preferred]
    return Ask(
        form,
        tuple((size, count, shape, -at) for size, count, shape, at in pods),
        need,
        tuple(range(max(coarsest, finest), coarsest - 1, -1)),
        any(each.cpu or each.memory_gib for each in form.pod_sets),
        not scored and all(chain.exact(each.units) for each in form.pod_sets),
        units,
        tuple((shape, at, each) for shape, all_ in need.items() for at, each in enumerate(all_.tolist()) if each),
        scored,
    )


class Placer:
    """Places gangs on one estate.

    `mix` says which pod sizes are to be expected, by units asked for; `kinds` which pods in each shared shape, by pods.
    """

    def __init__(
        self,
        estate: Estate,
        levels: tuple[str, ...],
        mix: Mapping[int, float] | None = None,
        kinds: Mapping[int, Mapping[PodKind, float]] | None = None,
    ) -> None:
        self.estate, self.levels = estate, levels
        self._asks: dict[Form, Ask] = {}
        self._orders: dict[int, tuple[int, ...]] = {}
        self._mix: dict[int, float] = {}
        self._scores: dict[int, Scores] = {}
        self.expect(mix or {1: 1.0}, kinds or {})

    def expect(self, mix: Mapping[int, float], kinds: Mapping[int, Mapping[PodKind, float]] = NOTHING) -> None:
        """Score from now on by this mix of sizes and kinds."""
        devices = self.estate.devices
        if devices is not None:
            shared = sorted(self.estate.shared)
            self._scores = {shape: Scores(self.estate, devices, shape, kinds.get(shape, {})) for shape in shared}
        known = {size: weight for size, weight in mix.items() if weight > 0 and size <= self.estate.most}
        self._mix = known or {1: 1.0}
        self._orders = {}

    def ask(self, form: Form) -> Ask:
        """What a form asks for."""
        known = self._asks.get(form)
        if known is None:
            if len(self._asks) >= 4096:
                self._asks.clear()
            known = self._asks[form] = ask(form, self.estate, self.levels)
        return known

    def take(self, wanted: Ask) -> tuple[Spot, ...] | None:
        """Take room for a whole gang; None, and nothing changed, where there is none."""
        version = self.estate.version
        for level in wanted.levels:
            for mask in self.candidates(wanted, level):
                spots = self._fill(wanted, mask)
                if spots is not None:
                    return spots
        self.estate.version = version
        return None

    def counts(self, wanted: Ask, free: I64) -> bool:
        """Whether the count admits a form, if nodes had these free units. Nothing is taken."""
        estate, level = self.estate, wanted.levels[-1]
        if level > len(self.levels):
            shapes = list(wanted.units)
            mine = free[estate.shape == shapes[0]]
            return len(shapes) == 1 and bool((mine >= wanted.units[shapes[0]]).any())
        able: Bools = np.ones(len(estate.masks[level]), dtype=np.bool_)
        for shape, need in wanted.need.items():
            offered = chain.slots(free * (estate.shape == shape), estate.sizes)
            if level == WHOLE:
                able &= (offered.sum(axis=0) >= need).all()
            else:
                by_domain = np.zeros((len(able), len(estate.sizes)), dtype=np.int64)
                np.add.at(by_domain, estate.domain[level], offered)
                able &= (by_domain >= need).all(axis=1)
        return bool(able.any())

    def give(self, spots: tuple[Spot, ...], wanted: Ask) -> None:
        """Give back what `take` took."""
        estate = self.estate
        for spot in spots:
            estate.set_free(spot.node, estate.free_on(spot.node) + spot.units)
            if wanted.scored and spot.share:
                estate.give_share(spot.node, spot.device, spot.share)
            if wanted.vector:
                estate.spare[spot.node] += (spot.cpu, spot.memory_gib)

    def retake(self, spots: tuple[Spot, ...], wanted: Ask) -> None:
        """Take the very room of these spots, which is free."""
        estate = self.estate
        for spot in spots:
            estate.set_free(spot.node, estate.free_on(spot.node) - spot.units)
            if wanted.scored and spot.share:
                estate.take_share(spot.node, spot.device, spot.share)
            if wanted.vector:
                estate.spare[spot.node] -= (spot.cpu, spot.memory_gib)

    def candidates(self, wanted: Ask, level: int) -> Iterable[int]:
        """Domains of a level that the count does not refute, tightest first, as bits of nodes."""
        if level == WHOLE:
            return EVERYWHERE if self._whole(wanted) else ()
        return self._domains(wanted, level) if level <= len(self.levels) else self._nodes(wanted)

    def _domains(self, wanted: Ask, level: int) -> Iterator[int]:
        """The same for a level between the whole and the node."""
        estate, slots = self.estate, self.estate.slots(level)
        able = np.ones(len(slots), dtype=np.bool_)
        room = np.zeros(len(slots), dtype=np.int64)
        for shape, need in wanted.need.items():
            able &= (slots[:, shape] >= need).all(axis=1)
            room += slots[:, shape, 0]
        found = np.flatnonzero(able)
        for domain in found[np.argsort(room[found], kind="stable")].tolist():
            yield estate.masks[level][domain]

    def _whole(self, wanted: Ask) -> bool:
        """Whether the count admits a gang in the whole cluster."""
        slots = self.estate.whole
        for shape, at, need in wanted.least:  # noqa: SIM110 - at every attempt, and a generator takes twice as long
            if slots[shape][at] < need:
                return False
        return True

    def _nodes(self, wanted: Ask) -> Iterator[int]:
        """Single nodes that hold the whole gang."""
        if len(wanted.units) > 1:
            return
        ((shape, units),) = wanted.units.items()
        for free in self._order(units):
            bits = self.estate.bits[shape][free]
            while bits:
                yield bits & -bits
                bits &= bits - 1

    def _fill(self, wanted: Ask, mask: int) -> tuple[Spot, ...] | None:
        spots: list[Spot] = []
        for pods in wanted.pods:
            if not self._add(wanted, pods, mask, spots):
                self.give(tuple(spots), wanted)
                return None
        return tuple(spots)

    def add(self, wanted: Ask, pod_set: int, pods: int, mask: int, spots: list[Spot]) -> bool:
        """Take room for some pods of one set of a gang, on nodes of `mask`; False where not all of them have any.

        What was taken is in `spots` all the same.
        """
        size, _, shape, _ = next(each for each in wanted.pods if each[3] == pod_set)
        return self._add(wanted, (size, pods, shape, pod_set), mask, spots)

    def _add(self, wanted: Ask, pods: tuple[int, int, int, int], mask: int, spots: list[Spot]) -> bool:
        size, left, shape, pod_set = pods
        if wanted.scored and shape in self.estate.shared:
            return self._add_scored(wanted.form.pod_sets[pod_set], pods, mask, spots)
        estate, row = self.estate, self.estate.bits[shape]
        vector = wanted.form.pod_sets[pod_set] if wanted.vector else None
        for free in self._order(size):
            bits = row[free] if mask == ALL else row[free] & mask
            while bits:
                lowest = bits & -bits
                bits ^= lowest
                node, number = lowest.bit_length() - 1, min(left, free // size)
                cpu = memory_gib = 0.0
                if vector is not None:
                    number = min(number, pods_within(vector, *estate.spare[node].tolist()))
                    if not number:
                        continue
                    cpu, memory_gib = vector.cpu * number, vector.memory_gib * number
                    estate.spare[node] -= (cpu, memory_gib)
                estate.set_free(node, free - number * size)
                spots.append(new(Spot, (node, pod_set, number, number * size, cpu, memory_gib, -1, 0)))
                left -= number
                if not left:
                    return True
        return False

    def _add_scored(self, each: PodSet, pods: tuple[int, int, int, int], mask: int, spots: list[Spot]) -> bool:
        """The same in a shared shape, pod by pod."""
        size, left, shape, pod_set = pods
        estate, scores, kind = self.estate, self._scores[shape], kind_of(each)
        among = None if mask == ALL else _bools(mask, len(estate.nodes))[scores.rows]
        for _ in range(left):
            found = scores.find(kind, among)
            if found is None:
                return False
            node, device = found
            if kind.share:
                estate.take_share(node, device, kind.share)
            else:
                estate.set_free(node, estate.free_on(node) - size)
            estate.spare[node] -= (each.cpu, each.memory_gib)
            spots.append(Spot(node, pod_set, 1, size, each.cpu, each.memory_gib, device, kind.share))
        return True

    def _order(self, size: int) -> tuple[int, ...]:
        order = self._orders.get(size)
        if order is None:
            order = self._orders[size] = chain.orders(self._mix, self.estate.most, (size,))[size]
        return order


def _bools(mask: int, count: int) -> Bools:
    """Bits of nodes as booleans."""
    octets = np.frombuffer(mask.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(octets, bitorder="little")[:count].astype(np.bool_)


def pods_within(each: PodSet, cpu: float, memory_gib: float) -> int:
    """Pods of a pod set that these cores and this memory hold."""
    most = float(each.pods)
    if each.cpu:
        most = min(most, cpu / each.cpu + 1e-9)
    if each.memory_gib:
        most = min(most, memory_gib / each.memory_gib + 1e-9)
    return max(0, int(most))
