"""What one workload's charts show of the past: points of even spacing, and the decisions worth a line.

A point covers a span of data time. From time to time neighbours are merged where their spacing is less than a fixed
share of their age, so the last minutes stay sharp and weeks keep their shape in some 2,700 points: rates as means, what
hurts (queue, wait) as the worst, counts as the last. Where there are many workloads each has its share of the memory:
of a thousand, each keeps some 140 points and 8 decisions.
"""

from collections import deque
from dataclasses import dataclass

import msgspec

from autoscaler.adapters.web.overview import blindness
from autoscaler.record.stream import DecisionFrame, WorkloadFrame

DECISIONS = 60
"""Decisions kept of one workload, at most; of two kB each."""

LEAST_DECISIONS = 8

FINENESS = 400.0
"""A point of age a may be merged into one that spans a / 400: at two hours 18 s, less than a pixel of a chart."""

SLACK = 512
"""Points that may gather between two merges; each merge costs every page that shows the workload one snapshot."""

FULL = 40
"""Workloads that are kept in full detail; more of them share what these would take, some 50 MB."""

QUIET = frozenset({"STEADY", "DEADBAND", "STABILISATION", "RATE_DOWN"})
"""Reasons to hold that come and go all day and need no line of their own."""

Row = list[float | None]


@dataclass(slots=True)
class Point:
    """A span of data time that ends at `at_s`."""

    at_s: float
    load_rps: float | None
    upper_rps: float | None
    median_rps: float | None
    ahead_s: float
    capacity_rps: float | None
    queue: float | None
    wait_s: float | None
    desired: int
    ready: int
    starting: int
    needs: int | None
    blind: int
    """0 while arrivals and queue are fresh, 1 held, 2 unknown."""
    coverage_ratio: float | None = None
    asked_ratio: float | None = None
    loss_ratio: float | None = None
    """Of the model that leads: its loss over last value's."""
    frames: int = 1

    def row(self) -> Row:
        """The point as the page reads it; the order is that of the fields."""
        rates = (
            self.load_rps,
            self.upper_rps,
            self.median_rps,
            self.ahead_s,
            self.capacity_rps,
            self.queue,
            self.wait_s,
        )
        counts = (self.desired, self.ready, self.starting, self.needs, self.blind)
        quality = (self.coverage_ratio, self.asked_ratio, self.loss_ratio)
        return [self.at_s, *map(_shown, rates), *counts, *map(_shown, quality)]


def _shown(value: float | None) -> float | None:
    """Five digits are more than a chart shows."""
    return None if value is None else float(f"{value:.5g}")


def point_of(frame: WorkloadFrame) -> Point:
    """The point of one frame."""
    quality = frame.quality
    leading = None if quality is None else next((m for m in quality.models if m.model == quality.leading), None)
    return Point(
        at_s=frame.now_s,
        load_rps=frame.load_rps,
        upper_rps=frame.forecast_rps,
        median_rps=frame.median_rps,
        ahead_s=frame.forecast_ahead_s,
        capacity_rps=frame.capacity_rps,
        queue=frame.queue,
        wait_s=frame.wait_s,
        desired=frame.desired,
        ready=frame.ready,
        starting=len(frame.starting),
        needs=frame.needs,
        blind=blindness(frame),
        coverage_ratio=None if quality is None else quality.coverage_ratio,
        asked_ratio=None if quality is None else quality.asked_ratio,
        loss_ratio=None if leading is None else leading.loss_ratio,
    )


def merge(first: Point, then: Point) -> Point:
    """One point for both spans; counts are those of the later one."""
    frames = first.frames + then.frames

    def mean(a: float | None, b: float | None) -> float | None:
        return b if a is None else a if b is None else (a * first.frames + b * then.frames) / frames

    def worst(a: float | None, b: float | None) -> float | None:
        return b if a is None else a if b is None else max(a, b)

    return Point(
        at_s=then.at_s,
        load_rps=mean(first.load_rps, then.load_rps),
        upper_rps=mean(first.upper_rps, then.upper_rps),
        median_rps=mean(first.median_rps, then.median_rps),
        ahead_s=then.ahead_s,
        capacity_rps=mean(first.capacity_rps, then.capacity_rps),
        queue=worst(first.queue, then.queue),
        wait_s=worst(first.wait_s, then.wait_s),
        desired=then.desired,
        ready=then.ready,
        starting=then.starting,
        needs=then.needs,
        blind=max(first.blind, then.blind),
        coverage_ratio=then.coverage_ratio,
        asked_ratio=then.asked_ratio,
        loss_ratio=then.loss_ratio,
        frames=frames,
    )


def notable(decision: DecisionFrame, before: DecisionFrame | None) -> bool:
    """Whether a decision deserves a line: it scales, or it holds for another and not an everyday reason.

    One that is not acted upon comes again at every step; the first of them is told.
    """
    if decision.verdict == "SCALE":
        return before is None or _move(decision) != _move(before)
    return decision.reason not in QUIET and (before is None or before.reason != decision.reason)


def _move(decision: DecisionFrame) -> tuple[int, int, str]:
    return decision.before, decision.after, decision.reason


def share_of(workloads: int) -> float:
    """The share of full detail that each of so many workloads may have, 0..1."""
    return min(1.0, FULL / max(workloads, 1))


class History:
    """One workload's points and decisions. `take` hands out what was added since the last call."""

    def __init__(self) -> None:
        self.decisions: deque[msgspec.Raw] = deque()
        """Decision frames as JSON, oldest first."""
        self._points: list[Point] = []
        self._kept = 0
        self._told = 0
        self._merged = False
        self._fresh: list[msgspec.Raw] = []
        self._last: DecisionFrame | None = None

    def add(self, frame: WorkloadFrame, share: float = 1.0) -> None:
        """Take a frame as a new point; `share` of full detail is what this workload may have now."""
        self._points.append(point_of(frame))
        if len(self._points) > self._kept + int(SLACK * share):
            self._points = thinned(self._points, FINENESS * share)
            self._kept = len(self._points)
            self._merged = True
        if notable(frame.decision, self._last):
            line = msgspec.Raw(msgspec.json.encode(frame.decision))
            self.decisions.append(line)
            self._fresh.append(line)
        while len(self.decisions) > max(LEAST_DECISIONS, DECISIONS * share):
            self.decisions.popleft()
        self._last = frame.decision

    def take(self) -> tuple[list[Row], list[msgspec.Raw]] | None:
        """New points and decisions since the last call; None when older points changed, so that all must be read."""
        merged, fresh = self._merged, self._fresh
        rows = [point.row() for point in self._points[self._told :]]
        self._told, self._merged, self._fresh = len(self._points), False, []
        return None if merged else (rows, fresh)

    def points(self) -> list[Row]:
        """All points, oldest first."""
        return [point.row() for point in self._points]


def thinned(points: list[Point], fineness: float = FINENESS) -> list[Point]:
    """The points with close neighbours merged, oldest first; the newest keeps its place."""
    newest_s = points[-1].at_s
    kept: list[Point] = []
    left_s = float("-inf")
    for point in points:
        if kept and point.at_s - left_s < (newest_s - point.at_s) / fineness:
            kept[-1] = merge(kept[-1], point)
        else:
            left_s = kept[-1].at_s if kept else point.at_s
            kept.append(point)
    return kept
