"""JobSets in queues on a real control plane: sets of different shapes start together where they were proven to fit.

JobSet's controller with its webhooks, the Job controller, the scheduler and the policy that holds pods to nodes are the
real ones; nodes are KWOK's. Four nodes of eight GPUs each.
"""

from typing import Final

import msgspec
import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from tests.cluster.batch_work import MERGE, SLACK_S, Desk
from tests.cluster.conftest import CONFIG
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.gangs import fixtures
from tests.cluster.jobsets import SET, JobSets, Sets
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("jobset"), pytest.mark.timeout(360)]

WHOLE: Final = {"small": (2, 2, 4), "large": (2, 1, 8)}
"""Four pods of four GPUs and two of eight: four whole nodes, and only if no small pod comes between the large ones."""


def unbind(plane: Plane) -> None:
    """The policy that holds pods to nodes is not in force."""
    plane.kubectl("delete", "mutatingadmissionpolicybinding", "headroom-places")


plane, within_rights, controller, operator, desk = fixtures(("jobsets", "batch"), [JobSets], "jobsets", prepare=unbind)


@pytest.fixture
def held(plane: Plane) -> None:
    """The policy that holds pods to nodes is in force."""
    apply_file(plane, CONFIG / "rbac" / "jobsets")


def test_a_kind_that_comes_later_is_followed_and_starts_once_a_policy_holds_its_pods(
    desk: Desk, controller: Controller
) -> None:
    queue, sets = desk.queue("team", 32), Sets(desk)
    sample = msgspec.yaml.decode((CONFIG / "samples" / "batch-jobset.yaml").read_text())
    sample["metadata"] |= {"namespace": desk.namespace, "labels": {"headroom.dev/queue": queue}}
    desk.plane.apply(sample)
    sets.make("theirs", queue, {"large": (1, 1, 8)}, labels={"kueue.x-k8s.io/queue-name": "other"})
    words = desk.wait_told("pretrain", "Refused")
    assert "no MutatingAdmissionPolicy headroom-places is in force" in words
    assert sets.is_suspended("pretrain")
    apply_file(desk.plane, CONFIG / "rbac" / "jobsets")
    assert len(set(sets.wait_bound("pretrain", 4)["workers"])) == 3
    said = CliRunner().invoke(app, ["explain", "jobset/pretrain", "--server", controller.url]).stdout
    assert "asks for 26 h100 in 4 pods" in said
    assert "Kueue manages it" in desk.wait_told("theirs", "LeftAlone")
    assert (sets.is_suspended("theirs"), sets.writes("theirs", ACCOUNT)) == (True, [])


@pytest.mark.usefixtures("held")
def test_sets_of_two_shapes_start_together_by_one_patch_and_the_next_gang_waits_whole(desk: Desk) -> None:
    queue, sets = desk.queue("team", 32), Sets(desk)
    sets.make("first", queue, WHOLE)
    nodes = sets.wait_bound("first", 6)
    assert [len(set(nodes[each])) for each in ("small", "large")] == [2, 2]
    assert not set(nodes["small"]) & set(nodes["large"])
    sets.make("second", queue, {"driver": (1, 1, 1), "workers": (3, 1, 8)})
    assert "25 more free units of h100" in desk.wait_told("second", "Waiting: waits, place 1")
    assert (sets.pods("second"), sets.writes("second", ACCOUNT)) == ([], [])
    sets.end("first")
    nodes = sets.wait_bound("second", 4)
    assert len(set(nodes["workers"])) == 3
    assert len(sets.writes("first", ACCOUNT)) == len(sets.writes("second", ACCOUNT)) == 1
    wait_for(lambda: desk.status(queue).get("usedGpus") == 25, SLACK_S, "a status of 25 GPUs: no Job is a gang")


@pytest.mark.usefixtures("held")
def test_one_that_fails_is_held_to_its_nodes_again_and_one_that_is_stopped_starts_elsewhere(desk: Desk) -> None:
    root = desk.queue("all")
    owner, borrower = (desk.queue(name, gpus, own=False, parent=root) for name, gpus in (("owner", 32), ("lent", 0)))
    sets = Sets(desk)
    sets.make("loan", borrower, {"a": (1, 1, 8), "b": (1, 2, 4)}, failurePolicy={"maxRestarts": 3})
    before = sets.wait_bound("loan", 3)
    first = sets.uids("loan")
    (path,) = [pod["metadata"]["name"] for pod in sets.pods("loan") if pod["metadata"]["labels"][SET] == "a"]
    pods = f"/api/v1/namespaces/{desk.namespace}/pods"
    desk.plane.call("PATCH", f"{pods}/{path}/status", {"status": {"phase": "Failed"}}, MERGE)
    wait_for(lambda: sets.read("loan").get("status", {}).get("restarts") == 1, SLACK_S, "JobSet to make its Jobs anew")
    wait_for(lambda: not first & sets.uids("loan"), SLACK_S, "the old pods to go")
    assert sets.wait_bound("loan", 3) == before
    assert len(sets.writes("loan", ACCOUNT)) == 1
    desk.job("mine", owner, pods=4)
    desk.wait_bound("mine", 4)
    assert sets.is_suspended("loan")
    assert f"stopped for job/{desk.namespace}/mine" in desk.wait_told("loan", "Preempted")
    assert sets.pods("loan") == []
    desk.plane.kubectl("cordon", *before["a"])
    try:
        desk.end("mine")
        after = sets.wait_bound("loan", 3)
    finally:
        desk.plane.kubectl("uncordon", *before["a"])
    assert not set(before["a"]) & {node for nodes in after.values() for node in nodes}
    assert len(sets.writes("loan", ACCOUNT)) == 3
    sets.delete("loan")
    wait_for(lambda: desk.status(root).get("usedGpus") == 0, SLACK_S, "what is deleted to hold nothing")
