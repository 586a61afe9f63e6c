"""The running sums of one workload in shadow mode: what happened, what the model says of it, what would have been.

Enters: the three accounts of each span of time. Leaves: an estimate, and the sums as plain values that survive a
restart. Memory does not grow with time: five minutes are compared with the model and forgotten, hours are kept for two
days.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Final

from autoscaler.hindsight.served import Sums
from autoscaler.record.estimate import Account, Estimate, HourRow, doubt_of, sentence

BLOCK_S: Final = 300.0
"""The model is compared with what happened in spans this long; over longer ones its errors would cancel out."""

WHOLE_RATIO: Final = 0.8
"""A span is compared if at least so much of it was counted."""

HOURS: Final = 48
VERSION: Final = 1
_HOUR_S: Final = 3600.0


@dataclass(slots=True)
class Three:
    """The same span, or the same hours, in three accounts."""

    observed: Sums = field(default_factory=Sums)
    modelled: Sums = field(default_factory=Sums)
    ours: Sums = field(default_factory=Sums)
    counted_s: float = 0.0
    requests: float = 0.0

    def add(self, other: "Three") -> None:
        """Add another span."""
        self.observed.add(other.observed)
        self.modelled.add(other.modelled)
        self.ours.add(other.ours)
        self.counted_s += other.counted_s
        self.requests += other.requests


@dataclass(slots=True)
class _Error:
    """What the model missed, summed over the spans that were compared."""

    scored_s: float = 0.0
    requests: float = 0.0
    late: float = 0.0
    waited_s: float = 0.0

    def add(self, other: "_Error") -> None:
        """Add what was missed over other spans."""
        self.scored_s += other.scored_s
        self.requests += other.requests
        self.late += other.late
        self.waited_s += other.waited_s


@dataclass(slots=True)
class Ledger:
    """One workload's sums."""

    closed: Three = field(default_factory=Three)
    """Of the five-minute spans that are over."""
    missing_s: float = 0.0
    from_s: float = math.nan
    to_s: float = math.nan
    starts: int = 0
    slack_s: float = math.nan
    """The objective that late requests were counted by."""
    least: bool = False
    """The sums rest on a capacity that is a lower bound."""
    error: _Error = field(default_factory=_Error)
    block: Three = field(default_factory=Three)
    """Of the span that is open."""
    hour: Three = field(default_factory=Three)
    """Of the spans that are over in the hour that is open."""
    hours: deque[HourRow] = field(default_factory=lambda: deque(maxlen=HOURS))

    @property
    def total(self) -> Three:
        """All that was counted; it does not move with the ledger."""
        return _sum(self.closed, self.block)

    @property
    def measured(self) -> bool:
        """Whether there are sums that rest on a capacity that was measured."""
        return not self.least and (self.closed.counted_s > 0 or self.block.counted_s > 0)

    def count(self, at_s: float, span: Three, *, least: bool = False) -> None:
        """Add the span that ends at `at_s`; `least` says that the capacity behind it is a lower bound."""
        self._move(at_s)
        self.least = least
        self.block.add(span)
        if at_s % BLOCK_S == 0.0:
            self._compare()

    def miss(self, at_s: float, span_s: float) -> None:
        """Note a span that ends at `at_s` of which something was not known."""
        self._move(at_s)
        self.missing_s += span_s

    def followed_by(self, later: "Ledger") -> "Ledger":
        """These sums with those of the time right after, which were kept apart and are used up; or only one of them.

        As in one count: sums under another objective, or that rest on a lower bound of a capacity that was measured
        after all, are dropped, and sums that rest on a measured one take no others.
        """
        if math.isnan(later.from_s) or (self.measured and later.least):
            self.starts += later.starts
            return self
        if math.isnan(self.from_s) or self.slack_s != later.slack_s or (self.least and not later.least):
            later.starts += self.starts if math.isnan(self.from_s) else 0
            return later
        self._move(later.from_s)
        self._compare()
        self._go_on(later)
        self.closed.add(later.closed)
        self.missing_s += later.missing_s
        self.to_s, self.starts, self.least = later.to_s, self.starts + later.starts, later.least
        self.error.add(later.error)
        self.block = later.block
        return self

    def _go_on(self, later: "Ledger") -> None:
        """Add the hours of sums that begin in the hour that is open here."""
        end_s, rows = (_place(self.to_s, _HOUR_S) + 1) * _HOUR_S, list(later.hours)
        if rows and rows[0].to_s == end_s:
            rows[0] = _together(_row(self.hour, end_s), rows[0])
        elif not rows and _place(later.to_s, _HOUR_S) == _place(self.to_s, _HOUR_S):
            later.hour.add(self.hour)
        else:
            self._close_hour(end_s)
        self.hour = later.hour
        self.hours.extend(rows)

    def _move(self, at_s: float) -> None:
        if math.isnan(self.from_s):
            self.from_s = self.to_s = at_s
        if _place(at_s, BLOCK_S) != _place(self.to_s, BLOCK_S):
            self._compare()
        if _place(at_s, _HOUR_S) != _place(self.to_s, _HOUR_S):
            self._close_hour((_place(self.to_s, _HOUR_S) + 1) * _HOUR_S)
        self.to_s = max(self.to_s, at_s)

    def _compare(self) -> None:
        block, self.block = self.block, Three()
        self.closed.add(block)
        self.hour.add(block)
        if block.counted_s < WHOLE_RATIO * BLOCK_S:
            return
        error = self.error
        error.scored_s += BLOCK_S
        error.requests += block.requests
        error.late += abs(block.modelled.late - block.observed.late)
        error.waited_s += abs(block.modelled.waited_s - block.observed.waited_s)

    def _close_hour(self, end_s: float) -> None:
        hour, self.hour = self.hour, Three()
        if hour.counted_s > 0:
            self.hours.append(_row(hour, end_s))

    def estimate(
        self, workload: str, *, slack_s: float, token_time: bool, calibrated: bool, least: bool, warmup_assumed: bool,
        gpus_per_replica: int | None,
    ) -> Estimate:  # fmt: skip
        """What can be said so far."""
        total, error = self.total, self.error
        known = error.scored_s > 0
        # Without any request nothing can be misplaced, and nothing waits.
        late_error = error.late / max(error.requests, 1.0) if known else None
        wait_error_s = error.waited_s / max(error.requests, 1.0) if known else None
        doubt = doubt_of(
            requests=total.requests, calibrated=calibrated, token_time=token_time, scored_s=error.scored_s,
            late_error_ratio=late_error, wait_error_s=wait_error_s, slack_s=slack_s,
            floor_only=least and total.ours.held_s >= total.observed.held_s,
        )  # fmt: skip
        told = doubt is None
        hour = _sum(self.hour, self.block)
        running = _row(hour, self.to_s) if hour.counted_s > 0 else None
        unsaid = Estimate(
            workload=workload, from_s=_begun(self.from_s), to_s=_begun(self.to_s), counted_s=total.counted_s,
            missing_s=self.missing_s, requests=total.requests, slack_s=slack_s,
            observed=_account(total.observed, total.requests), modelled=_account(total.modelled, total.requests),
            ours=_account(total.ours, total.requests), scored_s=error.scored_s, late_error_ratio=late_error,
            wait_error_s=wait_error_s, starts=self.starts, least=least, warmup_assumed=warmup_assumed,
            gpus_per_replica=gpus_per_replica, doubt=None if doubt is None else doubt.name, text="",
            saved_hours=(total.observed.held_s - total.ours.held_s) / _HOUR_S if told else None,
            avoided=total.observed.late - total.ours.late if told else None,
            hours=(*self.hours, *(() if running is None else (running,))),
        )  # fmt: skip
        return replace(unsaid, text=sentence(unsaid))

    def pack(self) -> dict[str, Any]:
        """The sums as plain values, at most 4 KiB; the span and the hour that are open are in the totals only."""
        return {
            "version": VERSION,
            "from_s": _begun(self.from_s),
            "to_s": _begun(self.to_s),
            "missing_s": self.missing_s,
            "starts": self.starts,
            "least": self.least,
            "slack_s": None if math.isnan(self.slack_s) else self.slack_s,
            "total": _flat(self.total),
            "error": list(astuple(self.error)),
            "hours": [[_short(value) for value in astuple(row)] for row in self.hours],
        }

    @classmethod
    def unpack(cls, saved: Mapping[str, Any]) -> "Ledger":
        """What `pack` made. Raises ValueError for another version or shape."""
        try:
            if saved["version"] != VERSION:
                raise ValueError(f"version {saved['version']!r}; this build reads {VERSION}")
            held = [float(value) for value in saved["total"]]
            ledger = cls(
                closed=Three(Sums(*held[0:3]), Sums(*held[3:6]), Sums(*held[6:9]), *held[9:11]),
                missing_s=float(saved["missing_s"]),
                from_s=math.nan if saved["from_s"] is None else float(saved["from_s"]),
                to_s=math.nan if saved["to_s"] is None else float(saved["to_s"]),
                starts=int(saved["starts"]),
                least=bool(saved["least"]),
                slack_s=math.nan if saved["slack_s"] is None else float(saved["slack_s"]),
            )
            ledger.error = _Error(*(float(value) for value in saved["error"]))
            ledger.hours.extend(HourRow(*(float(value) for value in row)) for row in saved["hours"])
        except (KeyError, OverflowError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        return ledger


def _begun(at_s: float) -> float | None:
    """The instant; None for the NaN of a ledger that has seen nothing, which JSON cannot say."""
    return None if math.isnan(at_s) else at_s


def _place(at_s: float, width_s: float) -> int:
    """The number of the stretch that a span ending at `at_s` lies in."""
    return math.ceil(at_s / width_s) - 1


def _sum(first: Three, second: Three) -> Three:
    total = Three()
    total.add(first)
    total.add(second)
    return total


def _together(first: HourRow, second: HourRow) -> HourRow:
    """Two parts of one hour."""
    parts = zip(astuple(first)[1:], astuple(second)[1:], strict=True)
    return HourRow(first.to_s, *(one + other for one, other in parts))


def _row(hour: Three, end_s: float) -> HourRow:
    observed, ours = hour.observed, hour.ours
    return HourRow(
        end_s, hour.counted_s, hour.requests, observed.held_s / _HOUR_S, ours.held_s / _HOUR_S, observed.late,
        hour.modelled.late, ours.late,
    )  # fmt: skip


def _account(sums: Sums, requests: float) -> Account:
    return Account(sums.held_s / _HOUR_S, sums.late, sums.waited_s / requests if requests > 0 else 0.0)


def _flat(three: Three) -> list[float]:
    sums = [value for each in (three.observed, three.modelled, three.ours) for value in astuple(each)]
    return [*sums, three.counted_s, three.requests]


def _short(value: float) -> float:
    return float(f"{value:.10g}") if value >= 1e6 else float(f"{value:.5g}")
