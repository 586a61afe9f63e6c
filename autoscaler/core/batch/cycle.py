"""One cycle of admission: who starts, who leaves for whom, and for whom room is kept. Deterministic; bounded work.

In order: gangs whose reservation is whole start. Then the tournament's winner is tried again and again, each one whole
or not at all; who does not fit steps aside, so that others pass, unless the queue is strict. Where they do not all fit,
those that came together are chosen together, so that less stays idle. Then the longest-waiting heads look for victims.
Last, the oldest head that waits for room gets a reservation at its expected start (EASY), one for each shape; from then
on others pass it only where they do not delay it.
"""

from autoscaler.core.batch import promises, together, verdicts
from autoscaler.core.batch.attempts import Attempts
from autoscaler.core.batch.memory import Memory
from autoscaler.core.batch.outcome import Cycle
from autoscaler.core.batch.reasons import Verdict
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.searches import Searches
from autoscaler.core.batch.waiting import Waiting


class Cycles:
    """Runs cycles over a room."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._memory = Memory()

    def cycle(self, now_s: float) -> Cycle:
        """What is to be done now."""
        room, memory = self.room, self._memory
        if memory.epoch != room.epoch:
            waiting = room.backlog.waiting
            searched = {name: at_s for name, at_s in memory.searched.items() if name in waiting}
            let_down = {name for name in memory.let_down if name in waiting}
            self._memory = memory = Memory(epoch=room.epoch, searched=searched, tried=memory.tried, let_down=let_down)
            room.expect()
            room.tidy()
        attempts = Attempts(room, memory)
        searches = Searches(attempts)
        if memory.reviewed != (room.news, now_s):
            if not promises.review(attempts, now_s):
                return Cycle(tuple(attempts.admitted), (), more=True)
            memory.reviewed = (room.news, now_s)
        self._ask_back()
        since = len(attempts.admitted)
        more = self._admissions(attempts, now_s)
        if not more and together.improve(attempts, since, now_s):
            self._ask_back()
            more = self._admissions(attempts, now_s)
        # A cycle that admitted many leaves searches to the next one, so that none is long.
        more = more or len(attempts.admitted) > room.params.max_admissions // 4
        if not more:
            more = not searches.run(now_s)
        if not more:
            promises.keep_starts(attempts, now_s)
        return Cycle(tuple(attempts.admitted), tuple(searches.evicted), more)

    def why(self, waiting: Waiting) -> Verdict:
        """Why a gang that does not start waits."""
        return verdicts.why(self.room, self._memory, waiting)

    def _ask_back(self) -> None:
        """Those aside whose obstacle may be gone are tried again; equal ones are asked about once."""
        room, memory = self.room, self._memory
        closed, loads = memory.closed(room), room.backlog.loads
        if memory.asked_back != (room.changes, memory.version):
            room.backlog.come_back(lambda brand: brand not in closed and not memory.scarce(room, loads[brand]))
            memory.asked_back = (room.changes, memory.version)

    def _admissions(self, attempts: Attempts, now_s: float) -> bool:
        """Admit one after another; True where the bound ended it."""
        room = self.room
        while len(attempts.admitted) < room.params.max_admissions:
            waiting = None if self._all_closed() else room.backlog.best()
            if waiting is None:
                return False
            if not attempts.start(waiting, now_s):
                room.backlog.step_aside(waiting)
        return not self._all_closed() and room.backlog.best() is not None

    def _all_closed(self) -> bool:
        """Whether nobody who waits can have room, so that nobody need be asked."""
        closed, population = self._memory.closed(self.room), self.room.backlog.population
        return len(closed) >= len(population) and population.keys() <= closed
