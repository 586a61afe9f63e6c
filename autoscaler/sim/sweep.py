"""The hindsight sweep: every rival at every setting of its main knob, so that frontiers are compared, never points.

Enters: an instance and the names of rivals. Leaves: one Frontier each, with the cheapest run that reaches the goal and
the cost at exactly the goal. A rival swept in hindsight knows the best setting for the day it is judged on; what runs
at one default for all days does not.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from autoscaler.sim.bounds import reference
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.rivals import RIVALS, Knob, make_rival, view_of
from autoscaler.sim.score import Reference, Score, score
from autoscaler.sim.simulate import run
from autoscaler.sim.traffic import Traffic

GOAL = 0.99
"""Share of requests in time that a run must reach to count."""
_GOAL_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a rival: its setting and its score."""

    knob: Knob
    score: Score

    def attainment(self, *, settled: bool) -> float:
        """Share of requests in time, of the whole run or of its settled view."""
        return self.score.settled.attainment if settled else self.score.attainment

    def gpu_hours(self, *, settled: bool) -> float:
        """GPU-hours held, in the whole run or in its settled view."""
        return (self.score.settled.gpu_hours if settled else self.score.gpu_hours).total


@dataclass(frozen=True, slots=True)
class Frontier:
    """All runs of one rival on one instance, in the order of its knob."""

    rival: str
    points: tuple[Point, ...]

    def cheapest(self, goal: float = GOAL, *, settled: bool = False) -> Point | None:
        """The run with the fewest GPU-hours among those that reach `goal`; None if none does."""
        reaching = [point for point in self.points if point.attainment(settled=settled) >= goal - _GOAL_TOLERANCE]
        return min(reaching, key=lambda point: point.gpu_hours(settled=settled), default=None)

    def hours_at(self, goal: float = GOAL, *, settled: bool = False) -> float | None:
        """GPU-hours at exactly `goal`, linear between the neighbours on the frontier; None if it is out of reach.

        The frontier holds the runs that attain more than every cheaper one. Where even the cheapest run reaches the
        goal there is nothing to interpolate, and its own GPU-hours are returned.
        """
        costs = sorted((point.gpu_hours(settled=settled), point.attainment(settled=settled)) for point in self.points)
        below: tuple[float, float] | None = None
        for hours, attained in costs:
            if attained >= goal - _GOAL_TOLERANCE:
                if below is None:
                    return hours
                share = (goal - below[1]) / max(attained - below[1], _GOAL_TOLERANCE)
                return below[0] + min(1.0, share) * (hours - below[0])
            if below is None or attained > below[1]:
                below = (hours, attained)
        return None


def sweep(
    traffic: Traffic,
    spec: PlantSpec,
    names: Sequence[str],
    *,
    processes: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Frontier, ...]:
    """Run each named rival at all its `KNOBS` on the fluid plant, and score it against the instance's bounds.

    `progress` gets (runs done, runs in all). More than one process means spawned workers; results do not depend on it.
    InputError for a name that is no rival.
    """
    for name in names:
        make_rival(name, view_of(traffic, spec))
    tasks = [(name, knob) for name in names for knob in RIVALS[name].KNOBS]
    bounds = reference(traffic, spec)
    points: list[Point] = []
    if processes <= 1:
        for task in tasks:
            points.append(_point(traffic, spec, bounds, *task))
            _tell(progress, len(points), len(tasks))
    else:
        context, instance = get_context("spawn"), (traffic, spec, bounds)
        with ProcessPoolExecutor(processes, mp_context=context, initializer=_adopt, initargs=instance) as pool:
            for point in pool.map(_adopted_point, tasks):
                points.append(point)
                _tell(progress, len(points), len(tasks))
    pairs = list(zip(tasks, points, strict=True))
    return tuple(Frontier(name, tuple(point for task, point in pairs if task[0] == name)) for name in names)


def _point(traffic: Traffic, spec: PlantSpec, bounds: Reference, name: str, knob: Knob) -> Point:
    return Point(knob, score(run(traffic, spec, make_rival(name, view_of(traffic, spec), knob)), bounds))


_INSTANCE: list[tuple[Traffic, PlantSpec, Reference]] = []
"""A worker's instance, sent once and not with every task."""


def _adopt(traffic: Traffic, spec: PlantSpec, bounds: Reference) -> None:
    _INSTANCE[:] = [(traffic, spec, bounds)]


def _adopted_point(task: tuple[str, Knob]) -> Point:
    return _point(*_INSTANCE[0], *task)


def _tell(progress: Callable[[int, int], None] | None, done: int, total: int) -> None:
    if progress is not None:
        progress(done, total)
