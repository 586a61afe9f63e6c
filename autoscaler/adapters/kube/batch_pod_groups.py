"""Pods behind our scheduling gate as pieces of work: each is a gang by itself, or those of a group are one together.

Enters: changes of the pods that carry the label of a queue. Leaves: `Work` by gang, read anew when one of its pods
changes. A pod is ours to let in by the label and our gate, and is known afterwards by where it was put. Pods of an
object that can be suspended are that object's. A group is read with a finding that stops it until all its pods are
there.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec

from autoscaler.adapters.kube.batch_amounts import PodAsks, pod_asks
from autoscaler.adapters.kube.batch_members import Member, Seat
from autoscaler.adapters.kube.batch_nodes import HOSTNAME
from autoscaler.adapters.kube.batch_objects import QueuedPod, QueuedPodSpec, QueuedPodStatus, WorkPod, WorkTemplate
from autoscaler.adapters.kube.batch_pod_findings import owner_of, pod_findings
from autoscaler.adapters.kube.batch_widths import fixed
from autoscaler.adapters.kube.batch_work import (
    HOSTS,
    KUEUE,
    PLACEMENT,
    Work,
    WorkSet,
    claimed,
    epoch_s,
    gang_name,
)
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.membership import OVER
from autoscaler.adapters.kube.meta import Meta
from autoscaler.api.batch_work import GATE, POD_GROUP, QUEUE, read_work
from autoscaler.api.claims import TargetRef

POD: Final = "Pod"
GROUP: Final = "PodGroup"

Read: TypeAlias = tuple[QueuedPod, Member]
"""A pod, and what is found out about it once for each of its versions."""

_seats: Final = msgspec.json.Decoder(tuple[Seat, ...])


def pod_gang(meta: Meta, *, is_gated: bool = False) -> str | None:
    """The gang of a pod that is in a queue by itself; None for any other.

    One that its gate does not name any more is known by where it was put.
    """
    if QUEUE not in meta.labels or not (is_gated or PLACEMENT in meta.annotations):
        return None
    if owner_of(meta):
        return gang_name(POD, meta.namespace, meta.name) if is_gated else None
    group = meta.labels.get(POD_GROUP, "")
    return gang_name(GROUP, meta.namespace, group) if group else gang_name(POD, meta.namespace, meta.name)


class QueuedPods:
    """The pods that are in queues by themselves, by gang."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Read]] = {}
        self._others: dict[str, Read] = {}
        self._due: dict[str, None] = {}
        """Gangs that are to be read anew."""

    @property
    def dues(self) -> int:
        """How many gangs are to be read anew."""
        return len(self._due)

    def due(self) -> tuple[str, ...]:
        """The gangs to be read anew since this was last asked: a group of hundreds is read once for all its pods."""
        names = tuple(self._due)
        self._due.clear()
        return names

    def note(self, change: Change[QueuedPod]) -> tuple[str, ...]:
        """A pod came, changed or went; the gangs that are to be read anew."""
        names = {_gang(each) for each in (change.old, change.new) if each is not None} - {None}
        if change.new is not None:
            return self._dues(self._put(change.new, names))
        for name in names:
            self._drop(str(name), change.key)
        return self._dues(tuple(map(str, names)))

    def note_any(self, change: Change[WorkPod]) -> tuple[str, ...]:
        """Any pod came, changed or went; whose demand came or went by it, where somebody else is to let it in."""
        old, new = _waits_elsewhere(change.old), _waits_elsewhere(change.new)
        name = gang_name(POD, *change.key.split("/", 1))
        if new is not None:
            self._others[name] = (new, _member(new))
        elif self._others.pop(name, None) is None:
            return ()
        return () if old is not None and new is not None else self._dues((name,))

    def _dues(self, names: tuple[str, ...]) -> tuple[str, ...]:
        self._due.update(dict.fromkeys(names))
        return names

    def answered(self, pods: Iterable[QueuedPod]) -> tuple[str, ...]:
        """Pods as the server answered to a write of ours, which may be newer than what was heard."""
        return tuple(dict.fromkeys(name for pod in pods for name in self._put(pod, {_gang(pod)})))

    def work(self, name: str, now_s: float) -> Work | None:
        """A gang as it stands; None where no pod of it is there."""
        pods = list(self._of.get(name, {}).values())
        if not pods and name in self._others:
            pods = [self._others[name]]
        return of_pods(pods, now_s) if pods else None

    def _put(self, pod: QueuedPod, names: set[str | None]) -> tuple[str, ...]:
        key, mine = pod.metadata.key, _gang(pod)
        for name in names - {mine, None}:
            self._drop(str(name), key)
        if mine is not None:
            held = self._of.setdefault(mine, {})
            if key in held and _is_older(pod.metadata, held[key][0].metadata):
                return ()
            held[key] = (pod, _member(pod))
        return tuple(str(name) for name in names if name is not None)

    def _drop(self, name: str, key: str) -> None:
        held = self._of.get(name, {})
        held.pop(key, None)
        if not held:
            self._of.pop(name, None)


def _waits_elsewhere(pod: WorkPod | None) -> QueuedPod | None:
    """A pod that Kueue or a scheduler of its own has yet to place, and that no object above it tells of."""
    if pod is None or pod.spec.node_name or pod.status.phase in OVER or QUEUE in pod.metadata.labels:
        return None
    spec = pod.spec
    if owner_of(pod.metadata) or not any("/" in name for box in spec.containers for name in box.resources.limits):
        return None
    made = QueuedPodSpec(
        containers=spec.containers, init_containers=spec.init_containers, overhead=spec.overhead,
        scheduler_name=spec.scheduler_name, scheduling_gates=spec.scheduling_gates,
    )  # fmt: skip
    waits = QueuedPod(pod.metadata, made, QueuedPodStatus(pod.status.phase))
    return waits if _manager(waits, 0.0) else None


