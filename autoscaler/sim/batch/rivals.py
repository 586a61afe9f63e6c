"""Known ways to admit gangs, as plain as they are described: who is next, who may pass. None evicts anybody.

Enters: a case and what happens in it. Leaves: orders to the plant. All place by best fit. EASY is Lifka's: the first
who does not fit gets a reservation at the earliest instant that expected ends allow, by node; others pass if they have
ended by then or leave it its room. `kueue` follows Kueue as installed: one head of each queue in turn, who stays within
its nominal quota first, borrowing within the cohort, no preemption; with a proof of placement, which Kueue has not.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.sim.batch.free import Free
from autoscaler.sim.batch.plant import Orders, Spots
from autoscaler.sim.batch.waiting import Line, Place, Waiting
from autoscaler.sim.batch.work import Case, Job, Tenant


def by_submission(job: Job) -> tuple[float, ...]:
    """By priority, then first come, first served."""
    return -job.priority, job.submit_s


def by_length(job: Job) -> tuple[float, ...]:
    """The shortest first, by what it says of itself."""
    return -job.priority, job.expected_s


@dataclass(frozen=True, slots=True)
class _Running:
    spots: Spots
    end_s: float
    """As expected."""


class Rival:
    """What all rivals keep. By itself: first come, first served, and nobody passes."""

    key: Callable[[Job], tuple[float, ...]] = staticmethod(by_submission)
    by_tenant = False

    def __init__(self, name: str, case: Case) -> None:
        self.name, self.case = name, case
        self.free = Free(case.nodes)
        self.waiting = Waiting(type(self).key, by_tenant=self.by_tenant)
        self.running: dict[str, _Running] = {}
        self.held = {tenant.name: 0 for tenant in case.tenants}
        self.now_s = 0.0

    def submit(self, job: Job, now_s: float) -> None:
        """A job waits."""
        self.waiting.add(job)

    def ended(self, job: Job, now_s: float) -> None:
        """A job's GPUs are free."""
        self.free.take(self.running.pop(job.name).spots, -1)
        self.held[job.tenant] -= job.total_gpus

    def left(self, job: Job, now_s: float) -> None:
        """A job gave way, which no rival asks for."""
        self.ended(job, now_s)
        self.submit(job, now_s)

    def saved(self, job: Job, now_s: float) -> None:
        """Of no interest."""

    def decide(self, now_s: float) -> Orders:
        """Start who may."""
        self.now_s = now_s
        return Orders(tuple(self.turn()))

    def turn(self) -> list[tuple[str, Spots]]:
        """In order, until one has no room."""
        starts: list[tuple[str, Spots]] = []
        while self.waiting.lines:
            first = min(self.waiting.firsts())
            spots = self.free.fit(first.job)
            if spots is None:
                break
            starts.append(self.start(first, spots))
        return starts

    def start(self, place: Place, spots: Spots) -> tuple[str, Spots]:
        """A job starts now."""
        self.waiting.drop([place])
        return self.book(place.job, spots)

    def book(self, job: Job, spots: Spots) -> tuple[str, Spots]:
        """A job holds GPUs."""
        self.free.take(spots)
        self.running[job.name] = _Running(spots, self.now_s + job.expected_s)
        self.held[job.tenant] += job.total_gpus
        return job.name, spots


class Greedy(Rival):
    """Whoever is next among those that fit: small ones pass large ones for ever."""

    def turn(self) -> list[tuple[str, Spots]]:
        """The first of all lines again and again, lines without room left out."""
        starts: list[tuple[str, Spots]] = []
        closed: set[Line] = set()
        while open_lines := [line[0] for name, line in self.waiting.lines.items() if name not in closed]:
            first = min(open_lines, key=self.rank)
            spots = self.fit(first.job)
            if spots is None:
                closed.add(self.waiting.line(first.job))
            else:
                starts.append(self.start(first, spots))
        return starts

    def rank(self, place: Place) -> tuple[float, ...]:
        """Who is next."""
        return *place.key, place.number

    def fit(self, job: Job) -> Spots | None:
        """Where a job may go."""
        return self.free.fit(job)


class Shortest(Greedy):
    """The shortest of those that fit."""

    key = staticmethod(by_length)


class DominantShare(Greedy):
    """Whose tenant holds the least by weight; no reservation."""

    by_tenant = True

    def __init__(self, name: str, case: Case) -> None:
        super().__init__(name, case)
        self._weight = weights(case.tenants)

    def rank(self, place: Place) -> tuple[float, ...]:
        """By the tenant's share."""
        return self.held[place.job.tenant] / self._weight[place.job.tenant], *place.key, place.number


class Kueue(Greedy):
    """Heads of queues by quota: within nominal first."""

    by_tenant = True

    def __init__(self, name: str, case: Case) -> None:
        super().__init__(name, case)
        self._tenants = {tenant.name: tenant for tenant in case.tenants}
        self._cohort: dict[str | None, int] = {}
        for tenant in case.tenants:
            self._cohort[tenant.cohort] = self._cohort.get(tenant.cohort, 0) + tenant.guaranteed
        self._cohort[None] = case.total_gpus

    def rank(self, place: Place) -> tuple[float, ...]:
        """Who does not borrow, then by priority and age."""
        job = place.job
        borrows = self.held[job.tenant] + job.total_gpus > self._tenants[job.tenant].guaranteed
        return float(borrows), *place.key, place.number

    def fit(self, job: Job) -> Spots | None:
        """Where quota and room allow it."""
        tenant = self._tenants[job.tenant]
        most = math.inf if tenant.borrowable is None else tenant.guaranteed + tenant.borrowable
        others = (each.name for each in self.case.tenants if each.cohort == tenant.cohort)
        used = sum(self.held[name] for name in others)
        if self.held[tenant.name] + job.total_gpus > most or used + job.total_gpus > self._cohort[tenant.cohort]:
            return None
        return self.free.fit(job)


