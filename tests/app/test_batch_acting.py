"""One look at batch admission, carried out against a server: what is written in which order, and what stops a write."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import msgspec
import pytest

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.batch_objects import BatchQueueObject
from autoscaler.adapters.kube.batch_work import Work
from autoscaler.adapters.kube.batch_writer import BatchWriter, Written
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.api.batch_queue_status import BatchQueueStatus, KeptFor, Place, QueueMemory, ReservationKind
from autoscaler.api.schema import custom_resource
from autoscaler.app.batch import EVERY_S, TELL_S, Batch
from autoscaler.app.batch_rests import RETRY_S
from autoscaler.app.batch_telling import BatchTelling
from autoscaler.app.guard import Guard
from autoscaler.ports import Fault
from autoscaler.record.batch import BatchTold, GangState
from tests.app.batch_plant import SHAPES, START_S, BatchPlant
from tests.app.test_batch_books import running

pytestmark = pytest.mark.looptime

QUEUE = {"quotas": [{"shape": "h100", "guaranteed": 64}], "namespaces": ["ns"], "preemption": {"graceS": 0}}


class Server:
    """Takes patches of Jobs of a plant and of queues' statuses; `hear` is called before each."""

    def __init__(self, plant: BatchPlant) -> None:
        self._plant = plant
        self.sent: list[str] = []
        self.hear: Callable[[str], None] = lambda _: None

    async def request(self, _: str, path: str, *, body: bytes, **more: Any) -> Answer:
        name = path.rsplit("/", maxsplit=1)[-1]
        if name == "status":
            self.hear("status")
            self.sent.append("status")
            return Answer(200, b"{}", {})
        changes = msgspec.json.decode(body)
        suspend = next(c["value"] for c in changes if c["path"] == "/spec/suspend" and c["op"] != "test")
        word = f"{'stop' if suspend else 'start'} {name}"
        self.hear(word)
        if ("dryRun", "All") in more.get("query", ()):
            return Answer(200, body, {})
        self.sent.append(word)
        meta = self._plant._objects[f"job/{name}"]["metadata"]
        for change in changes:
            if change["path"] == "/metadata/annotations":
                meta["annotations"] = change["value"]
            elif change["path"].startswith("/metadata/annotations/") and change["op"] == "remove":
                del meta["annotations"][change["path"].rpartition("/")[2].replace("~1", "/")]
        self._plant.edit(name, suspend=suspend)
        return Answer(200, msgspec.json.encode(self._plant._objects[f"job/{name}"]), {})


class Scene:
    """A plant, a queue `team` that everything may use, and batch admission that leads."""

    def __init__(
        self, nodes: int, shown: Callable[[BatchTold], None] = lambda _: None, *, plant: BatchPlant | None = None,
        server: Server | None = None, idle: str | None = None,
    ) -> None:  # fmt: skip
        self.plant = plant = plant or BatchPlant({f"n{at}": 8 for at in range(nodes)})
        self.cluster, self.clock = plant.cluster, plant.cluster._clock
        self.server, self.frozen = server or Server(plant), cast("str | None", None)
        self.cluster.problems = lambda: ()  # type: ignore[method-assign]
        self.cluster._queues._cache.put(BatchQueueObject(Meta("team"), msgspec.Raw(msgspec.json.encode(QUEUE))))
        writer = BatchWriter(cast(Any, self.server), self.clock, lambda: True, plant.aliases)
        self.telling = BatchTelling(
            cluster=self.cluster, writer=writer, events=cast(Any, Deaf()), shown=shown, writes=lambda: True
        )
        self.batch = Batch(
            cluster=self.cluster, writer=writer, shapes=SHAPES, serving_priority=0, telling=self.telling,
            clock=self.clock, guard=Guard(self.clock), idle=lambda: idle, frozen=lambda: self.frozen,
            desk=plant.desk,
        )  # fmt: skip

    async def look(self, after_s: float = 0.0) -> None:
        """Look a while later."""
        await self.clock.sleep_until(self.clock.monotonic() + after_s)
        self.plant.hear()
        await self.batch._look()

    def bind(self, name: str) -> None:
        """All pods of a Job are bound where it was put."""
        for at, put in enumerate(self.plant.work(name).put):
            self.plant.pod(f"{name}-{at}", put.node, job=name)

    def jobs(self) -> list[str]:
        """What was written of Jobs."""
        return [word for word in self.server.sent if word != "status"]


