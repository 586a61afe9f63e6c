"""Shares of GPU budgets: how many replicas each workload may have when not everybody can have what it wants.

Enters: a claim per workload and the budgets of namespaces and of the cluster, in GPUs. Leaves: a limit in replicas per
workload that a budget covers, and why it is less than was wanted. Who should have what: floors by importance, then
wants by importance, within one importance max-min fair in GPUs, the rest to whoever holds it. Growth is granted only
out of GPUs that nobody holds now; whoever holds more than it should gets a lower limit and shrinks at the core's pace.
Where nobody was refused, what is still free is handed out as room above the want, most important first, so that the
next small growth need not ask. It knows no time and no names of importance; only what claims hold counts as held.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from autoscaler.core.scale.rooms import Key, Rooms

ROOM_PART = 2
"""Room above a want is half of it, at least one replica: growth that need not wait for a round of sharing (a guess)."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one workload holds and wants, in replicas."""

    workload: str
    namespace: str
    rank: int
    """Importance: 0 is served first and gives way last."""
    gpus_per_replica: int
    """1 or more."""
    floor: int
    wanted: int | None
    """Before any budget; None while its demand is unknown: then it keeps what it has."""
    held: int
    """The count that stands, orders on their way included."""
    present: int | None = None
    """The limit it has now; it is kept where that costs nobody a want, so that limits change only where they must."""
    gives_way: bool = True
    """False where nobody may take replicas from it: it keeps them even beyond the budget."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most GPUs that may be held in a namespace, and in the cluster; None and absent mean no budget."""

    cluster_gpus: int | None = None
    namespace_gpus: Mapping[str, int] = field(default_factory=dict)
    foreign_gpus: Mapping[str, int] = field(default_factory=dict)
    """GPUs that pods of no claim hold, per namespace: in the way of growth, and no order to anybody to shrink."""

    def over(self, namespace: str) -> tuple[Key, ...]:
        """The budgets over a namespace: its name, and None for the cluster's."""
        own = (namespace,) if namespace in self.namespace_gpus else ()
        return own if self.cluster_gpus is None else (*own, None)

    def gpus(self) -> dict[Key, int]:
        """Every budget by its key."""
        whole: dict[Key, int] = {} if self.cluster_gpus is None else {None: self.cluster_gpus}
        return whole | dict(self.namespace_gpus.items())

    def foreign(self, key: Key) -> int:
        """What pods of no claim hold of a budget."""
        return self.foreign_gpus.get(key, 0) if key is not None else sum(self.foreign_gpus.values())

    def left(self, held: Mapping[Key, int]) -> dict[Key, int]:
        """Every budget less what is foreign, but no less than what is `held` within it by claims."""
        return {key: max(gpus - self.foreign(key), min(gpus, held.get(key, 0))) for key, gpus in self.gpus().items()}


@dataclass(frozen=True, slots=True)
class Cut:
    """Why a share is less than was wanted or held."""

    namespace: Key
    """Whose budget it is; None is the cluster."""
    budget_gpus: int
    gpus_by_rank: tuple[tuple[int, int], ...]
    """(rank, GPUs that its workloads should have) of the ranks served before this one, where they have any."""
    peers: int
    """Workloads of the same rank under this budget."""
    yielding_gpus: int
    """GPUs that come free when those who give way have done so."""
    yielding: tuple[str, ...]
    """Those who give way, most important first."""
    foreign_gpus: int = 0
    """What pods of no claim hold of the budget."""


@dataclass(frozen=True, slots=True)
class Share:
    """The most replicas a workload may have now, and why that is less than it wants or holds, if it is."""

    limit: int
    cut: Cut | None = None


def share(claims: Sequence[Claim], budgets: Budgets) -> dict[str, Share]:
    """The share of every claim that a budget covers, by workload.

    While no budget was exceeded none will be: what is held, granted or foreign stays within each. Where more is held
    than a budget has, nobody grows under it, and unknown demand counts as a want of what is held. Each workload once.
    """
    cases = [_Case.of(claim, keys) for claim in claims if (keys := budgets.over(claim.namespace))]
    cases.sort(key=lambda case: (case.claim.rank, case.claim.workload))
    held = Counter[Key]()
    for case in cases:
        held.update(dict.fromkeys(case.keys, case.held * case.gpus_per_replica))
    left = budgets.left(held)
    free = Rooms({key: gpus - held[key] for key, gpus in left.items()})
    _settle(cases, Rooms(left), frozenset(key for key, gpus in free.gpus.items() if gpus < 0))
    blocked = _grow(cases, free)
    _hand_out(cases, free, blocked)
    under = _under(cases)
    return {case.claim.workload: Share(case.limit, _cut(case, budgets, under, blocked)) for case in cases}


