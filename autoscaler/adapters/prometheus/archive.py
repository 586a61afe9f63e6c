"""The past of many workloads, fetched in parts that are kept, so that a run that is cut goes on where it was.

Enters: questions. Leaves: rows on the questions' grids, and for every part that is not known when it was and why. A
part that fails is asked again with growing waits where that can help, over less time where that can, and is a `Loss`
after that. A server that has stopped answering altogether ends the run: a report of losses only would help nobody.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np

from autoscaler.adapters.prometheus.answers import AnswerError, Trouble
from autoscaler.adapters.prometheus.chunks import Asked, Chunks, Rows
from autoscaler.adapters.prometheus.history import CONNECTIONS, History, PastSeries
from autoscaler.adapters.prometheus.live import MAX_POINTS
from autoscaler.adapters.prometheus.patience import Persistence
from autoscaler.adapters.prometheus.questions import Question
from autoscaler.core.columns import F64
from autoscaler.errors import InputError, sole
from autoscaler.ports import Fault, PortError

SMALLEST_POINTS: Final = 120
"""A part of fewer points is not divided further: an hour at the default step."""
MAX_SERIES: Final = 2_000
"""Of one aggregate: a workload's are a dozen, a histogram's a few hundred at most."""
_CURABLE: Final = frozenset({Trouble.UNREACHABLE, Trouble.PARTIAL})
"""What is asked for once more when all else is there: a restart in the middle should leave no hole."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Points of a question in [from_s, until_s) that are not known, and why."""

    from_s: int
    until_s: int
    trouble: Trouble
    text: str


@dataclass(frozen=True, slots=True)
class Past:
    """What a question was answered: values by (series, points), NaN where there was none, and what is missing."""

    labels: tuple[dict[str, str], ...]
    values: F64
    losses: tuple[Loss, ...] = ()