def refusing(scene: Scene, verb: str, *, status: int) -> list[str]:
    """The server refuses all writes of one kind from now on; those that it was asked for."""
    tried: list[str] = []

    def refuse(word: str) -> None:
        if word.startswith(verb):
            tried.append(word)
            raise KubeError(Fault.DENIED, "no such policy", status=status)

    scene.server.hear = refuse
    return tried


async def losing_a_node() -> Scene:
    """A gang of two pods runs, and one of its nodes is lost: it has to stop."""
    scene = Scene(2)
    scene.plant.job("wide", pods=2)
    await scene.look()
    scene.bind("wide")
    await scene.look(1.0)
    scene.plant.lose("n0")
    return scene


class Deaf:
    """Takes events."""

    def note(self, *_: object) -> None:
        """Take one."""


async def test_the_place_of_a_gang_that_leaves_is_written_down_as_soon_as_there_is_one() -> None:
    """Nothing else changes when its node is mended: it neither waits nor counts while its other pod is there still."""
    scene = await losing_a_node()
    for _ in range(4):
        await scene.look(TELL_S)
    assert scene.jobs() == ["start wide", "stop wide"]
    told = scene.server.sent.count("status")
    scene.plant.gone("wide-0")
    for _ in range(2):
        await scene.look(TELL_S)
    assert scene.server.sent.count("status") == told
    scene.plant.node("n0", 8)
    for _ in range(4):
        await scene.look(TELL_S)
    assert scene.server.sent.count("status") == told + 1


async def test_a_freeze_ends_a_row_of_writes_and_who_was_not_written_is_not_late_afterwards() -> None:
    scene = Scene(40)
    for at in range(40):
        scene.plant.job(f"one-{at}")

    def freeze(_: str) -> None:
        scene.frozen = "change of racks"

    scene.server.hear = freeze
    await scene.look()
    begun = scene.jobs()
    assert 0 < len(begun) <= 16, "those on their way come through"
    for word in begun:
        scene.bind(word.removeprefix("start "))
    scene.server.hear = lambda _: None
    await scene.look(60.0)
    assert scene.jobs() == begun
    scene.frozen = None
    await scene.look()
    assert len(scene.jobs()) == len(set(scene.jobs())) == 40
    assert all(word.startswith("start ") for word in scene.jobs()), "nobody is stopped as late"


async def test_a_bug_in_what_is_told_stops_no_admission_and_not_the_process() -> None:
    def broken(_: BatchTold) -> None:
        raise KeyError("a gang")

    scene = Scene(2, broken)
    scene.plant.job("first")
    await scene.look()
    scene.plant.job("second")
    await scene.look(TELL_S)
    assert scene.jobs() == ["start first", "start second"]


async def test_a_bug_in_carrying_out_has_the_books_written_anew_and_not_the_process_ended() -> None:
    scene = Scene(1)
    scene.plant.job("train")

    def broken(_: str) -> None:
        raise KeyError("a bug of ours")

    scene.server.hear = broken
    begun_s = scene.clock.monotonic()
    await scene.look()
    assert scene.clock.monotonic() >= begun_s + EVERY_S, "not at once again"
    scene.server.hear = lambda _: None
    await scene.look()
    assert scene.jobs() == ["start train"]


async def preempting(scene: Scene) -> None:
    """Two gangs fill the nodes and run, and one of higher priority comes."""
    scene.plant.classes(high=-10)
    for name in ("low-a", "low-b"):
        scene.plant.job(name)
    await scene.look()
    scene.bind("low-a")
    scene.bind("low-b")
    await scene.look(TELL_S)
    scene.plant.job("urgent", priority_class="high")


