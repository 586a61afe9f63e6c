"""A plant of single requests: replicas with slots, a line, cold starts, drains. Events, no steps.

Enters: what a replica is, when requests come and how long each stays in a slot, orders of a count. Leaves: when each
request came into a slot or gave up, and what each replica is billed for. It shares no formula with the simulator nor
with the core, knows no policy, and nobody who decides sees more of it than `loadtests.loop.readings` tells.

Requests never slow each other down: a slot is a slot. The line is first come, first served: at the gateway any free
slot takes its head; in the pods a request is given at once to the ready replica that has the fewest, and stays there.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np

from loadtests.loop.fleet import NEVER, Fleet, Replica, Requests, lognormal


class Plant:
    """Runs from 0 s on; `run_to` an instant, `order` a count, and look at its fields between two of them."""

    def __init__(self, fleet: Fleet, requests: Requests, rng: np.random.Generator) -> None:
        count = requests.at_s.size
        self.fleet, self.now_s, self.desired = fleet, 0.0, fleet.opens_with
        self.begun_s, self.left_s = np.full(count, np.nan), np.full(count, np.nan)
        self.came, self.waiting = 0, 0
        self.starting: dict[int, Replica] = {}
        self.ready: dict[int, Replica] = {}
        self.draining: dict[int, Replica] = {}
        self.replicas: list[Replica] = []
        self.stood: list[tuple[float, int]] = [(0.0, fleet.opens_with)]
        """How many start or are ready, at each instant at which that changed."""
        self._at_s, self._stay_s = requests.at_s.tolist(), requests.stay_s.tolist()
        self._rng = rng
        self._line: deque[int] = deque()
        self._held_by: dict[int, Replica] = {}
        self._events: list[tuple[float, int, Callable[[Replica, int], None], Replica, int]] = []
        self._fewest: list[tuple[int, int]] = []
        self._events_made = 0
        for _ in range(fleet.opens_with):
            replica = self._new()
            replica.ready_s = 0.0
            self.ready[replica.number] = replica
            self._noted(replica)

    def run_to(self, until_s: float) -> None:
        """Let everything happen that is due until then, that instant included."""
        events, at_s = self._events, self._at_s
        while True:
            event_s = events[0][0] if events else NEVER
            come_s = at_s[self.came] if self.came < len(at_s) else NEVER
            if min(event_s, come_s) > until_s:
                break
            if event_s <= come_s:
                self.now_s, _, happen, replica, request = heapq.heappop(events)
                happen(replica, request)
            else:
                self.now_s, self.came = come_s, self.came + 1
                self._arrive(self.came - 1)
        self.now_s = until_s

    def order(self, count: int) -> None:
        """From now on so many replicas: starts are cancelled first, the newest first, then the newest ready drain."""
        self.desired = count
        stand = len(self.starting) + len(self.ready)
        for _ in range(count - stand):
            self._start()
        for number in sorted(self.starting, reverse=True)[: max(0, stand - count)]:
            self._ended(self.starting.pop(number))
        for number in sorted(self.ready, reverse=True)[: max(0, len(self.ready) + len(self.starting) - count)]:
            replica = self.draining[number] = self.ready.pop(number)
            replica.draining = True
            self._end_if_empty(replica)
        self._stands()

    def billed_s(self) -> float:
        """Replica-seconds until now: each from its order until it failed, was cancelled, or had drained."""
        return sum((self.now_s if r.ended_s is None else r.ended_s) - r.ordered_s for r in self.replicas)

    def _arrive(self, request: int) -> None:
        replica = self._with_fewest()
        in_pods = self.fleet.line == "pods"
        if replica is not None and replica.running < self.fleet.slots:
            self._begin(replica, request)
            return
        if replica is not None and in_pods:
            self._stand(replica, request)
        else:
            self._line.append(request)
            self.waiting += 1
        if self.fleet.patience_s < NEVER:
            nobody = replica or _NOBODY
            self._later(self.now_s + self.fleet.patience_s, self._give_up, nobody, request)

    def _stand(self, replica: Replica, request: int) -> None:
        replica.line.append(request)
        replica.waiting += 1
        self._held_by[request] = replica
        self._noted(replica)

    def _begin(self, replica: Replica, request: int) -> None:
        self._settle(replica)
        replica.running, replica.begun = replica.running + 1, replica.begun + 1
        self.begun_s[request] = self.now_s
        self._later(self.now_s + self._stay_s[request], self._finish, replica, request)
        self._noted(replica)

    def _finish(self, replica: Replica, request: int) -> None:
        self._settle(replica)
        replica.running, replica.done = replica.running - 1, replica.done + 1
        self.left_s[request] = self.now_s
        self._fill(replica)
        self._noted(replica)
        self._end_if_empty(replica)

    def _give_up(self, _: Replica, request: int) -> None:
        """Does nothing for one that has a slot by now; who left is passed over when its turn in the line comes."""
        if math.isnan(self.begun_s[request]):
            self.left_s[request] = self.now_s
            held_by = self._held_by.pop(request, None)
            if held_by is None:
                self.waiting -= 1
            else:
                held_by.waiting -= 1
                self._noted(held_by)

    def _fill(self, replica: Replica) -> None:
        """Free slots take whoever has waited longest: in the replica's own line, then at the gateway."""
        while replica.running < self.fleet.slots and replica.waiting:
            request = self._next(replica.line)
            replica.waiting -= 1
            del self._held_by[request]
            self._begin(replica, request)
        while replica.running < self.fleet.slots and self.waiting and not replica.draining:
            request = self._next(self._line)
            self.waiting -= 1
            self._begin(replica, request)

    def _next(self, line: deque[int]) -> int:
        while not math.isnan(self.left_s[line[0]]):
            line.popleft()
        return line.popleft()

    def _start(self) -> None:
        replica = self._new()
        self.starting[replica.number] = replica
        fleet = self.fleet
        takes_s = float(lognormal(self._rng, fleet.start_s, fleet.start_cv, 1)[0])
        takes_s *= fleet.slow_factor if self.now_s >= fleet.slow_from_s else 1.0
        fails = self._rng.random() < fleet.fails_ratio
        self._later(self.now_s + takes_s, self._fail if fails else self._land, replica, -1)

    def _land(self, replica: Replica, _: int) -> None:
        if self.starting.pop(replica.number, None) is None:
            return  # it was cancelled
        replica.ready_s = replica.seen_s = self.now_s
        self.ready[replica.number] = replica
        self._noted(replica)
        self._fill(replica)
        while self.waiting and self.fleet.line == "pods":  # held while there was no replica at all
            request = self._next(self._line)
            self.waiting -= 1
            self._stand(self._with_fewest() or replica, request)

    def _fail(self, replica: Replica, _: int) -> None:
        if self.starting.pop(replica.number, None) is not None:
            self._ended(replica)
            self._start()

    def _new(self) -> Replica:
        number = len(self.replicas)
        replica = Replica(f"pod-{number}", number, self.now_s, seen_s=self.now_s)
        self.replicas.append(replica)
        return replica

    def _ended(self, replica: Replica) -> None:
        replica.ended_s = self.now_s

    def _end_if_empty(self, replica: Replica) -> None:
        if replica.draining and not replica.running and not replica.waiting and replica.ended_s is None:
            del self.draining[replica.number]
            self._ended(replica)

    def _stands(self) -> None:
        count = len(self.starting) + len(self.ready)
        if count != self.stood[-1][1]:
            self.stood.append((self.now_s, count))

    def _settle(self, replica: Replica) -> None:
        replica.slot_s, replica.seen_s = replica.served_s(self.now_s), self.now_s

    def _later(self, at_s: float, happen: Callable[[Replica, int], None], replica: Replica, request: int) -> None:
        self._events_made += 1
        heapq.heappush(self._events, (at_s, self._events_made, happen, replica, request))

    def _noted(self, replica: Replica) -> None:
        """Its requests have changed: what was noted before no longer holds, and is passed over."""
        if len(self._fewest) > _MOST_NOTED + 2 * len(self.ready):
            self._fewest = [(each.running + each.waiting, each.number) for each in self.ready.values()]
            heapq.heapify(self._fewest)
        heapq.heappush(self._fewest, (replica.running + replica.waiting, replica.number))

    def _with_fewest(self) -> Replica | None:
        """The ready replica with the fewest requests, the oldest of several; None where none is ready."""
        while self._fewest:
            load, number = self._fewest[0]
            replica = self.ready.get(number)
            if replica is not None and replica.running + replica.waiting == load:
                return replica
            heapq.heappop(self._fewest)
        return None


_MOST_NOTED: Final = 1000
_NOBODY: Final = Replica("", -1, 0.0)
