"""The objects that tests apply."""

from typing import Any


def deployment(
    namespace: str,
    name: str,
    port: int,
    *,
    replicas: int = 1,
    annotations: dict[str, str] | None = None,
    stages: dict[str, str] | None = None,
    gpus: int = 1,
    kind: str = "Deployment",
) -> dict[str, Any]:
    """A target whose pods answer on `port`; `annotations` go on itself, `stages` on its pods (see stages.yaml)."""
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {
        "name": "engine",
        "image": "vllm:v1",
        "ports": [{"name": "metrics", "containerPort": port}],
        "resources": {"limits": limits},
    }
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {
                "labels": {"app": name},
                "annotations": {f"stage.headroom.dev/{k}": v for k, v in (stages or {}).items()},
            },
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
        },
    }
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
        "spec": spec,
    }
