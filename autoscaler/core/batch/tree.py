"""The tree of queues: what each holds, what it may still take, and how its share compares.

Enters: parameters, capacity, and loads that begin or end. Leaves: quota verdicts and shares. All is kept up to date
along the one path from a queue to the root, in whole numbers, so that a thousand admissions leave no rounding behind;
plain lists, because each admission touches a few entries only. What of a guarantee may be lent flows to the parent;
what a queue uses beyond what it keeps flows there as well (the rule of Kueue's cohorts, which users know).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import floor, isfinite, log
from typing import Final

from autoscaler.core.batch.gangs import Form
from autoscaler.core.batch.params import UNLIMITED, BatchParams, QueueSpec, Quota
from autoscaler.core.batch.reasons import BatchReason, Change

ROOT: Final = 0
"""The whole cluster; queues without parent are its children."""

MILLIONTHS: Final = 1_000_000
NEAR: Final = 1.0 / log(1.05)
"""Shares within five percent count as equal; older use decides among them."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a form counts for quota and shares."""

    units: tuple[tuple[int, int], ...]
    """(shape, whole units)."""
    counted: tuple[tuple[int, int], ...]
    """(shape, what quotas count): units, or thousandths where the shape is shared."""
    amounts: tuple[int, int, int]
    """Millionths of reference GPUs, thousandths of cores, MiB."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """Numbers of one queue by shape, as quotas count them; plain lists."""

    guaranteed: list[int]
    most: list[int]
    """The smaller of its limit, and what is guaranteed and borrowable together."""
    total: list[int]
    """What it has to give away or use, children's kept parts aside."""
    kept: list[int]
    """The part of `total` that nobody else may use."""


_Row = tuple[int, list[int], list[int], Quotas, list[int], list[dict[int, None]]]
"""What changes with a load in one queue of a path: the queue, its use and flow by shape, its quotas, its amounts, and
by shape where it stands among those above their guarantee. Read for each admission several times."""


