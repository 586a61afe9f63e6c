"""The books of batch admission beside the cluster: who waits, who was let in and where, who has to go.

Enters: a followed cluster, instants. Leaves: patches that are due, derived anew at each look from the difference
between the books and the objects, so that what was not carried out is due still. It writes nothing itself. Everything
is rebuilt from the cluster alone when the tree of queues changes or the process starts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_members import Member, Seat
from autoscaler.adapters.kube.batch_work import Put, Work
from autoscaler.api.batch_tree import Tree
from autoscaler.api.shapes import Shape
from autoscaler.app.batch_asks import Asks
from autoscaler.app.batch_denials import Denials
from autoscaler.app.batch_gangs import Unfit, is_alike
from autoscaler.app.batch_latecomers import Latecomers
from autoscaler.app.batch_loans import Loans
from autoscaler.app.batch_notes import REFUSED_WRITE, STAYS, UNBOUND, UNSTOPPABLE, Note
from autoscaler.app.batch_patience import START_WITHIN_S
from autoscaler.app.batch_places import Places
from autoscaler.app.batch_reader import Reader
from autoscaler.app.batch_rests import Rests, unstopped
from autoscaler.app.batch_serving import Serving
from autoscaler.app.batch_tally import Began, Tally
from autoscaler.app.batch_trials import UNTRIED, Trials
from autoscaler.app.batch_undone import Undone
from autoscaler.app.guard import Guard
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.core.batch import durable
from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.gangs import Gang, Refusal
from autoscaler.core.batch.params import BatchParams
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.room import Room

MOST_CYCLES: Final = 2
"""In one look; what is left is taken up by the next one at once."""


class Books:
    """The books of one cluster."""

    def __init__(
        self,
        cluster: BatchCluster,
        shapes: Mapping[str, Shape],
        params: BatchParams,
        tree: Tree,
        guard: Guard,
        *,
        desk: LoanDesk | None = None,
        trials: Trials | None = None,
    ) -> None:
        self.cluster, self.tree, self.room = cluster, tree, Room(params)
        self.cycles = Cycles(self.room)
        self.places = Places(cluster, self.room)
        desk = desk or LoanDesk(is_open=False)
        self.loans = Loans(cluster, self.room, desk)
        self.asks = Asks(cluster, self.cycles, desk, self.loans.waits)
        self.plans: dict[str, tuple[Put, ...]] = {}
        """Gangs that were admitted and whose objects do not say so yet."""
        self.unfit, self.notes = dict[str, Unfit](), dict[str, Note]()
        self.tally, self.started = Tally(), dict[str, Began]()
        self._reader = Reader(cluster, shapes, tree, guard)
        self.rests, self.undone, self.trials, self.latecomers = Rests(), Undone(), trials or Trials(), Latecomers()
        self.denials, self._serving = Denials(self.rests, self.tally), Serving(self.room, tree.namespaces)
        self._known: set[str] = set()
        """Gangs that the books have heard of."""
        self.acts = True
        """Whether what is decided is carried out: else nobody who runs is judged by when it started."""
        self._looked: tuple[int, object, int] = (-1, None, -1)
        self._refused: list[tuple[str, str]] = []
        self._stale = False
        """Whether pods must be read anew although none changed: somebody gave up what pods still hold."""

    def is_tracked(self, name: str) -> bool:
        """Whether pods of this gang count as its own, and not as strangers."""
        work = self.cluster.works.get(name)
        return work is not None and work.says is not None and not work.manager and not work.ended

    def is_running(self, name: str) -> bool:
        """Whether a gang was let in and all of its pods have found their places."""
        run = self.room.runs.all.get(name)
        started = run is not None and run.leaving_s is None and name not in self.plans
        return started and not self.places.is_settling(name)

    def _is_whole_again(self, name: str) -> bool:
        """Whether a gang of pods that was told to be in part is so no more."""
        work, run = self.cluster.works.get(name), self.room.runs.all.get(name)
        is_in = work is not None and not work.can_be_stopped and run is not None and run.leaving_s is None
        return is_in and name not in self.plans and not self.latecomers.has(name) and not self.places.lacks(name)

    def open(self, saved: Mapping[str, Any], now_s: float) -> None:
        """Begin: what holds GPUs is known, and what was kept for whom. Raises ValueError where that cannot be read."""
        self.places.now_s = now_s
        self._known.update(self.cluster.works)  # whoever is gone before it is read is to be forgotten
        for name, work in self.cluster.works.items():
            if self.is_tracked(name) and not work.suspended:
                self.places.adopt(work)
        self._see(now_s)
        if saved:
            durable.unpack(self.room, saved, now_s)

    def take(self, names: Iterable[str], now_s: float) -> None:
        """Bring the books in line with these objects. All that changed has been taken before `close` and `take_in`:
        pods of who went would be taken for strangers'."""
        self.places.now_s = now_s
        for name in dict.fromkeys(names):
            self._sync(name, now_s)

    def close(self, now_s: float) -> None:
        """All that there is was taken."""
        self._stale = True
        self._catch_up((), now_s)
        self.room.leaving_since.clear()

    def unseen(self, since_s: float, now_s: float) -> None:
        """Nothing could be seen between two instants: nobody is judged by what did not happen meanwhile."""
        self.places.unseen(since_s, now_s)
        self.rests.unseen(now_s)
        self.room.runs.unseen(now_s - since_s)

    def take_in(self, names: Sequence[str], now_s: float) -> None:
        """Take in what changed: the work of these names, nodes, pods."""
        self._catch_up(names, now_s)
        for name in self.rests.over(now_s):
            if name not in self.room.runs.all and name not in self.room.backlog.waiting:
                self._sync(name, now_s)
        if self.acts:
            self._stop_late(now_s)
        self._follow_ends(now_s)
        if self.acts:
            self.call_back(now_s)
        else:
            self.denials.note(self.cluster.works, self.room, self.notes, now_s)
        self.rests.all = {name: rest for name, rest in self.rests.all.items() if not self.is_running(name)}
        self.notes = {name: note for name, note in self.notes.items() if not self._is_whole_again(name)}

    def _catch_up(self, names: Iterable[str], now_s: float) -> None:
        nodes_changed = self._looked[1] != self.cluster.nodes_version
        self.take(names, now_s)
        if self._stale or self.asks.is_stale or self.cluster.is_over(now_s) or self._looked != self._now():
            self._see(now_s)
        if nodes_changed:  # what no node could take may go somewhere, and a place for others may be no proof any more
            self.take(self._reader.take_anew(), now_s)
            if self._stale:
                self._see(now_s)

    def call_back(self, now_s: float) -> None:
        """Gangs that have to go because pools call back what they lent are told to."""
        self.places.now_s = now_s  # a stop that was not taken is due again a while later, seen or unseen
        self.denials.note(self.cluster.works, self.room, self.notes, now_s)
        self.tally.stopped(self.loans.recall(now_s))

    def decide(self, now_s: float) -> bool:
        """Run cycles; whether there is more to decide at once."""
        more = self._cycles(now_s)
        self.asks.decide(now_s)
        self.loans.tell(now_s)
        return more

    def _cycles(self, now_s: float) -> bool:
        for _ in range(MOST_CYCLES):
            done = self.cycles.cycle(now_s)
            for admitted in done.admitted:
                at = self.cluster.works[admitted.gang].placed
                self.plans[admitted.gang] = tuple(self.loans.puts(admitted, at))
                self.started[admitted.gang] = Began(now_s, admitted.reason.name, admitted.narrow)
                self.notes.pop(admitted.gang, None)
                self.tally.let_in(admitted)
            self.tally.stopped(done.evicted)
            if not done.more:
                return False
        return True

    def due_stops(self) -> Iterator[tuple[Work, str]]:
        """Gangs that are to stop and run still, each with the one that gets its place, empty for nobody."""
        for work, run in unstopped(self.cluster.works, self.room.runs.all):
            if not work.can_be_stopped:
                words = f"it lost GPUs that it held, and {UNSTOPPABLE}"
                self.notes[work.name] = Note(STAYS, f"{words}; delete those that are left, and make the gang anew")
            elif self.rests.may_stop(work, now_s := self.places.now_s) and self.undone.may_stop(work.name, now_s):
                yield work, run.leaves_for or ""

    def due_starts(self, now_s: float) -> Iterator[tuple[Work, tuple[Put, ...]]]:
        """Gangs that are to start where it was proven that they fit, unless others are still finding their places."""
        for name, plan in list(self.plans.items()):
            work, run = self.cluster.works.get(name), self.room.runs.all.get(name)
            if work is None or run is None or run.leaving_s is not None or not work.suspended:
                del self.plans[name]
            elif self._may_start(work, now_s) and self.places.enter(name, plan):
                yield work, plan

    def due_trials(self, now_s: float) -> Iterator[Work]:
        """Gangs that are to be tried out now, before anybody is stopped for them."""
        for name in self.trials.held():
            work = self.cluster.works.get(name)
            if work is not None and not self.rests.holds(name, now_s) and self._may_start(work, now_s):
                yield work

    def was_taken(self, work: Work, now_s: float) -> None:
        """The server would let a gang start: it takes part."""
        self.trials.took(work.name)
        self.notes.pop(work.name, None)
        self._sync(work.name, now_s)

    def due_latecomers(self, now_s: float) -> Iterator[tuple[Work, tuple[tuple[Member, Seat], ...]]]:
        """Pods that stand behind the gate though their gang was let in, each with the place that is kept for it."""
        for work, pairs in list(self.latecomers.due(self.cluster.works, now_s)):
            run = self.room.runs.all.get(work.name)
            if run is not None and run.leaving_s is None:
                yield work, pairs

    def not_seated(self, work: Work, words: str, now_s: float) -> None:
        """Not all pods of a gang would be let in: it keeps the places of the others, which are tried again."""
        if work.name in self.cluster.works:
            self.latecomers.note(self.cluster.works[work.name])
        self.latecomers.tried(work.name, now_s)
        self.notes[work.name] = Note(REFUSED_WRITE, words)

    def was_refused(self, work: Work, words: str, now_s: float) -> None:
        """The object would not take a start: the gang gives back what it was given, and is left alone for a while.

        Then it is tried out before it takes part again.
        """
        self.rests.begin(work.name, now_s)
        self.trials.refused(work.name)
        self.unfit.pop(work.name, None)
        self.notes[work.name] = Note(REFUSED_WRITE, words)
        self._give_back(work.name, now_s)

    def refused(self) -> Sequence[tuple[str, str]]:
        """Gangs whose start was refused though nobody was first, each with the words; told once."""
        told, self._refused = self._refused, []
        return told

    def _may_start(self, work: Work, now_s: float) -> bool:
        """Whether a start may be written now; one that was refused, though nothing has changed since, is over."""
        if work.is_held_by_notes and not self.cluster.sees_policy():
            return False
        doubt = self.rests.start_doubt(work, now_s)
        if doubt is not None and doubt.until_s <= now_s:
            self.was_refused(work, doubt.words, now_s)
            self._refused.append((work.name, doubt.words))
        return doubt is None

    def packed(self, now_s: float) -> dict[str, Any]:
        """What must outlive a restart; a start may have to wait for minutes, for others that look for their places."""
        starting = [name for name in self.plans if (work := self.cluster.works.get(name)) and work.suspended]
        return durable.pack(self.room, now_s, starting=starting)

    def _sync(self, name: str, now_s: float) -> None:
        """Bring the books in line with one object."""
        work, run = self.cluster.works.get(name), self.room.runs.all.get(name)
        self.trials.release(name)
        if work is None or not self.is_tracked(name):
            if name in self._known:
                self._forget(name, now_s, finished=work is not None and work.finished)
            return
        self._known.add(name)
        self.latecomers.note(work)
        gang = self._gang(work)
        if not work.suspended:
            self._runs(work, gang, now_s)
        elif run is None or run.leaving_s is None:
            if gang is None:
                self._give_back(name, now_s)
            else:
                self._waits(work, gang, now_s)

    def _runs(self, work: Work, gang: Gang | None, now_s: float) -> None:
        name = work.name
        if self.plans.pop(name, None) is not None:
            self.places.patience.began(name, now_s)
        if name not in self.room.runs.all:
            self.room.cancel(name, now_s)  # somebody let it in by hand: it runs, whether it was its turn or not
            self.places.adopt(work)
            self._stale = True
        elif gang is not None and gang.checkpoint_s is not None:
            self.room.checkpointed(name, gang.checkpoint_s)

    def _waits(self, work: Work, gang: Gang, now_s: float) -> None:
        name, run = work.name, self.room.runs.all.get(work.name)
        if run is not None:
            # Let in and not started: what was edited meanwhile has to be decided anew. Or stopped by somebody else.
            if name in self.plans and is_alike(run.gang, gang):
                return
            if name not in self.plans and (told := self.undone.suspended(name, now_s)) is not None:
                self.rests.all[name], self.notes[name] = told
            self._give_back(name, now_s)
        else:
            self.places.forget(name)
        if self.trials.holds_back(work, self.room.ledger.reservations.get(name)):
            if not self.trials.was_refused(name):
                self.unfit[name] = UNTRIED
        elif not self.rests.holds(name, now_s):
            self._told_refused(name, self.room.submit(gang, now_s))

    def _gang(self, work: Work) -> Gang | None:
        gang = self._reader.read(work)
        if isinstance(gang, Unfit):
            self.unfit[work.name] = gang
            return None
        self.unfit.pop(work.name, None)
        return gang

    def _told_refused(self, name: str, refused: Refusal | None) -> None:
        if refused is not None:
            self.unfit[name] = Unfit(refused.reason.name, f"{refused.what}; {refused.remedy}")

    def _forget(self, name: str, now_s: float, *, finished: bool) -> None:
        """A gang wants nothing any more; pods of it that are there still are strangers until they are gone."""
        end = self.room.finish if finished else self.room.cancel
        end(name, now_s)
        self._known.discard(name)
        for each in (self.places, self.rests, self.undone, self.latecomers, self.trials, self._reader):
            each.forget(name)
        for kept in (self.plans, self.unfit, self.notes, self.started):
            kept.pop(name, None)
        self._stale = True

    def _give_back(self, name: str, now_s: float) -> None:
        """A gang that was let in, and does not run, holds nothing any more."""
        self.room.cancel(name, now_s)
        self.places.forget(name)
        self.plans.pop(name, None)
        self._stale = True

    def _see(self, now_s: float) -> None:
        self._looked, self._stale = self._now(), False
        seen = self.asks.see(self.loans.see(self.cluster.seen(self.is_tracked, now_s), self.is_tracked, now_s))
        self._reader.note_nodes(seen)
        self._serving.follow(seen, now_s)
        ran = list(self.room.runs.all)
        self.tally.stopped(self.room.see(seen.nodes, self.loans.mark(self.places.pods(seen, self.is_tracked)), now_s))
        for name in ran:
            work = self.cluster.works.get(name)
            if name in self.room.backlog.waiting and work is not None and not work.suspended:
                self.room.remains(name, now_s)  # nothing is left where it was: its object is to be stopped still
        for name in self.places.adopting():
            self._adopt(name, now_s)
        self.places.settle()
        self.asks.settle()
        self.loans.settle(now_s)

    def _adopt(self, name: str, now_s: float) -> None:
        """Take in a gang that runs, once a pod of it was seen, or where it was put is known."""
        work = self.cluster.works.get(name)
        if work is None or work.suspended or name in self.room.runs.all:
            return
        gang = self._gang(work)
        if gang is not None:
            started_s = now_s if work.started_s is None else min(work.started_s, now_s)
            self._told_refused(name, self.room.adopt(gang, started_s, now_s))
            if name in self.room.runs.all:
                self.trials.took(name)  # it was let in once
                self.started.setdefault(name, Began(started_s))
                self.places.adopted(name, started_s)

    def _now(self) -> tuple[int, object, int]:
        """What nodes and pods that were seen have to be seen anew for."""
        return self.cluster.pods.changes, self.cluster.nodes_version, self.loans.version

    def _stop_late(self, now_s: float) -> None:
        """Gangs that were let in and found no whole place in time go, whole; not by a watch of pods that may hang."""
        late = self.places.late()
        if late and not self.cluster.hears_pods():
            return
        for name, why in late.items():
            if name not in self.room.runs.all:
                if name not in self.room.ledger.holdings:
                    self.room.ledger.book(name, ())  # it was put where nothing is any more
                self._adopt(name, now_s)
            run, work = self.room.runs.all.get(name), self.cluster.works.get(name)
            if run is not None and work is not None and not work.can_be_stopped:
                self.notes[name] = Note(UNBOUND, f"not all of its pods were bound, and {why}; {UNSTOPPABLE}")
            elif run is not None and run.leaving_s is None:
                self.notes[name] = Note(UNBOUND, f"not all of its pods were bound, and {why}; it was stopped whole")
                self.rests.begin(name, now_s, 2.0 * START_WITHIN_S)
                self.tally.stopped([self.room.evict(run, BatchReason.LOST, "", now_s)])
            elif run is None:
                self._give_back(name, now_s)
            self.places.forget(name)

    def _follow_ends(self, now_s: float) -> None:
        """Gangs that were told to leave, and have no pod any more, wait again."""
        for name, run in list(self.room.runs.all.items()):
            if run.leaving_s is None or self.cluster.pods.of_gang(name):
                continue
            work = self.cluster.works.get(name)
            if work is None or work.suspended or work.ended:
                self.places.forget(name)
                self.plans.pop(name, None)
                self.room.left(name, now_s)
                if self.rests.holds(name, now_s):
                    self.room.cancel(name, now_s)
                self._sync(name, now_s)
