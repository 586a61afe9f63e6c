"""Trace files as workloads' histories: arrivals as recorded, requests in flight where durations are told.

Enters: arguments of `--trace`, as the simulator reads them. Leaves: a history per workload. A trace tells no replicas,
no queue and no memory; those signals are `Missing`, never zero. A part of a step at the trace's end is left off, since
what would have come in the rest of it is not known.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.errors import InputError
from autoscaler.preflight import minutes
from autoscaler.preflight.defaults import STEP_S
from autoscaler.preflight.history import Fact, Gap, Missing, Track, WorkloadHistory
from autoscaler.preflight.requests import durations_s, ramp_s, running, spread
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.traces import TraceSelection, read_workloads, servegen, split_trace
from autoscaler.sim.traces.selection import DAY_S
from autoscaler.sim.traces.table import PARQUET_MAGIC, Table, checked, is_json, parse_csv, parse_header, read_bytes
from autoscaler.sim.traffic import Traffic

MOST_REQUESTS: Final = 20_000_000
"""Of one day, each with two token counts, an instant and a duration: about a gigabyte."""


def histories(argument: str, *, profile: Profile | None = None, step_s: float = STEP_S) -> Iterator[WorkloadHistory]:
    """Every workload of `FILE#selection`. Raises InputError naming file, line and field."""
    path, selection = split_trace(argument)
    content = read_bytes(path)
    header: set[str] = set()
    if not content.startswith(PARQUET_MAGIC):
        header = set() if is_json(checked(path, content)) else set(parse_header(path, content))
        if header == set(minutes.REQUIRED):
            yield from minutes.histories(parse_csv(path, content), selection)
            return
    if set(servegen.REQUIRED) <= header and profile is not None and selection.rate_rps is None:
        _refuse_too_many(path, parse_csv(path, content), selection)
    del content  # what follows reads the file again, and may draw day after day
    if set(servegen.REQUIRED) <= header and selection.day is not None and selection.rate_rps is None:
        # A week at a published rate is half a billion requests: they are drawn day by day and let go of.
        wanted = range(selection.day, selection.day + selection.days)
        days = (replace(selection, day=day, days=1) for day in wanted)
        drawn = (read_workloads(path, day, step_s=step_s, with_requests=profile is not None)[0] for day in days)
        yield _joined(drawn, path, selection, profile, step_s)
        return
    for traffic in read_workloads(path, selection, step_s=step_s, with_requests=profile is not None):
        yield _joined([traffic], path, selection, profile, step_s)


def _refuse_too_many(path: Path, table: Table, selection: TraceSelection) -> None:
    """InputError where a day of the selection has more requests than can be followed one by one."""
    days = np.floor(table.numbers("window_s") / DAY_S).astype(np.int64)
    columns = zip(table.columns["model"], table.columns["tenant"], strict=True)
    mine = np.array([selection.model in {None, m} and selection.tenant in {None, t} for m, t in columns])
    requests = np.bincount(days, np.where(mine, table.numbers("rate_rps") * servegen.WINDOW_S, 0.0))
    if requests.max() > MOST_REQUESTS:
        raise InputError(
            f"{path}: a day of {requests.max():,.0f} requests is too much to follow each by its --profile; scale it "
            "with &rate=REQUESTS_PER_S, for example &rate=20, or leave out --profile"
        )


def _joined(
    parts: Iterable[Traffic], path: Path, selection: TraceSelection, profile: Profile | None, step_s: float
) -> WorkloadHistory:
    """One history of traffics that follow each other; requests run on from one part into the next."""
    arrivals: list[F64] = []
    tokens: list[F64] = []
    took: list[F64] = []
    loads: list[tuple[int, F64]] = []
    source, whole, name = "", True, ""
    for traffic in parts:
        begin = sum(part.size for part in arrivals)
        arrivals.append(np.asarray(traffic.arrivals, dtype=np.float64) / step_s)
        source = f"{path.name}{selection.describe()}" if selection.days > 1 else traffic.source
        whole, name = traffic.seed is not None, traffic.name
        if traffic.output_tokens is not None and traffic.arrival_s is not None and traffic.output_tokens.size:
            tokens.append(_per_step(traffic, traffic.output_tokens) / step_s)
            if profile is not None and traffic.prompt_tokens is not None:
                took.append(durations_s(traffic.prompt_tokens, traffic.output_tokens, profile))
                reach = math.ceil((traffic.duration_s + float(took[-1].max())) / step_s)
                loads.append((begin, running(traffic.arrival_s, took[-1], steps=reach, step_s=step_s)))
    rate = np.concatenate(arrivals)
    # A recording ends with its last request, somewhere within a step; a rate table ends on a step's edge.
    steps = rate.size if whole or rate.size == 1 else rate.size - 1
    origin = f"{source}; drawn from published rates" if whole else source
    untold = Missing(Gap.NOT_IN_TRACE, f"a trace of requests does not tell it ({path.name})")
    known = bool(took) and profile is not None
    unknown = "without --profile a trace of requests does not tell it"
    if profile is not None:  # which a recording that is scaled by a rate has no more
        unknown = "--profile tells it of single requests with their tokens, and there are none"
    told = f"{origin}, each running as long as on {profile.name}" if profile is not None else origin
    return WorkloadHistory(
        workload=selection.tenant or selection.model or name,
        start_s=0.0 if selection.day is None else DAY_S * selection.day,
        step_s=step_s,
        steps=steps,
        arrivals_per_s=Track(rate[:steps], origin),
        running=Track(_overlapped(loads, steps, ramp_s(np.concatenate(took)) / step_s), told)
        if known
        else Missing(Gap.NOT_IN_TRACE, f"{unknown} ({path.name})"),
        waiting=untold,
        tokens_per_s=Track(np.concatenate(tokens)[:steps], f"{origin}; counted when the request arrives")
        if sum(part.size for part in tokens) == rate.size
        else untold,
        replicas=untold,
        busy_replicas=untold,
        kv_usage_ratio=untold,
        queue_wait=untold,
        duration=spread(np.concatenate(took), told) if known else untold,
        cold_start=untold,
        facts={} if profile is None else {str(Fact.SLOTS): str(profile.max_num_seqs)},
    )


def _per_step(traffic: Traffic, values: F64) -> F64:
    """The sum of each request's value over the step that it arrives in; (steps,)."""
    assert traffic.arrival_s is not None
    at = np.minimum((traffic.arrival_s / traffic.step_s).astype(np.int64), traffic.arrivals.size - 1)
    return np.asarray(np.bincount(at, values, traffic.arrivals.size), dtype=np.float64)


def _overlapped(loads: Sequence[tuple[int, F64]], steps: int, ramp: float) -> F64:
    """Loads that begin at different steps and reach into each other, as one of `steps`; unknown during the first
    `ramp` steps, whose requests began before the record."""
    total = np.zeros(steps)
    for begin, load in loads:
        part = load[: max(0, steps - begin)]
        total[begin : begin + part.size] += part
    total[: math.ceil(ramp - 1e-9)] = np.nan
    return total


def check_step(step_s: float) -> None:
    """InputError for a step that no history can have."""
    if not 1.0 <= step_s <= 3600.0:
        raise InputError(f"--step: {step_s:g} s cannot be used; give 1 to 3600 s")
