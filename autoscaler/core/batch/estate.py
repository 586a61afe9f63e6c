"""The free room of all nodes, indexed so that one gang is placed in microseconds.

Nodes are rows of numpy columns. Beside them, for each shape and number of free units, an integer whose bit n says that
node n has just that many (a find within a domain is one `and`); and for each domain of each level the slots by size, so
that most gangs that do not fit are refuted by a comparison. All indexes change with `set_free` and with nothing else:
those of the whole cluster at once, those of domains when somebody asks, for most gangs ask for none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autoscaler.core.batch import chain
from autoscaler.core.columns import F64, I64

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
    cordoned: bool = False
    ready: bool = True
    failing_units: int = 0
    """Units whose GPU reports errors (XID, ECC)."""
    warm_units: int = 0
    """Idle units that serving keeps here and would lend."""
    due_s: float | None = None
    """When a node that is on its way is expected; None for one that is there."""

    @property
    def usable(self) -> bool:
        """Whether anything may start here."""
        return self.ready and not self.cordoned and self.due_s is None


class Estate:
    """The nodes of a cluster. Raises ValueError when a name and shape stand twice."""

    def __init__(self, nodes: Sequence[NodeSeen], shapes: Sequence[str], levels: int) -> None:
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
        self.nodes, self.spare = tuple(nodes), _spare(nodes)
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


def _frame(node: NodeSeen) -> tuple[str, str, int, tuple[str, ...]]:
    return node.name, node.shape, node.units, node.domains


def _spare(nodes: Sequence[NodeSeen]) -> F64:
    return np.array([(node.cpu, node.memory_gib) for node in nodes], dtype=np.float64).reshape(-1, 2)
