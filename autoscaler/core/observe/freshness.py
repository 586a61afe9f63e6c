"""Freshness: every signal of a workload is fresh, held or unknown, and a signal that never existed is none of them.

A signal that has been seen once is expected from then on. While an expected signal is not fresh, nothing may shrink:
an outage must not look like silence (kedacore/keda#1850, ai-dynamo/dynamo#14575).
"""

from enum import Enum

from autoscaler.core.types import Readings

HELD_TICKS = 3.0
"""A reading is held for three ticks; after that the signal is unknown."""

HELD_MIN_S = 15.0
"""Never unknown sooner than this, however short the tick: one lost scrape is no outage."""


class Freshness(Enum):
    """State of one signal."""

    ABSENT = "absent"
    FRESH = "fresh"
    HELD = "held"
    UNKNOWN = "unknown"


SIGNALS = ("arrivals", "queue", "in_flight", "tokens", "kv", "latency")


def nobody_serves(readings: Readings) -> bool:
    """Return whether it is known that no pod serves: an empty reading says so only where nothing was ordered.

    Where replicas were ordered and none is ready, pods that were cut off before anybody met them look the same as pods
    that are not there; only a gateway that counts arrivals can tell that nothing is asked of them.
    """
    replicas, gateway = readings.replicas, readings.gateway
    counted = gateway is not None and gateway.requests_total is not None
    return readings.pods == () and replicas.ready == 0 and (replicas.desired == 0 or counted)


class FreshnessTrack:
    """Last time each signal of one workload was read."""

    __slots__ = ("seen_s", "sources")

    def __init__(self) -> None:
        self.seen_s: dict[str, float] = {}
        self.sources: set[str] = set()

    def note(self, readings: Readings, *, anew: bool = False) -> None:
        """Remember which signals these readings carry: all their sources that were ever there must be.

        `anew` says that the counters of arrivals began anew, so that they say nothing of what arrived until now.
        """
        present = _present(readings)
        self.sources |= {source for source, there in present.items() if there}
        for signal, sources in _SOURCES.items():
            expected = [source for source in sources if source in self.sources]
            if signal == "arrivals":
                expected = expected[:1]  # a gateway's counter counts arrivals; the pods' only stand in without one
                if anew:
                    continue
            if expected and all(present[source] for source in expected):
                self.seen_s[signal] = readings.now_s

    def ages_s(self, now_s: float) -> dict[str, float]:
        """Return the age in seconds of every signal seen so far."""
        return {signal: now_s - at_s for signal, at_s in self.seen_s.items()}

    def state(self, signal: str, now_s: float, tick_s: float) -> Freshness:
        """Return the state of one signal at `now_s`."""
        at_s = self.seen_s.get(signal)
        if at_s is None:
            return Freshness.ABSENT
        age_s = now_s - at_s
        if age_s <= 0.5 * tick_s:
            return Freshness.FRESH
        return Freshness.HELD if age_s <= max(HELD_MIN_S, HELD_TICKS * tick_s) else Freshness.UNKNOWN


_SOURCES = {
    "arrivals": ("gateway_requests", "pods_requests"),
    "queue": ("gateway_queue", "pods_waiting"),
    "in_flight": ("pods_running",),
    "tokens": ("pods_tokens",),
    "kv": ("pods_kv",),
    "latency": ("latency",),
}


def _present(readings: Readings) -> dict[str, bool]:
    pods, gateway, latency = readings.pods, readings.gateway, readings.latency
    empty = nobody_serves(readings)

    def every(name: str) -> bool:
        """Whether at least four fifths of the ready pods report the field (partial data must not shrink)."""
        if not pods:
            return empty
        have = sum(getattr(pod, name) is not None for pod in pods)
        return have >= 0.8 * max(readings.replicas.ready, 1)

    return {
        "gateway_requests": gateway is not None and gateway.requests_total is not None,
        "gateway_queue": gateway is not None and gateway.queued is not None,
        "pods_requests": every("requests_total"),
        "pods_waiting": every("waiting"),
        "pods_running": every("running"),
        "pods_tokens": every("generation_tokens_total"),
        "pods_kv": every("kv_cache_usage"),
        "latency": latency is not None
        and any(v is not None for v in (latency.queue_s_p90, latency.ttft_s_p90, latency.tpot_s_p90)),
    }
