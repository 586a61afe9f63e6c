"""The samples of batch work on a real control plane: they are taken, the gang starts, and commands tell of it.

The Job controller and the scheduler are the real ones; the four nodes of eight GPUs are KWOK's.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import Controller
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

SAMPLES: Final = CONFIG / "samples"
SLACK_S: Final = 40.0
"""How long anything may take on a loaded machine."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane(tmp_path_factory.mktemp("samples"), manager_flags=["--controllers", "job"]) as made:
        install(made)
        apply_file(made, CONFIG / "rbac" / "batch")
        yield made


@pytest.fixture(scope="module")
def controller(plane: Plane) -> Iterator[Controller]:
    with Controller(plane, batch={"enabled": True}, shapes={"h100": {"sku": "h100"}}) as made:
        made.wait_leading()
        yield made


def conditions(plane: Plane, queue: str) -> dict[str, dict[str, Any]]:
    """The conditions of a queue by their types."""
    found = plane.call("GET", f"/apis/headroom.dev/v1alpha1/batchqueues/{queue}")
    return {one["type"]: one for one in found.get("status", {}).get("conditions", ())}


def asked(controller: Controller, *arguments: str) -> str:
    """What a command prints when it is asked of the leader."""
    result = CliRunner().invoke(app, [*arguments, "--server", controller.url])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_queue_that_cannot_be_served_says_so_though_it_is_the_only_one(plane: Plane, controller: Controller) -> None:
    strange = {"quotas": [{"shape": "b200"}]}
    plane.apply(
        {"apiVersion": "headroom.dev/v1alpha1", "kind": "BatchQueue", "metadata": {"name": "alone"}, "spec": strange}
    )
    wait_for(lambda: conditions(plane, "alone"), SLACK_S, "conditions")
    ready = conditions(plane, "alone")["Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "UnknownShape")
    assert "'b200' is not among the administrator's shapes (h100)" in ready["message"]
    assert "alone: spec.quotas: 'b200'" in asked(controller, "queue")
    plane.kubectl("delete", "batchqueue", "alone")


def test_the_sample_gang_starts_in_the_sample_queues_and_everybody_says_how_it_does(
    plane: Plane, controller: Controller
) -> None:
    plane.kubectl("create", "namespace", "lab")
    plane.kubectl("apply", "-f", SAMPLES / "batchqueue.yaml", "-f", SAMPLES / "batch-job.yaml")

    def bound() -> int:
        pods = plane.call("GET", "/api/v1/namespaces/lab/pods")["items"]
        return len({pod["spec"].get("nodeName") for pod in pods} - {None})

    wait_for(lambda: bound() == 4, SLACK_S, "four pods on four nodes")
    wait_for(lambda: "job/lab/train" in asked(controller, "queue"), SLACK_S, "the gang to be told of")
    after = msgspec.yaml.decode((SAMPLES / "batch-job.yaml").read_text().split("\n---\n")[0])
    after["metadata"]["name"] = "after"
    after["spec"] |= {"completions": 1, "parallelism": 1}
    plane.apply(after)
    wait_for(lambda: "job/lab/after" in asked(controller, "queue"), SLACK_S, "the next gang to be told of")
    told = asked(controller, "explain", "job/after")
    assert "waits, place 1 in queue training: not enough free units (8 more free units of h100)" in told
    assert "start: by " in told
    lines = json.loads(asked(controller, "queue", "--json"))
    assert [(line["queue"], line["running"], line["waiting"]) for line in lines["queues"]] == [
        ("research", 1, 1), ("experiments", 0, 0), ("training", 1, 1),
    ]  # fmt: skip
    (owners,) = lines["owners"]
    assert (owners["batch"], owners["free"]) == (32, 0)
    assert "below research, weight 2" in asked(controller, "explain", "batchqueue/training")
    wait_for(lambda: conditions(plane, "training"), SLACK_S, "conditions")
    assert {kind: one["status"] for kind, one in conditions(plane, "training").items()} == {
        "Ready": "True", "Consistent": "True", "Admitting": "True",
    }  # fmt: skip
