"""Estimates out of recorded audit files: the same accounts as the live controller keeps, made again from its inputs.

Enters: a recording. Leaves: an estimate with its hours, and the forecast's quality, per workload. The record does not
say in which mode a step was made: where Headroom itself acted, what happened is ours already; little is to be saved.
"""

from dataclasses import dataclass

from autoscaler.core import engine
from autoscaler.core.state import Table
from autoscaler.core.types import Readings
from autoscaler.core.view import view
from autoscaler.errors import InputError
from autoscaler.hindsight.course import Course, Progress, untold
from autoscaler.hindsight.recording import Begun, Fitted, Looked, Recording
from autoscaler.hindsight.rerun import Fit, Rerun
from autoscaler.hindsight.shadow import Look, Shadow
from autoscaler.hindsight.turns import Turn, turns
from autoscaler.record.estimate import Estimate
from autoscaler.record.quality import Quality, quality_of


@dataclass(frozen=True, slots=True)
class Past:
    """What is told of one workload's past."""

    workload: str
    estimate: Estimate | None
    """None where nothing could be counted, for want of arrivals, queue or capacity."""
    quality: Quality | None


def estimates(
    recording: Recording, fit: Fit, workload: str | None = None, *, progress: Progress = untold
) -> list[Past]:
    """The past of all workloads in a recording, or of one; `progress` gets the share (0..1) that is done.

    Raises InputError where there is none.
    """
    rerun, shadow, course = Rerun(fit), Shadow(Table.empty()), Course(recording, progress)
    for entry in turns(course.read(recording.entries()), workload):
        if isinstance(entry, tuple):
            _step(rerun, shadow, recording, entry)
            continue
        try:
            if isinstance(entry, Fitted):
                rerun.fitted(entry)
            elif isinstance(entry, Begun) or entry.workload not in rerun.table.rows:
                rerun.begin(entry)
        except InputError as error:
            recording.bad_line(str(error))
    if not rerun.steps:
        if workload is not None and not recording.faults and recording.lines:
            raise InputError(
                f"--workload {workload}: not in {recording.paths[0]}; left out, all that are there are told"
            )
        first = f"; {recording.faults[0]}" if recording.faults else ""
        raise InputError(f"nothing to report on in {recording.paths[0]}{first}; give audit files of `headroom run`")
    return [_past(rerun, shadow, name) for name in sorted(rerun.table.rows)]


def _step(rerun: Rerun, shadow: Shadow, recording: Recording, turn: Turn) -> None:
    usable: list[tuple[Looked, Readings]] = []
    for looked in turn:
        try:
            usable.append((looked, rerun.readings(looked)))
        except InputError as error:
            recording.bad_line(str(error))
    if not usable:
        return
    rerun.step(usable)
    seen = [Look(looked.workload, readings, rerun.params(looked.workload)) for looked, readings in usable]
    batch = shadow.before(rerun.table, seen)
    if batch:
        shadow.after(engine.advance(shadow.twins, batch).counts)


def _past(rerun: Rerun, shadow: Shadow, name: str) -> Past:
    seen = view(rerun.table, name)
    tick_s = rerun.params(name).tick_s
    quality = None if seen is None else quality_of(seen, seen.warmup_p90_s + tick_s)
    return Past(name, shadow.estimate(name), quality)
