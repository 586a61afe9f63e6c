"""An idle warm slot is lent to a gang and taken back for a burst of inference, on a real control plane."""

import json
from collections.abc import Iterator
from typing import Final

import pytest

from tests.cluster.batch_work import Desk
from tests.cluster.controller import Controller
from tests.cluster.loan_scene import SLACK_S, Scene, lending_controller, lending_plane
from tests.cluster.plane import Plane

GANGS: Final = ("train", "tune")
pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with lending_plane(tmp_path_factory.mktemp("loans")) as made:
        yield made


@pytest.fixture(scope="module")
def controller(plane: Plane) -> Iterator[Controller]:
    with lending_controller(plane) as made:
        yield made


@pytest.fixture(scope="module")
def scene(plane: Plane, controller: Controller) -> Iterator[Scene]:
    with Desk.open(plane, controller) as desk:
        yield Scene(desk, controller)


def test_a_burst_recalls_loans_the_gangs_checkpoint_the_burst_is_served_and_a_gang_goes_on(scene: Scene) -> None:
    desk = scene.desk
    for name in GANGS:
        scene.train(name)
    scene.wait_lent(*GANGS)
    note = json.loads(desk.read("train")["metadata"]["annotations"]["headroom.dev/loan"])
    assert (note["lenders"], note["units"], note["reclaimS"]) == (["WarmPool/chat"], 8, 60)
    (told,) = [each for each in scene.gangs() if each["gang"].endswith("/train")]
    assert "8 of its units lent by WarmPool chat" in told["text"]
    assert (scene.slots(), scene.warm()) == (2, 2), "no slot is ordered for those that are lent"
    gangs = [(f"job/{desk.namespace}/{name}", 8) for name in GANGS]
    scene.wait(lambda: [(each["gang"], each["units"]) for each in scene.loans()] == gangs, "the pool's status")
    lent_nodes = set(desk.nodes("train"))

    scene.checkpoint("train")  # it has less to lose than the other one from then on
    scene.scale(2)
    scene.wait(lambda: scene.running() == 2, "the burst's first replicas on the slots that are not lent")
    scene.wait(lambda: desk.is_suspended("train"), "the loan to be called back")
    said = desk.wait_told("train", "Preempted", SLACK_S)
    assert "stopped for WarmPool chat: serving takes its GPUs back" in said
    assert not desk.is_suspended("tune"), "one slot is kept, and one gang is enough"
    assert "headroom.dev/loan" not in desk.read("train")["metadata"]["annotations"]
    scene.checkpoint("train")
    scene.wait(lambda: scene.warm() == 1, "the slot to be back where the gang was")

    scene.scale(3)
    scene.wait(lambda: scene.running() == 3, "the burst's third replica on the slot that came back")
    assert lent_nodes < set(scene.served_on())
    scene.wait(lambda: desk.is_suspended("tune"), "the other loan to be called back")
    scene.wait(lambda: scene.warm() == 1, "the slot that is never lent to be back")
    assert [desk.nodes(name) for name in GANGS] == [{}, {}]
    scene.wait(lambda: {"LoanMade", "LoanRecalled", "LoanReturned"} <= scene.pool_events().keys(), "the pool's events")
    assert "demand may need" in scene.pool_events()["LoanRecalled"]
    assert "8 units are back from job/" in scene.pool_events()["LoanReturned"]
    scene.wait(lambda: scene.loans() == [], "no loan in the pool's status")

    scene.scale(0)
    scene.wait_lent("train")
    assert not desk.is_suspended("train")
    assert desk.is_suspended("tune"), "as much as the burst took is kept from now on"


def test_a_restart_knows_a_loan_by_its_object_and_calls_it_back(scene: Scene) -> None:
    scene.wait_lent("train")
    before = scene.loans()
    scene.controller.kill()
    scene.controller.start()
    scene.controller.wait_leading(SLACK_S)
    scene.wait(lambda: scene.owners().get("loan") == 8, "the loan to be known")
    assert scene.slots() == 3, "no slot was ordered in its place"
    assert scene.loans() == before
    scene.scale(3)
    scene.wait(lambda: scene.desk.is_suspended("train"), "the loan to be called back")
    scene.wait(lambda: scene.warm() == 1, "the slot to be back")
