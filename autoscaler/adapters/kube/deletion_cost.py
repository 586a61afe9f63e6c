"""Which pods of a Deployment go first when it is shrunk: those with the least work, told just before.

Enters: a target's pods, how much work each has, how many are to go. Leaves: the annotation
``controller.kubernetes.io/pod-deletion-cost`` on those that should go, and off those that should not any more. A
ReplicaSet takes pods that are not ready first and then goes by that cost; nothing else does. It is a wish: what cannot
be written within a second stays as it is, and the shrink goes on. Costs that somebody else set are left alone, and then
ours are not written at all.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.membership import ended, serving_since_s
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.writing import MERGE_PATCH, Requests
from autoscaler.api.claims import TargetRef

COST: Final = "controller.kubernetes.io/pod-deletion-cost"
OURS: Final = "-1000"
"""Below the cost 0 of a pod that has none; any other value is somebody else's."""

MOST: Final = 50
"""Pods that are written before one shrink; those beyond go as the ReplicaSet chooses."""

WITHIN_S: Final = 1.0

LOG: Final = structlog.get_logger("headroom")


class DeletionCost:
    """Writes the wish. `work` gives a workload's pods (names) with how much each has to do, where that is known."""

    def __init__(
        self, api: Requests, work: Callable[[str], Mapping[str, tuple[float, ...]]], admit: Callable[[], bool]
    ) -> None:
        self._api = api
        self._work = work
        self._admit = admit

    async def before(self, ref: TargetRef, pods: Mapping[str, Pod], away: int) -> None:
        """Say which of a target's `pods` should go before `away` of them do. Takes a second at most, never raises."""
        if (ref.group, ref.kind) != ("apps", "Deployment"):
            return
        marks = chosen(pods, self._work(ref.workload), away)
        try:
            async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as group:
                for name, value in marks.items():
                    group.create_task(self._write(ref.namespace, name, value), name=f"cost of {name}")
        except TimeoutError:
            LOG.warning("pods that should go first are not all marked", workload=ref.workload, within_s=WITHIN_S)

    async def _write(self, namespace: str, pod: str, value: str | None) -> None:
        body = msgspec.json.encode({"metadata": {"annotations": {COST: value}}})
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
        try:
            await self._api.request(
                "PATCH", path, body=body, content_type=MERGE_PATCH, timeout_s=WITHIN_S, admit=self._admit
            )
        except KubeError as error:
            if error.status != 404:
                LOG.warning("a pod that should go first is not marked", pod=f"{namespace}/{pod}", why=str(error))


def chosen(pods: Mapping[str, Pod], work: Mapping[str, tuple[float, ...]], away: int) -> dict[str, str | None]:
    """What to write on which pod (by name) so that the `away` that go are those with the least work.

    Pods that are not ready go first by themselves. One whose work is not known is never chosen: it may be the busiest.
    """
    there = [pod for pod in pods.values() if not ended(pod)]
    marked = {pod.metadata.name: pod.metadata.annotations.get(COST) for pod in there}
    if any(value not in {None, OURS} for value in marked.values()):
        return {}
    ready = [pod.metadata.name for pod in there if serving_since_s(pod) is not None]
    known = sorted((name for name in ready if name in work), key=lambda name: (work[name], name))
    first = set(known[: max(0, away - (len(there) - len(ready)))])
    writes = {
        name: OURS if name in first else None for name, value in marked.items() if (value == OURS) != (name in first)
    }
    return dict(sorted(writes.items(), key=lambda item: item[1] is None)[:MOST])
