"""Pods behind our gate on a real control plane: let in whole where they fit, told why they wait, never deleted.

The scheduler and the Job controller are the real ones; nodes are KWOK's. Four nodes of eight GPUs each.
"""

import time
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import msgspec
import pytest
from typer.testing import CliRunner

from autoscaler.app.batch_latecomers import AGAIN_S
from autoscaler.cli.main import app
from tests.cluster.batch_pods import GATE, Pods, opt_in
from tests.cluster.batch_work import SETTINGS, SLACK_S, Desk, manifest, priority_class
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import NAMESPACE, Controller
from tests.cluster.plane import Plane, RefusedError
from tests.cluster.processes import wait_for
from tests.cluster.rights_used import judged
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane(tmp_path_factory.mktemp("pods"), manager_flags=["--controllers", "job"]) as made:
        install(made)
        apply_file(made, CONFIG / "rbac" / "batch")
        made.apply(priority_class("batch", -20))
        yield made


@pytest.fixture(scope="module", autouse=True)
def _rights(request: pytest.FixtureRequest, plane: Plane) -> Iterator[None]:
    yield from judged(request, plane, "pods", "batch", opt_in=True)


@pytest.fixture(scope="module")
def controller(plane: Plane) -> Iterator[Controller]:
    with Controller(plane, **SETTINGS) as made:
        made.wait_leading(SLACK_S)
        yield made


@pytest.fixture
def desk(plane: Plane, controller: Controller) -> Iterator[Desk]:
    with Desk.open(plane, controller) as made:
        opt_in(plane, made.namespace)
        yield made


@pytest.fixture
def pods(desk: Desk) -> Pods:
    return Pods(desk)


def test_the_samples_group_and_single_pod_are_let_in_by_one_patch_each(
    desk: Desk, pods: Pods, controller: Controller
) -> None:
    queue = desk.queue("team", 32)
    for sample in map(msgspec.yaml.decode, (CONFIG / "samples" / "batch-pods.yaml").read_text().split("\n---\n")):
        sample["metadata"]["namespace"] = desk.namespace
        sample["metadata"]["labels"]["headroom.dev/queue"] = queue
        desk.plane.apply(sample)
    nodes = pods.wait_bound("sweep", 2)
    assert len(set(nodes.values())) == 2
    wait_for(lambda: pods.read("notebook")["spec"].get("nodeName"), SLACK_S, "the single pod to be bound")
    assert [pods.writes(name) for name in ("sweep-0", "sweep-1", "notebook")] == [1, 1, 1]
    for name, node in nodes.items():
        assert pods.read(name)["spec"]["nodeSelector"] == {"kubernetes.io/hostname": node}
    said = CliRunner().invoke(app, ["explain", "podgroup/sweep", "--server", controller.url]).stdout
    assert "asks for 16 h100 in 2 pods" in said
    assert "asks for 1 h100 in 1 pod" in CliRunner().invoke(
        app, ["explain", f"pod/{desk.namespace}/notebook", "--server", controller.url]
    ).stdout  # fmt: skip
    wait_for(lambda: desk.status(queue).get("usedGpus") == 17, SLACK_S, "a status of 17 GPUs")
    pods.end("sweep-0", "sweep-1", "notebook")
    wait_for(lambda: desk.status(queue).get("usedGpus") == 0, SLACK_S, "ended pods to hold nothing")


def test_a_group_waits_for_its_last_pod_and_then_for_room_and_holds_nothing_meanwhile(desk: Desk, pods: Pods) -> None:
    queue = desk.queue("team", 32)
    desk.job("big", queue, pods=3)
    desk.wait_bound("big", 3)
    pods.group("g", queue, 2, size=3)
    assert "2 of 3 pods are there; it waits for the others" in desk.wait_told("g-0", "Waiting")
    pods.make("g-2", queue, group="g", size=3)
    assert "16 more free units of h100" in desk.wait_told("g-0", "place 1")
    assert (pods.nodes("g"), [pods.gates(f"g-{at}") for at in range(3)]) == ({}, [[GATE]] * 3)
    desk.end("big")
    assert len(set(pods.wait_bound("g", 3).values())) == 3


def test_a_policy_that_refuses_one_pod_lets_none_in_until_it_is_gone(desk: Desk, pods: Pods) -> None:
    queue = desk.queue("team", 32)
    pods.make("other", "nobodys")
    pods.refuse("frozen", "object.metadata.name != 'g-1' || object.spec == oldObject.spec")
    pods.group("g", queue, 2)
    words = desk.wait_told("g-0", "StartFailed")
    assert "not while the budget is frozen" in words
    assert [(pods.gates(name), pods.writes(name)) for name in ("g-0", "g-1")] == [([GATE], 0)] * 2
    pods.allow("frozen")
    assert len(pods.wait_bound("g", 2)) == 2


def test_a_gang_that_is_refused_half_way_is_finished_on_the_places_that_it_keeps(desk: Desk, pods: Pods) -> None:
    """The policy lets it be tried and refuses it then, as one does that is made in between."""
    queue = desk.queue("team", 32)
    pods.make("other", "nobodys")
    pods.refuse("later", "request.dryRun || object.metadata.name != 'g-1' || object.spec == oldObject.spec")
    pods.group("g", queue, 3)
    assert "1 of 3 pods were not let in" in desk.wait_told("g-0", "StartFailed")
    assert set(pods.wait_bound("g", 2)) == {"g-0", "g-2"}
    desk.job("two", queue, pods=2)
    assert "8 more free units" in desk.wait_told("two", "Waiting"), "the place of the third pod is kept"
    pods.allow("later")
    since_s = time.monotonic()
    nodes = pods.wait_bound("g", 3)
    took_s = time.monotonic() - since_s
    assert len(set(nodes.values())) == 3
    assert took_s < AGAIN_S + 10.0, "tried again every 5 s"
    assert [pods.writes(f"g-{at}") for at in range(3)] == [1, 1, 1]


