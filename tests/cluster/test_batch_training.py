"""PyTorchJobs and TFJobs in queues on a real control plane: they start whole where each was proven to fit.

Kubeflow's training operator with its webhooks, the scheduler and the API server are the real ones; nodes are KWOK's.
Four nodes of eight GPUs each.
"""

from typing import Final

import msgspec
import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from tests.cluster.batch_work import SLACK_S, Desk
from tests.cluster.conftest import CONFIG
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.gangs import fixtures
from tests.cluster.processes import wait_for
from tests.cluster.training import TrainingJobs, TrainingOperator

pytestmark = [pytest.mark.real, pytest.mark.needs("training"), pytest.mark.timeout(360)]

MIXED: Final = {"Master": (1, 2), "Worker": (3, 8)}
"""Twenty-six GPUs: each worker has a node for itself, the master is on the fourth."""


plane, within_rights, controller, operator, desk = fixtures(
    ("training-jobs", "batch"), [TrainingOperator], "pytorchjobs,tfjobs"
)


def test_the_sample_starts_whole_and_what_kueue_or_volcano_manage_is_left_alone(
    desk: Desk, controller: Controller
) -> None:
    queue, jobs = desk.queue("team", 32), TrainingJobs(desk)
    sample = msgspec.yaml.decode((CONFIG / "samples" / "batch-pytorchjob.yaml").read_text())
    sample["metadata"] |= {"namespace": desk.namespace, "labels": {"headroom.dev/queue": queue}}
    desk.plane.apply(sample)
    jobs.make("kueues", queue, {"Worker": (1, 1)}, labels={"kueue.x-k8s.io/queue-name": "other"})
    jobs.make("volcanos", queue, {"Worker": (1, 1)}, policy={"suspend": True, "schedulingPolicy": {"queue": "other"}})
    nodes = jobs.wait_bound("finetune", 4)
    assert len(set(nodes["worker"])) == 3
    assert not set(nodes["master"]) & set(nodes["worker"])
    said = CliRunner().invoke(app, ["explain", "pytorchjob/finetune", "--server", controller.url]).stdout
    assert "asks for 26 h100 in 4 pods" in said
    assert len(jobs.writes("finetune", ACCOUNT)) == 1
    for name, manager in (("kueues", "Kueue"), ("volcanos", "Volcano")):
        assert f"{manager} manages it" in desk.wait_told(name, "LeftAlone")
        assert (jobs.is_suspended(name), jobs.writes(name, ACCOUNT)) == (True, [])


def test_the_next_gang_of_another_kind_waits_whole_until_the_first_has_ended(desk: Desk) -> None:
    queue, torch, tensor = desk.queue("team", 32), TrainingJobs(desk), TrainingJobs(desk, "tfjobs")
    torch.make("first", queue, MIXED)
    torch.wait_bound("first", 4)
    tensor.make("second", queue, {"Chief": (1, 8), "PS": (2, 0), "Worker": (2, 8)})
    assert "18 more free units of h100" in desk.wait_told("second", "Waiting: waits, place 1")
    assert (tensor.pods("second"), tensor.writes("second", ACCOUNT)) == ([], [])
    torch.end("first")
    nodes = tensor.wait_bound("second", 5)
    assert len({*nodes["chief"], *nodes["worker"]}) == 3
    assert len(nodes["ps"]) == 2, "those without a GPU start with the others"
    assert len(torch.writes("first", ACCOUNT)) == len(tensor.writes("second", ACCOUNT)) == 1
    wait_for(lambda: desk.status(queue).get("usedGpus") == 24, SLACK_S, "a status of 24 GPUs")


