"""What one look at batch work says of each gang and each queue: the values that pages, tables and metrics are made of.

Enters: nothing; the batch room of the live driver fills these after each cycle. They are frozen and know no core: GPUs
are units of a shape, instants epoch seconds, reasons the names of the core's. None means not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

KINDS: Final = ("job", "jobset", "trainjob", "pytorchjob", "tfjob", "pod", "podgroup")
"""Kinds of objects that are admitted, as names of gangs spell them."""

MOST_GANGS: Final = 500
"""Gangs that are told of without being asked for: the first of each queue, then those that hold GPUs."""


class GangState(Enum):
    """Where a gang stands."""

    REFUSED = "refused"
    """It cannot be taken in as it stands; `text` says why and what to do."""
    WAITING = "waiting"
    STARTING = "starting"
    """Admitted; not all of its pods run yet."""
    RUNNING = "running"
    LEAVING = "leaving"
    """Asked to leave; it holds its GPUs still."""
    FOREIGN = "foreign"
    """Somebody else manages it; Headroom only counts what it wants."""


@dataclass(frozen=True, slots=True)
class ChangeTold:
    """One thing that would let a gang start: `units` more at `where`, a queue, shape or level; `reason` as a word."""

    reason: str
    where: str
    units: int


@dataclass(frozen=True, slots=True)
class AwaitedTold:
    """Units of a node that is on its way, on which an expected start counts."""

    node: str
    shape: str
    units: int
    due_s: float
    """When the node is expected."""


@dataclass(frozen=True, slots=True)
class GangTold:
    """One gang now."""

    kind: str
    """The object's kind, such as Job."""
    namespace: str
    name: str
    queue: str
    state: GangState
    pods: int
    units: tuple[tuple[str, int], ...]
    """(shape, units), all pods together."""
    created_s: float
    reason: str = ""
    """Why it waits, was admitted, gives way or is refused: the name of a `BatchReason`, or a word of the reader's."""
    detail: str = ""
    """Of a refusal: field, value and remedy. Of a foreign gang: who manages it."""
    position: int | None = None
    """Its place in its queue while it waits; 1 is the first."""
    changes: tuple[ChangeTold, ...] = ()
    start_p50_s: float | None = None
    """When it is expected to start."""
    start_p90_s: float | None = None
    awaits: tuple[AwaitedTold, ...] = ()
    """What that counts on of nodes that are on their way."""
    started_s: float | None = None
    """When it was admitted."""
    end_p50_s: float | None = None
    """When it is expected to end."""
    lent_units: int = 0
    """Of its units, those that serving may recall."""
    lenders: tuple[str, ...] = ()
    """The WarmPools that lent them."""
    nodes: tuple[str, ...] = ()
    """Where it runs, or will."""
    evictions: int = 0
    """How often it was asked to leave."""
    most_pods: int | None = None
    """As many as it may have; None for one that starts with as many as are written."""
    narrow: ChangeTold | None = None
    """Of one that was let in with fewer: what one more pod would have taken; None where that is not known."""
    remarks: tuple[str, ...] = ()
    """What a person should know and what stops nothing, a sentence each."""

    @property
    def key(self) -> str:
        """Kind, namespace and name, which nobody else has."""
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ShapeTold:
    """A queue's use of one shape, all below it included; units."""

    shape: str
    guaranteed: int
    limit: int | None
    """None: as many as there are."""
    used: int
    wanted: int
    """Units that its gangs wait for."""


@dataclass(frozen=True, slots=True)
class QueueTold:
    """One queue now."""

    name: str
    parent: str | None
    weight: float
    share_ratio: float | None
    """Its dominant share of the cluster divided by its weight."""
    waiting: int
    running: int
    shapes: tuple[ShapeTold, ...]
    namespaces: tuple[str, ...] = ()
    used_gpu_s: float = 0.0
    """Decayed GPU-seconds."""
    findings: tuple[tuple[str, str], ...] = ()
    """(code, words) of what is wrong with it among the others."""
    served: bool = True
    """Whether it is part of the tree."""
    held: bool = False
    """Whether it is served as before its last change, because the change contradicts others."""
    untaken: int = 0
    """Gangs of it that are not looked at, because more are there than are taken in."""
    taken_most: int = 0
    """How many gangs of all queues are taken in."""
    head_age_s: float | None = None
    """Since its first gang that waits was made; None where none waits."""
    head_late_s: float | None = None
    """By how much that gang waits longer than it was first told in nine of ten cases; None where nothing was told."""


@dataclass(frozen=True, slots=True)
class OwnersTold:
    """Who owns the units of one shape; they add up to all there are."""

    shape: str
    serving: int = 0
    standby: int = 0
    batch: int = 0
    loan: int = 0
    reserved: int = 0
    foreign: int = 0
    unavailable: int = 0
    free: int = 0
    whole_free: int = 0
    """Of the free units, those on nodes that are wholly free."""


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """What happened since the process began."""

    admitted: tuple[tuple[str, int], ...] = ()
    """(reason, gangs)."""
    evicted: tuple[tuple[str, int], ...] = ()
    """(reason, gangs)."""
    lost_gpu_s: float = 0.0
    """Work lost to evictions, in GPU-seconds of the reference GPU."""
    write_failures: int = 0
    recalls: int = 0
    """Gangs that were called back and are gone."""
    recall_s: float = 0.0
    """How long they took to be gone, all together."""
    return_gpu_s: float = 0.0
    """Units that were called back, times how much later serving had them than idle ones, in GPU-seconds."""


@dataclass(frozen=True, slots=True)
class BatchTold:
    """All of batch after one look."""

    now_s: float
    acting: bool
    """Whether what is decided is carried out."""
    idle_reason: str = ""
    """Why it is not: a sentence."""
    unread: int = 0
    """Lists that cannot be read now and without which nothing is admitted."""
    queues: tuple[QueueTold, ...] = ()
    """Parents before children."""
    gangs: tuple[GangTold, ...] = ()
    """As many as `MOST_GANGS`; queues count all."""
    waiting: tuple[tuple[str, int], ...] = ()
    """(reason, gangs): how many of all that wait, wait for what."""
    refused: tuple[tuple[str, int], ...] = ()
    """(reason, gangs): how many cannot be taken in as they stand, and why."""
    owners: tuple[OwnersTold, ...] = ()
    untaken: int = 0
    """Gangs that are not looked at, those of no queue included."""
    counts: BatchCounts = BatchCounts()
    cycle_s: float | None = None
    """How long the last cycle took."""
    remarks: tuple[str, ...] = ()
    """What cannot be read now and stops nobody else, a sentence each."""


class BatchBook(Protocol):
    """Whoever runs batch admission answers this from memory, at once."""

    def told(self) -> BatchTold | None:
        """The newest look; None before the first one, and where batch work is not admitted."""
        ...

    def find(self, kind: str, namespace: str | None, name: str) -> Sequence[GangTold]:
        """Gangs of this kind (as in `job`) and name, in one namespace or in all; whether told of above or not."""
        ...
