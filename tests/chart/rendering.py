"""The chart as Helm renders it: values in, objects or Helm's refusal out."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from tests.chart.generate import CHART

HELM: Final = Path(sys.executable).with_name("helm")
NAMESPACE: Final = "headroom-system"
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

MINIMAL: Final[dict[str, Any]] = {
    "replicas": 1,
    "priorityClass": {"create": False},
    "crds": {"install": False},
    "networkPolicy": {"enabled": False},
    "rbac": {"scaling": False},
    "antiAffinity": "none",
    "spreadOverZones": False,
}
EVERYTHING: Final[dict[str, Any]] = {
    "replicas": 3,
    "antiAffinity": "required",
    "image": {"repository": "registry.example.com/headroom", "digest": f"sha256:{'0' * 64}"},
    "imagePullSecrets": ["registry"],
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists", "effect": "NoSchedule"}],
    "podAnnotations": {"team": "serving"},
    "podLabels": {"team": "serving"},
    "env": {"SSL_CERT_FILE": "/etc/headroom/prometheus/ca.crt"},
    "secretMounts": [{"secret": "prometheus-token", "path": "/etc/headroom/prometheus"}],
    "audit": {"enabled": True},
    "rbac": {
        "jobSets": True,
        "trainJobs": True,
        "trainingJobs": True,
        "readers": [{"namespace": "monitoring", "name": "prometheus-k8s"}],
    },
    "certificates": {"http": True},
    "settings": {
        "default_mode": "Active",
        "http": {"authorize": True},
        "deletion_cost": True,
        "keda": {"enabled": True},
        "warm_pools": {"enabled": True, "registries": ["registry.example.com"]},
        "batch": {"enabled": True},
        "shapes": {"h100": {"sku": "NVIDIA-H100-80GB-HBM3", "gpu_hour_price": 3.5}},
        "audit": {"max_bytes": 67108864, "keep": 4},
        "budgets": {"cluster_gpus": 64, "namespaces": {"prod": 32}},
        "gateways": {"main": {"namespace": "gateway", "selector": "app=gateway", "port": 9090}},
        "gpu_exporter": {},
        "prometheus": {
            "main": {
                "url": "http://prometheus.monitoring:9090",
                "bearer_token_file": "/etc/headroom/prometheus/token",
            }
        },
    },
    "networkPolicy": {
        "apiServerCidrs": ["10.0.0.1/32"],
        "callCidrs": [{"cidr": "10.1.2.3/32", "ports": [9090]}],
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {"enabled": True},
    },
}
NAMESPACED: Final[dict[str, Any]] = {
    "settings": {
        "watch_namespaces": ["team-a", "team-b"],
        "gateways": {"main": {"namespace": "gateway", "selector": "app=gateway", "port": 9090}},
    },
    "rbac": {"nodes": False},
    "priorityClass": {"create": False},
    "crds": {"install": False},
    "monitoring": {"podMonitor": {"enabled": True}},
}
CERT_MANAGER: Final[dict[str, Any]] = {
    "settings": {"keda": {"enabled": True}},
    "certificates": {"source": "certManager", "http": True, "certManager": {"issuer": "internal"}},
}
GIVEN_SECRET: Final[dict[str, Any]] = {
    "settings": {"keda": {"enabled": True}},
    "certificates": {"source": "secret", "secretName": "keda-tls"},
}
RENDERINGS: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "minimal": MINIMAL,
    "everything": EVERYTHING,
    "namespaced": NAMESPACED,
    "cert-manager": CERT_MANAGER,
    "given secret": GIVEN_SECRET,
}
"""What the suites render, by the name that they call it."""


def helm(*arguments: str | Path, values: Mapping[str, Any] = NOTHING) -> subprocess.CompletedProcess[str]:
    """Run Helm on values that are passed in as a file would be."""
    command = [str(HELM), *map(str, arguments), "--values", "-"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
    env["GOGC"] = "off"  # what lives for a moment in 60 MB takes a quarter longer where its garbage is collected
    text = json.dumps(dict(values))
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=env)


@functools.cache
def _rendered(release: str, text: str) -> subprocess.CompletedProcess[str]:
    """What Helm makes of the chart as it stands. Many tests ask for the same few installations."""
    return helm("template", release, CHART, "--namespace", NAMESPACE, values=json.loads(text))


def render(values: Mapping[str, Any] = NOTHING, *, release: str = "headroom") -> list[dict[str, Any]]:
    """The objects that `values` make. AssertionError with Helm's words where it refuses."""
    done = _rendered(release, json.dumps(dict(values)))
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def refusal(values: Mapping[str, Any]) -> str:
    """Why Helm does not render `values`, on one line. AssertionError where it does."""
    done = _rendered("headroom", json.dumps(dict(values)))
    assert done.returncode != 0, f"rendered: {json.dumps(dict(values))}"
    return " ".join(done.stderr.split())


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of a stream of YAML documents."""
    found = [msgspec.yaml.decode(part) for part in text.split("\n---\n") if part.strip()]
    return [one for one in found if one is not None]


def of_kind(found: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Those of one kind."""
    return [one for one in found if one["kind"] == kind]


def only(found: Sequence[dict[str, Any]], kind: str, name: str | None = None) -> dict[str, Any]:
    """The one of a kind, or the one of that name. AssertionError where there is not exactly one."""
    (one,) = [one for one in of_kind(found, kind) if name is None or one["metadata"]["name"] == name]
    return one
