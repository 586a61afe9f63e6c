"""The numbers that a report's charts draw, one value a second.

Enters: a document. Leaves: plain values for the page's script. It knows nothing of HTML.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from loadtests.run.document import Document
from loadtests.run.scalers import Signal
from loadtests.run.story import OVERLOADED, UNKNOWN
from loadtests.run.watched import EVERY_S, Sample
from loadtests.run.words import why

BIN_S: Final = 3.0
"""Width of the bins of the latencies' chart."""


def content(document: Document) -> dict[str, object]:
    """The charts' numbers, one value a second."""
    course, told = document.course, document.prediction
    samples = [sample for sample in course.samples if sample.at_s <= document.scenario.duration]
    due = course.run.schedule.due_s
    ready = [] if told is None else told.ready[: len(samples)].tolist()
    counts = np.bincount(due.astype(np.int64), minlength=round(document.scenario.duration))
    kept = len(samples)
    return {
        "end_s": float(document.scenario.duration),
        "objective_s": float(document.scenario.policy.ttft),
        "x": [round(sample.at_s, 2) for sample in samples],
        "load": [int(count) for count in counts[:kept]] + [0] * max(0, kept - counts.size),
        **{name: [getattr(sample, name) for sample in samples]
           for name in ("desired", "ready", "starting", "waiting", "running")},
        "label": document.label,
        "predicted": None if told is None else [*ready, *[None] * max(0, kept - len(ready))],
        "decisions": _marks(document),
        "shed": _shed(samples) if document.shedding.told else None,
        "cores": _cores(document),
        "ttft": _latencies(document),
    }  # fmt: skip


def _marks(document: Document) -> list[dict[str, object]]:
    """Every decision while the load lasted, in words."""
    began_s, whole_s = document.course.began_at_s, float(document.scenario.duration)
    return [
        {
            "at_s": round(line["now_s"] - began_s, 2),
            "strong": line["verdict"] == "SCALE",
            "text": f"{line['seen_replicas']} → {line['replicas']}, {line['reason']}: {why(line)}",
        }
        for line in document.course.decisions
        if 0.0 <= line["now_s"] - began_s <= whole_s
    ]


def _shed(samples: Sequence[Sample]) -> dict[str, object]:
    """What gateways were told: seconds and per cent, None where nothing was, and the spans without knowledge."""
    signals = [Signal(UNKNOWN) if sample.signal is None else sample.signal for sample in samples]
    over = [signal if signal.state == OVERLOADED else None for signal in signals]
    return {
        "retry_after_s": [None if told is None else told.retry_after_s for told in over],
        "percent": [None if told is None or told.shed_ratio is None else round(100.0 * told.shed_ratio, 1)
                    for told in over],
        "unknown": [
            [sample.at_s, sample.at_s + EVERY_S, True]
            for sample, signal in zip(samples, signals, strict=True)
            if signal.state == UNKNOWN
        ],
    }  # fmt: skip


def _cores(document: Document) -> list[float | None]:
    samples = document.course.samples
    found: list[float | None] = [None] if samples else []
    for before, after in pairwise(samples):
        passed_s = max(after.at_s - before.at_s, 1e-3)
        found.append(round(max(0.0, after.scaler_cpu_s - before.scaler_cpu_s) / passed_s, 3))
    return found


def _latencies(document: Document) -> dict[str, list[float | None]]:
    """Time to first token by when the request was due: the middle one, and the worst but one in a hundred."""
    rows = [row for row in document.course.requests if row.ttft_s is not None and not row.failure]
    bins: dict[int, list[float]] = {}
    for row in rows:
        bins.setdefault(int(row.due_s / BIN_S), []).append(row.ttft_s or 0.0)
    order = sorted(bins)
    return {
        "x": [round((at + 0.5) * BIN_S, 2) for at in order],
        "p50": [round(float(np.percentile(bins[at], 50)), 3) for at in order],
        "p99": [round(float(np.percentile(bins[at], 99)), 3) for at in order],
    }
