"""The settings themselves: rules between fields, what is shown of them, and what is said aloud."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from autoscaler.settings.keda import Keda
from autoscaler.settings.model import Settings
from autoscaler.settings.parts import DEFAULT_KINDS

DEPLOYMENT = {"group": "apps", "version": "v1", "resource": "deployments", "kind": "Deployment"}

CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"lease": {"deadline_s": 10}}, "deadline_s 10 is not below duration_s 10; lower the deadline"),
    ({"lease": {"duration_s": 6}}, "deadline_s 7 is not below duration_s 6; lower the deadline"),
    ({"lease": {"renew_s": 7}}, "renew_s 7 is not below deadline_s 7; renew more often"),
    ({"scrape": {"timeout_s": 1.5}}, "timeout_s 1.5 is above interval_s 1; lower the time-out"),
    ({"kube": {"qps": 101}}, "burst 100 is below qps 101; raise burst or lower qps"),
    ({"keda": {"enabled": True}}, "enabled without tls; give tls.cert_file and tls.key_file, or plaintext: true"),
    ({"keda": {"plaintext": True, "tls": {"cert_file": "/c", "key_file": "/k"}}}, "tls and plaintext: true contradict"),
    (
        {"keda": {"tls": {"cert_file": "/c", "key_file": "/k", "client_names": ["keda-operator"]}}},
        "client_names are given without client_ca_file; give the authority",
    ),
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
        {"keda": {"enabled": True, "plaintext": True}},
        {"keda": {"enabled": True, "tls": {"cert_file": "/c", "key_file": "/k"}}},
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
    assert shown["prometheus"]["main"] == {**given["prometheus"]["main"], "ca_file": None}
    assert shown["budgets"] == {"cluster_gpus": None, "namespaces": {"a": 0}}


def test_loopback_targets_are_said_aloud() -> None:
    assert Settings().warnings() == ()
    (warning,) = Settings(allow_loopback_targets=True).warnings()
    assert warning.startswith("allow_loopback_targets is on: ")


def keda(**given: Any) -> Settings:
    return Settings(keda=Keda(**given))


def test_plaintext_is_said_aloud_where_it_is_spoken() -> None:
    assert keda(plaintext=True).warnings() == ()
    (warning,) = keda(enabled=True, plaintext=True).warnings()
    assert warning.startswith("keda.plaintext is on: KEDA is answered without encryption")


def test_a_scaler_address_means_us_by_the_services_names_and_by_those_that_are_listed() -> None:
    ours = Keda(enabled=True, plaintext=True, service="scaler", addresses=("dns:///hub.example:443",))
    assert Settings(namespace="gpu", keda=ours).keda_addresses == {
        "scaler.gpu:8090",
        "scaler.gpu.svc:8090",
        "scaler.gpu.svc.cluster.local:8090",
        "hub.example:443",
    }
    assert keda(addresses=("a:1",)).keda_addresses == frozenset()


@pytest.mark.parametrize("address", ["headroom-keda", "http://a:1", "a:b", ":1", "a b:1"])
def test_an_address_without_host_and_port_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="addresses"):
        keda(addresses=(address,))


def test_the_default_kinds_serve_scale_under_their_plural() -> None:
    assert [f"{k.group}/{k.version}/{k.resource}" for k in DEFAULT_KINDS] == [
        "apps/v1/deployments",
        "apps/v1/statefulsets",
        "leaderworkerset.x-k8s.io/v1/leaderworkersets",
    ]
