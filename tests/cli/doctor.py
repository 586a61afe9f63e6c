"""`headroom doctor` in one line, and what it is shown of a cluster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from autoscaler.api.crd import definition
from autoscaler.cli.definitions import DEFINITIONS
from autoscaler.cli.main import app
from tests.cli.plane import Plane

run = CliRunner().invoke
QUEUES = "/apis/headroom.dev/v1alpha1/batchqueues"


def resources(*names: str) -> dict[str, Any]:
    return {"resources": [{"name": name} for name in names]}


def examined(cluster: Plane, *options: str) -> tuple[int, list[dict[str, Any]]]:
    result = run(app, ["doctor", "--json", *cluster.options(), *options])
    assert result.stderr == ""
    return result.exit_code, json.loads(result.stdout)


def rows(found: list[dict[str, Any]], *states: str) -> list[tuple[str, str]]:
    return [(row["check"], row["words"]) for row in found if row["state"] in states]


def installed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A definition in the cluster, whose spec has been changed."""
    made = definition()
    change(made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return {f"{DEFINITIONS}/{made['metadata']['name']}": made}


def looked_at(cluster: Plane, folder: Path, check: str, settings: str = "") -> dict[str, Any]:
    """What is found of one kind of work where batch work is admitted."""
    path = folder / "settings.yaml"
    path.write_text(f"batch: {{enabled: true}}\nshapes: {{h100: {{sku: h100}}}}\n{settings}")
    (told,) = [row for row in examined(cluster, "--config", str(path))[1] if row["check"] == check]
    return told


def job(name: str, suspended: bool, *, owner: str = "", mark: str = "plain", **spec: Any) -> dict[str, Any]:
    meta = {"namespace": "lab", "name": name, "uid": name, "labels": {"headroom.dev/queue": "team", mark: "any"}}
    owners = [{"kind": owner, "name": "above", "uid": "above", "controller": True}] if owner else []
    return {"metadata": meta | {"ownerReferences": owners}, "spec": {"suspend": suspended, **spec}}
