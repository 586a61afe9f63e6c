"""Us, the peers and the optimum on the traffic that was replayed, judged in child processes while the demo plays.

Enters: the instances of a demo. Leaves: one `Results` per workload. Rivals run in the simulator, on the very traffic
and cluster that ours met live: at the setting of their own documentation, and at the best of many settings picked in
hindsight, which no operator can do.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import TracebackType
from typing import Final, Self

from autoscaler.errors import HeadroomError
from autoscaler.record.stream import Result, Results
from autoscaler.sim.bounds import reference
from autoscaler.sim.contest import OURS
from autoscaler.sim.instance import Instance
from autoscaler.sim.rivals import RIVALS, Knob, make_rival, view_of
from autoscaler.sim.score import Reference, Score, score
from autoscaler.sim.simulate import Run, run
from autoscaler.sim.sweep import GOAL, Frontier, Point

PERFECT: Final = "perfect"
_NICENESS: Final = 10
"""The comparison takes what the live part leaves of the machine."""
_HOUR_S: Final = 3600.0
_INSTANCES: dict[str, Instance] = {}
"""A worker's instances, sent once and not with every task."""


class Comparison:
    """Runs every rival at every setting from the moment it is entered; leaving it ends what is still running."""

    def __init__(self, instances: Mapping[str, Instance], *, processes: int = 1) -> None:
        self._instances = dict(instances)
        self._pool = ProcessPoolExecutor(
            processes, mp_context=get_context("spawn"), initializer=_adopt, initargs=(self._instances,)
        )
        self._bounds: dict[str, Future[Reference]] = {}
        self._scores: dict[tuple[str, str, Knob], Future[Score]] = {}

    def __enter__(self) -> Self:
        for name in self._instances:
            self._bounds[name] = self._pool.submit(_bound, name)
        for name in self._instances:
            for rival, kind in RIVALS.items():
                self._add(name, rival, kind.DEFAULT)
        for name in self._instances:
            for rival, kind in RIVALS.items():
                for knob in kind.KNOBS:
                    self._add(name, rival, knob)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all that is not finished."""
        workers = list((self._pool._processes or {}).values())  # noqa: SLF001 - the pool has no way to end a task
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()

    @property
    def done(self) -> tuple[int, int]:
        """Runs finished, and runs in all, the bounds among them."""
        all_runs: list[Future[Reference] | Future[Score]] = [*self._bounds.values(), *self._scores.values()]
        return sum(run.done() for run in all_runs), len(all_runs)

    async def finish(self) -> None:
        """Return when all runs are finished; errors come with `results`."""
        futures: list[Future[Reference] | Future[Score]] = [*self._bounds.values(), *self._scores.values()]
        await asyncio.wait([asyncio.wrap_future(future) for future in futures])

    def results(self, workload: str, ours: Run) -> Results:
        """The table of a workload whose runs are finished. Raises HeadroomError where a child process was lost."""
        try:
            bounds = self._bounds[workload].result(timeout=0)
            rivals = [row for rival in RIVALS for row in self._rows(workload, rival, bounds)]
        except (BrokenProcessPool, CancelledError) as error:
            raise HeadroomError(f"the comparison of {workload} was not finished: a child process was ended") from error
        return _table(workload, ours, bounds, rivals, note(self._instances[workload], swept=True))

    def _add(self, name: str, rival: str, knob: Knob) -> None:
        key = (name, rival, knob)
        if key not in self._scores:
            self._scores[key] = self._pool.submit(_judge, *key)

    def _rows(self, workload: str, rival: str, bounds: Reference) -> list[Result]:
        kind = RIVALS[rival]
        points = tuple(Point(knob, self._scores[workload, rival, knob].result(timeout=0)) for knob in kind.KNOBS)
        cheapest = Frontier(rival, points).cheapest()
        best = cheapest or max(points, key=lambda point: point.score.attainment)
        why = "best in hindsight" if cheapest else f"none of {len(points)} settings reaches {GOAL:.0%}; the closest"
        swept = _row("swept", rival, f"{_setting(rival, best.knob)}, {why}", best.score, bounds)
        if rival == PERFECT:
            return [swept]
        return [swept, _configured(rival, self._scores[workload, rival, kind.DEFAULT].result(timeout=0), bounds)]


def compare_here(workload: str, instance: Instance, ours: Run) -> Results:
    """The table with the rivals as configured only, made in this process within seconds; nothing is swept."""
    bounds = reference(instance.traffic, instance.spec)
    rivals = [_configured(name, judge(instance, name, RIVALS[name].DEFAULT), bounds) for name in RIVALS]
    return _table(workload, ours, bounds, rivals, note(instance, swept=False))


def judge(instance: Instance, rival: str, knob: Knob) -> Score:
    """The score of a rival's whole run at one setting, without ratios to bounds."""
    traffic, spec = instance.traffic, instance.spec
    return score(run(traffic, spec, make_rival(rival, view_of(traffic, spec), knob)))


