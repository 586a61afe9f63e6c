"""ScalingPolicy on a real API server: what it takes and refuses, its columns, its words and its status."""

import json
from typing import Any

import pytest

from autoscaler.api.modes import Mode
from autoscaler.api.schema import custom_resource
from autoscaler.api.status import Condition, ConditionType, Overload, ScalingPolicyStatus, Truth, Warmup
from tests.api.resources import FAULTY, SOUND, spec
from tests.cluster.plane import Plane, RefusedError
from tests.conftest import ROOT

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane")]

MERGE = "application/merge-patch+json"
NOON_S = 1795863600.0
"""2026-11-28T11:00:00Z."""


def path(namespace: str, rest: str = "") -> str:
    return f"/apis/headroom.dev/v1alpha1/namespaces/{namespace}/scalingpolicies{rest}"


def policy(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "headroom.dev/v1alpha1", "kind": "ScalingPolicy", "metadata": {"name": "chat"}, "spec": given,
    }  # fmt: skip


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND)
def test_a_sound_policy_is_taken_with_nothing_dropped(plane: Plane, namespace: str, given: dict[str, Any]) -> None:
    stored = plane.call("POST", path(namespace, "?dryRun=All&fieldValidation=Strict"), policy(given))["spec"]
    assert {name: stored[name] for name in given if name != "targetRef"} == {
        name: value for name, value in given.items() if name != "targetRef"
    }


@pytest.mark.parametrize(("given", "_", "words"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_policy_is_refused_in_words(
    plane: Plane, namespace: str, given: dict[str, Any], _: str, words: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        plane.call("POST", path(namespace, "?dryRun=All"), policy(given))
    assert caught.value.status == 422
    assert words in str(caught.value).replace("\\u003c", "<")


def test_defaults_are_stored_and_an_objective_is_not_mixed_with_the_default_one(plane: Plane, namespace: str) -> None:
    stored = plane.call("POST", path(namespace), policy(spec()))["spec"]
    assert (stored["minReplicas"], stored["maxReplicas"], stored["tier"], stored["engine"]) == (
        1,
        100,
        "normal",
        "vllm",
    )
    patched = plane.call("PATCH", path(namespace, "/chat"), {"spec": {"slo": {"ttftS": 2}}}, kind=MERGE)["spec"]
    assert patched["slo"] == {"ttftS": 2}


def test_a_target_cannot_be_changed_but_all_else_can(plane: Plane, namespace: str) -> None:
    plane.call("POST", path(namespace), policy(spec()))
    with pytest.raises(RefusedError, match="targetRef cannot be changed; delete the policy and make another"):
        plane.call("PATCH", path(namespace, "/chat"), {"spec": {"targetRef": {"name": "other"}}}, kind=MERGE)
    assert plane.call("PATCH", path(namespace, "/chat"), {"spec": {"mode": "Paused"}}, kind=MERGE)["spec"]["mode"]


STATUS = ScalingPolicyStatus(
    observed_generation=1,
    mode=Mode.ACTIVE,
    desired_replicas=12,
    ready_replicas=9,
    reason="BACKLOG",
    text="t" * 10_000,
    last_scale_time_s=NOON_S,
    warmup=Warmup(p50_s=180.5, p90_s=240, samples=14),
    overload=Overload(
        deficit_replicas=3, admissible_rps=40.5, shed_ratio=0.25, retry_after_s=30, expires_at_s=NOON_S + 60
    ),
    conditions=tuple(
        Condition(type=kind.value, status=Truth.UNKNOWN, last_transition_time_s=NOON_S, reason="Starting", message="…")
        for kind in ConditionType
    ),
)


def test_the_whole_status_is_kept_and_shown_in_the_columns(plane: Plane, namespace: str) -> None:
    plane.call("POST", path(namespace), policy(spec()))
    written = custom_resource(STATUS)
    kept = plane.call("PATCH", path(namespace, "/chat/status?fieldValidation=Strict"), {"status": written}, kind=MERGE)
    assert kept["status"] == json.loads(json.dumps(written))
    header, row = plane.kubectl("get", "hsp", "--namespace", namespace).splitlines()
    assert header.split() == ["NAME", "TARGET", "SERVED", "MIN", "MAX", "DESIRED", "READY", "MODE", "REASON", "AGE"]
    assert row.split()[:9] == ["chat", "chat", "Starting", "1", "100", "12", "9", "Active", "BACKLOG"]
    ours, *_ = plane.kubectl("get", "headroom", "--namespace", namespace).splitlines()
    assert ours.split() == header.split(), "the category lists it too, its name behind its kind"


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ("scalingpolicy", "Scales the replicas of one GPU workload to what its load needs"),
        ("hsp.spec.slo", "waitS\t<number>\n    How long a request may wait for a free slot, in seconds"),
        ("hsp.spec.maxReplicas", "The most replicas there may ever be. Default: 100."),
        ("hsp.spec.events.from", "a date and time with offset, such as"),
        ("hsp.status.overload.shedRatio", "The share of requests to turn away."),
    ],
)
def test_kubectl_explains_every_field(plane: Plane, of: str, words: str) -> None:
    assert " ".join(words.split()) in " ".join(plane.kubectl("explain", of).split())


@pytest.mark.parametrize("name", ["deployment.yaml", "scalingpolicy.yaml", "beside-hpa.yaml"])
def test_a_sample_is_taken_as_it_is(plane: Plane, name: str) -> None:
    told = plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", ROOT / "config/samples" / name)
    lines = told.splitlines()
    assert lines
    assert all(line.endswith(" created (server dry run)") for line in lines), told