class Partition(Greedy):
    """Each tenant has nodes of its own, by its weight; a gang larger than these never runs."""

    by_tenant = True

    def __init__(self, name: str, case: Case) -> None:
        super().__init__(name, case)
        self._own = {tenant: Free(case.nodes, nodes) for tenant, nodes in divided(case).items() if nodes}

    def fit(self, job: Job) -> Spots | None:
        """Where there is room among the tenant's nodes."""
        return self._own[job.tenant].fit(job) if job.tenant in self._own else None

    def book(self, job: Job, spots: Spots) -> tuple[str, Spots]:
        """Also in the tenant's own nodes."""
        self._own[job.tenant].take(spots)
        return super().book(job, spots)

    def ended(self, job: Job, now_s: float) -> None:
        """Also there."""
        self._own[job.tenant].take(self.running[job.name].spots, -1)
        super().ended(job, now_s)


class Easy(Rival):
    """First come, first served with one reservation; others pass where they do not delay it."""

    def turn(self) -> list[tuple[str, Spots]]:
        """In order, then whoever may pass the first who has no room."""
        starts = super().turn()
        if not self.waiting.lines:
            return starts
        head = min(self.waiting.firsts())
        start_s, ahead = self._reservation(head.job)
        passing: list[Place] = []
        for place in self._passing(head, start_s):
            spots = self.free.fit(place.job)
            if spots is None:
                continue
            if self.now_s + place.job.expected_s > start_s:
                if place.job.shape == head.job.shape and not _leaves_room(ahead, head.job, spots):
                    continue
                for node, gpus in spots:
                    ahead[node] -= gpus
            passing.append(place)
            starts.append(self.book(place.job, spots))
        self.waiting.drop(passing)
        return starts

    def _passing(self, head: Place, start_s: float) -> list[Place]:
        """Who may pass, in order: of each line with room those that end in time, and its first that does not."""
        found: list[Place] = []
        for line, places in self.waiting.lines.items():
            room = self.free.slots(line.shape, line.gpus) // line.pods
            if not room:
                continue
            early = late = 0
            for place in places:
                in_time = self.now_s + place.job.expected_s <= start_s
                if place.number == head.number or (early if in_time else late) >= room:
                    continue
                found.append(place)
                early, late = early + in_time, late + (not in_time)
                if early >= room:
                    break
        return sorted(found)

    def _reservation(self, head: Job) -> tuple[float, list[int]]:
        """When the first has room if all ends as expected, and what is free by node then."""
        ahead = list(self.free.free)
        shapes = [node.shape for node in self.case.nodes]
        slots = sum(free // head.gpus for free, shape in zip(ahead, shapes, strict=True) if shape == head.shape)
        for run in sorted(self.running.values(), key=lambda each: each.end_s):
            for node, gpus in run.spots:
                if shapes[node] == head.shape:
                    slots += (ahead[node] + gpus) // head.gpus - ahead[node] // head.gpus
                ahead[node] += gpus
            if slots >= head.pods:
                return max(self.now_s, run.end_s), ahead
        raise AssertionError("a gang that fits the empty cluster has room once all have ended")


def _leaves_room(ahead: list[int], head: Job, spots: Spots) -> bool:
    """Whether the reservation's gang still fits when these spots are taken then."""
    taken = dict(spots)
    return head.pods <= sum(max(0, free - taken.get(node, 0)) // head.gpus for node, free in enumerate(ahead))


def weights(tenants: tuple[Tenant, ...]) -> Mapping[str, float]:
    """What tenants weigh: their guarantees, or all the same where nobody has any."""
    if any(tenant.guaranteed for tenant in tenants):
        return {tenant.name: max(1.0, float(tenant.guaranteed)) for tenant in tenants}
    return {tenant.name: 1.0 for tenant in tenants}


def divided(case: Case) -> dict[str, list[int]]:
    """Nodes by tenant: each next one goes to whom it is due most, and everybody has one if there are enough."""
    nodes: dict[str, list[int]] = {tenant.name: [] for tenant in case.tenants}
    held = dict.fromkeys(nodes, 0)
    weight = weights(case.tenants)
    for at in sorted(range(len(case.nodes)), key=lambda at: (-case.nodes[at].units, at)):
        poorest = min(nodes, key=lambda name: (held[name] / weight[name], -weight[name]))
        nodes[poorest].append(at)
        held[poorest] += case.nodes[at].units
    return nodes


RIVALS: Final[dict[str, type[Rival]]] = {
    "fifo": Rival,
    "greedy": Greedy,
    "easy": Easy,
    "sjf": Shortest,
    "drf": DominantShare,
    "partition": Partition,
    "kueue": Kueue,
}
