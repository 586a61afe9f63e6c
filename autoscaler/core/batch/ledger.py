"""Who owns each GPU, and what is kept for whom.

Enters: nodes and pods as observed, bookings of gangs, reservations. Leaves: for every node and shape a partition of
its units among owners, whose free part the estate indexes. Every change ends in `_settle`, which gives each unit of a
node one owner: who occupies it, else nobody may (cordoned, failing), else for whom it is reserved, else it is free. So
units that someone leaves pass to a reservation without ever having been free. A unit that carries shares is none of
these: it is owned by thousandths (`devices`), and comes back when its last share has ended.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from autoscaler.core.batch.estate import Estate, NodeSeen
from autoscaler.core.batch.owners import OCCUPYING, Owner, PodSeen
from autoscaler.core.batch.placement import Spot, new
from autoscaler.core.columns import I64

OWNERS: Final = len(Owner)
BATCH: Final = int(Owner.BATCH)
RESERVED: Final = int(Owner.RESERVED)
UNAVAILABLE: Final = int(Owner.UNAVAILABLE)
"""Plain numbers: to read a member of an enumeration takes as long as what is done with it."""


class Kind(IntEnum):
    """What a reservation is for; who comes first here is served first on a node."""

    NODES = -1
    """Nodes were asked for it: what is held there until it starts is nobody else's."""
    PREEMPTION = 0
    """Others leave for it: nobody else may use what is kept, not even for a moment."""
    START = 1
    """The forecast start of the oldest gang that waits: who ends before may pass."""


@dataclass(slots=True)
class Reservation:
    """Units kept for one gang; what is planned and not held yet is taken as soon as somebody leaves it."""

    gang: str
    kind: Kind
    plan: dict[int, int]
    """Units by node."""
    made_s: float
    start_s: float
    """When it is expected to be whole."""
    held: dict[int, int] = field(default_factory=dict)
    spots: tuple[Spot, ...] = ()
    """The very placement that was found; empty after a restart, when it is found again."""

    @property
    def whole(self) -> bool:
        """Whether all that is planned is held."""
        return all(self.held.get(node, 0) >= units for node, units in self.plan.items())


class Holding(NamedTuple):
    """What one gang occupies. A tuple: made for each admission, at a third of the time."""

    spots: tuple[Spot, ...]
    lent: Mapping[int, int]
    """Units by node that are on loan."""


NO_LOAN: Final[Mapping[int, int]] = {}


