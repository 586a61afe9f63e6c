"""TrainJobs in queues on a real control plane: as large as their runtime says, started whole, stopped whole.

Kubeflow's Trainer and JobSet's controller with their webhooks, the Job controller, the scheduler and the policy that
holds pods to nodes are the real ones; nodes are KWOK's. Four nodes of eight GPUs each.
"""

import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from tests.chart.rendering import objects
from tests.cluster.batch_work import SLACK_S, Desk
from tests.cluster.conftest import CONFIG
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.gangs import fixtures
from tests.cluster.jobsets import JobSets
from tests.cluster.processes import wait_for
from tests.cluster.trainer import Trainer, TrainJobs

pytestmark = [pytest.mark.real, pytest.mark.needs("jobset", "trainer"), pytest.mark.timeout(360)]


plane, within_rights, controller, operator, desk = fixtures(
    ("train-jobs", "jobsets", "batch"), [JobSets, Trainer], "trainjobs,jobsets"
)


def is_one_start(jobs: TrainJobs, name: str) -> bool:
    """Whether the patches are those of one start: where its pods go, then that it may run.

    One that is refused since the trainer wrote a status has both asked for anew: where it was the second, the first one
    was written already and counts as one more.
    """
    return 2 <= len(jobs.writes(name, ACCOUNT)) <= 2 + len(jobs.writes(name, ACCOUNT, code=422))


def test_the_sample_starts_whole_and_what_kueue_manages_is_left_alone(desk: Desk, controller: Controller) -> None:
    queue, jobs = desk.queue("team", 32), TrainJobs(desk)
    for sample in objects((CONFIG / "samples" / "batch-trainjob.yaml").read_text()):
        sample["metadata"] |= {"namespace": desk.namespace}
        if sample["kind"] == "TrainJob":
            sample["metadata"]["labels"] = {"headroom.dev/queue": queue}
        desk.plane.apply(sample)
    jobs.make("kueues", queue, "torch", labels={"kueue.x-k8s.io/queue-name": "other"})
    assert len(set(jobs.wait_bound("tune", 3)["node"])) == 3
    said = CliRunner().invoke(app, ["explain", "trainjob/tune", "--server", controller.url]).stdout
    assert "asks for 24 h100 in 3 pods" in said
    assert is_one_start(jobs, "tune")
    assert desk.plane.audited(verb="patch", resource="jobsets", user=ACCOUNT) == []
    assert "Kueue manages it" in desk.wait_told("kueues", "LeftAlone")
    assert (jobs.is_suspended("kueues"), jobs.writes("kueues", ACCOUNT)) == (True, [])
    wait_for(lambda: desk.status(queue).get("usedGpus") == 24, SLACK_S, "a status of 24 GPUs: no JobSet is a gang")


def test_one_whose_runtime_is_changed_is_sized_anew_and_the_next_waits_whole(desk: Desk) -> None:
    queue, jobs = desk.queue("team", 32), TrainJobs(desk)
    jobs.runtime("pair", 2, 8, beside={"driver": (1, 4)})
    desk.job("before", queue, pods=4)
    desk.wait_bound("before", 4)
    jobs.make("first", queue, "pair")
    assert "20 more free units of h100" in desk.wait_told("first", "Waiting: waits, place 1")
    assert (jobs.pods("first"), jobs.writes("first", ACCOUNT)) == ([], [])
    desk.end("before")
    nodes = jobs.wait_bound("first", 3)
    assert not set(nodes["node"]) & set(nodes["driver"])
    jobs.make("second", queue, "pair", nodes=1, gpus=4)
    assert set(jobs.wait_bound("second", 2)) == {"node", "driver"}
    jobs.end("first")
    wait_for(lambda: desk.status(queue).get("usedGpus") == 8, SLACK_S, "what ended to hold nothing")


def test_one_that_fails_is_held_to_its_nodes_and_one_that_is_recalled_starts_elsewhere(desk: Desk) -> None:
    root = desk.queue("all")
    owner, borrower = (desk.queue(name, gpus, own=False, parent=root) for name, gpus in (("owner", 32), ("lent", 0)))
    jobs = TrainJobs(desk)
    jobs.runtime("pair", 2, 8)
    jobs.make("loan", borrower, "pair")
    before = jobs.wait_bound("loan", 2)
    desk.job("mine", owner, pods=4)
    desk.wait_bound("mine", 4)
    assert jobs.is_suspended("loan")
    assert f"stopped for job/{desk.namespace}/mine" in desk.wait_told("loan", "Preempted")
    assert jobs.pods("loan") == []
    desk.plane.kubectl("cordon", before["node"][0])
    try:
        desk.end("mine")
        after = jobs.wait_bound("loan", 2)
    finally:
        desk.plane.kubectl("uncordon", before["node"][0])
    assert before["node"][0] not in after["node"]
    jobs.delete("loan")
    wait_for(lambda: desk.status(root).get("usedGpus") == 0, SLACK_S, "what is deleted to hold nothing")


def test_after_a_restart_nobody_is_let_in_twice(desk: Desk, controller: Controller) -> None:
    queue, jobs = desk.queue("team", 32), TrainJobs(desk)
    jobs.runtime("pair", 2, 8)
    jobs.make("runs", queue, "pair")
    jobs.wait_bound("runs", 2)
    assert is_one_start(jobs, "runs")
    before = jobs.writes("runs", ACCOUNT)
    controller.kill()
    jobs.make("meanwhile", queue, "pair", nodes=1)
    controller.start()
    controller.wait_leading(SLACK_S)
    jobs.wait_bound("meanwhile", 1)
    assert jobs.writes("runs", ACCOUNT) == before
    wait_for(lambda: desk.status(queue).get("usedGpus") == 24, SLACK_S, "a status of both")
