"""The result of a run, as JSON and as a table for a terminal.

Enters: the merged tally, what was asked, how it ended. Leaves: a record. Latencies are in seconds, from the instant at
which a request was due, of completed requests; the harness' own lateness and processor time stand beside them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rich.table import Table

from loadtests.bench.machine import machine
from loadtests.traffic.histogram import RELATIVE_ERROR, Histogram
from loadtests.traffic.schedule import Schedule
from loadtests.traffic.tally import Tally
from loadtests.traffic.target import Target

LATE_S = 0.01
BUSY_RATIO = 0.9


@dataclass(frozen=True, slots=True)
class Run:
    """What there is to say of a run beside its tally."""

    command: str
    seed: int
    target: Target
    model: str
    schedule: Schedule
    ended: str
    """Why: "done", "errors", "interrupted" or "worker died"."""
    took_s: float
    """From the first instant to the last end."""
    each_cpu_s: tuple[float, ...]
    """Processor time of each worker."""

    @property
    def busiest_ratio(self) -> float:
        """Share of one core that the busiest worker took."""
        return max(self.each_cpu_s) / self.took_s if self.took_s else 0.0


LATENCIES: Mapping[str, str] = {"ttft_s": "first token", "tpot_s": "each token after", "e2e_s": "whole answer"}


def record(run: Run, tally: Tally) -> dict[str, object]:
    """The result for JSON."""
    schedule = run.schedule
    return {
        "loadtest": "traffic",
        "command": run.command,
        "seed": run.seed,
        "machine": machine(),
        "target": {"url": run.target.url, "model": run.model},
        "schedule": {
            "requests": len(schedule), "sha256": schedule.digest(), "last_due_s": float(schedule.due_s[-1]),
            "prompt_tokens": int(schedule.prompt_tokens.sum()), "output_tokens": int(schedule.output_tokens.sum()),
        },
        "ended": run.ended,
        "took_s": round(run.took_s, 3),
        "requests": {
            "due": tally.due, "sent": tally.sent, "completed": tally.completed, "failed": tally.failed,
            "cut": tally.cut, "open_most": tally.open_most, "error_ratio": tally.error_ratio,
        },
        "failures": {
            name: {"count": count, "example": tally.examples[name]} for name, count in sorted(tally.failures.items())
        },
        "statuses": {str(status): count for status, count in sorted(tally.statuses.items())},
        "latency_s": {name: _histogram(tally, name).told() for name in LATENCIES},
        "tokens": {"prompt": tally.prompt_tokens, "output": tally.output_tokens, "events": tally.events},
        "harness": {
            "late_s": tally.late_s.told(),
            "cpu_s": round(tally.cpu_s, 3),
            "busiest_core_ratio": round(run.busiest_ratio, 3),
            "events_per_cpu_s": round(tally.events / tally.cpu_s) if tally.cpu_s else None,
            "rss_mib": round(tally.rss_mib, 1),
            "workers": len(run.each_cpu_s),
            "percentiles_relative_error": RELATIVE_ERROR,
            "doubts": doubts(run, tally),
        },
        "seconds": [
            {"second": at, "due": s.due, "completed": s.completed, "failed": s.failed, "events": s.events,
             "cpu_s": round(s.cpu_s, 3)}
            for at, s in sorted(tally.seconds.items())
        ],
    }  # fmt: skip


def doubts(run: Run, tally: Tally) -> list[str]:
    """What speaks against the figures: reasons to look for more processor before believing them."""
    found = []
    late_s = tally.late_s.quantile(0.99)
    if late_s is not None and late_s > LATE_S:
        found.append(f"1 % of the requests were sent {late_s:.3f} s late or later: this machine was short of processor")
    if run.busiest_ratio > BUSY_RATIO:
        found.append(f"a worker took {run.busiest_ratio:.0%} of a core: give more --workers")
    return found


def table(tally: Tally) -> Table:
    """Latencies as a terminal shows them."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    shown.add_column("seconds from due")
    for title in ("p50", "p90", "p99", "p99.9", "most", "of"):
        shown.add_column(title, justify="right", no_wrap=True)
    for name, words in {**LATENCIES, "late_s": "sent late (harness)"}.items():
        told = _histogram(tally, name).told()
        cells = [_cell(told[key]) for key in ("p50", "p90", "p99", "p99.9", "max")]
        shown.add_row(words, *cells, f"{told['count']:,}")
    return shown


def lines(run: Run, tally: Tally) -> list[str]:
    """The rest of the result in words."""
    took_s = run.took_s or math.inf
    ended = (
        f"{run.ended}: {tally.due:,} due, {tally.completed:,} completed, {tally.failed:,} failed, {tally.cut:,} cut, "
        f"in {run.took_s:.1f} s ({tally.completed / took_s:.1f}/s, {tally.events / took_s:,.0f} events/s)"
    )
    failures = [f"  {count:,} {name}: {tally.example(name)}" for name, count in sorted(tally.failures.items())]
    harness = (
        f"harness: {tally.cpu_s:.1f} s of processor ({run.busiest_ratio:.0%} of a core in the busiest worker), "
        f"{tally.rss_mib:.0f} MiB, schedule {run.schedule.digest()[:12]}"
    )
    return [ended, *failures, harness, *(f"doubt: {doubt}" for doubt in doubts(run, tally))]


def _histogram(tally: Tally, name: str) -> Histogram:
    found = getattr(tally, name)
    assert isinstance(found, Histogram)
    return found


def _cell(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3f}"
