"""The label by which a Service finds the replica that leads: on the leader's pod and on no other.

Enters: a client, this pod's name, whether it leads. Leaves: patches of pods in our own namespace. A process that is
started anew in a pod that led takes the label off; one that gains the lead takes it off everybody else.
"""

from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.writing import MERGE_PATCH, Requests, decoded
from autoscaler.ports import Clock

LABEL: Final = "headroom.dev/leader"

LOOK_S: Final = 0.1
"""How late a change of the lead is noticed."""

RETRY_S: Final = 1.0
CALL_S: Final = 2.0

LOG: Final = structlog.get_logger("headroom")


class _Named(msgspec.Struct):
    metadata: Meta = Meta()


class _Pods(msgspec.Struct):
    items: tuple[_Named, ...] = ()


_pods = msgspec.json.Decoder(_Pods)


class LeaderLabel:
    """Keeps the label where it belongs; `run` it once."""

    def __init__(self, api: Requests, clock: Clock, *, namespace: str, pod: str, leading: Callable[[], bool]) -> None:
        self._api = api
        self._clock = clock
        self._collection = f"/api/v1/namespaces/{namespace}/pods"
        self._pod = pod
        self._leading = leading

    async def run(self) -> None:
        """Follow the lead until cancelled, or until there turns out to be no such pod."""
        told: bool | None = None
        pause_s = LOOK_S
        while True:
            leading = self._leading()
            try:
                if leading != told:
                    told = None  # until all of it is written: a part may be
                    await self._put(leading)
                told, pause_s = leading, LOOK_S
            except KubeError as error:
                if error.status == 404:
                    LOG.warning("no pod to label as leader: KEDA's Service cannot find it", pod=self._pod)
                    return
                if pause_s == LOOK_S:
                    LOG.warning("the pod is not labelled yet", why=str(error))
                pause_s = RETRY_S
            await self._clock.sleep_until(self._clock.monotonic() + pause_s)

    async def drop(self) -> None:
        """Take the label off this pod. Raises KubeError."""
        await self._patch(self._pod, None)

    async def _put(self, leading: bool) -> None:
        await self._patch(self._pod, "true" if leading else None)
        if leading:
            query = (("labelSelector", f"{LABEL}=true"),)
            answer = await self._api.request("GET", self._collection, query=query, timeout_s=CALL_S)
            for pod in decoded(_pods, answer, f"GET {self._collection}").items:
                if pod.metadata.name != self._pod:
                    await self._take_off(pod.metadata.name)

    async def _take_off(self, pod: str) -> None:
        """Take the label off another pod, while this one leads: one that has lost the lead between listing and writing
        would else take it off the next leader's, which puts it on once."""
        try:
            await self._patch(pod, None, admit=self._leading)
        except KubeError as error:
            if error.status != 404:  # a pod that is gone by now is labelled no more
                raise

    async def _patch(self, pod: str, value: str | None, admit: Callable[[], bool] = lambda: True) -> None:
        body = msgspec.json.encode({"metadata": {"labels": {LABEL: value}}})
        path = f"{self._collection}/{pod}"
        await self._api.request("PATCH", path, body=body, content_type=MERGE_PATCH, timeout_s=CALL_S, admit=admit)
