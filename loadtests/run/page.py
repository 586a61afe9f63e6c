"""The report of a run: one HTML file that needs nothing else, drawn by the same code as the product's own pages.

Enters: a document. Leaves: the page as text. All text from outside is escaped; charts are drawn from seconds.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec

from autoscaler.adapters.web.assets import assemble
from loadtests.bench.machine import machine
from loadtests.run.charts import content
from loadtests.run.document import LABELS, SCOPE, Document, scaler_use
from loadtests.run.fidelity import Fidelity, Middle
from loadtests.run.scenario import Make
from loadtests.run.words import (
    MOMENT_COLUMNS,
    about_lines,
    apart_text,
    ended,
    harness,
    in_time_text,
    middle_title,
    notes,
    recovery_text,
    seconds_text,
    state_texts,
    why,
)

_OWN: Final = Path(__file__).parent

MAKES: Final = {Make.OURS: "the harness' own, {pages} pages", Make.DYNAMO: "NVIDIA Dynamo's simulated vLLM"}


def page(documents: Sequence[Document], command: str, middle: Middle | None = None) -> str:
    """The page of one run, or of several of one scenario side by side, with what they come to together."""
    told = "".join(
        f"<p>{escape(note if len(documents) == 1 else f'{document.label}: {note}')}</p>"
        for document in documents
        for note in notes(document)
    )
    sections = "".join(_run(index, document, alone=len(documents) == 1) for index, document in enumerate(documents))
    return assemble(
        "standalone.html",
        {
            "kind": escape(f"Headroom load test: {SCOPE}"),
            "title": escape(documents[0].scenario.title),
            "facts": _facts(documents) + _about(documents[0]) + f"<p><code>{escape(command)}</code></p>",
            "body": _warning(documents) + _figures(documents, middle) + sections,
            "notes": f'<div class="notes">{told}</div>' if told else "",
            "content": msgspec.json.encode([content(each) for each in documents]).decode().replace("<", "\\u003c"),
            "own.css": (_OWN / "page.css").read_text(encoding="utf-8"),
            "own.js": (_OWN / "page.js").read_text(encoding="utf-8"),
        },
    )


def _facts(documents: Sequence[Document]) -> str:
    document = documents[0]
    scenario, on = document.scenario, machine()
    stages = ", ".join(f"{name} {length_s:g} s" for name, length_s in scenario.engine.stages)
    slots = scenario.engine.warm_slots
    warm = f"; {scenario.engine.last_s:g} s on each of {slots} warm slots" if slots else ""
    policy = scenario.policy
    facts = {
        "Scenario": document.name,
        "Scaled by": " | ".join(dict.fromkeys(LABELS[each.scenario.scaling] for each in documents)),
        "Ran": " | ".join(ended(each) for each in documents),
        "Warm-up": f"{scenario.engine.warm_up_s:g} s ({stages}){warm}",
        "Engine": MAKES[scenario.engine.make].format(pages=scenario.engine.pages),
        "Objective": f"first token within {policy.ttft:g} s",
        "Replicas": f"{policy.min_replicas} to {policy.max_replicas}, {policy.replicas} at first",
        "Seed": str(scenario.seed),
        "Machine": f"{on['cpu']}, {on['cores']} cores",
    }
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="facts">{rows}</dl>'


def _about(document: Document) -> str:
    return f'<p class="about">{escape(document.scenario.about)}</p>' if document.scenario.about else ""


def _warning(documents: Sequence[Document]) -> str:
    told = "".join(f"<p>{escape(f'{each.label}: {ended(each)}')}.</p>" for each in documents if each.cut)
    return f'<section class="cut"><h2>Partial report</h2>{told}</section>' if told else ""


def _figures(documents: Sequence[Document], middle: Middle | None) -> str:
    columns = [(each.label, each.measured) for each in documents]
    if middle is not None:
        columns.append((middle_title(middle), middle.measured))
    # Runs of one way of scaling have one prediction.
    foretold = {LABELS[each.scenario.scaling]: each.prediction.figures for each in documents if each.prediction}
    columns += [(f"the simulator, {label}", figures) for label, figures in foretold.items()]
    found = [figures for _, figures in columns]
    rows: list[tuple[str, list[str]]] = [
        ("Requests in time", [in_time_text(f) for f in found]),
        ("Recovery", ["–" if f.recovery_s is None else recovery_text(f.recovery_s) for f in found]),
        *((f"Time to first token, {name}", [seconds_text(f.ttft_s[name]) for f in found]) for name in found[0].ttft_s),
        ("GPU-hours", [f"{f.gpu_hours.total:.3f}" for f in found]),
        ("of them warming", [f"{f.gpu_hours.warming:.3f}" for f in found]),
        ("serving", [f"{f.gpu_hours.serving:.3f}" for f in found]),
        ("idle or leaving", [f"{f.gpu_hours.idle:.3f}" for f in found]),
        ("Replicas at most, at the end", [f"{f.most_replicas}, {f.last_replicas}" for f in found]),
    ]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("Figure", *(label for label, _ in columns)))
    body = "".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{escape(text)}</td>" for text in texts)}</tr>'
        for name, texts in rows
    )
    table = f'<table class="figures"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    told = "" if middle is None else _fidelity(middle.fidelity, middle_title(middle))
    told += "".join(
        _verdict(each) + _fidelity(each.fidelity, "" if len(documents) == 1 else each.label) for each in documents
    )
    told += "".join(_own(each) for each in documents)
    return f'<section><h2>Figures</h2><div class="table" tabindex="0">{table}</div>{told}</section>'


def _verdict(document: Document) -> str:
    """What late requests waited for, what there was against it, and what would have helped."""
    parts = "".join(
        f"<h3>{escape(title)}</h3><ul>{''.join(f'<li>{escape(line)}</li>' for line in told)}</ul>"
        for title, told in about_lines(document)
        if told
    )
    return f'<div class="verdict">{parts}</div>'


def _fidelity(found: Sequence[Fidelity], of: str) -> str:
    if not found:
        return ""
    rows = "".join(
        f'<li class="{"held" if row.held else "missed"}">{escape(row.name)}: {escape(apart_text(row))}</li>'
        for row in found
    )
    return f"<h3>How near the simulator was{f': {escape(of)}' if of else ''}</h3><ul>{rows}</ul>"


def _own(document: Document) -> str:
    use = scaler_use(document.course)
    if use["cores"] is None:
        return ""
    words = f"{document.label} took {use['cores']:.2f} cores and at most {use['most_rss_mib']:.0f} MiB"
    return f'<p class="own">{escape(words)}; the harness itself {escape(harness(document))}.</p>'


def _run(index: int, document: Document, *, alone: bool) -> str:
    """Charts and decisions of one run."""
    shed = ("shed",) if document.shedding.told else ()
    plots = "".join(
        f'<figure><figcaption class="legend" data-legend="{name}"></figcaption>{_plot(name)}</figure>'
        for name in ("load", "replicas", "decisions", "queue", "ttft", *shed, "scaler")
    )
    title = "Second by second" if alone else escape(document.label)
    told = _moments(document) + _decisions(document)
    charts = f'<section class="run" id="run-{index}"><h2>{title}</h2>{plots}{"" if alone else told}'
    return f"{charts}</section>" + (f"<section>{told}</section>" if alone else "")


def _plot(name: str) -> str:
    if name == "decisions":
        return f'<div class="strip" data-strip="{name}"></div><p class="words" data-words="{name}"></p>'
    return f'<div class="plot" data-plot="{name}"></div>'


def _moments(document: Document) -> str:
    """What happened, in order, beside the state in that second."""
    if not document.moments:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in MOMENT_COLUMNS)
    rows = "".join(
        f"<tr><td>{each.at_s:+.1f} s</td><td>{escape(each.what)}</td>"
        + "".join(f"<td>{escape(text)}</td>" for text in state_texts(each.state))
        + "</tr>"
        for each in document.moments
    )
    table = f'<table class="moments"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<h2>What happened, and the state then</h2><div class="table" tabindex="0">{table}</div>'


def _decisions(document: Document) -> str:
    course = document.course
    lines = [line for line in course.decisions if line["now_s"] <= course.began_at_s + document.scenario.duration]
    moved = [line for line in lines if line["verdict"] == "SCALE"]
    summary = f"<summary>All {len(lines)} decisions, holds among them</summary>"
    every = f"<details>{summary}{_rows(document, lines)}</details>" if len(lines) > len(moved) else ""
    return f"<h2>Decisions that changed the count</h2>{_rows(document, moved)}{every}"


def _rows(document: Document, lines: Sequence[dict[str, Any]]) -> str:
    if not lines:
        return "<p>None.</p>"
    began_s = document.course.began_at_s
    rows = "".join(
        f"<tr><td>{line['now_s'] - began_s:+.1f} s</td><td><b>{line['seen_replicas']} → {line['replicas']}</b></td>"
        f"<td>{escape(line['reason'])}</td><td>{escape(why(line))}</td></tr>"
        for line in lines
    )
    return f'<div class="decisions" tabindex="0"><table><tbody>{rows}</tbody></table></div>'
