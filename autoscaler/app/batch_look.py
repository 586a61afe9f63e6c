"""What one look at batch admission says of every gang and every queue.

Enters: the books. Leaves: the values that pages, tables, metrics and statuses are made of. Nothing is changed. The
outlook of the first gangs of each queue is found; who stands far behind is told its place and what it waits for.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

from autoscaler.adapters.kube.batch_work import Work
from autoscaler.api.batch_tree import Tree, beyond_capacity
from autoscaler.app.batch_books import Books
from autoscaler.app.batch_gangs import Unfit
from autoscaler.app.batch_tally import Began
from autoscaler.app.batch_untaken import untaken_of
from autoscaler.core.batch.outcome import Awaited
from autoscaler.core.batch.outlook import outlook
from autoscaler.core.batch.owners import Owner
from autoscaler.core.batch.params import UNLIMITED
from autoscaler.core.batch.reasons import BatchReason, Change
from autoscaler.core.batch.waiting import Waiting
from autoscaler.record.batch import (
    MOST_GANGS,
    AwaitedTold,
    BatchCounts,
    BatchTold,
    ChangeTold,
    GangState,
    GangTold,
    OwnersTold,
    QueueTold,
    ShapeTold,
)
from autoscaler.record.batch_words import ebbs, stuck, told_to_leave

RESTING: Final = "RESTING"
FORESEEN: Final = 3
MOST_FORESEEN: Final = 60
"""Of each queue, and in one look, gangs whose start is forecast; that goes through everything that is to end."""


class Look:
    """One look; `counts` are those of the process."""

    def __init__(self, books: Books, tree: Tree, now_s: float) -> None:
        self._books, self._tree, self._now_s = books, tree, now_s
        room = books.room
        self._untaken = untaken_of(books.cluster.taken, room.tree)
        self._in_queue = {leaf: room.backlog.in_queue(at) for leaf, at in room.tree.leaves.items()}
        self._forecasts = 0
        self._positions = {
            each.gang.name: place for mine in self._in_queue.values() for place, each in enumerate(mine, 1)
        }

    def told(self, *, acting: bool, idle: str, counts: BatchCounts, cycle_s: float | None) -> BatchTold:
        """All of it."""
        return BatchTold(
            now_s=self._now_s, acting=acting, idle_reason=idle, queues=tuple(self._queues()),
            gangs=tuple(self.gang(name) for name in self._chosen()), waiting=self._reasons(),
            refused=_ranked(Counter(each.reason for each in self._unfit() if not each.waits)),
            owners=tuple(self._owners()), untaken=self._untaken[1], counts=counts, cycle_s=cycle_s,
            remarks=self._books.cluster.unread(),
        )  # fmt: skip

    def gang(self, name: str) -> GangTold:
        """One gang that is followed."""
        books, work = self._books, self._books.cluster.works[name]
        run, note = books.room.runs.all.get(name), books.notes.get(name)
        plain = _plain(work, books)
        told = partial(_with, plain)
        if work.manager:
            return told(GangState.FOREIGN, "MANAGED_ELSEWHERE", f"{work.manager} manages it")
        if run is not None and run.leaving_s is not None:
            if note is not None:
                return told(GangState.LEAVING, note.reason, note.words)
            why, words = "LEAVING", told_to_leave(run.leaving_s, run.gang.notice_s, self._now_s)
            if books.room.is_overdue(run, self._now_s):
                why, words = BatchReason.OVERDUE.name, f"{words}; {stuck(plain.namespace)}"
            elif name in books.loans.recalls.all:
                why = "RECALLED"
            return told(
                GangState.LEAVING, why, words, evictions=run.evictions, **self._on_loan(name),
            )  # fmt: skip
        if run is not None:
            state = GangState.RUNNING if books.is_running(name) and note is None else GangState.STARTING
            began = books.started.get(name, Began(run.started_s))
            reason, detail = (began.reason, "") if note is None else (note.reason, note.words)
            narrow = None if began.narrow is None else _changes((began.narrow,))[0]
            nodes = books.room.ledger.estate.nodes
            holding = books.room.ledger.holdings.get(name)
            where = dict.fromkeys(nodes[spot.node].name for spot in (holding.spots if holding is not None else ()))
            return told(
                state, reason, detail, started_s=began.at_s, nodes=tuple(where), evictions=run.evictions, narrow=narrow,
                end_p50_s=run.end_s(books.room.runs.ratios(run.queue)[0], self._now_s), **self._on_loan(name),
            )  # fmt: skip
        unfit = books.unfit.get(name)
        if unfit is not None:
            state = GangState.WAITING if unfit.waits else GangState.REFUSED
            return told(state, unfit.reason, unfit.words)
        more = [words for words in (note and note.words, books.asks.words(name, self._now_s)) if words]
        told = partial(told, remarks=(*plain.remarks, *more))
        waiting = books.room.backlog.waiting.get(name)
        if waiting is None and name not in books.room.kept_for:
            return told(GangState.WAITING, RESTING if note is None else note.reason, "")
        if waiting is None or (self._positions.get(name, FORESEEN + 1) <= FORESEEN and self._forecasts < MOST_FORESEEN):
            self._forecasts += 1
            seen = outlook(books.cycles, name, self._now_s)
            if seen is not None:
                counts_on = (ebbs(seen.unebbed_s, self._now_s),) if seen.ebbs else ()
                return told(
                    GangState.WAITING, seen.reason.name, "", position=seen.position, changes=_changes(seen.changes),
                    start_p50_s=seen.p50_s, start_p90_s=seen.p90_s, awaits=_awaits(seen.awaits),
                    remarks=(*plain.remarks, *more, *counts_on),
                )  # fmt: skip
        assert waiting is not None
        verdict = books.cycles.why(waiting)
        position, changes = self._positions.get(name), _changes(verdict.changes)
        return told(GangState.WAITING, verdict.reason.name, "", position=position, changes=changes)

    def _on_loan(self, name: str) -> dict[str, Any]:
        """What a gang has on loan, and of whom."""
        holding = self._books.room.ledger.holdings.get(name)
        units = 0 if holding is None else sum(holding.lent.values())
        return {"lent_units": units, "lenders": self._books.loans.lenders(name)}

    def _chosen(self) -> list[str]:
        """Who is told of without being asked for: heads of queues, those that hold GPUs, who is next, then the rest."""
        books = self._books
        firsts = (each.gang.name for mine in self._in_queue.values() for each in mine[:FORESEEN])
        others = (each.gang.name for mine in self._in_queue.values() for each in mine[FORESEEN:])
        heads = (mine[0].gang.name for mine in self._in_queue.values() if mine)
        names = chain(
            books.room.kept_for, heads, books.room.runs.all, firsts, books.unfit, books.notes, others,
            (name for name, work in books.cluster.works.items() if work.manager),
        )  # fmt: skip
        known = dict.fromkeys(name for name in names if name in books.cluster.works)
        return list(known)[:MOST_GANGS]

    def _reasons(self) -> tuple[tuple[str, int], ...]:
        found = Counter(self._why(each).name for mine in self._in_queue.values() for each in mine)
        kept_for, for_nodes = len(self._books.room.kept_for), len(self._books.room.waits_for_nodes())
        found.update({BatchReason.NODES.name: for_nodes, BatchReason.LEAVING.name: kept_for - for_nodes})
        found[BatchReason.UNTAKEN.name] += self._untaken[1]
        found.update(each.reason for each in self._unfit() if each.waits)
        found.update(self._resting())
        return _ranked(+found)

    def _unfit(self) -> list[Unfit]:
        runs = self._books.room.runs.all
        return [each for name, each in self._books.unfit.items() if name not in runs]

    def _resting(self) -> Iterator[str]:
        """Why gangs wait that are left alone for a while, and have no place meanwhile."""
        books, works = self._books, self._books.cluster.works
        known = (books.room.backlog.waiting, books.room.kept_for, books.room.runs.all, books.unfit)
        for name in books.rests.all:
            if name in works and not any(name in each for each in known):
                yield RESTING if name not in books.notes else books.notes[name].reason

    def _why(self, waiting: Waiting) -> BatchReason:
        return self._books.cycles.why(waiting).reason

    def _queues(self) -> Iterator[QueueTold]:
        room, tree = self._books.room, self._tree
        wanted, units = self._wanted(), self._units()
        beyond = beyond_capacity(tree, units)
        counts = Counter[int]()
        for run in room.runs.all.values():
            counts.update(room.tree.paths[run.queue])
        waits = Counter[int]()
        for each in chain(room.backlog.waiting.values(), room.kept_for.values()):
            waits.update(room.tree.paths[each.queue])
        for name, at in room.tree.index.items():
            spec = tree.specs.get(name)
            if spec is None:
                continue
            yield QueueTold(
                name=name, parent=spec.parent, weight=spec.weight, share_ratio=room.tree.share(at),
                waiting=waits[at], running=counts[at],
                shapes=tuple(self._shape(name, at, shape, wanted) for shape in self._shapes_of(name, at, wanted)),
                namespaces=spec.namespaces, used_gpu_s=room.runs.past(at, self._now_s).used_gpu_s,
                findings=tuple(
                    (each.code.value, each.words) for each in (*tree.of(name), *beyond) if each.queue == name
                ),
                held=name in tree.held, untaken=self._untaken[0][at], taken_most=self._books.cluster.taken.most,
            )  # fmt: skip
        yield from left_out(tree)

    def _units(self) -> Mapping[str, int]:
        """Units by shape that the cluster has, usable or not; what is on its way may never come."""
        found = Counter[str]()
        for node in self._books.room.ledger.estate.nodes:
            found[node.shape] += node.units if node.due_s is None else 0
        return found

    def _wanted(self) -> Mapping[tuple[int, int], int]:
        room, found = self._books.room, Counter[tuple[int, int]]()
        for each in chain(room.backlog.waiting.values(), room.kept_for.values()):
            for shape, units in room.backlog.loads[each.brand].units:
                for at in room.tree.paths[each.queue]:
                    found[at, shape] += units
        return found

    def _shapes_of(self, name: str, at: int, wanted: Mapping[tuple[int, int], int]) -> list[str]:
        tree, spec = self._books.room.tree, self._tree.specs[name]
        stated = {quota.shape for quota in spec.quotas}
        return [shape for shape, n in tree.shapes.items() if shape in stated or tree.used[at][n] or wanted.get((at, n))]

    def _shape(self, name: str, at: int, shape: str, wanted: Mapping[tuple[int, int], int]) -> ShapeTold:
        tree = self._books.room.tree
        number, spec = tree.shapes[shape], tree.spec(at)
        quota = spec.quotas.get(shape)
        limit = None if quota is None or quota.limit >= UNLIMITED else quota.limit
        guaranteed = 0 if quota is None else quota.guaranteed
        return ShapeTold(shape, guaranteed, limit, tree.used[at][number], wanted.get((at, number), 0))

    def _owners(self) -> Iterator[OwnersTold]:
        ledger = self._books.room.ledger
        for number, shape in enumerate(ledger.estate.shape_names):
            mine = ledger.estate.shape == number
            held = {owner.name.lower(): int(ledger.owned[mine, owner].sum()) for owner in Owner}
            free, units = ledger.estate.free[mine], ledger.estate.units[mine]
            yield OwnersTold(
                shape=shape, **held, free=int(free.sum()), whole_free=int(free[free == units].sum()),
            )  # fmt: skip


def left_out(tree: Tree) -> Iterator[QueueTold]:
    """The queues that cannot be served, each with what is wrong with it."""
    for name in dict.fromkeys(each.queue for each in tree.findings if each.queue not in tree.specs):
        findings = tuple((each.code.value, each.words) for each in tree.of(name))
        yield QueueTold(name, None, 1.0, None, 0, 0, (), findings=findings, served=False)


def _ranked(found: Counter[str]) -> tuple[tuple[str, int], ...]:
    """Most first."""
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _changes(changes: tuple[Change, ...]) -> tuple[ChangeTold, ...]:
    return tuple(ChangeTold(each.reason.name, each.where, each.units) for each in changes)


def _awaits(awaits: tuple[Awaited, ...]) -> tuple[AwaitedTold, ...]:
    return tuple(AwaitedTold(each.node, each.shape, each.units, each.due_s) for each in awaits)


def _with(plain: GangTold, state: GangState, reason: str, detail: str, **more: Any) -> GangTold:
    return replace(plain, state=state, reason=reason, detail=detail, **more)


def _plain(work: Work, books: Books) -> GangTold:
    """What is told of a gang whatever its state."""
    says, offered = work.says, books.cluster.resources
    run = books.room.runs.all.get(work.name)
    waiting = books.room.backlog.waiting.get(work.name) or books.room.kept_for.get(work.name)
    gang = run.gang if run is not None else waiting.gang if waiting is not None else None
    pods = sum(each.pods for each in (work.sets if gang is None else gang.form.pod_sets))
    if gang is not None:
        units = tuple(sorted(gang.form.units().items()))
    else:
        asked = Counter[str]()
        for each in work.sets:
            asked.update({name: int(n * each.pods) for name, n in each.asks.units.items() if name in offered})
        units = tuple(sorted(asked.items()))
    elastic = None if gang is None else gang.elastic
    return GangTold(
        kind=work.ref.kind, namespace=work.ref.namespace, name=work.ref.name, queue="" if says is None else says.queue,
        state=GangState.WAITING, pods=pods, units=units, created_s=work.created_s,
        most_pods=None if gang is None or elastic is None else pods - gang.width + elastic.most,
        remarks=() if says is None else tuple(each.words for each in says.findings if not each.stops),
    )  # fmt: skip
