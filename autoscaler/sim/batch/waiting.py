"""Who waits, in the order of a key, found quickly: gangs that ask for the same stand in one line.

Enters: jobs with a key. Leaves: the first job of each line. What has no room now has none for any other of its line
either, so that a turn looks at few of thousands.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

from autoscaler.sim.batch.work import Job


class Line(NamedTuple):
    """What those in one line have in common."""

    tenant: str
    """Empty where tenants share lines."""
    shape: str
    pods: int
    gpus: int


class Place(NamedTuple):
    """A job's place: compares by key, then by when it came."""

    key: tuple[float, ...]
    number: int
    job: Job


class Waiting:
    """Lines of jobs."""

    def __init__(self, key: Callable[[Job], tuple[float, ...]], *, by_tenant: bool = False) -> None:
        self._key, self._by_tenant = key, by_tenant
        self.lines: dict[Line, list[Place]] = {}
        """Each in order, none empty."""
        self._number = 0

    def add(self, job: Job) -> None:
        """A job waits."""
        self._number += 1
        insort(self.lines.setdefault(self.line(job), []), Place(self._key(job), self._number, job))

    def line(self, job: Job) -> Line:
        """The line of a job."""
        return Line(job.tenant if self._by_tenant else "", job.shape, job.pods, job.gpus)

    def firsts(self) -> list[Place]:
        """The first of each line."""
        return [line[0] for line in self.lines.values()]

    def drop(self, places: Sequence[Place]) -> None:
        """Some wait no more."""
        gone: dict[Line, set[int]] = {}
        for place in places:
            gone.setdefault(self.line(place.job), set()).add(place.number)
        for line, numbers in gone.items():
            mine = self.lines[line]
            if len(numbers) == 1 and mine[0].number in numbers:
                del mine[0]
            else:
                mine[:] = [place for place in mine if place.number not in numbers]
            if not mine:
                del self.lines[line]
