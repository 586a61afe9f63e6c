"""The page of a simulation: every policy's run over the same traffic, in one file that needs nothing else.

Enters: finished runs with their scores. Leaves: an HTML file with the tables as text and the charts drawn by the same
code as the live page's. Long runs are drawn from bins: rates and counts as means, queue and wait as the worst.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autoscaler.adapters.web.assets import assemble
from autoscaler.adapters.web.standalone import standalone
from autoscaler.cli.output import write_atomically
from autoscaler.core.types import Decision, Verdict
from autoscaler.errors import InputError
from autoscaler.record.explain import clock, duration, sentence
from autoscaler.sim.headroom import Foreseen
from autoscaler.sim.score import Reference, Score
from autoscaler.sim.simulate import Run

BINS = 1800
"""Points per line of a chart: more than the pixels it is drawn on."""

GOAL_RATIO = 0.99
"""A run below this share of requests in time is marked: its GPU-hours do not compare."""

DECISIONS = 2_000
"""Decisions listed per run, the newest; a day of ours has some hundreds."""

FloatArray = npt.NDArray[np.float64]
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class ReportRun:
    """One policy's run, as the report shows it."""

    label: str
    run: Run
    score: Score
    note: str = ""
    """Its setting and how that was chosen, in words; empty where there is nothing to say."""
    ours: bool = False
    decisions: Sequence[Decision] = ()
    """All decisions in the order they were made; those that scale are listed with their reasons."""
    forecasts: Sequence[Foreseen] = ()
    """What was forecast at each of them, drawn as a band at the time it was made for."""


def write_report(
    path: Path, title: str, runs: Sequence[ReportRun], *, reference: Reference | None = None, command: str = "",
    notes: Sequence[str] = (),
) -> None:  # fmt: skip
    """Write the page; the file appears whole or not at all. See `report_html` for the arguments and errors."""
    text = report_html(title, runs, reference=reference, command=command, notes=notes)
    with write_atomically(path) as file:
        file.write(text.encode())


def report_html(
    title: str, runs: Sequence[ReportRun], *, reference: Reference | None = None, command: str = "",
    notes: Sequence[str] = (),
) -> str:  # fmt: skip
    """The page as text. All runs must be on one traffic; `reference` holds its bounds, `command` reproduces it.

    Raises InputError without a run, or for runs of different length.
    """
    if not runs:
        raise InputError("report: there is no run to show; give at least one policy")
    if len({(r.run.timeline.ready.size, r.run.timeline.step_s) for r in runs}) > 1:
        raise InputError("report: the runs differ in length; show runs on one traffic only")
    bounds = reference if reference is not None else Reference()
    parts = {
        "table": _table(runs, bounds),
        "bars": _bars(runs, bounds),
        "runs": "\n".join(_section(index, shown) for index, shown in enumerate(runs)),
    }
    return standalone(
        kind="Headroom simulation",
        title=title,
        facts=_facts(runs[0].run),
        body=assemble("report.html", parts),
        content=_content(runs, bounds),
        command=command,
        notes=notes,
        script="report.js",
    )


def _facts(run: Run) -> dict[str, str]:
    spec = run.spec
    return {
        "Traffic": run.traffic.name,
        "Length": duration(run.duration_s),
        "Requests": f"{run.traffic.total:,.0f}",
        "One replica": f"{spec.capacity_rps:.4g} req/s",
        "Warm-up": duration(spec.warmup.median_s)
        + ("" if spec.warmup.constant else f", 90 % by {spec.warmup.p90_s:g} s"),
        "Objective": f"a wait of {spec.slo_wait_s:g} s at most",
        "Seed": str(spec.seed),
    }


_COLUMNS = (
    "In time", "GPU-hours", "Over D1", "Over D2", "In time, settled", "Over D2, settled", "Turns per day",
    "Starts per day", "Recovery", "Forecasts held",
)  # fmt: skip