def test_a_pod_that_fails_comes_back_to_its_nodes_and_a_gang_that_is_recalled_starts_elsewhere(desk: Desk) -> None:
    root = desk.queue("all")
    owner, borrower = (desk.queue(name, gpus, own=False, parent=root) for name, gpus in (("owner", 32), ("lent", 0)))
    jobs = TrainingJobs(desk)
    jobs.make("loan", borrower, {"Master": (1, 8), "Worker": (2, 4)})
    before, first = jobs.wait_bound("loan", 3), jobs.uids("loan")
    jobs.set_phase("loan", "Failed", of="worker")
    wait_for(lambda: len(first - jobs.uids("loan")) == 2, SLACK_S, "the failed pods to go")
    assert jobs.wait_bound("loan", 3) == before
    assert len(jobs.writes("loan", ACCOUNT)) == 1
    desk.job("mine", owner, pods=4)
    desk.wait_bound("mine", 4)
    assert jobs.is_suspended("loan")
    assert f"stopped for job/{desk.namespace}/mine" in desk.wait_told("loan", "Preempted")
    assert jobs.pods("loan") == []
    desk.plane.kubectl("cordon", *before["master"])
    try:
        desk.end("mine")
        after = jobs.wait_bound("loan", 3)
    finally:
        desk.plane.kubectl("uncordon", *before["master"])
    assert not set(before["master"]) & {node for nodes in after.values() for node in nodes}
    assert len(jobs.writes("loan", ACCOUNT)) == 3
    jobs.delete("loan")
    wait_for(lambda: desk.status(root).get("usedGpus") == 0, SLACK_S, "what is deleted to hold nothing")


def test_one_that_may_have_fewer_workers_starts_with_as_many_as_fit_and_is_whole_again_once_stopped(desk: Desk) -> None:
    root = desk.queue("all")
    owner, borrower = (desk.queue(name, gpus, own=False, parent=root) for name, gpus in (("owner", 16), ("lent", 0)))
    jobs = TrainingJobs(desk)
    desk.job("one", owner)
    desk.wait_bound("one", 1)
    jobs.make("wide", borrower, {"Master": (1, 8), "Worker": (3, 8)}, annotations={"headroom.dev/min-width": "2"})
    assert {each: len(nodes) for each, nodes in jobs.wait_bound("wide", 3).items()} == {"master": 1, "worker": 2}
    assert jobs.workers("wide") == (2, '{"pods":2,"written":3}')
    desk.job("mine", owner)
    desk.wait_bound("mine", 1)
    assert (jobs.is_suspended("wide"), jobs.workers("wide")) == (True, (3, None))
    desk.end("one")
    assert {each: len(nodes) for each, nodes in jobs.wait_bound("wide", 3).items()} == {"master": 1, "worker": 2}
    assert jobs.workers("wide") == (2, '{"pods":2,"written":3}')
    assert len(jobs.writes("wide", ACCOUNT)) == 3


def test_one_that_never_said_whether_it_may_run_is_recalled_all_the_same(desk: Desk) -> None:
    root = desk.queue("all")
    owner, borrower = (desk.queue(name, gpus, own=False, parent=root) for name, gpus in (("owner", 32), ("lent", 0)))
    jobs = TrainingJobs(desk)
    jobs.make("bare", borrower, {"Worker": (2, 8)}, policy={})
    jobs.wait_bound("bare", 2)
    wait_for(lambda: desk.status(borrower).get("usedGpus") == 16, SLACK_S, "what runs to be counted")
    desk.job("mine", owner, pods=4)
    desk.wait_bound("mine", 4)
    assert jobs.is_suspended("bare")
    assert len(jobs.writes("bare", ACCOUNT)) == 1


def test_one_that_is_edited_or_deleted_while_it_waits_holds_nobody_up(desk: Desk) -> None:
    queue, jobs = desk.queue("team", 32), TrainingJobs(desk)
    desk.job("before", queue, pods=4)
    desk.wait_bound("before", 4)
    jobs.make("gone", queue, MIXED)
    jobs.make("edited", queue, MIXED)
    desk.wait_told("gone", "Waiting: waits, place 1")
    assert "26 more free units" in desk.wait_told("edited", "Waiting: waits, place 2")
    jobs.delete("gone")
    jobs.edit("edited", {"spec": {jobs.replicas_at: {"Worker": {"replicas": 1}}}})
    desk.end("before")
    assert {each: len(nodes) for each, nodes in jobs.wait_bound("edited", 2).items()} == {"master": 1, "worker": 1}
    jobs.edit("edited", {"metadata": {"labels": {"headroom.dev/queue": None}}})
    wait_for(lambda: desk.status(queue).get("usedGpus") == 0, SLACK_S, "one without a queue to be nobody's gang")
    assert len(jobs.pods("edited")) == 2, "it goes on"
