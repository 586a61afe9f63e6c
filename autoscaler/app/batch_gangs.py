"""What a piece of work asks of the core: a gang, or why it cannot be taken in.

Enters: work as it is followed, the tree of queues, nodes. Leaves: a gang, or a refusal with field, value and remedy.
Its pods' shape is the one whose resource they ask for and whose nodes they may go to; a selector, or a device besides,
that leaves only some nodes of the shape is refused, because a place there would be no proof. A gang that runs needs
none: it is of the shape that its pods are on, whichever nodes came or were labelled otherwise since.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import msgspec

from autoscaler.adapters.kube.batch_holds import HOLDS
from autoscaler.adapters.kube.batch_nodes import BatchNode, takes
from autoscaler.adapters.kube.batch_work import Work, WorkSet
from autoscaler.api.batch_queue import BatchQueueSpec
from autoscaler.api.batch_tree import Tree
from autoscaler.api.batch_work import WorkFinding, WorkSays
from autoscaler.api.shapes import Shape
from autoscaler.core.batch.gangs import MAX_PODS, MAX_UNITS, Elastic, Form, Gang, PodSet
from autoscaler.core.batch.reasons import BatchReason

NOTICE_S: Final = 30.0
"""What pods have to end by themselves where the work asks for no more: Kubernetes' own default."""


OF_WORDS: Final = frozenset({BatchReason.ABSURD.name, BatchReason.UNKNOWN_LEVEL.name})
"""Findings about what work says, not about what it is."""

LEAST_PRIORITY: Final = -(2**31)


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a piece of work is not taken in."""

    reason: str
    words: str
    """Field, value and remedy."""
    waits: bool = False
    """Whether it passes by itself."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a gang is read against; made anew when nodes or queues change."""

    tree: Tree
    shapes: Mapping[str, Shape]
    nodes: Mapping[str, tuple[BatchNode, ...]]
    """By shape."""
    asked: list[bytes] = field(default_factory=list)
    """What `may_go` was asked for, until somebody empties it."""
    _found: dict[bytes, Mapping[str, tuple[int, int]]] = field(default_factory=dict)

    def may_go(
        self,
        resource: str,
        selector: Mapping[str, str],
        terms: Sequence[Mapping[str, Any]],
        others: Mapping[str, float],
    ) -> Mapping[str, tuple[int, int]]:
        """For each shape that offers a resource, how many of its nodes pods may go to, and how many it has. `others` is
        what each pod asks for of other extended resources. A node on its way that lacks either counts for neither: both
        may come with the rest of it."""
        key = msgspec.json.encode((resource, selector, terms, others))
        found = self._answer(key)
        self.asked.append(key)
        return found

    def follow(self, before: Self, keys: Iterable[bytes]) -> set[bytes]:
        """Answer what `before` was asked; of that, what makes another gang of whoever asked it, or none, or makes one.

        Only nodes that came, went or changed are looked at: there may be thousands, and hundreds of questions.
        """
        moved = {shape: list(_moved(before.nodes.get(shape, ()), self.nodes.get(shape, ()))) for shape in self.shapes}
        other = set[bytes]()
        for key in keys:
            _, selector, terms, others = msgspec.json.decode(key)
            was, found = before._answer(key), dict[str, tuple[int, int]]()
            for shape, (some, every) in was.items():
                judged = [(by, takes(node, selector, terms, others), node.coming) for node, by in moved[shape]]
                more = sum(by for by, may, _ in judged if may)
                found[shape] = some + more, every + sum(by for by, may, coming in judged if may or not coming)
            self._found[key] = found
            if _gist(found) != _gist(was):
                other.add(key)
        return other

    def _answer(self, key: bytes) -> Mapping[str, tuple[int, int]]:
        found = self._found.get(key)
        if found is None:
            resource, selector, terms, others = msgspec.json.decode(key)
            every = {
                name: self.nodes.get(name, ()) for name, shape in self.shapes.items() if shape.resource == resource
            }
            judged = {
                name: [(takes(node, selector, terms, others), node.coming) for node in nodes]
                for name, nodes in every.items()
            }
            found = self._found[key] = {
                name: (sum(may for may, _ in nodes), sum(may or not coming for may, coming in nodes))
                for name, nodes in judged.items()
            }
        return found


