"""What a batch simulation is about: a cluster, its tenants, and the jobs that they submit.

Enters: values that a reader or a generator made. Leaves: a case that can be run, or an InputError that names the job,
the figure and the remedy. It knows no policy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from autoscaler.core.batch.estate import NodeSeen
from autoscaler.errors import InputError

MOST_JOBS = 1_000_000


@dataclass(frozen=True, slots=True)
class Job:
    """One gang of equal pods."""

    name: str
    tenant: str
    submit_s: float
    pods: int
    gpus: int
    """Of each pod; a pod is on one node."""
    duration_s: float
    """How long it works; known to the plant alone."""
    expected_s: float
    """How long it says that it works: all that a policy is told."""
    shape: str = "gpu"
    priority: int = -1

    @property
    def total_gpus(self) -> int:
        """GPUs of the whole gang."""
        return self.pods * self.gpus


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who submits, and what is theirs."""

    name: str
    guaranteed: int = 0
    """GPUs that others give back when it wants them."""
    borrowable: int | None = None
    """GPUs beyond these that it may use; None for all there are."""
    cohort: str | None = None
    """Whom it borrows from; None for everybody. A cohort uses what its tenants are guaranteed, no more."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What becomes of a gang that is evicted."""

    notice_s: float = 30.0
    """From the notice until it has left; it does no work that counts meanwhile."""
    restart_s: float = 120.0
    """From its next start until it works on."""
    checkpoint_every_s: float | None = None
    """How often it saves its work; it saves on notice too. None: it begins anew."""


@dataclass(frozen=True)
class Case:
    """One cluster and all that is submitted to it. InputError where no policy could ever run a job."""

    label: str
    nodes: tuple[NodeSeen, ...]
    tenants: tuple[Tenant, ...]
    jobs: tuple[Job, ...]
    """By the time they are submitted at."""
    recovery: Recovery = Recovery()
    grace_s: float = 60.0
    """How long a gang waits before what its tenant is guaranteed is worth any cost to others."""

    def __post_init__(self) -> None:
        if not self.nodes or not self.jobs:
            raise InputError(f"{self.label}: {len(self.nodes)} nodes and {len(self.jobs)} jobs; give some of both")
        if len(self.jobs) > MOST_JOBS:
            raise InputError(f"{self.label}: {len(self.jobs)} jobs; give at most {MOST_JOBS}, or fewer days")
        tenants = {tenant.name for tenant in self.tenants}
        free: dict[str, list[int]] = {}
        for node in self.nodes:
            free.setdefault(node.shape, []).append(node.units)
        seen: set[str] = set()
        before_s = -math.inf
        for job in self.jobs:
            of = f"{self.label}: job {job.name}"
            if job.name in seen:
                raise InputError(f"{of}: stands twice; give each its own name")
            seen.add(job.name)
            if job.tenant not in tenants:
                raise InputError(f"{of}: its tenant {job.tenant!r} is not among the tenants; add it")
            if not before_s <= job.submit_s < math.inf:
                raise InputError(f"{of}: submitted at {job.submit_s} s after one at {before_s} s; sort by that time")
            before_s = job.submit_s
            if not all(math.isfinite(each) and each > 0 for each in (job.duration_s, job.expected_s)):
                raise InputError(f"{of}: runs {job.duration_s} s, says {job.expected_s} s; give more than 0")
            if job.pods < 1 or job.gpus < 1:
                raise InputError(f"{of}: {job.pods} pods of {job.gpus} GPUs; give 1 or more of both")
            if sum(units // job.gpus for units in free.get(job.shape, ())) < job.pods:
                raise InputError(
                    f"{of}: {job.pods} pods of {job.gpus} {job.shape} have no room in the whole cluster; "
                    "leave it out, or give more nodes"
                )

    @cached_property
    def gpus(self) -> dict[str, int]:
        """GPUs of the cluster by shape."""
        out: dict[str, int] = {}
        for node in self.nodes:
            out[node.shape] = out.get(node.shape, 0) + node.units
        return out

    @cached_property
    def total_gpus(self) -> int:
        """GPUs of the cluster."""
        return sum(self.gpus.values())

    def of_shape(self, shape: str) -> list[Job]:
        """The jobs that ask for a shape."""
        return [job for job in self.jobs if job.shape == shape]

    @property
    def load_ratio(self) -> float:
        """GPU-seconds asked for over GPU-seconds that there are while jobs are submitted."""
        span_s = self.jobs[-1].submit_s - self.jobs[0].submit_s
        return sum(job.total_gpus * job.duration_s for job in self.jobs) / max(self.total_gpus * span_s, 1e-9)


def racks(count: int, *, per_rack: int = 16, units: int = 8, shape: str = "gpu") -> tuple[NodeSeen, ...]:
    """Equal nodes in racks."""
    return tuple(NodeSeen(f"n{at}", shape, units, (f"r{at // per_rack}", f"i{at}")) for at in range(count))


def cluster_of(gpus: int, shape: str = "gpu") -> tuple[NodeSeen, ...]:
    """Nodes of 8 GPUs; the last one has what is left over."""
    whole, rest = divmod(gpus, 8)
    nodes = racks(whole, shape=shape)
    return (*nodes, NodeSeen(f"n{whole}", shape, rest, (f"r{whole // 16}", f"i{whole}"))) if rest else nodes


def scaled(guarantees: dict[str, int], names: Sequence[str], gpus: int) -> tuple[Tenant, ...]:
    """Tenants whose guarantees are shares of these GPUs in proportion, whole and in all at most `gpus`.

    A tenant that is not in the list is guaranteed nothing.
    """
    mine = {name: guarantees.get(name, 0) for name in names}
    total = sum(mine.values())
    return tuple(Tenant(name, gpus * share // total if total else 0) for name, share in mine.items())
