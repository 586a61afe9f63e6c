"""The policy of a live workload: what is read, what is refused and how it is said, and which mode is in force when."""

import json
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from autoscaler.adapters.engines.profiles import custom
from autoscaler.api.modes import Mode, Tier
from autoscaler.api.policy import Event, Policy, read_policy
from autoscaler.api.scaling_policy import Engine, MetricNames, ScalingPolicySpec, TargetReference, read_scaling_policy
from autoscaler.api.schema import custom_resource
from autoscaler.errors import InputError
from tests.api.resources import FAULTY, SOUND, spec

NOON_S = 1795863600.0
"""2026-11-28T11:00:00Z."""


def read(given: object) -> ScalingPolicySpec:
    return read_scaling_policy(json.dumps(given).encode())


def kebab(name: str) -> str:
    return name.replace("_", "-")


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND)
def test_a_sound_spec_is_read(given: dict[str, Any]) -> None:
    assert read(given).target_ref is not None


@pytest.mark.parametrize(("given", "ours", "_"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_spec_is_refused_naming_the_field_as_it_is_spelled_there(
    given: dict[str, Any], ours: str, _: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(given)
    assert str(caught.value).startswith("spec")
    assert ours in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b'"a"', b"null", b"[]", b"\xff"], ids=repr)
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(InputError):
        read_scaling_policy(text)


def test_an_unknown_field_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match=r"spec\.modeUntilS2: unknown field; known are .*modeUntil, modeAfter"):
        read(spec(modeUntilS2=5))


def test_what_is_left_out_is_the_default() -> None:
    found = read(spec())
    assert found.target_ref == TargetReference(name="chat")
    assert (found.mode, found.tier, found.engine) == (None, Tier.NORMAL, Engine.VLLM)
    assert (found.metrics_path, found.metrics_port, found.gpus_per_replica) == ("/metrics", None, None)
    assert {name: getattr(found, name) for name in Policy.model_fields} == dict(read_policy({}))


FULL = SOUND["every field"]


@pytest.mark.parametrize("how", [str, to_camel, kebab], ids=["snake_case", "camelCase", "kebab-case"])
def test_every_field_of_every_model_is_read_in_every_spelling(how: Any) -> None:
    expected = read(FULL)
    given: Any = expected.model_dump(mode="json", exclude_none=True)
    for model, owner in (
        (ScalingPolicySpec, given), (TargetReference, given["target_ref"]), (Event, given["events"][0]),
    ):  # fmt: skip
        assert set(model.model_fields) == set(owner)
    given["metrics"] |= dict.fromkeys(set(MetricNames.model_fields) - {"kv_percent"}, "m")
    assert read(spelled(given, how)).model_dump(mode="json", exclude_none=True) == given


def spelled(value: Any, how: Any) -> Any:
    """`value` with every key of every object written another way."""
    if isinstance(value, dict):
        return {how(key): spelled(item, how) for key, item in value.items()}
    return [spelled(item, how) for item in value] if isinstance(value, list) else value


WINDOWS: list[tuple[str, dict[str, Any]]] = [
    ("dates as in custom resources", {"from": "2026-11-28T12:00:00+01:00", "to": "2026-11-28T11:00:10Z"}),
    ("seconds as in JSON lines", {"from_s": NOON_S, "to_s": NOON_S + 10}),
    ("whole seconds in camelCase", {"fromS": int(NOON_S), "toS": int(NOON_S) + 10}),
    ("seconds in kebab-case", {"from-s": NOON_S, "to-s": NOON_S + 10}),
    ("seconds under the plain name", {"from": NOON_S, "to": NOON_S + 10}),
    ("a date under the name of seconds", {"from_s": "2026-11-28T11:00:00Z", "to_s": "2026-11-28t11:00:10z"}),
    ("dates with fractions", {"from": "2026-11-28T11:00:00.000Z", "to": "2026-11-28T11:00:10.000000000Z"}),
]


@pytest.mark.parametrize("window", [w for _, w in WINDOWS], ids=[name for name, _ in WINDOWS])
def test_a_window_means_the_same_however_it_is_written(window: dict[str, Any]) -> None:
    (found,) = read_policy({"events": [window | {"floor": 3}]}).events
    assert (found.from_s, found.to_s) == (NOON_S, NOON_S + 10)


