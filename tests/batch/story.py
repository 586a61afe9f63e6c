"""A cluster in which gangs run for as long as they do and leave when asked: time goes from event to event."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.gangs import Gang, Refusal
from autoscaler.core.batch.outcome import Admitted, Evicted
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.params import BatchParams
from autoscaler.core.batch.reasons import Verdict
from autoscaler.core.batch.room import Room


@dataclass
class Story:
    """What happened, and what is to come."""

    params: BatchParams
    nodes: Sequence[NodeSeen]
    pods: Sequence[PodSeen] = ()
    now_s: float = 0.0
    takes_s: Callable[[Gang], float] = lambda gang: gang.expected_s or 1e9
    checks: bool = True
    admitted: list[tuple[float, Admitted]] = field(default_factory=list)
    evicted: list[tuple[float, Evicted]] = field(default_factory=list)
    finished: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.room = Room(self.params)
        self.cycles = Cycles(self.room)
        self._events: list[tuple[float, int, str, str]] = []
        self._number = 0
        self.room.see(self.nodes, self.pods, self.now_s)

    def submit(self, *gangs: Gang) -> Refusal | None:
        """Gangs arrive now; the last one's refusal."""
        refused = None
        for gang in gangs:
            refused = self.room.submit(gang, self.now_s)
        return refused

    def look(self, nodes: Sequence[NodeSeen] | None = None, pods: Sequence[PodSeen] = ()) -> None:
        """Other nodes or pods are seen."""
        if nodes is not None:
            self.nodes = nodes
        self.evicted += [(self.now_s, each) for each in self.room.see(self.nodes, pods, self.now_s)]

    def step(self) -> bool:
        """One cycle now; whether anything was done."""
        done = self.cycles.cycle(self.now_s)
        if self.checks:
            faults = self.room.contradictions()
            assert faults == [], faults
        for admitted in done.admitted:
            self.admitted.append((self.now_s, admitted))
            run = self.room.runs.all[admitted.gang]
            self._later(self.takes_s(run.gang), "end", f"{admitted.gang}@{run.started_s}")
        for evicted in done.evicted:
            self.evicted.append((self.now_s, evicted))
            self._later(self.room.runs.all[evicted.gang].gang.notice_s, "left", evicted.gang)
        return bool(done.admitted or done.evicted or done.more)

    def settle(self, most: int = 100) -> int:
        """Cycles until nothing is done any more; how many."""
        for number in range(most):
            if not self.step():
                return number
        raise AssertionError(f"no rest after {most} cycles")

    def run(self, until_s: float = 1e8) -> None:
        """Go on from event to event."""
        self.settle()
        while self._events and self._events[0][0] <= until_s:
            self.now_s = self._events[0][0]
            while self._events and self._events[0][0] == self.now_s:
                _, _, what, name = heapq.heappop(self._events)
                self._happen(what, name)
            self.settle()
        self.now_s = max(self.now_s, min(until_s, 1e8))

    def to(self, at_s: float) -> None:
        """Go on to an instant, and look then."""
        self.run(at_s)
        self.now_s = at_s
        self.settle()

    def order(self) -> list[str]:
        """Names in the order of their starts."""
        return [each.gang for _, each in self.admitted]

    def victims(self) -> list[str]:
        """Names in the order of their evictions."""
        return [each.gang for _, each in self.evicted]

    def why(self, name: str) -> Verdict:
        """Why a gang that waits does so."""
        return self.cycles.why(self.room.backlog.waiting[name])

    def holds(self, queue: str) -> int:
        """Units that a queue's gangs count for."""
        return self.room.tree.used[self.room.tree.index[queue]][0]

    def _later(self, in_s: float, what: str, name: str) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now_s + in_s, self._number, what, name))

    def _happen(self, what: str, name: str) -> None:
        if what == "left":
            self.room.left(name, self.now_s)
            return
        gang, _, started = name.partition("@")
        run = self.room.runs.all.get(gang)
        if run is not None and str(run.started_s) == started and run.leaving_s is None:
            self.finished[gang] = self.now_s
            self.room.finish(gang, self.now_s)
