"""What Prometheus answered about one workload, as its history.

Enters: a subject, a window and the answers to its questions. Leaves: a `WorkloadHistory` in which every step that is
not known is NaN and lies in a hole that says why. It asks nobody; a lost part was lost before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import numpy as np

from autoscaler.adapters.prometheus.archive import Past
from autoscaler.adapters.prometheus.questions import SIGNAL, Question, Subject, Window, names_of
from autoscaler.core.columns import F64, Bools
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
from autoscaler.preflight.holes import impossible, of_loss, runs, unexplained, within

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
        self._names = names_of(subject)
        self._twice = self._scraped_twice()

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
        noted = [*self._renames(name), *(self._unwatched() if name in _SUMS else ())]
        holes = sorted([*known, *noted, *unexplained(values, known, window)], key=lambda one: one.from_s)
        return Track(values, self._origin(question, name), tuple(holes))

    def spread(self, question: str) -> Distribution:
        """A histogram's counts over the whole window, or why there are none."""
        asked = self._answers.get(question)
        if asked is None:
            return Missing(Gap.NOT_RECORDED, f"the engine ({self._subject.profile.name}) keeps no histogram of it")
        put, past = asked
        holes = list(self._lost(past, question))
        bounds = np.array([_bound(one) for one in past.labels])
        usable = ~np.isnan(bounds)
        if not usable.any():
            return self._nowhere(question, tuple(holes))
        bounds = bounds[usable]
        counts, falling = _counts(bounds, past.values[usable])
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
        return Spread(edges, counts, self._origin(question, question), holes=(*holes, *self._renames(question)))

    def _none_stands(self, past: Past) -> Bools:
        """Steps in which there is no replica at all, which is known, while none that answers may be a lost scrape."""
        rows = zip(past.labels, past.values, strict=True)
        standing = next((row for one, row in rows if one.get(SIGNAL) == "standing"), None)
        return np.zeros(self._window.steps, dtype=bool) if standing is None else standing == 0.0

    def _lost(self, past: Past, name: str) -> Iterator[Hole]:
        """The parts that were not answered; of what was too much, how much there is."""
        for loss in past.losses:
            hole = of_loss(loss, self._window)
            series = self._most_series(name) if hole.gap is Gap.TOO_MANY else 0
            yield replace(hole, text=f"{hole.text}; it is up to {series} series") if series else hole

    def _most_series(self, name: str) -> int:
        """How many series of a signal's names there were at once, as far as that was answered."""
        if "presence" not in self._answers:
            return 0
        _, past = self._answers["presence"]
        own = [one.get("__name__") in self._names.get(name, ()) for one in past.labels]
        counted = np.nan_to_num(past.values[np.array(own, dtype=bool)])
        return int(counted.sum(axis=0).max()) if counted.size else 0

    def _unwatched(self) -> tuple[Hole, ...]:
        """When it is not known whether some replica is scraped twice; the values are as they were answered."""
        if "presence" not in self._answers:
            return ()
        _, past = self._answers["presence"]
        lost = (of_loss(loss, self._window) for loss in past.losses)
        return tuple(replace(one, text=f"whether a replica is counted twice was not told: {one.text}") for one in lost)

    def _nowhere(self, name: str, lost: Sequence[Hole]) -> Missing:
        steps = sum(hole.until_s - hole.from_s for hole in lost)
        if steps >= self._window.end_s - self._window.start_s:
            return Missing(lost[0].gap, lost[0].text)
        tried = self._names.get(name) or self._names.get("running", ())
        text = f"no series of {', '.join(tried) or 'it'} in the window"
        return Missing(Gap.NOT_RECORDED, f"{text}; {len(lost)} parts of it were not answered" if lost else text)

    def _origin(self, question: str, name: str) -> str:
        """The names it was read from, and the query."""
        names = self._seen(name) or self._names.get(name, ())
        query = self._answers[question][0].query
        return f"Prometheus, {', '.join(names) or name}: {query}"

    def _seen(self, name: str) -> tuple[str, ...]:
        times = self._presence()
        return tuple(one for one in self._names.get(name, ()) if one in times)

    def _presence(self) -> dict[str, F64]:
        """Name -> the instants at which it was seen."""
        if "presence" not in self._answers:
            return {}
        put, past = self._answers["presence"]
        instants = put.first_s + put.step_s * np.arange(put.points, dtype=np.float64)
        rows = zip(past.labels, past.values, strict=True)
        seen = {one["__name__"]: instants[np.nan_to_num(row) > 0] for one, row in rows if "__name__" in one}
        return {name: at for name, at in seen.items() if at.size}

    def _renames(self, name: str) -> tuple[Hole, ...]:
        """Where one name of a signal ends and another begins."""
        times = self._presence()
        seen = sorted((times[one][0], times[one][-1], one) for one in self._names.get(name, ()) if one in times)
        return tuple(
            Hole(
                float(min(old_last_s, new_first_s)), float(max(old_last_s, new_first_s)), Gap.RENAMED,
                f"{old} until {_instant(old_last_s)}, {new} from {_instant(new_first_s)}: read as one signal",
            )
            for (old_first_s, old_last_s, old), (new_first_s, new_last_s, new) in pairwise(seen)
            if old_first_s < new_first_s and old_last_s < new_last_s
        )  # fmt: skip

    def _scraped_twice(self) -> tuple[Hole, ...]:
        """When some replica's series were there under several scrapers, so that sums count it more than once."""
        if "presence" not in self._answers:
            return ()
        put, past = self._answers["presence"]
        rows = zip(past.labels, past.values, strict=True)
        scrapers = next((row for one, row in rows if one.get(SIGNAL) == "scrapers"), None)
        if scrapers is None or not (np.nan_to_num(scrapers) > 1).any():
            return ()
        text = (
            f"up to {np.nanmax(scrapers):.0f} jobs scrape the same replica, and sums count it as often; name the one "
            "that counts, as in --selector 'job=\"…\"'"
        )
        window = Window(put.start_s, put.step_s, put.points)
        return tuple(
            Hole(from_s, min(until_s, float(self._window.end_s)), Gap.AMBIGUOUS, text)
            for from_s, until_s in runs(np.nan_to_num(scrapers) > 1, window)
        )


def _summed(one: Signal, other: Signal) -> Signal:
    """Both together; what only one of them knows is not known."""
    if isinstance(one, Missing):
        return one
    if isinstance(other, Missing):
        return other
    return Track(one.values + other.values, f"{one.origin} + {other.origin}", (*one.holes, *other.holes))


def _counts(bounds: F64, values: F64) -> tuple[F64, float]:
    """Counts per bound, ascending, from cumulative increases (bounds, pieces); and how much of them fell.

    Each piece is taken apart by the bounds that it has: a histogram may get other bounds half-way.
    """
    edges, at = np.unique(bounds, return_inverse=True)
    heights = np.zeros((edges.size, values.shape[1]))
    known = np.zeros(heights.shape, dtype=bool)
    np.add.at(heights, at, np.nan_to_num(values, nan=0.0, posinf=0.0))
    np.logical_or.at(known, at, np.isfinite(values))
    counts, falling = np.zeros(edges.size), 0.0
    for piece in range(heights.shape[1]):
        own = np.flatnonzero(known[:, piece])
        if own.size:
            steps = np.diff(heights[own, piece], prepend=0.0)
            counts[own] += np.maximum(steps, 0.0)
            falling -= float(np.minimum(steps, 0.0).sum())
    return counts, falling


def _bound(labels: Mapping[str, str]) -> float:
    try:
        return float(labels.get("le", "nan"))
    except ValueError:
        return float("nan")


def _instant(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M} UTC"