@pytest.mark.parametrize("what", ["a freeze", "a webhook"])
async def test_nobody_else_has_to_leave_because_the_stop_of_the_first_one_could_not_be_written(what: str) -> None:
    """For ten minutes stops are refused, or the cluster is frozen; then the gang has two minutes to go."""
    scene = Scene(2)
    await preempting(scene)
    tried = refusing(scene, "stop", status=403)
    for _ in range(3):
        await scene.look(TELL_S)
    assert tried == ["stop low-a"]
    scene.frozen = "change of racks" if what == "a freeze" else None
    for _ in range(120):
        await scene.look(EVERY_S)
    scene.frozen, scene.server.hear = None, lambda _: None
    for _ in range(20):
        await scene.look(EVERY_S)
    assert scene.jobs() == ["start low-a", "start low-b", "stop low-a"]
    for _ in range(6):
        await scene.look(EVERY_S)
    assert scene.jobs()[3:] == ["stop low-b"], "its pod stands still: it is given up after two minutes"


def protecting(scene: Scene, *names: str, status: int = 403) -> None:
    """A webhook refuses every change of these Jobs from now on, and of no other."""

    def refuse(word: str) -> None:
        if word.removeprefix("stop ") in names:
            raise KubeError(Fault.DENIED, "Jobs of this team are never changed", status=status)

    scene.server.hear = refuse


@pytest.mark.parametrize("status", [403, 422], ids=["by a webhook", "by a policy"])
async def test_one_gang_whose_stop_is_refused_keeps_another_from_its_place_for_a_minute_and_a_half(status: int) -> None:
    scene = Scene(2)
    await preempting(scene)
    protecting(scene, "low-a", status=status)
    begun_s = scene.clock.monotonic()
    while scene.jobs() == ["start low-a", "start low-b"]:
        await scene.look(EVERY_S)
    assert scene.jobs()[2:] == ["stop low-b"]
    assert 55.0 <= scene.clock.monotonic() - begun_s <= 90.0
    assert scene.batch._acts.failures >= 10, "it was asked all the time"
    (told,) = scene.batch.find("Job", "ns", "low-a")
    assert (told.state, told.reason) == (GangState.LEAVING, "STOP_DENIED")
    goes_on = "it is asked until another one leaves in its place, and then runs on"
    assert told.detail == f"Jobs of this team are never changed; {goes_on}"
    scene.server.hear = lambda _: None
    await scene.look(RETRY_S)
    assert scene.batch.find("Job", "ns", "low-a")[0].state is GangState.RUNNING
    scene.plant.gone("low-b-0")
    await scene.look(RETRY_S)
    scene.bind("urgent")
    for _ in range(60):
        await scene.look(RETRY_S)
    assert scene.jobs()[3:] == ["start urgent"], "one left for one, though both may be stopped by then"
    assert dict(scene.batch._counts.evicted) == {"OUTRANKED": 1}, "who runs on was not stopped"


async def test_who_lets_a_gang_run_again_each_time_that_it_is_stopped_is_met_ever_more_seldom() -> None:
    """For half an hour another controller takes each stop back within a second. It is told from the second one on."""
    scene = Scene(2)
    await preempting(scene)
    stops_s = list[float]()
    for _ in range(1800):
        done = len(scene.jobs())
        await scene.look(1.0)
        if "stop low-a" in scene.jobs()[done:]:
            stops_s.append(scene.clock.monotonic())
            scene.plant.edit("low-a", suspend=False)
    assert [round(b - a) for a, b in pairwise(stops_s)] == [1, 5, 10, 20, 40, 80, 160, 320, 600]
    (told,) = scene.batch.find("Job", "ns", "low-a")
    assert (told.state, told.reason) == (GangState.LEAVING, "RUN_BY_OTHERS")
    assert told.detail.startswith("it was told to leave and stopped 10 times, and somebody else lets it run again each")
    assert "stop low-b" not in scene.jobs(), "nobody else has to leave for it meanwhile"


async def test_a_gang_that_runs_on_though_it_was_asked_to_leave_is_left_alone_for_an_hour() -> None:
    scene = Scene(3)
    scene.plant.job("low-c")
    await scene.look()
    scene.bind("low-c")
    await preempting(scene)
    protecting(scene, "low-a")
    while "stop low-c" not in scene.jobs():
        await scene.look(EVERY_S)
    scene.plant.gone("low-c-0")
    for _ in range(3):
        await scene.look(EVERY_S)
    scene.plant.job("second", priority_class="high")
    begun_s = scene.clock.monotonic()
    while "stop low-b" not in scene.jobs():
        await scene.look(EVERY_S)
    assert scene.clock.monotonic() - begun_s <= 2 * EVERY_S, "the next one wastes no minute on it"
    assert scene.batch.find("Job", "ns", "low-a")[0].evictions == 0


