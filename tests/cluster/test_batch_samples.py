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
    """What a command prints when it is asked of the leader; nothing where that does not know it yet."""
    return CliRunner().invoke(app, [*arguments, "--server", controller.url]).stdout


def wait_told(controller: Controller, arguments: tuple[str, ...], words: str) -> None:
    """Return once a command prints these words: what is told is a look behind what is so."""
    wait_for(lambda: words in asked(controller, *arguments), SLACK_S, f"{' '.join(arguments)}: {words}")


def counts(controller: Controller) -> list[tuple[str, int, int]]:
    """Every queue with its gangs that run and that wait."""
    lines = json.loads(asked(controller, "queue", "--json") or "{}")
    return [(line["queue"], line["running"], line["waiting"]) for line in lines.get("queues", ())]


def test_a_queue_that_cannot_be_served_says_so_though_it_is_the_only_one(plane: Plane, controller: Controller) -> None:
    strange = {"quotas": [{"shape": "b200"}]}
    plane.apply(
        {"apiVersion": "headroom.dev/v1alpha1", "kind": "BatchQueue", "metadata": {"name": "alone"}, "spec": strange}
    )
    wait_for(lambda: conditions(plane, "alone"), SLACK_S, "conditions")
    ready = conditions(plane, "alone")["Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "UnknownShape")
    assert "'b200' is not among the administrator's shapes (h100)" in ready["message"]
    wait_told(controller, ("queue",), "alone: spec.quotas: 'b200'")
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
    wait_told(controller, ("queue",), "job/lab/train")
    after = msgspec.yaml.decode((SAMPLES / "batch-job.yaml").read_text().split("\n---\n")[0])
    after["metadata"]["name"] = "after"
    after["spec"] |= {"completions": 1, "parallelism": 1}
    plane.apply(after)
    waits = "waits, place 1 in queue training: not enough free units (8 more free units of h100)"
    wait_told(controller, ("explain", "job/after"), waits)
    wait_told(controller, ("explain", "job/after"), "start: by ")
    wait_told(controller, ("explain", "batchqueue/training"), "below research, weight 2")
    wait_for(
        lambda: counts(controller) == [("research", 1, 1), ("experiments", 0, 0), ("training", 1, 1)], SLACK_S, "counts"
    )
    (owners,) = json.loads(asked(controller, "queue", "--json"))["owners"]
    assert (owners["batch"], owners["free"]) == (32, 0)
    well = dict.fromkeys(("Ready", "Consistent", "Admitting", "TakenIn"), "True")
    wait_for(
        lambda: {kind: one["status"] for kind, one in conditions(plane, "training").items()} == well, SLACK_S,
        "conditions that hold",
    )  # fmt: skip
