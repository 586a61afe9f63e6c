"""Where warm pools and batch admission meet: what pools offer, what gangs hold of it, what is called back or asked for.

Enters: the outcome of every look at a pool; what batch admission has lent. Leaves: both, to the other side, and a call
where something changed. It decides nothing. A node belongs to one lender, the first of those whose NodePools it is of,
by name. Before all pools were looked at, and where batch admission is not carried out, nothing is lent.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from autoscaler.core.batch.ebb import Fall
from autoscaler.core.pool.gang_standings import Standing
from autoscaler.core.pool.loans import Lending
from autoscaler.core.pool.world import GangAsk, LentSeen
from autoscaler.record.loans import LoanTold

UNKNOWN_S: Final = 60.0
"""Pools wait for so long for what is lent: a slot too many costs little, and serving does not hang on batch work."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a pool's slots are, and what a loan of them is bound to."""

    resource: str
    count: int
    """Units of one slot."""
    reclaim_s: float = 60.0
    engine_start_s: float = 0.0
    """How long the next replica of the pool's models takes to serve, as far as it is known."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What one pool said at its last look."""

    terms: Terms
    nodes: frozenset[str]
    """All nodes of its NodePools."""
    lending: Lending
    knew: int
    """Which version of what is lent the look went by."""
    makes: tuple[str, ...] = ()
    """Shapes of which nodes are made for gangs."""
    takes_s: float = 0.0
    """How long such nodes take to come, at most: as long as it takes until a slot on a new one is warm."""
    standings: tuple[Standing, ...] = ()
    """How the requests of gangs stand."""
    holds: frozenset[str] = frozenset()
    """The gangs that it holds places for, by the uids of their objects."""
    gives_back: bool = True
    """Whether it deletes what holds places for gangs that ask it no more; one that only observes writes nothing."""
    falls: tuple[Fall, ...] = ()
    """Units that its replicas are expected to leave."""
    names_nodes: bool = True
    """Whether it has said since the start which nodes are its own."""


