"""Writes that let pods in from behind our gate: one patch for each, which holds it to its node and takes the gate away.

Enters: the pods of a gang as they were last seen, and who goes where. Leaves: the pods as the server answered, with the
words of a refusal where not all were let in. No gate can be put back, so that the patches of several pods are tried out
first: what refuses one of them refuses the gang before a pod of it holds anything. Verbs: patch on pods.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.batch_members import Member, Seat
from autoscaler.adapters.kube.batch_nodes import HOSTNAME
from autoscaler.adapters.kube.batch_objects import QueuedPod
from autoscaler.adapters.kube.batch_work import HOSTS, PLACEMENT, Put, Work
from autoscaler.adapters.kube.batch_writer import UNTRIED, BatchWriter, Written, refused, tolerate
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.adapters.kube.writing import decoded
from autoscaler.api.batch_work import GATE

AT_ONCE: Final = 16
"""Patches of one gang on their way at the same time."""

NO_RIGHT: Final = 'cannot patch resource "pods"'
"""The words of an API server whose RBAC grants it nowhere."""

_pod: Final = msgspec.json.Decoder(QueuedPod)
_text: Final = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class _Patch:
    path: str
    changes: list[dict[str, Any]]


class PodWriter:
    """Lets pods in, by way of the writer of batch work."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer

    async def admit(
        self, work: Work, puts: Sequence[Put], hostnames: Mapping[str, str], tolerated: Sequence[str]
    ) -> Written:
        """Let a gang in, each of its pods onto its own node; see `BatchWriter.admit`."""
        seats = seats_of(work, puts, hostnames)
        if seats is None:
            return Written(Became.REFUSED, None, "its pods are others than those it was decided about", changed=True)
        by_pod = {seat.pod: seat for seat in seats}
        pairs = [(each, by_pod[each.name]) for each in work.members if each.name in by_pod]
        return await self.seat(work, pairs, seats, tolerated)

    async def seat(
        self, work: Work, pairs: Sequence[tuple[Member, Seat]], seats: Sequence[Seat], tolerated: Sequence[str]
    ) -> Written:
        """Let these pods of a gang in, of which `seats` are all the seats."""
        placement = _text.encode(list(seats)).decode()
        patches = [_patch(work.ref.namespace, member, seat, placement, tolerated) for member, seat in pairs]
        error = await self._refusal(patches) if len(patches) > 1 else None
        if error is not None:
            return refused(error)
        done = await self._all(patches, tries=False)
        pods = tuple(each for each in done if isinstance(each, QueuedPod))
        errors = [each for each in done if isinstance(each, KubeError)]
        if errors and not pods:
            told = [refused(each) for each in errors]
            return next((each for each in told if each.became is Became.UNKNOWN), told[0])  # it may come through
        words = f"{len(errors)} of {len(done)} pods were not let in: {errors[0]}" if errors else ""
        return Written(Became.DONE, None, words, pods=pods)

    async def try_out(self, work: Work, host: str, tolerated: Sequence[str], *, every: bool) -> Written:
        """Have the server say whether it would let a gang in, onto any node such as `host`; nothing is changed.

        One of its pods is tried out, or `every` one.
        """
        waits = [each for each in work.members if each.waits]
        seats = [Seat(each.name, host, host, "", each.form) for each in (waits if every else waits[:1])]
        placement, pairs = _text.encode(seats).decode(), zip(waits, seats, strict=False)
        namespace = work.ref.namespace
        error = await self._refusal([_patch(namespace, each, seat, placement, tolerated) for each, seat in pairs])
        if error is None:
            return Written(Became.DONE)
        told = refused(error)
        remedy = f"grant it with rbac.podNamespaces, or kubectl apply -n {namespace} -f config/rbac/pods"
        return replace(told, words=f"{told.words}; {remedy}") if NO_RIGHT in told.words else told

    async def _refusal(self, patches: Sequence[_Patch]) -> KubeError | None:
        """What the server would refuse first of these, as far as it can be asked."""
        tried = (each for each in await self._all(patches, tries=True) if isinstance(each, KubeError))
        return next((error for error in tried if UNTRIED not in str(error)), None)

    async def _all(self, patches: Sequence[_Patch], *, tries: bool) -> list[QueuedPod | KubeError]:
        """What became of each patch, in their order; nothing more is tried out after a refusal."""
        done: list[QueuedPod | KubeError] = []
        for begin in range(0, len(patches), AT_ONCE):
            async with asyncio.TaskGroup() as group:
                some = [
                    group.create_task(self._one(each, tries=tries), name="pod write")
                    for each in patches[begin : begin + AT_ONCE]
                ]
            done += [task.result() for task in some]
            if tries and any(isinstance(each, KubeError) for each in done):
                break
        return done

    async def _one(self, patch: _Patch, *, tries: bool) -> QueuedPod | KubeError:
        try:
            answer = await self._writer.send(patch.path, patch.changes, tries=tries)
            return decoded(_pod, answer, f"PATCH {patch.path}")
        except KubeError as error:
            return error


def seats_of(work: Work, puts: Sequence[Put], hostnames: Mapping[str, str]) -> tuple[Seat, ...] | None:
    """The seats of a gang that was put somewhere; None where its pods are not those that were put."""
    seats = []
    for at, each in enumerate(work.sets):
        mine = sorted(member.name for member in work.members if member.waits and member.form == each.at)
        spots = [put for put in puts if put.pod_set == at for _ in range(put.pods)]
        if len(mine) != len(spots):
            return None
        seats += [
            Seat(name, put.node, hostnames[put.node], put.shape, each.at)
            for name, put in zip(mine, spots, strict=True)
        ]  # fmt: skip
    return tuple(seats)


def _patch(namespace: str, member: Member, seat: Seat, placement: str, tolerated: Sequence[str]) -> _Patch:
    """Hold a pod to its node and take our gate away, if it is what it was."""
    assert member.gate is not None, "only gated pods are let in"
    gate = f"/spec/schedulingGates/{member.gate}"
    key = HOSTNAME.replace("/", "~1")
    selector: dict[str, Any] = {"op": "add", "path": f"/spec/nodeSelector/{key}", "value": seat.host}
    if not member.template.node_selector:
        selector = {"op": "add", "path": "/spec/nodeSelector", "value": {HOSTNAME: seat.host}}
    notes = {**member.annotations, PLACEMENT: placement, HOSTS: seat.host}
    return _Patch(
        f"/api/v1/namespaces/{namespace}/pods/{member.name}",
        [
            {"op": "test", "path": "/metadata/uid", "value": member.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": member.version},
            {"op": "test", "path": f"{gate}/name", "value": GATE},
            selector,
            *tolerate("/spec", member.template, tolerated),
            {"op": "add", "path": "/metadata/annotations", "value": notes},
            {"op": "remove", "path": gate},
        ],
    )
