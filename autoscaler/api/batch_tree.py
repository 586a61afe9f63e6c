"""The BatchQueues of a cluster as one tree for the core, with every contradiction between them as a finding.

Enters: the spec of each queue or its fault, the spec that it was served by before, the administrator's shapes. Leaves:
queues that the core takes as they are, the namespaces that may use each, and findings with code, field and remedy.
One queue never stops the others: a queue that cannot be served as it stands is served as before its last change, and
left out with all below it where there was no before. Guarantees that a parent cannot keep are cut in proportion.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.api.batch_findings import TreeCode, TreeFinding
from autoscaler.api.batch_guarantees import Guarantees
from autoscaler.api.batch_queue import BatchQueueSpec, ShapeQuota
from autoscaler.api.shapes import Shape
from autoscaler.core.batch import params as core

MOST_DEPTH: Final = 8
"""Queues from the top to a leaf."""


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """One BatchQueue: its spec, or why it cannot be read."""

    spec: BatchQueueSpec | None
    created_s: float = 0.0
    fault: str = ""
    """Why there is no spec: field, value and remedy."""


@dataclass(frozen=True, slots=True)
class Tree:
    """What is served."""

    specs: Mapping[str, BatchQueueSpec]
    """By queue, as it is served: now or before."""
    queues: tuple[core.QueueSpec, ...]
    """The same for the core; without any there is nothing to serve."""
    namespaces: Mapping[str, str]
    """Namespace -> the queue that names it; it may use that one and those below it."""
    findings: tuple[TreeFinding, ...] = ()
    held: frozenset[str] = frozenset()
    """Queues that are served as before their last change."""

    def of(self, queue: str) -> tuple[TreeFinding, ...]:
        """What was found about one queue."""
        return tuple(finding for finding in self.findings if finding.queue == queue)

    def admits(self, namespace: str, queue: str) -> bool:
        """Whether work of a namespace may name a queue."""
        at: str | None = queue
        while at is not None and at in self.specs:
            if self.namespaces.get(namespace) == at:
                return True
            at = self.specs[at].parent
        return False


def tree_of(
    seen: Mapping[str, QueueSeen], shapes: Mapping[str, Shape], before: Mapping[str, BatchQueueSpec] | None = None
) -> Tree:
    """The tree of all queues. `before` are the specs that were served last, `Tree.specs`."""
    earlier = before or {}
    serving = {name: each.spec for name, each in seen.items() if each.spec is not None}
    found = [
        TreeFinding(name, TreeCode.INVALID, each.fault) for name, each in sorted(seen.items()) if each.spec is None
    ]
    held: set[str] = set()
    for name in [finding.queue for finding in found if finding.queue in earlier]:
        serving[name] = earlier[name]
        held.add(name)
    while faults := list(_misplaced(serving, shapes, seen)):
        # Who changed goes back first: whoever else stands in a circle with it may have done nothing.
        changed = [
            f for f in faults if f.queue not in held and earlier.get(f.queue, serving[f.queue]) != serving[f.queue]
        ]
        for fault in changed or faults:
            if not any(known.queue == fault.queue for known in found):
                found.append(fault)
            if changed:
                serving[fault.queue] = earlier[fault.queue]
                held.add(fault.queue)
            else:
                del serving[fault.queue]
                held.discard(fault.queue)
    guarantees = Guarantees(serving, found)
    namespaces = _namespaces(serving, seen, found)
    queues = tuple(_compiled(name, spec, guarantees.kept[name]) for name, spec in sorted(serving.items()))
    return Tree(serving, queues, namespaces, tuple(found), frozenset(held))


def compile_shapes(shapes: Mapping[str, Shape]) -> tuple[core.Shape, ...]:
    """The administrator's shapes as the core takes them, in the order of their names."""
    return tuple(core.Shape(name, shape.speed_ratio, shape.parts) for name, shape in sorted(shapes.items()))


def beyond_capacity(tree: Tree, units: Mapping[str, int]) -> tuple[TreeFinding, ...]:
    """Findings for the queues at the top where they are guaranteed more than there is; `units` are those by shape."""
    top = [queue for queue in tree.queues if queue.parent is None]
    promised: dict[str, int] = {}
    for queue in top:
        for shape, quota in queue.quotas.items():
            promised[shape] = promised.get(shape, 0) + quota.guaranteed
    return tuple(
        TreeFinding(
            queue.name,
            TreeCode.BEYOND_CAPACITY,
            f"spec.quotas[{shape}].guaranteed: all queues together are guaranteed {promised[shape]} of {shape} and the "
            f"cluster has {units.get(shape, 0)}; add nodes, or promise less",
        )
        for queue in top
        for shape, quota in sorted(queue.quotas.items())
        if quota.guaranteed > 0 and promised[shape] > units.get(shape, 0)
    )


