"""A policy in annotations: texts that become values, and messages under the annotation's own name."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.annotations import PREFIX, SCALE, read_annotations
from autoscaler.api.modes import Mode, Tier
from autoscaler.api.scaling_policy import Engine, ScalingPolicySpec, read_scaling_policy
from autoscaler.errors import InputError
from tests.api.resources import SOUND

ON = {SCALE: "true"}
WINDOW = {"from": "2026-11-28T08:00:00Z", "to": "2026-11-28T09:00:00Z", "floor": 3}


def annotated(**settings: str) -> dict[str, str]:
    """Annotations that ask for scaling, with settings named as in Python."""
    return ON | {PREFIX + name.replace("_", "-"): text for name, text in settings.items()}


def read(**settings: str) -> ScalingPolicySpec:
    found = read_annotations(annotated(**settings))
    assert found is not None
    return found


@pytest.mark.parametrize(
    "annotations",
    [{}, {SCALE: "false"}, {"example.com/scale": "true"}, {SCALE: "false", PREFIX + "nonsense": "1"},
     {PREFIX + "min-replicas": "3"}],
    ids=["none", "false", "another's", "false, and nothing else is looked at", "settings alone"],
)  # fmt: skip
def test_nobody_asked_for_scaling(annotations: dict[str, str]) -> None:
    assert read_annotations(annotations) is None


@pytest.mark.parametrize("text", ["yes", "True", "1", "", " true"])
def test_scaling_is_asked_for_in_one_way_only(text: str) -> None:
    with pytest.raises(InputError, match=f'headroom.dev/scale: {text!r} is neither; it must be "true" or "false"'):
        read_annotations({SCALE: text})


def test_scaling_alone_means_the_defaults() -> None:
    assert read() == ScalingPolicySpec()


def test_every_setting_but_the_target_can_be_annotated() -> None:
    # The same policy in both ways in: the custom resource's fields, flattened into annotations of texts.
    spec = {name: value for name, value in SOUND["every field"].items() if name != "targetRef"}
    texts: dict[str, str] = {}
    for name, value in spec.items():
        dashed = "".join(f"-{c.lower()}" if c.isupper() else c for c in name)
        if isinstance(value, dict):
            for inner, item in value.items():
                key = "".join(f"-{c.lower()}" if c.isupper() else c for c in inner)
                texts[f"{PREFIX}{dashed}-{key}"] = item if isinstance(item, str) else json.dumps(item)
        else:
            texts[PREFIX + dashed] = value if isinstance(value, str) else json.dumps(value)
    expected = read_scaling_policy(json.dumps(SOUND["every field"]).encode()).model_copy(update={"target_ref": None})
    assert read_annotations(ON | texts) == expected
    assert set(spec) | {"targetRef"} == set(SOUND["every field"])


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({"min_replicas": "3"}, "min_replicas", 3),
        ({"min_replicas": "3.0"}, "min_replicas", 3),
        ({"max_replicas": "1e3"}, "max_replicas", 1000),
        ({"tick_s": "0.5"}, "tick_s", 0.5),
        ({"mode": "PausedScaleIn"}, "mode", Mode.PAUSED_SCALE_IN),
        ({"tier": "scavenger"}, "tier", Tier.SCAVENGER),
        ({"engine": "sglang"}, "engine", Engine.SGLANG),
        ({"metrics_path": "/v1/metrics"}, "metrics_path", "/v1/metrics"),
        ({"gateway": "main"}, "gateway", "main"),
        ({"events": "[]"}, "events", ()),
    ],
    ids=str,
)
def test_a_text_becomes_a_value(settings: dict[str, str], field: str, value: object) -> None:
    assert getattr(read(**settings), field) == value


def test_an_objective_replaces_the_default_one() -> None:
    slo = read(slo_ttft_s="2").slo
    assert (slo.wait_s, slo.ttft_s, slo.tpot_s) == (None, 2, None)


def test_events_are_a_json_list() -> None:
    (event,) = read(events=json.dumps([WINDOW])).events
    assert (event.to_s - event.from_s, event.floor, event.ceiling) == (3600, 3, None)


FAULTY: list[tuple[dict[str, str], str]] = [
    ({"min_replicas": "two"}, "min-replicas: 'two' is out of range; it must be a whole number, 0..100000"),
    ({"min_replicas": ""}, "min-replicas: '' is out of range; it must be a whole number, 0..100000"),
    ({"min_replicas": "-1"}, "min-replicas: -1 is out of range; it must be a whole number, 0..100000"),
    ({"min_replicas": "1.5"}, "min-replicas: 1.5 is out of range; it must be a whole number, 0..100000"),
    ({"min_replicas": "1_000"}, "min-replicas: '1_000' is out of range"),
    ({"min_replicas": "9" * 5000}, "min-replicas: '999"),
    ({"tick_s": "1e999"}, "tick-s: inf is out of range; it must be a number, 0.2..300 s"),
    ({"tick_s": "NaN"}, "tick-s: 'NaN' is out of range; it must be a number, 0.2..300 s"),
    ({"min_replicas": "9", "max_replicas": "3"}, "min-replicas: 9 is above headroom.dev/max-replicas: 3; lower"),
    ({"slo_wait_s": "0"}, "slo-wait-s: 0 is out of range; it must be a number, 0.001..3600 s"),
    ({"mode": "active"}, "mode: 'active' is out of range; it must be one of Shadow, Active, Paused"),
    ({"mode_until": "2026-11-28T08:00:00Z"}, "mode-until is given without mode; give the mode that ends then"),
    ({"mode": "Paused", "mode_until": "17:00"}, "mode-until: '17:00' is out of range; it must be a date and time"),
    ({"tier": "vip"}, "tier: 'vip' is out of range; it must be one of critical, normal, scavenger"),
    ({"engine": "custom"}, "metrics are missing though engine is custom"),
    (
        {"engine": "custom", "metrics_kv_cache_usage": "m"},
        "metrics: nothing to decide on; give one of waiting",
    ),
    (
        {"engine": "custom", "metrics_waiting": "m", "metrics_kv_percent": "yes"},
        "metrics-kv-percent: 'yes' is out of range; it must be true or false",
    ),
    ({"metrics_port": "http"}, "metrics-port: 'http' is out of range; it must be a whole number, 1..65535"),
    ({"metrics_path": "metrics"}, "metrics-path: 'metrics' is out of range; it must be a path"),
    ({"gateway": "http://10.0.0.1"}, "gateway: 'http://10.0.0.1' is out of range; it must be a name from"),
    ({"events": "soon"}, "events: 'soon' is no JSON"),
    ({"events": "[" * 100_000}, "events: '[[["),
    ({"events": "{}"}, "events: an object is out of range; it must be a list of windows, at most 100"),
    ({"events": json.dumps([WINDOW | {"floor": -1}])}, "events[0].floor: -1 is out of range; it must be a whole"),
    ({"events": json.dumps([WINDOW | {"to": 0}])}, "events[0]: from 1795852800 is not before to 0; give a window"),
    ({"events": json.dumps([{"from": 5, "floor": 1}])}, "events[0].to: missing; it must be a date and time"),
    ({"events": json.dumps([WINDOW | {"flor": 1}])}, "events[0].flor: unknown field; known are from, to, floor"),
]


@pytest.mark.parametrize(("settings", "message"), FAULTY, ids=[message[:50] for _, message in FAULTY])
def test_a_faulty_annotation_is_refused_by_its_own_name(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(**settings)
    assert str(caught.value).startswith(PREFIX + message)


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("minreplicas", "did you mean headroom.dev/min-replicas?"),
        ("min_replicas", "did you mean headroom.dev/min-replicas?"),
        ("minReplicas", "did you mean headroom.dev/min-replicas?"),
        ("slo-wait", "did you mean headroom.dev/slo-wait-s?"),
        ("target-ref", "did you mean headroom.dev/target-ratio?"),
        ("mode-until-s", "did you mean headroom.dev/mode-until?"),
        ("zzz", "known are engine, events, gateway,"),
        ("", "known are engine, events, gateway,"),
    ],
)
def test_an_unknown_annotation_of_ours_is_refused_with_the_nearest_known(key: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        read_annotations(ON | {PREFIX + key: "1"})
    assert str(caught.value).startswith(f"{PREFIX}{key}: unknown annotation; {remedy}")


def test_annotations_of_others_are_none_of_our_business() -> None:
    others = {"stage.headroom.dev/ready": "5", "kubernetes.io/change-cause": "x", "headroom.development/x": "y"}
    assert read_annotations(ON | others) == ScalingPolicySpec()


KEYS = st.sampled_from(["scale", "min-replicas", "slo-wait-s", "events", "mode", "mode-until", "tier", "metrics-port"])


@given(st.dictionaries(KEYS | st.text(max_size=12), st.text(max_size=40) | st.sampled_from(["true", "[]", "{}", "1"])))
def test_whatever_is_annotated_is_a_policy_or_none_or_refused_in_words(texts: dict[str, Any]) -> None:
    annotations = {PREFIX + key: text for key, text in texts.items()}
    message = ""
    try:
        found = read_annotations(annotations)
    except InputError as error:
        found, message = None, str(error)
    assert found is None or isinstance(found, ScalingPolicySpec)
    assert message.startswith(PREFIX) or not message
