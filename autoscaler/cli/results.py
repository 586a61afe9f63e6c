"""What `headroom simulate` leaves behind: the JSON of the scores, the CSV of a timeline, the table for a person.

Enters: finished entries and the bounds of their instance. Leaves: text. The same entries give the same bytes.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from autoscaler.cli.sheets import Sheet, print_sheet
from autoscaler.sim.entry import Entry, swept_record
from autoscaler.sim.instance import Instance
from autoscaler.sim.rivals import RIVALS
from autoscaler.sim.score import Reference
from autoscaler.sim.simulate import Run
from autoscaler.sim.sweep import GOAL, Frontier

TIMELINE_COLUMNS: Final = ("now_s", "workload", "desired", "ready", "starting", "arrivals", "waiting")
_WIDTH_WITHOUT_TERMINAL: Final = 140
_HOUR_S: Final = 3600.0
FLUID: Final = "fluid"
"""The serving model under which D2 is a bound."""
_FLUID_BOUNDS: Final = (
    "D2 is a lower bound: who serves 99 % in time takes at least that. D1 is the cheapest schedule of whole replicas "
    "that leaves nothing waiting; both know the arrivals."
)
_TURNS: Final = (
    "Over D1, over D2: GPU-hours divided by theirs. Turns: changes from growing to shrinking or back. Recovery: from "
    "an onset nobody could foresee until no request waits too long."
)
_COLUMNS: Final = f"{_TURNS} Coverage: forecasts whose upper bound held."
_MEASURED_BOUNDS: Final = "D1 and D2 are of a fluid at the replica's stated or measured capacity: references, not laws."


def json_text(
    entries: Sequence[Entry], instance: Instance, bounds: Reference, commands: Mapping[str, str], model: str
) -> str:
    """One object: policy -> its scores, what reproduces them, and the instance they belong to."""
    facts = _facts(instance, bounds, model)
    records: dict[str, dict[str, object]] = {}
    for entry in entries:
        record = entry.score.as_json(commands[entry.name])
        record["instance"] = facts
        if entry.knob is not None:
            record["knob"] = list(entry.knob)
        if entry.frontier is not None:
            record["swept"] = swept_record(entry.frontier, bounds)
        if entry.latency is not None:
            record["latency"] = entry.latency
        records[entry.name] = record
    return json.dumps(records, indent=2, allow_nan=False) + "\n"


def _facts(instance: Instance, bounds: Reference, model: str) -> dict[str, object]:
    traffic, spec = instance.traffic, instance.spec
    return {
        "traffic": traffic.source,
        "model": model,
        "duration_s": traffic.duration_s,
        "requests": traffic.total,
        "capacity_rps": spec.capacity_rps,
        "capacity_source": instance.capacity_source,
        "warmup_s": spec.warmup.mean_s,
        "slo_wait_s": spec.slo_wait_s,
        "d1_gpu_hours": _hours(bounds.d1_s),
        "d2_gpu_hours": _hours(bounds.d2_s),
        "bounds": bounds_note(model),
    }


def bounds_note(model: str) -> str:
    """What D1 and D2 mean under this serving model."""
    return _FLUID_BOUNDS if model == FLUID else _MEASURED_BOUNDS


def page_notes(model: str) -> tuple[str, ...]:
    """What a reader of the report's table must know, a paragraph each."""
    return bounds_note(model), f"{_TURNS} Settled: without two warm-ups and 60 s after each such onset."


def knob_note(entry: Entry) -> str:
    """A rival's setting and how it was chosen; empty for ours, which has none."""
    if entry.knob is None:
        return ""
    names = RIVALS[entry.name].KNOB_NAMES
    setting = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in zip(names, entry.knob, strict=True))
    if entry.frontier is None:
        return f"{setting}, its default"
    why = "best in hindsight" if entry.frontier.cheapest() is not None else f"none reaches {GOAL:.0%}; the closest"
    return f"{setting}, {why} of {len(entry.frontier.points)} settings"


def _hours(replica_s: float | None) -> float | None:
    return None if replica_s is None else replica_s / _HOUR_S


def timeline_paths(path: Path, names: Sequence[str]) -> dict[str, Path]:
    """Where each policy's timeline goes: the file itself for one policy, else FILE-POLICY with the file's suffix."""
    if len(names) == 1:
        return {names[0]: path}
    return {name: path.with_name(f"{path.stem}-{name}{path.suffix}") for name in names}


