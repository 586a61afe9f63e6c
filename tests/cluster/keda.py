"""KEDA's operator and metrics adapter as plain programs beside a control plane, and ScaledObjects for them.

Definitions are read from KEDA's Go module. The API server reaches the adapter through a Service without pods
(ExternalName); programs of the tests need no rights of their own and use the administrator's.
"""

import base64
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.cluster.plane import Plane
from tests.cluster.processes import Process, free_port, wait_for
from tests.keda.certs import Authority
from tests.real import parts

NAMESPACE: Final = "keda"
GROUP: Final = "external.metrics.k8s.io"
METRICS: Final = f"/apis/{GROUP}/v1beta1"


class Keda:
    """The operator and the adapter; a context manager."""

    operator: Process
    adapter: Process

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.folder = plane.folder / "keda"

    def __enter__(self) -> Self:
        self.folder.mkdir(exist_ok=True)
        self._write_certificates()
        self._install()
        for _ in range(3):
            self._start()
            try:
                wait_for(
                    lambda: self._has_failed() or self._serves_metrics(), 60, f"{METRICS} ({self.adapter.log})", 0.2
                )
            except AssertionError:
                self.__exit__(None, None, None)
                raise
            if not self._has_failed():
                return self
            self.__exit__(None, None, None)
        raise AssertionError(f"KEDA does not start: {self.operator.words()[-2000:]} {self.adapter.words()[-2000:]}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.adapter.kill()
        self.operator.kill()

    def restart_operator(self) -> None:
        """Kill the operator and start another one."""
        self.operator.kill()
        self.operator = self._operator().start()

    @staticmethod
    def path(namespace: str, scaled_object: str, metric: str = "s0-headroom-replicas") -> str:
        """Where HPA reads the metric."""
        selector = f"scaledobject.keda.sh%2Fname%3D{scaled_object}"
        return f"{METRICS}/namespaces/{namespace}/{metric}?labelSelector={selector}"

    def value(self, namespace: str, scaled_object: str, metric: str = "s0-headroom-replicas") -> float | None:
        """The metric as HPA reads it; None while it is refused."""
        answer = self.plane.kubectl("get", "--raw", self.path(namespace, scaled_object, metric), check=False)
        if not answer.startswith("{"):
            return None
        (item,) = json.loads(answer)["items"]
        text = str(item["value"])
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)

    def _start(self) -> None:
        """Start both on ports that are free now; a busy machine may take one before they do."""
        self._service_port, self._adapter_port = free_port(), free_port()
        for manifest in self._manifests():
            self.plane.apply(manifest)
        self.operator = self._operator().start()
        self.adapter = self._adapter().start()

    def _has_failed(self) -> bool:
        return self.operator.returncode is not None or self.adapter.returncode is not None

    def _serves_metrics(self) -> bool:
        return self.plane.kubectl("get", "--raw", METRICS, check=False).startswith("{")

    def _operator(self) -> Process:
        return self._program(
            "keda-operator", f"--metrics-service-bind-address=127.0.0.1:{self._service_port}",
            f"--metrics-bind-address=127.0.0.1:{free_port()}", f"--health-probe-bind-address=127.0.0.1:{free_port()}",
            f"--cert-dir={self.folder}", "--zap-log-level=debug", "--kube-api-qps=200", "--kube-api-burst=300",
        )  # fmt: skip

    def _adapter(self) -> Process:
        config = self._config
        return self._program(
            "keda-adapter", f"--secure-port={self._adapter_port}", "--bind-address=127.0.0.1",
            f"--metrics-service-address=127.0.0.1:{self._service_port}", f"--port={free_port()}",
            f"--cert-dir={self.folder}", f"--tls-cert-file={self.folder / 'tls.crt'}",
            f"--tls-private-key-file={self.folder / 'tls.key'}", f"--lister-kubeconfig={config}",
            f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
        )  # fmt: skip

    def _program(self, name: str, *flags: str) -> Process:
        found = parts.program(name)
        assert found is not None, f"{name} is not built"
        env = os.environ | {
            "KUBECONFIG": str(self._config), "WATCH_NAMESPACE": "", "POD_NAMESPACE": NAMESPACE,
            "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE, "NO_PROXY": "127.0.0.1,localhost",
        }  # fmt: skip
        return Process([found, *flags], self.folder / f"{name}.log", env)

    @property
    def _config(self) -> Path:
        return self.plane.folder / "admin.kubeconfig"

    def _write_certificates(self) -> None:
        authority = Authority(self.folder, "ca")
        pair = authority.sign("keda", "DNS:localhost,DNS:keda-metrics-apiserver.keda.svc,IP:127.0.0.1")
        pair.cert.rename(self.folder / "tls.crt")
        pair.key.rename(self.folder / "tls.key")

    def _install(self) -> None:
        source = parts.source("keda", parts.KEDA_MODULE)
        assert source is not None
        crds = sorted((source / "config/crd/bases").glob("*.yaml"))
        self.plane.kubectl("create", "namespace", NAMESPACE)
        self.plane.kubectl("apply", "--server-side", *(a for crd in crds for a in ("-f", crd)))
        served = "/apis/keda.sh/v1alpha1/scaledobjects"
        wait_for(lambda: self.plane.kubectl("get", "--raw", served, check=False).startswith("{"), 30, served)

    def _manifests(self) -> list[dict[str, Any]]:
        authority = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
        name, rbac = "keda-metrics-apiserver", "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{rbac}/v1", "metadata": {"name": "external-metrics"}}
        return [
            {
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": f"v1beta1.{GROUP}"},
                "spec": {
                    "group": GROUP, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                    "service": {"name": name, "namespace": NAMESPACE, "port": self._adapter_port},
                    "caBundle": authority,
                },
            },
            role | {"kind": "ClusterRole", "rules": [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}]},
            role | {
                "kind": "ClusterRoleBinding",
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "external-metrics"},
                "subjects": [{
                    "kind": "ServiceAccount", "name": "horizontal-pod-autoscaler", "namespace": "kube-system",
                }],
            },
        ]  # fmt: skip


def scaled_object(
    namespace: str,
    name: str,
    address: str,
    *,
    target: str | None = None,
    push: bool = False,
    metadata: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    authentication: str | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A ScaledObject with one trigger on `address` that acts without delay; `spec` overrides its fields."""
    trigger: dict[str, Any] = {
        "type": "external-push" if push else "external",
        "metadata": {"scalerAddress": address} | (metadata or {}),
    }
    if authentication is not None:
        trigger["authenticationRef"] = {"name": authentication}
    at_once = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 100, "periodSeconds": 1}]}
    behavior = {way: at_once | {"tolerance": "0"} for way in ("scaleUp", "scaleDown")}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
        "spec": {
            "scaleTargetRef": {"name": target or name},
            "pollingInterval": 2,
            "cooldownPeriod": 2,
            "minReplicaCount": 0,
            "maxReplicaCount": 20,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
            "triggers": [trigger],
        }
        | spec,
    }
