"""`headroom preflight`: what a recorded past says about the capacity that workloads need.

Parses, hands sources of histories to the examination, writes what it found. All that can be refused is refused before
anything is read, and the files appear together at the end or not at all.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from autoscaler.cli import prometheus_flags as live
from autoscaler.cli.heeded import refuse_typed
from autoscaler.cli.output import check_folder, write_together
from autoscaler.cli.preflight_prometheus import read_prometheus
from autoscaler.cli.progress import Meter
from autoscaler.cli.prometheus_options import whole_step
from autoscaler.errors import InputError
from autoscaler.preflight.batch_queues import batch_queues
from autoscaler.preflight.document import Findings, document
from autoscaler.preflight.examine import Source, examine
from autoscaler.preflight.given import ANY_SHAPE, Given
from autoscaler.preflight.job_words import batch_lines
from autoscaler.preflight.page import page
from autoscaler.preflight.policies import policies
from autoscaler.preflight.traces import STEP_S, check_step, histories
from autoscaler.preflight.warm_pools import warm_pools
from autoscaler.preflight.words import TITLES, answered, cluster_sentences, workload_sentences
from autoscaler.sim.requestlevel import PROFILE_FORM, load_profile
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.traces.selection import FORM, TraceSelection, split_trace

BUILT_IN: Final = "built-in"
PARTS: Final = ".prometheus"
"""Folder within the output's for what was read: a run that is cut goes on from there."""
SHOWN: Final = 12
"""Workloads, and namespaces of Jobs, whose answers are printed; all of them are in the files."""
FILES: Final = {
    "html": "preflight.html", "json": "preflight.json", "yaml": "policies.yaml", "pools": "pools.yaml",
    "queues": "queues.yaml",
}  # fmt: skip
OF_PROMETHEUS: Final = (
    "config", "token_file", "ca_file", "days", "begin", "end", "workload", "selector", "namespace", "owner_label",
    "metric", "query_timeout",
)  # fmt: skip
"""Parameters that say nothing about a trace."""
_INTERRUPTED: Final = 130
_NOTHING_TOLD: Final = 1


def _option(help_text: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help_text, metavar=metavar)


Traces = Annotated[list[str] | None, _option(f"A trace file, or a part of it; may be repeated: {FORM}.", "FILE")]
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
    str | None, _option(f"An engine's latencies tell how long requests run: {BUILT_IN}, or {PROFILE_FORM}.", "FILE")
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
    given = Given(
        _positive("--cold-start", cold_start), _positive("--slots", slots), _positive("--gpus", gpus), _prices(price)
    )
    check_step(step)
    if prometheus is None:
        refuse_typed(ctx, OF_PROMETHEUS, f"only with --prometheus; of a trace give a part: {FORM}")
    if not trace:
        refuse_typed(ctx, ("profile",), "only with --trace; what Prometheus holds was measured")
    check_folder(out, FILES.values())
    engine = None if profile is None else load_profile(None if profile == BUILT_IN else profile)
    sources = _trace_sources(trace or [], engine, step)
    if prometheus is not None:
        options = live.PrometheusOptions(
            prometheus, config, token_file, ca_file, days, begin, end, whole_step(step), tuple(workload or ()),
            tuple(selector or ()), tuple(namespace or ()), tuple(owner_label or ()), tuple(metric or ()), query_timeout,
        )  # fmt: skip
        sources.append(_prometheus_source(options, out))
    if not sources:
        raise InputError("preflight: nothing to read; give --prometheus URL, or --trace FILE")
    run(sources, given, out=out, command=_command(ctx), as_json=json)


def run(sources: Sequence[Source], given: Given, *, out: Path, command: str, as_json: bool) -> None:
    """Examine the sources and write what was found; says on standard error which files were written.

    Exit code 1 where not one answer about any workload rests on the record.
    """
    paths = {kind: out / name for kind, name in FILES.items()}
    try:
        with Meter(sum(source.workloads for source in sources) + 1) as meter:
            findings = examine(sources, given, command=command, begun=meter.begin)
            meter.begin("writing")
            text, yaml = document(findings), policies(findings.workloads, command=command)
            files = {
                paths["html"]: page(findings), paths["json"]: text, paths["yaml"]: yaml,
                paths["pools"]: warm_pools(findings.warm, command=command),
                paths["queues"]: batch_queues(findings.batch, command=command),
            }  # fmt: skip
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None
    out.mkdir(parents=True, exist_ok=True)
    write_together(files)
    sys.stdout.write(text if as_json else _words(findings))
    for path in paths.values():
        print(f"wrote {path}", file=sys.stderr)
    if not any(answered(study) for study in findings.workloads):
        print("nothing can be told of any workload: every answer says what it needs", file=sys.stderr)
        raise typer.Exit(_NOTHING_TOLD)


def _refuse_twice(traces: Sequence[str]) -> None:
    """InputError where two arguments are one part of one file: its load would be counted twice."""
    seen: dict[tuple[Path, TraceSelection], str] = {}
    for trace in traces:
        path, selection = split_trace(trace)
        part = path.resolve(), selection
        if part in seen:
            before = seen[part]
            same = "" if before == trace else f", it is the same as {before}"
            raise InputError(f"--trace {trace}: given twice{same}; its load would be counted twice, so leave one out")
        seen[part] = trace


def _trace_sources(traces: Sequence[str], engine: Profile | None, step_s: float) -> list[Source]:
    _refuse_twice(traces)
    sources = []
    try:
        with Meter(len(traces)) as meter:
            for trace in traces:
                meter.begin(f"reading {trace}")
                found = list(histories(trace, profile=engine, step_s=step_s))
                sources.append(Source(trace.rpartition("/")[2], found, len(found)))
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None
    return sources


def _prometheus_source(options: live.PrometheusOptions, out: Path) -> Source:
    """What Prometheus has; what is read of it is kept in the output's folder until a run is through."""
    try:
        fetched = read_prometheus(options, out / PARTS, jobs=True)
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    print(f"Prometheus: {fetched.asked} requests, {fetched.kept} parts from a run before", file=sys.stderr)
    for note in fetched.notes:
        print(f"note: {note}", file=sys.stderr)
    name, looked = f"Prometheus {options.server}", tuple(options.namespaces)
    return Source(name, fetched.histories, fetched.workloads, fetched.notes, fetched.jobs, looked)


def _positive(option: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < float("inf"):
        raise InputError(f"{option}: {value:g} cannot be used; it must be a number above 0")
    return value


def _prices(given: Sequence[str] | None) -> dict[str, float]:
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


def _words(findings: Findings) -> str:
    """The answers as paragraphs: all workloads together first, then the first of them one by one."""
    blocks = []
    together = findings.cluster.workloads > 1
    if together:
        blocks.append((f"all {findings.cluster.workloads} workloads", cluster_sentences(findings.cluster)))
    blocks += [(study.workload, workload_sentences(study)) for study in findings.workloads[:SHOWN]]
    lines: list[str] = []
    for name, sentences in blocks:
        lines.append(name)
        for sentence in sentences:
            lines += [f"  {TITLES[sentence.question]}: {sentence.text}", f"    ({sentence.measured})"]
    if len(findings.workloads) > SHOWN:
        lines.append(f"and {len(findings.workloads) - SHOWN} more workloads, in the files")
    lines += [] if findings.batch is None else batch_lines(findings.batch, SHOWN)
    return "\n".join(lines) + "\n"


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
