"""Whatever a source delivers, short, empty, full of holes or contradictory, there is a study that can be written."""

import json
from typing import Any

import msgspec
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.preflight.document import document
from autoscaler.preflight.examine import Source, examine
from autoscaler.preflight.given import Given
from autoscaler.preflight.history import Fact, Spread, Track, WorkloadHistory
from autoscaler.preflight.page import page
from autoscaler.preflight.policies import policies
from tests.preflight.builders import GONE

LEVELS = st.sampled_from([0.0, 0.0, 0.3, 1.0, 7.0, 1e6, float("nan")])
FACTS = st.dictionaries(
    st.sampled_from([*Fact, "note"]), st.sampled_from(["", "0", "12.5", "batch", "h100", "nan", "<b>"])
)


@st.composite
def signals(draw: st.DrawFn, steps: int) -> Any:
    """Runs of equal levels, so that short examples have surges, idleness and holes; or nothing at all."""
    if draw(st.integers(0, 3)) == 0:
        return GONE
    runs = draw(st.lists(st.tuples(LEVELS, st.integers(1, 40)), min_size=1, max_size=6))
    values = np.repeat([level for level, _ in runs], [length for _, length in runs])
    return Track(np.resize(values, steps), "made")


@st.composite
def spreads(draw: st.DrawFn) -> Any:
    if draw(st.integers(0, 3)) == 0:
        return GONE
    edges = sorted(draw(st.sets(st.sampled_from([0.01, 1.0, 60.0, 7200.0]), min_size=1)))
    edges += [np.inf] if draw(st.booleans()) else []
    counts = draw(st.lists(st.sampled_from([0.0, 3.0, 500.0]), min_size=len(edges), max_size=len(edges)))
    return Spread(np.array(edges), np.array(counts), "made", exact=draw(st.booleans()) and np.isfinite(edges[-1]))


@st.composite
def histories(draw: st.DrawFn) -> WorkloadHistory:
    steps, step_s = draw(st.sampled_from([1, 2, 30, 400])), draw(st.sampled_from([1.0, 30.0, 600.0]))
    names = ("arrivals_per_s", "running", "waiting", "tokens_per_s", "replicas", "busy_replicas", "kv_usage_ratio")
    return WorkloadHistory(
        workload=draw(st.sampled_from(["a", "ns/b", "<&>", ""])),
        start_s=draw(st.sampled_from([0.0, 1.76e9])),
        step_s=step_s,
        steps=steps,
        **{name: draw(signals(steps)) for name in names},
        queue_wait=draw(spreads()),
        duration=draw(spreads()),
        cold_start=draw(spreads()),
        gpus_per_replica=draw(st.sampled_from([None, 0.0, 0.5, 8.0])),
        facts=draw(FACTS),
    )


OPTIONS = st.builds(
    Given,
    cold_start_s=st.sampled_from([None, 0.5, 180.0, 1e6]),
    slots=st.sampled_from([None, 0.1, 16.0]),
    gpus_per_replica=st.sampled_from([None, 1.0]),
    price_per_gpu_hour=st.sampled_from([{}, {"": 0.0}, {"h100": 2.0}]),
)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(histories(), min_size=1, max_size=3), OPTIONS)
def test_any_histories_are_studied_added_up_and_written_about(made: list[WorkloadHistory], options: Given) -> None:
    findings = examine([Source("made", made, len(made))], options, command="headroom preflight")
    assert "{{" not in page(findings)
    body = json.loads(document(findings))
    assert len(body["workloads"]) == len(made)
    for text in policies(findings.workloads, command="x").split("---\n"):
        assert msgspec.yaml.decode(text)["kind"] == "ScalingPolicy"
