"""Answers of the live controller to questions over HTTP, as values that become JSON.

Enters: a question, already taken apart. Leaves: an answer of bounded size, or `RefusedError` with an HTTP status, what
is wrong and what to do. A replica that does not lead knows no figures: it answers the status without them, and refuses
the rest with the leader's name, because nothing is not the same as zero.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from autoscaler.errors import HeadroomError
from autoscaler.ports import Clock
from autoscaler.record.board import Board, Explanation
from autoscaler.record.metrics import Process
from autoscaler.record.pool_status import PoolLine, PoolStatus, pool_line
from autoscaler.record.status import (
    About,
    OverloadStatus,
    Rejected,
    WorkloadStatus,
    not_scaled,
    overload_status,
    workload_status,
)

MOST_ROWS: Final = 1000
"""Workloads in one answer, half a megabyte; the rest is asked for with `after`."""

MOST_REJECTED: Final = 100
"""Objects that ask in vain, in one answer; their number is always told."""


class RefusedError(HeadroomError):
    """A question that is not answered: an HTTP status and what the answer says instead."""

    def __init__(self, status: int, error: str, **more: Any) -> None:
        super().__init__(error)
        self.status = status
        self.content = {"error": error, "status": status, **more}

    @classmethod
    def not_leading(cls, process: Process) -> Self:
        """For questions that only the leader can answer."""
        leader = process.holder or None
        words = f"{leader} does; ask there" if leader else "nobody does now; ask again in a few seconds"
        return cls(503, f"this replica does not lead, {words}", leader=leader, address=process.holder_address or None)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Replica:
    """Who answers."""

    identity: str
    version: str
    config_hash: str
    leading: bool | None
    holder: str
    """Who leads; empty where nobody does."""
    frozen: bool | None
    not_ready: tuple[str, ...]
    frozen_why: str = ""
    """The words with which everything was frozen."""


@dataclass(frozen=True, slots=True)
class Status:
    """Workloads in the order of their names, from `after` on; `next` is to be given as `after` for the rest."""

    now_s: float
    replica: Replica
    total: int
    workloads: tuple[WorkloadStatus, ...]
    next: str | None
    rejected_total: int
    rejected: tuple[Rejected, ...]
    """Who asks to be scaled in vain, as many as fit."""
    pools: tuple[PoolLine, ...] = ()
    """The warm pools."""


@dataclass(frozen=True, slots=True)
class Overloads:
    """What gateways are told, in the order of the names; `next` as in `Status`."""

    now_s: float
    workloads: tuple[OverloadStatus, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class _Range:
    names: tuple[str, ...]
    total: int
    next: str | None


class Asked:
    """Answers questions about workloads from what the process knows."""

    def __init__(
        self,
        *,
        clock: Clock,
        board: Board,
        process: Callable[[], Process],
        workloads: Callable[[], Mapping[str, About]],
        not_ready: Callable[[], tuple[str, ...]],
        rejected: Callable[[], Sequence[Rejected]],
        pools: Callable[[], Sequence[PoolStatus]] = tuple,
    ) -> None:
        self._clock = clock
        self._board = board
        self._process = process
        self._workloads = workloads
        self._not_ready = not_ready
        self._rejected = rejected
        self._pools = pools

    def status(self, query: Mapping[str, str]) -> Status:
        """What every workload needs, has and is getting; `limit`, `after` and `namespace` may narrow it."""
        known, now_s, process = self._workloads(), self._clock.now(), self._process()
        chosen = _range(known, query)
        rows = tuple(
            workload_status(name, known[name], self._board.frame(name), self._board.act(name), now_s)
            for name in chosen.names
        )
        replica = Replica(
            identity=process.identity,
            version=process.version,
            config_hash=process.config_hash,
            leading=process.leading,
            holder=process.holder,
            frozen=process.frozen,
            not_ready=self._not_ready(),
            frozen_why=process.frozen_why,
        )
        rejected = self._rejected()
        told = tuple(rejected[:MOST_REJECTED])
        pools = tuple(pool_line(pool) for pool in self._pools())
        return Status(now_s, replica, chosen.total, rows, chosen.next, len(rejected), told, pools)

    def explain(self, workload: str) -> Explanation:
        """Why a workload stands where it stands."""
        return self._board.explanation(workload, self._known(workload), self._clock.now())

    def overload(self, workload: str) -> OverloadStatus:
        """What the gateway of one workload may let through."""
        self._known(workload)
        return overload_status(workload, self._board.frame(workload), self._clock.now())

    def overloads(self, query: Mapping[str, str]) -> Overloads:
        """The same of every workload; `limit`, `after` and `namespace` may narrow it."""
        self._lead()
        now_s, chosen = self._clock.now(), _range(self._workloads(), query)
        told = tuple(overload_status(name, self._board.frame(name), now_s) for name in chosen.names)
        return Overloads(now_s, told, chosen.next)

    def of_leader(self, answer: Callable[[], T]) -> T:
        """What only the replica that leads can say."""
        self._lead()
        return answer()

    def _known(self, workload: str) -> About:
        self._lead()
        about = self._workloads().get(workload)
        if about is None:
            raise RefusedError(404, not_scaled(workload, self._rejected()))
        return about

    def _lead(self) -> None:
        process = self._process()
        if process.leading is False:
            raise RefusedError.not_leading(process)


def _range(known: Mapping[str, About], query: Mapping[str, str]) -> _Range:
    """The names that a query asks for. Raises RefusedError for one that cannot be understood."""
    strange = sorted(query.keys() - {"limit", "after", "namespace"})
    if strange:
        raise RefusedError(400, f"{strange[0][:60]!r} is no parameter; give limit, after or namespace")
    limit = query.get("limit", str(MOST_ROWS))
    if not (limit.isdecimal() and len(limit) < 9 and 1 <= int(limit) <= MOST_ROWS):
        raise RefusedError(400, f"limit {limit[:20]!r} is out of range; give 1..{MOST_ROWS}")
    namespace, after = query.get("namespace"), query.get("after", "")
    names = sorted(name for name in known if namespace is None or name.partition("/")[0] == namespace)
    left = [name for name in names if name > after]
    shown = tuple(left[: int(limit)])
    return _Range(shown, len(names), shown[-1] if len(left) > len(shown) else None)
