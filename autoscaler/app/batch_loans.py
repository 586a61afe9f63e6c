"""Loans of idle slots in the books of batch admission: who owns what is idle, who may borrow, who has to go.

Enters: a room, the desk where warm pools say what they offer and call back. Leaves: nodes and pods for the ledger with
what serving keeps idle there, bounds, recalls, and word to the desk of what is lent. What a gang leaves on a node of a
pool is the pool's until that has looked again, and then as far as it lacks slots: nobody else is let in between.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_scope import Seen
from autoscaler.adapters.kube.batch_work import Put
from autoscaler.app.batch_bound import BoundPods
from autoscaler.app.batch_loan_telling import LoanTelling, Place
from autoscaler.app.batch_recalls import Recalls
from autoscaler.app.loan_desk import LoanDesk, Offer
from autoscaler.core.batch.ebb import Ebbing
from autoscaler.core.batch.loans import LoanBound
from autoscaler.core.batch.outcome import Admitted, Evicted
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.core.batch.recalls import call_back
from autoscaler.core.batch.room import Room
from autoscaler.core.pool.world import LentSeen
from autoscaler.record.pools import step_sentence


class Loans:
    """The loans of one room."""

    def __init__(self, cluster: BatchCluster, room: Room, desk: LoanDesk) -> None:
        self._cluster, self._room, self._desk = cluster, room, desk
        self._bound = BoundPods(cluster)
        self._idle: dict[Place, int] = {}
        """Units on offer."""
        self._before: dict[str, dict[Place, int]] = {}
        """What gangs had on loan at the last look."""
        self._back: dict[Place, tuple[int, int]] = {}
        """Units that gangs have left, with the version of what is lent in which they were gone."""
        self.recalls = Recalls()
        self._telling = LoanTelling(cluster, room, desk, self.recalls)

    @property
    def version(self) -> int:
        """Another one where nodes have to be seen anew."""
        return self._desk.version

    def puts(self, admitted: Admitted, sets: Sequence[int]) -> Iterator[Put]:
        """Where a gang was put, `sets` the numbers of its pod sets; what is lent of a node stands at its first set."""
        lent = self.lent_to(admitted.gang)
        for spot in admitted.spots:
            yield Put(spot.node, spot.shape, sets[spot.pod_set], spot.pods, lent.pop((spot.node, spot.shape), 0))

    def lent_to(self, name: str) -> dict[Place, int]:
        """What a gang has on loan: by the books, and before it is in them by what its object says, which pods have to
        bear out."""
        holding, nodes = self._room.ledger.holdings.get(name), self._room.ledger.estate.nodes
        if holding is not None:
            return {(nodes[at].name, nodes[at].shape): units for at, units in holding.lent.items()}
        work = self._cluster.works.get(name)
        if work is None or not self._desk.is_open:
            return {}
        marked = Counter[Place]()
        for put in work.put:
            if put.lent > 0 and not (self._desk.all_known and self._lender((put.node, put.shape)) is None):
                marked[put.node, put.shape] += put.lent
        return dict(marked)

    def see(self, seen: Seen, is_gang: Callable[[str], bool], now_s: float) -> Seen:
        """Nodes and pods with what serving keeps idle; slots that may be lent are nobody's who stands by. `is_gang`
        says of which gangs pods count as theirs."""
        if not self._desk.is_open:
            return seen
        self.tell(now_s)
        lent, coming, booked = Counter[Place](), Counter[Place](), Counter(self._room.ledger.booked())
        for name in self._room.ledger.holdings:
            mine = self.lent_to(name)
            lent.update(mine)
            waits = self.waits(name) if mine else {}
            coming.update({at: min(units, waits.get(at, 0)) for at, units in mine.items()})
        for name in set(filter(is_gang, self._cluster.pods.gangs())) - self._room.ledger.holdings.keys():
            booked.update({at: held.units for at, held in self._bound.of(name).items()})
            lent.update(_borne_out(self.lent_to(name), self._bound, name))
        slots, others = Counter[Place](), Counter[Place]()
        for pod in seen.others:
            (slots if pod.owner is Owner.STANDBY else others)[pod.node, pod.shape] += pod.units
        offered, lacking = self._offered(), self._lacking()
        for at in [(node.name, node.shape) for node in seen.nodes if node.due_s is not None]:
            pool = self._lender(at)
            if pool is not None:  # its slots that wait for such a node lack no place elsewhere
                lacking[pool] = max(0, lacking[pool] - slots[at])
        nodes, kept, self._idle = [], dict[Place, int](), {}
        for node in seen.nodes:
            at = node.name, node.shape
            stand = slots[at] - min(slots[at], coming[at])  # a slot gives way to who was let in on its GPU
            idle = min(offered.get(at, 0), stand)
            kept[at] = stand - idle
            rest = node.units - others[at] - stand - booked.get(at, 0)
            back = self._returned(at, max(0, rest), lacking, lent)
            self._idle[at] = idle
            nodes.append(replace(node, warm_units=idle + back + lent[at]))
        pods = [pod for pod in seen.others if pod.owner is not Owner.STANDBY]
        pods += [PodSeen(*at, units, Owner.STANDBY) for at, units in kept.items() if units]
        return replace(seen, nodes=tuple(nodes), others=tuple(pods))

    def mark(self, pods: tuple[PodSeen, ...]) -> tuple[PodSeen, ...]:
        """The pods, those of gangs split into what is on loan and what is not."""
        left: dict[str, dict[Place, int]] = {}
        out: list[PodSeen] = []
        for pod in pods:
            if pod.gang is None:
                out.append(pod)
            else:
                out += _split(pod, left.setdefault(pod.gang, self.lent_to(pod.gang)))
        return tuple(out)

    def settle(self, now_s: float) -> None:
        """After a look: loans that nobody made are the gangs' own, bounds are set, what is lent is told."""
        if not self._desk.is_open:
            return
        if self._desk.all_known:
            for name in [name for name, run in self._room.runs.all.items() if run.on_loan and not self.lenders(name)]:
                self._room.own(name)
        self.tell(now_s)
        self._bound_anew()

    def recall(self, now_s: float) -> tuple[Evicted, ...]:
        """Gangs that have to go because pools call back what they lent, whole and the cheapest first. What pools are
        expected to leave is taken in as well."""
        if not self._desk.is_open:
            return ()
        self.tell(now_s)
        self._room.ebbing = tuple(self._ebbing())
        self.recalls.follow(self._room.runs.all, now_s)
        evicted: list[Evicted] = []
        for offer in self._desk.offers.values():
            lending = offer.lending
            # What was leaving at that look leaves still, or has left since: of neither is more called back. What should
            # long be gone is neither: for the pool since it was decided, for the room since its stop was written.
            units = (lending.recall + lending.leaving) * offer.terms.count - self._came_back(offer)
            for shape in self._shapes(offer) if lending.recall else ():
                nodes = [node for node, of in self._room.ledger.estate.index if of == shape and node in offer.nodes]
                # What leaves of the other shapes is the pool's as well: each is asked for what these leave open.
                gone, bills = call_back(self._room, shape, units - self._leaving(offer, now_s, but=shape), now_s, nodes)
                pools = {bill.gang: self.lenders(bill.gang) for bill in bills}
                self.recalls.begin(bills, pools, now_s, "; ".join(map(step_sentence, lending.steps)))
                evicted += gone
        if evicted:
            self._idle = {}
            self._bound_anew()
        return tuple(evicted)

    def tell(self, now_s: float) -> None:
        """Tell the desk what is lent now; what is lent no more is its pool's until that has looked again."""
        if not self._desk.is_open:
            return
        held = self._held()
        gone = Counter[Place]()
        for name, mine in self._before.items():
            gone.update({at: max(0, units - held.get(name, {}).get(at, 0)) for at, units in mine.items()})
        self._before = held
        self._desk.holds(self._by_pool(held, now_s), self._telling.told(held, self._lender, now_s))
        for at, units in gone.items():
            if units:
                self._back[at] = (self._back.get(at, (0, 0))[0] + units, self._desk.lent_version)
        self._back = {at: back for at, back in self._back.items() if back[1] > self._knew(at)}

    def note(self, name: str, now_s: float) -> dict[str, Any] | None:
        """What the object of a gang says of its loan, for people; None for one without."""
        return self._telling.note(self.lent_to(name), self.lenders(name), now_s)

    def lenders(self, name: str) -> tuple[str, ...]:
        """The pools of which a gang has something on loan."""
        return tuple(dict.fromkeys(pool for at in self.lent_to(name) if (pool := self._lender(at)) is not None))

    def waits(self, name: str) -> dict[Place, int]:
        """Units by place that a gang was given and no pod of it is bound to yet."""
        bound = self._bound.of(name)
        return {at: units - (bound[at].units if at in bound else 0) for at, units in self._booked(name).items()}

    def _offered(self) -> dict[Place, int]:
        out: dict[Place, int] = {}
        for pool, offer in self._desk.offers.items():
            for node, slots in offer.lending.offer:
                for shape in self._cluster.shapes_of(node):
                    if self._lender((node, shape)) == pool:
                        out[node, shape] = slots * offer.terms.count
        return out

    def _lacking(self) -> dict[str, int]:
        return {pool: offer.lending.missing * offer.terms.count for pool, offer in self._desk.offers.items()}

    def _returned(self, at: Place, rest: int, lacking: dict[str, int], lent: Mapping[Place, int]) -> int:
        """Of the free units of a node those that wait for a slot of a pool; all beside a loan before it was looked at.

        `lacking` is what pools lack still, and less by what is kept here.
        """
        if not self._desk.all_looked:
            return rest if lent.get(at, 0) else 0
        pool = self._lender(at)
        if pool is None:
            return 0
        missing = lacking.get(pool, 0)
        back = min(rest, max(missing, self._back.get(at, (0, 0))[0]))
        lacking[pool] = max(0, missing - back)
        return back

    def _booked(self, name: str) -> dict[Place, int]:
        holding, nodes = self._room.ledger.holdings.get(name), self._room.ledger.estate.nodes
        out = Counter[Place]()
        for spot in holding.spots if holding is not None else ():
            out[nodes[spot.node].name, nodes[spot.node].shape] += spot.units
        return dict(out)

    def _by_pool(self, held: Mapping[str, Mapping[Place, int]], now_s: float) -> dict[str, tuple[LentSeen, ...]]:
        rows: dict[str, dict[str, LentSeen]] = defaultdict(dict)
        for name, mine in sorted(held.items()):
            waits, run, is_leaving = self.waits(name), self._room.runs.all.get(name), self._is_leaving(name)
            for at, units in sorted(mine.items()):
                pool = self._lender(at)
                if pool is None:
                    continue
                one = rows[pool].get(at[0], LentSeen(at[0], 0))
                coming = 0 if is_leaving else max(0, min(units, waits.get(at, 0)))
                overdue = units if run is not None and self._room.is_overdue(run, now_s) else 0
                leaving = units - overdue if is_leaving else 0
                rows[pool][at[0]] = LentSeen(
                    at[0], one.units + units, one.coming + coming, one.leaving + leaving, one.overdue + overdue
                )
        return {pool: tuple(mine.values()) for pool, mine in rows.items()}

    def _bounds(self) -> dict[str, LoanBound]:
        """By shape: what is lent and what may be lent besides, on the strictest terms of its pools."""
        units, offers = Counter[str](), defaultdict[str, dict[str, Offer]](dict)

        def count(at: Place, number: int) -> None:
            pool = self._lender(at)
            if pool is not None and number:
                units[at[1]] += number
                offers[at[1]][pool] = self._desk.offers[pool]

        for at, idle in self._idle.items():
            count(at, idle)
        for name, mine in self._held().items():
            if not self._is_leaving(name):  # what is left is no room for the next one
                for at, number in mine.items():
                    count(at, number)
        return {shape: _bound(number, list(offers[shape].values())) for shape, number in units.items()}

    def _ebbing(self) -> Iterator[Ebbing]:
        """What serving is expected to leave of the nodes of each pool."""
        for offer in self._desk.offers.values():
            if offer.falls:
                shapes = set(self._shapes(offer))
                where = self._room.ledger.estate.where
                places = frozenset(at for at in where if at[0] in offer.nodes and at[1] in shapes)
                yield Ebbing(places, offer.falls)

    def _shapes(self, offer: Offer) -> list[str]:
        shapes = {node.shape for node in self._room.ledger.estate.nodes if node.name in offer.nodes}
        return sorted(each for each in shapes if self._cluster.resource_of(each) == offer.terms.resource)

    def _came_back(self, offer: Offer) -> int:
        """Units that gangs have left since a pool was looked at."""
        return sum(units for (node, _), (units, _) in self._back.items() if node in offer.nodes)

    def _leaving(self, offer: Offer, now_s: float, *, but: str) -> int:
        """Units of a pool's nodes that gangs are leaving in time, of all shapes but one; of those that are not in the
        books, of that one as well."""
        runs, stuck_s, total = self._room.runs.all, self._room.params.stuck_s, 0
        for name, mine in self._held().items():
            run = runs.get(name)
            if self._is_leaving(name) if run is None else run.is_going(stuck_s, now_s):
                total += sum(n for (node, of), n in mine.items() if node in offer.nodes and (run is None or of != but))
        return total

    def _held(self) -> dict[str, dict[Place, int]]:
        """What gangs have on loan, those as well that hold GPUs and are not in the books, or not yet."""
        runs, holdings = self._room.runs.all, self._room.ledger.holdings
        names = [name for name, run in runs.items() if run.on_loan]
        names += [name for name, holding in holdings.items() if holding.lent and name not in runs]
        return {name: self.lent_to(name) for name in names}

    def _is_leaving(self, name: str) -> bool:
        """Whether a gang that holds GPUs is to give them back; one that is not in the books if its object says so."""
        run, work = self._room.runs.all.get(name), self._cluster.works.get(name)
        return work is None or work.suspended if run is None else run.leaving_s is not None

    def _bound_anew(self) -> None:
        bounds = self._bounds()
        if bounds != self._room.bounds:
            self._room.lend(bounds)

    def _lender(self, at: Place) -> str | None:
        return self._desk.lender(at[0], self._cluster.resource_of(at[1]))

    def _knew(self, at: Place) -> int:
        """The version of what is lent that the lender of a node went by when it was last looked at."""
        pool = self._lender(at)
        return self._desk.lent_version + 1 if pool is None else self._desk.offers[pool].knew


