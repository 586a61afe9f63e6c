"""Kubernetes Events about targets: for changes and refusals, and never in anybody's way.

Enters: notes. Leaves: core/v1 Events; what is noted again within ten minutes adds to the count of the Event there is.
An object that is noted too often loses notes rather than flooding the cluster, and so do all while the server stays
away; what is lost is counted. A crowd that is noted aside delays nobody else and costs nobody a note. Whether something
is worth an Event is for its caller to say. Verbs: create and patch.
"""

import asyncio
import hashlib
import re
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
import numpy as np

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.retry import Backoff, BackoffBounds
from autoscaler.adapters.kube.writing import MERGE_PATCH, Requests, rfc3339
from autoscaler.api.claims import TargetRef
from autoscaler.ports import Clock

SAME_S: Final = 600.0
"""What was not noted again for so long is told anew, and what could not be written for so long is given up."""

BURST: Final = 25
REFILL_S: Final = 300.0
"""Writes about one object: so many at once, then one in five minutes; the limits of client-go's spam filter."""

MOST_KEPT: Final = 4096
"""Events and objects remembered; those not heard of for longest are forgotten first."""

MOST_WAITING: Final = 1000
"""Events waiting to be written."""

OF_CLUSTER: Final = "default"
"""Where the API server wants Events about objects of no namespace."""

CALL_S: Final = 5.0
MOST_WORDS: Final = 1000
"""Characters of a message; the API server takes 1 KiB."""

LASTING: Final = frozenset(range(400, 500)) - {408, 429}
"""Statuses that the same request would get again."""

_NUMBER: Final = re.compile(r"\d+(\.\d+)?")

_Key = tuple[str, str, str, str, str]


@dataclass(slots=True)
class _Event:
    ref: TargetRef
    kind_type: str
    reason: str
    name: str
    first_s: float
    message: str = ""
    count: int = 0
    last_s: float = 0.0
    heard_s: float = 0.0
    """On the clock's monotonic time; the other instants are for people."""
    made: bool = False
    """It is on the server, as far as is known."""


