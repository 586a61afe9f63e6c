"""The policy: one model in three spellings, messages that name field, value and range, the core's own parameters."""

from typing import Any

import pytest
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from autoscaler.api.policy import Event, Policy, Slo, compile_params, read_policy
from autoscaler.core.params import KnownEvent, Params
from autoscaler.core.params import Slo as CoreSlo
from autoscaler.errors import InputError

FULL: dict[str, Any] = {
    "min_replicas": 2,
    "max_replicas": 30,
    "slo": {"wait_s": 8.0, "ttft_s": 2.0, "tpot_s": 0.05},
    "tick_s": 10.0,
    "warmup_prior_s": 240.0,
    "target_ratio": 0.95,
    "idle_after_s": 600.0,
    "events": [{"from_s": 100.0, "to_s": 200.0, "floor": 3, "ceiling": 9}],
}


def kebab(name: str) -> str:
    return name.replace("_", "-")


def spelled(value: Any, how: Any) -> Any:
    """`value` with every key of every object written another way."""
    if isinstance(value, dict):
        return {how(key): spelled(item, how) for key, item in value.items()}
    return [spelled(item, how) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("how", [str, to_camel, kebab], ids=["snake_case", "camelCase", "kebab-case"])
def test_every_field_of_every_model_is_read_in_every_spelling(how: Any) -> None:
    policy = read_policy(spelled(FULL, how))
    assert policy.model_dump(mode="json") == FULL
    assert set(FULL) == set(Policy.model_fields)
    assert set(FULL["slo"]) == set(Slo.model_fields)
    assert set(FULL["events"][0]) == set(Event.model_fields)


@pytest.mark.parametrize(
    ("name", "camel", "dashed"),
    [
        ("min_replicas", "minReplicas", "min-replicas"),
        ("warmup_prior_s", "warmupPriorS", "warmup-prior-s"),
        ("idle_after_s", "idleAfterS", "idle-after-s"),
    ],
)
def test_spellings_are_what_a_person_expects(name: str, camel: str, dashed: str) -> None:
    found = {getattr(read_policy({spelling: 7}), name) for spelling in (name, camel, dashed)}
    assert found == {7}


def test_a_field_given_in_two_spellings_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"policy\.max-replicas: given twice, also as another spelling"):
        read_policy({"max_replicas": 3, "max-replicas": 4})


def test_what_is_left_out_is_the_cores_default() -> None:
    assert compile_params(read_policy({})) == Params()


def test_the_compiled_parameters_carry_every_field() -> None:
    expected = Params(
        min_replicas=2, max_replicas=30, slo=CoreSlo(8.0, 2.0, 0.05), tick_s=10.0, warmup_prior_s=240.0,
        target_ratio=0.95, idle_after_s=600.0, events=(KnownEvent(100.0, 200.0, 3, 9),),
    )  # fmt: skip
    assert compile_params(read_policy(FULL)) == expected