class LoanDesk:
    """One for a process; `is_open` says whether anything may be lent at all."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.offers: Mapping[str, Offer] = {}
        self.version = 0
        """Grows with every change of what is offered or called back."""
        self.all_looked = False
        """Whether every pool was looked at, as far as it can be read."""
        self._unread = frozenset[str]()
        """Pools of which it has not been known since the start which nodes are theirs."""
        self.lent_version = 0
        self._lent: Mapping[str, tuple[LentSeen, ...]] | None = None
        self._loans: Mapping[str, tuple[LoanTold, ...]] | None = None
        self._asked_s: float | None = None
        self._asks: Mapping[str, tuple[GangAsk, ...]] | None = None
        """Gangs that nodes are asked for, of every pool that had spoken then; None before anybody who knows did."""
        self._asks_s = -math.inf
        """When that was last said."""
        self.ring_batch: Callable[[], None] = lambda: None
        self.ring_pools: Callable[[], None] = lambda: None

    @property
    def all_known(self) -> bool:
        """Whether a node that no pool speaks of is nobody's: every pool has said which are its own."""
        return self.all_looked and self._unread <= self._naming()

    def lent_of(self, pool: str, now_s: float) -> tuple[LentSeen, ...] | None:
        """What gangs have on loan of a pool; None while nobody knows, for no longer than a start takes to read all."""
        if not self.is_open:
            return ()
        if self._lent is not None:
            return self._lent.get(pool, ())
        self._asked_s = now_s if self._asked_s is None else self._asked_s
        return None if now_s < self._asked_s + UNKNOWN_S else ()

    def asks_of(self, pool: str) -> tuple[GangAsk, ...] | None:
        """The gangs that a pool is asked for nodes for; None while nobody knows, as before it was heard of."""
        if not self.is_open:
            return ()
        return None if self._asks is None else self._asks.get(pool)

    def asks_age_s(self, now_s: float) -> float:
        """How long ago it was last said what pools are asked for; it may be as it was then."""
        return now_s - self._asks_s if self.is_open and self._asks is not None else 0.0

    def asks(self, asks: Mapping[str, tuple[GangAsk, ...]], now_s: float) -> None:
        """What gangs want of pools now; before all pools were looked at nobody can say of which."""
        told = {pool: asks.get(pool, ()) for pool in self.offers}
        self._asks_s = now_s
        if self.all_looked and told != self._asks:
            self._asks = told
            self.ring_pools()

    def makers(self, shape: str) -> tuple[str, ...]:
        """The pools that make nodes of a shape for gangs, in the order in which they are asked; none of no shape."""
        return tuple(name for name, offer in sorted(self.offers.items()) if shape and shape in offer.makes)

    def holder(self, uid: str) -> str | None:
        """The pool that holds places for a gang."""
        return next((name for name, offer in sorted(self.offers.items()) if uid in offer.holds), None)

    def lender(self, node: str, resource: str) -> str | None:
        """The pool whose slots of a resource may stand on a node."""
        named = (name for name, o in sorted(self.offers.items()) if o.terms.resource == resource and node in o.nodes)
        return next(named, None)

    def looked(self, pool: str, offer: Offer | None) -> None:
        """A pool was looked at, or is gone."""
        before = self.offers.get(pool)
        self.offers = {name: each for name, each in self.offers.items() if name != pool}
        if offer is not None:
            self.offers = {**self.offers, pool: offer}
        if _gist(before) != _gist(offer):
            self._changed()

    def looked_in_vain(self, pool: str, holds: frozenset[str] | None) -> None:
        """What a pool wants cannot be read: it lends nothing and makes no nodes for gangs, and what it has lent stays.
        `holds` are the gangs that it holds places for still; None where its pods were not read: those of before. One
        that could not be read since the start says whom it holds places for and no more, to be told who asks."""
        before = self.offers.get(pool)
        if before is None and holds is not None:
            before = Offer(Terms("", 0), frozenset(), Lending(), self.lent_version, names_nodes=False)
        if before is not None:
            kept = before.holds if holds is None else holds
            self.looked(
                pool, replace(before, lending=Lending(), makes=(), standings=(), holds=kept, gives_back=True, falls=())
            )

    def looked_at_all(self, pools: Iterable[str] = ()) -> None:
        """All pools there are were looked at; those that name no nodes since the start could not be read. Who could not
        read which pools there are has not looked at all of them."""
        before, self._unread = (self.all_looked, self.all_known), frozenset(pools) - self._naming()
        self.all_looked = True
        if before != (self.all_looked, self.all_known):
            self._changed()

    def holds(
        self, lent: Mapping[str, tuple[LentSeen, ...]], loans: Mapping[str, tuple[LoanTold, ...]] | None = None
    ) -> None:
        """What gangs have on loan now, by pool; before all pools were looked at nobody can say of which.

        `loans` tells of the same by gang; None where nobody can.
        """
        if not self.all_looked or (lent, loans) == (self._lent, self._loans):
            return
        self.lent_version += lent != self._lent
        self._lent, self._loans = lent, loans
        self.ring_pools()

    def loans_of(self, pool: str) -> tuple[LoanTold, ...] | None:
        """What is told of a pool's loans, gang by gang; None while nobody knows."""
        if not self.is_open:
            return ()
        return None if self._loans is None else self._loans.get(pool, ())

    def _naming(self) -> frozenset[str]:
        """Pools whose nodes are known."""
        return frozenset(name for name, offer in self.offers.items() if offer.names_nodes)

    def _changed(self) -> None:
        self.version += 1
        self.ring_batch()


def _gist(offer: Offer | None) -> object:
    """What batch admission goes by; the steps and how long a loan is expected to last move by themselves."""
    if offer is None:
        return None
    lending = offer.lending
    lent = (lending.offer, lending.recall, lending.leaving, lending.missing)
    return offer.terms, offer.nodes, offer.knew, lent, offer.makes, offer.standings
