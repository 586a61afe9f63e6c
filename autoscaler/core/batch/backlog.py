"""Who waits, in which order: a tournament over the tree whose winner is the next gang to try.

Within a queue: priority, then who came first, one that runs longer counted as that much later, by two days at most; in
a strict queue priority, then age. Between siblings, at each level: who stays within what is guaranteed comes first,
then the lower weighted dominant share with the gang added, then who used less lately, then priority and age. Each inner
queue has a heap of its children, and only the path of a queue that changed is compared anew. Equal gangs of a queue
stand in one bucket: when the first does not fit the whole bucket steps aside, and comes back once when room is gained.
"""

import math
from collections.abc import Callable, Iterable
from functools import cache
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from autoscaler.core.batch.gangs import Brand, Form, Gang
from autoscaler.core.batch.params import Order
from autoscaler.core.batch.tree import ROOT, Load, QueueTree
from autoscaler.core.batch.waiting import Buckets, Rank, Waiting, first_of, sweep

NOBODY: Final = -1
SPARE_BRANDS: Final = 1000
"""Brands without a gang that are kept all the same; each takes about a KiB."""

MANY: Final = 16
"""Queues that are rather compared again together than each by itself: a parent that they share is compared once."""

PATIENCE: Final = 1.0
"""Seconds that a gang counts as later for each second that it is expected to run.

Short ones pass long ones, and nobody passes a gang that came longer before than that one runs, nor one that came
`PASSED_WITHIN_S` before. Of 0, 1, 2 and 4 the one with which large gangs wait no longer than under EASY (seeds 5 to 9
of the simulator's generator).
"""

PASSED_WITHIN_S: Final = 172_800.0
"""Who came this much before is passed by nobody of its queue and priority, however long it runs.

A gang that is passed waits for more than it counts as later, the more the fuller its queue is; without an end a gang of
a week, in a queue that is always full, would wait for weeks. On seeds 5 to 9 nothing changes by it; by one day would.
"""

Entry = tuple[int, int, float, int, float, int, int, int]
"""A queue beside its siblings: (beyond its guarantee, share, use, the three of its head's rank, version, queue).

Flat, because a comparison of nested tuples costs twice as much, and it is made some ten times for each admission.
"""


