"""`headroom demo`: the live controller on an embedded cluster, watched on a page, compared at the end.

Parses and refuses; playing is `playing`'s, printing `screen`'s.
"""

import asyncio
import json
import os
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from autoscaler.cli.output import check_writable, write_together
from autoscaler.cli.playing import Outcome, Plan, play
from autoscaler.cli.progress import announce
from autoscaler.cli.screen import print_results
from autoscaler.core.params import Params, Slo
from autoscaler.errors import InputError
from autoscaler.sim.instance import Cluster, Instance, load_traffic, make_instance
from autoscaler.sim.plant import Span
from autoscaler.sim.traces.selection import FORM
from autoscaler.sim.workloads import NAMED

SHOWN: Final = ("chat-diurnal", "spike-train")
"""What is played when nothing is asked for: a day's rhythm, and spikes that end before a replica could serve."""
SPEED: Final = 240.0
"""Four hours in a minute: some forty warm-ups, at a pace that two processors keep up with."""
CLUSTER: Final = Cluster(warmup_s=120.0, warmup_p90_s=160.0)
_SHORTEST_S: Final = 600.0
"""Data seconds: less than a few warm-ups shows nothing and compares nothing."""
_INTERRUPTED: Final = 130
_MOST_PROCESSES: Final = 4
_NOT_REPRODUCED: Final = frozenset({"json_file", "port", "browser"})


def _option(help_text: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help_text, metavar=metavar)


Trace = Annotated[str | None, _option(f"A trace file, or a part of it: {FORM}.", "FILE")]
Workload = Annotated[str | None, _option(f"A built-in workload: {', '.join(NAMED)}.", "NAME")]
Speed = Annotated[float, _option("Data seconds per second.", "N")]
For = Annotated[float, typer.Option("--for", help="Seconds until it ends by itself.", metavar="SECONDS")]
Port = Annotated[int | None, _option("Port of the page on 127.0.0.1; left out, a free one is taken.", "N")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the outcome here; - is stdout.", metavar="FILE")]
Seed = Annotated[int, _option("Seed of all that is drawn.", "N")]
CutMetrics = Annotated[float, _option("Cut the metrics for this long, in data seconds, at half time.", "SECONDS")]


def demo(
    ctx: typer.Context, *, trace: Trace = None, workload: Workload = None, speed: Speed = SPEED, wall: For = 60.0,
    port: Port = None, browser: Browser = True, json_file: JsonFile = None, seed: Seed = 0,
    cut_metrics: CutMetrics = 0.0,
) -> None:  # fmt: skip
    """Watch the controller scale an embedded cluster, on a page; ends with a table: us, the peers, the optimum.

    Without data: headroom demo. Your own traffic: headroom demo --trace requests.csv
    """
    to_stdout = json_file is not None and str(json_file) == "-"
    if json_file is not None and not to_stdout:
        check_writable([json_file])
    announce("preparing the traffic and the cluster")
    plan = make_plan(trace, workload, speed=speed, wall_s=wall, seed=seed, cut_s=cut_metrics)
    plan = replace(plan, port=port, browser=browser, processes=min(_MOST_PROCESSES, os.cpu_count() or 1))
    try:
        outcome = asyncio.run(play(plan))
    except (asyncio.CancelledError, KeyboardInterrupt):
        print("interrupted twice: nothing was compared", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None
    print_results(outcome.results, warnings=outcome.warnings(plan), to_stderr=to_stdout)
    text = summary(plan, outcome, " ".join([ctx.command_path, shlex.join(_arguments(ctx))]).rstrip())
    if to_stdout:
        sys.stdout.write(text)
    elif json_file is not None:
        write_together({json_file: text})
        print(f"wrote {json_file}", file=sys.stderr)
    if outcome.interrupted:
        raise typer.Exit(_INTERRUPTED)


def make_plan(
    trace: str | None, workload: str | None, *, speed: float, wall_s: float, seed: int, cut_s: float = 0.0
) -> Plan:
    """What is to be played, without a page. InputError for figures that cannot be used."""
    for name, value in (("--speed", speed), ("--for", wall_s)):
        if not 0 < value < float("inf"):
            raise InputError(f"{name} {value:g}: give a positive number")
    if speed * wall_s < _SHORTEST_S:
        raise InputError(
            f"--speed {speed:g} for {wall_s:g} s plays {speed * wall_s:g} s of data; give more of either, so that at "
            f"least {_SHORTEST_S:g} s are played"
        )
    if not 0 <= cut_s < speed * wall_s / 2:
        raise InputError(
            f"--cut-metrics {cut_s:g}: give seconds of data, less than half of the {speed * wall_s:g} played"
        )
    named = SHOWN if trace is None and workload is None else (workload,)
    instances: dict[str, Instance] = {}
    for choice in named:
        instance = make_instance(load_traffic(trace, choice, seed=seed), CLUSTER, seed=seed)
        cut = _cut(instance, speed * wall_s, cut_s if not instances else 0.0)
        instances[f"demo/{cut.traffic.name}"] = cut
    most = max(instance.traffic.duration_s for instance in instances.values())
    params = {
        name: Params(max_replicas=i.spec.max_replicas, slo=Slo(wait_s=i.spec.slo_wait_s))
        for name, i in instances.items()
    }
    return Plan(instances, params, speed, min(wall_s, most / speed), port=None, browser=False)


def _cut(instance: Instance, length_s: float, cut_s: float) -> Instance:
    """The first `length_s` of the traffic, with an outage of the metrics that everyone on this traffic meets."""
    traffic = instance.traffic
    steps = min(traffic.arrivals.size, max(1, round(length_s / traffic.step_s)))
    end_s = steps * traffic.step_s
    outages: tuple[Span, ...] = ((end_s / 2, end_s / 2 + cut_s),) if cut_s > 0 else ()
    return replace(instance, traffic=traffic.window(0.0, end_s), spec=replace(instance.spec, outages=outages))


def summary(plan: Plan, outcome: Outcome, command: str) -> str:
    """The outcome as JSON: per workload its table, how much was seen and decided, and the last frame."""
    workloads = {
        results.workload: {
            **asdict(results),
            "traffic": plan.instances[results.workload].traffic.source,
            "decisions": outcome.decisions[results.workload],
            "decisions_that_scaled": outcome.moves[results.workload],
            "last_frame": asdict(outcome.last[results.workload]),
        }
        for results in outcome.results
    }
    fields = {
        "command": command,
        "speed": plan.speed,
        "interrupted": outcome.interrupted,
        "late_ratio": outcome.late_ratio,
        "warnings": outcome.warnings(plan),
        "workloads": workloads,
    }
    return json.dumps(fields, indent=2, allow_nan=False) + "\n"


def _arguments(ctx: typer.Context) -> list[str]:
    """The options that were given and that matter for the outcome, as they would be typed."""
    given: list[str] = []
    for parameter in ctx.command.params:
        value = ctx.params.get(str(parameter.name))
        if value is not None and value != parameter.default and parameter.name not in _NOT_REPRODUCED:
            given += [parameter.opts[0], str(value)]
    return given
