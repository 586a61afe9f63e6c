"""Trying out which candidates are enough: quota first, then room, then whom the others make needless.

Enters: who waits and who may be asked, the cheapest first. Leaves: a plan whose placement was found with the victims
gone, or None. All that is changed on the way is changed back. Who may be asked at all is decided in `victims`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import numpy as np

from autoscaler.core.batch.exchanges import Exchanges
from autoscaler.core.batch.gangs import PodSet
from autoscaler.core.batch.ledger import Ledger
from autoscaler.core.batch.placement import Ask, Placer, Spot, pods_within
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.running import Running, Runs
from autoscaler.core.batch.shares import closing
from autoscaler.core.batch.tree import Load, QueueTree
from autoscaler.core.batch.waiting import Waiting
from autoscaler.core.columns import F64


@dataclass(frozen=True, slots=True)
class Books:
    """All that a search reads, and changes only to try."""

    tree: QueueTree
    ledger: Ledger
    placer: Placer
    runs: Runs
    exchanges: Exchanges
    max_evictions: int
    """Of one gang, before it gives way to guarantees only."""


class Candidate(NamedTuple):
    """A gang that may be asked to leave for another. A tuple: made by the dozen for each search."""

    run: Running
    reason: BatchReason
    own: int
    """The waiting gang's side below the queue at which the two paths meet; 0 within one queue."""
    other: int
    """The victim's side."""
    cost_gpu_s: float
    units: int
    """That it holds, as quotas count them."""


Ranked = tuple[float, str, tuple[Running, BatchReason, int, int, float, int]]
"""The cost of a unit and a name, by which candidates are ranked, and a candidate: plain, for most are never drawn."""


class Candidates:
    """The first few candidates in an order, drawn only as far as somebody looks: mostly the first is enough."""

    def __init__(self, ranked: Iterator[Ranked], most: int) -> None:
        self._ranked, self._most = ranked, most
        self._drawn: list[Candidate] = []
        """One more than `most` at the end, which tells whether there are others."""

    def __getitem__(self, at: int) -> Candidate:
        return self._drawn[at]

    def has(self, at: int) -> bool:
        """Whether there is one at a place."""
        return at < self._most and self._draw(at + 1)

    def draw_all(self) -> int:
        """Draw all of them; how many there are."""
        self._draw(self._most + 1)
        return min(len(self._drawn), self._most)

    def have(self, units: int) -> bool:
        """Whether they, and the next one, hold so many units; False without any."""
        at = held = 0
        while self._draw(at + 1):
            held, at = held + self._drawn[at].units, at + 1
            if held >= units:
                return True
        return False

    @property
    def are_all(self) -> bool:
        """Whether there are no others."""
        return self.draw_all() == len(self._drawn)

    def _draw(self, number: int) -> bool:
        drawn = self._drawn
        if len(drawn) < number <= self._most + 1:
            drawn.extend([Candidate(*each) for _, _, each in islice(self._ranked, number - len(drawn))])
        return len(drawn) >= number


@dataclass(frozen=True, slots=True)
class Plan:
    """Who leaves, and where the waiting gang goes then."""

    victims: tuple[Candidate, ...]
    spots: tuple[Spot, ...]

    @property
    def cost_gpu_s(self) -> float:
        """Work lost, in GPU-seconds, weighed by importance."""
        return sum(victim.cost_gpu_s for victim in self.victims)


