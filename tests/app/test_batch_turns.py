"""Thousands of gangs that are read anew at once: in many turns of the event loop, and what happens in between."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_objects import PriorityClass
from autoscaler.app.batch import EVERY_S, IN_A_TURN, TELL_S
from autoscaler.app.batch_books import Books
from autoscaler.core.pool.loans import Lending
from autoscaler.core.pool.world import LentSeen
from autoscaler.ports import Clock
from autoscaler.record.batch import GangState
from autoscaler.runtime.clock import breathe
from tests.app.test_batch_acting import QUEUE, Scene, preempting
from tests.app.test_batch_loans import Pool

pytestmark = pytest.mark.looptime

FEW = 5
"""Gangs of a turn where what happens in between does not depend on how many there are."""


class Turns:
    """Counts the gangs that are read in each turn of the event loop; `then` is done after the first of several."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] = lambda: None, in_a_turn: int = IN_A_TURN
    ) -> None:
        self.read = [0]
        self._then = [then]
        of = Books._sync

        def counted(books: Books, name: str, now_s: float) -> None:
            self.read[-1] += 1
            of(books, name, now_s)

        monkeypatch.setattr(Books, "_sync", counted)
        monkeypatch.setattr("autoscaler.app.batch.breathe", self._breathe)
        monkeypatch.setattr("autoscaler.app.batch.IN_A_TURN", in_a_turn)

    async def _breathe(self, clock: Clock) -> None:
        await breathe(clock)
        self.read.append(0)
        while self._then:
            self._then.pop()()


def edit_queue(scene: Scene, **spec: Any) -> None:
    """Somebody edits the queue."""
    queue, version = scene.cluster.queues["team"], scene.cluster.queues_version
    changed, meta = msgspec.Raw(msgspec.json.encode(QUEUE | spec)), Meta("team", generation=version + 1)
    scene.cluster._queues._cache.put(msgspec.structs.replace(queue, metadata=meta, spec=changed))
    assert scene.cluster.queues_version == version + 1


async def test_thousands_of_gangs_are_read_anew_in_many_turns_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(1)
    for at in range(3 * IN_A_TURN):
        scene.plant.job(f"one-{at}")
    turns = Turns(monkeypatch)
    await scene.look()
    assert (turns.read, scene.jobs()) == ([IN_A_TURN] * 3, ["start one-0"]), "a start"
    turns.read[:] = [0]
    edit_queue(scene, weight=2.0)
    await scene.look(1.0)
    assert max(turns.read) <= IN_A_TURN + 1, "a queue was edited"
    turns.read[:] = [0]
    scene.plant.classes(batch=-21)
    await scene.look(1.0)
    assert max(turns.read) <= IN_A_TURN + 1, "a PriorityClass changed"


async def test_a_gang_that_ends_while_others_are_read_anew_leaves_its_gpus_and_drives_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pod is there still, and would be a stranger's on a node that is full; one that is made by then is known."""
    scene = Scene(1)
    scene.plant.job("half", gpus=4)
    scene.plant.job("other", gpus=4)
    await scene.look()
    for name in ("half", "other"):
        (put,) = scene.plant.work(name).put
        scene.plant.pod(f"{name}-0", put.node, 4, job=name)
    await scene.look(1.0)
    for at in range(3 * IN_A_TURN):
        scene.plant.job(f"one-{at}", gpus=4)

    def change() -> None:
        scene.plant.delete("half")
        scene.plant.delete("one-7")
        scene.plant.job("new", gpus=4)

    turns = Turns(monkeypatch, change)
    edit_queue(scene, weight=2.0)
    await scene.look(1.0)
    assert len(turns.read) > 3
    books = scene.batch._books
    assert books is not None
    assert scene.jobs() == ["start half", "start other"], "nobody is stopped, and nothing is free yet"
    assert list(books.room.runs.all) == ["job/ns/other"]
    assert "job/ns/new" in books.room.backlog.waiting
    assert "job/ns/one-7" not in books.room.backlog.waiting
    assert books.room.contradictions() == []


async def test_a_node_that_comes_while_gangs_are_read_anew_is_one_that_they_may_go_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(1)
    scene.plant.job("picky")
    scene.plant.edit(
        "picky", template={"spec": scene.plant.template("picky")["spec"] | {"nodeSelector": {"rack": "r1"}}}
    )
    for at in range(2 * IN_A_TURN):
        scene.plant.job(f"one-{at}")
    await scene.look()
    scene.bind("one-0")
    assert scene.batch.find("Job", "ns", "picky")[0].reason == "UNKNOWN_SHAPE"

    def change() -> None:
        scene.plant.node("n0", 8, rack="r1")
        scene.plant.node("n1", 8, rack="r1")

    Turns(monkeypatch, change)
    edit_queue(scene, weight=2.0)
    await scene.look(1.0)
    assert scene.batch.find("Job", "ns", "picky")[0].reason != "UNKNOWN_SHAPE"


