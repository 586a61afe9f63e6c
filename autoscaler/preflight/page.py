"""The report as one HTML page that needs nothing else: the answers in words first, then their plots and their origin.

Enters: findings and the policies' text. Leaves: markup with the charts drawn by the same code as the live page's. All
text from outside is escaped; of very many workloads only the largest have a section, and all have a row.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

import numpy as np

from autoscaler import __version__
from autoscaler.adapters.web.standalone import standalone
from autoscaler.preflight.answers import Answer, CannotTell, Measured
from autoscaler.preflight.bands import Bands
from autoscaler.preflight.bursts import Bursts
from autoscaler.preflight.chart import Chart, lines
from autoscaler.preflight.document import Findings
from autoscaler.preflight.figures import hours_figure, survival_figure, waits_figure
from autoscaler.preflight.history import Fact
from autoscaler.preflight.phrases import lasting, said, value_text
from autoscaler.preflight.policies import policy
from autoscaler.preflight.rows import inputs, plan, unknowns
from autoscaler.preflight.study import WorkloadStudy
from autoscaler.preflight.tables import answer_table, batch_section, warm_section
from autoscaler.preflight.words import TITLES, Sentence, cluster_sentences, workload_sentences
from autoscaler.record.explain import EPOCH_FROM_S, EPOCH_TO_S, clock

DETAILED: Final = 40
"""Workloads with a section of their own, the largest first."""


def page(findings: Findings) -> str:
    """The page as text."""
    ranked = sorted(findings.workloads, key=_size, reverse=True)
    shown, many = ranked[:DETAILED], len(ranked) > 1
    charts = {f"w{index}": _drawn(study.chart, _leading_bands(study)) for index, study in enumerate(shown)}
    sections = "\n".join(_section(f"w{index}", study) for index, study in enumerate(shown))
    together = ""
    if many:
        charts["all"] = _drawn(findings.cluster.chart, findings.cluster.bands)
        together = _cluster(findings) + _table(ranked, len(shown))
    return standalone(
        kind="Headroom preflight",
        title=_title(findings),
        facts=_facts(findings),
        body="\n".join(
            part for part in (together, sections, warm_section(findings.warm), batch_section(findings.batch)) if part
        ),
        content={key: chart for key, chart in charts.items() if chart is not None},
        command=findings.command,
        notes=_notes(findings, len(ranked) - len(shown)),
        script="preflight.js",
        style="preflight.css",
    )


def _title(findings: Findings) -> str:
    names = [study.workload for study in findings.workloads]
    return names[0] if len(names) == 1 else f"{len(names)} workloads"


def _size(study: WorkloadStudy) -> float:
    """Largest first: by GPU-hours held, else by the mean of what was asked."""
    held = study.provision.held
    if isinstance(held, Measured):
        return 1e9 + held.value
    if study.chart is None or not np.isfinite(study.chart.mean).any():
        return -1.0
    return float(np.nanmean(study.chart.mean))


def _facts(findings: Findings) -> dict[str, str]:
    begin = min(study.window.from_s for study in findings.workloads)
    end = max(study.window.until_s for study in findings.workloads)
    return {
        "Record": lasting(end - begin),
        "From": clock(begin),
        "To": clock(end),
        "Workloads": f"{len(findings.workloads):,}",
        "Cold start": said(findings.cluster.cold_start),
        "Sources": ", ".join(findings.sources),
    }


def _answers(sentences: Sequence[Sentence]) -> str:
    items = "".join(
        f'<li class="{"told" if sentence.told else "untold"}"><h3>{escape(TITLES[sentence.question])}</h3>'
        f"<p>{escape(sentence.text)}</p><small>{escape(sentence.measured)}</small></li>"
        for sentence in sentences
    )
    return f'<ol class="answers">{items}</ol>'


def _cluster(findings: Findings) -> str:
    study = findings.cluster
    left = ""
    if study.left_out:
        names = ", ".join(study.left_out[:8]) + (" …" if len(study.left_out) > 8 else "")
        left = f'<p class="hint">Not in the sum, which is in {escape(study.unit)}: {escape(names)}</p>'
    title = f'<h2 id="together">All {study.workloads} workloads together</h2>'
    body = _answers(cluster_sentences(study)) + _plot("all", study.chart)
    body += _figures(study.bands, study.bursts, study.capacity_for, study.unit)
    parts = study.provision
    rows = [
        ("GPU-hours held", parts.held), ("GPU-hours needed", parts.needed), ("Held beyond need", parts.wasted),
        ("Missing beneath need", parts.short), ("What the excess costs", parts.cost),
        ("Floor of the sum", study.floor.joint), ("Sum of the floors", study.floor.apart),
        ("Highest level of the sum", study.ceiling.joint), ("Sum of the highest levels", study.ceiling.apart),
        ("Sharing saves at the top", study.ceiling.gain),
    ]  # fmt: skip
    return (
        f'<section aria-labelledby="together">{title}{body}{left}{answer_table("What it adds up to", rows)}</section>'
    )


def _table(ranked: Sequence[WorkloadStudy], shown: int) -> str:
    columns = ("Always needed", "Highest sustained", "Over before capacity", "Computing", "Wait, p99", "Beyond need")
    head = "".join(f'<th scope="col" class="num">{name}</th>' for name in columns)
    rows = "".join(_row(study, f"w{index}" if index < shown else "") for index, study in enumerate(ranked))
    return (
        '<section aria-labelledby="each"><h2 id="each">Workload by workload</h2><div class="table" tabindex="0">'
        f'<table class="scores"><thead><tr><th scope="col">Workload</th>{head}</tr></thead><tbody>{rows}</tbody>'
        "</table></div></section>"
    )


def _row(study: WorkloadStudy, anchor: str) -> str:
    bands = _leading_bands(study)
    over = study.bursts if isinstance(study.bursts, CannotTell) else study.bursts.over_before
    cells = [
        bands if isinstance(bands, CannotTell) else bands.floor,
        bands if isinstance(bands, CannotTell) else bands.highest,
        over,
        study.residency.computing,
        study.waiting.waits[2],
        study.provision.wasted,
    ]
    name = escape(study.workload)
    label = f'<a href="#{anchor}">{name}</a>' if anchor else name
    return f'<tr><th scope="row">{label}</th>{"".join(_cell(cell) for cell in cells)}</tr>'


def _cell(found: Answer) -> str:
    if isinstance(found, CannotTell):
        return f'<td class="num untold" title="{escape(found.text)}">–</td>'
    return f'<td class="num" title="{escape(found.how)}">{escape(value_text(found.value, found.unit))}</td>'


def _section(key: str, study: WorkloadStudy) -> str:
    told = {name: value for name, value in study.facts.items() if name != Fact.SLOTS}  # a row says which one counts
    named = {**told, **({"work": study.waiting.work} if isinstance(study.waiting.work, str) else {})}
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in named.items())
    note = f"<small>{escape(facts)}</small>" if facts else ""
    bands = _leading_bands(study)
    figures = _figures(bands, study.bursts, study.waiting.capacity_for, study.waiting.capacity_unit)
    missing = "".join(f"<li>{escape(line)}</li>" for line in unknowns(study))
    gone = f"<details><summary>What was not recorded</summary><ul>{missing}</ul></details>" if missing else ""
    yaml = escape(policy(study, set()))
    return (
        f'<section class="run" id="{key}"><h2>{escape(study.workload)}{note}</h2>{_answers(workload_sentences(study))}'
        f"{_plot(key, study.chart)}{figures}{answer_table('What to provision for', plan(study))}"
        f"{answer_table('The seven inputs', inputs(study))}{gone}"
        f"<details><summary>The policy to begin with</summary><pre>{yaml}</pre></details></section>"
    )


def _plot(key: str, chart: Chart | None) -> str:
    if chart is None:
        return ""
    return (
        f'<figure><figcaption class="legend" data-legend="{key}"></figcaption>'
        f'<div class="plot" data-plot="{key}"></div></figure>'
    )


def _figures(
    bands: Bands | CannotTell, seen: Bursts | CannotTell, capacity_for: Sequence[tuple[float, float]], unit: str
) -> str:
    drawn = []
    if isinstance(seen, Bursts) and seen.survival is not None:
        step_s = float(seen.episodes.duration_s.min())
        drawn.append(("How many surges go on, by length", survival_figure(seen.survival, seen.cold_start_s, step_s)))
    if isinstance(bands, Bands) and not isinstance(bands.hours, CannotTell):
        day = "By hour of the day (UTC)" if _dated(bands.peak) else "By hour of the day"
        drawn.append((f"{day}, {bands.unit}", hours_figure(bands.hours, bands.unit)))
    if len(capacity_for) > 1:
        drawn.append((f"Capacity if requests may wait, {unit}", waits_figure(capacity_for, unit)))
    boxes = "".join(f"<figure><figcaption>{escape(title)}</figcaption>{body}</figure>" for title, body in drawn)
    return f'<div class="figures">{boxes}</div>' if drawn else ""


def _dated(found: Answer) -> bool:
    """Whether the record counts from 1970; one that counts from its own beginning has no time zone."""
    return isinstance(found, Measured) and EPOCH_FROM_S <= found.window.from_s < EPOCH_TO_S


def _notes(findings: Findings, left: int) -> list[str]:
    notes = [*findings.notes]
    if left > 0:
        notes.append(f"{left} smaller workloads have a row and no section; their answers are in preflight.json.")
    notes.append(
        "Levels are means over windows of one cold start; the floor is what these reach 95 % of the time. Intervals "
        "hold the true value nine times in ten: whole days drawn again and again, hours where there are few days. "
        "Needed is what a controller without a forecast must hold that keeps each replica one cold start longer."
    )
    return [*notes, f"Headroom {__version__}"]


def _leading_bands(study: WorkloadStudy) -> Bands | CannotTell:
    """The bands of the demand that the chart shows."""
    return study.rate if isinstance(study.concurrency, CannotTell) else study.concurrency


def _drawn(chart: Chart | None, bands: Bands | CannotTell) -> dict[str, object] | None:
    if chart is None:
        return None
    levels = {} if isinstance(bands, CannotTell) else {"floor": bands.floor, "top": bands.highest}
    marks = {name: level.value for name, level in levels.items() if isinstance(level, Measured)}
    return {"floor": None, "top": None, **lines(chart), **marks}