class Backlog:
    """All waiting gangs. `expected_s` says how long a gang that does not say so is taken to run."""

    def __init__(self, tree: QueueTree, half_life_s: float) -> None:
        self.tree, self._half_life_s = tree, half_life_s
        self.waiting: dict[str, Waiting] = {}
        self.brands: list[Brand] = []
        self.loads: list[Load] = []
        """By brand."""
        self._brand_of: dict[Brand, int] = {}
        self._unused: list[int] = []
        """Numbers whose brand no gang has any more."""
        self._queues = [Buckets() for _ in tree.specs]
        self._heaps: list[list[Entry]] = [[] for _ in tree.specs]
        self._version = [0] * len(tree.specs)
        self._winner = [NOBODY] * len(tree.specs)
        self._heads: list[Waiting | None] = [None for _ in tree.specs]
        """Of each queue, as of its last comparison: the gang to try first."""
        self._known_heads: list[tuple[Waiting, ...] | None] = [None for _ in tree.specs]
        self._touched: dict[int, None] = {}
        self._arrivals = self._entries = 0
        self.population: dict[int, int] = {}
        """Gangs that wait, by brand."""
        self._aside: dict[int, None] = {}
        """Queues with buckets that stepped aside."""

    def brand(self, form: Form, *, loan: tuple[float | None, ...] | None, expected_s: float) -> int:
        """The number of a brand."""
        brand = Brand(form, loan, expected_s)
        known = self._brand_of.get(brand)
        if known is None:
            if self._unused:
                known = self._unused.pop()
                self.brands[known], self.loads[known] = brand, self.tree.load(form)
            else:
                known = len(self.brands)
                self.brands.append(brand)
                self.loads.append(self.tree.load(form))
            self._brand_of[brand] = known
        return known

    def forget_brands(self, holding: Iterable[int]) -> bool:
        """Let go of brands that nobody has, where they are many; `holding` are those of gangs that do not wait."""
        live = {*self.population, *holding}
        if len(self._brand_of) <= 2 * len(live) + SPARE_BRANDS:
            return False
        for brand in [brand for brand, number in self._brand_of.items() if number not in live]:
            self._unused.append(self._brand_of.pop(brand))
        return True

    def add(self, gang: Gang, queue: int, brand: int) -> Waiting:
        """A gang begins to wait."""
        self._arrivals += 1
        fair = self.tree.spec(queue).order is Order.FAIR
        later_s = min(PATIENCE * self.brands[brand].expected_s / gang.stretch, PASSED_WITHIN_S) if fair else 0.0
        waiting = self.waiting_as(gang, queue, brand, (-gang.priority, gang.created_s + later_s, self._arrivals))
        self.put(waiting)
        return waiting

    def waiting_as(self, gang: Gang, queue: int, brand: int, rank: Rank) -> Waiting:
        """A gang as it waits at a rank."""
        elastic = gang.elastic
        widest = self.loads[brand] if elastic is None else self.tree.load(gang.at_width(elastic.most).form)
        return Waiting(gang, queue, brand, rank, widest)

    def put(self, waiting: Waiting) -> None:
        """A gang waits (again), at the rank it has."""
        brand = waiting.brand
        self.waiting[waiting.gang.name] = waiting
        waiting.waits = True
        self._entries += 1
        self.population[brand] = self.population.get(brand, 0) + 1
        queue = self._queues[waiting.queue]
        bucket = queue.buckets.setdefault(brand, [])
        place = (waiting.rank, self._entries, waiting)
        heappush(bucket, place)
        self._known_heads[waiting.queue] = None
        if brand not in queue.aside and bucket[0][0] == waiting.rank:
            heappush(queue.ready, place)
            self.touch(waiting.queue)

    def drop(self, name: str) -> Waiting | None:
        """A gang does not wait any more."""
        waiting = self.waiting.pop(name, None)
        if waiting is not None:
            waiting.waits = False
            brand, queue = waiting.brand, self._queues[waiting.queue]
            left = self.population[brand] - 1
            if left:
                self.population[brand] = left
            else:
                del self.population[brand]
            ready = queue.ready
            if ready and ready[0][2] is waiting and brand not in queue.aside:
                # Nearly always the head of its queue: its entry gives way to the next of its bucket.
                first = first_of(queue, brand)
                if first is None:
                    heappop(ready)
                else:
                    heapreplace(ready, first)
            elif queue.buckets[brand][0][2] is waiting:
                self._renew(queue, brand)
            else:
                queue.gone += 1
                if queue.gone >= queue.sweeps_at:
                    sweep(queue)
            self.touch(waiting.queue)
        return waiting

    def best(self) -> Waiting | None:
        """The gang to try next."""
        if len(self._touched) < MANY:
            for leaf in self._touched:
                self._compare(leaf)
        else:
            self._compare_many(self._touched)
        self._touched.clear()
        winner = self._winner[ROOT]
        return None if winner == NOBODY else self._heads[winner]

    def step_aside(self, waiting: Waiting) -> None:
        """The first of a bucket did not fit: all of the bucket wait, and in a strict queue all of the queue."""
        queue = self._queues[waiting.queue]
        queue.aside[waiting.brand] = None
        if self.tree.spec(waiting.queue).order is Order.STRICT:
            for brand in queue.buckets:
                queue.aside[brand] = None
        self._aside[waiting.queue] = None
        self.touch(waiting.queue)

    def come_back(self, plausible: Callable[[int], bool]) -> None:
        """Room was gained: buckets of brands that may fit now are tried again."""
        may = cache(plausible)
        for at in list(self._aside):
            queue = self._queues[at]
            strict = self.tree.spec(at).order is Order.STRICT
            back = [brand for brand in queue.aside if strict or may(brand)]
            for brand in back:
                del queue.aside[brand]
                self._renew(queue, brand)
            if not queue.aside:
                del self._aside[at]
            if back:
                self.touch(at)

    def heads(self) -> list[Waiting]:
        """The first gang of each queue, tried or not; unless it is strict, also the first that its guarantee covers."""
        known, heads = self._known_heads, list[Waiting]()
        for leaf in self.tree.leaves.values():
            heads += known[leaf] or self.heads_of(leaf)  # what is known is read without a call
        return heads

    def heads_of(self, leaf: int) -> tuple[Waiting, ...]:
        """The same of one queue."""
        known = self._known_heads[leaf]
        if known is None:
            known = self._known_heads[leaf] = self._find_heads(leaf)
        return known

    def firsts_of(self, leaf: int) -> list[Waiting]:
        """The first gang of each brand of a queue, by rank; of a strict queue the first only."""
        firsts = sorted((each for each, _ in self._firsts(leaf)), key=lambda each: each.rank)
        return firsts if self.tree.spec(leaf).order is Order.FAIR else firsts[:1]

    def _firsts(self, leaf: int) -> list[tuple[Waiting, int]]:
        """The first gang of each brand of a queue, with the brand."""
        queue = self._queues[leaf]
        found = [(first_of(queue, brand), brand) for brand in list(queue.buckets)]
        return [(each[2], brand) for each, brand in found if each is not None]

    def _find_heads(self, leaf: int) -> tuple[Waiting, ...]:
        tree, firsts = self.tree, self._firsts(leaf)
        if not firsts:
            return ()
        first = min(firsts, key=lambda each: each[0].rank)[0]
        covered = [each for each, brand in firsts if tree.within(leaf, self.loads[brand])]
        if covered and tree.spec(leaf).order is Order.FAIR:
            return tuple({id(each): each for each in (first, min(covered, key=lambda each: each.rank))}.values())
        return (first,)

    def length(self, queue: int) -> int:
        """Gangs of one queue, at most: some may wait no more."""
        return sum(map(len, self._queues[queue].buckets.values()))

    def in_queue(self, queue: int) -> list[Waiting]:
        """The gangs of one queue, by rank."""
        entries = (each for bucket in self._queues[queue].buckets.values() for _, _, each in bucket)
        mine = {each.gang.name: each for each in entries if each.waits}
        return sorted(mine.values(), key=lambda each: each.rank)

    def used(self, queue: int, gpu_s: float, at_s: float) -> None:
        """How much a queue used up to a time, decayed to that time; serving's use of the tenant included.

        Kept as a logarithm that moves with the half life, so that values of different instants compare.
        """
        self._queues[queue].used_log = math.log2(gpu_s) + at_s / self._half_life_s if gpu_s > 0 else -math.inf

    def touch(self, leaf: int) -> None:
        """What a queue holds, or who is first in it, has changed: it is compared again when somebody asks."""
        self._touched[leaf] = None
        self._known_heads[leaf] = None

    def touch_all(self) -> None:
        """What shares are measured against has changed."""
        self._touched.update(dict.fromkeys(self.tree.leaves.values()))

    def _compare(self, leaf: int) -> None:
        """Compare a queue with its siblings again, and so on up the tree."""
        self._heads[leaf] = head = self._head(leaf)
        self._winner[leaf] = NOBODY if head is None else leaf
        tree, version, winners = self.tree, self._version, self._winner
        for at in tree.paths[leaf]:
            parent = tree.parent[at]
            heap = self._heaps[parent]
            version[at] += 1
            winner = winners[at]
            if winner != NOBODY:
                entry = self._entry(at, winner)
                if heap and heap[0][-1] == at:
                    # Nearly always the last winner: its entry of before does not hold any more.
                    heapreplace(heap, entry)
                else:
                    heappush(heap, entry)
            while heap and heap[0][-2] != version[heap[0][-1]]:
                heappop(heap)
            if len(heap) > 4 * len(tree.children[parent]) + 64:
                heap[:] = [entry for entry in heap if entry[-2] == version[entry[-1]]]
                heapify(heap)
            winners[parent] = winners[heap[0][-1]] if heap else NOBODY

    def _compare_many(self, leaves: Iterable[int]) -> None:
        """The same for many queues at once, the deepest first, each parent once all of its children are known."""
        tree, version, depths = self.tree, self._version, max(map(len, self.tree.paths))
        changed: list[dict[int, None]] = [{} for _ in range(depths + 1)]
        for leaf in leaves:
            self._heads[leaf] = head = self._head(leaf)
            self._winner[leaf] = NOBODY if head is None else leaf
            changed[len(tree.paths[leaf])][leaf] = None
        for depth in range(depths, 0, -1):
            for at in changed[depth]:
                version[at] += 1
                winner = self._winner[at]
                if winner != NOBODY:
                    self._heaps[tree.parent[at]].append(self._entry(at, winner))
            for parent in dict.fromkeys(tree.parent[at] for at in changed[depth]):
                heap = [entry for entry in self._heaps[parent] if entry[-2] == version[entry[-1]]]
                heapify(heap)
                self._heaps[parent] = heap
                self._winner[parent] = self._winner[heap[0][-1]] if heap else NOBODY
                changed[depth - 1][parent] = None

    def _entry(self, at: int, leaf: int) -> Entry:
        head = self._heads[leaf]
        assert head is not None
        beyond, share = self.tree.standing(at, head.widest)
        return (beyond, share, self._queues[at].used_log, *head.rank, self._version[at], at)

    def _head(self, leaf: int) -> Waiting | None:
        """The first gang of a queue that may be tried."""
        queue = self._queues[leaf]
        ready, aside = queue.ready, queue.aside
        while ready:
            first = ready[0][2]
            if first.waits and first.brand not in aside:
                return first
            heappop(ready)
        return None

    def _renew(self, queue: Buckets, brand: int) -> None:
        """Put the first of a bucket up again, and let go of entries that hold no more."""
        first = first_of(queue, brand)
        if first is not None and brand not in queue.aside:
            heappush(queue.ready, first)
