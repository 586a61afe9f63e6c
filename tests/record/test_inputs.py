"""Inputs lines: what a decision was made from comes back through `decide`, to the same decision."""

import json
from dataclasses import fields, replace

import pytest

from autoscaler.api.lines import read_line
from autoscaler.api.policy import Policy
from autoscaler.cli.stream import DecideStream
from autoscaler.core.params import KnownEvent, Params, Slo
from autoscaler.core.reasons import Reason
from autoscaler.core.types import (
    GatewayReading,
    LatencyReading,
    Limits,
    PodReading,
    Readings,
    ReplicaReading,
    StartingReplica,
)
from autoscaler.fitting.fit import fit
from autoscaler.record.audit import audit_line, read_lines, step_lines
from autoscaler.record.inputs import PREFIX, inputs_line
from autoscaler.sim import simulate
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.recorded import RecordedPolicy
from autoscaler.sim.warmup import Warmup
from autoscaler.sim.workloads import named_workload
from tests.record.decisions import PER_REASON, make_decision

PARAMS = Params(
    max_replicas=20, slo=Slo(wait_s=2.0), warmup_prior_s=90.0, events=(KnownEvent(0.0, 600.0, floor=2),), tick_s=5.0
)
READINGS = Readings(
    now_s=60.0,
    replicas=ReplicaReading(3, 2, (StartingReplica(45.0, "chat-c", unschedulable=True),)),
    pods=(PodReading("chat-a", 1.0, 2.0, 0.0, 4.0, 100.0, 1e4, 2e4, 0.5), PodReading("chat-b")),
    gateway=GatewayReading(7.0, 200.0),
    latency=LatencyReading(ttft_s_p90=1.5),
    limits=Limits(budget_replicas=12),
)
GOLDEN = (
    '{"kind":"inputs","version":1,"now_s":60.0,"workload":"prod/chat","policy":{"min_replicas":1,"max_replicas":20,'
    '"slo":{"wait_s":2.0,"ttft_s":null,"tpot_s":null},"tick_s":5.0,"warmup_prior_s":90.0,"target_ratio":0.99,'
    '"idle_after_s":900.0,"events":[{"from_s":0.0,"to_s":600.0,"floor":2,"ceiling":null}]},"replicas":{"desired":3,'
    '"ready":2,"starting":[{"since_s":45.0,"name":"chat-c","unschedulable":true}]},"pods":[{"name":"chat-a",'
    '"ready_since_s":1.0,"waiting":2.0,"waiting_deferred":0.0,"running":4.0,"requests_total":100.0,'
    '"prompt_tokens_total":10000.0,"generation_tokens_total":20000.0,"kv_cache_usage":0.5},{"name":"chat-b",'
    '"ready_since_s":null,"waiting":null,"waiting_deferred":null,"running":null,"requests_total":null,'
    '"prompt_tokens_total":null,"generation_tokens_total":null,"kv_cache_usage":null}],"gateway":{"queued":7.0,'
    '"requests_total":200.0},"latency":{"queue_s_p90":null,"ttft_s_p90":1.5,"tpot_s_p90":null},"limits":'
    '{"quota_replicas":null,"budget_replicas":12}}'
)


def test_the_words_of_a_budget_are_written_where_there_are_any_and_read_again() -> None:
    told = replace(READINGS, limits=Limits(budget_replicas=12, budget_words="namespace prod has 24 GPUs"))
    line = inputs_line("prod/chat", PARAMS, told)
    assert line.endswith(b'"budget_replicas":12,"budget_words":"namespace prod has 24 GPUs"}}')
    assert read_line(line).limits.budget_words == "namespace prod has 24 GPUs"


def test_the_bytes_of_version_1_stay_as_they_are() -> None:
    line = inputs_line("prod/chat", PARAMS, READINGS)
    assert line.decode() == GOLDEN
    assert line.startswith(PREFIX)


def test_an_inputs_line_holds_every_reading_and_every_field_of_the_policy() -> None:
    record = json.loads(inputs_line("prod/chat", PARAMS, READINGS))
    assert {spec.name for spec in fields(Readings)} <= record.keys()
    assert record["policy"].keys() == set(Policy.model_fields)


def test_readings_that_were_too_old_to_be_used_leave_no_inputs() -> None:
    decision = make_decision(PER_REASON[Reason.OUTDATED][0], reason=Reason.OUTDATED)
    assert step_lines(decision, PARAMS, READINGS) == (audit_line(decision),)


def test_whoever_reads_decisions_does_not_see_the_inputs_between_them() -> None:
    decision = make_decision()
    lines = [line + b"\n" for line in step_lines(decision, PARAMS, READINGS)]
    assert len(lines) == 2
    assert list(read_lines([*lines, lines[0], lines[0][:40]], "audit")) == [decision]


@pytest.mark.parametrize("fitted", [False, True], ids=["before the first fit", "with fitted models"])
def test_the_inputs_of_a_stream_fed_to_decide_give_its_decisions_again(fitted: bool) -> None:
    """Outage, failed starts and a load that triples; the fits that `decide` makes are the ones of the run."""
    length_s = 7000.0 if fitted else 1500.0
    traffic = named_workload("step-x3", 1).window(1400.0, 1400.0 + length_s)
    spec = PlantSpec(capacity_rps=2.0, warmup=Warmup(90.0, 120.0), failed_start_ratio=0.1, outages=((700.0, 800.0),))
    policy = RecordedPolicy(Params(max_replicas=60, tick_s=20.0), look_s=20.0)
    simulate.run(traffic, spec, policy)
    stream, replayed = DecideStream(fit), []
    for line in policy.lines:
        if line.startswith(PREFIX):
            replayed.append(json.loads(stream.answer(line + b"\n")))
            stream.catch_up()
    recorded = [json.loads(line) for line in policy.lines if not line.startswith(PREFIX)]
    assert bool(stream.table.fitted) is fitted
    assert len(recorded) == length_s / 20.0
    for said, again in zip(recorded, replayed, strict=True):
        assert {key: said[key] for key in again} == again
