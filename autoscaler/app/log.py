"""The controller's log: how its lines look, and what of the record stands in it.

Enters: settings, acts and notes of the record, why a replica is not ready. Leaves: lines on standard output: one per
change of a count, one when a trouble begins and one when it ends. Decisions are the audit's, not the log's.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any, Final

import structlog

from autoscaler.errors import printable
from autoscaler.ports import Clock
from autoscaler.runtime.actuator import Act, Outcome
from autoscaler.runtime.records import Event, Note
from autoscaler.settings.model import LogFormat, LogLevel

LOG: Final = structlog.get_logger("headroom")

MOST_A_MINUTE: Final = 300
"""Lines of the record: an outage of a thousand workloads fills no disk. How many were left out is told after it."""
MINUTE_S: Final = 60.0
LOST_S: Final = 10.0
"""A source that is back within it was not lost: a leader that begins has read no page yet, of no workload."""
READY_S: Final = 5.0
"""Between two looks at why this replica is not ready; what is over within that is not told."""

_TIME: Final = re.compile(r"\d[\d.,]* ?(?:ms|s|min|h|d|days?)\b ?")
"""A length of time in words."""

OF_OUTCOME: Final = {
    Outcome.APPLIED: INFO,
    Outcome.TOLD: INFO,
    Outcome.SHADOWED: INFO,
    Outcome.FROZEN: INFO,
    Outcome.EDITED: INFO,
    Outcome.REFUSED: WARNING,
    Outcome.UNKNOWN: WARNING,
    Outcome.UNREADABLE: WARNING,
    Outcome.EXPIRED: WARNING,
    Outcome.SUPERSEDED: DEBUG,
    Outcome.NOT_LEADING: DEBUG,
    Outcome.LIMITED: DEBUG,
    Outcome.BLOCKED: DEBUG,
    Outcome.BUSY: DEBUG,
}
"""What became of a decision -> the level of its line. What is decided anew a moment later is for debugging."""
WORDS: Final = {
    Outcome.APPLIED: "count changed",
    Outcome.TOLD: "count told to KEDA",
    Outcome.UNKNOWN: "count perhaps changed: no clear answer",
}
"""What a line of an outcome begins with; of all others that the count is not changed, and why."""
OF_EVENT: Final = {
    Event.BROKEN: ERROR,
    Event.SOURCE_LOST: WARNING,
    Event.WATCH_BROKEN: WARNING,
    Event.FROZEN: WARNING,
    Event.FIT_FAILED: WARNING,
    Event.CHECKPOINT_REFUSED: WARNING,
    Event.CHECKPOINT_FAILED: WARNING,
    Event.SOURCE_BACK: INFO,
    Event.COUNT_EDITED: INFO,
    Event.UNFROZEN: INFO,
    Event.STOPPING: INFO,
    Event.STOPPED: INFO,
    Event.FIT_LATE: DEBUG,
    Event.RESTORED: DEBUG,
}
"""What a note is about -> the level of its line. A take-over restores every workload."""


def set_up(level: LogLevel, form: LogFormat) -> None:
    """Write what is of `level` and above, each line as `form` says, to standard output."""
    text = structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *((structlog.processors.EventRenamer("message"),) if form is LogFormat.JSON else (_legible,)),
            structlog.processors.JSONRenderer() if form is LogFormat.JSON else text,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level.value),
        logger_factory=structlog.PrintLoggerFactory(),
    )


def _legible(_: object, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Others' words among the fields, as text shows them."""
    return {name: printable(value) if isinstance(value, str) else value for name, value in line.items()}


class LogLines:
    """Acts and notes as lines. What is said of a workload again and again is written when it changes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[tuple[Outcome, int, str | None], bool]] = {}
        """Workload -> what was said of it last, and whether it stands in the log or was left out."""
        self._lost: dict[tuple[str | None, str], tuple[float, Note]] = {}
        """Workload and source -> when the source was lost, of those that are not told yet."""
        self._until_s = float("-inf")
        self._written = self._left_out = 0

    def act(self, act: Act, said: str) -> None:
        """What was done about a decision; `said` is the decision in words."""
        told = (act.outcome, act.replicas, act.message)
        before, stands = self._last.get(act.workload, (None, False))
        again = before == told and act.outcome is not Outcome.APPLIED
        if again and stands:
            return
        why = said if act.message is None else f"{said} ({act.message})"
        counts = {"from_replicas": act.seen_replicas, "to_replicas": act.replicas}
        what = WORDS.get(act.outcome, f"count not changed: {act.outcome.value}")
        level = OF_OUTCOME[act.outcome]
        written = self._write(level, what, again, workload=act.workload, **counts, why=why)
        self._last[act.workload] = told, written

    def note(self, note: Note) -> None:
        """Something that went wrong around decisions, or is well again."""
        source = note.workload, note.message.partition(" ")[0]
        if note.event is Event.SOURCE_LOST:
            self._lost.setdefault(source, (self._clock.monotonic() + LOST_S, note))
        elif note.event is not Event.SOURCE_BACK or self._lost.pop(source, None) is None:
            self._note(note)

    def look(self) -> None:
        """Tell of sources that were lost a while ago and are not back."""
        now_s = self._clock.monotonic()
        for source, (told_s, note) in list(self._lost.items()):
            if now_s < told_s:
                break  # all that follow were lost later
            del self._lost[source]
            self._note(note)

    def _note(self, note: Note) -> None:
        of = {} if note.workload is None else {"workload": note.workload}
        self._write(OF_EVENT[note.event], note.event.value, **of, why=note.message)

    def forget(self, workload: str) -> None:
        """A workload is scaled no more."""
        self._last.pop(workload, None)
        self._lost = {source: held for source, held in self._lost.items() if source[0] != workload}

    def _write(self, level: int, what: str, again: bool = False, /, **fields: object) -> bool:
        """False where there is no room for it in this minute; one that is tried `again` was counted as left out."""
        now_s = self._clock.monotonic()
        if now_s >= self._until_s:
            if self._left_out:
                LOG.warning("lines were left out of the log", lines=self._left_out)
            self._until_s, self._written, self._left_out = now_s + MINUTE_S, 0, 0
        if not LOG.is_enabled_for(level):
            return True
        if self._written >= MOST_A_MINUTE:
            self._left_out += not again
            return False
        self._written += 1
        LOG.log(level, what, **fields)
        return True


@asynccontextmanager
async def readiness(clock: Clock, not_ready: Callable[[], tuple[str, ...]]) -> AsyncIterator[None]:
    """For the length of the block a line when this replica is not ready, when the reasons change, and when it is."""
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(_watch(clock, not_ready), name="readiness")
        try:
            yield
        finally:
            watching.cancel()


async def _watch(clock: Clock, not_ready: Callable[[], tuple[str, ...]]) -> None:
    told: set[str] = set()
    before: set[str] | None = None
    while True:
        await clock.sleep_until(clock.monotonic() + READY_S)
        why = not_ready()
        # "not heard for 95 s" is the same trouble as "not heard for 100 s".
        lasting = {_TIME.sub("", words) for words in why}
        if lasting == before and lasting != told:
            if why:
                LOG.warning("not ready", why="; ".join(why))
            else:
                LOG.info("ready")
            told = lasting
        before = lasting
