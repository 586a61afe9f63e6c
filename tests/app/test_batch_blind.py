"""Spells in which nothing can be read: nobody is stopped, given up or refused for what was not seen meanwhile."""

import pytest

from autoscaler.app.batch import EVERY_S, TELL_S
from autoscaler.app.batch_patience import START_MOST_S, START_WITHIN_S
from autoscaler.app.batch_rests import RETRY_S
from autoscaler.app.loan_desk import LoanDesk, Offer, Terms
from autoscaler.core.pool.loans import Lending
from tests.app.batch_plant import BatchPlant
from tests.app.test_batch_acting import Scene, preempting, refusing

pytestmark = pytest.mark.looptime


async def blind(scene: Scene, looks: int) -> None:
    """The API server does not answer for so many looks, and does when this returns."""
    scene.cluster.problems = lambda: ("GET /api/v1/pods: no answer",)  # type: ignore[method-assign]
    for _ in range(looks):
        await scene.look(EVERY_S)
    scene.cluster.problems = lambda: ()  # type: ignore[method-assign]


async def settling() -> Scene:
    """Two gangs of two pods were let in; of the first one a pod is bound."""
    scene = Scene(4)
    for name in ("half", "none"):
        scene.plant.job(name, pods=2)
    await scene.look()
    assert scene.jobs() == ["start half", "start none"]
    scene.plant.pod("half-0", scene.plant.work("half").put[0].node, job="half")
    await scene.look(2.0)
    return scene


async def test_gangs_whose_pods_nobody_could_make_or_see_have_as_long_again_and_no_longer() -> None:
    """The Job controller and the scheduler are cut off as we are: the API server is upgraded for 40 s."""
    scene = await settling()
    await blind(scene, 8)
    await scene.look(EVERY_S)
    await scene.look(START_WITHIN_S - 1.0)
    assert scene.jobs() == ["start half", "start none"]
    await scene.look(1.0)
    assert scene.jobs() == ["start half", "start none", "stop half", "stop none"]


async def test_a_server_that_goes_and_comes_keeps_no_gang_beyond_the_longest_time_of_what_is_seen() -> None:
    """Two seconds are seen at first, and then five of each twenty."""
    scene = await settling()
    for at in range(int(START_MOST_S / EVERY_S) - 1):
        await blind(scene, 3)
        await scene.look(EVERY_S)
        assert scene.jobs() == ["start half", "start none"], at
    await blind(scene, 3)
    await scene.look(EVERY_S)
    assert scene.jobs() == ["start half", "start none", "stop half", "stop none"]


async def test_one_long_spell_stops_no_gang_that_had_just_begun_to_look_for_its_places() -> None:
    scene = await settling()
    await blind(scene, int(2 * START_MOST_S / EVERY_S))
    await scene.look(EVERY_S)
    assert scene.jobs() == ["start half", "start none"]
    put = scene.plant.work("half").put
    scene.plant.pod("half-1", next(each.node for each in put if each.node != put[0].node), job="half")
    scene.bind("none")
    await scene.look(START_WITHIN_S)
    assert scene.jobs() == ["start half", "start none"]


@pytest.mark.parametrize("bound", [True, False], ids=["its pods were bound meanwhile", "its pods never came"])
async def test_where_the_watch_of_pods_is_silent_they_are_listed_once_before_a_gang_is_stopped_for_want_of_them(
    bound: bool,
) -> None:
    scene = Scene(2)
    scene.plant.job("train", pods=2)
    await scene.look()
    await scene.look(2.0)
    pods = scene.cluster._pods
    scene.plant.hears = False
    await scene.look(START_WITHIN_S)
    assert (scene.jobs(), pods._wanted.is_set()) == (["start train"], True)
    pods._wanted.clear()
    await scene.look(EVERY_S)
    assert (scene.jobs(), pods._wanted.is_set()) == (["start train"], False), "a list that is on its way is waited for"
    if bound:
        scene.bind("train")
    pods.lists += 1
    pods._settle()
    await scene.look(EVERY_S)
    assert scene.jobs() == ["start train"] + ([] if bound else ["stop train"])


async def test_nobody_else_has_to_leave_because_nobody_could_see_that_the_first_one_was_leaving() -> None:
    scene = Scene(2)
    await preempting(scene)
    for _ in range(3):
        await scene.look(TELL_S)
    wrote = ["start low-a", "start low-b", "stop low-a"]
    assert scene.jobs() == wrote
    await blind(scene, 30)
    await scene.look(TELL_S)
    assert scene.jobs() == wrote, "its pod ends as soon as its node hears of it"
    await scene.look(120.0)
    assert scene.jobs() == [*wrote, "stop low-b"], "in plain sight it is given up after two minutes"