@pytest.mark.parametrize(
    "text",
    ["2026-11-28T11:00:00", "2026-11-28", "11:00", "2026-11-28 11:00:00Z", "2026-02-30T11:00:00Z",
     "2026-11-28T11:00:60Z", "2026-11-28T11:00:00+25:00", "20261128T110000Z", "1795863600", "tomorrow", ""],
)  # fmt: skip
def test_a_date_that_is_not_certain_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"events\[0\]\.from: .* it must be a date and time with offset"):
        read_policy({"events": [{"from": text, "to_s": 1e10, "floor": 3}]})


def test_epoch_milliseconds_are_no_seconds() -> None:
    with pytest.raises(InputError, match=r"from_s: 1795863600000\.0 is out of range"):
        read_policy({"events": [{"from_s": NOON_S * 1000, "to_s": 1e10, "floor": 3}]})


BEFORE, AFTER = NOON_S - 0.001, NOON_S
UNTIL = {"modeUntil": "2026-11-28T11:00:00Z"}
MODES: list[tuple[str, dict[str, Any], float, Mode, Mode]] = [
    ("no mode is the default", {}, BEFORE, Mode.SHADOW, Mode.SHADOW),
    ("no mode is the default, whichever", {}, BEFORE, Mode.ACTIVE, Mode.ACTIVE),
    ("a mode without end stays", {"mode": "Paused"}, 1e11, Mode.ACTIVE, Mode.PAUSED),
    ("a pause holds until its end", {"mode": "Paused", **UNTIL}, BEFORE, Mode.ACTIVE, Mode.PAUSED),
    ("a pause ends in action where that is the default", {"mode": "Paused", **UNTIL}, AFTER, Mode.ACTIVE, Mode.ACTIVE),
    ("a pause does not end in action nobody chose", {"mode": "Paused", **UNTIL}, AFTER, Mode.SHADOW, Mode.SHADOW),
    ("a pause ends in what was said to follow", {"mode": "PausedScaleIn", "modeAfter": "Active", **UNTIL}, AFTER,
     Mode.SHADOW, Mode.ACTIVE),
    ("what follows does not hold yet", {"mode": "PausedScaleIn", "modeAfter": "Active", **UNTIL}, BEFORE,
     Mode.SHADOW, Mode.PAUSED_SCALE_IN),
    ("a trial of action ends in watching", {"mode": "Active", **UNTIL}, AFTER, Mode.SHADOW, Mode.SHADOW),
    ("watching first ends in action", {"mode": "Shadow", **UNTIL}, AFTER, Mode.ACTIVE, Mode.ACTIVE),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "now_s", "default", "expected"), [m[1:] for m in MODES], ids=[m[0] for m in MODES])
def test_the_mode_in_force(fields: dict[str, Any], now_s: float, default: Mode, expected: Mode) -> None:
    assert read(spec(**fields)).mode_at(now_s, default) is expected


def test_the_metrics_of_a_custom_engine_are_those_that_the_reader_of_pages_knows() -> None:
    every = MetricNames.model_validate(dict.fromkeys(set(MetricNames.model_fields) - {"kv_percent"}, "m"))
    profile = custom("mine", every.named(), kv_percent=every.kv_percent)
    assert len(profile.facts) + len(profile.histograms) == len(every.named()) == 10
    with pytest.raises(InputError, match="no signal; the signals are"):
        custom("mine", {**every.named(), "queued": "m"})


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND)
def test_a_spec_that_is_written_out_reads_the_same(given: dict[str, Any]) -> None:
    found = read(given)
    again = read(custom_resource(found))
    # Dates are written in whole seconds.
    assert again == found.model_copy(update={"mode_until_s": found.mode_until_s and float(int(found.mode_until_s))})


@pytest.mark.parametrize(
    "name", ["q{state=waiting}", "q{state}", 'q{a="b" c="d"}', 'q{a="\\"}', 'q{a="b"},', "q{ }", 'q{a="\n"}', "q{,}"]
)
def test_labels_that_no_page_can_be_read_by_are_refused_where_they_are_written(name: str) -> None:
    given = {"targetRef": {"name": "chat"}, "engine": "custom", "metrics": {"waiting": name}}
    with pytest.raises(InputError, match=r"spec\.metrics\.waiting"):
        read_scaling_policy(json.dumps(given).encode())


PATTERN = next(part["pattern"] for part in MetricNames.model_json_schema()["properties"]["waiting"]["anyOf"][:1])


@drawn(st.from_regex(PATTERN, fullmatch=True))
def test_whatever_name_of_a_metric_a_policy_may_give_pages_can_be_read_by_it(name: str) -> None:
    assert custom("own", {"waiting": name}).needed
