"""The statuses of ScalingPolicies and WarmPools: the latest one wins, seldom written, never when nothing changed.

Enters: whole statuses as they shall stand in the object. Leaves: writes to ``/status``, one at a time, so that no other
traffic waits behind them. A status is replaced whole: ours is the only one there is, and a merge would keep what an
earlier process wrote and this one does not say any more. Verb: patch on the kind's /status. A WarmPool's namespace is
empty: it is the cluster's.
"""

import asyncio
import heapq
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.retry import Backoff, BackoffBounds
from autoscaler.adapters.kube.writing import JSON_PATCH, Requests
from autoscaler.api.crd import GROUP, PLURAL, VERSION
from autoscaler.ports import Clock

CALL_S: Final = 5.0

AGAIN_S: Final = 60.0
"""Before what the server refused is tried again: somebody may have granted the right meanwhile."""

AWAY: Final = BackoffBounds(floor_s=0.5, cap_s=10.0)
"""Waits while the server does not answer; statuses are right again ten seconds after it does."""

LASTING: Final = frozenset(range(400, 500)) - {408, 429}
"""Statuses that the same request would get again."""

NOT_FOUND: Final = "NotFound"
"""The object is gone: it has no status until it is made anew. A 404 without it is a proxy's, or of a kind that is not
served yet."""

Status = Mapping[str, Any]


@dataclass(slots=True)
class _Lane:
    """One policy. Instants are on the clock's monotonic time."""

    wanted: Status
    kept: Status | None
    """What the server has; None while that is not known."""
    refused: Status | None = None
    """What the server would not have."""
    tried_s: float = -math.inf
    due_s: float | None = None
    """When it is looked at next; None when there is nothing to write."""


class StatusWriter:
    """Writes statuses while `may_write` allows, each policy's at most every `min_gap_s`. Run `run` as a task."""

    def __init__(
        self,
        api: Requests,
        clock: Clock,
        *,
        may_write: Callable[[], bool],
        min_gap_s: float = 5.0,
        plural: str = PLURAL,
    ) -> None:
        self.error: KubeError | None = None
        """Why the last write failed; None when it did not."""
        self._api = api
        self._clock = clock
        self._may_write = may_write
        self._min_gap_s = min_gap_s
        self._plural = plural
        self._backoff = Backoff(np.random.default_rng(0), AWAY)
        self._lanes: dict[tuple[str, str], _Lane] = {}
        self._due: list[tuple[float, tuple[str, str]]] = []
        self._bell = asyncio.Event()

    def put(self, namespace: str, name: str, status: Status, *, seen: Status | None = None) -> None:
        """Say what a policy's status shall be. Returns at once.

        `status` is JSON in camelCase; its conditions keep their earlier ``lastTransitionTime`` where their status is
        as it was. `seen` is what the object showed when it was last followed, for the first `put` of this process.
        """
        key = (namespace, name)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(seen or {}, seen)
        before = lane.wanted.get("conditions", ())
        lane.wanted = {**status, "conditions": dated(status.get("conditions", ()), before)}
        self._plan(key, lane)

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone, or was made anew: nothing is known about its status."""
        self._lanes.pop((namespace, name), None)

    async def run(self) -> None:
        """Write what is due until cancelled."""
        while True:
            self._bell.clear()
            if not self._due:
                await self._bell.wait()
            elif self._due[0][0] > self._clock.monotonic():
                await self._clock.sleep_until(self._due[0][0], self._bell)
            else:
                due_s, key = heapq.heappop(self._due)
                lane = self._lanes.get(key)
                if lane is not None and lane.due_s == due_s:
                    lane.due_s = None
                    await self._flush(key, lane)
                    self._plan(key, lane)

    def _plan(self, key: tuple[str, str], lane: _Lane) -> None:
        """See that the lane is looked at when it may be written, if there is anything to write."""
        if lane.wanted == lane.kept:
            return
        gap_s = AGAIN_S if lane.wanted == lane.refused else self._min_gap_s
        due_s = max(self._clock.monotonic(), lane.tried_s + gap_s)
        if lane.due_s is None or due_s < lane.due_s:
            lane.due_s = due_s
            heapq.heappush(self._due, (due_s, key))
            self._bell.set()

    async def _flush(self, key: tuple[str, str], lane: _Lane) -> None:
        lane.tried_s, status = self._clock.monotonic(), lane.wanted
        if status == lane.kept or not self._may_write():
            return
        lane.kept = None
        try:
            await self._write(*key, status)
        except KubeError as error:
            self.error = error
            if error.status == 404 and error.reason == NOT_FOUND:
                lane.kept = status
            elif error.status in LASTING:
                lane.refused = status
            else:
                await self._clock.sleep_until(self._clock.monotonic() + self._backoff.next_s(error.retry_after_s))
        else:
            self.error, lane.kept = None, status
            self._backoff.reset()

    async def _write(self, namespace: str, name: str, status: Status) -> None:
        where = f"namespaces/{namespace}/{self._plural}" if namespace else self._plural
        path = f"/apis/{GROUP}/{VERSION}/{where}/{name}/status"
        body = msgspec.json.encode([{"op": "add", "path": "/status", "value": status}])
        await self._api.request("PATCH", path, body=body, content_type=JSON_PATCH, timeout_s=CALL_S)


def dated(conditions: Iterable[Status], before: Iterable[Status]) -> list[Status]:
    """The conditions, each since when its status has been what it is: since before, unless it changed."""
    earlier = {condition.get("type"): condition for condition in before}
    found: list[Status] = []
    for condition in conditions:
        old = earlier.get(condition["type"], {})
        since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
        found.append({**condition, "lastTransitionTime": since} if since else condition)
    return found