@dataclass(slots=True)
class Archive:
    """Fetches and remembers."""

    history: History
    chunks: Chunks
    persistence: Persistence
    kept: int = 0
    """Parts that were there already."""
    _losses: dict[Asked, Loss] = field(default_factory=dict)

    async def fetch(self, questions: Sequence[Question], progress: Callable[[int, int], None]) -> None:
        """Get all that is not kept yet; call `progress` with the parts done and all parts.

        Raises PortError when the server refuses whoever asks, or has stopped answering; what came before is kept.
        """
        parts = [part for question in questions for part in self._parts(question)]
        await self._obtain_all(parts, progress)
        curable = [part for part, loss in self._losses.items() if loss.trouble in _CURABLE]
        await self._obtain_all(curable, lambda _done, _all: None)

    async def _obtain_all(self, parts: Sequence[Asked], progress: Callable[[int, int], None]) -> None:
        waiting, done = iter(parts), 0
        progress(0, len(parts))

        async def worker() -> None:
            nonlocal done
            for part in waiting:
                self._losses.pop(part, None)
                await self._obtain(part)
                done += 1
                progress(done, len(parts))

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(CONNECTIONS):
                    group.create_task(worker(), name=f"part {number}")
        except BaseExceptionGroup as group:
            error = sole(group, (PortError, InputError))
            if error is None:
                raise
            raise error from None

    def past(self, question: Question) -> Past:
        """What is known of a question after `fetch`, read from disk."""
        pieces, losses = [], []
        for part in self._parts(question):
            for asked, rows in self._held(part):
                if rows is not None:
                    pieces.append((asked, rows))
                else:
                    losses.append(self._shown(question, asked))
        labels = _all_labels(rows for _, rows in pieces)
        index = {_key(one): row for row, one in enumerate(labels)}
        values = np.full((len(labels), question.points), np.nan)
        for asked, rows in pieces:
            first = (asked.first_s - question.first_s) // asked.step_s
            for one, row in zip(rows.labels, rows.values, strict=True):
                values[index[_key(one)], first : first + asked.points] = row
        return Past(labels, values, tuple(losses))

    def _parts(self, question: Question) -> Iterator[Asked]:
        """Equal parts that the server does not refuse for their length."""
        count = -(-question.points // MAX_POINTS)
        bounds = [question.points * number // count for number in range(count + 1)]
        for first, end in pairwise(bounds):
            first_s = question.first_s + first * question.step_s
            yield Asked(self.history.url, question.query, first_s, question.step_s, end - first)

    def _held(self, part: Asked) -> Iterator[tuple[Asked, Rows | None]]:
        """The part itself, or the halves it was fetched in; None for what is not known."""
        rows = self.chunks.load(part)
        if rows is None and self.chunks.is_divided(part):
            for half in _halves(part):
                yield from self._held(half)
        else:
            yield part, rows

    async def _obtain(self, part: Asked) -> None:
        """Have the part, or its halves, kept; or know why not."""
        if await asyncio.to_thread(self.chunks.load, part) is not None:
            self.kept += 1
            return
        if not self.chunks.is_divided(part):
            try:
                rows = await self.persistence.ask(partial(self._asked, part), divisible=_divisible(part))
                await asyncio.to_thread(self.chunks.save, part, rows)
                return
            except AnswerError as error:
                if error.fault is Fault.DENIED:
                    raise
                if not error.smaller or not _divisible(part):
                    self._lose(part, error)
                    return
            self.chunks.divide(part)
        for half in _halves(part):
            await self._obtain(half)

    async def _asked(self, part: Asked) -> Rows:
        """One attempt. Raises AnswerError."""
        found = await self.history.range(part.query, start_s=part.first_s, end_s=part.last_s, step_s=part.step_s)
        return _rows(part, found)

    def _lose(self, part: Asked, error: AnswerError) -> None:
        self._losses[part] = Loss(part.first_s, part.last_s + part.step_s, error.trouble, _remedied(error))

    def _shown(self, question: Question, asked: Asked) -> Loss:
        """The loss of a part in the question's own time, in which point i speaks of the step that begins with it."""
        back_s = question.first_s - question.start_s
        loss = self._losses.get(asked)
        if loss is None:
            loss = Loss(asked.first_s, asked.last_s + asked.step_s, Trouble.UNREACHABLE, "it was never asked for")
        return replace(loss, from_s=loss.from_s - back_s, until_s=loss.until_s - back_s)


def _remedied(error: AnswerError) -> str:
    if error.trouble is Trouble.TOO_MANY:
        return (
            f"{error}. Even this part is too much: narrow the workload with --selector, or let Prometheus load more "
            "(--query.max-samples)"
        )
    return str(error)


def _divisible(part: Asked) -> bool:
    return part.points >= 2 * SMALLEST_POINTS


def _halves(part: Asked) -> tuple[Asked, Asked]:
    first = part.points // 2
    after_s = part.first_s + first * part.step_s
    return replace(part, points=first), replace(part, first_s=after_s, points=part.points - first)


def _rows(part: Asked, found: Sequence[PastSeries]) -> Rows:
    """The series on the part's grid. Raises AnswerError for instants that were not asked for."""
    if len(found) > MAX_SERIES:
        text = f"{part.url}: {len(found)} series in the answer to one aggregate, more than {MAX_SERIES}"
        raise AnswerError(Trouble.TOO_MANY, Fault.INVALID, text)
    values = np.full((len(found), part.points), np.nan)
    for row, series in zip(values, found, strict=True):
        at = (series.t_s - part.first_s) / part.step_s
        index = np.rint(at).astype(np.int64)
        if index.size and (np.abs(at - index).max() > 1e-3 or index.min() < 0 or index.max() >= part.points):
            text = (
                f"{part.url}: the answer speaks of instants that were not asked for; where a query frontend moves them "
                "to multiples of the step (Mimir and Cortex: align_queries_with_step), ask a server behind it"
            )
            raise AnswerError(Trouble.REFUSED, Fault.INVALID, text)
        row[index] = series.values
    return Rows(tuple(dict(series.labels) for series in found), values)


def _all_labels(rows: Iterator[Rows]) -> tuple[dict[str, str], ...]:
    found = {_key(one): one for part in rows for one in part.labels}
    return tuple(found.values())


def _key(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))