def test_a_pod_that_was_lost_and_is_made_anew_gets_its_place_and_a_restart_knows_it(
    desk: Desk, pods: Pods, plane: Plane, controller: Controller
) -> None:
    queue = desk.queue("team", 32)
    pods.group("g", queue, 3)
    before = pods.wait_bound("g", 3)
    desk.job("two", queue, pods=2)
    pods.delete("g-1")
    controller.kill()
    controller.start()
    controller.wait_leading(SLACK_S)
    pods.make("g-1", queue, group="g", size=3)
    assert pods.wait_bound("g", 3) == before
    assert desk.is_suspended("two")


OTHERS: Final[dict[str, dict[str, Any]]] = {
    "kueue-label": {"labels": {"kueue.x-k8s.io/queue-name": "theirs"}},
    "kueue-gate": {"gates": (GATE, "kueue.x-k8s.io/admission")},
    "volcano": {"schedulerName": "volcano"},
    "kai": {"schedulerName": "kai-scheduler"},
    "yunikorn": {"schedulerName": "yunikorn"},
}


def test_what_others_manage_or_own_is_never_touched_and_is_told_of(
    desk: Desk, pods: Pods, plane: Plane, controller: Controller
) -> None:
    queue = desk.queue("team", 32)
    pods.make("theirs", "", gates=(), schedulerName="volcano")
    for name, given in OTHERS.items():
        pods.make(name, queue, **given)
    gated = manifest(desk.namespace, "job", queue, 1, 8, suspend=False)
    gated["metadata"]["labels"] = {}
    gated["spec"]["template"]["metadata"] = {"labels": {"headroom.dev/queue": queue}}
    gated["spec"]["template"]["spec"]["schedulingGates"] = [{"name": GATE}]
    plane.call("POST", f"/apis/batch/v1/namespaces/{desk.namespace}/jobs", gated)
    for name in OTHERS:
        assert "manages it" in desk.wait_told(name, "LeftAlone")
    wait_for(lambda: len(desk.pods("job")) == 1, SLACK_S, "the pod of the Job")
    (part,) = (pod["metadata"]["name"] for pod in desk.pods("job"))
    assert "the pod is a part of Job/job" in desk.wait_told(part, "Refused")
    pods.make("solo", queue)
    wait_for(lambda: pods.read("solo")["spec"].get("nodeName"), SLACK_S, "one of ours to be bound")
    said = CliRunner().invoke(app, ["explain", f"pod/{desk.namespace}/theirs", "--server", controller.url]).stdout
    assert "left alone: Volcano manages it" in said, "though it names no queue of ours"
    assert "asks for 8 nvidia.com/gpu in 1 pod" in said
    assert [pods.writes(name) for name in (*OTHERS, part)] == [0] * (len(OTHERS) + 1)
    assert all(GATE in pods.gates(name) for name in (*OTHERS, part))


def test_where_nobody_opted_in_pods_stay_behind_their_gate_and_it_is_told(plane: Plane, controller: Controller) -> None:
    with Desk.open(plane, controller) as desk:
        pods, queue = Pods(desk), desk.queue("team", 32)
        pods.make("solo", queue)
        assert "cannot patch resource" in desk.wait_told("solo", "StartFailed")
        assert pods.gates("solo") == [GATE]
        opt_in(plane, desk.namespace)
        wait_for(lambda: pods.read("solo")["spec"].get("nodeName"), SLACK_S, "it to be let in after all")


def test_the_command_that_is_told_for_pods_that_an_uninstall_left_takes_our_gate_away_only(
    desk: Desk, pods: Pods, plane: Plane
) -> None:
    pods.make("left", "nobodys", gates=("theirs.example.com/gate", GATE))
    change = '{"spec":{"schedulingGates":[{"$patch":"delete","name":"headroom.dev/admission"}]}}'
    plane.kubectl("-n", desk.namespace, "patch", "pod", "left", "-p", change)
    assert pods.gates("left") == ["theirs.example.com/gate"]


def test_the_right_to_patch_pods_changes_nothing_that_runs_and_no_pod_that_was_let_in(
    desk: Desk, pods: Pods, plane: Plane
) -> None:
    pods.make("waits", "nobodys")
    pods.make("runs", "nobodys", gates=())
    token = plane.token(NAMESPACE, "headroom")

    def patch(name: str, at: str, value: object) -> str:
        """What the API server says to a change that Headroom asks for; empty where it is made."""
        change, path = [{"op": "add", "path": at, "value": value}], f"/api/v1/namespaces/{desk.namespace}/pods/{name}"
        try:
            plane.call("PATCH", path, change, "application/json-patch+json", token=token)
        except RefusedError as error:
            return str(error)
        return ""

    tags = count()
    wait_for(
        lambda: "Headroom changes nothing that runs in a pod"
        in patch("waits", "/spec/containers/0/image", f"theirs:v{next(tags)}"),
        SLACK_S, "the API server to go by the policy",
    )  # fmt: skip
    image = ("/spec/containers/0/image", "theirs:v1")
    for change in (image, ("/spec/activeDeadlineSeconds", 1)):
        assert "Headroom changes nothing of a pod but its metadata" in patch("runs", *change)
    assert patch("runs", "/metadata/labels/a", "b") == "", "it may be marked"