class Ledger:
    """The ledger of one cluster."""

    def __init__(self, shapes: Sequence[str], levels: int, shared: Collection[str] = ()) -> None:
        self._shapes, self._levels, self._shared = tuple(shapes), levels, frozenset(shared)
        self.estate = Estate((), shapes, levels, shared)
        self._blank(0)
        self.warm: I64 = np.zeros(0, dtype=np.int64)
        """Units by node that serving keeps idle, lent or not."""
        self.holdings: dict[str, Holding] = {}
        self.reservations: dict[str, Reservation] = {}
        self.starts: dict[str, Reservation] = {}
        """Those of `reservations` that are for expected starts."""
        self.on_node: list[dict[str, int]] = []
        """Units by gang, for each node."""
        self._planned: dict[int, dict[str, Reservation]] = {}
        """Reservations by node of their plan."""

    def see(self, nodes: Sequence[NodeSeen], pods: Sequence[PodSeen]) -> tuple[str, ...]:
        """Take in what was observed. Returns the gangs that lost units they held: gangs are whole, so that each holds
        now what those of its pods hold that are there still.

        A pod of a gang counts on the gang's booking; one of a gang without booking makes it, so that a ledger is
        rebuilt from the cluster alone. A gang's pod where the gang has no booking is foreign.
        """
        lost = [] if self.estate.reread(nodes) else self._rebuilt(nodes)
        self.warm = np.array([node.warm_units for node in nodes], dtype=np.int64)
        self._reread_spare()
        seen, mine = self._pods(pods)
        for column in (Owner.SERVING, Owner.STANDBY, Owner.FOREIGN):
            self.owned[:, column] = seen[:, column]
        lent = np.zeros(len(self.warm), dtype=np.int64)
        for holding in self.holdings.values():
            for node, units in holding.lent.items():
                lent[node] += units
        self.owned[:, Owner.SERVING] += np.maximum(0, self.warm - lent)
        occupied = self.owned[:, OCCUPYING].sum(axis=1) + self.estate.all_opened()
        over = np.flatnonzero(occupied > self.estate.units).tolist()
        robbed = [gang for at in over for gang in self._robbed(at, mine)]
        for gang in robbed:
            self._book_pods(gang, mine.get(gang, ()), within=True)
        for at in over:
            self._trim(at)
        for at in range(len(self.estate.nodes)):
            self._settle(at)
        lost += robbed
        return tuple(dict.fromkeys(lost))

    def book(self, gang: str, spots: tuple[Spot, ...], lent: Mapping[int, int] = NO_LOAN) -> None:
        """Give a gang what was taken from the estate for it. Raises ValueError when it holds something already."""
        if gang in self.holdings:
            raise ValueError(f"ledger: {gang} holds GPUs already; release it first")
        self.holdings[gang] = new(Holding, (spots, lent))
        owned, on_node = self._owned, self.on_node
        for node, _, _, units, _, _, _, _ in spots:
            owned[node * OWNERS + BATCH] += units
            here = on_node[node]
            here[gang] = here.get(gang, 0) + units
        for node, units in lent.items():
            self.owned[node, Owner.BATCH] -= units
            self.owned[node, Owner.LOAN] += units
            self.owned[node, Owner.SERVING] -= units

    def release(self, gang: str) -> None:
        """Take from a gang all that it holds: to reservations first, a loan to serving. Nothing for one without."""
        if gang in self.holdings:
            for node in self._unbook(gang):
                self._settle(node)

    def own(self, gang: str) -> None:
        """Let a gang keep what it has on loan: nobody calls it back."""
        holding = self.holdings[gang]
        for node, units in holding.lent.items():
            self.owned[node, Owner.LOAN] -= units
            self.owned[node, Owner.BATCH] += units
        self.holdings[gang] = Holding(holding.spots, {})

    def reserve(self, reservation: Reservation) -> None:
        """Keep units for a gang; what is free is held at once. An older one of the gang ends."""
        self.unreserve(reservation.gang)
        self._keep(reservation)
        self.take_spare(reservation.spots)
        for node in reservation.plan:
            self._settle(node)

    def unreserve(self, gang: str) -> None:
        """End a gang's reservation; what it held passes on."""
        ended = self.reservations.pop(gang, None)
        if ended is not None:
            self.starts.pop(gang, None)
            self.take_spare(ended.spots, -1)
            for node in ended.plan:
                del self._planned[node][gang]
                self._settle(node)

    def promised(self, node: int, gang: str) -> int:
        """Units of a node that those who preempt lack still, down to this gang: they are served in this order."""
        missing = 0
        for kept in self._planned[node].values():
            if kept.kind is Kind.PREEMPTION:
                missing += kept.plan[node] - kept.held.get(node, 0)
            if kept.gang == gang:
                break
        return missing

    def is_lacking(self, node: int, but: Reservation | None = None) -> bool:
        """Whether a reservation, `but` aside, lacks units of a node still: what is released there is not free."""
        planned = self._planned.get(node, {}).values()
        return any(kept.plan[node] > kept.held.get(node, 0) for kept in planned if kept is not but)

    def spare_for(self, reservation: Reservation, node: int) -> float:
        """Cores or GiB, the scarcer, that are free on a node beyond what is kept for this one; below 0 they lack."""
        spare = self.estate.spare[node].copy()
        for kept in self._planned[node].values():
            for spot in kept.spots if kept is not reservation else ():
                if spot.node == node:
                    spare += (spot.cpu, spot.memory_gib)
        return float(spare.min())

    def use_held(self, reservation: Reservation, used: Mapping[int, int]) -> None:
        """Take held units out of a reservation; they were booked for somebody else, or for its own gang."""
        for node, units in used.items():
            reservation.held[node] -= units
            self.owned[node, Owner.RESERVED] -= units
            self.estate.bar_shares(node, barred=self.is_lacking(node))

    def owners(self, name: str, shape: str) -> dict[str, int]:
        """Who owns how many units of one node, the free ones as `free`, those that carry shares as `shared`."""
        at = self.estate.index[name, shape]
        opened = self.estate.opened(at)
        row = {owner.name.lower(): int(self.owned[at, owner]) for owner in Owner if self.owned[at, owner]}
        return {**row, **({"shared": opened} if opened else {}), "free": self.estate.free_on(at)}

    def booked(self) -> dict[tuple[str, str], int]:
        """Units that gangs hold, by node and shape, where they hold any."""
        held = self.owned[:, Owner.BATCH] + self.owned[:, Owner.LOAN]
        nodes = self.estate.nodes
        return {(nodes[at].name, nodes[at].shape): int(held[at]) for at in np.flatnonzero(held).tolist()}

    def lendable(self) -> dict[int, int]:
        """Idle units by node that serving would lend and that are not lent."""
        idle = np.minimum(self.warm - self.owned[:, Owner.LOAN], self.owned[:, Owner.SERVING])
        usable = np.array([node.usable for node in self.estate.nodes], dtype=np.bool_)
        return {int(at): int(idle[at]) for at in np.flatnonzero((idle > 0) & usable)}

    def contradictions(self) -> list[str]:
        """Faults of the books; empty unless there is a fault in this room."""
        out = self.estate.contradictions()
        total = self.owned.sum(axis=1) + self.estate.free + self.estate.all_opened()
        for at in np.flatnonzero((total != self.estate.units) | (self.owned < 0).any(axis=1)).tolist():
            out.append(f"{self.estate.nodes[at].name}: {self.owned[at].tolist()} and {self.estate.free_on(at)} free")
        booked = np.zeros(len(self.estate.nodes), dtype=np.int64)
        for holding in self.holdings.values():
            for spot in holding.spots:
                booked[spot.node] += spot.units
        spots = [spot for holding in self.holdings.values() for spot in holding.spots if spot.share]
        if not self.estate.carries([(spot.node, spot.device, spot.share) for spot in spots]):
            out.append("shares differ from the books")
        if not np.array_equal(booked, self.owned[:, Owner.BATCH] + self.owned[:, Owner.LOAN]):
            out.append("bookings differ from the books")
        return out

    def _settle(self, at: int) -> None:
        """Give each unit of a node one owner."""
        first, owned = at * OWNERS, self._owned
        row = owned[first : first + OWNERS].tolist()
        node = self.estate.nodes[at]
        rest = node.units - sum(row) + row[RESERVED] + row[UNAVAILABLE]
        shares = self.estate.devices is not None
        if shares:
            rest -= self.estate.opened(at)
        away = min(rest, node.failing_units) if node.usable else rest
        rest -= away
        reserved = 0
        planned = self._planned.get(at)
        for reservation in sorted(planned.values(), key=lambda each: each.kind) if planned else ():
            held = min(reservation.plan[at], rest - reserved)
            reservation.held[at] = held
            reserved += held
        if reserved > row[RESERVED]:
            self.estate.version += 1
        owned[first + RESERVED], owned[first + UNAVAILABLE] = reserved, away
        self.estate.set_free(at, rest - reserved)
        if shares:
            self.estate.bar_shares(at, barred=self.is_lacking(at))

    def _robbed(self, at: int, mine: Mapping[str, Sequence[PodSeen]]) -> list[str]:
        """Gangs that must go because others occupy the node, newest first, those with pods still to come before others.

        They hold nothing any more.
        """
        gone = list[str]()
        while self._excess(at) > 0 and self.on_node[at]:
            here = list(reversed(self.on_node[at].items()))
            bound = {
                gang: sum(pod.units for pod in mine.get(gang, ()) if self.estate.index[pod.node, pod.shape] == at)
                for gang, _ in here
            }
            gone.append(next((gang for gang, units in here if bound[gang] < units), here[0][0]))
            self._unbook(gone[-1])
        return gone

    def _book_pods(self, gang: str, pods: Sequence[PodSeen], *, within: bool) -> None:
        """Book for a gang that holds nothing what its pods hold: with `within` no more than nobody else occupies."""
        spots, lent, taken = list[Spot](), dict[int, int](), dict[int, int]()
        for pod in pods:
            at, is_lent = self.estate.index[pod.node, pod.shape], pod.owner is Owner.LOAN
            room = pod.units
            if within:
                room = (int(self.owned[at, Owner.SERVING]) if is_lent else 0) - self._excess(at) - taken.get(at, 0)
            units = min(pod.units, room)
            if units > 0:
                taken[at] = taken.get(at, 0) + units
                spots.append(Spot(at, 0, 1, units, pod.cpu, pod.memory_gib))
                if is_lent:
                    # What a pod says to have on loan beyond what serving has there is the gang's own.
                    most = int(self.owned[at, Owner.SERVING]) - lent.get(at, 0) if within else units
                    lent[at] = lent.get(at, 0) + min(units, max(0, most))
        if spots:
            self.book(gang, tuple(spots), lent)
            self.take_spare(spots)

    def _trim(self, at: int) -> None:
        """Leave out what others cannot occupy, because there is not as much."""
        for owner in (Owner.FOREIGN, Owner.STANDBY, Owner.SERVING):
            self.owned[at, owner] -= min(max(0, self._excess(at)), int(self.owned[at, owner]))

    def _excess(self, at: int) -> int:
        """Units of a node that are occupied beyond those that it has; below 0 that many are not occupied."""
        return int(self.owned[at, OCCUPYING].sum()) + self.estate.opened(at) - self.estate.nodes[at].units

    def _unbook(self, gang: str) -> list[int]:
        """Take from a gang all that it holds. Returns the nodes, which are still to be settled."""
        spots, lent = self.holdings.pop(gang)
        self.take_spare(spots, -1)
        owned, on_node = self._owned, self.on_node
        for node, _, _, units, _, _, device, share in spots:
            owned[node * OWNERS + BATCH] -= units
            on_node[node].pop(gang, None)
            if share:
                self.estate.leave_share(node, device, share)
        for node, units in lent.items():
            self.owned[node, Owner.BATCH] += units
            self.owned[node, Owner.LOAN] -= units
            self.owned[node, Owner.SERVING] += units
        return list(dict.fromkeys([spot[0] for spot in spots]))

    def _reread_spare(self) -> None:
        """Cores and memory that gangs hold, or that are kept for them, are not others' to report."""
        for spots in (*(each.spots for each in self.holdings.values()), *(r.spots for r in self.reservations.values())):
            self.take_spare(spots)

    def take_spare(self, spots: Sequence[Spot], sign: int = 1) -> None:
        """Take cores and memory of spots (with sign -1: give them back); below 0 until those leave who hold them."""
        for node, _, _, _, cpu, memory_gib, _, _ in spots:
            if cpu or memory_gib:
                self.estate.spare[node] -= (sign * cpu, sign * memory_gib)

    def _pods(self, pods: Sequence[PodSeen]) -> tuple[I64, Mapping[str, Sequence[PodSeen]]]:
        """Units by node and owner of pods that are not on a booking, and the pods of each gang."""
        seen = np.zeros_like(self.owned)
        mine: dict[str, list[PodSeen]] = {}
        for pod in pods:
            at = self.estate.index.get((pod.node, pod.shape))
            if at is None:
                continue
            if pod.gang is None:
                seen[at, pod.owner] += pod.units
                continue
            mine.setdefault(pod.gang, []).append(pod)
            if pod.gang in self.holdings and pod.gang not in self.on_node[at]:
                seen[at, Owner.FOREIGN] += pod.units
        for gang, found in mine.items():
            if gang not in self.holdings:
                self._book_pods(gang, found, within=False)
        return seen, mine

    def _rebuilt(self, nodes: Sequence[NodeSeen]) -> list[str]:
        """Change over to other nodes. Returns the gangs that held units of one that is gone."""
        old, holdings, reservations = self.estate, self.holdings, self.reservations
        # Shares keep their devices' numbers, of which there may be more than any node has units now.
        self.estate = Estate(nodes, self._shapes, self._levels, self._shared, old.device_numbers)
        self.estate.version = old.version + 1
        self._blank(len(nodes))
        self.on_node = [{} for _ in nodes]
        self.holdings, self.reservations, self.starts, self._planned = {}, {}, {}, {}
        now_at = {at: self.estate.index.get((node.name, node.shape), -1) for at, node in enumerate(old.nodes)}
        lost = []
        for gang, holding in holdings.items():
            if any(now_at[spot.node] < 0 for spot in holding.spots):
                lost.append(gang)
                continue
            spots = tuple(_moved(holding.spots, now_at))
            for spot in spots:
                if spot.share:
                    self.estate.put_share(spot.node, spot.device, spot.share)
            self.book(gang, spots, {now_at[at]: n for at, n in holding.lent.items()})
        for gang, kept in reservations.items():
            plan = {now_at[at]: units for at, units in kept.plan.items() if now_at[at] >= 0}
            # A plan that lost a node is found again; what is left of it is kept meanwhile.
            spots = tuple(_moved(kept.spots, now_at)) if len(plan) == len(kept.plan) else ()
            self._keep(Reservation(gang, kept.kind, plan, kept.made_s, kept.start_s, {}, spots))
        return lost

    def _blank(self, nodes: int) -> None:
        """Nobody owns any of so many nodes' units."""
        flat: I64 = np.zeros(nodes * OWNERS, dtype=np.int64)
        self.owned = flat.reshape(nodes, OWNERS)
        """Units by node and owner."""
        self._owned = flat.data
        """The same memory, one row after the other: a single number is reached in it in half of the time."""

    def _keep(self, reservation: Reservation) -> None:
        self.reservations[reservation.gang] = reservation
        if reservation.kind is Kind.START:
            self.starts[reservation.gang] = reservation
        for node in reservation.plan:
            self._planned.setdefault(node, {})[reservation.gang] = reservation


def _moved(spots: Sequence[Spot], now_at: Mapping[int, int]) -> Iterator[Spot]:
    for spot in spots:
        yield spot._replace(node=now_at[spot.node])