async def test_nobody_leaves_any_more_for_a_gang_that_is_deleted_while_no_stop_can_be_written() -> None:
    """A webhook refuses all stops for a minute."""
    scene = Scene(2)
    await preempting(scene)
    tried = refusing(scene, "stop", status=403)
    await scene.look(EVERY_S)
    assert tried == ["stop low-a"]
    scene.plant.delete("urgent")
    for _ in range(12):
        await scene.look(EVERY_S)
    scene.server.hear = lambda _: None
    for _ in range(3):
        await scene.look(EVERY_S)
    assert scene.jobs() == ["start low-a", "start low-b"]
    assert {scene.batch.find("Job", "ns", name)[0].state for name in ("low-a", "low-b")} == {GangState.RUNNING}
    assert (scene.batch._counts.evicted, scene.batch._counts.lost_gpu_s) == ((), 0.0)


async def test_a_second_gang_whose_stop_is_refused_has_no_third_one_told_to_leave_meanwhile() -> None:
    scene = Scene(3)
    scene.plant.job("low-c")
    await scene.look()
    scene.bind("low-c")
    await preempting(scene)
    protecting(scene, "low-a", "low-c")
    for _ in range(120):
        await scene.look(EVERY_S)
    told = [scene.batch.find("Job", "ns", name)[0].state for name in ("low-a", "low-c", "low-b")]
    assert told == [GangState.RUNNING, GangState.LEAVING, GangState.RUNNING]
    for _ in range(180):
        await scene.look(EVERY_S)
    assert scene.jobs()[3:] == ["stop low-b"], "after twenty minutes one who can go is found all the same"


async def test_a_server_that_is_busy_for_ten_minutes_has_nobody_else_told_to_leave() -> None:
    scene = Scene(2)
    await preempting(scene)
    protecting(scene, "low-a", status=429)
    for _ in range(120):
        await scene.look(EVERY_S)
    assert scene.jobs() == ["start low-a", "start low-b"]


async def test_nobody_is_told_to_leave_before_it_is_written_for_whom_even_where_the_queue_was_never_told_of() -> None:
    scene = Scene(1)
    scene.plant.classes(high=-10)
    scene.plant.job("low")
    await scene.look()
    scene.bind("low")
    await scene.look(TELL_S)
    scene.plant.job("urgent", priority_class="high")
    assert scene.telling.told is not None
    scene.telling.told = replace(scene.telling.told, queues=())
    scene.server.sent.clear()
    await scene.look(0.5)
    assert "stop low" not in scene.server.sent
    await scene.look(TELL_S)
    await scene.look(TELL_S)
    assert scene.server.sent.index("status") < scene.server.sent.index("stop low")


async def test_nobody_passes_the_oldest_for_a_day_because_the_leader_before_had_its_clock_a_day_ahead() -> None:
    plant = BatchPlant({"n0": 8, "n1": 8})
    running(plant, "small", annotations={"headroom.dev/expected-duration": "10m"})
    plant.job("wide", pods=2, annotations={"headroom.dev/expected-duration": "10h"})
    ahead_s, places = 86_400.0, (Place(node="n0", shape="h100", units=8), Place(node="n1", shape="h100", units=8))
    kept = KeptFor(
        gang="job/ns/wide", kind=ReservationKind.START, places=places,
        made_s=START_S + ahead_s - 60.0, start_s=START_S + ahead_s + 600.0,
    )  # fmt: skip
    status = custom_resource(BatchQueueStatus(memory=QueueMemory(written_at_s=START_S + ahead_s, reservations=(kept,))))
    scene = Scene(2, plant=plant)
    queue = scene.cluster.queues["team"]
    scene.cluster._queues._cache.put(msgspec.structs.replace(queue, status=msgspec.Raw(msgspec.json.encode(status))))
    plant.job("late", annotations={"headroom.dev/expected-duration": "1h"}, creationTimestamp="2023-11-14T22:13:30Z")
    await scene.look(30.0)
    assert scene.jobs() == [], "it would still run when the one before it is expected to start, in ten minutes"


