"""The measured ratios as Markdown tables, losses included. Enters: records. Leaves: text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
"""A record of `figures`, as it is or read back from JSON."""
_GOAL = 0.99
_NONE = "–"
_SPIKES = "spike-train"


def render(records: Sequence[Row]) -> str:
    """One table per kind of instance; a figure in bold misses its target."""
    parts = [_titled(title, table([row for row in records if row["kind"] == kind])) for kind, title, table in _TABLES]
    return "\n".join(part for part in parts if part)


def _titled(title: str, table: str) -> str:
    return f"{title}\n\n{table}" if table else ""


def _days(rows: Sequence[Row]) -> str:
    heads = (
        "model", "day", "warm-up", "D2, GPU-h", "best rival", "ratio", "perfect", "headroom", "in time", "gap closed",
        "flips/day", "kpa's", "starts/day", "coverage",
    )  # fmt: skip
    return _table(heads, (_day(row) for row in rows))


def _day(row: Row) -> tuple[str, ...]:
    ours, compared = row["headroom"], row["compared"]
    flips, restless = compared["flips_per_day"], compared["kpa_flips_per_day"]
    return (
        row["label"], str(row["day"]), _seconds(row["warmup_s"]), f"{row['d2_gpu_hours']:.1f}",
        compared["best_rival"] or "none reaches 99 %", _ratio(compared["best_rival_ratio_d2"]),
        _ratio(compared["perfect_ratio_d2"]), _ratio(ours["ratio_d2"]), _in_time(ours["attainment"]),
        _percent(compared["gap_closed"], at_least=0.25), _marked(f"{flips:.0f}", flips * 10 <= restless),
        f"{restless:.0f}", f"{ours['starts_per_day']:.0f}", _percent(ours["coverage"]),
    )  # fmt: skip


def _named(rows: Sequence[Row]) -> str:
    heads = (
        "workload", "warm-up", "D2, GPU-h", "best rival", "ratio", "perfect", "headroom", "in time", "over best rival",
        "settled: in time", "settled: over best", "recovery", "fastest rival's", "flips/day", "kpa's",
    )  # fmt: skip
    return _table(heads, (_name(row) for row in rows))


def _name(row: Row) -> tuple[str, ...]:
    ours, compared, settled = row["headroom"], row["compared"], row.get("settled")
    judged = settled is None and row["label"] != _SPIKES  # spikes have a target of their own
    cells = (
        row["label"], _seconds(row["warmup_s"]), f"{row['d2_gpu_hours']:.1f}",
        compared["best_rival"] or "none reaches 99 %", _ratio(compared["best_rival_ratio_d2"]),
        _ratio(compared["perfect_ratio_d2"]), _spike(row), _in_time(ours["attainment"], judged=settled is None),
        _over(compared["hours_over_best_rival"], ours["attainment"], judged=judged),
    )  # fmt: skip
    recovered = (_NONE, _NONE, _NONE, _NONE)
    if settled is not None:
        recovered = (
            _in_time(settled["attainment"]),
            _over(settled["hours_over_best_rival"], settled["attainment"], judged=True),
            _warmups(settled["recovery_s"], row["warmup_s"], at_most=1.6),
            _warmups(settled["fastest_rival_recovery_s"], row["warmup_s"]),
        )
    return (*cells, *recovered, f"{compared['flips_per_day']:.0f}", f"{compared['kpa_flips_per_day']:.0f}")


def _spike(row: Row) -> str:
    ratio = row["headroom"]["ratio_d2"]
    return _marked(_ratio(ratio), row["label"] != _SPIKES or ratio <= 1.25)


def _on_off(rows: Sequence[Row]) -> str:
    heads = (
        "traffic", "warm-up", "D2, GPU-h", "headroom, GPU-h", "in time", "constant at 95 %", "constant at ours",
        "best reactive in time", "flips/day",
    )  # fmt: skip
    return _table(heads, (_came_and_went(row) for row in rows))


def _came_and_went(row: Row) -> tuple[str, ...]:
    ours, constant = row["headroom"], row["constant_hours"]
    hours = sum(ours["gpu_hours"].values())
    reactive = {name: r["best_attainment"] for name, r in row["rivals"].items() if name not in {"static", "perfect"}}
    best = max(reactive, key=lambda name: float(reactive[name]))
    below = constant["at_95"] is not None and hours < constant["at_95"]
    return (
        row["label"], _seconds(row["warmup_s"]), f"{row['d2_gpu_hours']:.1f}", _marked(f"{hours:.1f}", below),
        _in_time(ours["attainment"], goal=0.95), _hours(constant["at_95"]), _hours(constant["at_ours"]),
        f"{best} {reactive[best]:.1%}", f"{ours['direction_changes_per_day']:.0f}",
    )  # fmt: skip


_TABLES: tuple[tuple[str, str, Callable[[Sequence[Row]], str]], ...] = (
    ("day", "**Whole days of ServeGen rates**, GPU-hours over D2 (rivals at exactly 99 % in time)", _days),
    ("named", "**Built-in workloads**, GPU-hours over D2", _named),
    ("on-off", "**On/off traffic**, against the best constant count", _on_off),
)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    return "\n".join((f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines)) + "\n"


def _marked(text: str, met: bool) -> str:
    return text if met else f"**{text}**"


def _ratio(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"


def _hours(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1f}"


def _seconds(value: float) -> str:
    return f"{value:g} s"


def _in_time(value: float, *, goal: float = _GOAL, judged: bool = True) -> str:
    return _marked(f"{value:.2%}", value >= goal or not judged)


def _percent(value: float | None, *, at_least: float | None = None) -> str:
    if value is None:
        return _NONE if at_least is None else f"**{_NONE}**"
    return _marked(f"{value:.0%}" if at_least is not None else f"{value:.1%}", at_least is None or value >= at_least)


def _over(value: float | None, attained: float, *, judged: bool) -> str:
    """Cost over the best rival's; fewer GPU-hours below the goal prove nothing: a judged figure is then left out."""
    if value is None:
        return _NONE
    comparable = attained >= _GOAL or not judged
    return _marked(f"{value:+.1%}" if comparable else _NONE, comparable and (not judged or value <= 0.03))


def _warmups(seconds: float | None, warmup_s: float, *, at_most: float | None = None) -> str:
    if seconds is None:
        return _NONE
    warmups = seconds / warmup_s
    return _marked(f"{warmups:.2f} warm-ups", at_most is None or warmups <= at_most)
