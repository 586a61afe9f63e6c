"""Trace files as workloads' histories: arrivals as recorded, requests in flight where durations are told.

Enters: arguments of `--trace`, as the simulator reads them. Leaves: a history per workload. A trace tells no replicas,
no queue and no memory; those signals are `Missing`, never zero. A part of a step at the trace's end is left off, since
what would have come in the rest of it is not known.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from autoscaler.core.columns import F64
from autoscaler.errors import InputError
from autoscaler.preflight import minutes
from autoscaler.preflight.history import Fact, Gap, Missing, Signal, Track, WorkloadHistory
from autoscaler.preflight.requests import durations_s, running, spread
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.traces import TraceSelection, read_workloads, split_trace
from autoscaler.sim.traces.table import PARQUET_MAGIC, decode, parse_csv, parse_header, read_bytes
from autoscaler.sim.traffic import Traffic

STEP_S: Final = 30.0
"""Steps of a history from a trace: what Prometheus scrapes by default every 15 to 30 s."""


def histories(argument: str, *, profile: Profile | None = None, step_s: float = STEP_S) -> Iterator[WorkloadHistory]:
    """Every workload of `FILE#selection`. Raises InputError naming file, line and field."""
    path, selection = split_trace(argument)
    content = read_bytes(path)
    if not content.startswith(PARQUET_MAGIC):
        text = decode(path, content)
        if not text.lstrip().startswith("{") and set(parse_header(path, text)) == set(minutes.REQUIRED):
            yield from minutes.histories(parse_csv(path, text), selection)
            return
    for traffic in read_workloads(path, selection, step_s=step_s, with_requests=profile is not None):
        yield _history(traffic, path, selection, profile)


def _history(traffic: Traffic, path: Path, selection: TraceSelection, profile: Profile | None) -> WorkloadHistory:
    step_s = traffic.step_s
    steps = _whole_steps(traffic)
    untold = Missing(Gap.NOT_IN_TRACE, f"a trace of requests does not tell it ({path.name})")
    drawn = "" if traffic.seed is None else f"; drawn from published rates with seed {traffic.seed}"
    origin = f"{traffic.source}{drawn}"
    start_s = 0.0 if selection.day is None else 86_400.0 * selection.day
    took = None if profile is None else _took(traffic, profile)
    in_flight: Signal = Missing(Gap.NOT_IN_TRACE, f"{path.name} does not tell how long requests take")
    if took is not None and profile is not None and traffic.arrival_s is not None:
        values = running(traffic.arrival_s, took, steps=steps, step_s=step_s)
        in_flight = Track(values, f"{origin}, each running as long as on {profile.name}")
    facts = {} if profile is None else {str(Fact.SLOTS): str(profile.max_num_seqs)}
    return WorkloadHistory(
        workload=traffic.name,
        start_s=start_s,
        step_s=step_s,
        steps=steps,
        arrivals_per_s=Track(traffic.arrivals[:steps] / step_s, origin),
        running=in_flight,
        waiting=untold,
        tokens_per_s=_tokens(traffic, steps, origin) or untold,
        replicas=untold,
        busy_replicas=untold,
        kv_usage_ratio=untold,
        queue_wait=untold,
        duration=untold if took is None or profile is None else spread(took, f"{origin}, on {profile.name}"),
        cold_start=untold,
        facts=facts,
    )


def _whole_steps(traffic: Traffic) -> int:
    """Steps that the trace covers throughout; rate tables end on a step's edge."""
    steps = traffic.arrivals.size
    return steps if traffic.seed is not None or steps == 1 else steps - 1


def _took(traffic: Traffic, profile: Profile) -> F64 | None:
    prompts, outputs = traffic.prompt_tokens, traffic.output_tokens
    if prompts is None or outputs is None or not prompts.size:
        return None
    return durations_s(prompts, outputs, profile)


def _tokens(traffic: Traffic, steps: int, origin: str) -> Track | None:
    if traffic.output_tokens is None or traffic.arrival_s is None:
        return None
    at = np.minimum((traffic.arrival_s / traffic.step_s).astype(np.int64), traffic.arrivals.size - 1)
    tokens = np.bincount(at, traffic.output_tokens, traffic.arrivals.size)[:steps]
    return Track(tokens / traffic.step_s, f"{origin}; counted when the request arrives")


def check_step(step_s: float) -> None:
    """InputError for a step that no history can have."""
    if not 1.0 <= step_s <= 3600.0:
        raise InputError(f"--step: {step_s:g} s cannot be used; give 1 to 3600 s")
