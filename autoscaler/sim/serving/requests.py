"""The request-level serving model: a gateway in front of continuous-batching replicas.

Enters: which pods serve, and one step of arrivals at a time. Leaves: what a scrape shows, and the wait, time to first
token, time per output token and end of each request. It knows nothing of desired counts, warm-up, money or policies.

Routing is least-loaded (waiting plus running, ties in the pods' order). "gateway": a pod is given a request only while
it has fewer than its slots, the rest waits in one FIFO queue at the gateway, so a new pod helps at once. "pods": each
request goes to a pod as it arrives and stays in that pod's queue, as behind a plain Kubernetes Service.
At one instant completions come first, then arrivals, then the next steps begin.
"""

import math
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

import numpy as np
import numpy.typing as npt

from autoscaler.core.types import GatewayReading, LatencyReading
from autoscaler.errors import InputError
from autoscaler.sim.serving import Scrape, ServingPod, Waits
from autoscaler.sim.serving.arrivals import CONVERSATION, Lengths, RequestSource
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.serving.replica import Replica, RequestBook
from autoscaler.sim.traffic import Traffic

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Routing = Literal["gateway", "pods"]

LATENCY_WINDOW_S = 30.0
"""Span of the latency percentiles in a scrape: two scrapes of 15 s, the shortest window Prometheus's `rate` can use."""
_PERCENTILE = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class RequestTimes:
    """What each request lived through, in order of arrival; all arrays have shape (N,). NaN is "not yet"."""

    arrival_s: FloatArray
    queue_s: FloatArray
    """Arrival to admission into a batch; of a request that lost its replica, to its last admission."""
    ttft_s: FloatArray
    """Arrival to first token."""
    tpot_s: FloatArray
    """Mean time per output token after the first; NaN for a single token."""
    e2e_s: FloatArray
    """Arrival to last token."""
    prompt_tokens: IntArray
    output_tokens: IntArray
    preemptions: IntArray
    """How often it was put back for want of KV memory."""
    restarts: IntArray
    """How often it began anew because its replica crashed."""


