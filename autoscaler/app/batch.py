"""Admits batch work while this replica leads: looks, decides, has it carried out, tells.

Enters: a followed cluster. Leaves: a status per queue, events, and what one look says. It looks when something was
heard, and now and then besides. What cannot be read stops every admission; a fault of ours makes the books be written
anew from the cluster.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_objects import BatchQueueObject
from autoscaler.adapters.kube.batch_work import Work
from autoscaler.adapters.kube.batch_writer import BatchWriter
from autoscaler.api.batch_memory import gathered, read_memory
from autoscaler.api.batch_queue import read_batch_queue
from autoscaler.api.batch_queue_status import QueueMemory
from autoscaler.api.batch_tree import QueueSeen, Tree, compile_shapes, tree_of
from autoscaler.api.shapes import Shape
from autoscaler.app.batch_acts import Acts
from autoscaler.app.batch_books import Books
from autoscaler.app.batch_heirs import inherit
from autoscaler.app.batch_loans import marked
from autoscaler.app.batch_look import Look
from autoscaler.app.batch_telling import BatchTelling
from autoscaler.app.batch_trials import Trials
from autoscaler.app.batch_untaken import in_any_case, untaken_named
from autoscaler.app.guard import Guard
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.core.batch.params import BatchParams
from autoscaler.errors import InputError
from autoscaler.ports import Clock
from autoscaler.record.batch import BatchCounts, BatchTold, GangTold
from autoscaler.runtime.clock import breathe
from autoscaler.runtime.isolation import Bug

EVERY_S: Final = 5.0
"""Between two looks about which nothing was heard: leases and waits pass all the same."""

GATHER_S: Final = 0.2
"""Changes are gathered for this long: a burst of a hundred Jobs is one look."""

CALM: Final = 4.0
"""The event loop is left to others for so many times what a look took."""

TELL_S: Final = 2.0
"""Between two times that all is told; a look that finds nothing new tells nothing."""

SELDOM: Final = 20.0
"""All is told so many times less often than telling takes, where that is longer."""

IN_A_TURN: Final = 500
"""So much work is taken in within a turn of the event loop, 20 ms: of 50,000 gangs all are read anew where a queue
changes."""

TELLING: Final = "what is told of batch work"
LOG: Final = structlog.get_logger("headroom")


class Batch:
    """All batch admission of a cluster. `run` while leading; `changed` may be called at any time."""

    def __init__(
        self,
        *,
        cluster: BatchCluster,
        writer: BatchWriter,
        shapes: dict[str, Shape],
        serving_priority: int,
        telling: BatchTelling,
        clock: Clock,
        guard: Guard,
        idle: Callable[[], str | None],
        frozen: Callable[[], str | None],
        desk: LoanDesk | None = None,
    ) -> None:
        self._cluster = cluster
        self._shapes = shapes
        self._serving_priority = serving_priority
        self._telling = telling
        self._clock = clock
        self._guard = guard
        self._idle = idle
        self._frozen = frozen
        self._desk = desk or LoanDesk(is_open=False)
        self._acts = Acts(cluster, writer, clock, idles=self._idles, remember=self._remember)
        self._bell = asyncio.Event()
        self._blind_since_s: float | None = None
        """Since which look not everything could be read; None while it can be."""
        self._books: Books | None = None
        self._tree: Tree | None = None
        self._queues_version = -1
        self._counts = BatchCounts()
        self._cycle_s: float | None = None
        self._thought_s = 0.0
        """What the last look took, writes aside."""
        self._told_s = self._tell_again_s = float("-inf")

    def changed(self) -> None:
        """Something was heard that may concern batch work."""
        self._bell.set()

    def told(self) -> BatchTold | None:
        """The newest look; None before the first."""
        return self._telling.told

    def find(self, kind: str, namespace: str | None, name: str) -> Sequence[GangTold]:
        """Gangs of this kind and name, in one namespace or in all; none that has ended."""
        books, tree = self._books, self._tree
        if books is None or tree is None:
            return ()
        look = Look(books, tree, self._clock.now())
        known = [look.gang(work.name) for work in self._cluster.works.values() if _is(work, kind, namespace, name)]
        return [*known, *untaken_named(self._cluster.taken, kind, namespace, name)]

    async def run(self) -> None:
        """Admit until cancelled. What was followed before may be older than the last leader's writes."""
        await self._cluster.wait_synced()
        await self._cluster.relist()
        while True:
            self._bell.clear()
            begun_s = self._clock.monotonic()
            more = await self._look()
            await self._clock.sleep_until(begun_s + max(GATHER_S, CALM * self._thought_s))
            if not more:
                until_s = begun_s + EVERY_S if self._told_s >= begun_s else self._tell_again_s
                await self._clock.sleep_until(until_s, self._bell)

    async def _look(self) -> bool:
        """One look; whether the next one has work at once."""
        problems = self._cluster.problems()
        if problems:
            if self._blind_since_s is None:
                self._blind_since_s = self._clock.now()
            if isinstance(await self._guard.wait("recalls of loans", self._call_back()), Bug):
                self._books = None
            await self._guard.wait(TELLING, self._tell(f"not read: {'; '.join(problems[:3])}", len(problems)))
            return False
        more = await self._guard.wait("batch admission", self._act())
        if isinstance(more, Bug):
            self._books = None  # written anew from the cluster alone
            await self._clock.sleep_until(self._clock.monotonic() + EVERY_S)
            return False
        await self._guard.wait(TELLING, self._tell(self._idles()))
        return more

    async def _act(self) -> bool:
        """Decide, and do what is due; whether the next look has work at once."""
        more = await self._decide()
        if self._idles() is None and self._books is not None and not self._cluster.problems():
            return await self._acts.carry_out(self._books) or more
        return more

    async def _call_back(self) -> None:
        """Carry out recalls, and nothing else, while not everything of batch work can be read.

        That serving wants its GPUs is the pool's knowledge, which has readers of its own; who has them on loan was
        known when all was read last. An object that changed since is not written: the patch is for the version seen.
        """
        books = self._books
        if books is None or self._idles() is not None:
            return
        books.call_back(self._clock.now())
        await self._acts.call_back(books)

    def _idles(self) -> str | None:
        """Why nothing is carried out now; None where it is."""
        why = self._frozen()
        return self._idle() if why is None else f"the whole cluster is frozen: {why}"

    async def _decide(self) -> bool:
        now_s, begun_s = self._clock.now(), self._clock.monotonic()
        names: Sequence[str] = self._cluster.touched()
        before, blind_since_s, self._blind_since_s = self._books, self._blind_since_s, None
        books = self._take_queues(now_s)
        if books is None:
            self._books = None
            self._desk.holds(marked(self._cluster, self._desk))
            self._desk.asks({}, now_s)
            return False
        names = names if books is before else tuple(self._cluster.works)  # books that are begun anew know nothing
        names, breathed_s = await self._take(books, names, now_s)
        now_s = self._clock.now()
        if books is not before:
            books.take(names, now_s)
            books.close(now_s)
            self._books, names = books, ()
        elif blind_since_s is not None:
            books.unseen(blind_since_s, now_s)
        books.acts = self._idles() is None
        books.take_in(names, now_s)
        if self._frozen() is not None or self._cluster.problems():  # it may be so since the others had their turns
            return False
        more = books.decide(now_s)
        self._cluster.taken.keep(in_any_case(books.room, books.plans))
        self._cycle_s = self._thought_s = self._clock.monotonic() - begun_s - breathed_s
        self._counted(books)
        return more

    async def _take(self, books: Books, names: Sequence[str], now_s: float) -> tuple[Sequence[str], float]:
        """Take in work until little is left, some in a turn of the event loop; what is left, with what was touched in
        between, and for how long others had their turns."""
        breathed_s = 0.0
        while len(names) > IN_A_TURN:
            books.take(names[:IN_A_TURN], now_s)
            begun_s = self._clock.monotonic()
            await breathe(self._clock)
            breathed_s += self._clock.monotonic() - begun_s
            names = (*names[IN_A_TURN:], *self._cluster.touched())
        return names, breathed_s

    def _take_queues(self, now_s: float) -> Books | None:
        """The books, or, where queues changed, others that are opened anew: what runs goes on running. None where
        nothing is served."""
        version = self._cluster.queues_version
        if version == self._queues_version and self._books is not None:
            return self._books
        before, old = self._tree, self._books
        specs = None if before is None else before.specs
        tree = tree_of({name: _seen(found) for name, found in self._cluster.queues.items()}, self._shapes, specs)
        same = before is not None and (before.specs, before.findings) == (tree.specs, tree.findings)
        self._tree, self._queues_version = tree, version
        if before is None or not _admit_alike(before, tree):
            self._cluster.taken.share_by(tree.admits)
        if same and old is not None:
            return old
        if not tree.queues or not self._shapes:
            return None
        params = BatchParams(compile_shapes(self._shapes), tree.queues, serving_priority=self._serving_priority)
        saved = self._saved(params, now_s) if old is None else old.packed(now_s)
        trials = Trials(asks=self._idle() is None) if old is None else old.trials.among(self._cluster.works)
        made = partial(Books, self._cluster, self._shapes, params, tree, self._guard, desk=self._desk, trials=trials)
        books = made()
        try:
            books.open(saved, now_s)
        except ValueError as error:
            LOG.warning("what batch queues remembered is not restored", why=str(error))
            books = made()
            books.open({}, now_s)
        if old is not None:
            inherit(books, old)
        return books

    def _saved(self, params: BatchParams, now_s: float) -> dict[str, Any]:
        found: dict[str, QueueMemory] = {}
        for name, queue in self._cluster.queues.items():
            try:
                memory = read_memory(msgspec.json.decode(queue.status, type=dict[str, Any]))
            except InputError as error:
                LOG.warning("what a batch queue remembered is not restored", queue=name, why=str(error))
                continue
            if memory is not None:
                found[name] = memory
        return gathered(found, params.half_life_s, now_s) if found else {}

    async def _remember(self, books: Books) -> bool:
        """Write down for whom others leave, before they are told to."""
        return self._telling.told is not None and await self._telling.remember(books, now_s=self._clock.now())

    async def _tell(self, idle: str | None, unread: int = 0) -> None:
        now_s, begun_s = self._clock.now(), self._clock.monotonic()
        if begun_s < self._tell_again_s:
            return
        self._told_s = begun_s
        self._tell_again_s = begun_s + TELL_S
        if self._books is None or self._tree is None:
            why = idle or "there is no BatchQueue that is served, or no shape in the settings"
            await self._telling.nothing(self._tree, now_s, why, unread)
            return
        counts = replace(self._counts, write_failures=self._acts.failures)
        look = self._telling.look(
            self._books, self._tree, now_s=now_s, idle=idle, unread=unread, counts=counts, cycle_s=self._cycle_s
        )
        self._tell_again_s = begun_s + max(TELL_S, SELDOM * (self._clock.monotonic() - begun_s))
        await self._telling.write(self._books, look)

    def _counted(self, books: Books) -> None:
        self._counts = replace(
            self._counts,
            admitted=tuple(sorted(books.tally.admitted.items())),
            evicted=tuple(sorted(books.tally.evicted.items())),
            lost_gpu_s=books.tally.lost_gpu_s,
            recalls=books.loans.recalls.count.gangs,
            recall_s=books.loans.recalls.count.took_s,
            return_gpu_s=books.loans.recalls.count.return_gpu_s,
        )


def _is(work: Work, kind: str, namespace: str | None, name: str) -> bool:
    ref, asked = work.ref, (name, kind.lower())
    return not work.ended and (ref.name, ref.kind.lower()) == asked and namespace in {None, ref.namespace}


def _admit_alike(one: Tree, other: Tree) -> bool:
    """Whether the same namespaces may use the same queues."""
    parents = [{name: spec.parent for name, spec in tree.specs.items()} for tree in (one, other)]
    return one.namespaces == other.namespaces and parents[0] == parents[1]


def _seen(found: BatchQueueObject) -> QueueSeen:
    made = found.metadata.creation_timestamp
    made_s = 0.0 if made is None else made.timestamp()
    try:
        return QueueSeen(read_batch_queue(bytes(found.spec)), made_s)
    except InputError as error:
        return QueueSeen(None, made_s, str(error))
