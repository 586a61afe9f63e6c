"""Fluid serving: one FIFO queue, and a fixed rate of requests per second for every ready replica.

Requests are divisible and alike. The waits are exact: both the arrival and the service curve are piecewise linear, and
the wait of the work at any height is the horizontal distance between them. Enters and leaves what the Protocol in
`serving` says. Token counts and KV use are scaled copies of the request counts: they inform, they never bind.
"""

from collections import deque

import numpy as np

from autoscaler.core.types import GatewayReading, LatencyReading, PodReading
from autoscaler.sim.serving import FloatArray, Scrape, ServingPod, Waits

LATENCY_WINDOW_S = 30.0
"""Span of the latency percentile: two Prometheus scrapes of 15 s, the shortest window `rate` can use."""
KV_FULL_RATIO = 0.8
"""KV-cache use with every slot busy: an engine admits on slots before its cache is full (a guess)."""
_MEAN_PROMPT_TOKENS = 1155.0
_MEAN_OUTPUT_TOKENS = 211.0
"""Means of the Azure LLM 2023 conversation trace (Patel et al., ISCA 2024)."""


class FluidServing:
    """The fluid model; `capacity_rps` is what one replica serves per second, `service_s` the residence of a request."""

    def __init__(
        self,
        capacity_rps: float,
        service_s: float,
        *,
        mean_prompt_tokens: float = _MEAN_PROMPT_TOKENS,
        mean_output_tokens: float = _MEAN_OUTPUT_TOKENS,
    ) -> None:
        self._capacity_rps = capacity_rps
        self._service_s = service_s
        self._slots = capacity_rps * service_s
        self._tokens = (mean_prompt_tokens, mean_output_tokens)
        self._pods: tuple[ServingPod, ...] = ()
        self._base: dict[str, float] = {}
        self._per_pod = 0.0  # requests completed by a pod that has been ready since second 0
        self._queue = 0.0
        self._clock_s = [0.0]
        self._arrived = [0.0]
        self._served = [0.0]
        self._capacity: list[float] = []
        self._head = 0
        self._recent: deque[tuple[float, float, float]] = deque()  # step's end, requests served in it, wait of the last

    @property
    def waiting(self) -> float:
        """Requests in the one queue."""
        return self._queue

    def set_pods(self, now_s: float, pods: tuple[ServingPod, ...]) -> None:
        """Take over the ready pods; a new one starts its counters at 0."""
        self._base = {pod.name: self._base.get(pod.name, self._per_pod) for pod in pods}
        self._pods = pods

    def offer(self, now_s: float, dt_s: float, arrivals: float) -> float:
        """Serve what the queue and the step's arrivals hold, at most the pods' capacity; replica-seconds of work."""
        pods = len(self._pods)
        capacity = pods * self._capacity_rps * dt_s
        work = self._queue + arrivals
        served = min(work, capacity)
        self._queue = work - served
        if pods:
            self._per_pod += served / pods
        arrived = self._arrived[-1] + arrivals
        end_s = now_s + dt_s
        self._clock_s.append(end_s)
        self._arrived.append(arrived)
        # Derived from arrivals, not summed up, so that an empty queue means exactly equal curves.
        self._served.append(arrived - self._queue)
        self._capacity.append(capacity)
        if served > 0:
            self._recent.append((end_s, served, self._head_wait_s()))
        while self._recent and self._recent[0][0] <= end_s - LATENCY_WINDOW_S:
            self._recent.popleft()
        return served / self._capacity_rps

    def scrape(self, now_s: float) -> Scrape:
        """Counters and gauges per pod, the queue spread evenly; it shows at the gateway while no pod is ready."""
        pods = len(self._pods)
        arrivals = self._arrived[-1]
        latency = LatencyReading(queue_s_p90=self._queue_p90_s())
        if not pods:
            return Scrape((), GatewayReading(queued=self._queue, requests_total=arrivals), latency)
        waiting = self._queue / pods
        running = min(self._slots, self._in_service(now_s) / pods)
        kv = KV_FULL_RATIO * min(1.0, running / self._slots)
        prompt, output = self._tokens
        readings = []
        for pod in self._pods:
            done = self._per_pod - self._base[pod.name]
            readings.append(
                PodReading(pod.name, pod.ready_since_s, waiting, 0.0, running, done, done * prompt, done * output, kv)
            )
        return Scrape(tuple(readings), GatewayReading(queued=0.0, requests_total=arrivals), latency)

    def waits(self, end_s: float) -> Waits:
        """Horizontal distances between the cumulative arrival and service curves, exact to rounding."""
        clock, arrived = np.array(self._clock_s), np.array(self._arrived)
        served = np.maximum.accumulate(np.array(self._served))  # rounding may take a last digit back
        served_s, served_level = _service_curve(clock, arrived, served, np.array(self._capacity))
        levels = np.unique(np.concatenate((arrived, served_level)))
        low, high = levels[:-1], levels[1:]
        middle = (low + high) / 2.0
        from_s, to_s = _instants(clock, arrived, low, high, middle)
        out_from_s, out_to_s = _instants(served_s, served_level, low, high, middle)
        unserved = middle > served_level[-1]
        out_from_s[unserved] = out_to_s[unserved] = end_s
        return Waits(from_s, to_s, np.maximum(0.0, out_from_s - from_s), np.maximum(0.0, out_to_s - to_s), high - low)

    def _in_service(self, now_s: float) -> float:
        """Requests admitted within the last service time: all that are still being worked on."""
        since_s = now_s - self._service_s
        index = len(self._clock_s) - 1
        while index > 0 and self._clock_s[index - 1] >= since_s:
            index -= 1
        if index == 0:
            return self._served[-1]
        start_s, stop_s = self._clock_s[index - 1], self._clock_s[index]
        before = min(1.0, (since_s - start_s) / (stop_s - start_s))
        left = self._served[index - 1] + before * (self._served[index] - self._served[index - 1])
        return max(0.0, self._served[-1] - left)

    def _head_wait_s(self) -> float:
        """Wait of the work that was served last."""
        last = len(self._arrived) - 1
        level = self._served[last]
        head = self._head
        while head < last and self._arrived[head + 1] < level:
            head += 1
        self._head = head
        if self._queue == 0.0:
            return 0.0
        low, high = self._arrived[head], self._arrived[head + 1]
        share = (level - low) / (high - low) if high > low else 1.0
        start_s, stop_s = self._clock_s[head], self._clock_s[head + 1]
        return self._clock_s[last] - (start_s + share * (stop_s - start_s))

    def _queue_p90_s(self) -> float | None:
        """Wait below which 90 % of the recently served requests stayed; None when none was served."""
        if not self._recent:
            return None
        ordered = sorted((wait, served) for _, served, wait in self._recent)
        target = 0.9 * sum(served for _, served in ordered)
        passed = 0.0
        for wait, served in ordered:
            passed += served
            if passed >= target:
                return wait
        return ordered[-1][0]


