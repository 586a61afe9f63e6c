"""Small drawings as inline SVG: survival of surges, hours of the day, capacity against waiting.

Enters: measured curves. Leaves: markup whose colours are the page's own, so that it follows dark mode and needs no
script. Every drawing says in its label what it shows.
"""

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from autoscaler.preflight.survival import Survival
from autoscaler.preflight.sustained import ByHour
from autoscaler.record.explain import duration, number

WIDTH, HEIGHT = 380, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 10, 10, 26
_INNER_W, _INNER_H = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
_TIMES_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 86_400, 30 * 86_400)

Place = Callable[[float], float]


def survival_figure(curve: Survival, cold_start_s: float, step_s: float) -> str:
    """Share of surges that go on, against their length on a logarithmic axis; the cold start is marked."""
    first, last = math.log(step_s), math.log(max(curve.longest_s, 2 * cold_start_s, 4 * step_s))

    def across(seconds: float) -> float:
        return _LEFT + _INNER_W * (math.log(max(seconds, step_s)) - first) / (last - first)

    up = _scale(0.0, 1.0)
    times = np.concatenate(([step_s], curve.after_s, [curve.longest_s]))
    shares = np.concatenate(([1.0, *curve.share.tolist()], curve.share[-1:]))
    lows = np.concatenate(([1.0, *curve.low.tolist()], curve.low[-1:]))
    highs = np.concatenate(([1.0, *curve.high.tolist()], curve.high[-1:]))
    line = _steps([across(t) for t in times.tolist()], [up(s) for s in shares.tolist()])
    upper = _steps([across(t) for t in times.tolist()], [up(s) for s in highs.tolist()])
    lower = _steps([across(t) for t in times.tolist()], [up(s) for s in lows.tolist()])
    band = f"M{upper} L{' '.join(reversed(lower.split()))} Z"
    at = across(cold_start_s)
    side, anchor = (at - 5, "end") if at > WIDTH * 0.6 else (at + 5, "start")
    body = [
        *_grid(up, [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")]),
        *_ticks(across, [(t, duration(t)) for t in _TIMES_S if step_s <= t <= math.exp(last)]),
        f'<path class="band" d="{band}"/>',
        f'<polyline class="line" points="{line}"/>',
        f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>',
        f'<text class="note" x="{side:.1f}" y="{_TOP + 12}" text-anchor="{anchor}">cold start</text>',
    ]
    found = curve.at(cold_start_s)
    outlast = "" if found is None else f"; {100 * found[0]:.0f} % outlast a cold start of {duration(cold_start_s)}"
    return _svg(f"share of {curve.episodes} surges that go on, by length{outlast}", body)


def hours_figure(hours: ByHour, unit: str) -> str:
    """Floor, usual level and upper band for each hour of the day."""
    high, floor, usual = hours.high, hours.floor, hours.usual
    top = float(np.nanmax(high)) or 1.0
    up, across = _scale(0.0, 1.08 * top), _LEFT + _INNER_W / 24.0 * np.arange(25)
    body = [*_grid(up, [(0.0, "0"), (0.5 * top, number(0.5 * top)), (top, number(top))])]
    body += _ticks(lambda hour: float(_LEFT + _INNER_W / 24.0 * hour), [(h, f"{h:02d}h") for h in (0, 6, 12, 18)])
    for hour in range(24):
        if not np.isfinite(high[hour]):
            continue
        left, width = across[hour] + 1, _INNER_W / 24.0 - 2
        upper, middle, lower = up(float(high[hour])), up(float(usual[hour])), up(float(floor[hour]))
        low, most = float(hours.floor_low[hour]), float(hours.floor_high[hour])
        sure = f" (90 % sure: {number(low)} to {number(most)})" if np.isfinite(low) else ""
        body.append(
            f'<rect class="bar" x="{left:.1f}" width="{width:.1f}" y="{upper:.1f}" '
            f'height="{max(lower - upper, 0.5):.1f}"><title>{hour:02d}:00 floor '
            f"{number(float(floor[hour]))}{sure}, usually {number(float(usual[hour]))}, up to "
            f"{number(float(high[hour]))} {escape(unit)}</title></rect>"
            f'<line class="usual" x1="{left:.1f}" x2="{left + width:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>'
            f'<line class="low" x1="{left:.1f}" x2="{left + width:.1f}" y1="{lower:.1f}" y2="{lower:.1f}"/>'
        )
    return _svg(f"levels by hour of the day, in {unit}; the highest hour reaches {number(top)}", body)


def waits_figure(capacity_for: Sequence[tuple[float, float]], unit: str) -> str:
    """Bars: the constant capacity that keeps every wait within a tolerance."""
    most = max(capacity for _, capacity in capacity_for) or 1.0
    rows = "".join(
        f"<span>{'no wait' if wait == 0 else duration(wait)}</span>"
        f'<span class="bar" role="img" aria-label="{number(capacity)} {escape(unit)}">'
        f'<i class="serving" style="width:{100 * capacity / most:.1f}%"></i></span>'
        f'<span class="total">{number(capacity)}</span>'
        for wait, capacity in capacity_for
    )
    return f'<div class="bars">{rows}</div>'


def _scale(low: float, high: float) -> Place:
    return lambda value: _TOP + _INNER_H * (1.0 - (value - low) / (high - low))


def _steps(xs: Sequence[float], ys: Sequence[float]) -> str:
    """Points of a line that stays at each y up to the next x."""
    points = [f"{xs[0]:.1f},{ys[0]:.1f}"]
    for index in range(1, len(xs)):
        points += [f"{xs[index]:.1f},{ys[index - 1]:.1f}", f"{xs[index]:.1f},{ys[index]:.1f}"]
    return " ".join(points)


def _grid(up: Place, marks: Sequence[tuple[float, str]]) -> list[str]:
    return [
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{up(value) + 4:.1f}" text-anchor="end">{escape(text)}</text>'
        for value, text in marks
    ]


def _ticks(across: Callable[[float], float], marks: Sequence[tuple[float, str]]) -> list[str]:
    """Labels below the axis, those that would touch the one before left out."""
    out, end = [], -100.0
    for value, text in marks:
        at, half = across(value), 3.4 * len(text)
        if at - half > end + 6 and at + half <= WIDTH:
            out.append(f'<text x="{at:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(text)}</text>')
            end = at + half
    return out


def _svg(label: str, body: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">{"".join(body)}</svg>'
