"""The samples that people copy: read by us as they mean it, and taken by the API server with KEDA's definitions."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from autoscaler.adapters.kube.leader_label import LABEL
from autoscaler.adapters.kube.scaled_objects import read_scaled_object, remarks
from autoscaler.adapters.kube.scaling import ScaledObject
from autoscaler.api.modes import Mode
from autoscaler.api.trigger import Measure, Style, read_measure
from autoscaler.settings.keda import Keda
from autoscaler.settings.model import Settings
from tests.conftest import ROOT

PAGE = ROOT / "charts/headroom/docs/keda.md"
SAMPLES = sorted((ROOT / "config/samples").glob("keda-*.yaml"))
PLAIN = ("keda-vllm", "keda-sglang", "keda-queue-worker")
OURS = Settings(keda=Keda(enabled=True, plaintext=True)).keda_addresses


def documents(path: Path) -> list[dict[str, Any]]:
    return [msgspec.yaml.decode(text) for text in path.read_text().split("\n---\n")]


def scaled_object(path: Path) -> ScaledObject:
    (found,) = (d for d in documents(path) if d["kind"] == "ScaledObject")
    return msgspec.convert(found, type=ScaledObject)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_each_sample_is_a_policy_that_acts_at_the_services_own_address(path: Path) -> None:
    found = scaled_object(path)
    assert read_scaled_object(found, OURS).mode is Mode.ACTIVE
    assert remarks(found, OURS) == ()


def test_the_samples_say_what_their_comments_say() -> None:
    by_name = {path.stem: scaled_object(path) for path in SAMPLES}
    assert set(by_name) == {name + tls for name in PLAIN for tls in ("", "-tls")}
    worker, sglang = by_name["keda-queue-worker"], by_name["keda-sglang"]
    assert read_measure(worker.spec.triggers[0].metadata) == Measure(Style.DEMAND, 16)
    assert read_scaled_object(sglang, OURS).min_replicas == 0


@pytest.mark.parametrize("name", PLAIN)
def test_over_tls_each_sample_is_the_same_with_certificates_from_a_secret(name: str) -> None:
    (plain,) = documents(ROOT / f"config/samples/{name}.yaml")
    authentication, encrypted = documents(ROOT / f"config/samples/{name}-tls.yaml")
    (trigger,) = encrypted["spec"]["triggers"]
    assert trigger.pop("authenticationRef") == {"name": authentication["metadata"]["name"]}
    assert trigger["metadata"].pop("enableTLS") == "true"
    assert encrypted == plain
    given = {entry["parameter"]: entry["key"] for entry in authentication["spec"]["secretTargetRef"]}
    assert given == {"caCert": "ca.crt", "tlsClientCert": "tls.crt", "tlsClientKey": "tls.key"}
    assert authentication["metadata"]["namespace"] == encrypted["metadata"]["namespace"]


@pytest.mark.parametrize("page", [ROOT / "README.md", PAGE], ids=lambda page: page.stem)
@pytest.mark.parametrize("name", ["keda-vllm", "keda-vllm-tls"])
def test_each_page_that_shows_a_sample_shows_what_it_says(page: Path, name: str) -> None:
    blocks = page.read_text().split("```yaml\n")[1:]
    (shown,) = (b.partition("```")[0] for b in blocks if f"# config/samples/{name}.yaml" in b)
    found = documents(ROOT / f"config/samples/{name}.yaml")[-1]
    assert msgspec.yaml.decode(shown) == {"triggers": found["spec"]["triggers"]}


def test_the_settings_of_the_page_are_read_as_they_stand() -> None:
    blocks = PAGE.read_text().split("```yaml\n")[1:]
    (shown,) = (b.partition("```")[0] for b in blocks if b.startswith("keda:"))
    settings = Settings.model_validate(msgspec.yaml.decode(shown))
    assert settings.keda.enabled
    assert settings.keda.tls is not None
    assert settings.keda.tls.client_ca_file is not None
    assert settings.keda_addresses == OURS


def test_the_service_in_front_is_the_one_that_triggers_name_and_the_leader_labels_itself_for() -> None:
    """The chart has the same; `targetPort` is the name that its Deployment gives to the container's port."""
    (service,) = documents(ROOT / "config/keda/service.yaml")
    settings = Settings()
    assert service["metadata"] == {"name": settings.keda.service, "namespace": settings.namespace}
    assert service["spec"] == {
        "selector": {"app.kubernetes.io/name": "headroom", LABEL: "true"},
        "ports": [{"name": "grpc", "port": settings.keda.port, "targetPort": "keda", "appProtocol": "grpc"}],
    }
    assert f"{settings.keda.service}.{settings.namespace}:{settings.keda.port}" in OURS
