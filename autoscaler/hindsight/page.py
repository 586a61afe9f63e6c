"""A page about the past that needs nothing else: sections of words with plots under them, drawn as the live page draws.

Enters: words and series. Leaves: HTML. All text from outside is escaped; long series are drawn from bins, as means.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from textwrap import dedent
from typing import Any, Final

import numpy as np

from autoscaler.adapters.web.standalone import standalone

BINS: Final = 1500
"""Points per line of a chart: more than the pixels it is drawn on."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot; `ink` and `fill` are names of the page's colours."""

    label: str
    ink: str
    values: Sequence[float | None]
    step: bool = False
    fill: str = ""
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot over the section's instants."""

    key: str
    title: str
    series: tuple[Curve, ...]
    whole: bool = False
    """Its axis shows whole numbers only."""


@dataclass(frozen=True, slots=True)
class Section:
    """Words, and plots over `at_s`."""

    title: str
    lines: Sequence[str]
    at_s: Sequence[float]
    plots: tuple[Plot, ...]


def past_page(
    kind: str, title: str, facts: Mapping[str, str], sections: Sequence[Section], notes: Iterable[str] = ()
) -> str:
    """The page as text."""
    hint = (
        '<p class="hint" id="hint">Drag in a plot to look closer, double-click for the whole; '
        "by keyboard, ← and → read a plot, + and − look closer and at the whole.</p>"
    )
    return standalone(
        kind=kind,
        title=title,
        facts=facts,
        body="\n".join(
            [
                *([hint] if any(each.plots for each in sections) else []),
                *(_section(index, section) for index, section in enumerate(sections)),
            ]
        ),
        content=[_drawn(section) for section in sections],
        notes=notes,
        script="past.js",
        style="past.css",
    )


def _section(index: int, section: Section) -> str:
    plots = "".join(
        f'<figure><figcaption class="legend" data-legend="{plot.key}"></figcaption>'
        f'<div class="plot" data-plot="{plot.key}"></div></figure>'
        for plot in section.plots
    )
    said = "".join(_words(list(lines), table) for table, lines in groupby(section.lines, _is_row))
    return f'<section class="run" id="past-{index}"><h2>{escape(section.title)}</h2>{said}{plots}</section>'


def _is_row(line: str) -> bool:
    """Whether a line is one of a table in text: its columns are set with spaces."""
    return "   " in line.strip()


def _words(lines: Sequence[str], table: bool) -> str:
    if table:
        return f'<div class="table words" tabindex="0"><pre>{escape(dedent(chr(10).join(lines)))}</pre></div>'
    told = (line.strip() for line in lines if line.strip())
    return "".join(f"<p>{escape(line[0].upper() + line[1:])}</p>" for line in told)


def _drawn(section: Section) -> dict[str, Any]:
    count = len(section.at_s)
    edges = np.unique(np.linspace(0, count, min(BINS, count) + 1).astype(np.int64))
    return {
        "x": [section.at_s[edge - 1] for edge in edges[1:].tolist()],
        "plots": [
            {
                "key": plot.key,
                "title": plot.title,
                "whole": plot.whole,
                "series": [
                    {
                        "label": series.label,
                        "ink": series.ink,
                        "fill": series.fill,
                        "step": series.step,
                        "dashed": series.dashed,
                        "values": _means(series.values, edges.tolist()),
                    }
                    for series in plot.series
                ],
            }
            for plot in section.plots
        ],
    }


def _means(values: Sequence[float | None], edges: Sequence[int]) -> list[float | None]:
    told: list[float | None] = []
    for first, last in pairwise(edges):
        known = [value for value in values[first:last] if value is not None and np.isfinite(value)]
        told.append(float(f"{sum(known) / len(known):.4g}") if known else None)
    return told