def _gang(pod: QueuedPod) -> str | None:
    return pod_gang(pod.metadata, is_gated=_gate(pod) is not None)


def _gate(pod: QueuedPod) -> int | None:
    return next((at for at, each in enumerate(pod.spec.scheduling_gates) if each.name == GATE), None)


def _is_older(new: Meta, held: Meta) -> bool:
    """Whether what was heard is older than what the server answered to us; versions are ordered (KEP-5504)."""
    versions = (new.resource_version, held.resource_version)
    return new.uid == held.uid and all(map(str.isdigit, versions)) and int(versions[0]) < int(versions[1])


def of_pods(pods: Sequence[Read], now_s: float) -> Work:
    """The pods of one gang as a piece of work."""
    read = sorted(pods, key=lambda each: each[1].name)
    every = [pod for pod, _ in read]
    there = [pod for pod in every if pod.status.phase not in OVER]
    live = [pod for pod in there if pod.metadata.deletion_timestamp is None]
    some = live or there or every
    meta = some[0].metadata
    members = tuple(member for pod, member in read if pod.status.phase not in OVER)
    forms = {pod.metadata.name: member.form for pod, member in read}
    manager = next(filter(None, (_manager(pod, now_s) for pod in some)), "")
    suspended = bool(live) and all(each.waits for each in members if not each.going)
    says = read_work(meta.labels, _annotations(some), now_s)
    if says is not None:
        says = fixed(says, "there are as many pods as were made")
        says = replace(says, findings=(*says.findings, *pod_findings(some, is_new=suspended)))
    group = meta.labels.get(POD_GROUP, "")
    kind, name = (GROUP, group) if group and not owner_of(meta) else (POD, meta.name)
    started = [at for at in (epoch_s(pod.status.start_time) for pod in live) if at is not None]
    seats = () if suspended else _put_where(there)
    over = {pod.metadata.name for pod in every if pod.status.phase in OVER}
    return Work(
        ref=TargetRef("", "v1", "pods", kind, meta.namespace, name, meta.uid),
        version=",".join(each.version for each in members),
        generation=meta.generation,
        suspend_at="",
        created_s=max(epoch_s(pod.metadata.creation_timestamp) or now_s for pod in some),
        suspended=suspended,
        ended=not live,
        finished=not there and all(pod.status.phase == "Succeeded" for pod in every),
        manager=manager,
        says=says,
        sets=tuple(_sets(some, forms, Counter(seat.form for seat in seats if seat.pod not in over))),
        annotations={},
        started_s=min(started, default=None),
        members=members or tuple(member for _, member in read),
        seats=seats,
    )


def _member(pod: QueuedPod) -> Member:
    meta = pod.metadata
    return Member(
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        form=_form(pod),
        gate=_gate(pod),
        host=meta.annotations.get(HOSTS, ""),
        going=meta.deletion_timestamp is not None,
        template=pod.spec,
        annotations=meta.annotations,
    )


def _manager(pod: QueuedPod, now_s: float) -> str:
    """Who else manages a pod: Kueue by a label or a gate, or its scheduler; empty for nobody."""
    gates = any(each.name.startswith(KUEUE) for each in pod.spec.scheduling_gates)
    known = claimed(pod.metadata, (WorkTemplate(None, pod.spec),), "Kueue" if gates else "", now_s)
    return "" if known is None else known[1]


def _annotations(pods: Sequence[QueuedPod]) -> Mapping[str, str]:
    """What the gang says of itself: each annotation by the first pod that has it."""
    found: dict[str, str] = {}
    for pod in reversed(pods):
        found |= pod.metadata.annotations
    return found


def _own(pod: QueuedPod) -> Mapping[str, str]:
    """The node selector as its author wrote it."""
    host, selector = pod.metadata.annotations.get(HOSTS), pod.spec.node_selector
    return {key: value for key, value in selector.items() if key != HOSTNAME or value != host}


def _form(pod: QueuedPod) -> str:
    """Which pods of a gang are equal: by what they ask for and where they may go."""
    asks, affinity = _asks(pod), (pod.spec.affinity or {}).get("nodeAffinity")
    kept: Any = (asks.cpu, asks.memory_gib, asks.units, _own(pod), affinity, pod.spec.priority_class_name)
    return hashlib.sha256(msgspec.json.encode(kept, order="sorted")).hexdigest()[:8]


def _asks(pod: QueuedPod) -> PodAsks:
    return pod_asks(pod.spec)


def _sets(pods: Sequence[QueuedPod], forms: Mapping[str, str], seats: Mapping[str, int]) -> Iterator[WorkSet]:
    """The pods by form, and no fewer than have seats: one that is gone is made anew, and its place waits for it."""
    by_form: dict[str, list[QueuedPod]] = {}
    for pod in pods:
        by_form.setdefault(forms[pod.metadata.name], []).append(pod)
    for form, equal in sorted(by_form.items()):
        first = equal[0]
        template = msgspec.structs.replace(first.spec, node_selector=_own(first))
        yield WorkSet(form, max(len(equal), seats.get(form, 0)), template, _asks(first), first.metadata.name)


def _put_where(pods: Sequence[QueuedPod]) -> tuple[Seat, ...]:
    """The seats of a gang that was let in, as a pod of it tells that is to stay; nothing where none can be read."""
    inside = [pod for pod in pods if PLACEMENT in pod.metadata.annotations]
    for pod in sorted(inside, key=lambda pod: pod.metadata.deletion_timestamp is not None):
        try:
            return _seats.decode(pod.metadata.annotations[PLACEMENT])
        except (RecursionError, msgspec.DecodeError):
            continue
    return ()
