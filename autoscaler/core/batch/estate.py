"""The free room of all nodes, indexed so that one gang is placed in microseconds.

Nodes are rows of numpy columns. Beside them, for each shape and number of free units, an integer whose bit n says that
node n has just that many (a find within a domain is one `and`); and for each domain of each level the slots by size, so
that most gangs that do not fit are refuted by a comparison. All indexes change with `set_free` and with nothing else:
those of the whole cluster at once, those of domains when somebody asks, for most gangs ask for none. They count whole
devices; what shares hold of others stands beside them, where a shape is shared.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autoscaler.core.batch import chain
from autoscaler.core.batch.devices import Devices
from autoscaler.core.batch.params import PER_DEVICE
from autoscaler.core.columns import F64, I64, Bools

WHOLE: Final = 0
"""The level of the whole cluster; the levels of the parameters follow."""


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """One node, or the part of it that has units of one shape."""

    name: str
    shape: str
    units: int
    domains: tuple[str, ...] = ()
    """Its domain at each level, coarse to fine; empty where labels are missing, which makes a domain of its own."""
    cpu: float = float("inf")
    """Cores that pods other than a gang's leave free."""
    memory_gib: float = float("inf")
    serving_cpu: float = 0.0
    """Cores that pods of serving hold of it, which are not in `cpu`."""
    serving_memory_gib: float = 0.0
    cordoned: bool = False
    ready: bool = True
    failing_units: int = 0
    """Units whose GPU reports errors (XID, ECC)."""
    warm_units: int = 0
    """Idle units that serving keeps here and would lend."""
    due_s: float | None = None
    """When a node that is on its way is expected; None for one that is there."""
    late_s: float | None = None
    """When it is there in nine of ten cases; None where that is the same."""
    model: str = ""
    """Of its GPUs, where pods ask for models of a shared shape."""

    @property
    def usable(self) -> bool:
        """Whether anything may start here."""
        return self.ready and not self.cordoned and self.due_s is None


