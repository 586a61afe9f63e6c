"""What a KEDA trigger's metadata says: a policy in camelCase, and the measure in which HPA is told the count."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.modes import Mode, Tier
from autoscaler.api.policy import MOST_REPLICAS
from autoscaler.api.scaling_policy import ScalingPolicySpec, read_scaling_policy
from autoscaler.api.trigger import MOST_PER_REPLICA, Measure, Style, read_measure, read_trigger
from autoscaler.errors import InputError
from tests.api.resources import SOUND

INT64_MILLI = (2**63 - 1) // 1000


def read(metadata: dict[str, str], *, minimum: int = 0, maximum: int = 100) -> ScalingPolicySpec:
    return read_trigger(metadata, minimum=minimum, maximum=maximum)


def flattened(spec: dict[str, Any]) -> dict[str, str]:
    """A custom resource's fields as the texts of a trigger."""
    texts: dict[str, str] = {}
    for name, value in spec.items():
        inner = (
            {name + key[0].upper() + key[1:]: item for key, item in value.items()} if isinstance(value, dict) else None
        )
        for key, item in (inner or {name: value}).items():
            texts[key] = item if isinstance(item, str) else json.dumps(item)
    return texts


def test_a_trigger_that_says_nothing_means_the_defaults_within_the_scaledobjects_bounds() -> None:
    own = {"scalerAddress": "headroom-keda.headroom-system:8090", "enableTLS": "true", "unsafeSsl": "false"}
    assert read(own, minimum=2, maximum=9) == ScalingPolicySpec(min_replicas=2, max_replicas=9)
    assert read_measure(own) == Measure(Style.REPLICAS, 1)


def test_every_field_but_target_and_bounds_is_a_key() -> None:
    elsewhere = {"targetRef", "minReplicas", "maxReplicas"}
    spec = {name: value for name, value in SOUND["every field"].items() if name not in elsewhere}
    whole = read_scaling_policy(json.dumps(SOUND["every field"]).encode())

    found = read(flattened(spec), minimum=whole.min_replicas, maximum=whole.max_replicas)

    assert found == whole.model_copy(update={"target_ref": None})


@pytest.mark.parametrize(
    ("metadata", "field", "value"),
    [
        ({"tickS": "0.5"}, "tick_s", 0.5),
        ({"mode": "PausedScaleIn"}, "mode", Mode.PAUSED_SCALE_IN),
        ({"tier": "critical"}, "tier", Tier.CRITICAL),
        ({"metricsPort": "9000"}, "metrics_port", 9000),
        ({"gateway": "main"}, "gateway", "main"),
        ({"events": "[]"}, "events", ()),
    ],
    ids=str,
)
def test_a_text_becomes_a_value(metadata: dict[str, str], field: str, value: object) -> None:
    assert getattr(read(metadata), field) == value


