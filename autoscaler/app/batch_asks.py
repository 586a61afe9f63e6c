"""Nodes for gangs, in the books of batch admission: who asks a warm pool for them, what is held for whom, what is told.

Enters: cycles over a room, the desk where warm pools say of which shapes they make nodes and how each request stands.
Leaves: requests to the desk; places that pods of ours hold, in the ledger as the gang's own; a sentence about each. One
pool is asked at a time, the first that makes nodes of the shape; where it refuses, the next. That a request was made is
read off those pods, so that a restart goes on with it. It writes nothing and makes no pod.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_scope import Seen
from autoscaler.app.batch_gangs import node_terms
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.core.batch.cycle import Cycles
from autoscaler.core.batch.nodes import wanting
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.core.batch.waiting import Waiting
from autoscaler.core.pool.gang_standings import Standing
from autoscaler.core.pool.gangs import FORGET_S, pause_s
from autoscaler.core.pool.world import GangAsk, PodsAsked
from autoscaler.record.batch_words import asks_for_nodes, asks_later, keeps_places, refused_nodes

Place = tuple[str, str]
"""A node and a shape of it."""

ANSWER_S: Final = 30.0
"""A pool that says nothing of a request for so long does not follow it; it looks every five seconds."""

NO_ANSWER: Final = ("NO_ANSWER", "it says nothing of the request")
"""The code and the words of a refusal where no pool spoke."""

STOPPED: Final = ("POOL_STOPPED", "it makes none as it stands, see its conditions Accepted and Acting")
"""The same where the pool that was asked makes no such nodes any more."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a pool has no nodes made for a gang: a code, words, and until when it is not asked again."""

    code: str
    words: str
    until_s: float