class Estate:
    """The nodes of a cluster; `shared` are the shapes that shares are asked of, `devices` how many of each have numbers
    at least. Raises ValueError when a name and shape stand twice."""

    def __init__(
        self,
        nodes: Sequence[NodeSeen],
        shapes: Sequence[str],
        levels: int,
        shared: Collection[str] = (),
        devices: int = 1,
    ) -> None:
        self.nodes = tuple(nodes)
        self.index = {(node.name, node.shape): at for at, node in enumerate(self.nodes)}
        if len(self.index) < len(self.nodes):
            raise ValueError("estate: a node stands twice with one shape; give each once")
        self.where = list(self.index)
        """For each node, its name and its shape's."""
        self.shape_names = tuple(shapes)
        at_shape = {name: at for at, name in enumerate(shapes)}
        self.shape: I64 = np.array([at_shape[node.shape] for node in self.nodes], dtype=np.int64)
        self.units: I64 = np.array([node.units for node in self.nodes], dtype=np.int64)
        self.free: I64 = np.zeros(len(self.nodes), dtype=np.int64)
        self._free = self.free.data
        """The same memory: a single number is read from it in half of the time."""
        self.shared = frozenset(at_shape[name] for name in shared)
        most = int(self.units.max(initial=devices))
        self.devices: Devices | None = Devices(len(self.nodes), most) if shared else None
        """What shares hold; None where none can be asked for."""
        self.usable: Bools = _usable(nodes)
        self.spare: F64 = _spare(nodes)
        """Cores and GiB that are free; shape (nodes, 2)."""
        self.most = int(self.units.max(initial=1))
        self.sizes = chain.chain(self.most)
        self.bits = [[0] * (self.most + 1) for _ in shapes]
        for at, shape in enumerate(self.shape.tolist()):
            self.bits[shape][0] |= 1 << at
        self.domain: list[I64] = []
        self.masks: list[list[int]] = []
        self._slots: list[I64] = []
        """For each level below the whole, slots by domain, shape and size, as of when they were last asked for."""
        self.domain_names: list[list[str]] = []
        for level in range(levels + 1):
            self._level(level)
        self.whole = [[0] * len(self.sizes) for _ in shapes]
        """Slots of the whole cluster by shape and size: plain numbers, which every admission compares."""
        self._counted: I64 = np.zeros(len(self.nodes), dtype=np.int64)
        """Free units by node that `_slots` count."""
        self._uncounted: dict[int, None] = {}
        """Nodes of which that may be others."""
        self._at = [(self.bits[shape], 1 << at, self.whole[shape]) for at, shape in enumerate(self.shape.tolist())]
        """For each node, what changes with its free units: its row of `bits`, its bit, its row of `whole`."""
        self._steps: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {}
        self.version = 0
        """Grows whenever room is gained, so that what did not fit is asked again only then."""

    def reread(self, nodes: Sequence[NodeSeen]) -> bool:
        """Take in what changes about nodes without moving them; False, and nothing done, where they are others."""
        if [_frame(node) for node in nodes] != [_frame(node) for node in self.nodes]:
            return False
        self.nodes, self.spare, self.usable = tuple(nodes), _spare(nodes), _usable(nodes)
        self.version += 1
        return True

    def _level(self, level: int) -> None:
        ids: dict[tuple[str, ...], int] = {}
        row: list[int] = []
        masks: list[int] = []
        for at, node in enumerate(self.nodes):
            # The path, not the name: two racks may call an island alike, and a rack may be called like a node.
            path = node.domains[:level] if len(node.domains) >= level else (*node.domains, "", node.name)
            domain = ids.setdefault(path, len(ids))
            if domain == len(masks):
                masks.append(0)
            masks[domain] |= 1 << at
            row.append(domain)
        self.domain.append(np.array(row, dtype=np.int64))
        self.masks.append(masks)
        self._slots.append(np.zeros((max(1, len(ids)), len(self.shape_names), len(self.sizes)), dtype=np.int64))
        self.domain_names.append(["/".join(path) for path in ids])

    def set_free(self, node: int, units: int) -> None:
        """Say how many units of a node are free. The only way in which room changes."""
        old = self._free[node]
        if old == units:
            return
        row, bit, whole = self._at[node]
        row[old] ^= bit
        row[units] ^= bit
        step = self._steps.get((old, units))
        if step is None:
            changes = [units // size - old // size for size in self.sizes]
            step = self._steps[old, units] = tuple((at, change) for at, change in enumerate(changes) if change)
        for at, change in step:
            whole[at] += change
        self._uncounted[node] = None
        self._free[node] = units
        if units > old:
            self.version += 1

    def take_share(self, node: int, device: int, share: int) -> None:
        """Put a share onto a device of a node; one that carried none is free no more. The device has as much left."""
        if self._shares().take(node, device, share):
            self.set_free(node, self._free[node] - 1)

    def give_share(self, node: int, device: int, share: int) -> None:
        """Take a share off a device; one that carries none then is free."""
        self.version += 1
        if self._shares().give(node, device, share):
            self.set_free(node, self._free[node] + 1)

    def leave_share(self, node: int, device: int, share: int) -> None:
        """The same without saying whose a device is then that carries none: who calls settles that."""
        self.version += 1
        self._shares().give(node, device, share)

    def put_share(self, node: int, device: int, share: int) -> None:
        """Put a share where it was in another estate, before it is settled what is free."""
        self._shares().take(node, device, share)

    def bar_shares(self, node: int, *, barred: bool) -> None:
        """Say whether no more shares may join others on a node. Nothing where no shape is shared."""
        if self.devices is not None:
            self.version += bool(self.devices.barred[node]) and not barred
            self.devices.barred[node] = barred

    def carries(self, shares: Iterable[tuple[int, int, int]]) -> bool:
        """Whether the devices carry just these shares, as (node, device, thousandths), and none has too many."""
        if self.devices is None:
            return not [*shares]
        afresh = np.zeros_like(self.devices.held)
        for node, device, share in shares:
            afresh[node, device] += share
        return bool((afresh == self.devices.held).all() and (afresh <= PER_DEVICE).all())

    def opened(self, node: int) -> int:
        """Devices of a node that carry shares: neither free nor a whole unit of anybody's."""
        return 0 if self.devices is None else self.devices.opened(node)

    @property
    def device_numbers(self) -> int:
        """How many devices of a node may have a number."""
        return 1 if self.devices is None else self.devices.held.shape[1]

    def all_opened(self) -> I64:
        """The same of all nodes, shape (nodes,)."""
        return np.zeros(len(self.nodes), dtype=np.int64) if self.devices is None else self.devices.all_opened()

    def rests_of(self, shape: int) -> int:
        """Thousandths of a shape that are left of devices that carry shares."""
        return 0 if self.devices is None else int(self.devices.rests()[self.shape == shape].sum())

    def _shares(self) -> Devices:
        if self.devices is None:
            raise ValueError("estate: a share where no shape is shared")
        return self.devices

    def free_on(self, node: int) -> int:
        """Free units of a node."""
        return self._free[node]

    def slots(self, level: int) -> I64:
        """Slots of a level by domain, shape and size; not to be changed."""
        if level == WHOLE:
            return np.array([self.whole], dtype=np.int64)
        if self._uncounted:
            nodes = np.fromiter(self._uncounted, dtype=np.int64, count=len(self._uncounted))
            self._uncounted.clear()
            free = self.free[nodes]
            more = chain.slots(free, self.sizes) - chain.slots(self._counted[nodes], self.sizes)
            for domain, slots in zip(self.domain[1:], self._slots[1:], strict=True):
                np.add.at(slots, (domain[nodes], self.shape[nodes]), more)
            self._counted[nodes] = free
        return self._slots[level]

    def widen(self, extra: Mapping[int, int]) -> tuple[int, dict[int, int]]:
        """Let the estate offer more units for a moment; `narrow` takes the answer."""
        before = {node: self.free_on(node) for node in extra}
        version = self.version
        for node, units in extra.items():
            self.set_free(node, before[node] + units)
        return version, before

    def narrow(self, opened: tuple[int, dict[int, int]], extra: Mapping[int, int]) -> dict[int, int]:
        """End what `widen` began. Returns the units by node that were taken beyond those that were free."""
        version, before = opened
        used = {}
        for node, units in extra.items():
            taken = before[node] + units - self.free_on(node)
            self.set_free(node, max(0, before[node] - taken))
            if taken > before[node]:
                used[node] = taken - before[node]
        self.version = version
        return used

    def set_all_free(self, free: I64) -> None:
        """The same for all nodes at once."""
        for node in np.flatnonzero(free != self.free).tolist():
            self.set_free(node, int(free[node]))

    def unheld(self) -> F64:
        """Cores and GiB that would be free if no gang held any; shape (nodes, 2)."""
        return _spare(self.nodes)

    def free_units(self, shape: int) -> int:
        """Free units of a shape."""
        return self.whole[shape][0]

    def contradictions(self) -> list[str]:
        """What the indexes say that the columns do not; empty unless there is a fault in this room."""
        out = []
        for at, free in enumerate(self.free.tolist()):
            shape = int(self.shape[at])
            if [units for units, bits in enumerate(self.bits[shape]) if bits >> at & 1] != [free]:
                out.append(f"{self.nodes[at].name}: bits")
        counted = chain.slots(self.free, self.sizes)
        for level, domain in enumerate(self.domain):
            slots = self.slots(level)
            afresh = np.zeros_like(slots)
            np.add.at(afresh, (domain, self.shape), counted)
            if not np.array_equal(afresh, slots):
                out.append(f"slots of level {level}")
        return out


def _frame(node: NodeSeen) -> tuple[str, str, int, tuple[str, ...], str]:
    return node.name, node.shape, node.units, node.domains, node.model


def _usable(nodes: Sequence[NodeSeen]) -> Bools:
    return np.array([node.usable for node in nodes], dtype=np.bool_)


def _spare(nodes: Sequence[NodeSeen]) -> F64:
    return np.array([(node.cpu, node.memory_gib) for node in nodes], dtype=np.float64).reshape(-1, 2)
