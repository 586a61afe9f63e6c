"""What waits: gangs of pods that start together or not at all, and why one may be refused at the door.

Enters: what an object asks for, already read. Leaves: a gang, or a refusal with its remedy. Two gangs of one form ask
for the same of the cluster, so that what is found out about one holds for the other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from autoscaler.core.batch.params import PER_DEVICE, BatchParams
from autoscaler.core.batch.reasons import BatchReason

MAX_PODS: Final = 16_384
"""Pods of one gang; above it a request is taken for a mistake."""

MAX_UNITS: Final = 1_048_576
"""Units of one gang; the same."""

NODE: Final = "node"
"""The level of single nodes, below those of the parameters."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of a gang."""

    pods: int
    units: int
    """Of the shape, for each pod."""
    shape: str
    cpu: float = 0.0
    """Cores for each pod."""
    memory_gib: float = 0.0
    share: int = 0
    """Thousandths of one device for each pod, 1 to 999; `units` is 0 then. 0 where whole units are asked for."""
    models: frozenset[str] = frozenset()
    """Models of the shape that will do; empty where any will."""

    @property
    def total_units(self) -> int:
        """Units of all pods."""
        return self.pods * self.units


@dataclass(frozen=True, slots=True)
class Topology:
    """Which domains a gang wants to be in. Levels are those of the parameters, and `node`."""

    required: str | None = None
    """All pods in one domain of this level, or the gang waits."""
    preferred: str | None = None
    """In one domain of this level where that is possible now, else in one of the next coarser level."""


@dataclass(frozen=True, slots=True)
class Form:
    """All that decides where a gang fits."""

    pod_sets: tuple[PodSet, ...]
    topology: Topology = Topology()

    def units(self) -> dict[str, int]:
        """Units by shape."""
        totals: dict[str, int] = {}
        for each in self.pod_sets:
            totals[each.shape] = totals.get(each.shape, 0) + each.total_units
        return totals

    @property
    def has_shares(self) -> bool:
        """Whether one of its pods asks for a share of a device."""
        return any(each.share for each in self.pod_sets)

    def in_whole_units(self) -> "Form":
        """The same with a whole device for each share: wherever this fits, the form does."""
        if not self.has_shares:
            return self
        sets = [replace(each, units=1, share=0) if each.share else each for each in self.pod_sets]
        return replace(self, pod_sets=tuple(sets))


@dataclass(frozen=True, slots=True)
class Brand:
    """All that decides whether a gang may start; gangs of one brand in one queue are equal but for their rank."""

    form: Form
    loan: tuple[float | None, ...] | None
    """What a loan is weighed by: notice, what the gang says of its duration, restart; None where it borrows nothing."""
    expected_s: float

    @property
    def lendable(self) -> bool:
        """Whether it may run on GPUs that serving lends."""
        return self.loan is not None


@dataclass(frozen=True, slots=True)
class Elastic:
    """How many pods one set of a gang may have; which of them is chosen when it starts, and stays until it stops."""

    pod_set: int
    """The set, by number."""
    least: int
    most: int
    written: int
    """As many as its author wrote, for which it says how long it runs."""


