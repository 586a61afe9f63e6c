"""A replay from beginning to end: files in, what came of them out.

Enters: a recording, settings that replace its own, the workload that is asked for. Leaves: the rerun, the what-if where
there are other settings, and every gap and bad line in words. It prints nothing.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from autoscaler.core.types import Readings
from autoscaler.errors import InputError
from autoscaler.hindsight.course import READING, Course, Progress, untold
from autoscaler.hindsight.crew import Crew, Look, abreast, again, shared_out, stepped
from autoscaler.hindsight.history import Series, looks
from autoscaler.hindsight.joined import Agreement, join
from autoscaler.hindsight.overlaps import overlapped
from autoscaler.hindsight.overlay import Overlay, SettingError
from autoscaler.hindsight.recording import MOST_TOLD, Begun, Fitted, Looked, Recording, Unread, Written
from autoscaler.hindsight.rerun import Fit, Rerun
from autoscaler.hindsight.seams import Seams
from autoscaler.hindsight.seams import stepped as stepped_laps
from autoscaler.hindsight.strands import Strand, plait
from autoscaler.hindsight.turns import Turn, turns
from autoscaler.hindsight.whatif import WhatIf
from autoscaler.record.explain import clock, duration

SILENT_TICKS: Final = 4.0
SILENT_S: Final = 60.0
"""A workload that was not looked at for longer than both has a gap."""


@dataclass(slots=True)
class Replayed:
    """One replay, once it is over."""

    recording: Recording
    rerun: Rerun
    whatif: WhatIf | None
    gaps: list[str]
    more_gaps: int = 0
    """Gaps beyond those that are told."""
    from_s: dict[str, float] = field(default_factory=dict)
    to_s: dict[str, float] = field(default_factory=dict)
    """The first and the last look at each workload."""
    agreements: dict[str, Agreement] = field(default_factory=dict)
    """How far overlapping stretches of a workload agree; of one that is not here nothing is approximated."""

    @property
    def workloads(self) -> list[str]:
        """Those that were looked at, by name."""
        return sorted(self.from_s)


def replay(
    recording: Recording,
    fit: Fit,
    *,
    overlay: Overlay | None = None,
    workload: str | None = None,
    processes: int = 1,
    exact: bool = False,
    progress: Progress = untold,
) -> Replayed:
    """Replay all entries, or those of one workload; stretches that do not depend on each other in several processes.

    Other settings are tried on overlapping stretches, which `agreements` tell the error of; `exact`: on all in order.
    `progress` gets the share (0..1) that is done; whoever it draws for draws in no thread, since processes are forked.
    Raises InputError where nothing in the files can be replayed, naming what was wrong with them.
    """
    rerun = Rerun(fit)
    whatif = WhatIf(rerun, overlay) if overlay is not None and overlay.changes else None
    done = Replayed(recording, rerun, whatif, [])
    if whatif is None:
        _side_by_side(done, Course(recording, progress, READING), workload, processes)
    elif exact:
        _one_after_another(done, Course(recording, progress), whatif, workload)
    else:
        _overlapping(done, Course(recording, progress, READING), whatif, workload, processes)
    done.gaps[:0] = recording.gaps
    if not (rerun.steps or rerun.unknown):
        raise InputError(_nothing(recording, workload))
    return done


def _side_by_side(done: Replayed, course: Course, workload: str | None, processes: int) -> None:
    """Every stretch as it was: they do not depend on each other."""
    for strands in plait(course.read(_in_time(done)), workload):
        ours, parts = shared_out(strands, processes)
        with Crew(partial(again, done.rerun.fit), parts) as crew:
            ours += crew.left
            abreast(course.told(done.rerun.step_rows, ours), (_stepped(done, strand) for strand in ours))
            for counted in crew.collect():
                done.rerun.add(counted)


def _stepped(done: Replayed, strand: Strand) -> Iterator[Look]:
    """A strand's looks; where its beginning cannot be used that is noted, and it goes on afresh."""
    if isinstance(strand.begins, Begun):
        try:
            done.rerun.begin(strand.begins, strand.row)
        except InputError as error:
            done.recording.bad_line(str(error))
        strand.begins = None
    yield from stepped(done.rerun, strand)


def _in_time(done: Replayed) -> Iterator[Unread]:
    """The entries without the looks that cannot be used; of those it is noted why."""
    for entry in done.recording.unread():
        if isinstance(entry, Written):
            try:
                params = done.rerun.policy(entry.policy_json, entry.where)
                _note_time(done, entry.workload, entry.now_s, entry.where, params.tick_s)
            except InputError as error:
                done.recording.bad_line(str(error))
                continue
        yield entry


