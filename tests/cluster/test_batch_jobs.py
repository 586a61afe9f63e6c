"""Jobs in queues on a real control plane: let in whole where they fit, told why they wait, stopped whole.

The Job controller and the scheduler are the real ones; nodes are KWOK's. Four nodes of eight GPUs each.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from tests.cluster.batch_work import MERGE, SETTINGS, SLACK_S, Desk, instant_s, manifest, priority_class
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import ACCOUNT, NAMESPACE, Controller
from tests.cluster.manifests import deployment
from tests.cluster.plane import Plane, RefusedError
from tests.cluster.processes import wait_for
from tests.cluster.rights_used import judged
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]


OTHERS: Final[dict[str, dict[str, Any]]] = {
    "Kueue, by its label": {"labels": {"kueue.x-k8s.io/queue-name": "theirs"}},
    "somebody, by spec.managedBy": {"managedBy": "example.com/other"},
    "Volcano, by its scheduler": {"template": {"schedulerName": "volcano"}},
    "KAI, by its scheduler": {"template": {"schedulerName": "kai-scheduler"}},
    "YuniKorn, by its scheduler": {"template": {"schedulerName": "yunikorn"}},
}

REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "a queue that is not there": ({"queue": "nowhere"}, "there is no BatchQueue 'nowhere'"),
    "a priority that is serving's": ({"priority_class": ""}, "give it a PriorityClass below 0"),
    "no GPU at all": ({"gpus": 0}, "ask for no GPU; ask for one of nvidia.com/gpu"),
    "a duration without unit": ({"annotations": {"headroom.dev/expected-duration": "90"}}, "'90' has no unit"),
    "min above max": (
        {"annotations": {"headroom.dev/min-width": "4", "headroom.dev/max-width": "2"}}, "4 is above max-width 2",
    ),
    "some nodes of a shape": (
        {"template": {"nodeSelector": {"kubernetes.io/hostname": "gpu-1"}}}, "some of the nodes of shape 'h100' only",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane(tmp_path_factory.mktemp("batch"), manager_flags=["--controllers", "job"]) as made:
        install(made)
        apply_file(made, CONFIG / "rbac" / "batch")
        made.apply(priority_class("batch", -20))
        yield made


@pytest.fixture(scope="module", autouse=True)
def _rights(request: pytest.FixtureRequest, plane: Plane) -> Iterator[None]:
    yield from judged(request, plane, "batch")


@pytest.fixture(scope="module")
def controller(plane: Plane) -> Iterator[Controller]:
    with Controller(plane, **SETTINGS) as made:
        made.wait_leading()
        yield made


@pytest.fixture
def desk(plane: Plane, controller: Controller) -> Iterator[Desk]:
    with Desk.open(plane, controller) as made:
        yield made


def test_a_gang_that_fits_is_let_in_by_one_patch_and_bound_where_it_was_proven_to_fit(desk: Desk) -> None:
    queue = desk.queue("team", 16)
    desk.job("train", queue, pods=2)
    nodes = desk.wait_bound("train", 2)
    assert sorted(nodes.values()) == [1, 1]
    assert len(desk.writes("train")) == 1
    wait_for(lambda: desk.status(queue).get("usedGpus") == 16, SLACK_S, "a status of 16 GPUs")
    desk.end("train")
    wait_for(lambda: desk.status(queue).get("usedGpus") == 0, SLACK_S, "a finished Job to hold nothing")


def test_nobody_starts_in_part_and_the_one_that_waits_is_told_why_and_what_would_change_it(desk: Desk) -> None:
    queue = desk.queue("team", 32)
    desk.job("big", queue, pods=3)
    desk.wait_bound("big", 3)
    desk.job("next", queue, pods=2)
    words = desk.wait_told("next", "Waiting: waits, place 1")
    assert "8 more free units of h100" in words
    assert "in nine of ten cases" in words, "when it is expected to start"
    desk.job("small", queue, annotations={"headroom.dev/expected-duration": "1m"})
    desk.wait_bound("small", 1)
    assert desk.pods("next") == []
    assert desk.writes("next") == []
    desk.end("big")
    wait_for(lambda: not desk.is_suspended("next"), SLACK_S, "the next one to start")
    assert sum(desk.wait_bound("next", 2).values()) == 2


def test_gpus_of_strangers_and_of_cordoned_nodes_are_nobodys_to_give(desk: Desk, plane: Plane) -> None:
    queue = desk.queue("team", 32)
    stranger = manifest(desk.namespace, "stranger", "none", 1, 1, suspend=False)
    stranger["metadata"]["labels"] = {}
    plane.call("POST", f"/apis/batch/v1/namespaces/{desk.namespace}/jobs", stranger)
    held = next(iter(desk.wait_bound("stranger", 1)))
    cordoned = next(f"gpu-{at}" for at in range(4) if f"gpu-{at}" != held)
    plane.kubectl("cordon", cordoned)
    try:
        desk.job("three", queue, pods=3)
        assert "24 units of h100, 1 more than they have, in this form beside serving" in desk.wait_told(
            "three", "Waiting"
        ), "23 are left"
        desk.job("two", queue, pods=2)
        assert not {held, cordoned} & set(desk.wait_bound("two", 2))
        assert desk.is_suspended("three")
    finally:
        plane.kubectl("uncordon", cordoned)
    wait_for(lambda: desk.status(queue).get("usedGpus") == 16, SLACK_S, "a status")


def test_a_gang_that_requires_a_rack_is_bound_in_one_and_not_on_the_nodes_that_are_tighter(
    desk: Desk, plane: Plane
) -> None:
    """Two racks of two nodes; a gang of one GPU is on the one, so that no rack but the other has sixteen free."""
    queue = desk.queue("team", 32)
    desk.job("one", queue, gpus=1)
    (held,) = desk.wait_bound("one", 1)
    other = next(f"gpu-{at}" for at in range(4) if f"gpu-{at}" != held)
    for name in (f"gpu-{at}" for at in range(4)):
        rack = "taken" if name in {held, other} else "free"
        plane.kubectl("label", "node", name, f"topology.kubernetes.io/rack={rack}")
    try:
        desk.job("train", queue, pods=2, annotations={"headroom.dev/required-topology": "rack"})
        assert not {held, other} & set(desk.wait_bound("train", 2))
        desk.job("next", queue, pods=3, gpus=5, annotations={"headroom.dev/required-topology": "rack"})
        assert "usable nodes that hold 15 units of h100 in one rack" in desk.wait_told("next", "Waiting")
    finally:
        for name in (f"gpu-{at}" for at in range(4)):
            plane.kubectl("label", "node", name, "topology.kubernetes.io/rack-")


def test_a_gang_over_several_nodes_is_followed_to_where_the_scheduler_put_it(desk: Desk) -> None:
    """Held to its nodes, it may spread over them otherwise than planned; the next one fits all the same."""
    queue = desk.queue("team", 32)
    for at in range(3):
        desk.job(f"five-{at}", queue, gpus=5)
    desk.job("spread", queue, pods=5, gpus=2)
    desk.job("last", queue, pods=3, gpus=1)
    for name, pods in (("five-0", 1), ("five-1", 1), ("five-2", 1), ("spread", 5), ("last", 3)):
        desk.wait_bound(name, pods)
    wait_for(lambda: desk.status(queue).get("usedGpus") == 28, SLACK_S, "a status of 28 GPUs")


def test_a_queue_with_a_guarantee_gets_it_back_from_whole_gangs_that_start_again_later(desk: Desk) -> None:
    root = desk.queue("all")
    owner, borrower = (desk.queue(name, gpus, own=False, parent=root) for name, gpus in (("owner", 16), ("lent", 0)))
    for at in range(2):
        desk.job(f"loan-{at}", borrower, pods=2)
        desk.wait_bound(f"loan-{at}", 2)
    desk.job("mine", owner, pods=2)
    assert sorted(desk.wait_bound("mine", 2).values()) == [1, 1]
    stopped = [name for name in ("loan-0", "loan-1") if desk.is_suspended(name)]
    assert len(stopped) == 1, "no more than is needed"
    assert desk.pods(stopped[0]) == []
    assert f"stopped for job/{desk.namespace}/mine" in desk.wait_told(stopped[0], "Preempted")
    desk.end("mine")
    desk.wait_bound(stopped[0], 2)


def test_a_gang_that_may_be_narrower_starts_as_wide_as_fits_and_is_as_wide_as_written_again_once_stopped(
    desk: Desk, controller: Controller
) -> None:
    root = desk.queue("all")
    owner, borrower = (desk.queue(name, gpus, own=False, parent=root) for name, gpus in (("owner", 16), ("lent", 0)))
    desk.job("one", owner)
    desk.wait_bound("one", 1)
    desk.job("work", owner, pods=5, completions=40, annotations={"headroom.dev/min-width": "1"})
    desk.wait_bound("work", 3)
    assert desk.width("work") == (3, 40, '{"pods":3,"written":5}')
    desk.delete("work")
    desk.job("wide", borrower, pods=4, completionMode="Indexed", annotations={"headroom.dev/min-width": "3"})
    assert sorted(desk.wait_bound("wide", 3).values()) == [1, 1, 1]
    assert desk.width("wide") == (3, 3, '{"pods":3,"written":4}')
    said = CliRunner().invoke(app, ["explain", "job/wide", "--server", controller.url]).stdout
    assert "3 of 4 wide" in said
    assert "one more pod would have taken 8 more free units of h100" in said
    assert len(desk.writes("wide")) == 1
    desk.job("mine", owner)
    desk.wait_bound("mine", 1)
    desk.wait_told("wide", "Preempted")
    assert (desk.is_suspended("wide"), desk.width("wide")) == (True, (4, 4, None)), "two nodes are not enough"
    desk.end("one")
    assert sorted(desk.wait_bound("wide", 3).values()) == [1, 1, 1]
    assert len(desk.writes("wide")) == 3
    wait_for(lambda: desk.status(root).get("usedGpus") == 32, SLACK_S, "a status of 32 GPUs")


def test_a_quota_that_is_lowered_under_running_work_stops_nobody_and_lets_nobody_in(desk: Desk) -> None:
    queue = desk.queue("team", 16, limit=16)
    desk.job("first", queue, pods=2)
    desk.wait_bound("first", 2)
    desk.queue("team", 8, limit=8)
    desk.job("second", queue)
    assert "16 more units within the limit" in desk.wait_told("second", "Waiting")
    assert sum(desk.nodes("first").values()) == 2
    desk.queue("team", 24, limit=24)
    desk.wait_bound("second", 1)
    assert len(desk.writes("first")) == 1


def test_a_restart_lets_nobody_in_twice_and_finds_all_again(desk: Desk, controller: Controller) -> None:
    queue = desk.queue("team", 32)
    desk.job("runs", queue, pods=3)
    desk.wait_bound("runs", 3)
    desk.job("waits", queue, pods=2)
    desk.wait_told("waits", "Waiting")
    controller.kill()
    desk.job("meanwhile", queue)
    controller.start()
    controller.wait_leading(SLACK_S)
    desk.wait_bound("meanwhile", 1)
    assert desk.is_suspended("waits")
    assert len(desk.writes("runs")) == 1
    assert desk.status(queue)["usedGpus"] in {24, 32}
    desk.end("runs")
    desk.wait_bound("waits", 2)


def test_jobs_that_are_edited_or_deleted_in_flight_hold_nothing_and_lose_nothing(desk: Desk) -> None:
    queue = desk.queue("team", 32)
    desk.job("runs", queue, pods=4)
    desk.wait_bound("runs", 4)
    desk.job("edited", queue, pods=4)
    desk.job("deleted", queue, pods=4)
    desk.wait_told("deleted", "Waiting")
    desk.edit("edited", {"spec": {"parallelism": 1}})
    desk.delete("deleted")
    desk.delete("runs")
    assert sum(desk.wait_bound("edited", 1).values()) == 1
    wait_for(lambda: desk.status(queue).get("usedGpus") == 8, SLACK_S, "a status of what runs")
    assert desk.status(queue).get("waitingGangs", 0) == 0
    desk.edit("edited", {"spec": {"suspend": True}})
    wait_for(lambda: desk.pods("edited") == [] or not desk.is_suspended("edited"), SLACK_S, "it to be stopped by hand")
    desk.wait_bound("edited", 1)


@pytest.mark.parametrize("given", OTHERS.values(), ids=OTHERS)
def test_what_others_manage_is_never_touched_and_is_told_of(desk: Desk, given: dict[str, Any]) -> None:
    queue = desk.queue("team", 32)
    desk.job("theirs", queue, **given)
    desk.job("ours", queue)
    desk.wait_bound("ours", 1)
    assert "manages it" in desk.wait_told("theirs", "LeftAlone")
    assert desk.is_suspended("theirs")
    assert desk.writes("theirs") == []


@pytest.mark.parametrize(("given", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_let_in_is_told_field_value_and_remedy_once(
    desk: Desk, given: dict[str, Any], words: str
) -> None:
    queue = desk.queue("team", 32)
    desk.job("bad", **{"queue": queue, **given})
    desk.job("good", queue)
    desk.wait_bound("good", 1)
    desk.wait_told("bad", words)
    assert desk.is_suspended("bad")
    assert [reason for reason, _ in desk.events("bad")] == ["Refused"]
    assert desk.writes("bad") == []


def test_gpus_that_serve_are_no_room_until_they_are_given_back(desk: Desk, plane: Plane) -> None:
    queue = desk.queue("team", 32)
    plane.apply(deployment(desk.namespace, "chat", 8000, replicas=3, gpus=8))
    path = f"/apis/apps/v1/namespaces/{desk.namespace}/deployments/chat"
    wait_for(lambda: plane.call("GET", path)["status"].get("readyReplicas") == 3, SLACK_S, "three replicas")
    desk.job("two", queue, pods=2)
    assert "8 more" in desk.wait_told("two", "Waiting")
    plane.kubectl("scale", "deployment/chat", "--replicas=2", "-n", desk.namespace)
    desk.wait_bound("two", 2)
    assert plane.call("GET", path)["status"]["readyReplicas"] == 2, "nobody who serves gave way"


def test_a_policy_that_refuses_our_patch_is_told_and_costs_the_queue_nothing(desk: Desk, plane: Plane) -> None:
    queue = desk.queue("team", 8, limit=8)
    for each in forbidding(desk.namespace, "held"):
        plane.apply(each)
    try:
        wait_for(lambda: is_forbidden(desk), SLACK_S, "the policy to be in force", every_s=0.2)
        desk.job("held", queue)
        assert "not before the audit" in desk.wait_told("held", "StartFailed")
        desk.job("good", queue)
        desk.wait_bound("good", 1)
        assert desk.pods("held") == []
    finally:
        for each in forbidding(desk.namespace, "held"):
            plane.kubectl("delete", each["kind"], each["metadata"]["name"])


def test_a_gang_that_finds_no_whole_place_in_time_is_stopped_whole(desk: Desk, plane: Plane) -> None:
    """Its second pod can never be bound: an anti-affinity that no placement knows of."""
    queue = desk.queue("team", 32)
    apart = {"labelSelector": {"matchLabels": {"apart": desk.namespace}}, "topologyKey": "kubernetes.io/os"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    one = manifest(desk.namespace, "apart", queue, 2, 8, template={"affinity": affinity})
    one["spec"]["template"]["metadata"] = {"labels": {"apart": desk.namespace}}
    for node in range(4):
        plane.kubectl("label", "node", f"gpu-{node}", "kubernetes.io/os=linux", "--overwrite")
    plane.call("POST", f"/apis/batch/v1/namespaces/{desk.namespace}/jobs", one)
    wait_for(lambda: len(desk.writes("apart")) == 1, SLACK_S, "it to be let in")
    told = desk.wait_told("apart", "StartFailed", 30 + SLACK_S)
    assert "not all of its pods were bound, and for 30 s none more was" in told
    wait_for(lambda: desk.nodes("apart") == {}, SLACK_S, "no pod of it to hold a GPU")
    let_in, stopped = desk.writes("apart")[:2]
    assert instant_s(stopped) - instant_s(let_in) <= 30 + SLACK_S
    kept = desk.read("apart")["spec"]["template"]["spec"]["affinity"]
    assert kept["podAntiAffinity"] == affinity["podAntiAffinity"], "what its author wrote stays"


def test_a_freeze_lets_nobody_in_and_stops_nobody_until_it_ends(desk: Desk, plane: Plane) -> None:
    queue = desk.queue("team", 16)
    desk.job("runs", queue)
    desk.wait_bound("runs", 1)
    plane.kubectl("-n", NAMESPACE, "create", "configmap", "headroom-freeze", "--from-literal=freeze=change of racks")
    try:
        wait_for(lambda: "change of racks" in desk.condition(queue, "Admitting"), SLACK_S, "a word about the freeze")
        desk.job("waits", queue)
        wait_for(lambda: desk.status(queue).get("waitingGangs") == 1, SLACK_S, "it to be seen")
        assert desk.is_suspended("waits")
        assert sum(desk.nodes("runs").values()) == 1
    finally:
        plane.kubectl("-n", NAMESPACE, "delete", "configmap", "headroom-freeze")
    desk.wait_bound("waits", 1)


def test_a_backlog_that_fits_costs_one_write_each(desk: Desk, plane: Plane) -> None:
    queue = desk.queue("team", 32)
    names = [f"one-{at}" for at in range(32)]
    for name in names:
        desk.job(name, queue, gpus=1)
    wait_for(lambda: not any(desk.is_suspended(name) for name in names), SLACK_S, "all to be let in", every_s=0.5)
    entries = plane.audited(verb="patch", resource="jobs", user=ACCOUNT)
    done = [e for e in entries if e["objectRef"]["namespace"] == desk.namespace and e["responseStatus"]["code"] == 200]
    assert len(done) == len(names)


def test_in_shadow_mode_it_is_decided_and_told_and_no_job_is_written(plane: Plane, controller: Controller) -> None:
    controller.stop()
    try:
        with Controller(plane, "shadow", default_mode="Shadow", **SETTINGS) as shadow:
            shadow.wait_leading(SLACK_S)
            with Desk.open(plane, shadow) as desk:
                queue = desk.queue("team", 16)
                desk.job("would", queue)
                wait_for(lambda: desk.status(queue).get("runningGangs") == 1, SLACK_S, "a decision", every_s=0.2)
                assert "only decided and told" in desk.condition(queue, "Admitting")
                told = shadow.get(f"/api/batch/gangs/job/{desk.namespace}/would")
                assert "gpu-" in str(told)
                assert desk.is_suspended("would")
                assert (desk.writes("would"), desk.events("would")) == ([], [])
    finally:
        controller.start()
        controller.wait_leading(SLACK_S)


def test_of_more_gangs_than_are_taken_in_the_last_wait_outside_and_come_in_as_others_end(
    plane: Plane, controller: Controller
) -> None:
    controller.stop()
    try:
        with Controller(plane, "few", limits={"batch_work": 4}, **SETTINGS) as few:
            few.wait_leading(SLACK_S)
            with Desk.open(plane, few) as flooding, Desk.open(plane, few) as desk:
                flood, small = flooding.queue("flood"), desk.queue("small")
                desk.job("all", small, pods=4)
                desk.wait_bound("all", 4)
                for at in range(5):
                    flooding.job(f"f{at}", flood)
                    wait_for(lambda at=at: told(few, flooding, f"f{at}"), SLACK_S, f"f{at} to be heard of")  # type: ignore[misc]
                desk.job("next", small)
                wait_for(lambda: flooding.status(flood).get("waitingGangs") == 2, SLACK_S, "a status of two that wait")
                assert "3 more are not looked at, for 4 of all are" in flooding.condition(flood, "TakenIn")
                assert [told(few, flooding, f"f{at}") == "UNTAKEN" for at in range(5)] == [
                    False,
                    False,
                    True,
                    True,
                    True,
                ]
                assert desk.status(small)["waitingGangs"] == 1, "nobody is put out by the others"
                desk.end("all")
                for name in ("f0", "f1", "f2"):
                    flooding.wait_bound(name, 1)
                desk.wait_bound("next", 1)
                flooding.end("f0")
                flooding.wait_bound("f3", 1)
                flooding.end("f1")
                flooding.wait_bound("f4", 1)
                wait_for(lambda: "all of its gangs" in flooding.condition(flood, "TakenIn"), SLACK_S, "all taken in")
    finally:
        controller.start()
        controller.wait_leading(SLACK_S)


def told(controller: Controller, desk: Desk, name: str) -> str:
    """Why a gang waits, as one word; empty where it is not known."""
    try:
        return str(controller.get(f"/api/batch/gangs/job/{desk.namespace}/{name}")["gang"]["reason"])
    except OSError:
        return ""


def forbidding(namespace: str, job: str) -> list[dict[str, Any]]:
    """A policy that lets nobody start one Job."""
    name = f"audit-{namespace}"
    rule = f"object.metadata.name != '{job}' || object.spec.suspend == true"
    match = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["UPDATE"]}
    policy = {
        "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [match]},
        "validations": [{"expression": rule, "message": "not before the audit"}],
    }  # fmt: skip
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": where}
    return [
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding))
    ]


def is_forbidden(desk: Desk) -> bool:
    """Whether the policy refuses by now; asked with a Job of that name that nobody admits, in a dry run of an edit."""
    path = f"/apis/batch/v1/namespaces/{desk.namespace}/jobs/held"
    try:
        desk.read("held")
    except RefusedError:
        body = manifest(desk.namespace, "held", "none", 1, 8)
        body["metadata"]["labels"] = {}
        desk.plane.call("POST", path.removesuffix("/held"), body)
    try:
        desk.plane.call("PATCH", f"{path}?dryRun=All", {"spec": {"suspend": False}}, MERGE)
    except RefusedError:
        desk.plane.kubectl("delete", "job", "held", "-n", desk.namespace, "--wait=true")
        return True
    return False
