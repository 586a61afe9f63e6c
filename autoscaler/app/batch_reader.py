"""Reads work as gangs, against the queues, shapes and nodes of now; says what is another gang once nodes change."""

from collections.abc import Mapping

from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_nodes import BatchNode
from autoscaler.adapters.kube.batch_scope import Seen
from autoscaler.adapters.kube.batch_work import Work
from autoscaler.api.batch_tree import Tree
from autoscaler.api.shapes import Shape
from autoscaler.app.batch_bound import BoundPods
from autoscaler.app.batch_gangs import Around, Unfit, gang_of
from autoscaler.app.guard import Guard
from autoscaler.core.batch.gangs import Gang
from autoscaler.runtime.isolation import Bug


class Reader:
    """Makes gangs of work; an object that meets a bug is unfit, and keeps nobody else from being read."""

    def __init__(self, cluster: BatchCluster, shapes: Mapping[str, Shape], tree: Tree, guard: Guard) -> None:
        self._cluster, self._shapes, self._tree, self._guard = cluster, shapes, tree, guard
        self._around, self._bound = Around(tree, shapes, {}), BoundPods(cluster)
        self._asked: dict[str, tuple[bytes, ...]] = {}
        """What of nodes each piece of work was read by."""
        self._anew: dict[str, None] = {}

    def note_nodes(self, seen: Seen) -> None:
        """Work is read against these nodes from now on."""
        by_shape: dict[str, list[BatchNode]] = {}
        for part in seen.parts.values():
            by_shape.setdefault(part.shape, []).append(part)
        nodes = {shape: tuple(parts) for shape, parts in by_shape.items()}
        if nodes == self._around.nodes:
            return
        before, self._around = self._around, Around(self._tree, self._shapes, nodes)
        asked = {key for keys in self._asked.values() for key in keys}
        other = self._guard.attempt("nodes", lambda: self._around.follow(before, asked))
        other = asked if isinstance(other, Bug) else other  # each is read by itself then, and whose it is told
        if other:
            self._anew |= dict.fromkeys(name for name, keys in self._asked.items() if not other.isdisjoint(keys))

    def take_anew(self) -> tuple[str, ...]:
        """Work that does not run and is another gang since nodes changed, or none, or may be one; told once."""
        works, told = self._cluster.works, tuple(self._anew)
        self._anew = {}
        return tuple(name for name in told if name in works and works[name].suspended)

    def forget(self, name: str) -> None:
        """A piece of work is no more."""
        self._asked.pop(name, None)
        self._anew.pop(name, None)

    def read(self, work: Work) -> Gang | Unfit:
        """The gang that a piece of work asks for, or why it is none."""
        if not self._cluster.may_change(work.ref.namespace):
            return _elsewhere(work.ref.namespace)
        if work.overrides is not None and (why := self._cluster.trainjobs.unfollowed()):
            words = f"JobSets, by which its pods are known, {why}; let them be read (config/rbac/jobsets)"
            return Unfit("UNSEEN", words, waits=True)
        priority = self._cluster.priority(work.priority_class)
        unheld = self._cluster.unheld()
        self._around.asked.clear()
        gang = self._guard.attempt(work.name, lambda: self._read(work, priority, unheld))
        self._asked[work.name] = tuple(self._around.asked)
        if isinstance(gang, Bug):
            return Unfit("BUG", f"a bug of Headroom's was met by this object: {gang.message}")
        return gang

    def _read(self, work: Work, priority: int | None, unheld: str) -> Gang | Unfit:
        displaces = self._cluster.displaces_slots(work.priority_class)
        on = frozenset(shape for _, shape in self._bound.of(work.name)) if not work.suspended else frozenset[str]()
        return gang_of(work, self._around, priority, unheld=unheld, displaces=displaces, on=on)


def _elsewhere(namespace: str) -> Unfit:
    words = f"namespace {namespace!r} is none of the settings' watch_namespaces, outside which nothing is changed"
    return Unfit("NAMESPACE", f"{words}; have it added there, or take the label of the queue off")