def _overlapping(done: Replayed, course: Course, whatif: WhatIf, workload: str | None, processes: int) -> None:
    """Other settings on stretches that begin with what was remembered as recorded, before the time they count for.

    Where one leaves a queue that the next began without, both are read and stepped again as one.
    """
    parts = overlapped(course.read(_possible(done, whatif)), workload)
    bad_line = done.recording.bad_line
    seams = Seams(stepped_laps(parts, whatif, processes, told=course.told, bad_line=bad_line))
    whole = all(path.is_file() for path in done.recording.paths)  # what comes by a pipe is gone
    while whole and (longer := seams.widen()):
        again = Replayed(Recording(done.recording.paths), Rerun(done.rerun.fit), None, [])
        beside = WhatIf(again.rerun, whatif.overlay)
        read = (entry for entry in _possible(again, beside) if _until(done, entry))
        parts = (
            [lap for lap in laps if (lap.workload, lap.number) in longer]
            for laps in overlapped(read, workload, seams.joined)
        )
        told = Course(again.recording, untold, READING).told
        seams.put(stepped_laps(parts, beside, processes, told=told, bad_line=again.recording.bad_line))
    joined = {name: len(numbers) for name, numbers in seams.joined.items()}
    done.agreements = join(whatif, seams.ended, joined)


def _until(done: Replayed, entry: Unread) -> bool:
    """Whether an entry was there when the record was read first: a controller may still write it."""
    return not isinstance(entry, Written) or entry.now_s <= done.to_s.get(entry.workload, -math.inf)


def _possible(done: Replayed, whatif: WhatIf) -> Iterator[Unread]:
    """The same entries. Raises SettingError where the other settings cannot be with what is recorded."""
    for entry in _in_time(done):
        if isinstance(entry, Written):
            whatif.params(entry.policy_json)
        yield entry


def _one_after_another(done: Replayed, course: Course, whatif: WhatIf, workload: str | None) -> None:
    """What was remembered is not what would have been under other settings: nothing is taken from the middle."""
    for entry in turns(course.read(done.recording.entries()), workload):
        if isinstance(entry, tuple):
            _step(done, entry)
            continue
        try:
            if isinstance(entry, Fitted):
                whatif.fitted(entry)
            elif isinstance(entry, Begun) or entry.workload not in done.rerun.table.rows:
                whatif.begin(entry)
        except InputError as error:
            done.recording.bad_line(str(error))


def replay_history(
    series: Series, fit: Fit, *, overlay: Overlay, policy_json: bytes = b"{}", progress: Progress = untold
) -> Replayed:
    """Let the core decide on a past that holds no decisions: by a policy, and with some of it changed.

    No models are fitted, which would cost more than all the rest. Raises InputError where nothing is known.
    """
    rerun = Rerun(fit, learned=False)
    done = Replayed(Recording(()), rerun, WhatIf(rerun, overlay, recorded=False), [])
    for looked in looks(series, policy_json):
        _step(done, (looked,))
        progress((float(looked.line.now_s) - series.start_s) / (series.step_s * series.replicas.size))
    if not rerun.steps:
        raise InputError(f"{series.workload}: its replicas are not known at any time; nothing can be replayed")
    return done


def _step(done: Replayed, turn: Turn) -> None:
    """Decide on the looks of a turn; of one that cannot be used it is noted why."""
    usable: list[tuple[Looked, Readings]] = []
    for looked in turn:
        try:
            usable.append((looked, _readings(done, looked)))
        except SettingError:
            raise
        except InputError as error:
            done.recording.bad_line(str(error))
    if usable:
        (done.whatif or done.rerun).step(usable)


def _readings(done: Replayed, looked: Looked) -> Readings:
    """What was read, as the next look at its workload. Raises InputError for one that is not whole or out of order."""
    readings = done.rerun.readings(looked)
    tick_s = done.rerun.params(looked.workload).tick_s
    _note_time(done, looked.workload, float(looked.line.now_s), looked.where, tick_s)
    return readings


def _note_time(done: Replayed, name: str, now_s: float, where: str, tick_s: float) -> None:
    """Note when a workload was looked at, and for how long it was not. Raises InputError for a look out of order."""
    before_s = done.to_s.get(name)
    if before_s is not None and now_s < before_s:
        raise InputError(f"{where}: now_s {now_s:.15g} is before {before_s:.15g}; give the files of one run")
    if before_s is not None and now_s - before_s > max(SILENT_S, SILENT_TICKS * tick_s):
        if len(done.gaps) < MOST_TOLD:
            done.gaps.append(f"{name}: nothing for {duration(now_s - before_s)} from {clock(before_s)} on")
        else:
            done.more_gaps += 1
    done.from_s.setdefault(name, now_s)
    done.to_s[name] = now_s


def _nothing(recording: Recording, workload: str | None) -> str:
    if recording.faults:
        return f"nothing could be replayed; {recording.faults[0]}"
    files = ", ".join(str(path) for path in recording.paths[:3])
    if workload is not None:
        return f"--workload {workload}: not in {files}; left out, all that are there are told"
    if recording.alone:
        return f"{files}: decisions without their inputs; give the audit files of `headroom run`"
    return f"{files}: no line that can be replayed; give the audit files of `headroom run`"
