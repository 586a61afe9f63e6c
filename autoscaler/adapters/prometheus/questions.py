"""The aggregates that together are one workload's past: at most six, each computed by Prometheus itself.

Enters: a subject (which series are the workload's, under which profile) and a window. Leaves: questions, each a query
whose series carry a label `SIGNAL`, or `le`, and the grid it is asked on. The first name of a fact that a replica has
is used and the others are ignored, per replica, as on its page: a fleet of two versions counts each replica once.

Windows reach 1 ms back, so that a sample on a step's edge belongs to one step, whether the server counts both ends of
a window (Prometheus 2) or only the later one (3.0 on).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoscaler.adapters.engines.profiles import Fact, Profile, Series, Span
from autoscaler.adapters.prometheus.promql import any_of, quoted

SIGNAL: Final = "headroom_signal"
MOST_PER_WORKLOAD: Final = 6

PRESENCE_STEP_S: Final = 600
"""How often it is asked which names exist: a rename is known to within ten minutes."""
_BUCKET_STEPS_S: Final = (300, 3600)
_SCRAPERS: Final = ("job", "prometheus_replica")
"""Labels that tell apart who scraped: a replica with two values of them is counted twice by every sum."""

_OF_GATEWAYS: Final = {
    "queued": Fact.QUEUED,
    "dispatched_per_s": Fact.DISPATCHED,
    "turned_away_per_s": Fact.TURNED_AWAY,
}
"""Signals of the gateway in front of a workload."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One workload and where its series are."""

    workload: str
    """``namespace/name``."""
    matchers: str
    """As PromQL, without braces."""
    profile: Profile
    durations: tuple[Series, ...] = ()
    """Histograms, without ``_bucket``, of the whole time of a request; newest name first."""
    replica_label: str = "pod"
    scrape_s: int = 30
    """Seconds between two samples of a series."""
    gateway: str | None = None
    """Matchers of the gateway in front of it, without braces; None where there is none."""
    gateway_profile: Profile | None = None
    standing: tuple[str, ...] = ()
    """Selectors of what kube-state-metrics says of its replicas, any of which may be there."""
    gpus_per_replica: float | None = None
    starts_s: tuple[float, ...] = ()
    """Seconds that its pods took from their creation until they were ready."""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Window:
    """Steps [start + i * step, start + (i + 1) * step) in whole seconds since 1970."""

    start_s: int
    step_s: int
    steps: int

    @property
    def end_s(self) -> int:
        """The first second after it."""
        return self.start_s + self.steps * self.step_s


@dataclass(frozen=True, slots=True)
class Question:
    """A query asked at `first_s`, `first_s + step_s`, ...; its point i speaks of [start_s + i * step_s, + step_s)."""

    name: str
    query: str
    start_s: int
    first_s: int
    step_s: int
    points: int


def settle_s(step_s: int, scrape_s: int) -> int:
    """How long after its end a step can be asked about, in seconds: a rate looks as far ahead as back."""
    return _lead_s(_rate_window_s(step_s, scrape_s), step_s)


def questions(subject: Subject, window: Window) -> tuple[Question, ...]:
    """What to ask about a subject; what its profile has no name for is not asked."""
    asked = (
        _on_grid("load", _load(subject, window.step_s), subject, window),
        _on_grid("flow", _flow(subject, window.step_s), subject, window),
        _buckets("queue_wait", subject, subject.profile.histograms.get(Span.QUEUE, ()), window),
        _buckets("duration", subject, subject.durations, window),
        _on_grid("gateway", _gateway(subject, window.step_s), subject, window),
        _presence(subject, window),
    )
    return tuple(question for question in asked if question is not None)


def names_of(subject: Subject) -> Mapping[str, tuple[str, ...]]:
    """Signal -> the names it is asked under, newest first."""
    facts, spans = subject.profile.facts, subject.profile.histograms
    tried = {
        "running": facts.get(Fact.RUNNING, ()),
        "waiting": facts.get(Fact.WAITING, ()),
        "kv_usage_ratio": facts.get(Fact.KV_USED, ()),
        "arrivals_per_s": facts.get(Fact.REQUESTS, ()),
        "tokens_per_s": facts.get(Fact.GENERATION_TOKENS, ()),
        "queue_wait": tuple(Series(f"{one.name}_count") for one in spans.get(Span.QUEUE, ())),
        "duration": tuple(Series(f"{one.name}_count") for one in subject.durations),
    }
    if subject.gateway_profile is not None:
        held = subject.gateway_profile.facts
        tried |= {signal: held.get(fact, ()) for signal, fact in _OF_GATEWAYS.items()}
    return {signal: tuple(dict.fromkeys(one.name for one in series)) for signal, series in tried.items() if series}


def _load(subject: Subject, step_s: int) -> list[str]:
    facts = subject.profile.facts
    running = _per_replica(subject, facts.get(Fact.RUNNING, ()), step_s)
    waiting = _per_replica(subject, facts.get(Fact.WAITING, ()), step_s)
    usage = _per_replica(subject, facts.get(Fact.KV_USED, ()), step_s, "avg")
    answered = " or ".join(filter(None, (running, waiting)))
    return [
        *_told("running", "sum", running),
        *_told("waiting", "sum", waiting),
        *_told("kv_usage_ratio", "max", usage),
        *_told("replicas", "count", answered),
        *_told("busy_replicas", "sum", running and f"({running}) > bool 0"),
        *_told("standing", "max", _standing(subject, step_s)),
    ]