def gang_of(
    work: Work,
    around: Around,
    priority: int | None,
    *,
    unheld: str = "",
    displaces: bool = False,
    on: frozenset[str] = frozenset(),
) -> Gang | Unfit:
    """The gang that work in a queue asks for.

    `priority` is its PriorityClass's, None where there is none; `unheld` says what is wrong with the policy by which
    pods are held to nodes where the object's affinity may not be changed; `displaces` whether warm slots make room for
    its pods; `on` are the shapes of the nodes that they are bound to. Work that says how long it takes to write a
    checkpoint may borrow, unless it is promised a runtime.

    Of work that runs what it says counts as far as it can be meant, and a class that is not there as the lowest one:
    nobody takes it out of the books, and so from quotas and recalls, by an edit.
    """
    says = work.says
    assert says is not None, "work of nobody's queue is no gang"
    if (finding := _first_of(says, runs=not work.suspended)) is not None:
        return Unfit(finding.code, finding.words, finding.waits)
    spec = around.tree.specs.get(says.queue)
    if spec is None:
        return Unfit(
            BatchReason.UNKNOWN_QUEUE.name,
            f"there is no BatchQueue {says.queue!r} that is served; make it, or name one that is",
        )
    if not around.tree.admits(work.ref.namespace, says.queue):
        words = f"namespace {work.ref.namespace!r} may not use queue {says.queue!r}; name it in its spec.namespaces"
        return Unfit("NAMESPACE", f"{words}, or in those of a queue above it")
    if priority is None and work.suspended:
        words = f"there is no PriorityClass {work.priority_class!r}, so that no pod of it would be made; make it"
        return Unfit("UNKNOWN_CLASS", f"{words}, which lets it wait for its turn, or name another")
    if work.is_held_by_notes and work.suspended and unheld:
        words = f"nothing holds the pods of a {work.ref.kind} to nodes: no MutatingAdmissionPolicy {HOLDS} is in force"
        return Unfit("UNHELD", f"{words}, {unheld}; apply config/rbac/jobsets, on Kubernetes 1.36 or newer")
    classes = sorted({each.template.priority_class_name for each in work.sets})
    if len(classes) > 1 and work.suspended:
        words = f"its pods name the PriorityClasses {' and '.join(map(repr, classes))}; give all of them the same one"
        return Unfit("MIXED_CLASSES", words)
    sets, affinities, elastic = list[PodSet](), work.affinities, None
    for at in work.placed:
        each, wide = work.sets[at], work.width
        if wide is not None and wide.pod_set == at:
            elastic = Elastic(len(sets), wide.least, wide.most, wide.written) if wide.least < wide.most else None
            each = replace(each, pods=wide.least) if work.suspended else each
        told = next((put.shape for put in work.put if put.pod_set == at), "")
        ran = () if work.suspended else (told,) if told in on else tuple(sorted(on))
        where = f"the pods of {each.name}" if each.name else "its pods"
        found = _pod_set(where, each, node_terms(affinities[at]), spec, around, ran=ran)
        if isinstance(found, Unfit):
            return found
        sets.append(found)
    return Gang(
        name=work.name,
        queue=says.queue,
        form=Form(tuple(sets), says.topology),
        created_s=work.created_s,
        priority=LEAST_PRIORITY if priority is None else priority,
        expected_s=says.expected_s,
        min_runtime_s=says.min_runtime_s or 0.0,
        checkpoint_s=says.checkpoint_s,
        notice_s=NOTICE_S if says.notice_s is None else says.notice_s,
        importance=spec.importance(work.priority_class or None),
        recallable=work.can_be_stopped,
        elastic=elastic,
        lendable=displaces and says.notice_s is not None and not (says.min_runtime_s or spec.min_runtime_s),
    )


def _first_of(says: WorkSays, *, runs: bool) -> WorkFinding | None:
    """The finding for which work is refused; None where there is none. What passes by itself comes last."""
    stops = [each for each in says.findings if each.stops and not (runs and each.code in OF_WORDS)]
    return min(stops, key=lambda each: each.waits, default=None)