async def test_who_names_another_priority_class_is_not_read_anew_and_no_place_is_given_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor is one where a queue is edited by which nobody else may use it."""
    scene = Scene(1)
    scene.plant.classes(other=-30)
    for name in ("batch", "other", "late", ""):
        scene.plant.job(f"of-{name}", gpus=16, priority_class=name)
    await scene.look()
    turns, given = Turns(monkeypatch), list[str]()
    taken = scene.cluster.taken
    monkeypatch.setattr(taken, "renew", lambda: given.append("again"))

    async def read(change: Callable[[], None]) -> tuple[int, int]:
        turns.read[:], given[:] = [0], []
        change()
        await scene.look(1.0)
        return turns.read[0], len(given)

    assert scene.batch.find("Job", "ns", "of-late")[0].reason == "UNKNOWN_CLASS"
    assert await read(lambda: scene.plant.classes(nobodys=-40)) == (0, 0)
    assert await read(lambda: scene.plant.classes(late=-40)) == (1, 1)
    assert scene.batch.find("Job", "ns", "of-late")[0].reason == "TOO_LARGE"
    usual = PriorityClass(Meta("usual"), -50, global_default=True)
    assert await read(lambda: scene.cluster._classes._cache.put(usual)) == (1, 1), "who names none is of it"
    assert scene.batch._books is not None
    assert scene.batch._books.room.backlog.waiting["job/ns/of-"].gang.priority == -50
    assert await read(lambda: edit_queue(scene, weight=2.0)) == (4, 0)
    assert await read(lambda: edit_queue(scene, namespaces=["ns", "more"])) == (4, 1)


async def test_a_gang_that_is_left_alone_for_a_while_is_left_alone_though_a_queue_is_edited() -> None:
    """No pod of it was bound in time: it was stopped, and waits for a minute."""
    scene = Scene(1)
    scene.plant.job("unbound")
    await scene.look()
    for _ in range(7):
        await scene.look(5.0)
    assert scene.jobs() == ["start unbound", "stop unbound"]
    edit_queue(scene, weight=2.0)
    for _ in range(10):
        await scene.look(5.0)
        assert len(scene.jobs()) == 2
        (told,) = scene.batch.find("Job", "ns", "unbound")
        assert "it was stopped whole" in told.remarks[-1]
    for _ in range(3):
        await scene.look(5.0)
    assert scene.jobs()[2:] == ["start unbound"]


async def test_a_gang_that_does_not_leave_is_given_up_as_soon_though_queues_are_edited_meanwhile() -> None:
    """Its pod hangs on a node that is cut off; somebody edits a queue every minute."""
    scene = Scene(2)
    await preempting(scene)
    for _ in range(3):
        await scene.look(TELL_S)
    assert scene.jobs()[2:] == ["stop low-a"]
    for at in range(26):
        if at % 12 == 11:
            edit_queue(scene, weight=float(2 + at))
        await scene.look(EVERY_S)
    assert scene.jobs()[2:] == ["stop low-a", "stop low-b"], "two minutes after it was told, as without the edits"
    assert scene.batch.find("Job", "ns", "low-a")[0].state is GangState.LEAVING


async def test_a_gang_that_left_and_leaves_again_has_its_time_anew() -> None:
    """Since when it left when a queue was edited is of that time only."""
    scene = Scene(2)
    await preempting(scene)
    for _ in range(3):
        await scene.look(TELL_S)
    edit_queue(scene, weight=2.0)
    await scene.look(TELL_S)
    scene.plant.gone("low-a-0")
    await scene.look(TELL_S)
    scene.plant.end("urgent")
    await scene.look(TELL_S)
    assert scene.jobs()[3:] == ["start urgent", "start low-a"]
    scene.bind("low-a")
    for _ in range(60):
        await scene.look(EVERY_S)
    scene.plant.edit("low-a", suspend=True)
    await scene.look(TELL_S)
    (told,) = scene.batch.find("Job", "ns", "low-a")
    assert (told.state, told.reason) == (GangState.LEAVING, "LEAVING")


async def test_a_gang_that_loses_its_node_while_others_are_read_anew_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(2)
    scene.plant.job("wide", pods=2)
    await scene.look()
    scene.bind("wide")
    for at in range(2 * FEW):
        scene.plant.job(f"one-{at}")
    await scene.look(1.0)
    Turns(monkeypatch, lambda: scene.plant.lose("n0"), FEW)
    edit_queue(scene, weight=2.0)
    await scene.look(1.0)
    assert scene.jobs() == ["start wide", "stop wide"]
    assert scene.batch._counts.evicted == (("LOST", 1),)


async def test_nobody_is_let_in_by_what_has_become_unreadable_while_gangs_were_read_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(1)
    for at in range(2 * FEW):
        scene.plant.job(f"one-{at}")

    def change() -> None:
        scene.cluster.problems = lambda: ("GET /api/v1/nodes: no answer",)  # type: ignore[method-assign]

    Turns(monkeypatch, change, FEW)
    await scene.look()
    assert scene.jobs() == []
    scene.cluster.problems = lambda: ()  # type: ignore[method-assign]
    await scene.look(1.0)
    assert scene.jobs() == ["start one-0"]


async def test_gangs_that_may_go_nowhere_are_read_anew_for_a_node_only_where_it_is_one_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands of them would be read within one turn of the event loop, for each node that comes or goes."""
    scene = Scene(1)
    for at in range(2 * FEW):
        scene.plant.job(f"one-{at}")
    for at in range(3):
        scene.plant.job(f"picky-{at}")
        template = scene.plant.template(f"picky-{at}")["spec"]
        scene.plant.edit(f"picky-{at}", template={"spec": template | {"nodeSelector": {"rack": "r1"}}})
    scene.plant.job("no-class", priority_class="none")
    scene.plant.job("no-queue", queue="none")
    await scene.look()
    assert scene.batch.find("Job", "ns", "picky-0")[0].reason == "UNKNOWN_SHAPE"
    turns = Turns(monkeypatch)
    scene.plant.node("n1", 8, rack="r2")
    await scene.look(1.0)
    assert turns.read == [1], "the one that was started before"
    words = set[str]()
    for name, rack, read in (("n2", "r1", 4), ("n3", "r2", 1), ("n4", "r1", 1)):
        turns.read[:] = [0]
        scene.plant.node(name, 8, rack=rack)
        await scene.look(1.0)
        (told,) = scene.batch.find("Job", "ns", "picky-0")
        assert told.reason == "NARROWED", name
        words.add(told.detail)
        assert turns.read == [read], name
    assert len(words) == 1, "each other sentence is another event of each of them"
    for name in ("n0", "n1", "n3"):
        scene.plant.lose(name)
    await scene.look(1.0)
    assert scene.batch.find("Job", "ns", "picky-0")[0].reason != "NARROWED", "all that are left are for them"