def _table(runs: Sequence[ReportRun], bounds: Reference) -> str:
    head = "".join(f'<th scope="col" class="num">{name}</th>' for name in _COLUMNS)
    lines = [_row("optimum (D2)", "knows the arrivals", "bound", _bound_cells(bounds))] if bounds.d2_s else []
    lines += [_row(r.label, r.note, "ours" if r.ours else "", _cells(r.score)) for r in runs]
    return (
        '<div class="table" tabindex="0"><table class="scores"><thead><tr><th scope="col">Policy</th>'
        f"{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _row(label: str, note: str, kind: str, cells: Sequence[tuple[str, bool]]) -> str:
    name = escape(label) + (f" <small>{escape(note)}</small>" if note else "")
    columns = "".join(f'<td class="num{" short" if bad else ""}">{text}</td>' for text, bad in cells)
    return f'<tr class="{kind}"><th scope="row">{name}</th>{columns}</tr>'


def _bound_cells(bounds: Reference) -> list[tuple[str, bool]]:
    hours = (bounds.d2_s or 0.0) / _HOUR_S
    over_d1 = _times(bounds.d2_s / bounds.d1_s if bounds.d1_s and bounds.d2_s else None)
    return [(text, False) for text in ("–", f"{hours:.2f}", over_d1, "× 1.000", *("–",) * 6)]


def _cells(score: Score) -> list[tuple[str, bool]]:
    settled = score.settled
    return [
        (_percent(score.attainment, 2), score.attainment < GOAL_RATIO),
        (f"{score.gpu_hours.total:.2f}", False),
        (_times(score.ratio_d1), False),
        (_times(score.ratio_d2), False),
        (_percent(settled.attainment, 2), settled.attainment < GOAL_RATIO),
        (_times(settled.ratio_d2), False),
        (f"{score.direction_changes_per_day:,.0f}", False),
        (f"{score.starts_per_day:,.0f}", False),
        ("–" if score.recovery_s is None else f"{score.recovery_s:.0f} s", False),
        ("–" if score.coverage is None else _percent(score.coverage, 1), False),
    ]


def _percent(share: float, digits: int) -> str:
    return f"{100 * share:.{digits}f} %"


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"× {ratio:.3f}"


def _bars(runs: Sequence[ReportRun], bounds: Reference) -> str:
    best_hours = (bounds.d2_s or 0.0) / _HOUR_S
    widest = max([best_hours, *(r.score.gpu_hours.total for r in runs)]) or 1.0
    mark = f'<u style="left:{100 * best_hours / widest:.2f}%"></u>' if bounds.d2_s else ""
    lines = []
    for shown in runs:
        hours = shown.score.gpu_hours
        parts = {"serving": hours.serving, "warming": hours.warming, "idle": hours.idle}
        told = ", ".join(f"{name} {spent:.2f}" for name, spent in parts.items())
        cells = "".join(f'<i class="{n}" style="width:{100 * v / widest:.2f}%"></i>' for n, v in parts.items())
        lines.append(
            f'<span>{escape(shown.label)}</span><span class="bar" role="img" aria-label="{told} GPU-hours" '
            f'title="{told}">{cells}{mark}</span><span class="total">{hours.total:.2f}</span>'
        )
    keys = "".join(f'<span><i class="{name}"></i>{name}</span>' for name in ("serving", "warming", "idle"))
    best = "<span><u></u>the optimum, D2</span>" if bounds.d2_s else ""
    return f'<div class="bars">{"".join(lines)}</div><p class="keys">{keys}{best}</p>'


def _section(index: int, shown: ReportRun) -> str:
    note = f"<small>{escape(shown.note)}</small>" if shown.note else ""
    plots = "".join(
        f'<figure><figcaption class="legend" data-legend="{key}"></figcaption>'
        f'<div class="plot" data-plot="{key}"></div></figure>'
        for key in ("load", "replicas", "wait")
    )
    title = f"<h2>{escape(shown.label)}{note}</h2>"
    return f'<section class="run" id="run-{index}">{title}{plots}{_decisions(shown.decisions)}</section>'


def _decisions(decisions: Sequence[Decision]) -> str:
    moves = [d for d in decisions if d.verdict is Verdict.SCALE]
    if not decisions:
        return ""
    rows = "".join(
        f"<tr><td>{clock(d.now_s)}</td><td><b>{d.seen_replicas} → {d.replicas}</b></td><td>{d.reason.name}</td>"
        f"<td>{escape(sentence(d).partition(': ')[2])}</td></tr>"
        for d in moves[-DECISIONS:]
    )
    count = f"{len(moves):,} of {len(decisions):,} decisions changed the count" + (
        f"; the last {DECISIONS:,} are listed" if len(moves) > DECISIONS else ""
    )
    return (
        f'<details><summary>{count}, and why</summary><div class="decisions" tabindex="0"><table><tbody>{rows}'
        "</tbody></table></div></details>"
    )


def _content(runs: Sequence[ReportRun], bounds: Reference) -> dict[str, object]:
    """The charts' numbers."""
    first = runs[0].run
    steps, step_s = first.timeline.ready.size, first.timeline.step_s
    edges = np.unique(np.linspace(0, steps, min(BINS, steps) + 1).astype(np.int64))
    optimum = None if bounds.d2_per_step_s is None else _means(bounds.d2_per_step_s / step_s, edges)
    return {
        "duration_s": first.duration_s,
        "slo_wait_s": first.spec.slo_wait_s,
        "x": _rounded(edges[1:] * step_s),
        "load": _means(first.traffic.arrivals[:steps] / step_s, edges),
        "optimum": optimum,
        "runs": [
            {"label": shown.label, **_lines(shown.run, edges), "forecast": _band(shown.forecasts, edges * step_s)}
            for shown in runs
        ],
    }


def _lines(run: Run, edges: npt.NDArray[np.int64]) -> Mapping[str, list[float | None]]:
    timeline = run.timeline
    return {
        "desired": _means(timeline.desired, edges),
        "ready": _means(timeline.ready, edges),
        "starting": _means(timeline.starting, edges),
        "capacity": _means(timeline.ready * run.spec.capacity_rps, edges),
        "waiting": _rounded(np.maximum.reduceat(timeline.waiting, edges[:-1])),
        "wait": _longest_waits(run, edges),
    }


def _band(forecasts: Sequence[Foreseen], edges_s: npt.NDArray[np.floating]) -> dict[str, list[float | None]] | None:
    """Middle and upper bound, as means of what was forecast for each bin; bins that nothing was made for have none."""
    if not forecasts:
        return None
    made = np.array([(one.for_s, one.median_rps, one.upper_rps) for one in forecasts])
    made = made[made[:, 0] < edges_s[-1]]
    made = made[np.argsort(made[:, 0], kind="stable")]  # a lead time that was learned is shorter at once
    at = np.searchsorted(edges_s, made[:, 0], side="right") - 1
    bins, first = np.unique(at, return_index=True)
    if not bins.size:
        return None
    low, high = (np.add.reduceat(made[:, k], first) / np.diff(np.append(first, len(made))) for k in (1, 2))
    return {"x": _rounded(edges_s[bins + 1]), "low": _rounded(np.minimum(low, high)), "high": _rounded(high)}


def _longest_waits(run: Run, edges: npt.NDArray[np.int64]) -> list[float | None]:
    """The longest wait of what arrived in each bin, 0 where nothing did."""
    waits, most = run.waits, np.zeros(edges.size - 1)
    at = np.searchsorted(edges * run.timeline.step_s, waits.from_s, side="right") - 1
    np.maximum.at(most, np.clip(at, 0, most.size - 1), np.maximum(waits.wait_from_s, waits.wait_to_s))
    return _rounded(most)


def _means(
    values: npt.NDArray[np.floating] | npt.NDArray[np.int64], edges: npt.NDArray[np.int64]
) -> list[float | None]:
    sums = np.add.reduceat(np.asarray(values, dtype=np.float64), edges[:-1])
    return _rounded(sums / np.diff(edges))


def _rounded(values: npt.NDArray[np.floating]) -> list[float | None]:
    """Four digits are more than a chart shows; what is not finite is left open."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values.tolist()]