@dataclass(frozen=True, slots=True)
class Gang:
    """One gang. Instants are seconds of the one origin."""

    name: str
    queue: str
    form: Form
    created_s: float
    priority: int = -1
    expected_s: float | None = None
    """How long it says it runs, as wide as it was written; None where it does not."""
    min_runtime_s: float = 0.0
    """The longer of this and its queue's is its lease."""
    checkpoint_s: float | None = None
    """When it last wrote a checkpoint; None counts as its start."""
    notice_s: float = 30.0
    """What it needs from the notice to its end, a checkpoint included."""
    restart_s: float | None = None
    """From an eviction to work again; None where it does not say."""
    importance: float = 1.0
    """What a second of its work counts beside an ordinary gang's, where it is weighed against others: its tier's."""
    lendable: bool = False
    """Whether it may run on GPUs that serving lends, and be recalled at any time."""
    recallable: bool = True
    """Whether anybody can make it leave once it runs: one that nobody can gives way to nobody, and borrows nothing."""
    elastic: Elastic | None = None
    """None for one that is as wide as its form says. While it waits its form is the narrowest that it may have."""

    @property
    def width(self) -> int:
        """Pods of its elastic set, or of all sets where none is elastic."""
        if self.elastic is None:
            return sum(each.pods for each in self.form.pod_sets)
        return self.form.pod_sets[self.elastic.pod_set].pods

    @property
    def stretch(self) -> float:
        """How many times as long it runs as it says: fewer pods than were written do the same work, more do more."""
        return 1.0 if self.elastic is None else max(1.0, self.elastic.written / max(1, self.width))

    @property
    def lasts_s(self) -> float | None:
        """How long it runs as wide as it is; None where it does not say."""
        return None if self.expected_s is None else self.expected_s * self.stretch

    def at_width(self, pods: int) -> "Gang":
        """The gang with so many pods in its elastic set; itself where it has none."""
        if self.elastic is None or pods == self.width:
            return self
        sets, at = list(self.form.pod_sets), self.elastic.pod_set
        sets[at] = replace(sets[at], pods=pods)
        return replace(self, form=replace(self.form, pod_sets=tuple(sets)))

    def narrowest(self) -> "Gang":
        """The gang as it waits."""
        return self if self.elastic is None else self.at_width(self.elastic.least)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a gang is not taken in."""

    reason: BatchReason
    what: str
    """The field with its value."""
    remedy: str


def refusal(gang: Gang, params: BatchParams, leaves: Mapping[str, int]) -> Refusal | None:
    """Why the gang cannot be taken in; None where it can. `leaves` are the queues without children."""
    if gang.queue not in leaves:
        inner = any(queue.name == gang.queue for queue in params.queues)
        remedy = "name a queue below it" if inner else "make the queue, or name one that is there"
        return Refusal(BatchReason.UNKNOWN_QUEUE, f"queue {gang.queue!r}", remedy)
    if gang.priority >= params.serving_priority:
        below = f"give it a PriorityClass below {params.serving_priority}"
        return Refusal(BatchReason.PRIORITY, f"priority {gang.priority} is not below serving's", below)
    if not math.isfinite(gang.created_s):
        return Refusal(BatchReason.ABSURD, f"created {gang.created_s}", "give a finite time")
    if not (math.isfinite(gang.importance) and gang.importance > 0):
        return Refusal(BatchReason.ABSURD, f"importance {gang.importance}", "give more than 0")
    for name in ("expected_s", "min_runtime_s", "notice_s", "restart_s"):
        value = getattr(gang, name)
        if value is not None and not (math.isfinite(value) and value >= 0):
            return Refusal(BatchReason.ABSURD, f"{name} {value}", "give 0 s or more")
    if gang.elastic is not None:
        fault = _width_refusal(gang, gang.elastic)
        if fault is not None:
            return fault
        return _form_refusal(gang.at_width(gang.elastic.most).form, params) or _form_refusal(gang.form, params)
    return _form_refusal(gang.form, params)


def _width_refusal(gang: Gang, elastic: Elastic) -> Refusal | None:
    if not 0 <= elastic.pod_set < len(gang.form.pod_sets):
        return Refusal(BatchReason.ABSURD, f"elastic pod set {elastic.pod_set}", "name a set that the gang has")
    if not 1 <= elastic.least <= elastic.most:
        remedy = f"give 1 to {MAX_PODS}, the least first"
        return Refusal(BatchReason.ABSURD, f"a width of {elastic.least} to {elastic.most} pods", remedy)
    return None


def _form_refusal(form: Form, params: BatchParams) -> Refusal | None:
    known = {shape.name for shape in params.shapes}
    shared = {shape.name for shape in params.shapes if shape.shared}
    if not form.pod_sets:
        return Refusal(BatchReason.ABSURD, "no pod set", "ask for at least one pod")
    for at, each in enumerate(form.pod_sets):
        of = f"pod_sets[{at}]"
        if each.shape not in known:
            return Refusal(BatchReason.UNKNOWN_SHAPE, f"{of}.shape {each.shape!r}", f"name one of {sorted(known)}")
        if not 1 <= each.pods <= MAX_PODS:
            return Refusal(BatchReason.ABSURD, f"{of}.pods {each.pods}", f"ask for 1 to {MAX_PODS}")
        if (each.share or each.models) and each.shape not in shared:
            what = f"{of}.share {each.share}" if each.share else f"{of}.models {sorted(each.models)}"
            remedy = f"ask for whole units of any model, or of a shape that is shared; {each.shape} is not"
            return Refusal(BatchReason.ABSURD, what, remedy)
        if each.share and not (1 <= each.share < PER_DEVICE and each.units == 0):
            what = f"{of}.share {each.share} beside {each.units} units"
            return Refusal(BatchReason.ABSURD, what, f"ask for 1 to {PER_DEVICE - 1} thousandths and 0 units")
        if not each.share and (not 1 <= each.units <= MAX_UNITS or each.total_units > MAX_UNITS):
            return Refusal(BatchReason.ABSURD, f"{of}.units {each.units}", f"ask for 1 to {MAX_UNITS} in all")
        if not all(math.isfinite(value) and value >= 0 for value in (each.cpu, each.memory_gib)):
            return Refusal(BatchReason.ABSURD, f"{of} cpu {each.cpu}, memory {each.memory_gib}", "give 0 or more")
    levels = (*params.levels, NODE)
    for level in (form.topology.required, form.topology.preferred):
        if level is not None and level not in levels:
            return Refusal(BatchReason.UNKNOWN_LEVEL, f"topology {level!r}", f"name one of {', '.join(levels)}")
    asked = sorted({each.shape for each in form.pod_sets})
    if form.topology.required == NODE and len(asked) > 1:
        what = f"all pods on one node, of the shapes {' and '.join(asked)}"
        return Refusal(BatchReason.ABSURD, what, "ask for one shape, or require a rack or an island")
    return None
