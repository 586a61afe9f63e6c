"""Nobody is stopped for work whose start the API server would refuse: it is asked first."""

from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.app.batch_books import Books
from autoscaler.app.batch_look import Look
from autoscaler.app.batch_trials import MOST_TRIES
from autoscaler.ports import Fault
from autoscaler.record.batch import GangTold
from tests.app.test_batch_acting import Scene, Server
from tests.app.test_batch_pod_groups import NAME, PodPlant, running

pytestmark = pytest.mark.looptime

HALF_AN_HOUR_S: Final = 1800.0
NO_RIGHT: Final = (
    'pods "solo" is forbidden: User "h" cannot patch resource "pods" in API group "" in the namespace "ns"'
)


class Gatekeeper(Server):
    """Takes patches of pods too; refuses to start whom `refused` names."""

    def __init__(self, plant: PodPlant) -> None:
        super().__init__(plant)
        self._pods = plant
        self.refused: dict[str, tuple[int | None, str]] = {}
        """By name: status and words; without a status nobody answers."""
        self.takes_tries = True
        """Whether a dry run is refused as the write would be."""
        self.tried: list[str] = []

    async def request(self, _: str, path: str, *, body: bytes, **more: Any) -> Answer:
        name, is_try = path.rsplit("/", maxsplit=1)[-1], ("dryRun", "All") in more.get("query", ())
        if is_try:
            self.tried.append(name)
        changes = {} if name == "status" else {each["path"]: each for each in msgspec.json.decode(body)}
        starts = "/pods/" in path or changes.get("/spec/suspend", {}).get("value") is False
        if starts and name in self.refused and (self.takes_tries or not is_try):
            status, words = self.refused[name]
            error = KubeError(Fault.TIMEOUT if status is None else Fault.DENIED, words, status=status)
            error.sent = True
            raise error
        if is_try:
            return Answer(200, b"{}" if "/pods/" not in path else msgspec.json.encode(self._pods.pods[name]), {})
        if "/pods/" not in path:
            return await super().request("PATCH", path, body=body, **more)
        self.sent.append(f"start {name}")
        notes = changes["/metadata/annotations"]["value"]
        self._pods.seat(name, notes["headroom.dev/hosts"], notes["headroom.dev/placement"])
        return Answer(200, msgspec.json.encode(self._pods.pods[name]), {})


class Full(Scene):
    """A cluster of four nodes, full of Jobs of low priority that run; the rights are what `server.refused` says."""

    def __init__(self, *, idle: str | None = None) -> None:
        self.pods = PodPlant()
        self.gatekeeper = Gatekeeper(self.pods)
        super().__init__(4, plant=self.pods, server=self.gatekeeper, idle=idle)
        self.pods.classes(high=-10)

    @classmethod
    async def of_jobs(cls) -> "Full":
        """They run."""
        scene = cls()
        for at in range(4):
            scene.plant.job(f"low-{at}")
        await scene.looks(10.0)
        assert len(scene.starts()) == 4
        scene.server.sent.clear()
        return scene

    async def looks(self, for_s: float) -> None:
        """Look every five seconds; the Job controller and the scheduler have done their work by the next look."""
        for _ in range(int(for_s / 5.0)):
            for name in [name.removeprefix("job/") for name in self.plant._objects]:
                if self.plant._objects[f"job/{name}"]["spec"]["suspend"]:
                    self.plant.gone(f"{name}-0")
                elif self.plant.work(name).put:
                    self.bind(name)
            await self.look(5.0)
            await self.batch._look()

    def urgent(self, name: str) -> None:
        """A suspended Job of higher priority comes."""
        self.plant.job(name, priority_class="high")

    def stops(self) -> list[str]:
        """Jobs that were told to stop."""
        return [word for word in self.jobs() if word.startswith("stop")]

    def starts(self) -> list[str]:
        """Whoever was let in."""
        return [word for word in self.jobs() if word.startswith("start")]

    @property
    def books(self) -> Books:
        """The books of now."""
        assert self.batch._books is not None
        return self.batch._books

    def told(self, name: str) -> GangTold:
        """What is told of a gang."""
        return Look(self.books, self.pods.tree, self.clock.now()).gang(name)


