"""What Prometheus answered about one workload, as its history.

Enters: a subject, a window and the answers to its questions. Leaves: a `WorkloadHistory` in which every step that is
not known is NaN and lies in a hole that says why. It asks nobody; a lost part was lost before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from autoscaler.adapters.prometheus.archive import Past
from autoscaler.adapters.prometheus.questions import SIGNAL, Question, Subject, Window, names_of
from autoscaler.core.columns import Bools
from autoscaler.preflight.buckets import bound_of, counts_of
from autoscaler.preflight.history import (
    Distribution,
    Gap,
    Hole,
    Missing,
    Signal,
    Spread,
    Track,
    WorkloadHistory,
)
from autoscaler.preflight.holes import impossible, of_loss, unexplained, within
from autoscaler.preflight.presence import Presence

_MOST_FALLING_RATIO: Final = 0.01
"""Share of a histogram's counts that may be lost to buckets that do not add up; extrapolation explains less."""
_SUMS: Final = frozenset({"running", "waiting", "arrivals_per_s", "tokens_per_s"})
"""Signals that double scraping doubles."""

_NONE_AT_ZERO: Final = frozenset({"running", "waiting", "replicas", "busy_replicas"})
"""Signals that are zero while no replica exists."""

Answers = Mapping[str, tuple[Question, Past]]
"""By the question's name."""


def recorded(subject: Subject, window: Window, answers: Answers) -> WorkloadHistory:
    """The history of one workload from the answers to `questions(subject, window)`."""
    reader = _Reader(subject, window, answers)
    signals = {
        name: reader.signal(question, name)
        for question, names in (
            ("load", ("running", "waiting", "kv_usage_ratio", "replicas", "busy_replicas")),
            ("flow", ("arrivals_per_s", "tokens_per_s")),
        )
        for name in names
    }
    if "gateway" in answers:
        signals["waiting"] = _summed(signals["waiting"], reader.signal("gateway", "queued"))
        away = reader.signal("gateway", "turned_away_per_s")
        sent = reader.signal("gateway", "dispatched_per_s")
        signals["arrivals_per_s"] = sent if isinstance(away, Missing) else _summed(sent, away)
    return WorkloadHistory(
        workload=subject.workload,
        start_s=float(window.start_s),
        step_s=float(window.step_s),
        steps=window.steps,
        queue_wait=reader.spread("queue_wait"),
        duration=reader.spread("duration"),
        cold_start=_starts(subject),
        gpus_per_replica=subject.gpus_per_replica,
        facts=dict(subject.facts),
        arrivals_per_s=signals["arrivals_per_s"],
        running=signals["running"],
        waiting=signals["waiting"],
        tokens_per_s=signals["tokens_per_s"],
        replicas=signals["replicas"],
        busy_replicas=signals["busy_replicas"],
        kv_usage_ratio=signals["kv_usage_ratio"],
    )


def _starts(subject: Subject) -> Distribution:
    """From creation to readiness: short of the first served request by what the readiness probe does not wait for."""
    if not subject.starts_s:
        return Missing(Gap.NOT_RECORDED, "no kube_pod_status_ready_time and kube_pod_created of its pods in the window")
    edges, counts = np.unique(np.array(subject.starts_s), return_counts=True)
    origin = f"kube-state-metrics, creation to readiness of {len(subject.starts_s)} pods"
    return Spread(edges, counts.astype(np.float64), origin, exact=True)


