"""What is done of what is due for batch work: starts, stops, trials, seats; some at a time, while nothing forbids it.

Enters: the books. Leaves: patches by way of the writers; what became of each is noted in the books. Who is to leave for
somebody is told only after it was written down for whom. When it is looked is not known here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

import structlog

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_members import Member, Seat
from autoscaler.adapters.kube.batch_pod_writer import PodWriter
from autoscaler.adapters.kube.batch_work import Put, Work
from autoscaler.adapters.kube.batch_writer import BatchWriter, Written
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.app.batch_books import Books
from autoscaler.app.batch_trials import MOST_TRIES
from autoscaler.ports import Clock

AT_ONCE: Final = 16
"""Writes on their way at the same time."""

LOG: Final = structlog.get_logger("headroom")


class Acts:
    """Writes for the gangs of one cluster. `idles` says why nothing may be written now, None where it may; `remember`
    writes down for whom others leave, and whether it could."""

    def __init__(
        self,
        cluster: BatchCluster,
        writer: BatchWriter,
        clock: Clock,
        *,
        idles: Callable[[], str | None],
        remember: Callable[[Books], Awaitable[bool]],
    ) -> None:
        self._cluster = cluster
        self._writer, self._pod_writer = writer, PodWriter(writer)
        self._clock = clock
        self._idles = idles
        self._remember = remember
        self.failures = 0
        """Writes that the API server refused, or answered nothing to."""

    async def call_back(self, books: Books) -> None:
        """Carry out stops of those that pools call back, and of nobody else."""
        called = books.loans.recalls.all
        stops = [work for work, _ in books.due_stops() if work.name in called]
        await self._write_all([(work, partial(self._stop, books, work)) for work in stops])

    async def carry_out(self, books: Books) -> bool:
        """Do what is due; whether anything was written."""
        stops = list(books.due_stops())
        if any(beneficiary for _, beneficiary in stops) and not await self._remember(books):
            stops = [(work, beneficiary) for work, beneficiary in stops if not beneficiary]
        starts = list(books.due_starts(self._clock.now()))
        tries = list(islice(books.due_trials(self._clock.now()), MOST_TRIES))
        for name, words in books.refused():
            self._failed(name, Became.REFUSED, words)
        await self._write_all([(work, partial(self._stop, books, work)) for work, _ in stops])
        left = await self._write_all([(work, partial(self._start, books, work, plan)) for work, plan in starts])
        for work in left:
            books.places.forget(work.name)  # it looks for no place yet, and is not late
        late = list(books.due_latecomers(self._clock.now()))
        await self._write_all([(work, partial(self._seat, books, work, pairs)) for work, pairs in late])
        await self._write_all([(work, partial(self._try, books, work)) for work in tries])
        doubts = list(books.denials.due(self._cluster.works, books.room.runs.all, self._clock.now()))
        await self._write_all([(other, partial(self._try_stop, books, name, other)) for name, other in doubts])
        return bool(starts or tries)

    async def _write_all(self, writes: Sequence[tuple[Work, Callable[[], Coroutine[Any, Any, None]]]]) -> list[Work]:
        """Write some at a time, while nothing forbids it; those that were not begun, which are due still."""
        for begin in range(0, len(writes), AT_ONCE):
            if self._idles() is not None:
                return [work for work, _ in writes[begin:]]
            async with asyncio.TaskGroup() as group:
                for _, write in writes[begin : begin + AT_ONCE]:
                    group.create_task(write(), name="batch write")
        return []

    async def _start(self, books: Books, work: Work, plan: Sequence[Put]) -> None:
        nodes = {put.node for put in plan}
        hostnames = self._cluster.hostnames(nodes)
        if len(hostnames) < len(nodes):
            books.places.forget(work.name)  # a node went since it was decided: the next look decides anew
            return
        tolerated = sorted(self._cluster.resources)
        if work.members:
            done = await self._pod_writer.admit(work, plan, hostnames, tolerated)
        else:
            loan = books.loans.note(work.name, self._clock.now())
            done = await self._writer.admit(work, plan, hostnames, tolerated, loan)
        now_s = self._clock.now()
        if done.pods:
            self._seated(books, work, done, now_s)
            return
        if done.work is not None:
            self._cluster.written(done.work)
            return
        if done.changed:  # nothing went wrong: somebody else was first, if not with what we wrote ourselves
            books.rests.start_changed(replace(work, version=done.version or work.version), done.words, now_s)
            return
        self._failed(work.name, done.became, done.words)
        if done.became is Became.UNKNOWN:
            books.rests.start_lost(work, now_s)
        else:
            books.was_refused(work, done.words, now_s)

    async def _try(self, books: Books, work: Work) -> None:
        """Ask whether a gang would be let in, before anybody is stopped for it."""
        if work.members:
            some = self._cluster.hostnames(node.name for node in books.room.ledger.estate.nodes[:1])
            host, tolerated = next(iter(some.values()), ""), sorted(self._cluster.resources)
            done = await self._pod_writer.try_out(work, host, tolerated, every=books.trials.was_refused(work.name))
        else:
            done = await self._writer.try_out(work)
        now_s = self._clock.now()
        if done.became is Became.DONE:
            books.was_taken(work, now_s)
        elif done.changed:
            books.rests.start_changed(work, done.words, now_s)
        else:  # where nobody answered, nothing was written either
            self._failed(work.name, done.became, done.words)
            books.was_refused(work, done.words, now_s)

    async def _seat(self, books: Books, work: Work, pairs: Sequence[tuple[Member, Seat]]) -> None:
        """Let pods of a gang in that was let in before them."""
        tolerated = sorted(self._cluster.resources)
        done = await self._pod_writer.seat(work, pairs, work.seats, tolerated)
        self._seated(books, work, done, self._clock.now())

    def _seated(self, books: Books, work: Work, done: Written, now_s: float) -> None:
        self._cluster.pods_written(done.pods)
        if done.changed:
            books.latecomers.tried(work.name, now_s)  # nothing went wrong: its next version is on its way
        elif done.words:
            self._failed(work.name, done.became, done.words)
            books.not_seated(work, done.words, now_s)

    async def _stop(self, books: Books, work: Work) -> None:
        done = await self._writer.stop(work)
        if done.work is not None:
            self._cluster.written(done.work)
            note = books.undone.stopped(work.name, self._clock.now())
            if note is not None:
                books.notes[work.name] = note
            return
        again = books.rests.not_stopped(work, self._clock.now())
        if done.denied and (again or not done.changed):
            books.denials.denied(work.name, done.words, self._clock.now())
        if again or not done.changed:
            self._failed(work.name, done.became, done.words)

    async def _try_stop(self, books: Books, name: str, other: Work) -> None:
        """Ask whether the stop of another gang would be taken, where that of one is refused over and over."""
        done = await self._writer.stop(other, tries=True)
        if done.became is Became.DONE:
            books.denials.is_alone(name)

    def _failed(self, gang: str, became: Became, why: str) -> None:
        LOG.warning("a gang was not written", gang=gang, became=became.value, why=why)
        self.failures += 1
