"""Freshness: every signal of a workload is fresh, held or unknown, and a signal that never existed is none of them.

A signal that has been seen once is expected from then on. While an expected signal is not fresh, nothing may shrink:
an outage must not look like silence (kedacore/keda#1850, ai-dynamo/dynamo#14575).
"""

from enum import Enum
from functools import cache

from autoscaler.core.types import Alike, LatencyReading, Readings

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
        self.sources: frozenset[str] = frozenset()

    def note(self, readings: Readings, *, anew: bool = False) -> None:
        """Remember which signals these readings carry: all their sources that were ever there must be.

        `anew` says that the counters of arrivals began anew, so that they say nothing of what arrived until now.
        """
        present = _present(readings)
        if not present <= self.sources:
            self.sources |= present
        for signal in _carried(present, self.sources):
            if not (anew and signal == "arrivals"):
                self.seen_s[signal] = readings.now_s

    def all_at(self, now_s: float) -> bool:
        """Return whether every signal that was ever seen was read at `now_s`."""
        return set(self.seen_s.values()) <= {now_s}

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


@cache
def _expected(sources: frozenset[str]) -> tuple[tuple[str, frozenset[str]], ...]:
    """What each signal is read from where these sources were ever there; without the signals that never were."""
    expected = {signal: [one for one in of if one in sources] for signal, of in _SOURCES.items()}
    # A gateway's counter counts arrivals; the pods' only stand in without one.
    expected["arrivals"] = expected["arrivals"][:1]
    return tuple((signal, frozenset(of)) for signal, of in expected.items() if of)


@cache
def _carried(present: frozenset[str], sources: frozenset[str]) -> tuple[str, ...]:
    """The signals of which all is present that was ever there."""
    return tuple(signal for signal, of in _expected(sources) if of <= present)


@cache
def _of(*there: str | None) -> frozenset[str]:
    """A set that is made once: every look at a workload has one, and nearly always the same."""
    return frozenset(source for source in there if source is not None)


def _present(readings: Readings) -> frozenset[str]:
    """The sources that these readings hold, a pods' one where at least four fifths of the ready pods report it.

    Partial data must not shrink.
    """
    pods, gateway, latency = readings.pods, readings.gateway, readings.latency
    requests = waiting = running = tokens = kv = 0
    if isinstance(pods, Alike):
        tokens = len(pods)
        running, kv = tokens * (pods.running is None), tokens * (pods.kv_cache_usage is None)
        silent = tokens - 0.8 * max(readings.replicas.ready, 1)
    elif pods:
        for pod in pods:
            requests += pod.requests_total is None
            waiting += pod.waiting is None
            running += pod.running is None
            tokens += pod.generation_tokens_total is None
            kv += pod.kv_cache_usage is None
        silent = len(pods) - 0.8 * max(readings.replicas.ready, 1)
    else:
        silent = 0.0 if nobody_serves(readings) else -1.0
    return _of(
        "pods_requests" if requests <= silent else None,
        "pods_waiting" if waiting <= silent else None,
        "pods_running" if running <= silent else None,
        "pods_tokens" if tokens <= silent else None,
        "pods_kv" if kv <= silent else None,
        "gateway_requests" if gateway is not None and gateway.requests_total is not None else None,
        "gateway_queue" if gateway is not None and gateway.queued is not None else None,
        "latency" if latency is not None and _tells(latency) else None,
    )


def _tells(latency: LatencyReading) -> bool:
    return (latency.queue_s_p90, latency.ttft_s_p90, latency.tpot_s_p90) != (None, None, None)