def _service_curve(
    clock: FloatArray, arrived: FloatArray, served: FloatArray, capacity: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Breakpoints (instants, heights) of the service curve.

    Within a step a queue is served at full capacity; a step that empties it has one more breakpoint, where service
    falls back to the rate of arrivals.
    """
    queue = arrived[:-1] - served[:-1]
    new = np.diff(arrived)
    emptied = (queue > 0) & (arrived[1:] == served[1:])
    # queue + new*x = capacity*x, x being the share of the step that has passed when the queue is empty
    spare = np.where(emptied, capacity - new, 1.0)
    share = np.minimum(1.0, queue / np.where(spare > 0, spare, 1.0))
    at_s = clock[:-1] + share * np.diff(clock)
    level = arrived[:-1] + share * new
    index = np.flatnonzero(emptied)
    return np.insert(clock, index + 1, at_s[index]), np.insert(served, index + 1, level[index])


def _instants(
    curve_s: FloatArray, curve: FloatArray, low: FloatArray, high: FloatArray, middle: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """When the curve passes each segment's lower and upper height; the middle tells which piece holds the segment."""
    piece = np.clip(np.searchsorted(curve, middle, side="right") - 1, 0, curve.size - 2)
    start, rise = curve[piece], curve[piece + 1] - curve[piece]
    span = curve_s[piece + 1] - curve_s[piece]
    slope = span / np.where(rise > 0, rise, 1.0)
    return curve_s[piece] + (low - start) * slope, curve_s[piece] + (high - start) * slope
