"""The settings themselves: rules between fields, what is shown of them, and what is said aloud."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from autoscaler.settings.model import Settings
from autoscaler.settings.parts import DEFAULT_KINDS

DEPLOYMENT = {"group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment"}

CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"lease": {"deadline_s": 10}}, "deadline_s 10 is not below duration_s 10; lower the deadline"),
    ({"lease": {"duration_s": 6}}, "deadline_s 7 is not below duration_s 6; lower the deadline"),
    ({"lease": {"renew_s": 7}}, "renew_s 7 is not below deadline_s 7; renew more often"),
    ({"scrape": {"timeout_s": 1.5}}, "timeout_s 1.5 is above interval_s 1; lower the time-out"),
    ({"kube": {"qps": 101}}, "burst 100 is below qps 101; raise burst or lower qps"),
    ({"budgets": {"cluster_gpus": 8, "namespaces": {"a": 9}}}, "namespaces.a 9 is above cluster_gpus 8; lower it"),
    ({"kinds": [DEPLOYMENT, DEPLOYMENT | {"version": "v2"}]}, "Deployment of group 'apps' is listed twice"),
]


@pytest.mark.parametrize(("given", "message"), CONTRADICTIONS, ids=[message[:40] for _, message in CONTRADICTIONS])
def test_fields_that_contradict_each_other_are_named_with_their_values(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"lease": {"renew_s": 6.9}},
        {"scrape": {"interval_s": 5, "timeout_s": 5}},
        {"budgets": {"cluster_gpus": 8, "namespaces": {"a": 8, "b": 8}}},
        {"budgets": {"namespaces": {"a": 8}}},
    ],
    ids=str,
)
def test_what_just_fits_is_taken(given: dict[str, Any]) -> None:
    assert Settings(**given).model_fields_set == set(given)


def test_the_environment_is_not_read_unless_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_NAMESPACE", "elsewhere")
    assert Settings().namespace == "headroom-system"


def test_settings_are_frozen_in_every_part() -> None:
    settings = Settings()
    parts: list[tuple[Any, str]] = [(settings, "namespace"), (settings.lease, "name"), (settings.kinds[0], "kind")]
    for part, field in parts:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(part, field, "other")


def test_what_is_in_force_is_shown_as_plain_json_that_reads_back() -> None:
    given: dict[str, Any] = {
        "prometheus": {"main": {"url": "https://prom/base", "bearer_token_file": "/var/run/secrets/token"}},
        "audit": {"directory": "/var/lib/headroom"},
        "budgets": {"namespaces": {"a": 0}},
    }
    settings = Settings(**given)
    shown = settings.effective()
    assert Settings(**json.loads(json.dumps(shown))) == settings
    assert shown["prometheus"]["main"] == {"url": "https://prom/base", "bearer_token_file": "/var/run/secrets/token"}
    assert shown["budgets"] == {"cluster_gpus": None, "namespaces": {"a": 0}}


def test_loopback_targets_are_said_aloud() -> None:
    assert Settings().warnings() == ()
    (warning,) = Settings(allow_loopback_targets=True).warnings()
    assert warning.startswith("allow_loopback_targets is on: ")


def test_the_default_kinds_serve_scale_under_their_plural() -> None:
    assert [f"{k.group}/{k.version}/{k.resource}" for k in DEFAULT_KINDS] == [
        "apps/v1/deployments",
        "apps/v1/statefulsets",
        "leaderworkerset.x-k8s.io/v1/leaderworkersets",
    ]
