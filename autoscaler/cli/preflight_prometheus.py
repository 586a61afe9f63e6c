"""The past of a cluster out of Prometheus: options in, histories out, one after the other.

What was read is kept in a folder, so that a run which is cut goes on from there; the window of a run that did not
finish is kept with it, because "the last fourteen days" would be others by then.
"""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from autoscaler.adapters.prometheus.archive import Archive
from autoscaler.adapters.prometheus.chunks import Chunks, replace_file
from autoscaler.adapters.prometheus.discovery import discover
from autoscaler.adapters.prometheus.history import remembering
from autoscaler.adapters.prometheus.jobs import job_questions
from autoscaler.adapters.prometheus.patience import Persistence
from autoscaler.adapters.prometheus.questions import Question, Window, questions
from autoscaler.adapters.prometheus.search import Discovered, Search
from autoscaler.cli.progress import Meter
from autoscaler.cli.prometheus_flags import PrometheusOptions
from autoscaler.cli.prometheus_options import endpoint_of, search_of, window_of
from autoscaler.ports import Fault, PortError
from autoscaler.preflight.gpu_jobs import GpuJobs, lost_parts, recorded_jobs
from autoscaler.preflight.history import Gap, Missing, WorkloadHistory
from autoscaler.preflight.recorded import recorded
from autoscaler.runtime.clock import WallClock

_UNFINISHED: Final = "window.json"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was read: the histories, made one at a time from disk, and what a reader should know."""

    window: Window
    workloads: int
    histories: Iterator[WorkloadHistory]
    notes: tuple[str, ...]
    asked: int
    """Requests that this run sent."""
    kept: int
    """Parts that a run before had left."""
    jobs: GpuJobs | None
    """Jobs that asked for GPUs; None where they were not to be read."""


def read_prometheus(options: PrometheusOptions, state: Path, *, jobs: bool = False) -> Fetched:
    """The histories of all workloads that are found or wanted, with `jobs` those of Jobs as well; `state` keeps what
    was read.

    Raises InputError for options that cannot be used, PortError where the workloads cannot be read, KeyboardInterrupt
    where a person cuts it, after a line that says what is kept.
    """
    endpoint, clock = endpoint_of(options), WallClock()
    search, window = search_of(options, endpoint), window_of(options, clock.now())
    return asyncio.run(_read(options, search, window, Chunks(state), state, jobs=jobs))


async def _read(
    options: PrometheusOptions, search: Search, now: Window, chunks: Chunks, state: Path, *, jobs: bool
) -> Fetched:
    window, resumed = _pinned(state, options, now)
    async with remembering(search.endpoint, timeout_s=options.query_timeout_s) as history:
        persistence = Persistence(WallClock(), np.random.default_rng())
        with Meter(1) as meter:
            meter.begin("looking for workloads")
            found = await discover(history, persistence, search, window)
        archive = Archive(history, chunks, persistence)
        await _fetch(archive, *_asked(found, window))
        of_jobs = Archive(history, chunks, persistence)
        batch, lost = await _jobs(of_jobs, search, window) if jobs else (None, ())
    if not (isinstance(batch, Missing) and batch.gap is Gap.UNREACHABLE):  # which goes on, in the same window
        (state / _UNFINISHED).unlink(missing_ok=True)
        chunks.forget_others()
    notes, kept = (*resumed, *found.notes, *lost), archive.kept + of_jobs.kept
    histories = _histories(archive, found, window)
    return Fetched(window, len(found.subjects), histories, notes, persistence.asked, kept, batch)


def _asked(found: Discovered, window: Window) -> tuple[str, list[Question]]:
    count = len(found.subjects)
    asked = [question for subject in found.subjects for question in questions(subject, window)]
    return f"{count} workload{'s' if count != 1 else ''}", asked


async def _fetch(archive: Archive, what: str, asked: Sequence[Question]) -> None:
    reached = [0, 0]
    try:
        with Meter(1) as meter:

            def tell(done: int, parts: int) -> None:
                reached[:] = done, parts
                meter.move(done / parts if parts else 1.0)

            meter.begin(f"reading {what} from Prometheus")
            await archive.fetch(asked, tell)
    except asyncio.CancelledError:
        done, parts = reached
        print(f"interrupted: {done} of {parts} parts are kept; the same command goes on from there", file=sys.stderr)
        raise


async def _jobs(archive: Archive, search: Search, window: Window) -> tuple[GpuJobs | None, tuple[str, ...]]:
    """Jobs of all namespaces, or of those that are looked at, and which parts are lost; None where workloads are named.

    `Missing` where Prometheus refuses these questions or answers them no more: the workloads were read all the same.
    """
    if search.wanted:
        return None, ()
    asked = job_questions(window, search.namespaces)
    try:
        await _fetch(archive, "Jobs", asked)
    except PortError as error:
        return Missing(Gap.DENIED if error.fault is Fault.DENIED else Gap.UNREACHABLE, str(error)), ()
    answers = {one.name: (one, archive.past(one)) for one in asked}
    found = recorded_jobs(answers)
    return found, () if isinstance(found, Missing) else lost_parts(answers)


def _histories(archive: Archive, found: Discovered, window: Window) -> Iterator[WorkloadHistory]:
    for subject in found.subjects:
        answers = {question.name: (question, archive.past(question)) for question in questions(subject, window)}
        yield recorded(subject, window, answers)


class _Run(msgspec.Struct, frozen=True):
    """A run that has not finished: what was asked for in words, and the window that this meant."""

    asked: tuple[str, str, str, float, int]
    window: Window


def _pinned(state: Path, options: PrometheusOptions, window: Window) -> tuple[Window, tuple[str, ...]]:
    """The window of the run that was cut, where the same was asked for; else `window`, noted for the next run."""
    asked = (options.server, options.from_text or "", options.to_text or "", options.days, options.step_s)
    path = state / _UNFINISHED
    try:
        before = msgspec.json.decode(path.read_bytes(), type=_Run)
    except (OSError, msgspec.DecodeError):
        before = None
    if before is not None and before.asked == asked:
        end = f"{datetime.fromtimestamp(before.window.end_s, UTC):%Y-%m-%d %H:%M} UTC"
        return before.window, (f"goes on with a run that was cut: the window ends at {end}",)
    replace_file(path, msgspec.json.encode(_Run(asked, window)))
    return window, ()
