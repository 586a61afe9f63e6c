"""Objects that cannot be read: what is not known of them frees nothing, and is told."""

import pytest

from autoscaler.adapters.kube.informer import Informer
from autoscaler.adapters.kube.wire import Unread
from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime

WHY = "Expected `object`, got `str` - at `$.spec.containers[0].resources`"


def plant_of(**nodes: int) -> BatchPlant:
    """A cluster without Kueue, all of which was read."""
    plant = BatchPlant(nodes)
    for each in vars(plant.cluster).values():
        for informer in each.values() if isinstance(each, dict) else (each,):
            if isinstance(informer, Informer):
                informer._settle()
    for kueue in plant.cluster._kueue.values():
        kueue.absent = True
    assert plant.cluster.problems() == ()
    return plant


def odd(key: str) -> Unread:
    return Unread(key, "", "7", WHY)


async def test_a_pod_that_was_never_read_may_be_anywhere_so_that_nobody_is_let_in_and_it_is_named() -> None:
    plant = plant_of(n0=8, n1=8)
    plant.cluster._pods._cache.mark(odd("ns/odd"))
    (problem,) = plant.cluster.problems()
    assert "ns/odd" in problem
    assert WHY in problem
    plant.cluster._pods._cache.drop("ns/odd")
    assert plant.cluster.problems() == ()


@pytest.mark.parametrize(("node", "problems"), [("n0", 0), ("", 1)], ids=["bound", "not bound"])
async def test_a_pod_whose_newest_version_cannot_be_read_holds_what_it_held_where_it_was(
    node: str, problems: int
) -> None:
    plant = plant_of(n0=8, n1=8)
    plant.pod("odd", node, phase="Running")
    plant.cluster._pods._cache.mark(odd("ns/odd"))
    plant.look()
    assert len(plant.cluster.problems()) == problems
    assert plant.free() == ({"n0": 0, "n1": 8} if node else {"n0": 8, "n1": 8})


async def test_many_pods_that_cannot_be_read_are_one_sentence() -> None:
    plant = plant_of(n0=8)
    for at in range(300):
        plant.cluster._pods._cache.mark(odd(f"ns/odd-{at:03}"))
    (problem,) = plant.cluster.problems()
    assert "ns/odd-000" in problem
    assert problem.endswith("and 299 more")


async def test_a_node_whose_newest_version_cannot_be_read_keeps_who_is_there_and_takes_nobody() -> None:
    plant = plant_of(n0=8, n1=8)
    plant.job("train", gpus=4)
    plant.look()
    plant.start()
    where = plant.work("train").put[0].node
    plant.pod("train-0", where, gpus=4, job="train")
    plant.look()
    plant.cluster._nodes._cache.mark(odd(where))
    plant.job("next", gpus=4)
    plant.look()
    assert plant.stop() == []
    assert [put.node for put in plant.books.plans["job/ns/next"]] == ["n1" if where == "n0" else "n0"]
    plant.node(where, 8)
    plant.look()
    assert plant.free()[where] == 4


async def test_a_job_that_cannot_be_read_is_told_and_stops_no_other() -> None:
    plant = plant_of(n0=8)
    plant.cluster._kinds["Job"]._cache.mark(odd("ns/odd"))
    plant.job("plain")
    plant.look()
    assert (plant.due(), plant.cluster.problems()) == (["plain"], ())
    (told,) = [each for each in plant.cluster.unread() if "ns/odd" in each]
    assert WHY in told


async def test_a_node_that_cannot_be_read_is_told() -> None:
    plant = plant_of(n0=8)
    assert plant.cluster.unread() == ()
    plant.cluster._nodes._cache.mark(odd("n0"))
    assert [("n0 cannot be read" in each) for each in plant.cluster.unread()] == [True]
    assert plant.cluster.problems() == ()