class EventWriter:
    """Writes the Events of one process. `component` is the product, `instance` the pod. `run` is a task of its own."""

    def __init__(self, api: Requests, clock: Clock, component: str, instance: str) -> None:
        self.lost = 0
        """How often something noted was not written."""
        self.error: KubeError | None = None
        """Why the last write failed; None when it did not."""
        self._api = api
        self._clock = clock
        self._component = component
        self._instance = instance
        self._rng = np.random.default_rng(zlib.crc32(instance.encode()))
        self._events: OrderedDict[_Key, _Event] = OrderedDict()
        self._waiting: dict[_Key, _Event] = {}
        self._aside: dict[_Key, _Event] = {}
        """Those that are written while no other waits, and give way where there are too many of both."""
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Object -> writes it may still cause, as of an instant on monotonic time."""
        self._bell = asyncio.Event()

    def note(
        self, ref: TargetRef, kind_type: Literal["Normal", "Warning"], reason: str, message: str, *, aside: bool = False
    ) -> None:
        """Tell of something that happened to a target just now, `aside` where that can wait for all else. Returns at
        once.

        It is the same as before where its words are; numbers may differ, and the newest message is the one shown.
        """
        message = message[:MOST_WORDS]  # before it is remembered: it may quote what somebody wrote
        key = (ref.path, ref.uid, kind_type, reason, _NUMBER.sub("#", message))
        event = self._event(key, ref, kind_type, reason)
        event.count += 1
        event.message, event.last_s = message, self._clock.now()
        event.heard_s = self._clock.monotonic()
        if self._waits(key):
            return
        full = len(self._waiting) + len(self._aside) >= MOST_WAITING
        gives_way = self._aside if not aside else {}
        if (not full or gives_way) and self._allowed(ref.path):
            if full:
                gives_way.popitem()
                self.lost += 1
            (self._aside if aside else self._waiting)[key] = event
            self._bell.set()
        else:
            self.lost += 1

    async def run(self) -> None:
        """Write what is noted until cancelled. What fails for a while goes to the end of the line: one namespace whose
        Events nobody takes must not keep those of all others from being told."""
        backoff = Backoff(self._rng, BackoffBounds())
        first, second = self._waiting, self._aside
        while True:
            await self._bell.wait()
            self._bell.clear()
            while line := first or second:
                key = next(iter(line))
                event = line.pop(key)
                failed = await self._tell(event)
                if failed is None:
                    backoff.reset()
                    first, second = self._waiting, self._aside
                    continue
                line.setdefault(key, event)
                first, second = (self._aside, line) if line is self._waiting else (self._waiting, line)
                await self._clock.sleep_until(self._clock.monotonic() + backoff.next_s(failed.retry_after_s))

    def _waits(self, key: _Key) -> bool:
        return key in self._waiting or key in self._aside

    def _event(self, key: _Key, ref: TargetRef, kind_type: str, reason: str) -> _Event:
        """The Event that counts what has this key."""
        event = self._events.pop(key, None)
        if event is None or (self._clock.monotonic() > event.heard_s + SAME_S and not self._waits(key)):
            wall_s = self._clock.now()
            unique = hashlib.sha256(f"{self._instance} {wall_s} {key}".encode()).hexdigest()[:16]
            event = _Event(ref, kind_type, reason, f"{ref.name[:200].rstrip('-.')}.{unique}", wall_s)
        self._events[key] = event
        if len(self._events) > MOST_KEPT:
            self._events.popitem(last=False)
        return event

    def _allowed(self, path: str) -> bool:
        """Take one of the object's writes, if it has any left."""
        now_s = self._clock.monotonic()
        tokens, at_s = self._tokens.pop(path, (float(BURST), now_s))
        tokens = min(BURST, tokens + (now_s - at_s) / REFILL_S)
        allowed = tokens >= 1.0
        self._tokens[path] = (tokens - allowed, now_s)
        if len(self._tokens) > MOST_KEPT:
            self._tokens.popitem(last=False)
        return allowed

    async def _tell(self, event: _Event) -> KubeError | None:
        """Write an Event, or give it up where that is of no use; why it shall be tried again, else None."""
        if self._clock.monotonic() > event.heard_s + SAME_S:
            self.lost += 1
            return None
        try:
            await self._write(event)
        except KubeError as error:
            self.error = error
            # There already, from a request whose answer was lost; or no more, for Events expire.
            made = {409: True, 404: False}.get(error.status or 0, event.made)
            if error.status in LASTING and made == event.made:
                self.lost += 1
                return None
            event.made = made
            return error
        self.error, event.made = None, True
        return None

    async def _write(self, event: _Event) -> None:
        path = f"/api/v1/namespaces/{event.ref.namespace or OF_CLUSTER}/events"
        news = {"message": event.message, "count": event.count, "lastTimestamp": rfc3339(event.last_s)}
        if event.made:
            body = msgspec.json.encode(news)
            await self._api.request(
                "PATCH", f"{path}/{event.name}", body=body, content_type=MERGE_PATCH, timeout_s=CALL_S
            )
        else:
            body = msgspec.json.encode(self._whole(event) | news)
            await self._api.request("POST", path, body=body, timeout_s=CALL_S)

    def _whole(self, event: _Event) -> dict[str, Any]:
        ref = event.ref
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event.name, "namespace": ref.namespace or OF_CLUSTER},
            "involvedObject": {
                "apiVersion": ref.api_version,
                "kind": ref.kind,
                "namespace": ref.namespace,
                "name": ref.name,
                "uid": ref.uid,
            },
            "type": event.kind_type,
            "reason": event.reason,
            "source": {"component": self._component, "host": self._instance},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": rfc3339(event.first_s),
        }