BAD: list[tuple[object, str]] = [
    (None, "policy: null is no object"),
    ([], "policy: a list is no object"),
    ({"replicas": 3}, "policy.replicas: unknown field; known are min_replicas, max_replicas"),
    ({"min_replicas": -1}, "policy.min_replicas: -1 is out of range; it must be a whole number, 0..100000"),
    ({"min_replicas": True}, "policy.min_replicas: true is out of range; it must be a whole number"),
    ({"max_replicas": 0}, "policy.max_replicas: 0 is out of range; it must be a whole number, 1..100000"),
    ({"max_replicas": 100_001}, "policy.max_replicas: 100001 is out of range; it must be a whole number, 1..100000"),
    ({"max_replicas": 10**5000}, "policy.max_replicas: a number of more than 77 digits is out of range"),
    ({"max_replicas": 2.5}, "policy.max_replicas: 2.5 is out of range; it must be a whole number"),
    ({"max_replicas": "9"}, "policy.max_replicas: '9' is out of range; it must be a whole number"),
    ({"min_replicas": 9, "max_replicas": 3}, "policy.min_replicas: 9 is above policy.max_replicas: 3; lower"),
    ({"slo": {}}, "policy.slo: no objective; give one of wait_s, ttft_s, tpot_s"),
    ({"slo": 10}, "policy.slo: 10 is no object; give one with wait_s, ttft_s, tpot_s"),
    ({"slo": {"wait": 10}}, "policy.slo.wait: unknown field; known are wait_s, ttft_s, tpot_s"),
    ({"slo": {"wait_s": 0}}, "policy.slo.wait_s: 0 is out of range; it must be a number, 0.001..3600 s"),
    ({"slo": {"tpot_s": 1e9}}, "policy.slo.tpot_s: 1000000000.0 is out of range; it must be a number, 0.001..3600 s"),
    ({"slo": {"ttft_s": float("nan")}}, "policy.slo.ttft_s: nan is out of range; it must be a number, 0.001..3600 s"),
    ({"tick_s": float("inf")}, "policy.tick_s: inf is out of range; it must be a number, 0.2..300 s"),
    ({"tick_s": 0.1}, "policy.tick_s: 0.1 is out of range; it must be a number, 0.2..300 s"),
    (
        {"warmup_prior_s": 0},
        "policy.warmup_prior_s: 0 is out of range; it must be a number, above 0 and at most 7200",
    ),
    ({"target_ratio": 1}, "policy.target_ratio: 1 is out of range; it must be a number, at least 0.5 and below 1"),
    ({"events": 5}, "policy.events: 5 is out of range; it must be a list of windows"),
    ({"events": [{"to_s": 5}]}, "policy.events[0].from_s: missing; it must be a date and time with offset"),
    ({"events": [{"from_s": 9, "to_s": 5, "floor": 1}]}, "policy.events[0]: from_s 9 is not before to_s 5"),
    ({"events": [{"from_s": 1, "to_s": 5}]}, "policy.events[0]: no floor and no ceiling"),
    ({"events": [{"from_s": 1, "to_s": 5, "floor": 4, "ceiling": 2}]}, "policy.events[0]: floor 4 is above ceiling 2"),
    ({"events": [{"from_s": 1, "to_s": 5, "floor": -4}]}, "policy.events[0].floor: -4 is out of range"),
]


@pytest.mark.parametrize(("raw", "message"), BAD, ids=[message[:60] for _, message in BAD])
def test_a_bad_policy_is_refused_naming_field_value_and_range(raw: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        compile_params(read_policy(raw))
    assert str(caught.value).startswith(message)


def test_a_whole_number_written_as_a_float_is_whole() -> None:
    assert compile_params(read_policy({"min_replicas": 3.0})).min_replicas == 3


def test_a_change_keeps_what_it_does_not_name() -> None:
    before = read_policy(FULL)
    after = read_policy({"maxReplicas": 50, "slo": {"ttft_s": 1}}, base=before)
    assert after.model_dump(mode="json") == FULL | {
        "max_replicas": 50,
        "slo": {"wait_s": None, "ttft_s": 1.0, "tpot_s": None},
    }


def test_null_takes_an_optional_field_back() -> None:
    assert read_policy({"warmup_prior_s": None}, base=read_policy(FULL)).warmup_prior_s is None


def test_a_policy_is_frozen() -> None:
    policy = read_policy(FULL)
    with pytest.raises(ValidationError, match="frozen"):
        policy.tick_s = 3.0


EDGES = [
    ("min_replicas", 0), ("max_replicas", 100_000), ("tick_s", 0.2), ("tick_s", 300), ("warmup_prior_s", 7200),
    ("warmup_prior_s", 1e-9), ("target_ratio", 0.5), ("target_ratio", 0.999999), ("idle_after_s", 1e-9),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), EDGES)
def test_the_models_range_lies_within_the_cores(name: str, value: float) -> None:
    assert getattr(compile_params(read_policy({name: value})), name) == value


def test_the_longest_objective_is_one_the_core_takes() -> None:
    assert compile_params(read_policy({"slo": {"tpot_s": 3600}})).slo == CoreSlo(tpot_s=3600)