FAULTY: list[tuple[dict[str, str], str]] = [
    ({"sloWaits": "2"}, "metadata.sloWaits: unknown key; did you mean metadata.sloWaitS?"),
    ({"perReplca": "8"}, "metadata.perReplca: unknown key; did you mean metadata.perReplica?"),
    ({"scalerAdress": "x"}, "metadata.scalerAdress: unknown key; did you mean metadata.scalerAddress?"),
    ({"zzz": "1"}, "metadata.zzz: unknown key; known are enableTLS, engine"),
    ({"slo-wait-s": "2"}, "metadata.slo-wait-s: unknown key"),
    ({"maxReplicas": "3"}, "metadata.maxReplicas: not read here; the most is maxReplicaCount of the ScaledObject"),
    ({"minReplicas": "3"}, "metadata.minReplicas: not read here; the least is minReplicaCount of the ScaledObject"),
    ({"targetRef": "x"}, "metadata.targetRef: not read here; the target is scaleTargetRef of the ScaledObject"),
    ({"tickS": "soon"}, "metadata.tickS: 'soon' is out of range; it must be a number, 0.2..300 s"),
    ({"tickS": "NaN"}, "metadata.tickS: 'NaN' is out of range"),
    ({"sloWaitS": "0"}, "metadata.sloWaitS: 0 is out of range; it must be a number, 0.001..3600 s"),
    ({"mode": "active"}, "metadata.mode: 'active' is out of range; it must be one of Shadow, Active"),
    ({"events": "["}, "metadata.events: '[' is no JSON"),
    ({"engine": "custom"}, "metadata.metrics are missing though engine is custom"),
    ({"perReplicaFromEnv": "8"}, "metadata.perReplicaFromEnv: Headroom does not read a container's environment"),
    ({"value": "demands"}, "metadata.value: 'demands' is out of range; it must be one of replicas, demand"),
    ({"value": "demand"}, "metadata.perReplica: missing; it must be a whole number, 1..1000000000"),
    ({"perReplica": "8"}, "metadata.perReplica: given without value: demand; leave one out"),
    *(
        ({"value": "demand", "perReplica": text}, f"metadata.perReplica: {shown} is out of range; it must be a whole")
        for text, shown in (
            ("0", "'0'"), ("-8", "'-8'"), ("8.5", "'8.5'"), ("NaN", "'NaN'"), ("1e3", "'1e3'"), ("", "''"),
            ("\u0663", "'\u0663'"),
            ("1000000001", "'1000000001'"), ("9" * 400, f"'{'9' * 56}..."),
        )
    ),
    ({"x" * 60_000: "1"}, f"metadata.{'x' * 80}...: unknown key"),
]  # fmt: skip


@pytest.mark.parametrize(("metadata", "message"), FAULTY, ids=[f"{given}"[:60] for given, _ in FAULTY])
def test_a_fault_is_told_by_its_key(metadata: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        read(metadata)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("minimum", "maximum", "message"),
    [
        (-1, 3, "minReplicaCount: -1 is out of range; it must be 0..100000"),
        (0, 0, "maxReplicaCount: 0 is out of range; it must be 1..100000"),
        (9, 3, "maxReplicaCount: 3 is out of range; it must be 9..100000 (not below minReplicaCount)"),
        (0, 100_001, "maxReplicaCount: 100001 is out of range"),
    ],
)
def test_bounds_are_told_by_kedas_names(minimum: int, maximum: int, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read({}, minimum=minimum, maximum=maximum)
    assert str(refused.value).startswith(message)


@given(st.integers(0, MOST_REPLICAS), st.integers(1, MOST_PER_REPLICA), st.none() | st.integers(0, 10**16))
def test_hpa_divides_the_value_back_into_the_count_and_only_none_is_zero(
    replicas: int, per_replica: int, demand: int | None
) -> None:
    measure = Measure(Style.DEMAND, per_replica)
    value = measure.value(replicas, demand)

    assert -(-value // per_replica) == replicas
    assert (value > 0) == (replicas > 0)


@given(st.integers(1, 1000), st.integers(1, 1000), st.integers(0, 10**6))
def test_demand_is_told_as_it_is_where_it_leads_to_the_count(replicas: int, per_replica: int, demand: int) -> None:
    leads_there = math.ceil(demand / per_replica) == replicas

    assert (Measure(Style.DEMAND, per_replica).value(replicas, demand) == demand) == leads_there


def test_values_near_the_limit_of_int64_thousandths_are_exact() -> None:
    """Edge case 33, kedacore/keda#7441: the largest value there can be stays below the limit, and a float holds it."""
    largest = Measure(Style.DEMAND, MOST_PER_REPLICA).value(MOST_REPLICAS, None)
    assert largest == 10**14 <= INT64_MILLI
    assert int(float(largest)) == largest
    assert int(float(largest - 1)) == largest - 1


@given(st.dictionaries(st.text(max_size=300), st.text(max_size=300), max_size=5))
def test_whatever_the_metadata_is_it_is_read_or_refused_in_few_words(metadata: dict[str, str]) -> None:
    words = ""
    try:
        read(metadata)
    except InputError as error:
        words = str(error)
    assert len(words) < 2000