@dataclass(slots=True)
class Trial:
    """One try with the candidates at hand; all that it changes it changes back."""

    books: Books
    waiting: Waiting
    load: Load
    wanted: Ask
    candidates: Candidates
    chosen: list[Candidate] = field(default_factory=list)
    by_node: dict[int, list[int]] = field(default_factory=dict)
    """Candidates on each node, cheapest first; found when somebody asks."""
    gone: set[int] = field(default_factory=set)

    def run(self) -> Plan | None:
        """The plan; None where these candidates are not enough."""
        estate = self.books.ledger.estate
        version = estate.version
        found = self._found()
        for candidate in reversed(self.chosen):
            self._back(candidate)
        estate.version = version
        return found

    def _found(self) -> Plan | None:
        if not self._quota() or not self._room():
            return None
        self._trim()
        spots = self.books.placer.take(self.wanted)
        assert spots is not None
        self.books.placer.give(spots, self.wanted)
        return Plan(tuple(self.chosen), spots)

    def _quota(self) -> bool:
        """Choose the cheapest until the quota allows the gang."""
        at = 0
        while self.books.tree.verdict(self.waiting.queue, self.load) is not None:
            while self.candidates.has(at) and not self._may(at):
                at += 1
            if not self.candidates.has(at):
                return False
            self._choose(at)
        return True

    def _room(self) -> bool:
        """Choose where a slot of the size that is short costs least, until the gang has room."""
        options: list[tuple[float, int, list[int]]] = []
        touched: set[int] = set()
        while not self._fits():
            while options and (options[-1][1] in touched or not all(self._may(at) for at in options[-1][2])):
                options.pop()
            if not options:
                options, touched = self._options(), set()
                if not options:
                    return False
            _, _, group = options.pop()
            for at in group:
                self._choose(at)
                holding = self.books.ledger.holdings[self.candidates[at].run.name]
                touched.update(spot.node for spot in holding.spots)
        return True

    def _fits(self) -> bool:
        spots = self.books.placer.take(self.wanted)
        if spots is None:
            return False
        self.books.placer.give(spots, self.wanted)
        return True

    def _options(self) -> list[tuple[float, int, list[int]]]:
        """For each node, who gains a slot there at the least cost: (cost of a slot, node, who), the best last."""
        size, shape, pods, pod_set = self._short()
        ledger, estate = self.books.ledger, self.books.ledger.estate
        if not self.by_node:
            self._find_nodes()
        out = []
        for node, here in self.by_node.items():
            if int(estate.shape[node]) != shape:
                continue
            if pod_set is not None and pod_set.models and estate.nodes[node].model not in pod_set.models:
                continue
            free, group, cost = int(estate.free[node]), [], 0.0
            holding = ledger.on_node[node]
            spare = None if pod_set is None else estate.spare[node].copy()
            slots = _slots(free // size, pod_set, spare)
            for at in here:
                if self._may(at):
                    group.append(at)
                    cost += self.candidates[at].cost_gpu_s
                    free += holding[self.candidates[at].run.name]
                    if spare is not None:
                        spare += self._held_spare(at, node)
                    closed = 0
                    if estate.devices is not None:
                        closed = closing(ledger, node, [self.candidates[each].run.name for each in group])
                    gained = min(pods, _slots((free + closed) // size, pod_set, spare) - slots)
                    if gained > 0:
                        out.append((cost / gained, node, group))
                        break
        out.sort(key=lambda each: (-each[0], -each[1]))
        return out

    def _find_nodes(self) -> None:
        for at in range(self.candidates.draw_all()):
            spots = self.books.ledger.holdings[self.candidates[at].run.name].spots
            for node in dict.fromkeys([spot.node for spot in spots]):
                self.by_node.setdefault(node, []).append(at)

    def _held_spare(self, at: int, node: int) -> F64:
        """Cores and GiB that a candidate holds on a node."""
        spots = self.books.ledger.holdings[self.candidates[at].run.name].spots
        here = [(spot.cpu, spot.memory_gib) for spot in spots if spot.node == node]
        return np.asarray(np.array(here, dtype=np.float64).sum(axis=0))

    def _short(self) -> tuple[int, int, int, PodSet | None]:
        """(units, shape, pods) of the pods there is too little room for: the largest that the count refutes.

        With them the pod set, where cores, memory or a model may be what is short.
        """
        estate, wanted = self.books.ledger.estate, self.wanted
        if wanted.levels[-1] > len(self.books.placer.levels):
            ((shape, units),) = wanted.units.items()
            return units, shape, 1, None
        vector = wanted.form.pod_sets if wanted.vector or wanted.scored else ()
        for units, pods, shape, pod_set in wanted.pods:
            need, there = wanted.need[shape].tolist(), estate.whole[shape]
            if any(need[at] > there[at] and size <= units for at, size in enumerate(estate.sizes)):
                return units, shape, pods, vector[pod_set] if vector else None
        units, pods, shape, pod_set = wanted.pods[0]
        return units, shape, pods, vector[pod_set] if vector else None

    def _may(self, at: int) -> bool:
        """Whether a candidate may be chosen, those chosen already taken off its queue."""
        if at in self.gone:
            return False
        candidate, tree = self.candidates[at], self.books.tree
        leaf, taken = candidate.run.queue, candidate.run.load
        match candidate.reason:
            case BatchReason.OUTRANKED:
                return True
            case BatchReason.RECLAIMED:
                return tree.exceeds(candidate.other, self.load) and tree.exceeds(leaf, self.load)
            case _:
                after = tree.share(candidate.other, taken, -1)
                return tree.share(candidate.own, self.load) <= after and all(
                    tree.used[at][shape] - units >= tree.quotas[at].guaranteed[shape]
                    for at in tree.paths[leaf]
                    for shape, units in taken.counted
                )

    def _choose(self, at: int) -> None:
        candidate = self.candidates[at]
        self.gone.add(at)
        self.chosen.append(candidate)
        self.books.tree.remove(candidate.run.queue, candidate.run.load)
        self._move(candidate, 1)

    def _back(self, candidate: Candidate) -> None:
        self._move(candidate, -1)
        self.books.tree.add(candidate.run.queue, candidate.run.load)

    def _move(self, candidate: Candidate, sign: int) -> None:
        estate = self.books.ledger.estate
        for spot in self.books.ledger.holdings[candidate.run.name].spots:
            if estate.nodes[spot.node].usable:
                estate.set_free(spot.node, int(estate.free[spot.node]) + sign * spot.units)
                if spot.share:
                    move_share = estate.give_share if sign > 0 else estate.take_share
                    move_share(spot.node, spot.device, spot.share)
                if spot.cpu or spot.memory_gib:
                    estate.spare[spot.node] += (sign * spot.cpu, sign * spot.memory_gib)

    def _trim(self) -> None:
        """Leave out again, dearest first, whom the gang does not need."""
        placer, tree = self.books.placer, self.books.tree
        for candidate in sorted(self.chosen, key=lambda each: (-each.cost_gpu_s, each.run.name)):
            self._back(candidate)
            spots = placer.take(self.wanted) if tree.verdict(self.waiting.queue, self.load) is None else None
            if spots is not None:
                placer.give(spots, self.wanted)
                self.chosen.remove(candidate)
            else:
                tree.remove(candidate.run.queue, candidate.run.load)
                self._move(candidate, 1)


def _slots(by_units: int, pod_set: PodSet | None, spare: F64 | None) -> int:
    """Slots of a node, by its units and, where they count, by its spare cores and memory."""
    return by_units if pod_set is None or spare is None else min(by_units, pods_within(pod_set, *spare.tolist()))