def marked(cluster: BatchCluster, desk: LoanDesk) -> dict[str, tuple[LentSeen, ...]]:
    """What gangs have on loan by pool, as their objects say and pods of theirs bear out, where there are no books."""
    rows: dict[str, dict[str, LentSeen]] = defaultdict(dict)
    bound = BoundPods(cluster)
    for name, work in cluster.works.items():
        says = Counter[Place]()
        for put in () if work.ended or work.manager else work.put:
            says[put.node, put.shape] += max(0, put.lent)
        for (node, shape), units in _borne_out(says, bound, name).items():
            pool = desk.lender(node, cluster.resource_of(shape))
            if pool is not None and units:
                one = rows[pool].get(node, LentSeen(node, 0))
                leaving = one.leaving + units * work.suspended
                rows[pool][node] = LentSeen(node, one.units + units, leaving=leaving)
    return {pool: tuple(mine.values()) for pool, mine in rows.items()}


def _borne_out(says: Mapping[Place, int], bound: BoundPods, name: str) -> dict[Place, int]:
    """What the object of a gang says to have on loan, as far as its pods are there: whoever may edit it wrote it."""
    held = bound.of(name)
    return {at: min(units, held[at].units) for at, units in says.items() if at in held}


def _bound(units: int, offers: Sequence[Offer]) -> LoanBound:
    return LoanBound(
        units,
        min(each.terms.reclaim_s for each in offers),
        max(each.terms.engine_start_s for each in offers),
        min((each.lending.expected_s for each in offers if each.lending.offer), default=0.0),
        math.lcm(*(each.terms.count for each in offers)),
    )


def _split(pod: PodSeen, left: dict[Place, int]) -> Iterator[PodSeen]:
    """A pod of a gang; `left` is what the gang has on loan that no pod of it stands for yet."""
    at = pod.node, pod.shape
    lent = min(pod.units, left.get(at, 0))
    if not lent:
        yield pod
        return
    left[at] -= lent
    share = lent / pod.units
    for units, part, owner in ((lent, share, Owner.LOAN), (pod.units - lent, 1.0 - share, pod.owner)):
        if units:
            yield replace(pod, units=units, owner=owner, cpu=part * pod.cpu, memory_gib=part * pod.memory_gib)