def timeline_text(run: Run) -> str:
    """CSV, one row per step: counts held during it, requests that arrived in it and that wait at its end."""
    timeline = run.timeline
    rows = zip(
        timeline.desired.tolist(),
        timeline.ready.tolist(),
        timeline.starting.tolist(),
        run.traffic.arrivals.tolist(),
        timeline.waiting.tolist(),
        strict=True,
    )
    name, step_s = run.traffic.name, timeline.step_s
    lines = [",".join(TIMELINE_COLUMNS)]
    lines += [
        f"{index * step_s:.12g},{name},{desired},{ready},{starting},{arrivals:.12g},{waiting:.12g}"
        for index, (desired, ready, starting, arrivals, waiting) in enumerate(rows)
    ]
    return "\n".join(lines) + "\n"


def print_results(
    entries: Sequence[Entry], instance: Instance, bounds: Reference, *, seed: int, to_stderr: bool
) -> None:
    """The instance in two lines, the table of policies, and the sweeps if there were any."""
    console = Console(stderr=to_stderr, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=to_stderr, highlight=False, width=_WIDTH_WITHOUT_TERMINAL)
    traffic, spec = instance.traffic, instance.spec
    console.print(
        f"{traffic.name}: {traffic.duration_s / _HOUR_S:.3g} h, {traffic.total:,.0f} requests, seed {seed}. A replica "
        f"serves {spec.capacity_rps:.4g} requests/s ({instance.capacity_source}), warm-up {spec.warmup.mean_s:g} s, "
        f"in time is a wait of {spec.slo_wait_s:g} s.",
        markup=False,
    )
    followed = any(entry.latency is not None for entry in entries)
    print_sheet(console, _scores(entries, bounds))
    console.print(f"{_MEASURED_BOUNDS if followed else _FLUID_BOUNDS}\n{_COLUMNS}", style="dim")
    if followed:
        print_sheet(console, _latencies(entries))
    swept = [entry.frontier for entry in entries if entry.frontier is not None]
    if swept:
        print_sheet(console, _sweeps(swept, bounds))


def _scores(entries: Sequence[Entry], bounds: Reference) -> Sheet:
    table = Sheet(
        ("policy", "in time", "GPU-hours", "serving", "warming", "idle", "over D1", "over D2", "turns\n/day",
         "starts\n/day", "recovery", "coverage")
    )  # fmt: skip
    for entry in entries:
        score, hours = entry.score, entry.score.gpu_hours
        table.add(
            entry.name, f"{score.attainment:.2%}", f"{hours.total:.1f}", f"{hours.serving:.1f}", f"{hours.warming:.1f}",
            f"{hours.idle:.1f}", _number(score.ratio_d1, ".3f"), _number(score.ratio_d2, ".3f"),
            f"{score.direction_changes_per_day:.0f}", f"{score.starts_per_day:.0f}",
            _number(score.recovery_s, ".0f", " s"), _number(score.coverage, ".1%"),
        )  # fmt: skip
    table.section()
    for name, replica_s in (("D1", bounds.d1_s), ("D2", bounds.d2_s)):
        if replica_s is not None:
            table.add(name, "", f"{replica_s / _HOUR_S:.1f}")
    return table


def _latencies(entries: Sequence[Entry]) -> Sheet:
    table = Sheet(("policy", "TTFT p50", "p90", "p99", "per token p50", "p90", "p99", "end to end p50", "p90", "p99"))
    for entry in entries:
        cells = [entry.name]
        for figure in ("ttft_s", "tpot_s", "e2e_s"):
            percentiles = (entry.latency or {}).get(figure)
            values = percentiles.values() if isinstance(percentiles, dict) else ()
            cells += [_number(value, ".3g", " s") for value in values]
        table.add(*cells)
    return table


def _sweeps(frontiers: Sequence[Frontier], bounds: Reference) -> Sheet:
    table = Sheet(("swept in hindsight", "settings", "best", "in time", "GPU-hours", "over D2", "at 99 %", "over D2"))
    for frontier in frontiers:
        cheapest, hours = frontier.cheapest(), frontier.hours_at()
        cells = [frontier.rival, str(len(frontier.points))]
        if cheapest is None or hours is None:
            cells += ["never 99 %", f"{max(point.score.attainment for point in frontier.points):.2%}"]
        else:
            score, best = cheapest.score, " ".join(f"{value:g}" for value in cheapest.knob)
            cells += [best, f"{score.attainment:.2%}", f"{score.gpu_hours.total:.1f}", _number(score.ratio_d2, ".3f")]
            cells += [f"{hours:.1f}", _number(hours * _HOUR_S / bounds.d2_s if bounds.d2_s else None, ".3f")]
        table.add(*cells)
    return table


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"