@dataclass(slots=True)
class _Case:
    """A claim on its way to its share, in replicas."""

    claim: Claim
    keys: tuple[Key, ...]
    """The budgets over it."""
    want: int
    due: int = 0
    """What it should have."""
    limit: int = 0
    """What it may have now."""
    refused_by: tuple[Key, ...] = ()
    """The budgets that had no room for another replica, in the order in which they said so."""

    @property
    def gpus_per_replica(self) -> int:
        return self.claim.gpus_per_replica

    @property
    def held(self) -> int:
        return self.claim.held

    @classmethod
    def of(cls, claim: Claim, keys: tuple[Key, ...]) -> "_Case":
        return cls(claim, keys, max(claim.floor, claim.held if claim.wanted is None else claim.wanted))

    def refused(self, rooms: Rooms) -> None:
        """Remember which budgets have no room for another replica."""
        self.refused_by += tuple(key for key in rooms.refusing(self) if key not in self.refused_by)

    def roomy(self) -> int:
        """The limit it should have where there is room: its present one unless that is below its want."""
        present = self.claim.present
        return present if present is not None and present >= self.want else self.want + max(1, self.want // ROOM_PART)

    def goal(self, stage: str) -> int:
        """The count that a stage brings it to at most."""
        return {"floor": self.claim.floor, "want": self.want, "held": self.claim.held}[stage]


def _settle(cases: list[_Case], rooms: Rooms, exceeded: frozenset[Key]) -> None:
    """Settle what everybody should have: what cannot be taken, then floors, wants, and what is left to its holders."""
    for case in cases:
        claim = case.claim
        if not claim.gives_way or (claim.wanted is None and exceeded.isdisjoint(case.keys)):
            case.due = claim.held
            rooms.take(case, claim.held)
    for stage in ("floor", "want", "held"):
        for peers in _by_rank(cases):
            goals = [case.goal(stage) for case in peers]
            for case, goal, due in zip(peers, goals, rooms.fill(peers, [c.due for c in peers], goals), strict=True):
                case.due = due
                if due < goal:
                    case.refused(rooms)


def _grow(cases: list[_Case], free: Rooms) -> dict[Key, int]:
    """Grant growth out of what is free; return the most important rank that each budget refused something."""
    for case in cases:
        case.limit = min(case.due, case.held)
    blocked: dict[Key, int] = {}
    for stage in ("floor", "want"):
        for peers in _by_rank(cases):
            rank = peers[0].claim.rank
            able = [case for case in peers if all(blocked.get(key, rank) >= rank for key in case.keys)]
            goals = [min(case.due, case.goal(stage)) for case in able]
            for case, goal, limit in zip(able, goals, free.fill(able, [c.limit for c in able], goals), strict=True):
                case.limit = limit
                if limit < goal:
                    case.refused(free)
            for case in peers:
                if case.limit < case.goal(stage):
                    blocked |= {key: min(blocked.get(key, rank), rank) for key in case.refused_by}
    return blocked


def _hand_out(cases: list[_Case], free: Rooms, blocked: Mapping[Key, int]) -> None:
    """Hand out what is still free, where nobody was refused, as room above wants that are known."""
    for peers in _by_rank(cases):
        sated = [case for case in peers if case.claim.wanted is not None and case.limit >= case.want]
        able = [case for case in sated if blocked.keys().isdisjoint(case.keys)]
        goals = [case.roomy() for case in able]
        for case, limit in zip(able, free.fill(able, [c.limit for c in able], goals), strict=True):
            case.limit = limit


def _by_rank(cases: Sequence[_Case]) -> Iterator[list[_Case]]:
    """Cases of one rank after the other; they are sorted by rank."""
    for _, peers in groupby(cases, key=lambda case: case.claim.rank):
        yield list(peers)


@dataclass(slots=True)
class _Under:
    """What stands under one budget, for explaining: GPUs due and workloads by rank, and who gives way."""

    due_gpus: Counter[int] = field(default_factory=Counter)
    workloads: Counter[int] = field(default_factory=Counter)
    yielding: tuple[str, ...] = ()
    yielding_gpus: int = 0


def _under(cases: Sequence[_Case]) -> dict[Key, _Under]:
    under: defaultdict[Key, _Under] = defaultdict(_Under)
    yielding: defaultdict[Key, list[str]] = defaultdict(list)
    for case in cases:
        for key in case.keys:
            found = under[key]
            found.due_gpus[case.claim.rank] += case.due * case.gpus_per_replica
            found.workloads[case.claim.rank] += 1
            if case.limit < case.held:
                yielding[key].append(case.claim.workload)
                found.yielding_gpus += (case.held - case.limit) * case.gpus_per_replica
    for key, names in yielding.items():
        under[key].yielding = tuple(names)
    return under


def _cut(case: _Case, budgets: Budgets, under: Mapping[Key, _Under], blocked: Mapping[Key, int]) -> Cut | None:
    if case.limit >= max(case.want, case.held):
        return None
    key = (case.refused_by or tuple(key for key in case.keys if key in blocked))[0]
    found, rank = under[key], case.claim.rank
    return Cut(
        namespace=key,
        budget_gpus=budgets.namespace_gpus[key] if key is not None else budgets.cluster_gpus or 0,
        gpus_by_rank=tuple((r, gpus) for r, gpus in sorted(found.due_gpus.items()) if r < rank and gpus > 0),
        peers=found.workloads[rank],
        yielding_gpus=found.yielding_gpus,
        yielding=found.yielding,
        foreign_gpus=budgets.foreign(key),
    )
