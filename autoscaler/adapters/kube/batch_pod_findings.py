"""What keeps pods behind our gate from being let in: a group that is not whole, gates of others, an owner of theirs.

Enters: the pods of one gang. Leaves: findings with field, value and remedy. One that passes by itself says that it is
waited for; the others stop the gang until somebody mends them.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from autoscaler.adapters.kube.batch_objects import QueuedPod
from autoscaler.adapters.kube.batch_work import OWNERS
from autoscaler.adapters.kube.meta import Meta
from autoscaler.api.batch_work import GATE, POD_GROUP, POD_GROUP_SIZE, QUEUE, WorkFinding
from autoscaler.api.faults import shown

JOB: Final = "Job"
MOST_PODS: Final = 256
"""Of one group: each is a write of its own, and carries the seats of all."""

GROUP_SIZE: Final = "GROUP_SIZE"
GROUP_SPLIT: Final = "GROUP_SPLIT"
INCOMPLETE: Final = "INCOMPLETE"
GATED: Final = "OTHER_GATES"
PART: Final = "PART_OF_WORK"
REMEDY: Final = "it waits for whoever set it"


def owner_of(meta: Meta) -> str:
    """The object that a pod is a part of and that is suspended as a whole, as kind/name; empty for none."""
    owner = next((each for each in meta.owner_references if each.controller), None)
    return f"{owner.kind}/{owner.name}" if owner is not None and owner.kind in {JOB, *OWNERS} else ""


def pod_findings(pods: Sequence[QueuedPod], *, is_new: bool) -> Iterator[WorkFinding]:
    """What keeps the pods from being let in, or what is missing of a gang that was let in."""
    meta = pods[0].metadata
    if owner := owner_of(meta):
        remedy = "label that object, and leave the gate and the label out of its pods"
        yield WorkFinding("metadata.ownerReferences", f"the pod is a part of {owner}", remedy, code=PART)
        return
    others = sorted({each.name for pod in pods for each in pod.spec.scheduling_gates} - {GATE})
    if is_new and others:
        gates = ", ".join(others)
        yield WorkFinding("spec.schedulingGates", f"{gates} is there besides", REMEDY, code=GATED, waits=True)
    if POD_GROUP not in meta.labels:
        return
    queues = sorted({pod.metadata.labels.get(QUEUE, "") for pod in pods})
    if len(queues) > 1:
        value = f"pods of the group are in {' and '.join(map(repr, queues))}"
        yield WorkFinding(QUEUE, value, "give all of them the same queue", code=GROUP_SPLIT)
    yield from _size(pods, is_new=is_new)


def _size(pods: Sequence[QueuedPod], *, is_new: bool) -> Iterator[WorkFinding]:
    sizes = sorted({pod.metadata.annotations.get(POD_GROUP_SIZE, "") for pod in pods})
    if len(sizes) > 1:
        value = f"pods of the group say {' and '.join(map(repr, sizes))}"
        yield WorkFinding(POD_GROUP_SIZE, value, "give all of them the same", code=GROUP_SIZE, stops=is_new)
        return
    (text,) = sizes
    size = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MOST_PODS)) else 0
    if not 1 <= size <= MOST_PODS:
        remedy = f"give how many pods the group has, 1 to {MOST_PODS}, to each of them"
        yield WorkFinding(POD_GROUP_SIZE, shown(text), remedy, code=GROUP_SIZE, stops=is_new)
    elif len(pods) > size:
        value = f"{len(pods)} pods are there, and the group has {size}"
        remedy = "delete those that are too many, or give the number of all"
        yield WorkFinding(POD_GROUP_SIZE, value, remedy, code=GROUP_SIZE, stops=is_new)
    elif len(pods) < size:
        value = f"{len(pods)} of {size} pods are there"
        remedy = "it waits for the others" if is_new else "one that is made anew gets the place that is kept for it"
        yield WorkFinding(POD_GROUP_SIZE, value, remedy, stops=is_new, code=INCOMPLETE, waits=True)
