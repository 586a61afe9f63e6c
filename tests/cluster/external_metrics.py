"""One number as the API server's external metrics, for a real HPA to act upon: what a metrics adapter serves.

The API server reaches it through a Service without pods (ExternalName), as it does KEDA's adapter.
"""

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.keda.certs import Authority

GROUP: Final = "external.metrics.k8s.io"
METRIC: Final = "load"


class ExternalMetrics:
    """The server; a context manager. `value` is what the metric `load` is in every namespace."""

    def __init__(self, plane: Plane, folder: Path, value: int) -> None:
        self.plane, self.value = plane, value
        authority = Authority(folder, "metrics-ca")
        pair = authority.sign("metrics", "DNS:localhost,DNS:external-metrics.kube-system.svc")
        self._authority = base64.b64encode(authority.cert.read_bytes()).decode()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> "ExternalMetrics":
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()
        for manifest in self._manifests():
            self.plane.apply(manifest)
        path = f"/apis/{GROUP}/v1beta1"
        wait_for(lambda: self.plane.kubectl("get", "--raw", path, check=False).startswith("{"), 60, path, 0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def body(self, path: str) -> dict[str, Any]:
        """The answer to a request for `path`."""
        if path.rstrip("/").endswith("v1beta1"):
            resource = {"name": METRIC, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList"}
            resources = [resource | {"verbs": ["get"]}]
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/v1beta1"} | {
                "resources": resources
            }
        item = {"metricName": METRIC, "metricLabels": {}, "timestamp": "2026-01-01T00:00:00Z", "value": f"{self.value}"}
        return {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/v1beta1", "metadata": {}, "items": [item]}

    def _manifests(self) -> list[dict[str, Any]]:
        name, rbac = "external-metrics", "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{rbac}/v1", "metadata": {"name": name}}
        hpa = {"kind": "ServiceAccount", "name": "horizontal-pod-autoscaler", "namespace": "kube-system"}
        port = self._server.server_address[1]
        return [
            {
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "kube-system"},
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": f"v1beta1.{GROUP}"},
                "spec": {
                    "group": GROUP, "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                    "service": {"name": name, "namespace": "kube-system", "port": port},
                    "caBundle": self._authority,
                },
            },
            role | {"kind": "ClusterRole", "rules": [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}]},
            role | {
                "kind": "ClusterRoleBinding", "subjects": [hpa],
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            },
        ]  # fmt: skip


def horizontal(namespace: str, name: str, *, least: int, most: int, each: int) -> dict[str, Any]:
    """An HPA that wants one replica for every `each` of the metric."""
    target = {"type": "AverageValue", "averageValue": f"{each}"}
    return {
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": least, "maxReplicas": most,
            "metrics": [{"type": "External", "external": {"metric": {"name": METRIC}, "target": target}}],
        },
    }  # fmt: skip


def _handler(metrics: ExternalMetrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(metrics.body(self.path.partition("?")[0])).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
