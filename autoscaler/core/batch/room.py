"""The state of batch admission, and the events that change it. `cycle` decides; this keeps the books straight.

Enters: gangs, their ends and checkpoints, what a cluster shows, what serving lends. A gang waits, is kept for (others
leave for it: it counts for quota already), runs, or leaves (it counts no more and holds its GPUs still). Each event
changes every book it touches at once, so that nothing has to be summed up again.
"""

from collections.abc import Mapping, Sequence

from autoscaler.core.batch import capacity
from autoscaler.core.batch.backlog import Backlog
from autoscaler.core.batch.ebb import Ebbing
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.exchanges import Exchanges
from autoscaler.core.batch.gangs import Gang, Refusal, refusal
from autoscaler.core.batch.ledger import Kind, Ledger, Reservation
from autoscaler.core.batch.loans import LoanBound
from autoscaler.core.batch.outcome import Evicted
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.params import BatchParams
from autoscaler.core.batch.placement import Ask, Placer, Spot
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.running import Past, Running, Runs
from autoscaler.core.batch.scores import PodKind, kind_of
from autoscaler.core.batch.tree import MILLIONTHS, Load, QueueTree
from autoscaler.core.batch.waiting import Waiting


class Room:
    """Batch admission of one cluster."""

    def __init__(self, params: BatchParams) -> None:
        self.params = params
        self.tree = QueueTree(params)
        shared = [shape.name for shape in params.shapes if shape.shared]
        self.ledger = Ledger([shape.name for shape in params.shapes], len(params.levels), shared)
        self.placer = Placer(self.ledger.estate, params.levels)
        self.backlog = Backlog(self.tree, params.half_life_s)
        self.runs = Runs(params, self.tree)
        self.kept_for: dict[str, Waiting] = {}
        """Gangs that others leave for; they count for quota."""
        self.bounds: dict[str, LoanBound] = {}
        """What serving lends, by shape."""
        self.ebbing: tuple[Ebbing, ...] = ()
        """What serving is expected to leave, by lender; nobody starts by it."""
        self.changes = 0
        """Grows with every change of the books, so that a search in vain is repeated only after one."""
        self.news = 0
        """Grows when something happens that no cycle did."""
        self.epoch = 0
        """Grows when nodes change."""
        self.exchanges = Exchanges()
        self.evictions: dict[str, int] = {}
        """By gang that wants to run: how often it was evicted."""
        self.leaving_since: dict[str, float] = {}
        """By gang: since when it leaves, as books before these had it; for those that are still to be submitted."""
        self._min_runtime_s = [0.0 if queue is None else queue.min_runtime_s for queue in self.tree.specs]
        self._asks: dict[int, Ask] = {}
        """By brand, for the estate of now."""
        self._mix: dict[int, float] = {}
        self._kinds: dict[int, dict[PodKind, float]] = {self.tree.shapes[name]: {} for name in shared}
        """Pods that were asked for so far: units by size, and in shared shapes pods by kind."""

    def submit(self, gang: Gang, now_s: float) -> Refusal | None:
        """A gang wants to start. One that runs or leaves is left as it is, even if it would be refused now.

        One that waits already keeps its place, and what is kept for it, unless queue, form, duration or rank changed.
        One whose pods are there still, though it is not running, waits until `left` says that they are gone. What a
        restart found to be kept for it is so still, in the order in which it was made.
        """
        refused = refusal(gang, self.params, self.tree.leaves)
        if gang.name in self.runs.all:
            return refused
        if refused is not None:
            self.cancel(gang.name, now_s)
            return refused
        queue, brand = self.tree.leaves[gang.queue], self.brand(gang)
        known = self.backlog.waiting.get(gang.name) or self.kept_for.get(gang.name)
        if known is not None and known.is_for(gang, queue, brand):
            known.gang = gang
            return None
        kept, is_there = self.ledger.reservations.get(gang.name), gang.name in self.ledger.holdings
        keeps = known is None and kept is not None and (kept.kind is Kind.START if is_there else bool(kept.plan))
        self._withdraw(gang.name, now_s, unreserves=not keeps)
        waiting = self.backlog.add(gang, queue, brand)
        for each in gang.form.pod_sets:
            self._mix[each.units] = self._mix.get(each.units, 0.0) + each.total_units
            kinds = self._kinds.get(self.tree.shapes[each.shape]) if self._kinds else None
            if kinds is not None:
                kinds[kind_of(each)] = kinds.get(kind_of(each), 0.0) + each.pods
        if is_there:
            self._remains(waiting, now_s)
        if keeps and is_there:  # a gang that leaves has a start kept only where it lost GPUs
            self.runs.lose(self.runs.all[gang.name])
        elif (
            keeps and kept is not None and kept.kind is Kind.PREEMPTION
        ):  # it counts, lest its place in the quota is lost
            self.keep_for(waiting, now_s)
        self.changes += 1
        return None

    def brand(self, gang: Gang) -> int:
        """The number of the brand of a gang."""
        expected_s = (self.params.expected_s if gang.expected_s is None else gang.expected_s) * gang.stretch
        # What is lent is lent in whole units.
        borrows = gang.lendable and gang.recallable and not gang.form.has_shares
        loan = (gang.notice_s, gang.lasts_s, gang.restart_s) if borrows else None
        return self.backlog.brand(gang.form, loan=loan, expected_s=expected_s)

    def cancel(self, name: str, now_s: float) -> None:
        """A gang wants nothing any more: it was deleted, or ended. What it held, or was kept for it, passes on."""
        self._withdraw(name, now_s)
        self.evictions.pop(name, None)
        self.exchanges.forget(name)

    def _withdraw(self, name: str, now_s: float, *, unreserves: bool = True) -> None:
        kept = self.kept_for.pop(name, None)
        if kept is not None:
            self.count(kept.queue, self.backlog.loads[kept.brand], -1, now_s)
        self.backlog.drop(name)
        if name in self.runs.all:
            self._ended(name, now_s)
        if unreserves:
            self.unreserve(name)
        self.changes += 1
        self.news += 1

    def finish(self, name: str, now_s: float) -> None:
        """A gang ended by itself."""
        run = self.runs.all.get(name)
        if run is not None and run.leaving_s is None:
            self.runs.ran(run, now_s)
        self.cancel(name, now_s)

    def left(self, name: str, now_s: float) -> None:
        """A gang that was asked to leave has left its GPUs; it waits again, at its old rank."""
        run = self.runs.all.get(name)
        if run is not None and run.leaving_s is not None:
            self._ended(name, now_s)
            self._wait_again(run)
            self.news += 1

    def remains(self, name: str, now_s: float) -> None:
        """A gang that lost all it held, and so waits, was not stopped yet: it holds nothing and leaves until `left`."""
        self.ledger.book(name, ())
        self._remains(self.backlog.waiting[name], now_s)
        self.runs.lose(self.runs.all[name])
        self.changes += 1
        self.news += 1

    def checkpointed(self, name: str, at_s: float) -> None:
        """A gang wrote a checkpoint."""
        self.runs.checkpointed(name, at_s)
        self.changes += 1

    def see(self, nodes: Sequence[NodeSeen], pods: Sequence[PodSeen], now_s: float) -> tuple[Evicted, ...]:
        """What the cluster shows. Gangs that lost units leave whole; what they did not lose is free at once."""
        there = {pod.gang for pod in pods}
        for name in [name for name in self.ledger.holdings if name not in self.runs.all and name not in there]:
            self.ledger.release(name)  # pods that outlived their gang are gone
        before = self.ledger.estate
        lost = self.ledger.see(nodes, pods)
        if self.ledger.estate is not before:
            self.placer = Placer(self.ledger.estate, self.params.levels, self._mix, self._kinds)
            self._asks = {}
        self.epoch += 1
        self.changes += 1
        self.news += 1
        evicted = [self._lost(name, now_s) for name in lost if name in self.runs.all]
        for name in [name for name in self.ledger.holdings if name in self.kept_for]:
            self.keep_no_more(name, now_s)
        for name in [name for name in self.ledger.holdings if name in self.backlog.waiting]:
            self._remains(self.backlog.waiting[name], now_s)
        self._capacity()
        return tuple(each for each in evicted if each is not None)

    def adopt(self, gang: Gang, started_s: float, now_s: float) -> Refusal | None:
        """A gang that runs already, met after a restart: its pods were seen, this says what they are.

        One without a pod that was seen is left out until one is; of one that misses pods only those seen hold GPUs.
        """
        refused = refusal(gang, self.params, self.tree.leaves)
        runs_on = refused is None or refused.reason is BatchReason.PRIORITY  # which it may have had raised since
        if runs_on and gang.name in self.ledger.holdings and gang.name not in self.runs.all:
            waiting = self.backlog.add(gang, self.tree.leaves[gang.queue], self.brand(gang))
            self.started(waiting, started_s, now_s, on_loan=bool(self.ledger.holdings[gang.name].lent))
        return refused

    def lend(self, bounds: Mapping[str, LoanBound]) -> None:
        """What serving lends from now on, by shape; a lower bound recalls nothing by itself."""
        self.bounds = dict(bounds)
        self.changes += 1
        self.ledger.estate.version += 1
        self._capacity()

    def own(self, name: str) -> None:
        """What a gang has on loan is its own from now on: who lent it is gone, and calls nothing back."""
        self.runs.all[name].on_loan = False
        self.ledger.own(name)
        self.changes += 1

    def serving_uses(self, queue: str, gpus: float, now_s: float) -> None:
        """A tenant's serving uses more (or less) reference GPUs: it counts in what breaks ties, not in quota."""
        for at, used_gpu_s in self.runs.use(self.tree.paths[self.tree.index[queue]], gpus, now_s):
            self.backlog.used(at, used_gpu_s, now_s)

    def remember(self, queue: str, past: Past, at_s: float, now_s: float) -> None:
        """What was remembered of a queue before a restart."""
        at = self.tree.index[queue]
        self.runs.remember(at, past, at_s, now_s)
        self.backlog.used(at, self.runs.past(at, now_s).used_gpu_s, now_s)

    def tidy(self) -> None:
        """Forget the evictions of gangs that were not seen again after a restart, and brands that nobody has."""
        brands = [*(each.brand for each in self.kept_for.values()), *(run.brand for run in self.runs.all.values())]
        if self.backlog.forget_brands(brands):
            self._asks = {}
        known = (self.backlog.waiting, self.kept_for, self.runs.all)
        self.evictions = {name: n for name, n in self.evictions.items() if any(name in each for each in known)}

    def ask(self, brand: int) -> Ask:
        """What a brand asks of the estate."""
        known = self._asks.get(brand)
        if known is None:
            known = self._asks[brand] = self.placer.ask(self.backlog.brands[brand].form)
        return known

    def ask_in_whole_units(self, brand: int) -> Ask:
        """The same with a whole device for each share: what can be kept for a gang, and what others leave for it."""
        wanted = self.ask(brand)
        return self.placer.ask(wanted.form.in_whole_units()) if wanted.scored else wanted

    def unused(self, shape: int) -> int:
        """What is left of a shape, as quotas count it: free units, and the rests of devices that carry shares."""
        return self.tree.grains[shape] * self.ledger.estate.free_units(shape) + self.ledger.estate.rests_of(shape)

    def expect(self) -> None:
        """Score placements from now on by what was asked for so far."""
        self.placer.expect(self._mix, self._kinds)

    def count(self, queue: int, load: Load, sign: int, now_s: float) -> None:
        """A load begins or ends to count, for quota, shares and what was used."""
        if sign > 0:
            self.tree.add(queue, load)
        else:
            self.tree.remove(queue, load)
        gpus = sign * load.amounts[0] / MILLIONTHS
        for at, used_gpu_s in self.runs.use(self.tree.paths[queue], gpus, now_s):
            self.backlog.used(at, used_gpu_s, now_s)
        self.changes += 1

    def started(self, waiting: Waiting, started_s: float, now_s: float, *, on_loan: bool, counts: bool = True) -> None:
        """A gang holds GPUs from now on; `counts` says whether it is to be counted still."""
        if counts:
            self.count(waiting.queue, self.backlog.loads[waiting.brand], 1, now_s)
        if self.backlog.drop(waiting.gang.name) is None:
            self.backlog.touch(waiting.queue)
        self.runs.start(self._run(waiting, started_s, on_loan=on_loan))

    def unstart(self, waiting: Waiting, now_s: float) -> None:
        """A gang that started at this very instant, of which nobody was told, waits again as it did."""
        self._ended(waiting.gang.name, now_s)
        self.backlog.put(waiting)

    def keep_for(self, waiting: Waiting, now_s: float) -> None:
        """Others leave for a gang: it counts from now on."""
        self.kept_for[waiting.gang.name] = waiting
        self.count(waiting.queue, self.backlog.loads[waiting.brand], 1, now_s)
        self.backlog.drop(waiting.gang.name)
        self.backlog.touch(waiting.queue)

    def ask_for_nodes(self, waiting: Waiting, now_s: float, due_s: float) -> None:
        """Nodes are asked for a gang, expected at `due_s`: it counts from now on, and so does what is to come."""
        name = waiting.gang.name
        self.keep_for(waiting, now_s)
        self.ledger.reserve(Reservation(name, Kind.NODES, {}, now_s, due_s))
        self._capacity()

    def hold_nodes(self, name: str, plan: Mapping[int, int]) -> None:
        """What is held by now for a gang that nodes were asked for: units by node."""
        kept = self.ledger.reservations[name]
        if dict(plan) != kept.plan:
            self.ledger.reserve(Reservation(name, Kind.NODES, dict(plan), kept.made_s, kept.start_s))
            self._capacity()
            self.changes += 1
            self.news += 1

    def waits_for_nodes(self) -> tuple[str, ...]:
        """Gangs that nodes were asked for and that have not started."""
        kept = self.ledger.reservations
        return tuple(name for name in self.kept_for if kept[name].kind is Kind.NODES)

    def unreserve(self, name: str) -> None:
        """What is kept for a gang that is not kept for any more, or has started, passes on; nodes that were to come for
        it are nobody's quota."""
        kept = self.ledger.reservations.get(name)
        if kept is not None:
            self.ledger.unreserve(name)
            if kept.kind is Kind.NODES:
                self._capacity()

    def keep_no_more(self, name: str, now_s: float) -> None:
        """What was to be freed for a gang is not to be had: it waits again, at its old rank."""
        waiting = self.kept_for.pop(name)
        self.count(waiting.queue, self.backlog.loads[waiting.brand], -1, now_s)
        self.unreserve(name)
        self.backlog.put(waiting)

    def evict(self, run: Running, reason: BatchReason, beneficiary: str, now_s: float) -> Evicted:
        """Ask a gang to leave: it counts no more, and holds its GPUs until it has left."""
        lost_gpu_s = run.lost_gpu_s(now_s)
        self.runs.leave(run, now_s)
        self.count(run.queue, run.load, -1, now_s)
        self.backlog.touch(run.queue)
        self.evictions[run.name] = run.evictions + 1
        if beneficiary:
            run.leaves_for = beneficiary
            run.exchanges = self.exchanges.note(run.name, beneficiary)
        return Evicted(run.name, run.gang.queue, reason, beneficiary, lost_gpu_s)

    def is_overdue(self, run: Running, now_s: float) -> bool:
        """Whether a gang was told to leave, and nobody counts on its going any more."""
        return run.is_overdue(self.params.stuck_s, now_s)

    def contradictions(self) -> list[str]:
        """Faults of the books; empty unless there is a fault in this room."""
        counted = {name: (run.queue, run.load) for name, run in self.runs.all.items() if run.leaving_s is None}
        for name, waiting in self.kept_for.items():
            counted[f"kept for {name}"] = (waiting.queue, self.backlog.loads[waiting.brand])
        out = [*self.ledger.contradictions(), *self.tree.contradictions(counted)]
        for name, run in self.runs.all.items():
            holding = self.ledger.holdings.get(name)
            held = 0 if holding is None else sum(self._counted(spot) for spot in holding.spots)
            if run.leaving_s is None and held != sum(counted for _, counted in run.load.counted):
                out.append(f"{name} holds {held}")
        both = set(self.runs.all) & (set(self.backlog.waiting) | set(self.kept_for))
        return [*out, *(f"{name} waits and runs" for name in sorted(both))]

    def _counted(self, spot: Spot) -> int:
        """What a spot counts in quotas."""
        return spot.units * self.tree.grains[int(self.ledger.estate.shape[spot.node])] + spot.share

    def _ended(self, name: str, now_s: float) -> Running | None:
        run = self.runs.end(name)
        if run is not None:
            if run.leaving_s is None:
                self.count(run.queue, run.load, -1, now_s)
                self.backlog.touch(run.queue)
            self.ledger.release(name)
            self.changes += 1
        return run

    def _run(self, waiting: Waiting, started_s: float, *, on_loan: bool) -> Running:
        gang = waiting.gang
        lease_s = max(gang.min_runtime_s, self._min_runtime_s[waiting.queue])
        return Running(
            gang, waiting.queue, waiting.brand, self.backlog.loads[waiting.brand], started_s, waiting.rank,
            self.backlog.brands[waiting.brand].expected_s, started_s + lease_s,
            started_s if gang.checkpoint_s is None else max(started_s, gang.checkpoint_s),
            self.params.restart_s if gang.restart_s is None else gang.restart_s, on_loan,
            evictions=self.evictions.get(gang.name, 0),
        )  # fmt: skip

    def _remains(self, waiting: Waiting, now_s: float) -> None:
        """Pods of a gang that waits are there still, from before a restart or from an object of its name."""
        self.backlog.drop(waiting.gang.name)
        on_loan = bool(self.ledger.holdings[waiting.gang.name].lent)
        since_s = min(now_s, self.leaving_since.get(waiting.gang.name, now_s))
        self.runs.remain(self._run(waiting, now_s, on_loan=on_loan), since_s)

    def _lost(self, name: str, now_s: float) -> Evicted | None:
        """A gang lost units; what pods of it hold still it holds until it has left."""
        run = self.runs.all[name]
        told = None
        if run.leaving_s is None:
            told = self.evict(run, BatchReason.LOST, "", now_s)
            self.runs.lose(run)
        if name not in self.ledger.holdings:
            self._ended(name, now_s)
            self._wait_again(run)
        return told

    def waits_as(self, run: Running) -> int:
        """The brand of which a gang that runs, or leaves, will wait again."""
        gang = run.gang.narrowest()
        return run.brand if gang is run.gang else self.brand(gang)

    def _wait_again(self, run: Running) -> None:
        self.backlog.put(self.backlog.waiting_as(run.gang.narrowest(), run.queue, self.waits_as(run), run.rank))

    def _capacity(self) -> None:
        """What batch may use in all: what is there for it, what is to come for a gang, and what serving lends."""
        kept, loads = self.ledger.reservations, self.backlog.loads
        coming = [(kept[name].plan, loads[self.kept_for[name].brand].units) for name in self.waits_for_nodes()]
        bounds = {self.tree.shapes[name]: bound.units for name, bound in self.bounds.items()}
        if self.tree.capacity(capacity.units(self.ledger, coming, bounds), *capacity.spare(self.ledger)):
            self.backlog.touch_all()