async def test_a_start_that_met_another_version_waits_until_that_version_could_be_seen() -> None:
    scene = Scene(1)
    scene.plant.job("train")
    tried = refusing(scene, "start", status=422)
    await scene.look()
    await blind(scene, 4)
    await scene.look(RETRY_S / 2)
    assert (tried, scene.batch._acts.failures) == (["start train"], 0)
    scene.server.hear = lambda _: None
    scene.plant.edit("train", backoffLimit=1)
    await scene.look(0.5)
    assert scene.jobs() == ["start train"]


async def lent() -> tuple[Scene, LoanDesk]:
    """A gang of one pod runs on the slot that the pool `chat` lends; a gang of the queue's own runs beside it."""
    desk = LoanDesk(is_open=True)
    plant = BatchPlant({"w0": 8, "w1": 8}, guaranteed=16, desk=desk, slot_class="slot")
    plant.classes(slot=-10, batch=-5)
    scene = Scene(2, plant=plant)
    plant.job("own")
    await scene.look()
    scene.bind("own")
    (own,) = plant.work("own").put
    (node,) = {"w0", "w1"} - {own.node}
    slot = {"app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat"}
    plant.pod("slot", node, namespace="slots", labels=slot)
    says(desk, Lending(((node, 8),), 3600.0), node)
    desk.looked_at_all()
    plant.job("train", annotations={"headroom.dev/checkpoint-notice": "20s"})
    await scene.look(1.0)
    assert scene.jobs() == ["start own", "start train"]
    plant.gone("slot", namespace="slots")
    scene.bind("train")
    await scene.look(1.0)
    assert "headroom.dev/loan" in plant.work("train").annotations
    return scene, desk


def says(desk: LoanDesk, lending: Lending, node: str) -> None:
    """The pool is looked at."""
    desk.looked("chat", Offer(Terms("nvidia.com/gpu", 8, 60.0), frozenset((node,)), lending, desk.lent_version))


async def test_a_recall_is_carried_out_while_batch_work_cannot_be_read_and_nothing_else_is() -> None:
    """That serving wants its GPUs back is the pool's knowledge; whom it lent to was known when all was read last."""
    scene, desk = await lent()
    scene.plant.job("next")
    says(desk, Lending(recall=1), scene.plant.work("train").put[0].node)
    await blind(scene, 3)
    assert scene.jobs() == ["start own", "start train", "stop train"], "once, and only the gang on loan"
    assert "headroom.dev/loan" not in scene.plant.on_server("train").annotations
    assert "headroom.dev/placement" in scene.plant.on_server("train").annotations


async def test_a_gang_that_changed_unseen_is_not_stopped_blindly_and_a_freeze_stops_recalls_as_well() -> None:
    scene, desk = await lent()
    says(desk, Lending(recall=1), scene.plant.work("train").put[0].node)
    scene.frozen = "change of racks"
    await blind(scene, 1)
    scene.frozen = None
    tried = refusing(scene, "stop", status=409)
    await blind(scene, 1)
    assert tried == ["stop train"], "the patch is for the version that was seen"
    assert scene.jobs() == ["start own", "start train"]


async def test_a_recall_that_the_server_could_not_take_is_asked_for_again_in_the_same_spell() -> None:
    scene, desk = await lent()
    says(desk, Lending(recall=1), scene.plant.work("train").put[0].node)
    tried = refusing(scene, "stop", status=503)
    await blind(scene, 4)
    assert len(tried) >= 2, "each 5 s, as in plain sight"
    scene.server.hear = lambda _: None
    await blind(scene, 2)
    assert scene.jobs() == ["start own", "start train", "stop train"]


async def test_a_fault_of_ours_in_a_recall_while_blind_has_the_books_written_anew() -> None:
    scene, desk = await lent()
    says(desk, Lending(recall=1), scene.plant.work("train").put[0].node)
    books = scene.batch._books
    assert books is not None

    def broken(now_s: float) -> None:
        raise RuntimeError("half done")

    books.call_back = broken  # type: ignore[method-assign]
    await blind(scene, 1)
    assert scene.batch._books is None
    await scene.look(1.0)
    assert scene.jobs() == ["start own", "start train", "stop train"], "by books that are whole"


async def test_how_long_ago_it_was_said_who_wants_nodes_grows_while_that_cannot_be_read_and_is_nothing_after() -> None:
    scene, desk = await lent()
    assert desk.asks_age_s(scene.clock.now()) == pytest.approx(0.0, abs=0.1)
    assert desk.asks_of("chat") == ()
    await blind(scene, 24)
    assert desk.asks_age_s(scene.clock.now()) == pytest.approx(24 * EVERY_S, abs=1.0)
    await scene.look(EVERY_S)
    assert desk.asks_age_s(scene.clock.now()) == pytest.approx(0.0, abs=0.1)
