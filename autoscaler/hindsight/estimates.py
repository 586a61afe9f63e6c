"""Estimates out of recorded audit files: the same accounts as the live controller keeps, made again from its inputs.

Enters: a recording. Leaves: an estimate with its hours, and the forecast's quality, per workload. The record does not
say in which mode a step was made: where Headroom itself acted, what happened is ours already; little is to be saved.
"""

from dataclasses import dataclass

from autoscaler.core import engine
from autoscaler.core.state import Table
from autoscaler.core.view import view
from autoscaler.errors import InputError
from autoscaler.hindsight.recording import Begun, Recording
from autoscaler.hindsight.rerun import Fit, Rerun
from autoscaler.hindsight.shadow import Look, Shadow
from autoscaler.record.estimate import Estimate
from autoscaler.record.quality import Quality, quality_of


@dataclass(frozen=True, slots=True)
class Past:
    """What is told of one workload's past."""

    workload: str
    estimate: Estimate | None
    """None where nothing could be counted, for want of arrivals, queue or capacity."""
    quality: Quality | None


def estimates(recording: Recording, fit: Fit, workload: str | None = None) -> list[Past]:
    """The past of all workloads in a recording, or of one. Raises InputError where there is none."""
    rerun, shadow = Rerun(fit), Shadow(Table.empty())
    for entry in recording.entries():
        name = entry.start.workload if isinstance(entry, Begun) else entry.line.workload
        if workload is not None and name != workload:
            continue
        try:
            if isinstance(entry, Begun):
                rerun.begin(entry)
                continue
            readings = rerun.readings(entry)
        except InputError as error:
            recording.bad_line(str(error))
            continue
        rerun.step(entry, readings)
        batch = shadow.before(rerun.table, [Look(name, readings, rerun.params(name))])
        if batch:
            shadow.after(engine.step(shadow.twins, batch).decisions)
    if not rerun.steps:
        if workload is not None and not recording.faults and recording.lines:
            raise InputError(f"--workload {workload}: not in {recording.paths[0]}")
        first = f"; {recording.faults[0]}" if recording.faults else ""
        raise InputError(f"nothing to report on in {recording.paths[0]}{first}; give audit files of `headroom run`")
    return [_past(rerun, shadow, name) for name in sorted(rerun.table.rows)]


def _past(rerun: Rerun, shadow: Shadow, name: str) -> Past:
    seen = view(rerun.table, name)
    tick_s = rerun.params(name).tick_s
    quality = None if seen is None else quality_of(seen, seen.warmup_p90_s + tick_s)
    return Past(name, shadow.estimate(name), quality)
