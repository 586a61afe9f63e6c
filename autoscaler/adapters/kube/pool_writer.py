"""Carries out what the core wants of a warm pool, one intent at a time, and says what became of it.

Enters: an intent and the WarmPool that it is for. Leaves: done, refused with the server's words, or unknown. Deletions
name the uid, so that nothing but what was seen goes; a NodeClaim is looked at once more before it does; a NodePool is
made whole once, and edited afterwards in its safe fields only. `may_write` is asked when a request is about to leave.
Verbs: create, delete and patch on pods where slots are, list on pods, delete on nodeclaims, patch on nodepools.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.membership import OVER
from autoscaler.adapters.kube.pods import Taint
from autoscaler.adapters.kube.pool_holder_pod import holder_pod
from autoscaler.adapters.kube.pool_node_pool import lifted, safe_fields, whole
from autoscaler.adapters.kube.pool_objects import PlacedPod
from autoscaler.adapters.kube.pool_places import is_foreign
from autoscaler.adapters.kube.pool_slot_pod import Errand, Making, slot_pod
from autoscaler.adapters.kube.pool_slots import LEASE, LEASED_AT, NODE_ENDS
from autoscaler.adapters.kube.writing import MERGE_PATCH, Requests, decoded
from autoscaler.core.pool.intents import (
    CreateHolder,
    CreateNodePool,
    CreateSlot,
    DeleteClaim,
    DeleteSlot,
    Intent,
    MarkNodeEnds,
    MarkSlot,
)
from autoscaler.ports import Clock

APPLY: Final = "application/apply-patch+yaml"
OWNER: Final = "headroom"
EDITOR: Final = "headroom-limits"
"""Field managers: one made the NodePool, the other owns what may be edited, so that an edit takes nothing away."""

CALL_S: Final = 10.0
KARPENTER: Final = "/apis/karpenter.sh/v1"
GONE: Final = frozenset({404, 409})
"""What was to go is gone, or is another object by now."""


class Became(Enum):
    """What became of an intent."""

    DONE = "done"
    REFUSED = "refused"
    """The server answered no, or it was not asked: nothing was changed."""
    UNKNOWN = "unknown"
    """No answer: it may have been done, or may still be."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an intent, and the words of a refusal or of a silence."""

    became: Became
    words: str = ""
    sent: bool = True
    """False where it is certain that nothing left this process."""


class _Pods(msgspec.Struct):
    items: list[PlacedPod]


_pods: Final = msgspec.json.Decoder(_Pods)
_DONE: Final = Outcome(Became.DONE)