def _standing(subject: Subject, step_s: int) -> str:
    """Replicas that exist at the end of a step, scraped or not: none is not the same as none that answered."""
    back_ms = 1000 * settle_s(step_s, subject.scrape_s) + 1
    return " or ".join(f"{selected} offset {back_ms}ms" for selected in subject.standing)


def _flow(subject: Subject, step_s: int) -> list[str]:
    facts = subject.profile.facts
    requests = _rates(subject, subject.matchers, facts.get(Fact.REQUESTS, ()), step_s)
    tokens = _rates(subject, subject.matchers, facts.get(Fact.GENERATION_TOKENS, ()), step_s)
    return [*_told("arrivals_per_s", "sum", requests), *_told("tokens_per_s", "sum", tokens)]


def _gateway(subject: Subject, step_s: int) -> list[str]:
    if subject.gateway is None or subject.gateway_profile is None:
        return []
    facts, where = subject.gateway_profile.facts, subject.gateway
    asked = []
    for signal, fact in _OF_GATEWAYS.items():
        tried = facts.get(fact, ())
        held = fact is Fact.QUEUED
        inner = _gauges(subject, where, tried, step_s, "sum") if held else _rates(subject, where, tried, step_s)
        asked += _told(signal, "sum", inner)
    return asked


def _told(signal: str, how: str, inner: str) -> list[str]:
    """The aggregate under its signal's name; nothing where there is nothing to ask."""
    return [f'label_replace({how}({inner}),"{SIGNAL}","{signal}","","")'] if inner else []


def _per_replica(subject: Subject, tried: Sequence[Series], step_s: int, how: str = "sum") -> str:
    return _gauges(subject, subject.matchers, tried, step_s, how)


def _gauges(subject: Subject, where: str, tried: Sequence[Series], step_s: int, how: str) -> str:
    window_s = max(step_s, subject.scrape_s)
    back_ms = 1000 * (settle_s(step_s, subject.scrape_s) - _lead_s(window_s, step_s)) + 1
    parts = []
    for series in tried:
        inner = f"avg_over_time({_picked(where, series)}[{window_s}s] offset {back_ms}ms)"
        if series.copies:
            inner = f"max without({','.join(series.copies)})({inner})"
        parts.append(f"{how} by({subject.replica_label})({inner}){_scaled(series)}")
    return " or ".join(parts)


def _rates(subject: Subject, where: str, tried: Sequence[Series], step_s: int) -> str:
    window_s = _rate_window_s(step_s, subject.scrape_s)
    by = subject.replica_label
    return " or ".join(
        f"sum by({by})(rate({_picked(where, series)}[{window_s}s] offset 1ms)){_scaled(series)}" for series in tried
    )


def _scaled(series: Series) -> str:
    return "" if series.scale == 1.0 else f" * {series.scale!r}"


def _picked(where: str, series: Series, suffix: str = "") -> str:
    own = [f"{label}={quoted(value)}" for label, value in series.where]
    own += [f"{label}!={quoted(value)}" for label, value in series.unless]
    return f"{series.name}{suffix}{{{','.join((where, *own))}}}"


def _buckets(name: str, subject: Subject, tried: Sequence[Series], window: Window) -> Question | None:
    """Increases per bound over pieces of the window, backwards from its end; the first piece may begin before it."""
    if not tried:
        return None
    shortest_s, longest_s = _BUCKET_STEPS_S
    length_s = window.end_s - window.start_s
    piece_s = min(max(shortest_s, length_s // 200 // 60 * 60), longest_s)
    pieces = -(-length_s // piece_s)
    over = f"[{piece_s}s] offset 1ms"
    by = subject.replica_label
    parts = [f"sum by({by},le)(increase({_picked(subject.matchers, series, '_bucket')}{over}))" for series in tried]
    start_s = window.end_s - pieces * piece_s
    return Question(name, f"sum by(le)({' or '.join(parts)})", start_s, start_s + piece_s, piece_s, pieces)


def _presence(subject: Subject, window: Window) -> Question:
    """How many series there are of each name, and by how many scrapers the most scraped replica is asked."""
    own = (tried for signal, tried in names_of(subject).items() if signal not in _OF_GATEWAYS)
    names = sorted({name for tried in own for name in tried})
    scraped = ",".join((subject.replica_label, *_SCRAPERS))
    matched = f"{{__name__=~{any_of(names)},{subject.matchers}}}"
    copies = f"max(count by({subject.replica_label})(count by({scraped})({matched})))"
    query = f'count by(__name__)({matched}) or label_replace({copies},"{SIGNAL}","scrapers","","")'
    points = -(-(window.end_s - window.start_s) // PRESENCE_STEP_S)
    return Question("presence", query, window.start_s, window.start_s + PRESENCE_STEP_S // 2, PRESENCE_STEP_S, points)


def _on_grid(name: str, parts: Sequence[str], subject: Subject, window: Window) -> Question | None:
    if not parts:
        return None
    first_s = window.start_s + window.step_s + settle_s(window.step_s, subject.scrape_s)
    return Question(name, " or ".join(parts), window.start_s, first_s, window.step_s, window.steps)


def _rate_window_s(step_s: int, scrape_s: int) -> int:
    """Three samples at the least, so that one scrape may be missed; no longer, or bursts are smoothed away."""
    return max(step_s, 2 * scrape_s) + scrape_s


def _lead_s(window_s: int, step_s: int) -> int:
    """How far the end of a window of this length lies behind a step's when both have the same middle."""
    return max(0, window_s - step_s + 1) // 2