class QueueTree:
    """Queues by place: 0 is the cluster, then the queues, parents before children."""

    def __init__(self, params: BatchParams) -> None:
        self.shapes = {shape.name: at for at, shape in enumerate(params.shapes)}
        self._weights = [round(shape.weight * MILLIONTHS) for shape in params.shapes]
        self.grains = [shape.grain for shape in params.shapes]
        """By shape: what a unit counts in quotas, and in all numbers by shape here."""
        queues = _parents_first(params.queues)
        self.specs: list[QueueSpec | None] = [None, *queues]
        self.index = {queue.name: at + 1 for at, queue in enumerate(queues)}
        self.parent = [-1, *(ROOT if queue.parent is None else self.index[queue.parent] for queue in queues)]
        self.children: list[list[int]] = [[] for _ in self.specs]
        for at, parent in enumerate(self.parent[1:], 1):
            self.children[parent].append(at)
        self.weight = [1.0, *(queue.weight for queue in queues)]
        self.leaves = {queue.name: at for queue in queues if not self.children[at := self.index[queue.name]]}
        self.paths = [tuple(self._path(at)) for at in range(len(self.specs))]
        """From each queue up to, not including, the root."""
        count = len(params.shapes)
        self.used = [[0] * count for _ in self.specs]
        self._flow = [[0] * count for _ in self.specs]
        self.amounts = [[0, 0, 0] for _ in self.specs]
        self.capacity_amounts = [1, 0, 0]
        self.over: list[list[dict[int, None]]] = [[{} for _ in self.specs] for _ in range(count)]
        """By shape and parent: the children that hold more than they are guaranteed."""
        self.quotas = self._quotas()
        self._rows = [tuple(self._row(at) for at in path) for path in self.paths]
        """Of each queue, those from it up to, not including, the root."""
        tops = [self.quotas[child] for child in self.children[ROOT]]
        self._promised = [sum(each.total[shape] - each.kept[shape] for each in tops) for shape in range(count)]
        """By shape: units that queues may lend each other where all that they are guaranteed is there."""
        self.capacity([0] * count, 0.0, 0.0)

    def load(self, form: Form) -> Load:
        """What a form counts for."""
        units = sorted((self.shapes[name], total) for name, total in form.units().items())
        counted = tuple((shape, total * self.grains[shape]) for shape, total in units)
        if form.has_shares:
            shares = dict(counted)
            for each in form.pod_sets:
                shares[self.shapes[each.shape]] += each.pods * each.share
            counted = tuple(shares.items())
        gpus = sum(total * self._weights[shape] // self.grains[shape] for shape, total in counted)
        cpu = sum(each.pods * each.cpu for each in form.pod_sets)
        memory_gib = sum(each.pods * each.memory_gib for each in form.pod_sets)
        return Load(tuple(units), counted, (gpus, round(cpu * 1000), round(memory_gib * 1024)))

    def capacity(self, units: list[int], cpu: float, memory_gib: float) -> bool:
        """Say what batch may use in all, in units by shape. True where that changes how shares compare."""
        root = self.quotas[ROOT]
        for shape, total in enumerate(units):
            away = sum(self._withheld(child, shape) for child in self.children[ROOT])
            root.total[shape] = max(0, total * self.grains[shape] - away)
        gpus = sum(total * self._weights[shape] for shape, total in enumerate(units))
        amounts = [
            max(1, gpus),
            *(round(n * f) if isfinite(n) else 0 for n, f in ((cpu, 1000), (memory_gib, 1024))),
        ]
        changed, self.capacity_amounts = amounts != self.capacity_amounts, amounts
        return changed

    def add(self, queue: int, load: Load) -> None:
        """A gang begins to count."""
        gpus, cpu, memory = load.amounts
        for shape, units in load.counted:
            rest = units
            for at, used, flow, quotas, _, over in self._rows[queue]:
                held = used[shape] = used[shape] + units
                if held > quotas.guaranteed[shape]:
                    over[shape][at] = None
                if rest > 0:
                    room = quotas.kept[shape] - flow[shape]
                    flow[shape] += rest
                    if room > 0:
                        rest -= room
            self.used[ROOT][shape] += units
            if rest > 0:
                self._flow[ROOT][shape] += rest
        for _, _, _, _, amounts, _ in self._rows[queue]:
            amounts[0] += gpus
            if cpu or memory:
                amounts[1] += cpu
                amounts[2] += memory

    def remove(self, queue: int, load: Load) -> None:
        """A gang that counted counts no more."""
        gpus, cpu, memory = load.amounts
        for shape, units in load.counted:
            rest, flowing = units, True
            for at, used, flow, quotas, _, over in self._rows[queue]:
                held = used[shape] = used[shape] - units
                if held <= quotas.guaranteed[shape]:
                    over[shape].pop(at, None)
                if flowing:
                    above = flow[shape] - quotas.kept[shape]
                    flow[shape] -= rest
                    if above < rest:
                        rest, flowing = above, above > 0
            self.used[ROOT][shape] -= units
            if flowing:
                self._flow[ROOT][shape] -= rest
        for _, _, _, _, amounts, _ in self._rows[queue]:
            amounts[0] -= gpus
            if cpu or memory:
                amounts[1] -= cpu
                amounts[2] -= memory

    def verdict(self, queue: int, load: Load) -> Change | None:
        """Which quota a load exceeds, by how much; None where it may begin."""
        for shape, units in load.counted:
            lent = self.quotas[ROOT].total[shape] - self._flow[ROOT][shape]
            missing = units - lent if lent > 0 else units
            for at, used, flow, quotas, _, _ in self._rows[queue]:
                beyond = used[shape] + units - quotas.most[shape]
                if beyond > 0:
                    return Change(BatchReason.LIMIT, self.name(at), beyond)
                own = quotas.kept[shape] - flow[shape]
                if own > 0:
                    missing -= own
            if missing > 0:
                never = units - self._at_most(queue, shape)
                if never > 0:
                    return Change(BatchReason.UNLENT, self.name(queue), never)
                return Change(BatchReason.QUOTA, self.name(queue), missing)
        return None

    def promised(self, queue: int, load: Load) -> bool:
        """Whether a load may begin where all that the queues are guaranteed together is there, whatever there is."""
        total = self.quotas[ROOT].total
        there = list(total)
        for shape, _ in load.counted:
            total[shape] = max(there[shape], self._promised[shape])
        allowed = self.verdict(queue, load) is None
        total[:] = there
        return allowed

    def _at_most(self, queue: int, shape: int) -> int:
        """What the queue could take if nobody held any, as quotas count it."""
        return self.quotas[ROOT].total[shape] + sum(self.quotas[at].kept[shape] for at in self.paths[queue])

    def within(self, at: int, load: Load) -> bool:
        """Whether a queue with this load added holds no more than it is guaranteed."""
        used, guaranteed = self.used[at], self.quotas[at].guaranteed
        if len(load.counted) == 1:  # nearly always, and asked for at every comparison
            ((shape, units),) = load.counted
            return used[shape] + units <= guaranteed[shape]
        return all(used[shape] + units <= guaranteed[shape] for shape, units in load.counted)

    def exceeds(self, at: int, load: Load) -> bool:
        """Whether a queue holds more than it is guaranteed of a shape that the load wants."""
        used, guaranteed = self.used[at], self.quotas[at].guaranteed
        for shape, _ in load.counted:  # noqa: SIM110 - of each candidate, and a generator takes twice as long
            if used[shape] > guaranteed[shape]:
                return True
        return False

    def share(self, at: int, load: Load | None = None, sign: int = 1) -> float:
        """The dominant share by weight, with a load added (or, with sign -1, taken away)."""
        gpus, cpu, memory = self.amounts[at]
        if load is not None:
            more = load.amounts
            gpus, cpu, memory = gpus + sign * more[0], cpu + sign * more[1], memory + sign * more[2]
        capacity = self.capacity_amounts
        most = gpus / capacity[0] if gpus > 0 else 0.0
        if capacity[1]:
            most = max(most, cpu / capacity[1])
        if capacity[2]:
            most = max(most, memory / capacity[2])
        return most / self.weight[at]

    def standing(self, at: int, load: Load) -> tuple[int, int]:
        """How a queue with a load added compares: 1 beyond its guarantee, else 0; its share in steps of 5 percent."""
        (gpus, cpu, memory), capacity, added = self.amounts[at], self.capacity_amounts, load.amounts
        share = (gpus + added[0]) / capacity[0]
        if capacity[1]:
            share = max(share, (cpu + added[1]) / capacity[1])
        if capacity[2]:
            share = max(share, (memory + added[2]) / capacity[2])
        step = floor(log(share / self.weight[at]) * NEAR) if share > 0 else -(2**40)
        used, guaranteed = self.used[at], self.quotas[at].guaranteed
        for shape, units in load.counted:
            if used[shape] + units > guaranteed[shape]:
                return 1, step
        return 0, step

    def name(self, at: int) -> str:
        """A queue's name; the cluster's is empty."""
        spec = self.specs[at]
        return "" if spec is None else spec.name

    def spec(self, at: int) -> QueueSpec:
        """A queue's own words. Raises ValueError for the root, which has none."""
        spec = self.specs[at]
        if spec is None:
            raise ValueError("batch: the cluster is no queue")
        return spec

    def contradictions(self, loads: Mapping[str, tuple[int, Load]]) -> list[str]:
        """What the sums say that the loads of running gangs do not; empty unless there is a fault in this room."""
        used = [[0] * len(self.shapes) for _ in self.specs]
        for queue, load in loads.values():
            for at in (*self.paths[queue], ROOT):
                for shape, units in load.counted:
                    used[at][shape] += units
        return [
            f"{self.name(at)}: {have}, not {want}"
            for at, (have, want) in enumerate(zip(self.used, used, strict=True))
            if have != want
        ]

    def _path(self, at: int) -> Iterator[int]:
        while at != ROOT:
            yield at
            at = self.parent[at]

    def _row(self, at: int) -> _Row:
        over = [each[self.parent[at]] for each in self.over]
        return at, self.used[at], self._flow[at], self.quotas[at], self.amounts[at], over

    def _withheld(self, at: int, shape: int) -> int:
        """What a subtree is guaranteed and does not lend to its parent."""
        quotas = self.quotas[at]
        return quotas.guaranteed[shape] - (quotas.total[shape] - quotas.kept[shape])

    def _quotas(self) -> list[Quotas]:
        """From the leaves up: what is guaranteed, kept and lent."""
        count = len(self.shapes)
        out = [Quotas([0] * count, [UNLIMITED] * count, [0] * count, [0] * count) for _ in self.specs]
        for at in range(len(self.specs) - 1, 0, -1):
            spec, mine = self.spec(at), out[at]
            for name, shape in self.shapes.items():
                grain, stated = self.grains[shape], spec.quotas.get(name)
                promised = sum(out[child].guaranteed[shape] for child in self.children[at])
                quota = stated or Quota()
                guaranteed = max(quota.guaranteed * grain, promised)
                withheld = sum(
                    out[child].guaranteed[shape] - out[child].total[shape] + out[child].kept[shape]
                    for child in self.children[at]
                )
                mine.guaranteed[shape] = guaranteed
                most = min(quota.limit, UNLIMITED) * grain
                mine.most[shape] = min(most, guaranteed + quota.borrowable * grain, UNLIMITED * grain)
                mine.total[shape] = guaranteed - withheld
                mine.kept[shape] = max(0, mine.total[shape] - quota.lendable * grain)
        return out


def _parents_first(queues: tuple[QueueSpec, ...]) -> list[QueueSpec]:
    """Queues by depth, then as given. There is no circle."""
    parents = {queue.name: queue.parent for queue in queues}

    def depth(name: str | None) -> int:
        steps = 0
        while name is not None:
            name = parents[name]
            steps += 1
        return steps

    return sorted(queues, key=lambda queue: depth(queue.name))