def note(instance: Instance, *, swept: bool) -> str:
    """What a reader must know to judge the table."""
    spec, warmup = instance.spec, instance.spec.warmup
    slow = "" if warmup.constant else f", nine in ten within {warmup.p90_s:g} s"
    rivals = (
        f'rivals ran in the simulator on this very traffic: "as configured" at the setting of their documentation, '
        f'"best in hindsight" at the cheapest setting that serves {GOAL:.0%} in time, which only hindsight can pick'
        if swept
        else "rivals ran in the simulator on this very traffic at the setting of their documentation; not swept"
    )
    return (
        f"One replica carries {spec.capacity_rps:.3g} requests/s ({instance.capacity_source}) and warms up in "
        f"{warmup.median_s:g} s{slow}; the objective is {GOAL:.0%} within a wait of {spec.slo_wait_s:g} s, and the "
        "GPU-hours of a policy that misses it do not compare. Headroom ran live and had to learn capacity and warm-up; "
        f"{rivals}. The rivals are told the capacity; static is sized to a peak it was told, and perfect knows all "
        "arrivals. The optimum is a lower bound for whoever serves the objective. Turns are changes from growing "
        "to shrinking or back."
    )


def _table(workload: str, ours: Run, bounds: Reference, rivals: Sequence[Result], told: str) -> Results:
    d2_hours = (bounds.d2_s or 0.0) / _HOUR_S
    best = Result("bound", "optimum (D2)", "a bound: it knows the arrivals", None, d2_hours, 1.0, None, None)
    mine = _row("ours", OURS, "live, at its defaults", score(ours), bounds)
    return Results(workload, ours.duration_s, GOAL, (best, mine, *rivals), told)


def _configured(rival: str, judged: Score, bounds: Reference) -> Result:
    return _row("rival", rival, f"{_setting(rival, RIVALS[rival].DEFAULT)}, as configured", judged, bounds)


def _setting(rival: str, knob: Knob) -> str:
    names = RIVALS[rival].KNOB_NAMES
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in zip(names, knob, strict=True))


def _row(kind: str, policy: str, knob: str, judged: Score, bounds: Reference) -> Result:
    hours = judged.gpu_hours.total
    return Result(
        kind=kind,
        policy=policy,
        knob=knob,
        attainment_ratio=judged.attainment,
        gpu_hours=hours,
        ratio_d2=hours * _HOUR_S / bounds.d2_s if bounds.d2_s else None,
        direction_changes_per_day=judged.direction_changes_per_day,
        starts_per_day=judged.starts_per_day,
    )


def _adopt(instances: Mapping[str, Instance]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt at the terminal is the parent's to answer
    os.nice(_NICENESS)
    _INSTANCES.update(instances)


def _bound(workload: str) -> Reference:
    return reference(_INSTANCES[workload].traffic, _INSTANCES[workload].spec)


def _judge(workload: str, rival: str, knob: Knob) -> Score:
    return judge(_INSTANCES[workload], rival, knob)
