"""Where gangs are, beside where they were put: kept in line with the pods that the scheduler has bound.

Enters: a room, pods as they are followed. Leaves: the pods of gangs for the core's ledger, bookings that follow pods,
and whether a gang may start now. A gang that is held to several nodes may find itself spread over them otherwise than
planned; so nobody else starts on those nodes until it is bound whole, and nothing that was proven becomes untrue.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_nodes import BatchNode
from autoscaler.adapters.kube.batch_scope import Seen
from autoscaler.adapters.kube.batch_work import Put, Work
from autoscaler.app.batch_bound import BoundPods, Held
from autoscaler.app.batch_patience import START_MOST_S, START_WITHIN_S, Patience
from autoscaler.core.batch.moves import move
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.placement import Spot
from autoscaler.core.batch.room import Room

CLOCKS_S: Final = 5.0
"""The server's clock may be so far behind ours."""


class Places:
    """The places of all gangs of one room."""

    def __init__(self, cluster: BatchCluster, room: Room) -> None:
        self._cluster = cluster
        self._room = room
        self._bound = BoundPods(cluster)
        self.patience = Patience()
        self._to_adopt: dict[str, None] = {}
        self._settled: dict[str, None] = {}
        """Gangs that have found their places."""
        self._again: dict[str, float] = {}
        """Those of them whose pods are made anew and look for their places again, with since when."""
        self._lacking: dict[str, float] = {}
        """Those of these with a pod that is bound nowhere, since when; how long others wait is their controller's."""
        self._parts: Mapping[tuple[str, str], BatchNode] = {}
        self._taken: dict[tuple[str, str], int] = {}
        self.now_s = 0.0

    def adopt(self, work: Work) -> None:
        """A gang runs that the books do not have. Where we put it, it has to be found there or to come there soon."""
        self._to_adopt.setdefault(work.name)
        if work.put and work.name not in self.patience.all:
            self.patience.begin(work.name, self.now_s, wanders=True, is_new=False)

    def adopting(self) -> tuple[str, ...]:
        """Gangs that run and are not in the books."""
        return tuple(self._to_adopt)

    def adopted(self, name: str, started_s: float) -> None:
        """A gang is in the books. Not all of its pods need be there still, unless it has just begun."""
        self._to_adopt.pop(name, None)
        is_new = self.now_s - started_s < START_WITHIN_S
        self.patience.begin(name, self.now_s, frozenset(self._booked(name)), wanders=True, is_new=is_new)

    def forget(self, name: str) -> None:
        """A gang runs no more."""
        self._to_adopt.pop(name, None)
        self._settled.pop(name, None)
        self._again.pop(name, None)
        self._lacking.pop(name, None)
        self.patience.end(name)

    def enter(self, name: str, plan: tuple[Put, ...]) -> bool:
        """Whether a gang may start now, and if so it does: no other one may come into its way, nor it into theirs."""
        nodes = frozenset(put.node for put in plan)
        wanders = self._wanders(name, nodes)
        for others, they_wander in self._looking(name):
            if not nodes.isdisjoint(others) and (wanders or they_wander):
                return False
        self.patience.begin(name, self.now_s, nodes, wanders=wanders, is_new=True)
        return True

    def unseen(self, since_s: float, now_s: float) -> None:
        """Nothing could be seen between two instants: nobody who looks for places is judged by that time."""
        self.patience.unseen(since_s, now_s)
        for begun in (self._again, self._lacking):
            begun.update({name: begun_s + now_s - since_s for name, begun_s in begun.items()})

    def _looking(self, name: str) -> Iterator[tuple[frozenset[str], bool]]:
        """The nodes of others that look for their places, each with whether it may be bound otherwise than planned."""
        for other, each in self.patience.all.items():
            if other != name:
                yield each.nodes, each.wanders
        for other, since_s in self._again.items():
            if self.now_s < since_s + START_MOST_S:
                nodes = frozenset(self._booked(other))
                yield nodes, self._wanders(other, nodes)

    def _wanders(self, name: str, nodes: frozenset[str]) -> bool:
        """Whether a gang that is held to these nodes may be bound otherwise than planned."""
        return len(nodes) > 1 and any(self._has_more_room(name, node) for node in nodes)

    def late(self) -> dict[str, str]:
        """Gangs that have looked for their places for too long, and are not somewhere that cannot be judged now."""
        late, runs = self.patience.late(self.now_s), self._room.runs.all
        found = {name: why for name, why in late.items() if name in runs or not self._bound.come(name)}
        for name, since_s in self._lacking.items():
            if name in runs and self.now_s >= since_s + START_MOST_S:
                found[name] = f"one that was made anew found no place for {START_MOST_S:g} s"
        return found

    def lacks(self, name: str) -> bool:
        """Whether a pod of a gang that asks for units is bound to no node that is there."""
        return self._bound.lacks(name)

    def settle(self) -> None:
        """Gangs that are bound whole have found their places; pods that have run already had one."""
        seen, whole = dict[str, tuple[int, int]](), []
        for name, each in self.patience.all.items():
            made, bound = len(self._cluster.pods.of_gang(name)), self._bound.come(name)
            over = list(self._cluster.pods.over(name, each.since_s - CLOCKS_S if each.is_new else 0.0))
            seen[name] = (made + len(over), bound + len(over))
            if each.is_new:
                held = sum(held.units for held in self._bound.of(name).values())
                is_whole = held + sum(self._bound.any_units(asks) for asks in over) >= self._wanted(name) > 0
            else:
                is_whole = name in self._room.runs.all and not self._bound.lacks(name) and bound + len(over) > 0
            if is_whole:
                whole.append(name)
        self.patience.saw(seen, self.now_s)
        for name in whole:
            self.patience.end(name)
            self._settled.setdefault(name)
        anew = filter(self._is_made_anew, self._settled)
        self._again = {name: self._again.get(name, self.now_s) for name in anew}
        lacking = filter(self._bound.lacks, self._again)
        self._lacking = {name: self._lacking.get(name, self.now_s) for name in lacking}

    def _is_made_anew(self, name: str) -> bool:
        """Whether a gang that had found its places has a pod that is to be bound, or none at all: others will come."""
        run = self._room.runs.all.get(name)
        return run is not None and run.leaving_s is None and (self._bound.lacks(name) or not self._bound.come(name))

    def is_settling(self, name: str) -> bool:
        """Whether not all pods of a gang that was let in are bound yet."""
        return name in self.patience.all

    def pods(self, seen: Seen, is_tracked: Callable[[str], bool]) -> tuple[PodSeen, ...]:
        """All pods for the ledger; bookings follow those of gangs that were bound otherwise than planned."""
        self._parts, self._taken = seen.parts, {}
        found = list(seen.others)
        for name in [name for name in self._cluster.pods.gangs() if is_tracked(name)]:
            bound = self._bound.of(name)
            if name in self._room.ledger.holdings:
                self._follow(name, bound)
                self._book_anew(name, bound)
            found += self._seen(name, bound)
        for name in self._to_adopt:
            if name not in self._room.runs.all:
                found += self._planned(name)
        return tuple(found)

    def _seen(self, name: str, bound: Mapping[tuple[str, str], Held]) -> Iterator[PodSeen]:
        """Its bound pods. What they hold beyond what was given to it counts as a stranger's: old ones are there still
        beside new ones."""
        booked, index = self._booked_at(name), self._room.ledger.estate.index
        given = sum(booked.values()) if name in self._room.ledger.holdings else self._bound.asked(name)
        beyond = sum(held.units for held in bound.values()) - given
        for at, held in bound.items():
            strange = max(0, min(beyond, held.units - booked.get(index.get(at, -1), 0)))
            beyond -= strange
            if strange:
                yield PodSeen(*at, strange)
            yield PodSeen(*at, held.units - strange, gang=name, cpu=held.cpu, memory_gib=held.memory_gib)

    def _planned(self, name: str) -> Iterator[PodSeen]:
        """What was planned for a gang and is not bound yet, as its object says, where there is room for it still.

        Whoever may edit the object wrote it, so that it is believed for no more units than the gang has, and on no node
        that bound pods fill.
        """
        work = self._cluster.works.get(name)
        if work is None or work.suspended:
            return
        bound = {at: held.units for at, held in self._bound.of(name).items()}
        left = self._bound.asked(name) - sum(bound.values())
        for put in work.put:
            at = (put.node, put.shape)
            if at not in self._parts or not 0 <= put.pod_set < len(work.sets):
                continue
            asks = work.sets[put.pod_set].asks
            each = self._bound.units(asks, put.shape)
            for _ in range(min(put.pods, work.sets[put.pod_set].pods) if each else 0):
                if bound.get(at, 0) >= each:
                    bound[at] -= each
                elif left >= each and self._unheld(at) >= each:
                    self._taken[at] = self._taken.get(at, 0) + each
                    left -= each
                    yield PodSeen(put.node, put.shape, each, gang=name, cpu=asks.cpu, memory_gib=asks.memory_gib)
                else:
                    break

    def _unheld(self, at: tuple[str, str]) -> int:
        """Units of a node that no bound pod holds, and that were not planned for anybody in this look."""
        node, shape = at
        held = sum(self._bound.units(pod.asks, shape) for pod in self._cluster.pods.on_node(node))
        return self._parts[at].units - held - self._taken.get(at, 0)

    def _follow(self, name: str, bound: Mapping[tuple[str, str], Held]) -> None:
        """Let a booking follow pods that were bound elsewhere; what is not bound stays where it was planned."""
        run = self._room.runs.all.get(name)
        if run is None or run.leaving_s is not None:
            return
        index, booked = self._room.ledger.estate.index, self._booked_at(name)
        actual = {index[at]: held for at, held in bound.items() if at in index}
        total, held_units = sum(booked.values()), sum(held.units for held in actual.values())
        if held_units > total or all(held.units <= booked.get(node, 0) for node, held in actual.items()):
            return
        spots = [Spot(node, 0, h.pods, h.units, h.cpu, h.memory_gib) for node, h in actual.items()]
        rest = total - held_units
        cpu, memory_gib = self._per_unit(name)
        for node, units in booked.items():
            stays = min(rest, max(0, units - (actual[node].units if node in actual else 0)))
            if stays:
                spots.append(Spot(node, 0, 1, stays, cpu * stays, memory_gib * stays))
                rest -= stays
        move(self._room, name, spots)

    def _book_anew(self, name: str, bound: Mapping[tuple[str, str], Held]) -> None:
        """Have a gang booked by its pods where these hold all that it was given, and something that it was not.

        Pods of a gang that nobody let in are bound one after the other, and it is met with the first of them. And where
        they could not be followed to, somebody else's or old pods of its own stood, who are gone since.
        """
        run, booked = self._room.runs.all.get(name), self._booked_at(name)
        if run is None or run.leaving_s is not None:
            return
        given, held_units = sum(booked.values()), sum(held.units for held in bound.values())
        if not given <= held_units <= max(given, min(self._wanted(name), self._bound.asked(name))):
            return
        index, holding = self._room.ledger.estate.index, self._room.ledger.holdings[name]
        strays = any(held.units > booked.get(index.get(at, -1), 0) for at, held in bound.items())
        if strays and (held_units > given or not holding.lent):
            self._room.ledger.release(name)

    def _booked_at(self, name: str) -> dict[int, int]:
        out: dict[int, int] = {}
        holding = self._room.ledger.holdings.get(name)
        for spot in holding.spots if holding is not None else ():
            out[spot.node] = out.get(spot.node, 0) + spot.units
        return out

    def _booked(self, name: str) -> dict[str, int]:
        nodes = self._room.ledger.estate.nodes
        return {nodes[at].name: units for at, units in self._booked_at(name).items()}

    def _wanted(self, name: str) -> int:
        """Units of all pods of a gang that is in the books; after a restart it may be booked with fewer."""
        run = self._room.runs.all.get(name)
        return 0 if run is None else sum(run.gang.form.units().values())

    def _per_unit(self, name: str) -> tuple[float, float]:
        spots = self._room.ledger.holdings[name].spots
        units = sum(spot.units for spot in spots)
        return sum(spot.cpu for spot in spots) / units, sum(spot.memory_gib for spot in spots) / units

    def _has_more_room(self, name: str, node: str) -> bool:
        """Whether the scheduler sees more room on a node than this gang was given there."""
        booked = self._booked_at(name)
        for shape in self._cluster.shapes_of(node):
            part, at = self._parts.get((node, shape)), self._room.ledger.estate.index.get((node, shape))
            if part is None or at is None or at not in booked:
                continue
            others = sum(
                self._bound.units(pod.asks, shape) for pod in self._cluster.pods.on_node(node) if pod.gang != name
            )
            if part.units - others > booked[at]:
                return True
        return False