class RequestServing:
    """A `ServingModel` that follows every request of one Traffic.

    `lengths` and `seed` serve where the Traffic has no instants or no lengths. A vanished pod drains: its running
    requests finish there (`drained_s` bills them) and what waits goes back to the queue's head; `crash` loses its work.
    """

    def __init__(
        self,
        profile: Profile,
        traffic: Traffic,
        *,
        routing: Routing = "gateway",
        lengths: Lengths = CONVERSATION,
        seed: int = 0,
    ) -> None:
        if routing not in ("gateway", "pods"):
            raise InputError(f"routing is {routing!r}; it must be 'gateway' or 'pods'")
        self._profile = profile
        self._source = RequestSource(traffic, lengths, limit_tokens=profile.kv_tokens, seed=seed)
        self._book = RequestBook()
        self._pods: dict[str, Replica] = {}
        self._open: list[Replica] = []
        self._draining: dict[str, tuple[Replica, float]] = {}
        self._gateway: deque[int] = deque()
        self._pod_limit = math.inf if routing == "pods" else profile.max_num_seqs
        self._events: list[tuple[float, int, Replica | ServingPod]] = []  # dead where the replica's end_s moved on
        self._sequence = 0
        self._drained_s = 0.0

    @property
    def waiting(self) -> float:
        """Requests in the gateway's and all pods' queues, those of draining pods included."""
        draining = (replica for replica, _ in self._draining.values())
        return float(len(self._gateway) + sum(len(r.queue) for r in (*self._pods.values(), *draining)))

    @property
    def draining(self) -> int:
        """Vanished pods whose running requests have not all ended."""
        return len(self._draining)

    @property
    def running(self) -> int:
        """Requests in the batch of any pod, draining ones included."""
        draining = (replica for replica, _ in self._draining.values())
        return sum(len(r.running) for r in (*self._pods.values(), *draining))

    def drained_s(self, now_s: float) -> float:
        """Replica-seconds that vanished pods went on for, up to `now_s`: held GPUs that no ready count shows."""
        return self._drained_s + sum(now_s - since_s for _, since_s in self._draining.values())

    def set_pods(self, now_s: float, pods: tuple[ServingPod, ...]) -> None:
        """From `now_s` on exactly these pods serve; a pod ready later than `now_s` serves from then."""
        names = {pod.name for pod in pods}
        gone = [replica for name, replica in self._pods.items() if name not in names]
        back: list[int] = []
        for replica in gone:
            back += replica.release_waiting()
            if replica.running or replica.queue:
                self._draining[replica.name] = (replica, now_s)
        kept = self._pods
        self._pods = {pod.name: kept.get(pod.name) or self._started(now_s, pod) for pod in pods}
        self._reopen(now_s)
        self._requeue(back, now_s)

    def crash(self, now_s: float, names: tuple[str, ...]) -> None:
        """These pods, serving or draining, are lost at `now_s`: their requests start over at the queue's head."""
        back: list[int] = []
        for name in names:
            replica = self._pods.pop(name, None)
            if replica is None and name in self._draining:
                replica, since_s = self._draining.pop(name)
                self._drained_s += now_s - since_s
            if replica is not None:
                back += replica.release_all()
        self._reopen(now_s)
        self._requeue(back, now_s)

    def offer(self, now_s: float, dt_s: float, arrivals: float) -> float:
        """Move to now_s + dt_s. Returns seconds the serving pods' engines ran steps in, in replica-seconds."""
        end_s = now_s + dt_s
        before_s = {name: replica.busy_s(now_s) for name, replica in self._pods.items()}
        for instant, prompt, output in zip(*self._source.take(now_s, dt_s, arrivals), strict=True):
            at_s = max(now_s, instant)
            self._advance(at_s)
            self._gateway.append(self._book.add(instant, prompt, output))
            self._dispatch(at_s)
        self._advance(end_s)
        return sum(self._pods[name].busy_s(end_s) - spent_s for name, spent_s in before_s.items())

    def scrape(self, now_s: float) -> Scrape:
        """What the metrics show; latencies are those of the last LATENCY_WINDOW_S, None where nothing happened."""
        return Scrape(
            pods=tuple(replica.reading(now_s) for replica in self._pods.values()),
            gateway=GatewayReading(queued=float(len(self._gateway)), requests_total=float(len(self._book))),
            latency=self._latency(now_s),
        )

    def waits(self, end_s: float) -> Waits:
        """Queue wait of each request so far: until its admission, or until `end_s` where it still waits."""
        book = self._book
        arrival_s, admitted_s = _floats(book.arrival_s), _floats(book.admitted_s)
        wait_s = np.where(np.isnan(admitted_s), end_s, admitted_s) - arrival_s
        return Waits(arrival_s, arrival_s, wait_s, wait_s, np.ones_like(arrival_s))

    def times(self) -> RequestTimes:
        """All requests offered so far, in order of arrival."""
        book = self._book
        arrival_s, first_s, done_s = (_floats(x) for x in (book.arrival_s, book.first_token_s, book.done_s))
        output = np.array(book.output, dtype=np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            tpot_s = np.where(output > 1, (done_s - first_s) / (output - 1), np.nan)
        return RequestTimes(
            arrival_s=arrival_s,
            queue_s=_floats(book.admitted_s) - arrival_s,
            ttft_s=first_s - arrival_s,
            tpot_s=tpot_s,
            e2e_s=done_s - arrival_s,
            prompt_tokens=np.array(book.prompt, dtype=np.int64),
            output_tokens=output,
            preemptions=np.array(book.preemptions, dtype=np.int64),
            restarts=np.array(book.restarts, dtype=np.int64),
        )

    def _started(self, now_s: float, pod: ServingPod) -> Replica:
        replica = Replica(pod.name, pod.ready_since_s, self._profile, self._book)
        if pod.ready_since_s > now_s:
            self._push(pod.ready_since_s, pod)
        return replica

    def _reopen(self, now_s: float) -> None:
        self._open = [replica for replica in self._pods.values() if replica.ready_since_s <= now_s]

    def _push(self, at_s: float, what: Replica | ServingPod) -> None:
        self._sequence += 1
        heappush(self._events, (at_s, self._sequence, what))

    def _requeue(self, requests: list[int], now_s: float) -> None:
        """Put these ahead of all that waits, oldest first, and hand out what can be."""
        if self._pod_limit == math.inf and self._open:
            self._share_out(sorted(requests), now_s)
        else:
            self._gateway.extendleft(sorted(requests, reverse=True))
        self._dispatch(now_s)

    def _share_out(self, requests: list[int], now_s: float) -> None:
        """Put each at the head of the least-loaded pod's queue, in order, before any pod admits one."""
        loads = [replica.load for replica in self._open]
        shares: list[list[int]] = [[] for _ in self._open]
        for request in requests:
            least = min(range(len(loads)), key=loads.__getitem__)
            loads[least] += 1
            shares[least].append(request)
        for replica, share in zip(self._open, shares, strict=True):
            if share:
                self._hand(replica, share, now_s, at_head=True)

    def _dispatch(self, now_s: float) -> None:
        while self._gateway and self._open:
            replica = min(self._open, key=_load)
            if replica.load >= self._pod_limit:
                return
            self._hand(replica, (self._gateway.popleft(),), now_s)

    def _hand(self, replica: Replica, requests: Sequence[int], now_s: float, *, at_head: bool = False) -> None:
        before_s = replica.end_s
        replica.enqueue(requests, now_s, at_head=at_head)
        if replica.end_s != before_s:
            self._push(replica.end_s, replica)

    def _advance(self, to_s: float) -> None:
        """Live through every event up to and at `to_s`."""
        events = self._events
        while events and events[0][0] <= to_s:
            now_s = events[0][0]
            # All that ends at one instant ends before anything new is handed out.
            while events and events[0][0] == now_s:
                _, _, what = heappop(events)
                if isinstance(what, ServingPod):
                    self._reopen(now_s)
                elif what.end_s == now_s:
                    what.fire()
                    self._after(what, now_s)
            self._dispatch(now_s)

    def _after(self, replica: Replica, now_s: float) -> None:
        if replica.end_s < math.inf:
            self._push(replica.end_s, replica)
        elif replica.name in self._draining and self._draining[replica.name][0] is replica:
            self._drained_s += now_s - self._draining.pop(replica.name)[1]

    def _latency(self, now_s: float) -> LatencyReading:
        book = self._book
        since_s = now_s - LATENCY_WINDOW_S
        first = _recent(book.token_log_s, book.token_log_request, since_s)
        done = _recent(book.done_log_s, book.done_log_request, since_s)
        return LatencyReading(
            queue_s_p90=_p90([book.admitted_s[i] - book.arrival_s[i] for i in first]),
            ttft_s_p90=_p90([book.first_token_s[i] - book.arrival_s[i] for i in first]),
            tpot_s_p90=_p90(
                [(book.done_s[i] - book.first_token_s[i]) / (book.output[i] - 1) for i in done if book.output[i] > 1]
            ),
        )


def _load(replica: Replica) -> int:
    return replica.load


def _floats(values: "array[float]") -> FloatArray:
    return np.array(values, dtype=np.float64)


def _recent(log_s: "array[float]", requests: "array[int]", since_s: float) -> "array[int]":
    """The requests logged after `since_s`."""
    return requests[bisect_right(log_s, since_s) :]


def _p90(seconds: list[float]) -> float | None:
    # A request that lost its replica after its first token has NaN here until it is served anew.
    known = [value for value in seconds if not math.isnan(value)]
    return float(np.quantile(known, _PERCENTILE)) if known else None