async def test_a_pod_of_a_namespace_that_gave_no_right_stops_nobody_and_is_let_in_once_it_did() -> None:
    scene = await Full.of_jobs()
    scene.gatekeeper.refused["solo"] = (403, NO_RIGHT)
    scene.pods.gated("solo", priority_class="high")
    await scene.looks(HALF_AN_HOUR_S)
    assert (scene.stops(), scene.starts()) == ([], [])
    assert 6 <= len(scene.gatekeeper.tried) <= 12, "ever later, up to every ten minutes: 360 looks"
    told = scene.told("pod/ns/solo")
    assert told.reason == "WRITE_REFUSED"
    assert "cannot patch resource" in told.remarks[-1]
    assert "rbac.podNamespaces, or kubectl apply -n ns -f config/rbac/pods" in told.remarks[-1]
    scene.gatekeeper.refused.clear()
    await scene.looks(660.0)
    assert (len(scene.stops()), scene.starts()) == (1, ["start solo"])
    assert scene.told("pod/ns/solo").remarks == ()


async def test_a_webhook_that_is_away_for_minutes_costs_nobody_a_gpu_and_then_the_guarantee_is_taken_back() -> None:
    scene = await Full.of_jobs()
    away = 'failed calling webhook "w": connect: connection refused'
    scene.gatekeeper.refused["solo"] = (500, away)
    scene.pods.gated("solo", priority_class="high")
    await scene.looks(240.0)
    assert (scene.stops(), scene.starts()) == ([], [])
    assert away in scene.told("pod/ns/solo").remarks[-1]
    scene.gatekeeper.refused.clear()
    await scene.looks(240.0)
    assert (len(scene.stops()), scene.starts()) == (1, ["start solo"]), "within as long again"


async def test_while_nobody_answers_it_waits_and_says_so() -> None:
    scene = await Full.of_jobs()
    scene.gatekeeper.refused["solo"] = (None, "no answer within 10 s")
    scene.pods.gated("solo", priority_class="high")
    await scene.looks(60.0)
    assert (scene.stops(), scene.starts()) == ([], [])
    assert len(scene.gatekeeper.tried) <= 5, "no dry run at each of 24 looks"
    assert "no answer within 10 s" in scene.told("pod/ns/solo").remarks[-1]


async def test_a_gang_that_the_server_would_let_in_is_asked_about_once_and_again_after_a_restart() -> None:
    scene = await Full.of_jobs()
    scene.pods.gated("solo")  # of no higher priority than those that run: it waits
    await scene.looks(300.0)
    assert (scene.gatekeeper.tried, scene.stops()) == (["solo"], [])
    assert scene.told("pod/ns/solo").position == 1
    scene.batch._books = scene.batch._tree = None
    await scene.looks(10.0)
    assert scene.gatekeeper.tried == ["solo"] * 2


async def test_other_queues_make_nobody_be_asked_about_again() -> None:
    scene = await Full.of_jobs()
    scene.gatekeeper.refused["urgent"] = (403, "not in this quarter")
    scene.pods.gated("solo")
    scene.urgent("urgent")
    await scene.looks(60.0)
    stops, tried = len(scene.stops()), scene.gatekeeper.tried.count("solo")
    before, scene.batch._tree = scene.books, None
    scene.batch._queues_version = -1
    await scene.looks(20.0)
    assert scene.books is not before
    assert (len(scene.stops()), scene.gatekeeper.tried.count("solo")) == (stops, tried) == (1, 1)


async def test_a_job_whose_start_was_refused_stops_nobody_a_second_time() -> None:
    scene = await Full.of_jobs()
    scene.gatekeeper.refused["urgent"] = (403, "admission webhook w: not in this quarter")
    scene.urgent("urgent")
    await scene.looks(HALF_AN_HOUR_S)
    assert len(scene.stops()) == 1, "for the first try, of which nobody knew"
    assert "not in this quarter" in scene.told("job/ns/urgent").remarks[-1]
    scene.gatekeeper.refused.clear()
    await scene.looks(660.0)
    assert len(scene.stops()) == 2
    assert "start urgent" in scene.starts()