def _differs(name: str, now: Mapping[str, BatchQueueSpec], before: Mapping[str, BatchQueueSpec]) -> bool:
    """Whether a queue was served, and by another spec than now."""
    return name in before and before[name] != now[name]


def _misplaced(
    serving: Mapping[str, BatchQueueSpec], shapes: Mapping[str, Shape], seen: Mapping[str, QueueSeen]
) -> Iterator[TreeFinding]:
    """Queues that cannot stand where they do; one finding each."""
    known = ", ".join(sorted(shapes)) or "none yet"
    for name, spec in sorted(serving.items()):
        strange = next((quota.shape for quota in spec.quotas if quota.shape not in shapes), None)
        path, circle = _path(name, serving)
        if strange is not None:
            words = f"spec.quotas: {strange!r} is not among the administrator's shapes ({known}); name one of them"
            yield TreeFinding(name, TreeCode.UNKNOWN_SHAPE, f"{words}, or ask for it to be added to the settings")
        elif spec.parent is not None and spec.parent not in seen:
            words = f"spec.parent: there is no BatchQueue {spec.parent!r}; make it, or leave the parent out"
            yield TreeFinding(name, TreeCode.UNKNOWN_PARENT, words)
        elif spec.parent is not None and spec.parent not in serving:
            words = f"spec.parent: {spec.parent!r} is not served, so that nothing below it is; see its conditions"
            yield TreeFinding(name, TreeCode.PARENT_LEFT_OUT, words)
        elif circle:
            words = f"spec.parent: the parents go in a circle: {' -> '.join([*path, name])}; leave one parent out"
            yield TreeFinding(name, TreeCode.CYCLE, words)
        elif len(path) > MOST_DEPTH:
            words = f"spec.parent: the queue stands {len(path)} deep; {MOST_DEPTH} is the most, give it another parent"
            yield TreeFinding(name, TreeCode.TOO_DEEP, words)


def _path(name: str, serving: Mapping[str, BatchQueueSpec]) -> tuple[list[str], bool]:
    """The queues from one up to the top, and whether they lead back to it."""
    path, at = [name], serving[name].parent
    while at is not None and at in serving and at not in path:
        path.append(at)
        at = serving[at].parent
    return path, at == name


def _namespaces(
    serving: Mapping[str, BatchQueueSpec], seen: Mapping[str, QueueSeen], found: list[TreeFinding]
) -> dict[str, str]:
    """Each namespace with its queue, the one that was made first where several name it."""
    of: dict[str, str] = {}
    for name in sorted(serving, key=lambda name: (seen[name].created_s, name)):
        for namespace in serving[name].namespaces:
            first = of.setdefault(namespace, name)
            if first != name:
                words = f"spec.namespaces: {namespace!r} stands in {first!r} already, which keeps it; strike it here"
                found.append(TreeFinding(name, TreeCode.NAMESPACE_TAKEN, words))
    inner = {spec.parent for spec in serving.values()}
    for name in sorted(serving.keys() - inner):
        if not any(serving[at].namespaces for at in _path(name, serving)[0]):
            words = "spec.namespaces: none here nor in a queue above, so that no work may use it; name one"
            found.append(TreeFinding(name, TreeCode.NO_NAMESPACE, words))
    return of


def _compiled(name: str, spec: BatchQueueSpec, kept: Mapping[str, int]) -> core.QueueSpec:
    return core.QueueSpec(
        name=name,
        parent=spec.parent,
        weight=spec.weight,
        quotas={quota.shape: _quota(quota, kept[quota.shape]) for quota in spec.quotas},
        order=spec.order,
        min_runtime_s=spec.min_runtime_s,
        grace_s=spec.preemption.grace_s,
        reclaims=spec.preemption.reclaims,
        preempts_own=spec.preemption.preempts_own,
    )


def _quota(quota: ShapeQuota, guaranteed: int) -> core.Quota:
    def most(value: int | None) -> int:
        return core.UNLIMITED if value is None else value

    return core.Quota(guaranteed, most(quota.limit), most(quota.lendable), most(quota.borrowable))