async def test_a_gang_one_of_whose_nodes_went_before_it_was_written_is_not_started_in_part() -> None:
    scene = Scene(3)
    scene.plant.job("first")
    scene.plant.job("wide", pods=2)

    def lose(_: str) -> None:
        books = scene.batch._books
        assert books is not None
        gone = next(put.node for put in books.plans["job/ns/wide"])
        if scene.cluster.has_node(gone):
            scene.plant.lose(gone)

    scene.server.hear = lose
    await scene.look()
    assert scene.jobs() == ["start first"]
    scene.server.hear = lambda _: None
    await scene.look(1.0)
    assert scene.jobs() == ["start first"], "two nodes are left, and one is taken"
    scene.plant.node("new", 8)
    await scene.look(1.0)
    assert scene.jobs() == ["start first", "start wide"]


async def test_a_stop_that_is_refused_is_asked_for_again_a_while_later_and_not_at_every_look() -> None:
    scene = await losing_a_node()
    tried = refusing(scene, "stop", status=403)
    for _ in range(4):
        await scene.look(0.5)
    assert tried == ["stop wide"]
    await scene.look(RETRY_S)
    assert tried == ["stop wide"] * 2
    scene.plant.edit("wide", parallelism=2)
    await scene.look()
    assert tried == ["stop wide"] * 3, "another version is asked at once"


async def test_a_start_that_no_version_takes_though_none_comes_is_a_failed_write() -> None:
    scene = Scene(1)
    scene.plant.job("train")
    tried = refusing(scene, "start", status=422)
    await scene.look()
    await scene.look(RETRY_S / 2)
    assert (tried, scene.batch._acts.failures) == (["start train"], 0), "somebody else may have been first"
    await scene.look(RETRY_S)
    assert (tried, scene.batch._acts.failures) == (["start train"], 1)
    assert scene.batch._books is not None
    assert "no such policy" in scene.batch._books.notes["job/ns/train"].words


async def test_a_stop_that_one_version_does_not_take_twice_is_a_failed_write() -> None:
    scene = await losing_a_node()
    tried = refusing(scene, "stop", status=422)
    await scene.look(0.5)
    assert (tried, scene.batch._acts.failures) == (["stop wide"], 0), "somebody else may have been first"
    scene.plant.edit("wide", parallelism=2)
    await scene.look(0.5)
    assert (len(tried), scene.batch._acts.failures) == (2, 0), "and again: it is another version"
    for failures in (1, 2):
        await scene.look(RETRY_S + 1.0)
        assert (len(tried), scene.batch._acts.failures) == (2 + failures, failures)


async def test_what_cannot_be_read_is_counted_beside_those_that_wait() -> None:
    scene = Scene(1)
    scene.plant.job("one", pods=1)
    scene.plant.job("two", pods=1)
    await scene.look()
    assert scene.telling.told is not None
    assert (scene.telling.told.unread, scene.telling.told.queues[0].waiting) == (0, 1)
    assert scene.telling.told.queues[0].head_age_s is not None
    scene.cluster.problems = lambda: ("nodes cannot be read", "jobs cannot be read")  # type: ignore[method-assign]
    await scene.look(TELL_S)
    assert (scene.telling.told.unread, scene.telling.told.queues[0].waiting) == (2, 1)
    assert not scene.telling.told.acting


async def test_a_job_that_has_ended_is_no_gang_that_waits() -> None:
    scene = Scene(1)
    scene.plant.job("train")
    await scene.look()
    assert [told.name for told in scene.batch.find("job", None, "train")] == ["train"]
    scene.plant.end("train")
    await scene.look(1.0)
    assert list(scene.batch.find("job", None, "train")) == []


async def test_what_our_own_first_patch_changed_is_not_news_that_is_answered_at_once() -> None:
    """A start in two patches whose second is refused for good as invalid: not tried again at each look."""
    scene, tried = Scene(1), cast("list[str]", [])
    scene.plant.job("train")

    async def halfway(work: Work, *_: object) -> Written:
        tried.append(work.version)
        scene.plant.edit("train")
        return Written(Became.REFUSED, None, "422: a policy", changed=True, version=scene.plant.work("train").version)

    cast(Any, scene.batch._acts._writer).admit = halfway
    await scene.look()
    for _ in range(4):
        await scene.look(0.5)
    assert len(tried) == 1
    await scene.look(RETRY_S)
    assert len(tried) == 1, "it rests, and is tried out before it takes part again"