def _pod_set(
    where: str,
    each: WorkSet,
    terms: Sequence[Mapping[str, Any]],
    spec: BatchQueueSpec,
    around: Around,
    *,
    ran: Sequence[str],
) -> PodSet | Unfit:
    """The pods of one template, in units of the shape that they can only mean. `ran` are shapes that they run on."""
    offered = {shape.resource for shape in around.shapes.values()}
    asked = {name: units for name, units in each.asks.units.items() if name in offered}
    if len(asked) != 1:
        wants = f"{where} ask for {' and '.join(sorted(asked)) or 'no GPU'}"
        return Unfit(BatchReason.UNKNOWN_SHAPE.name, f"{wants}; ask for one of {', '.join(sorted(offered)) or 'none'}")
    resource, units = next(iter(asked.items()))
    if units < 1 or units != math.floor(units):
        return Unfit(
            BatchReason.ABSURD.name, f"{where} ask for {units:g} of {resource}; ask for whole units, 1 or more"
        )
    if not 1 <= each.pods <= MAX_PODS:
        return Unfit(BatchReason.ABSURD.name, f"{where} are {each.pods} at once; ask for 1 to {MAX_PODS}")
    if units * each.pods > MAX_UNITS:
        words = f"{where} ask for {int(units) * each.pods} of {resource} in all; ask for {MAX_UNITS} at most"
        return Unfit(BatchReason.ABSURD.name, words)
    selector, others = each.template.node_selector, {n: by for n, by in each.asks.units.items() if n not in offered}
    besides = " and ".join(f"{by:g} of {name}" for name, by in sorted(others.items()))
    fits = around.may_go(resource, selector, terms, others)
    named = [quota.shape for quota in spec.quotas]
    order = sorted(fits, key=lambda name: (named.index(name) if name in named else len(named), name))
    shape = next((name for name in order if fits[name][0]), None)
    here = next((name for name in order if name in ran), None)
    if here is not None:
        return PodSet(each.pods, int(units), here, each.asks.cpu, each.asks.memory_gib)
    if shape is None and (selector or terms):
        words = f"no node that offers {resource} is one that {where} may go to; change their selector or affinity"
        more = f", or leave out {besides}, which each asks for besides" if besides else ""
        return Unfit(BatchReason.UNKNOWN_SHAPE.name, f"{words}{more}")
    if shape is None and besides and any(every for _, every in fits.values()):
        words = f"no node that offers {resource} offers {besides} besides, as each of {where} asks for; leave that out"
        return Unfit(BatchReason.UNKNOWN_SHAPE.name, f"{words}, or see why no node offers it")
    if shape is None:
        shape = order[0]
    elif fits[shape][0] < fits[shape][1]:
        words = f"{where} may go to some of the nodes of shape {shape!r} only"  # how many changes with each node
        what = f"what keeps them from the others (their selector, {besides})" if besides else "the selector"
        return Unfit("NARROWED", f"{words}; leave {what} out, or have a shape made for those nodes")
    return PodSet(each.pods, int(units), shape, each.asks.cpu, each.asks.memory_gib)


def _moved(before: Sequence[BatchNode], after: Sequence[BatchNode]) -> Iterator[tuple[BatchNode, int]]:
    """Nodes that went, each with -1, and that came, with 1; one that changed did both."""
    old, new = {node.name: node for node in before}, {node.name: node for node in after}
    yield from ((node, -1) for name, node in old.items() if new.get(name) != node)
    yield from ((node, 1) for name, node in new.items() if old.get(name) != node)


def _gist(fits: Mapping[str, tuple[int, int]]) -> dict[str, tuple[bool, bool]]:
    """What a gang's shape follows from, or why it has none: to which shapes' nodes its pods may go at all, and whether
    not to all."""
    return {shape: (some > 0, some < every) for shape, (some, every) in fits.items()}


def is_alike(let_in: Gang, gang: Gang) -> bool:
    """Whether a gang that was let in is the same still, however wide."""
    before = let_in.narrowest()
    return (before.form, before.elastic, before.queue) == (gang.form, gang.elastic, gang.queue)


def node_terms(affinity: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
    """What an affinity requires of nodes: alternatives; nothing where it requires none."""
    node = (affinity or {}).get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: Sequence[Mapping[str, Any]] = required.get("nodeSelectorTerms") or ()
    return terms