class Asks:
    """The requests for nodes of one room; `waits` gives units by place that a gang was given and is not bound to."""

    def __init__(
        self, cluster: BatchCluster, cycles: Cycles, desk: LoanDesk, waits: Callable[[str], dict[Place, int]]
    ) -> None:
        self._cluster, self._cycles, self._room, self._desk = cluster, cycles, cycles.room, desk
        self._waits = waits
        self._held: dict[str, dict[Place, int]] = {}
        """By gang, what pods of ours hold for it."""
        self._theirs = frozenset[str]()
        """Gangs whose own that was at the last look."""
        self._asked: dict[str, tuple[str, str]] = {}
        """Gangs that nodes are asked for, each with the uid of its object and the pool that is asked."""
        self._silent_s: dict[str, float] = {}
        """Of these, since when no pool was seen to say anything of the request."""
        self._ended: dict[str, tuple[int, float]] = {}
        """By uid, how many requests of a gang ended unrefused, and before when no other one is made."""
        self._refused: dict[str, dict[str, Refused]] = {}
        """Gangs that were refused nodes, by which pools: each is asked again when its refusal is over."""

    def inherit(self, old: Self) -> None:
        """Go on from those of other books: no pool is asked again any sooner."""
        self._ended = dict(old._ended)
        self._refused = {name: dict(mine) for name, mine in old._refused.items() if name in self._cluster.works}

    def see(self, seen: Seen) -> Seen:
        """What is held for a gang that waits for it, or takes it, is no stranger's; for any other it stands by."""
        if not any(pod.owner is Owner.RESERVED for pod in seen.others):
            self._held, self._theirs = {}, frozenset()
            return seen
        held: dict[str, dict[Place, int]] = defaultdict(dict)
        others = list[PodSeen]()
        mine = set(self._room.waits_for_nodes())
        left = {name: self._waits(name) for name in self._room.runs.all}
        for pod in seen.others:
            if pod.owner is not Owner.RESERVED or pod.gang is None:
                others.append(pod)
                continue
            at = pod.node, pod.shape
            held[pod.gang][at] = held[pod.gang].get(at, 0) + pod.units
            makes_way = min(pod.units, left.get(pod.gang, {}).get(at, 0))
            if makes_way:
                left[pod.gang][at] -= makes_way
            rest = 0 if pod.gang in mine else pod.units - makes_way
            if rest:
                others.append(replace(pod, units=rest, owner=Owner.STANDBY, gang=None))
        self._held = dict(held)
        self._theirs = self._owners()
        return replace(seen, others=tuple(others))

    @property
    def is_stale(self) -> bool:
        """Whether somebody has begun, or ceased, to own what is held for it, so that pods have to be seen anew."""
        return self._theirs != self._owners()

    def settle(self) -> None:
        """After a look: what is held for gangs that wait for nodes is theirs."""
        index = self._room.ledger.estate.index
        for name in self._room.waits_for_nodes():
            held = self._held.get(name, {})
            self._room.hold_nodes(name, {index[at]: units for at, units in held.items() if at in index})

    def decide(self, now_s: float) -> None:
        """After cycles: take note of answers, ask for whoever lacks nodes alone, tell the desk."""
        if not self._desk.is_open:
            return
        for name, mine in list(self._refused.items()):
            self._refused[name] = {pool: each for pool, each in mine.items() if now_s < each.until_s}
        self._refused = {name: mine for name, mine in self._refused.items() if mine}
        waits = self._room.waits_for_nodes()
        self._note_ends(waits, now_s)
        self._silent_s = {name: self._silent_s.get(name, now_s) for name in waits if self._standing(name) is None}
        for name in waits:
            refused = self._refusal(name, now_s)
            if refused is not None:
                self._refused.setdefault(name, {})[self._pool(name) or ""] = refused
                self._asked.pop(name, None)
                self._room.keep_no_more(name, now_s)
        if self._desk.all_looked:
            self._go_on(now_s)
            makes = {shape: offer.takes_s for offer in self._desk.offers.values() for shape in offer.makes}
            may = partial(self._may_ask, now_s=now_s)
            for waiting in wanting(self._cycles, makes, may, now_s) if makes else ():
                self._ask(waiting, now_s)
            self._desk.asks(self._by_pool(), now_s)

    def words(self, name: str, now_s: float) -> str | None:
        """How the request of a gang stands, in a sentence; None for one without."""
        refusal = self.refusal(name, now_s)
        if refusal is not None:
            return refusal[1]
        if name not in self._asked:
            until_s = self._not_before_s(name)
            return asks_later(until_s, now_s) if now_s < until_s else None
        standing, offer = self._standing(name), self._desk.offers.get(self._pool(name) or "")
        placed = name in self._held if standing is None else standing.placed > 0
        if offer is not None and not offer.gives_back and (standing is not None or placed):
            return keeps_places(self._pool(name) or "", on_nodes=placed)
        if standing is None:
            return None
        return asks_for_nodes(self._pool(name) or "", standing.placed, standing.pods, standing.since_s, now_s)

    def refusal(self, name: str, now_s: float) -> tuple[str, str] | None:
        """Why no nodes are made for a gang that lacks nothing else: a code and a sentence; None where it is not so, or
        another pool is asked now."""
        if name not in self._refused or name in self._asked:
            return None
        told = []
        for pool, refused in sorted(self._refused[name].items()):
            who = pool if pool in self._desk.offers else ""
            told.append((refused.code, refused_nodes(who, refused.words, refused.until_s, now_s)))
        return told[0][0], "; ".join(words for _, words in told)

    def is_open(self, name: str) -> bool:
        """Whether nodes were asked for a gang and nobody has answered yet."""
        return name in self._asked and self._standing(name) is None

    def _note_ends(self, waits: Collection[str], now_s: float) -> None:
        """A request that ended otherwise than by a pool's refusal may have had nodes made for nothing: the gang's start
        was refused, it was edited, the new nodes are none that it may go to. The next one waits, ever longer."""
        for name in [name for name in self._asked if name not in waits]:
            uid, _ = self._asked.pop(name)
            times = self._ended.get(uid, (0, 0.0))[0] + 1
            self._ended[uid] = times, now_s + pause_s(times)
        self._ended = {uid: each for uid, each in self._ended.items() if now_s < each[1] + FORGET_S}

    def _not_before_s(self, name: str) -> float:
        """Before when no other request is made for a gang."""
        work = self._cluster.works.get(name)
        return 0.0 if work is None else self._ended.get(work.ref.uid, (0, 0.0))[1]

    def _owners(self) -> frozenset[str]:
        return frozenset(self._held) & {*self._room.waits_for_nodes(), *self._room.runs.all}

    def _go_on(self, now_s: float) -> None:
        """Gangs that wait and for which something is held were asked for before a restart."""
        for name in self._held:
            waiting = self._room.backlog.waiting.get(name)
            if waiting is None or name in self._refused or not self._may_ask(waiting, now_s):
                continue
            load = self._room.backlog.loads[waiting.brand]
            if self._room.tree.promised(waiting.queue, load):
                self._ask(waiting, now_s)

    def _ask(self, waiting: Waiting, now_s: float) -> None:
        name, pool = waiting.gang.name, self._pool(waiting.gang.name)
        if pool is None:
            return
        self._asked[name], self._silent_s[name] = (self._cluster.works[name].ref.uid, pool), now_s
        self._room.ask_for_nodes(waiting, now_s, now_s + self._desk.offers[pool].takes_s)
        self.settle()

    def _may_ask(self, waiting: Waiting, now_s: float) -> bool:
        """Whether a gang's pods take the places that are held for them, and may be held to nodes at all.

        What holds a place has their selector, and no affinity of theirs: nodes are made that such pods may not go to.
        """
        work = self._cluster.works.get(waiting.gang.name)
        if work is None or work.members or not work.ref.uid or self._pool(work.name) is None:
            return False
        if now_s < self._not_before_s(work.name) or any(map(node_terms, work.affinities)):
            return False
        if work.name in self._held and not self._desk.all_known and self._desk.holder(work.ref.uid) is None:
            return False  # a pool that could not be read since the start may hold it: no second one makes nodes as well
        return self._cluster.displaces_slots(work.priority_class)

    def _refusal(self, name: str, now_s: float) -> Refused | None:
        """Why the request of a gang has come to nothing; None while it stands."""
        standing, pool = self._standing(name), self._pool(name)
        if standing is not None:
            why, until_s = standing.refused, standing.until_s or 0.0
            return None if why is None else Refused(why.name, why.value, until_s)
        if self._is_left(name):
            return None
        if pool in self._desk.offers and pool not in self._desk.makers(self._shape(name)):
            return Refused(*STOPPED, now_s + ANSWER_S)
        if pool not in self._desk.offers or now_s >= self._silent_s[name] + ANSWER_S:
            return Refused(*NO_ANSWER, now_s + ANSWER_S)
        return None

    def _is_left(self, name: str) -> bool:
        """Whether a gang has places on nodes that are paid, of a pool that gives none back as it stands and says no
        more of them: no other one makes nodes as well before they have ended by themselves."""
        offer = self._desk.offers.get(self._pool(name) or "")
        return offer is not None and not offer.gives_back and name in self._held

    def _by_pool(self) -> dict[str, tuple[GangAsk, ...]]:
        """What each pool is asked for: gangs that wait for nodes, and those that take what is held for them."""
        out: dict[str, list[GangAsk]] = defaultdict(list)
        reservations = self._room.ledger.reservations
        waits = sorted(self._room.waits_for_nodes(), key=lambda name: (reservations[name].made_s, name))
        runs = self._room.runs.all
        starting = [
            name
            for name in self._held
            if name in runs and runs[name].leaving_s is None and any(self._waits(name).values())
        ]
        for name in (*waits, *starting):
            pool, work = self._pool(name), self._cluster.works.get(name)
            if pool is not None and work is not None:
                out[pool].append(self._request(name, work.ref.uid))
        return {pool: tuple(asks) for pool, asks in out.items()}

    def _request(self, name: str, uid: str) -> GangAsk:
        waiting, run = self._room.kept_for.get(name), self._room.runs.all.get(name)
        gang = waiting.gang if waiting is not None else self._room.runs.all[name].gang
        pods, work = Counter[PodsAsked](), self._cluster.works[name]
        for at, each in zip(work.placed, gang.form.pod_sets, strict=False):  # it may have been edited since it began
            selector = tuple(sorted(work.sets[at].template.node_selector.items()))
            pods[PodsAsked(1, each.units, each.cpu, each.memory_gib, selector)] += each.pods
        alike = tuple(replace(one, pods=number) for one, number in pods.items())
        return GangAsk(name, uid, gang.form.pod_sets[0].shape, alike, starts=run is not None)

    def _standing(self, name: str) -> Standing | None:
        """What the pool that is asked says of a gang's request."""
        work, offer = self._cluster.works.get(name), self._desk.offers.get(self._pool(name) or "")
        if work is None or offer is None:
            return None
        return next((each for each in offer.standings if each.uid == work.ref.uid), None)

    def _pool(self, name: str) -> str | None:
        """The pool that is asked for a gang's nodes, holds some for it, or would be asked next; None where none is."""
        if name in self._asked:
            return self._asked[name][1]
        refused, work = self._refused.get(name, {}), self._cluster.works.get(name)
        holder = None if work is None else self._desk.holder(work.ref.uid)
        makers = self._desk.makers(self._shape(name))
        if holder is not None and holder not in refused:
            gives_back = self._desk.offers[holder].gives_back
            if holder in makers or name in self._held or not gives_back:
                return holder
        return next((pool for pool in makers if pool not in refused), None)

    def _shape(self, name: str) -> str:
        """The shape of the nodes that a gang lacks; empty for one that waits for none."""
        waiting = self._room.kept_for.get(name) or self._room.backlog.waiting.get(name)
        run = self._room.runs.all.get(name)
        gang = waiting.gang if waiting is not None else None if run is None else run.gang
        return "" if gang is None else gang.form.pod_sets[0].shape
