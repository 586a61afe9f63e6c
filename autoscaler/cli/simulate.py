"""`headroom simulate`: policies against one traffic, judged beside the clairvoyant optimum.

Parses, calls the simulator, prints. All that can be refused is refused before the first run, and files appear together
at the end or not at all.
"""

import shlex
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from autoscaler.cli.heeded import Legal, refuse_out_of_range
from autoscaler.cli.output import check_writable, interruptible, write_together
from autoscaler.errors import InputError
from autoscaler.sim.choices import GROUPS, MAX_REPLICAS, PROFILE_PARTS, REPLICAS_AT_PEAK, RIVALS, TRACE_PARTS, WORKLOADS


class Model(Enum):
    """How replicas serve: a fixed rate, or every request through continuous batching."""

    FLUID = "fluid"
    REQUESTS = "requests"


def _option(help_text: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help_text, metavar=metavar)


Trace = Annotated[str | None, _option(f"A trace file, or a part of it: {TRACE_PARTS}.", "FILE")]
Workload = Annotated[str | None, _option(f"A built-in workload: {', '.join(WORKLOADS)}.", "NAME")]
Day = Annotated[str | None, _option("Days of the trace, counted from 0: 1, or 1-3.", "N[-M]")]
WarmUp = Annotated[float, _option("Seconds from ordering a replica to its first served request.", "SECONDS")]
WarmUpP90 = Annotated[float | None, _option("Make the warm-up lognormal with this 90th percentile.", "SECONDS")]
PolicyList = Annotated[
    str,
    _option(f"Comma-separated: headroom, headroom-TERM, {', '.join(RIVALS)}; groups: {', '.join(GROUPS)}.", "LIST"),
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the scores here; - is stdout.", metavar="FILE")]
ReportFile = Annotated[Path | None, _option("Write a self-contained page here.", "FILE")]
TimelineFile = Annotated[
    Path | None, _option("Write what was held, step by step; several policies: FILE-POLICY.csv.", "FILE.csv")
]
Seed = Annotated[int, _option("Seed of all that is drawn.", "N")]
ModelName = Annotated[Model, _option("fluid: replicas as a fixed rate; requests: every request by itself.", "NAME")]
ProfileFile = Annotated[str | None, _option(f"Latencies of an engine, with --model requests: {PROFILE_PARTS}.", "FILE")]
CapacityRps = Annotated[float | None, _option("What one replica serves at most, requests/s.", "RPS")]
AtPeak = Annotated[float, _option("Else: replicas that the busiest minute keeps busy.", "N")]
SloWait = Annotated[float, _option("The objective: a request waits at most this long.", "SECONDS")]
FailedStarts = Annotated[float, _option("Share of starts that fail.", "RATIO")]
MinReplicas = Annotated[int | None, _option("Everyone's floor; without it ours is 1, rivals have their own.", "N")]
MaxReplicas = Annotated[int, _option("Everyone's maximum.", "N")]
Tick = Annotated[float | None, _option("Seconds between our decisions.", "SECONDS")]
Sweep = Annotated[bool, _option("Run each rival at every setting and report the best in hindsight.")]
Processes = Annotated[int, _option("Processes for --sweep.", "N")]

_NOT_REPRODUCED: Final = frozenset({"json_file", "report", "timeline", "processes", "policy"})
"""Options that change no figure, and the policy, which each figure's own command names."""
_ABOVE_0: Final = (lambda value: 0 < value < float("inf"), "a number above 0")
_NOT_BELOW_0: Final = (lambda value: 0 <= value < float("inf"), "0 or more")
_LEGAL: Final[Legal] = {
    "warmup": _NOT_BELOW_0,
    "warmup_p90": _ABOVE_0,
    "slo_wait": _ABOVE_0,
    "capacity_rps": _ABOVE_0,
    "replicas_at_peak": _ABOVE_0,
    "failed_starts": (lambda share: 0 <= share < 1, "a share of 0 or more and below 1"),
    "min_replicas": _NOT_BELOW_0,
    "max_replicas": _ABOVE_0,
    "seed": _NOT_BELOW_0,
    "processes": _ABOVE_0,
}


def simulate(
    ctx: typer.Context, *, warmup: WarmUp, policy: PolicyList, trace: Trace = None, workload: Workload = None,
    day: Day = None, json_file: JsonFile = None, report: ReportFile = None, timeline: TimelineFile = None,
    seed: Seed = 0, model: ModelName = Model.FLUID, profile: ProfileFile = None, capacity_rps: CapacityRps = None,
    replicas_at_peak: AtPeak = REPLICAS_AT_PEAK, slo_wait: SloWait = 10.0, warmup_p90: WarmUpP90 = None,
    failed_starts: FailedStarts = 0.0, min_replicas: MinReplicas = None, max_replicas: MaxReplicas = MAX_REPLICAS,
    tick: Tick = None, sweep: Sweep = False, processes: Processes = 1,
) -> None:  # fmt: skip
    """Score policies on a trace or a built-in workload against the clairvoyant optimum.

    Without data: headroom simulate --workload step-x3 --warmup 180 --policy all --json scores.json
    """
    from autoscaler.cli.progress import Meter
    from autoscaler.cli.results import json_text, print_results, timeline_paths, timeline_text
    from autoscaler.cli.simulating import Play, instance_of, page
    from autoscaler.sim.contest import Bounds, parse_policies
    from autoscaler.sim.instance import Cluster, load_traffic
    from autoscaler.sim.requestlevel import load_profile

    names = parse_policies(policy)
    refuse_out_of_range(ctx, _LEGAL)
    _refuse_contradictions(model, profile, sweep=sweep, min_replicas=min_replicas)
    if min_replicas is not None and min_replicas > max_replicas:
        raise InputError(f"--min-replicas: {min_replicas} is above --max-replicas {max_replicas}; lower or raise one")
    if warmup_p90 is not None and warmup_p90 < warmup:
        raise InputError(f"--warmup-p90: {warmup_p90:g} is below --warmup {warmup:g}, which half of the starts take")
    timelines = {} if timeline is None else timeline_paths(timeline, names)
    to_stdout = json_file is not None and str(json_file) == "-"
    outputs = (None if to_stdout else json_file, report, *timelines.values())
    check_writable([path for path in outputs if path is not None], read=(trace, profile))
    cluster = Cluster(
        warmup_s=warmup, warmup_p90_s=warmup_p90, slo_wait_s=slo_wait, capacity_rps=capacity_rps,
        replicas_at_peak=replicas_at_peak, max_replicas=max_replicas, failed_start_ratio=failed_starts,
    )  # fmt: skip
    with interruptible():
        engine = load_profile(profile) if model is Model.REQUESTS else None
        traffic = load_traffic(_with_days(trace, day), workload, seed=seed, with_requests=engine is not None)
        with Meter(len(names) + 2) as meter:
            instance = instance_of(traffic, cluster, engine, seed, meter)
            ruled = Bounds(min_replicas, tick)
            sweepers = processes if sweep else 0
            play = Play(instance, ruled, engine, sweepers, keep_decisions=report is not None)
            bounds, entries = play.run(names, meter)
    text = json_text(entries, instance, bounds, {name: _command(ctx, name) for name in names}, model.value)
    files = {timelines[entry.name]: timeline_text(entry.run) for entry in entries if entry.name in timelines}
    if report is not None:
        files = {report: page(entries, bounds, _command(ctx, policy, "--report", report.name), model.value), **files}
    if json_file is not None and not to_stdout:
        files = {json_file: text, **files}
    try:
        write_together(files)
    finally:  # minutes of work are told even where they cannot be kept
        print_results(entries, instance, bounds, seed=seed, to_stderr=to_stdout)
    if to_stdout:
        sys.stdout.write(text)
    for path in files:
        print(f"wrote {path}", file=sys.stderr)


def _refuse_contradictions(model: Model, profile: str | None, *, sweep: bool, min_replicas: int | None) -> None:
    if profile is not None and model is not Model.REQUESTS:
        raise InputError("--profile: a fixed rate per replica has no engine; add --model requests")
    if sweep and model is Model.REQUESTS:
        raise InputError("--sweep: rivals are swept on the fluid model; leave out --sweep or --model requests")
    if sweep and min_replicas is not None:
        raise InputError("--sweep: rivals are swept at their own floors; leave out --min-replicas")


def _with_days(trace: str | None, day: str | None) -> str | None:
    """The trace's argument with the days of `--day` in its selection."""
    if day is None:
        return trace
    if trace is None:
        raise InputError("--day: only a trace has days; give it with --trace FILE")
    first, dash, last = day.partition("-")
    if not first.isdigit() or (dash and (not last.isdigit() or int(last) < int(first))):
        raise InputError(f"--day: {day!r} cannot be used; give a day counted from 0, or the first and last: 1-3")
    days = int(last) - int(first) + 1 if dash else 1
    return f"{trace}{'&' if '#' in trace else '#'}day={first}" + (f"&days={days}" if days > 1 else "")


def _command(ctx: typer.Context, policies: str, *output: str) -> str:
    """The command that gives these policies' figures again: the options that differ from their defaults, to the last
    digit."""
    words = ["headroom", "simulate"]
    for parameter in ctx.command.params:
        value = ctx.params.get(str(parameter.name))
        if parameter.name in _NOT_REPRODUCED or value == parameter.default:
            continue
        text = str(value.value if isinstance(value, Enum) else value)
        text = text.removesuffix(".0") if isinstance(value, float) else text
        words += [parameter.opts[-1]] if isinstance(value, bool) else [parameter.opts[-1], text]
    return shlex.join([*words, "--policy", policies, *(output or ("--json", "-"))])
