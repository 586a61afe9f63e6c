"""JobSets in queues on a real control plane: sets of different shapes start together where they were proven to fit.

JobSet's controller with its webhooks, the Job controller, the scheduler and the policy that holds pods to nodes are the
real ones; nodes are KWOK's. Four nodes of eight GPUs each.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.batch_work import SETTINGS, SLACK_S, Desk, priority_class
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.jobsets import JobSets, Sets
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("jobset"), pytest.mark.timeout(240)]

WHOLE: Final = {"small": (2, 2, 4), "large": (2, 1, 8)}
"""Four pods of four GPUs and two of eight: four whole nodes, and only if no small pod comes between the large ones."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane(tmp_path_factory.mktemp("jobsets"), manager_flags=["--controllers", "job"]) as made:
        install(made)
        for folder in ("batch", "jobsets"):
            apply_file(made, CONFIG / "rbac" / folder)
        made.kubectl("delete", "mutatingadmissionpolicybinding", "headroom-places")
        made.apply(priority_class("batch", -20))
        yield made


@pytest.fixture(scope="module")
def controller(plane: Plane) -> Iterator[Controller]:
    """Begun before the cluster knows JobSets."""
    with Controller(plane, **SETTINGS) as made:
        made.wait_leading()
        yield made


@pytest.fixture(scope="module")
def jobsets(plane: Plane, controller: Controller) -> Iterator[JobSets]:
    with JobSets(plane) as made:
        yield made


@pytest.fixture
def desk(plane: Plane, controller: Controller) -> Iterator[Desk]:
    with Desk.open(plane, controller) as made:
        yield made
        plane.kubectl("delete", "jobsets", "--all", "-n", made.namespace, "--wait=false", check=False)


def test_a_kind_that_comes_later_is_followed_and_starts_once_a_policy_holds_its_pods(
    desk: Desk, controller: Controller, jobsets: JobSets
) -> None:
    queue, sets = desk.queue("team", 32), Sets(desk)
    sets.make("train", queue, {"large": (1, 1, 8)})
    words = desk.wait_told("train", "Refused")
    assert "no MutatingAdmissionPolicy headroom-places is bound" in words
    assert sets.is_suspended("train")
    apply_file(desk.plane, CONFIG / "rbac" / "jobsets")
    assert len(sets.wait_bound("train", 1)["large"]) == 1


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
