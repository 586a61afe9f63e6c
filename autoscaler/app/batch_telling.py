"""Tells the cluster and whoever asks what became of batch work: statuses of queues, events of gangs, rows from memory.

Enters: the books after a look. Leaves: a status per BatchQueue when something that people act upon changed or has to
outlive a restart; events on refusal, on preemption and on a wait that lasts. A gang that starts at once has none: what
was written with its admission says it.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import structlog

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_writer import BatchWriter
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.adapters.kube.status import dated
from autoscaler.api.batch_memory import spread
from autoscaler.api.batch_queue_status import QueueMemory
from autoscaler.api.batch_tree import Tree
from autoscaler.api.schema import custom_resource
from autoscaler.app.batch_books import Books
from autoscaler.app.batch_look import Look, left_out
from autoscaler.app.batch_notes import REFUSED_WRITE, RUNS_AGAIN, STAYS, STOP_DENIED, SUSPENDED, UNBOUND
from autoscaler.app.batch_statuses import queue_status
from autoscaler.app.publishing import Events
from autoscaler.core.batch.outcome import Evicted
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.record.batch import BatchCounts, BatchTold, GangState, GangTold, QueueTold
from autoscaler.record.batch_heads import Heads
from autoscaler.record.batch_words import means, sentence

WAITS_S: Final = 5.0
"""A gang that waits longer is told why."""

MOST_NOTES: Final = 50
"""Events of one look; the rest is told by the next ones."""

REMEMBER_S: Final = 60.0
"""How often what queues used is written down, while nothing else is."""

FAILED: Final = frozenset({REFUSED_WRITE, UNBOUND, STAYS, SUSPENDED})
LOG: Final = structlog.get_logger("headroom")
_FIGURE: Final = re.compile(r"\d+(\.\d+)?")


class BatchTelling:
    """Remembers the newest look and tells it on."""

    def __init__(
        self,
        *,
        cluster: BatchCluster,
        writer: BatchWriter,
        events: Events,
        shown: Callable[[BatchTold], None],
        writes: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._writer = writer
        self._events = events
        self._shown = shown
        self._writes = writes
        """Whether anything is written about work at all: not where we only watch."""
        self.told: BatchTold | None = None
        self._heads = Heads()
        self._gists: dict[str, object] = {}
        self._written_s: dict[str, float] = {}
        self._noted: dict[str, str] = {}
        """Gang -> what it was last told, by its code."""

    async def nothing(self, tree: Tree | None, now_s: float, idle: str, unread: int) -> None:
        """There is nothing to admit by; queues that cannot be served are told why."""
        queues = () if tree is None else tuple(left_out(tree))
        self.told = told = BatchTold(now_s, acting=False, idle_reason=idle, unread=unread, queues=queues)
        self._shown(told)
        for queue in queues:
            await self._write(queue, told, None)

    def look(
        self,
        books: Books,
        tree: Tree,
        *,
        now_s: float,
        idle: str | None,
        unread: int,
        counts: BatchCounts,
        cycle_s: float | None,
    ) -> BatchTold:
        """Tell all of one look, but for what is written."""
        look = Look(books, tree, now_s)
        told = look.told(acting=idle is None, idle=idle or "", counts=counts, cycle_s=cycle_s)
        self.told = told = self._heads.seen(replace(told, unread=unread))
        self._shown(told)
        if self._writes():
            self._note(books, told)
        books.tally.news.clear()
        books.loans.recalls.told.clear()
        return told

    async def write(self, books: Books, told: BatchTold) -> None:
        """Write the statuses of queues of which something changed."""
        memory = _memory(books, told.now_s)
        for queue in told.queues:
            await self._write(queue, told, memory.get(queue.name))

    async def remember(self, books: Books, *, now_s: float) -> bool:
        """Write down what is kept for whom, now; False where the server would not have it, or has yet to be told."""
        told = self.told
        assert told is not None
        kept = {waiting.gang.queue for waiting in books.room.kept_for.values()}
        memory = _memory(books, now_s)
        queues = [queue for queue in told.queues if queue.name in kept]
        for queue in queues:
            if not await self._write(queue, told, memory.get(queue.name)):
                return False
        return len(queues) == len(kept)

    async def _write(self, queue: QueueTold, told: BatchTold, memory: Any) -> bool:
        """Write one status where it is another than was written last; whether the server has it."""
        found = self._cluster.queues.get(queue.name)
        if found is None:
            return False
        meta = found.metadata
        status = custom_resource(queue_status(queue, told, meta.generation, memory))
        gist = (meta.uid, _gist(status))
        late = told.now_s >= self._written_s.get(queue.name, 0.0) + REMEMBER_S
        if self._gists.get(queue.name) == gist and not (late and _used(status) != _used(_decoded(found.status))):
            return True
        seen = _decoded(found.status)
        status["conditions"] = dated(status.get("conditions", ()), seen.get("conditions", ()))
        done = await self._writer.status(queue.name, status)
        if done.became is Became.DONE:
            self._gists[queue.name], self._written_s[queue.name] = gist, told.now_s
        else:
            LOG.warning("a batch queue's status is not written", queue=queue.name, why=done.words)
        return done.became is Became.DONE

    def _note(self, books: Books, told: BatchTold) -> None:
        for each in books.tally.news:
            work = self._cluster.works.get(each.gang)
            if isinstance(each, Evicted) and work is not None and each.gang not in books.notes:
                lost = f"; {each.cost_gpu_s / 3600:.1f} GPU-hours of its work are lost"
                lenders = books.loans.recalls.told.get(each.gang, ()) if each.reason is BatchReason.RECALLED else ()
                whom = each.beneficiary or ", ".join(f"WarmPool {pool}" for pool in lenders)
                for_whom = f" for {whom}" if whom else ""
                self._events.note(
                    work.about, "Warning", "Preempted", f"stopped{for_whom}: {means(each.reason.name)}{lost}"
                )
        left = MOST_NOTES
        for gang in told.gangs:
            if books.asks.is_open(gang.key):
                continue  # it is told what the pool answers, not each time that it is asked
            refusal = books.asks.refusal(gang.key, told.now_s)
            word = _code(gang, told.now_s, "" if refusal is None else refusal[0])
            if self._noted.get(gang.key) == word:
                continue
            if not word:
                self._noted.pop(gang.key, None)
            elif left > 0 and gang.key in self._cluster.works:
                left -= 1
                self._noted[gang.key] = word
                kind, reason = word.split("/")[:2]
                note = books.notes.get(gang.key) if reason == "StartFailed" else None
                words = sentence(gang, told.now_s) if note is None else f"{note.words}; it is tried again later"
                words = words if refusal is None else refusal[1]
                ref = self._cluster.works[gang.key].about
                self._events.note(ref, "Warning" if kind == "Warning" else "Normal", reason, words)
        if len(self._noted) > 2 * len(self._cluster.works) + MOST_NOTES:
            self._noted = {name: word for name, word in self._noted.items() if name in self._cluster.works}


def _code(gang: GangTold, now_s: float, no_nodes: str) -> str:
    """What makes an event of a gang: kind, word, reason; empty where there is nothing to tell. `no_nodes` is why none
    are made for it, empty where that is not so."""
    match gang.state:
        case GangState.REFUSED:
            return f"Warning/Refused/{gang.detail}"
        case GangState.FOREIGN:
            return f"Warning/LeftAlone/{gang.detail}" if gang.queue else ""
        case GangState.WAITING if no_nodes:
            return f"Warning/NodesNotMade/{no_nodes}"
        case GangState.WAITING:
            if gang.reason in FAILED:
                return f"Warning/StartFailed/{gang.reason}"
            return f"Normal/Waiting/{gang.reason}" if now_s - gang.created_s >= WAITS_S else ""
        case GangState.LEAVING if gang.reason in {STOP_DENIED, RUNS_AGAIN}:
            return f"Warning/StopFailed/{gang.reason}"
        case GangState.LEAVING if gang.reason == BatchReason.OVERDUE.name:
            return f"Warning/StillThere/{gang.reason}"
        case GangState.LEAVING | GangState.STARTING if gang.reason in FAILED:
            return f"Warning/StartFailed/{gang.reason}"
        case _:
            return ""


def _memory(books: Books, now_s: float) -> dict[str, QueueMemory]:
    """What each queue remembers."""
    works = books.cluster.works
    return spread(books.packed(now_s), {name: work.says.queue for name, work in works.items() if work.says is not None})


def _gist(status: Mapping[str, Any]) -> object:
    """What a written status must not lag behind: all but figures that move by themselves."""
    memory = status.get("memory") or {}
    kept = [
        {key: value for key, value in each.items() if key not in {"startAt", "startS"}}
        for each in memory.get("reservations", ())
    ]
    conditions = [
        (c["type"], c["status"], c["reason"], _FIGURE.sub("", c["message"])) for c in status.get("conditions", ())
    ]
    plain = {name: status.get(name) for name in ("waitingGangs", "runningGangs", "usedGpus", "reason", "shapes")}
    return msgspec.json.encode((status.get("observedGeneration"), plain, kept, conditions))


def _used(status: Mapping[str, Any]) -> object:
    memory = status.get("memory") or {}
    return memory.get("usedGpuS"), memory.get("runRatios"), memory.get("evictions"), memory.get("reservations")


def _decoded(raw: msgspec.Raw) -> dict[str, Any]:
    return msgspec.json.decode(raw, type=dict[str, Any])