async def test_of_a_group_that_was_refused_every_pod_is_tried_out() -> None:
    """The one that is tried out first would be let in; the policy is about the other."""
    scene = await Full.of_jobs()
    scene.gatekeeper.refused["g-1"] = (403, "g-1 is nobody's")
    for at in range(2):
        scene.pods.gated(f"g-{at}", 2, priority_class="high")
    await scene.looks(HALF_AN_HOUR_S)
    assert len(scene.stops()) == 2, "once, of two nodes"
    assert "g-1 is nobody's" in scene.told("podgroup/ns/g").remarks[-1]
    scene.gatekeeper.refused.clear()
    await scene.looks(660.0)
    assert {"start g-0", "start g-1"} <= set(scene.starts())


async def test_a_pod_that_came_with_thousands_delays_nobody_by_more_than_some_tries() -> None:
    scene = Full()
    for at in range(3 * MOST_TRIES):
        scene.pods.gated(f"many-{at}", gpus=1)
    scene.plant.job("job")
    await scene.look()
    assert (len(scene.gatekeeper.tried), scene.starts()) == (MOST_TRIES, ["start job"])
    await scene.looks(20.0)
    assert len(scene.gatekeeper.tried) == len(set(scene.gatekeeper.tried)) == 3 * MOST_TRIES
    assert len(scene.starts()) == 1 + 24, "the other three nodes"


async def test_where_it_is_only_decided_and_told_nothing_is_asked() -> None:
    scene = Full(idle="the default mode is Shadow")
    scene.pods.gated("solo")
    await scene.looks(20.0)
    assert (scene.gatekeeper.tried, scene.starts()) == ([], [])
    assert "pod/ns/solo" in scene.books.room.runs.all, "it is decided about"


async def test_a_gang_that_was_met_running_is_not_asked_about() -> None:
    plant = running()
    plant.begin()
    plant.hear()
    plant.books.take_in((), plant.now_s)
    assert not plant.books.trials.holds_back(plant.cluster.works[NAME], None)


async def test_what_others_left_for_it_is_a_gangs_own_over_a_restart_before_it_is_asked_about_anew() -> None:
    plant = PodPlant()
    plant.classes(high=-10)
    plant.job("wide", pods=4)
    plant.look()
    plant.start()
    for at in range(4):
        plant.pod(f"wide-{at}", f"n{at}", job="wide")
    plant.gated("solo", priority_class="high")
    for _ in range(8):
        plant.look(10.0)
    assert plant.stop() == ["wide"]
    saved = plant.books.packed(plant.now_s)
    plant.begin(saved)
    assert "pod/ns/solo" in plant.books.room.kept_for
    assert list(plant.books.due_trials(plant.now_s)) == []


async def test_what_is_kept_for_the_oldest_that_waits_is_its_own_over_a_restart_before_it_is_asked_about_anew() -> None:
    """Three of four nodes are taken, and a group of two pods waits for a second one."""
    plant = PodPlant()
    for at in range(3):
        plant.job(f"low-{at}")
    plant.look()
    assert len(plant.start()) == 3
    for at in range(3):
        plant.pod(f"low-{at}-0", plant.work(f"low-{at}").put[0].node, job=f"low-{at}")
    plant.look()
    for name in ("a", "b"):
        plant.gated(name, size=2)
    for _ in range(8):
        for work in list(plant.books.due_trials(plant.now_s)):
            plant.books.was_taken(work, plant.now_s)
        plant.look(10.0)
    (before,) = plant.books.room.ledger.starts.values()
    plant.begin(plant.books.packed(plant.now_s))
    plant.look()
    assert list(plant.books.due_trials(plant.now_s)) == []
    (kept,) = plant.books.room.ledger.starts.values()
    assert (kept.gang, kept.made_s, kept.held) == (NAME, before.made_s, before.held)