class _Reader:
    """The answers about one workload."""

    def __init__(self, subject: Subject, window: Window, answers: Answers) -> None:
        self._subject, self._window, self._answers = subject, window, answers
        self._presence = Presence(names_of(subject), window, answers.get("presence"))
        self._twice = self._presence.scraped_twice()

    def signal(self, question: str, name: str) -> Signal:
        """One track, or why there is none."""
        asked = self._answers.get(question)
        if asked is None:
            return Missing(Gap.NOT_RECORDED, f"the engine ({self._subject.profile.name}) has no metric that tells it")
        _, past = asked
        window = self._window
        lost = tuple(self._lost(past, name))
        values = next((row for one, row in zip(past.labels, past.values, strict=True) if one.get(SIGNAL) == name), None)
        if values is None:
            return self._nowhere(name, lost)
        values = np.where(np.isfinite(values), values, np.nan)
        if name in _NONE_AT_ZERO:
            values[np.isnan(values) & self._none_stands(past)] = 0.0
        twice = self._twice if name in _SUMS else ()
        for hole in twice:
            values[within(hole, window)] = np.nan
        strange = impossible(values, window) if name == "kv_usage_ratio" else ()
        for hole in strange:
            values[within(hole, window)] = np.nan
        known = [*lost, *twice, *strange]
        noted = [*self._presence.renames(name), *(self._presence.unwatched() if name in _SUMS else ())]
        holes = sorted([*known, *noted, *unexplained(values, known, window)], key=lambda one: one.from_s)
        return Track(values, self._origin(question, name), tuple(holes))

    def spread(self, question: str) -> Distribution:
        """A histogram's counts over the whole window, or why there are none."""
        asked = self._answers.get(question)
        if asked is None:
            return Missing(Gap.NOT_RECORDED, f"the engine ({self._subject.profile.name}) keeps no histogram of it")
        put, past = asked
        holes = list(self._lost(past, question))
        bounds = np.array([bound_of(one) for one in past.labels])
        usable = ~np.isnan(bounds)
        if not usable.any():
            return self._nowhere(question, tuple(holes))
        bounds = bounds[usable]
        counts, falling = counts_of(bounds, past.values[usable])
        edges = np.unique(bounds)
        total = counts.sum()
        if falling > _MOST_FALLING_RATIO * total:
            return Missing(Gap.AMBIGUOUS, f"{self._origin(question, question)}: its buckets do not add up")
        if not total > 0:
            return Missing(
                Gap.NOT_RECORDED, f"{self._origin(question, question)}: no request was counted in the window"
            )
        spoken = np.where(np.isfinite(past.values).any(axis=0), 0.0, np.nan)
        pieces = Window(put.start_s, put.step_s, put.points)
        holes += unexplained(spoken, holes, pieces)
        return Spread(
            edges, counts, self._origin(question, question), holes=(*holes, *self._presence.renames(question))
        )

    def _none_stands(self, past: Past) -> Bools:
        """Steps in which there is no replica at all, which is known, while none that answers may be a lost scrape."""
        rows = zip(past.labels, past.values, strict=True)
        standing = next((row for one, row in rows if one.get(SIGNAL) == "standing"), None)
        return np.zeros(self._window.steps, dtype=bool) if standing is None else standing == 0.0

    def _lost(self, past: Past, name: str) -> Iterator[Hole]:
        """The parts that were not answered; of what was too much, how much there is."""
        for loss in past.losses:
            hole = of_loss(loss, self._window)
            series = self._presence.most_series(name) if hole.gap is Gap.TOO_MANY else 0
            yield replace(hole, text=f"{hole.text}; it is up to {series} series") if series else hole

    def _nowhere(self, name: str, lost: Sequence[Hole]) -> Missing:
        steps = sum(hole.until_s - hole.from_s for hole in lost)
        if steps >= self._window.end_s - self._window.start_s:
            return Missing(lost[0].gap, lost[0].text)
        tried = self._presence.names.get(name) or self._presence.names.get("running", ())
        text = f"no series of {', '.join(tried) or 'it'} in the window"
        return Missing(Gap.NOT_RECORDED, f"{text}; {len(lost)} parts of it were not answered" if lost else text)

    def _origin(self, question: str, name: str) -> str:
        """The names it was read from, and the query."""
        names = self._presence.seen(name) or self._presence.names.get(name, ())
        query = self._answers[question][0].query
        return f"Prometheus, {', '.join(names) or name}: {query}"


def _summed(one: Signal, other: Signal) -> Signal:
    """Both together; what only one of them knows is not known."""
    if isinstance(one, Missing):
        return one
    if isinstance(other, Missing):
        return other
    return Track(one.values + other.values, f"{one.origin} + {other.origin}", (*one.holes, *other.holes))