class PoolWriter:
    """Writes for one process. `taints_of` gives the taints of a NodePool's nodes, `node_of` the node of a claim."""

    def __init__(
        self,
        api: Requests,
        clock: Clock,
        making: Making,
        *,
        may_write: Callable[[], bool],
        taints_of: Callable[[str], tuple[Taint, ...]],
        node_of: Callable[[str], str],
    ) -> None:
        self._api = api
        self._clock = clock
        self._making = making
        self._may_write = may_write
        self._taints_of = taints_of
        self._node_of = node_of
        self._path = f"/api/v1/namespaces/{making.namespace}/pods"

    async def carry_out(self, intent: Intent, errand: Errand) -> Outcome:
        """Do it, and say what became of it. Raises nothing but bugs."""
        try:
            match intent:
                case CreateSlot():
                    return await self._create(intent, errand)
                case CreateHolder():
                    taints = self._taints_of(intent.node_pool)
                    return await self._make(holder_pod(intent, errand, self._making, taints))
                case DeleteSlot():
                    return await self.delete(intent)
                case MarkSlot():
                    return await self._mark(intent)
                case MarkNodeEnds():
                    return await self._patch(intent.name, {"uid": intent.uid, "labels": {NODE_ENDS: "true"}})
                case DeleteClaim():
                    return await self._delete_claim(intent, errand.pool.name)
                case CreateNodePool():
                    await self._apply(intent.name, whole(intent, errand.pool.name, errand.spec, errand.form), OWNER)
                    return _DONE
                case _:
                    gone = lifted(intent, errand.form)
                    if gone is not None:
                        await self._request("PATCH", f"{KARPENTER}/nodepools/{intent.name}", gone, MERGE_PATCH)
                    await self._apply(intent.name, safe_fields(intent, errand.form), EDITOR)
                    return _DONE
        except KubeError as error:
            return _failed(error)

    async def delete(self, gone: DeleteSlot) -> Outcome:
        """Delete one pod of ours, as it can be done for a WarmPool whose spec cannot be read."""
        try:
            return await self._delete(f"{self._path}/{gone.name}", gone.uid)
        except KubeError as error:
            return _failed(error)

    async def _create(self, order: CreateSlot, errand: Errand) -> Outcome:
        return await self._make(slot_pod(order, errand, self._making, self._taints_of(order.node_pool)))

    async def _make(self, pod: dict[str, Any]) -> Outcome:
        """Make a pod; one that is there already is ours by its name. Where several are made at once under a quota, the
        API server may answer Conflict, with the same status, and has made none."""
        try:
            await self._request("POST", self._path, pod)
        except KubeError as error:
            if error.status != 409 or error.reason == "Conflict":
                raise
        return _DONE

    async def _delete(self, path: str, uid: str) -> Outcome:
        try:
            await self._request("DELETE", path, {"preconditions": {"uid": uid}})
        except KubeError as error:
            if error.status not in GONE:
                raise
        return _DONE

    async def _mark(self, mark: MarkSlot) -> Outcome:
        at = None if mark.lease is None else f"{self._clock.now():.3f}"
        return await self._patch(mark.name, {"uid": mark.uid, "annotations": {LEASE: mark.lease, LEASED_AT: at}})

    async def _patch(self, name: str, metadata: dict[str, Any]) -> Outcome:
        """Write metadata of a slot; the uid in it keeps the patch off any other pod of the name."""
        try:
            await self._request("PATCH", f"{self._path}/{name}", {"metadata": metadata}, MERGE_PATCH)
        except KubeError as error:
            if error.status not in GONE:
                raise
        return _DONE

    async def _delete_claim(self, going: DeleteClaim, pool: str) -> Outcome:
        node = self._node_of(going.name)
        if node:
            query = (("fieldSelector", f"spec.nodeName={node}"),)
            answer = await self._api.request("GET", "/api/v1/pods", query=query, timeout_s=CALL_S)
            there = decoded(_pods, answer, f"GET pods on {node}").items
            runs = [pod for pod in there if pod.status.phase not in OVER]  # what has ended stays there to be read
            foreign = [pod.metadata.key for pod in runs if is_foreign(pod, self._making.namespace, pool)]
            if foreign:
                return Outcome(Became.REFUSED, f"{going.name}: {foreign[0]} runs on {node}; the node is left alone")
        return await self._delete(f"{KARPENTER}/nodeclaims/{going.name}", going.uid)

    async def _apply(self, name: str, manifest: dict[str, Any], manager: str) -> None:
        query = (("fieldManager", manager), ("force", "true" if manager == EDITOR else "false"))
        await self._api.request(
            "PATCH", f"{KARPENTER}/nodepools/{name}", query=query, body=msgspec.json.encode(manifest),
            content_type=APPLY, timeout_s=CALL_S, admit=self._may_write,
        )  # fmt: skip

    async def _request(self, method: str, path: str, body: object, kind: str = "application/json") -> None:
        await self._api.request(
            method, path, body=msgspec.json.encode(body), content_type=kind, timeout_s=CALL_S, admit=self._may_write
        )


def _failed(error: KubeError) -> Outcome:
    lost = error.sent and (error.status is None or error.status >= 500)
    return Outcome(Became.UNKNOWN if lost else Became.REFUSED, str(error), error.sent)
