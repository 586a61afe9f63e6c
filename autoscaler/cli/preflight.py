"""`headroom preflight`: what a recorded past says about the capacity that workloads need.

Parses and refuses; the rest is `preflighting`'s. All that can be refused is refused before anything is read.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from autoscaler.cli import prometheus_flags as live
from autoscaler.cli.heeded import refuse_typed
from autoscaler.cli.output import check_folder
from autoscaler.errors import InputError
from autoscaler.preflight.defaults import STEP_S
from autoscaler.sim.choices import PROFILE_PARTS, TRACE_FORM, TRACE_PARTS

BUILT_IN: Final = "built-in"
FILES: Final = {
    "html": "preflight.html", "json": "preflight.json", "yaml": "policies.yaml", "pools": "pools.yaml",
    "queues": "queues.yaml",
}  # fmt: skip
OF_PROMETHEUS: Final = (
    "config", "token_file", "ca_file", "days", "begin", "end", "workload", "selector", "namespace", "owner_label",
    "metric", "query_timeout",
)  # fmt: skip
"""Parameters that say nothing about a trace."""


def _option(help_text: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help_text, metavar=metavar)


Traces = Annotated[list[str] | None, _option(f"A trace file, or a part of it; may be repeated: {TRACE_PARTS}.", "FILE")]
Out = Annotated[Path, _option(f"Folder for {', '.join(FILES.values())}; made if missing.", "DIR")]
ColdStart = Annotated[
    float | None, _option("Seconds from ordering a replica to its first served request, if not measured.", "SECONDS")
]
Slots = Annotated[float | None, _option("Requests that one replica computes at once, if not measured.", "N")]
Gpus = Annotated[float | None, _option("GPUs of one replica, if the source does not name them.", "N")]
Prices = Annotated[
    list[str] | None, _option("Price of a GPU-hour, of one shape or of all others; may be repeated.", "[SHAPE=]AMOUNT")
]
ProfileFile = Annotated[
    str | None, _option(f"An engine's latencies tell how long requests run: {BUILT_IN}, or {PROFILE_PARTS}.", "FILE")
]
Step = Annotated[float, _option("Seconds that one step of the history covers.", "SECONDS")]
Json = Annotated[bool, typer.Option("--json", help="Print the JSON document instead of words.")]


def preflight(
    ctx: typer.Context, *, out: Out, trace: Traces = None, cold_start: ColdStart = None, slots: Slots = None,
    gpus: Gpus = None, price: Prices = None, profile: ProfileFile = None, step: Step = STEP_S, json: Json = False,
    prometheus: live.Server = None, config: live.Config = None, token_file: live.TokenFile = None,
    ca_file: live.CaFile = None, days: live.Days = live.DAYS, begin: live.From = None, end: live.To = None,
    workload: live.Workloads = None, selector: live.Selectors = None, namespace: live.Namespaces = None,
    owner_label: live.OwnerLabels = None, metric: live.Metrics = None,
    query_timeout: live.QueryTimeout = live.QUERY_TIMEOUT_S,
) -> None:  # fmt: skip
    """Say from recorded load what is always needed, what is noise, what is wasted and what can wait.

    From a cluster: headroom preflight --prometheus http://localhost:9090 --days 14 --out report

    From a trace: headroom preflight --trace FILE --cold-start 180 --profile built-in --out report

    The exit code is 1 where the record is too short, or too full of holes, to tell anything of any workload.
    """
    from autoscaler.preflight.given import Given
    from autoscaler.preflight.traces import check_step
    from autoscaler.sim.requestlevel import load_profile

    given = Given(
        _positive("--cold-start", cold_start), _positive("--slots", slots), _positive("--gpus", gpus), _prices(price)
    )
    check_step(step)
    if prometheus is None:
        refuse_typed(ctx, OF_PROMETHEUS, f"only with --prometheus; of a trace give a part: {TRACE_FORM}")
    if not trace:
        refuse_typed(ctx, ("profile",), "only with --trace; what Prometheus holds was measured")
    check_folder(out, FILES.values())
    from autoscaler.cli.preflighting import prometheus_source, run, trace_sources

    engine = None if profile is None else load_profile(None if profile == BUILT_IN else profile)
    sources = trace_sources(trace or [], engine, step)
    if prometheus is not None:
        from autoscaler.cli.prometheus_options import whole_step

        options = live.PrometheusOptions(
            prometheus, config, token_file, ca_file, days, begin, end, whole_step(step), tuple(workload or ()),
            tuple(selector or ()), tuple(namespace or ()), tuple(owner_label or ()), tuple(metric or ()), query_timeout,
        )  # fmt: skip
        sources.append(prometheus_source(options, out))
    if not sources:
        raise InputError("preflight: nothing to read; give --prometheus URL, or --trace FILE")
    run(sources, given, out=out, command=_command(ctx), as_json=json)


def _positive(option: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise InputError(f"{option}: {value:g} cannot be used; it must be a number above 0")
    return value


def _prices(given: Sequence[str] | None) -> dict[str, float]:
    from autoscaler.preflight.given import ANY_SHAPE

    prices: dict[str, float] = {}
    for text in given or ():
        shape, _, amount = text.rpartition("=")
        try:
            value = float(amount)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf") or shape in prices:
            raise InputError(f"--price {text}: cannot be used; give AMOUNT or SHAPE=AMOUNT once, 0 or more")
        prices[shape or ANY_SHAPE] = value
    return prices


def _command(ctx: typer.Context) -> str:
    """The command that was given: the options that differ from their defaults."""
    words = ["headroom", "preflight"]
    for parameter in ctx.command.params:
        value = ctx.params.get(str(parameter.name))
        if value is None or value == parameter.default or value is False:
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            words.append(parameter.opts[0])
            words += [] if item is True else [f"{item:.12g}" if isinstance(item, float) else str(item)]
    return shlex.join(words)
