"""What Helm makes of the chart: objects that the API server's schemas take, hardened, and at one with each other."""

import base64
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import msgspec
import pytest

from autoscaler.adapters.kube.leader_label import LABEL
from autoscaler.adapters.web.live import live_application
from autoscaler.settings.model import Settings
from tests.chart.generate import CHART, generated
from tests.chart.rendering import EVERYTHING, NAMESPACE, RENDERINGS, helm, objects, of_kind, only, render
from tests.conftest import ROOT
from tests.real import parts

KUBERNETES: Final = "1.37"
SAMPLES: Final = ROOT / "config/samples"
VALUES: Final = sorted(SAMPLES.glob("values-*.yaml"))
FOREIGN: Final = {
    "Certificate", "ClusterTriggerAuthentication", "PodMonitor", "PrometheusRule", "ServiceMonitor",
}  # fmt: skip
"""Kinds of other projects, whose schemas Kubernetes does not have."""


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[dict[str, Any]]]:
    """Every rendering of the suites, made once."""
    return {name: render(values) for name, values in RENDERINGS.items()}


def test_what_is_generated_is_what_is_committed() -> None:
    for name, text in generated():
        assert (CHART / name).read_text() == text, f"charts/headroom/{name} is old; run python3 dev.py chart"


def test_lint_has_nothing_to_say() -> None:
    done = helm("lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout
    assert "[ERROR]" not in done.stdout


@pytest.fixture(scope="module", autouse=True)
def _schemas_are_read_once() -> Iterator[None]:
    """The validator reads megabytes of schemas for every object anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kubernetes_validate.utils.schema_contents", cache(kubernetes_validate.utils.schema_contents))
        yield


@pytest.mark.parametrize("name", RENDERINGS)
def test_every_object_is_one_that_the_api_server_knows(rendered: dict[str, list[dict[str, Any]]], name: str) -> None:
    own = [found for found in rendered[name] if found["kind"] not in FOREIGN]
    assert {"Deployment", "ServiceAccount"} <= {found["kind"] for found in own}
    for found in own:
        kubernetes_validate.validate(found, KUBERNETES, strict=True)


@pytest.mark.real
@pytest.mark.needs("keda-module")
def test_keda_takes_what_is_made_for_it(rendered: dict[str, list[dict[str, Any]]]) -> None:
    source = parts.source("keda", parts.KEDA_MODULE)
    assert source is not None
    (definition,) = objects((source / "config/crd/bases/keda.sh_clustertriggerauthentications.yaml").read_text())
    (version,) = [one for one in definition["spec"]["versions"] if one["name"] == "v1alpha1"]
    made = only(rendered["everything"], "ClusterTriggerAuthentication")
    schema = version["schema"]["openAPIV3Schema"]
    jsonschema.Draft7Validator(schema).validate(made)
    assert made["spec"].keys() <= schema["properties"]["spec"]["properties"].keys()
    reference = schema["properties"]["spec"]["properties"]["secretTargetRef"]["items"]
    assert {key for row in made["spec"]["secretTargetRef"] for key in row} <= reference["properties"].keys()


def test_without_values_it_decides_in_shadow_on_two_replicas_that_avoid_each_other(
    rendered: dict[str, list[dict[str, Any]]],
) -> None:
    found = rendered["default"]
    spec = only(found, "Deployment")["spec"]
    assert spec["replicas"] == 2
    assert "podAntiAffinity" in spec["template"]["spec"]["affinity"]
    assert spec["template"]["spec"]["topologySpreadConstraints"][0]["topologyKey"] == "topology.kubernetes.io/zone"
    assert only(found, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    assert settings_of(found).default_mode.value == "Shadow"
    assert of_kind(found, "NetworkPolicy")
    assert only(found, "Lease")["metadata"]["name"] == Settings().lease.name
    assert not of_kind(found, "Secret")
    assert not of_kind(found, "Namespace"), "slots need warm pools to be enabled"


@pytest.mark.parametrize(("affinity", "surge"), [("required", 0), ("preferred", 1), ("none", 1)])
def test_an_upgrade_needs_no_node_more_than_the_replicas_have(affinity: str, surge: int) -> None:
    """Two that may not share a node, on two nodes: the third, which an upgrade made first, waited for ever."""
    deployment = only(render({"antiAffinity": affinity}), "Deployment")
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": surge, "maxUnavailable": 1 - surge}


@pytest.mark.parametrize("name", RENDERINGS)
def test_the_controller_takes_the_settings_that_the_chart_writes(
    rendered: dict[str, list[dict[str, Any]]], name: str
) -> None:
    settings = settings_of(rendered[name])
    assert settings.namespace == NAMESPACE
    assert settings.allow_loopback_targets is False


@pytest.mark.parametrize("name", RENDERINGS)
def test_no_container_may_more_than_it_needs(rendered: dict[str, list[dict[str, Any]]], name: str) -> None:
    for pod in pods_of(rendered[name]):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] == 65532
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            written = {mount["mountPath"] for mount in container.get("volumeMounts", ()) if not mount.get("readOnly")}
            assert written <= {"/tmp", "/var/lib/headroom/audit"}


def test_probes_ask_what_the_server_serves(rendered: dict[str, list[dict[str, Any]]]) -> None:
    (container,) = only(rendered["default"], "Deployment")["spec"]["template"]["spec"]["containers"]
    probes = [container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {probe["path"] for probe in probes} == {"/healthz", "/readyz"}
    served = live_application.__doc__ or ""
    assert all(f"`{probe['path']}`" in served for probe in probes)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {probe["port"] for probe in probes} == {"http"}
    assert ports == {"http": Settings().http.port}


def test_services_find_the_pods_and_kedas_only_the_one_that_leads(rendered: dict[str, list[dict[str, Any]]]) -> None:
    found = rendered["everything"]
    template = only(found, "Deployment")["spec"]["template"]
    labels, (container,) = template["metadata"]["labels"], template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    http, keda = only(found, "Service", "headroom"), only(found, "Service", "headroom-keda")
    assert http["spec"]["selector"].items() <= labels.items()
    assert keda["spec"]["selector"].items() - labels.items() == {(LABEL, "true")}
    assert "clusterIP" not in keda["spec"], "behind a headless one KEDA keeps the address that led before"
    assert ports[keda["spec"]["ports"][0]["targetPort"]] == keda["spec"]["ports"][0]["port"]
    (written,) = objects((ROOT / "config/keda/service.yaml").read_text())
    assert written["spec"]["ports"] == keda["spec"]["ports"]
    assert written["spec"]["selector"].items() <= keda["spec"]["selector"].items()
    settings = settings_of(found)
    assert f"{keda['metadata']['name']}.{NAMESPACE}:{keda['spec']['ports'][0]['port']}" in settings.keda_addresses


@pytest.mark.parametrize("path", VALUES, ids=lambda path: path.stem)
def test_values_that_are_samples_make_objects_that_the_api_server_knows(path: Path) -> None:
    found = render(msgspec.yaml.decode(path.read_text()))
    for one in found:
        kubernetes_validate.validate(one, KUBERNETES, strict=True)
    settings_of(found)


def test_one_teams_values_take_nothing_of_the_whole_cluster() -> None:
    found = render(msgspec.yaml.decode((SAMPLES / "values-one-team.yaml").read_text()))
    assert not [one for one in found if one["kind"].startswith("Cluster") or "namespace" not in one["metadata"]]
    bound = {one["metadata"]["namespace"] for one in of_kind(found, "RoleBinding")}
    assert bound == {"team-a", "team-b", NAMESPACE}


def test_changed_settings_roll_the_pods_and_nothing_else_does() -> None:
    def checksum(**values: Any) -> str:
        template = only(render(values), "Deployment")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/settings"])

    assert checksum() == checksum(monitoring={"rules": {"enabled": True}})
    assert checksum() != checksum(settings={"log_level": "debug"})


def test_the_policy_lets_in_whom_the_settings_name_and_nobody_else(rendered: dict[str, list[dict[str, Any]]]) -> None:
    def who(policy: dict[str, Any], port: int) -> set[str]:
        (rule,) = [rule for rule in policy["spec"]["ingress"] if rule["ports"][0]["port"] == port]
        return {one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for one in rule["from"]
                if "namespaceSelector" in one}  # fmt: skip

    assert who(only(rendered["default"], "NetworkPolicy"), 8080) == {"monitoring"}
    policy = only(rendered["everything"], "NetworkPolicy")
    assert who(policy, 8080) == {"monitoring", "gateway"}
    assert who(policy, 8090) == {"keda"}
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_where_namespaces_are_listed_only_they_are_called(rendered: dict[str, list[dict[str, Any]]]) -> None:
    rules = only(rendered["namespaced"], "NetworkPolicy")["spec"]["egress"]
    called = [to["namespaceSelector"] for rule in rules for to in rule.get("to", ()) if "namespaceSelector" in to]
    assert called == [{"matchLabels": {"kubernetes.io/metadata.name": n}} for n in ("gateway", "team-a", "team-b")]


def test_definitions_are_those_of_the_project_and_outlive_the_release(
    rendered: dict[str, list[dict[str, Any]]],
) -> None:
    found = {one["metadata"]["name"]: one for one in of_kind(rendered["default"], "CustomResourceDefinition")}
    folder = CHART.parents[1] / "config" / "crd"
    originals = [one for path in sorted(folder.glob("*.yaml")) for one in objects(path.read_text())]
    assert [found[one["metadata"]["name"]]["spec"] for one in originals] == [one["spec"] for one in originals]
    assert len(found) == len(originals)
    for one in found.values():
        assert one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_certificates_are_for_the_names_that_keda_dials_and_signed_by_one_authority() -> None:
    found = render(EVERYTHING)
    server, client = only(found, "Secret", "headroom-keda-tls"), only(found, "Secret", "headroom-keda-client")
    assert client["metadata"]["namespace"] == "keda"
    authority = only(found, "Secret", "headroom-keda-ca")["data"]["tls.crt"]
    assert server["data"]["ca.crt"] == client["data"]["ca.crt"] == authority
    assert base64.b64decode(server["data"]["tls.crt"]).startswith(b"-----BEGIN CERTIFICATE-----")
    mounted = only(found, "Deployment")["spec"]["template"]["spec"]["volumes"]
    secrets = {volume["secret"]["secretName"] for volume in mounted if "secret" in volume}
    assert secrets == {"headroom-keda-tls", "prometheus-token"}, "the authority's key is mounted nowhere"


def test_slots_live_where_the_settings_say_under_the_rules_of_the_projects_manifests() -> None:
    named = {"enabled": True, "namespace": "gpu-slots", "priority_class": "gpu-slot"}
    found = render({"settings": {"warm_pools": named}})
    assert "pod-security.kubernetes.io/enforce" in only(found, "Namespace", "gpu-slots")["metadata"]["labels"]
    assert only(found, "PriorityClass", "gpu-slot")["value"] == -10
    filler = only(found, "PriorityClass", "gpu-slot-filler")
    assert filler["value"] == -5, "above slots, below what serves, and heeded by Cluster Autoscaler"
    assert filler.get("preemptionPolicy", "PreemptLowerPriority") == "PreemptLowerPriority", "it takes slots' places"
    policy = only(found, "ValidatingAdmissionPolicy", "gpu-slots")["spec"]
    assert only(found, "ValidatingAdmissionPolicyBinding")["spec"]["policyName"] == "gpu-slots"
    original, _ = objects((CHART.parents[1] / "config/rbac/warm-pools/admission-policy.yaml").read_text())
    assert policy["validations"] == original["spec"]["validations"]
    named["cache_roots"] = ["/mnt/nvme0", "/mnt/nvme1"]
    other = only(render({"settings": {"warm_pools": named}}), "ValidatingAdmissionPolicy", "gpu-slots")["spec"]
    changed = [one["expression"] for one in other["validations"] if one not in policy["validations"]]
    assert len(changed) == 1
    assert '["/mnt/nvme0","/mnt/nvme1"].exists(root,' in changed[0]
    assert policy["matchConstraints"]["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "gpu-slots"
    }


def test_an_audit_volume_holds_all_files_that_the_settings_keep(rendered: dict[str, list[dict[str, Any]]]) -> None:
    audit = settings_of(rendered["everything"]).audit
    volumes = only(rendered["everything"], "Deployment")["spec"]["template"]["spec"]["volumes"]
    (volume,) = [volume for volume in volumes if volume["name"] == "audit"]
    assert int(volume["emptyDir"]["sizeLimit"]) >= 2 * audit.keep * audit.max_bytes


def settings_of(found: list[dict[str, Any]]) -> Settings:
    """The settings in the release's ConfigMap, read as the controller reads them."""
    (text,) = [one["data"]["settings.yaml"] for one in of_kind(found, "ConfigMap") if "settings.yaml" in one["data"]]
    (values,) = objects(text)
    return Settings(**values)


def pods_of(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The specs of all pods, the test's among them."""
    return [only(found, "Deployment")["spec"]["template"]["spec"], *(one["spec"] for one in of_kind(found, "Pod"))]