async def test_a_gang_that_runs_and_is_gone_before_it_is_read_anew_runs_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(1)
    for at in range(2 * FEW):
        scene.plant.job(f"one-{at}", gpus=16)
    scene.plant.job("last")
    scene.plant.job("unfit", priority_class="none")
    scene.plant.edit("unfit", suspend=False)
    await scene.look()
    scene.bind("last")
    await scene.look(1.0)
    assert scene.jobs() == ["start last"]

    def change() -> None:
        scene.plant.delete("last")
        scene.plant.gone("last-0")
        scene.plant.delete("unfit")

    Turns(monkeypatch, change, FEW)
    edit_queue(scene, weight=2.0)
    await scene.look(1.0)
    books = scene.batch._books
    assert books is not None
    assert dict(books.room.runs.all) == {}
    assert {"job/ns/last", "job/ns/unfit"}.isdisjoint({*books.room.backlog.waiting, *books.unfit})


async def test_a_gang_that_is_left_alone_and_gone_before_it_is_read_anew_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(1)
    for at in range(2 * FEW):
        scene.plant.job(f"one-{at}", gpus=16)
    scene.plant.job("unbound")
    await scene.look()
    for _ in range(7):
        await scene.look(5.0)
    assert scene.jobs() == ["start unbound", "stop unbound"]
    Turns(monkeypatch, lambda: scene.plant.delete("unbound"), FEW)
    edit_queue(scene, weight=2.0)
    await scene.look(1.0)
    books = scene.batch._books
    assert books is not None
    assert "job/ns/unbound" not in {*books.rests.all, *books.notes, *books.started}


@pytest.mark.parametrize("rests", [False, True], ids=["it waits", "it is left alone"])
async def test_the_loan_of_a_gang_that_leaves_is_told_while_others_are_read_anew(
    monkeypatch: pytest.MonkeyPatch, *, rests: bool
) -> None:
    pool = Pool()
    scene = Scene(2, plant=pool.plant)
    pool.job("train")
    await scene.look()
    pool.displaced("w0")
    scene.bind("train")
    await scene.look(1.0)
    pool.says(Lending(recall=1))
    await scene.look(1.0)
    assert scene.jobs() == ["start train", "stop train"]
    for at in range(2 * FEW):
        scene.plant.job(f"one-{at}", gpus=16)
    await scene.look(1.0)
    if rests:
        assert scene.batch._books is not None
        scene.batch._books.rests.begin("job/ns/train", scene.clock.now(), 60.0)
    told = list[object]()
    Turns(monkeypatch, lambda: told.append(pool.lent()), FEW)
    edit_queue(scene, weight=2.0)
    await scene.look(1.0)
    assert [*told, pool.lent()] == [(LentSeen("w0", 8, leaving=8),)] * 2
