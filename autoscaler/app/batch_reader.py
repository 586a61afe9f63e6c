"""Reads work as gangs, against the queues, shapes and nodes of now."""

from collections.abc import Mapping

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_nodes import BatchNode
from autoscaler.adapters.kube.batch_scope import Seen
from autoscaler.adapters.kube.batch_work import Work
from autoscaler.api.batch_tree import Tree
from autoscaler.api.shapes import Shape
from autoscaler.app.batch_gangs import Around, Unfit, gang_of
from autoscaler.app.guard import Guard
from autoscaler.core.batch.gangs import Gang
from autoscaler.runtime.isolation import Bug


class Reader:
    """Makes gangs of work; an object that meets a bug is unfit, and keeps nobody else from being read."""

    def __init__(self, cluster: BatchCluster, shapes: Mapping[str, Shape], tree: Tree, guard: Guard) -> None:
        self._cluster, self._shapes, self._tree, self._guard = cluster, shapes, tree, guard
        self._around = Around(tree, shapes, {})

    def note_nodes(self, seen: Seen) -> None:
        """Work is read against these nodes from now on."""
        by_shape: dict[str, list[BatchNode]] = {}
        for part in seen.parts.values():
            by_shape.setdefault(part.shape, []).append(part)
        nodes = {shape: tuple(parts) for shape, parts in by_shape.items()}
        if nodes != self._around.nodes:
            self._around = Around(self._tree, self._shapes, nodes)

    def read(self, work: Work) -> Gang | Unfit:
        """The gang that a piece of work asks for, or why it is none."""
        if not self._cluster.may_change(work.ref.namespace):
            return _elsewhere(work.ref.namespace)
        if work.overrides is not None and (why := self._cluster.trainjobs.unfollowed()):
            words = f"JobSets, by which its pods are known, {why}; let them be read (config/rbac/jobsets)"
            return Unfit("UNSEEN", words, waits=True)
        priority = self._cluster.priority(work.priority_class)
        unheld = self._cluster.unheld()
        gang = self._guard.attempt(work.name, lambda: self._read(work, priority, unheld))
        if isinstance(gang, Bug):
            return Unfit("BUG", f"a bug of Headroom's was met by this object: {gang.message}")
        return gang

    def _read(self, work: Work, priority: int | None, unheld: str) -> Gang | Unfit:
        displaces = self._cluster.displaces_slots(work.priority_class)
        return gang_of(work, self._around, priority, unheld=unheld, displaces=displaces)


def _elsewhere(namespace: str) -> Unfit:
    words = f"namespace {namespace!r} is none of the settings' watch_namespaces, outside which nothing is changed"
    return Unfit("NAMESPACE", f"{words}; have it added there, or take the label of the queue off")
