"""Policies that preflight writes: taken by the policy model and by the schema, each number with its origin."""

import json
import re
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.api.crd import definition
from autoscaler.api.modes import Mode
from autoscaler.api.scaling_policy import ScalingPolicySpec, read_scaling_policy
from autoscaler.preflight.given import Given
from autoscaler.preflight.history import Fact
from autoscaler.preflight.policies import policies, policy
from autoscaler.preflight.study import study
from tests.api.test_crd import dropped
from tests.preflight.builders import DAY, GONE, HOUR, history, track, wave

SCHEMA = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def text_of(given: Given | None = None, **made: Any) -> str:
    return policy(study(history(**made), given or Given(slots=8.0))[0], set())


def spec_of(text: str) -> ScalingPolicySpec:
    manifest = msgspec.yaml.decode(text)
    assert list(dropped(manifest["spec"], SCHEMA)) == []
    return read_scaling_policy(json.dumps(manifest["spec"]).encode())


def test_a_week_s_wave_becomes_a_floor_a_ceiling_and_a_warm_up() -> None:
    text = text_of(steps=7 * DAY, running=track(wave(7, low=10.0, high=50.0)))
    spec = spec_of(text)
    # Floor 10.2 over 8 slots: 2. Ceiling 1.3 * 50 / 8 = 8.1: 9.
    assert (spec.min_replicas, spec.max_replicas, spec.warmup_prior_s, spec.gpus_per_replica) == (2, 9, 180.0, 2)
    assert spec.mode is Mode.SHADOW
    assert spec.target_ref is not None
    assert (spec.target_ref.name, msgspec.yaml.decode(text)["metadata"]) == (
        "chat",
        {"name": "chat", "namespace": "prod"},
    )


def test_every_number_stands_below_a_comment_with_its_origin() -> None:
    lines = text_of(steps=7 * DAY, running=track(wave(7, low=10.0, high=50.0))).splitlines()
    for field in ("mode", "minReplicas", "maxReplicas", "warmupPriorS", "gpusPerReplica"):
        at = next(i for i, line in enumerate(lines) if line.startswith(f"  {field}:"))
        assert lines[at - 1].startswith("  # "), field
    comments = " ".join(line.strip().removeprefix("# ") for line in lines if line.strip().startswith("#"))
    assert "10.2 requests in flight, reached or exceeded 95 % of the time" in comments
    assert "1.3 times 50 requests in flight, highest of all windows" in comments
    assert "(given, not measured)" in comments
    assert "the cold start, p90 of made by hand" in comments
    assert max(len(line) for line in lines) <= 118


def test_two_hours_set_no_bounds_and_say_so() -> None:
    text = text_of(steps=2 * HOUR)
    spec = spec_of(text)
    assert (spec.min_replicas, spec.max_replicas) == (1, 100), "the defaults"
    assert "minReplicas:" not in [line.strip() for line in text.splitlines() if not line.strip().startswith("#")]
    assert "# minReplicas: cannot tell: 2 h of record say nothing about the hours that were not seen" in text


def test_a_floor_of_nothing_is_one_replica_and_not_zero() -> None:
    text = text_of(steps=7 * DAY, running=track(np.where(np.arange(7 * DAY) % DAY < 3 * HOUR, 0.0, 9.0)))
    assert spec_of(text).min_replicas == 1
    assert "0 here would need a gateway" in text


def test_a_workload_that_nobody_asks_anything_is_not_capped_at_what_it_needed() -> None:
    text = text_of(running=track(np.zeros(3 * DAY)))
    assert (spec_of(text).min_replicas, spec_of(text).max_replicas) == (1, 100)
    assert "# maxReplicas: cannot tell: no request came in the whole record" in text


def test_a_deadline_becomes_the_objective_and_a_wait_that_was_seen_does_not() -> None:
    assert spec_of(text_of(facts={Fact.DEADLINE_S: "30"})).slo.wait_s == 30.0
    seen = text_of()
    assert spec_of(seen).slo.wait_s == 10.0, "the default"
    flat = " ".join(seen.replace("#", "").split())
    assert "slo.waitS: cannot tell: nobody wrote down how long its requests may wait" in flat
    assert "one request in a hundred waited 1 s or more. The default is 10 s" in flat


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("StatefulSet", "apps/v1"),
        ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"),
        ("Rollout", "argoproj.io/v1alpha1"),
        ("CronTab", "apps/v1"),
    ],
)
def test_the_target_is_of_the_kind_that_the_source_names_or_a_deployment(kind: str, version: str) -> None:
    target = spec_of(text_of(facts={Fact.KIND: kind})).target_ref
    assert target is not None
    assert (target.kind, target.api_version) == (kind if kind != "CronTab" else "Deployment", version)


def test_what_is_out_of_the_policy_s_range_is_cut_or_left_out() -> None:
    spec = spec_of(text_of(Given(slots=8.0, cold_start_s=90_000.0), cold_start=GONE, gpus_per_replica=0.5))
    assert spec.warmup_prior_s == 7200.0
    assert spec.gpus_per_replica is None


def test_a_load_of_millions_stays_within_the_most_replicas_there_may_be() -> None:
    spec = spec_of(text_of(Given(slots=0.01), running=track(np.full(3 * DAY, 1e6))))
    assert (spec.min_replicas, spec.max_replicas) == (100_000, 100_000)


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=80))
def test_any_name_becomes_a_policy_that_is_taken(name: str) -> None:
    text = text_of(workload=name, steps=HOUR)
    manifest = msgspec.yaml.decode(text)
    spec_of(text)
    assert re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", manifest["metadata"]["name"])


@pytest.mark.parametrize(
    ("workload", "metadata"),
    [
        ("null", {"name": "null"}),
        ("ns/123", {"name": "123", "namespace": "ns"}),
        ("On", {"name": "on"}),
        ("a/b/Chat_70B", {"name": "chat-70b", "namespace": "a-b"}),
        ("team/x: {y}\n- z", {"name": "x-y---z", "namespace": "team"}),
    ],
)
def test_a_name_that_yaml_would_take_for_something_else_stays_a_name(workload: str, metadata: dict[str, str]) -> None:
    assert msgspec.yaml.decode(text_of(workload=workload, steps=HOUR))["metadata"] == metadata


def test_two_workloads_of_one_name_have_two_policies() -> None:
    studies = [study(history(HOUR, workload=name), Given())[0] for name in ("prod/chat", "prod/Chat", "dev/chat")]
    documents = [msgspec.yaml.decode(part) for part in policies(studies, command="headroom preflight").split("---\n")]
    assert [(d["metadata"]["namespace"], d["metadata"]["name"]) for d in documents] == [
        ("prod", "chat"), ("prod", "chat-2"), ("dev", "chat"),
    ]  # fmt: skip


def test_a_command_with_line_ends_and_control_characters_stays_a_comment() -> None:
    answers, _ = study(history(HOUR), Given())
    text = policies([answers], command="headroom preflight --trace 'a\nkind: Secret\x07\x1b[0m\u2028b'")
    assert msgspec.yaml.decode(text)["kind"] == "ScalingPolicy"
    assert "\x1b" not in text
