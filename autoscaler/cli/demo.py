"""`headroom demo`: the live controller on an embedded cluster, watched on a page, compared at the end.

Parses and refuses; what is to be played is `plans`', playing `playing`'s, printing `screen`'s.
"""

import asyncio
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from autoscaler.cli.output import INTERRUPTED, check_writable, write_together
from autoscaler.sim.choices import TRACE_PARTS, WORKLOADS

SPEED: Final = 240.0
"""Four hours in a minute: some forty warm-ups, at a pace that two processors keep up with."""
_MOST_PROCESSES: Final = 4
_NOT_REPRODUCED: Final = frozenset({"json_file", "port", "browser"})


def _option(help_text: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help_text, metavar=metavar)


Trace = Annotated[str | None, _option(f"A trace file, or a part of it: {TRACE_PARTS}.", "FILE")]
Workload = Annotated[str | None, _option(f"A built-in workload: {', '.join(WORKLOADS)}.", "NAME")]
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
    from autoscaler.cli.plans import make_plan, summary
    from autoscaler.cli.playing import play
    from autoscaler.cli.progress import announce
    from autoscaler.cli.screen import print_results

    to_stdout = json_file is not None and str(json_file) == "-"
    if json_file is not None and not to_stdout:
        check_writable([json_file], read=(trace,))
    announce("preparing the traffic and the cluster")
    plan = make_plan(trace, workload, speed=speed, wall_s=wall, seed=seed, cut_s=cut_metrics)
    plan = replace(plan, port=port, browser=browser, processes=min(_MOST_PROCESSES, os.cpu_count() or 1))
    try:
        outcome = asyncio.run(play(plan))
    except asyncio.CancelledError:
        print("interrupted twice: nothing was compared", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    except KeyboardInterrupt:  # before signals are listened to, or after
        print("interrupted: nothing was compared", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    print_results(outcome.results, warnings=outcome.warnings(plan), to_stderr=to_stdout)
    text = summary(plan, outcome, " ".join([ctx.command_path, shlex.join(_arguments(ctx))]).rstrip())
    if to_stdout:
        sys.stdout.write(text)
    elif json_file is not None:
        write_together({json_file: text})
        print(f"wrote {json_file}", file=sys.stderr)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED)


def _arguments(ctx: typer.Context) -> list[str]:
    """The options that were given and that matter for the outcome, as they would be typed."""
    given: list[str] = []
    for parameter in ctx.command.params:
        value = ctx.params.get(str(parameter.name))
        if value is not None and value != parameter.default and parameter.name not in _NOT_REPRODUCED:
            given += [parameter.opts[0], str(value)]
    return given
