"""What `headroom preflight` does once its options are read: histories out of their sources, findings into files.

Enters: traces, a Prometheus, what a person gave. Leaves: sources of histories; files that appear together, or none, and
the words on standard output.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

from autoscaler.cli import prometheus_flags as live
from autoscaler.cli.output import INTERRUPTED, folder_for, interruptible, write_together
from autoscaler.cli.preflight import FILES
from autoscaler.cli.preflight_prometheus import read_prometheus
from autoscaler.cli.progress import Meter
from autoscaler.errors import InputError
from autoscaler.preflight.batch_queues import batch_queues
from autoscaler.preflight.document import Findings, document
from autoscaler.preflight.examine import Source, examine
from autoscaler.preflight.given import Given
from autoscaler.preflight.job_words import batch_lines
from autoscaler.preflight.page import page
from autoscaler.preflight.policies import policies
from autoscaler.preflight.traces import histories
from autoscaler.preflight.warm_pools import warm_pools
from autoscaler.preflight.words import TITLES, answered, cluster_sentences, workload_sentences
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.traces.selection import TraceSelection, split_trace

PARTS: Final = ".prometheus"
"""Folder within the output's for what was read: a run that is cut goes on from there."""
SHOWN: Final = 12
"""Workloads, and namespaces of Jobs, whose answers are printed; all of them are in the files."""
_NOTHING_TOLD: Final = 1


def run(sources: Sequence[Source], given: Given, *, out: Path, command: str, as_json: bool) -> None:
    """Examine the sources and write what was found; says on standard error which files were written.

    Exit code 1 where not one answer about any workload rests on the record.
    """
    paths = {kind: out / name for kind, name in FILES.items()}
    with interruptible(), Meter(sum(source.workloads for source in sources) + 1) as meter:
        findings = examine(sources, given, command=command, begun=meter.begin)
        meter.begin("writing")
        text, yaml = document(findings), policies(findings.workloads, command=command)
        files = {
            paths["html"]: page(findings), paths["json"]: text, paths["yaml"]: yaml,
            paths["pools"]: warm_pools(findings.warm, command=command),
            paths["queues"]: batch_queues(findings.batch, command=command),
        }  # fmt: skip
    try:
        with folder_for(out):
            write_together(files)
    finally:  # minutes of work are told even where they cannot be kept
        sys.stdout.write(text if as_json else _words(findings))
    for path in paths.values():
        print(f"wrote {path}", file=sys.stderr)
    if not any(answered(study) for study in findings.workloads):
        print("nothing can be told of any workload: every answer says what it needs", file=sys.stderr)
        raise typer.Exit(_NOTHING_TOLD)


def trace_sources(traces: Sequence[str], engine: Profile | None, step_s: float) -> list[Source]:
    """Each trace as a source. Raises InputError for what cannot be read, and for one that is given twice."""
    _refuse_twice(traces)
    sources = []
    with interruptible(), Meter(len(traces)) as meter:
        for trace in traces:
            meter.begin(f"reading {trace}")
            found = list(histories(trace, profile=engine, step_s=step_s))
            sources.append(Source(trace.rpartition("/")[2], found, len(found)))
    return sources


def prometheus_source(options: live.PrometheusOptions, out: Path) -> Source:
    """What Prometheus has; what is read of it is kept in the output's folder until a run is through."""
    try:
        fetched = read_prometheus(options, out / PARTS, jobs=True)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    print(f"Prometheus: {fetched.asked} requests, {fetched.kept} parts from a run before", file=sys.stderr)
    for note in fetched.notes:
        print(f"note: {note}", file=sys.stderr)
    name, looked = f"Prometheus {options.server}", tuple(options.namespaces)
    return Source(name, fetched.histories, fetched.workloads, fetched.notes, fetched.jobs, looked)


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
