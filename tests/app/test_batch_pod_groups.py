"""Pods behind our gate: let in whole, finished where they were written in part, and recalled by nobody."""

from typing import Any, Final, cast

import msgspec
import pytest

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_intake import GATHERED
from autoscaler.adapters.kube.batch_objects import QueuedPod, WorkPod
from autoscaler.adapters.kube.batch_work import Put
from autoscaler.app.batch_look import Look
from autoscaler.record.batch import GangState, GangTold
from autoscaler.record.batch_words import sentence
from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime

NAME: Final = "podgroup/ns/g"
BEHIND: Final = ({"name": "headroom.dev/admission"},)


class PodPlant(BatchPlant):
    """Four nodes of eight GPUs; pods beside Jobs."""

    def __init__(self) -> None:
        super().__init__({f"n{at}": 8 for at in range(4)}, guaranteed=32)
        self.pods: dict[str, dict[str, Any]] = {}

    def look(self, after_s: float = 1.0) -> None:
        """Look and decide, a while later; the server would let in whoever it is asked about first."""
        super().look(after_s)
        for work in list(self.books.due_trials(self.now_s)):
            self.books.was_taken(work, self.now_s)
        self.books.decide(self.now_s)

    def gated(
        self, name: str, size: int = 0, gpus: int = 8, group: str = "g", *, priority_class: str = "batch"
    ) -> None:
        """A pod comes, behind our gate; without a size it is a gang by itself."""
        labels = {"headroom.dev/queue": "team"} | ({"headroom.dev/pod-group": group} if size else {})
        notes = {"headroom.dev/pod-group-size": str(size)} if size else {}
        spec = {
            "priorityClassName": priority_class, "schedulingGates": list(BEHIND),
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        }  # fmt: skip
        meta = {"name": name, "namespace": "ns", "labels": labels, "annotations": notes,
                "creationTimestamp": "2023-11-14T22:13:20Z"}  # fmt: skip
        self.pods[name] = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
        self.change(name, uid=f"{name}-{self._versions}")

    def change(self, name: str, *, phase: str | None = None, node: str | None = None, **meta: Any) -> None:
        """A pod is edited, bound, told to end, or over."""
        found = self.pods[name]
        self._versions += 1
        found["metadata"] |= {"resourceVersion": str(self._versions), **meta}
        found["spec"] |= {} if node is None else {"nodeName": node}
        found["status"] |= {} if phase is None else {"phase": phase}
        self.cluster._pods._cache.put(msgspec.convert(found, WorkPod, strict=False))
        self.cluster._queued_pods._cache.put(msgspec.convert(found, QueuedPod, strict=False))

    def vanish(self, *names: str) -> None:
        """Pods are gone."""
        for name in names:
            self.gone(name)
            self.cluster._queued_pods._cache.drop(f"ns/{name}")

    def plan(self, name: str = NAME) -> tuple[Put, ...]:
        """Where a gang is to be let in now; empty while it waits."""
        return next((plan for work, plan in self.books.due_starts(self.now_s) if work.name == name), ())

    def let_in(self, plan: tuple[Put, ...], only: int | None = None) -> None:
        """Take the gates of the gang `g` away as the writer would, of the first `only`; one node each."""
        names = sorted(name for name in self.pods if name.startswith("g-"))
        form = self.cluster.works[NAME].sets[0].at
        nodes = [put.node for put in plan for _ in range(put.pods)]
        seats = [
            {"pod": name, "node": node, "host": node, "shape": "h100", "form": form}
            for name, node in zip(names, nodes, strict=True)
        ]
        for seat in seats[:only]:
            self.seat(seat["pod"], seat["node"], msgspec.json.encode(seats).decode())

    def seat(self, name: str, node: str, placement: str) -> None:
        """Let one pod in: what the server answers to that is known at once."""
        found = self.pods[name]
        found["spec"] |= {"schedulingGates": [], "nodeSelector": {"kubernetes.io/hostname": node}}
        notes = found["metadata"]["annotations"] | {"headroom.dev/placement": placement, "headroom.dev/hosts": node}
        self.change(name, annotations=notes)
        self.cluster.pods_written([msgspec.convert(found, QueuedPod, strict=False)])

    def late(self) -> list[tuple[str, str]]:
        """Pods that are to be let in after the others of their gang, each with its node."""
        return [
            (member.name, seat.node)
            for _, pairs in self.books.due_latecomers(self.now_s)
            for member, seat in pairs
        ]  # fmt: skip

    def told(self, name: str = NAME) -> GangTold:
        """What is told of a gang."""
        return Look(self.books, self.tree, self.now_s).gang(name)


def whole(pods: int = 3) -> PodPlant:
    """A group of so many pods of eight GPUs is there."""
    plant = PodPlant()
    for at in range(pods):
        plant.gated(f"g-{at}", pods)
    plant.look()
    return plant


def running(pods: int = 3) -> PodPlant:
    """It was let in and is bound."""
    plant = whole(pods)
    plant.let_in(plan := plant.plan())
    nodes = [put.node for put in plan for _ in range(put.pods)]
    for at, node in enumerate(nodes):
        plant.change(f"g-{at}", node=node)
    plant.look()
    assert plant.told().state is GangState.RUNNING
    return plant


async def test_a_group_waits_in_words_until_its_last_pod_is_there_and_is_let_in_whole() -> None:
    plant = PodPlant()
    for at in range(2):
        plant.gated(f"g-{at}", 3)
    plant.look()
    told = plant.told()
    assert (plant.plan(), told.state, told.reason) == ((), GangState.WAITING, "INCOMPLETE")
    assert "2 of 3 pods are there; it waits for the others" in sentence(told, plant.now_s)
    plant.gated("g-2", 3)
    plant.look()
    assert sorted(put.node for put in plant.plan()) == ["n0", "n1", "n2"]


async def test_a_group_without_room_holds_nothing_and_says_what_would_change_it() -> None:
    plant = PodPlant()
    plant.job("before", pods=3)
    plant.look()
    plant.start()
    for at in range(2):
        plant.gated(f"g-{at}", 2)
    plant.look()
    told = plant.told()
    assert (plant.plan(), told.state, told.changes[0].units) == ((), GangState.WAITING, 8)


async def test_it_is_found_after_a_restart_where_its_pods_are() -> None:
    plant = running()
    plant.begin()
    plant.look()
    told = plant.told()
    assert (told.state, told.units, plant.plan(), plant.late()) == (GangState.RUNNING, (("h100", 24),), (), [])
    assert sorted(plant.free().values()) == [0, 0, 0, 8]


async def test_what_was_written_in_part_is_finished_on_the_places_that_were_kept_over_a_restart_too() -> None:
    plant = whole()
    plan = plant.plan()
    plant.let_in(plan, only=1)
    plant.books.not_seated(plant.cluster.works[NAME], "2 of 3 pods were not let in: no", plant.now_s)
    plant.look()
    told = plant.told()
    assert (told.state, told.reason, plant.late()) == (GangState.STARTING, "WRITE_REFUSED", [])
    assert "2 of 3 pods were not let in: no" in sentence(told, plant.now_s)
    plant.job("other", pods=2)
    plant.look(5.0)
    nodes = [put.node for put in plan for _ in range(put.pods)]
    assert plant.late() == [("g-1", nodes[1]), ("g-2", nodes[2])]
    plant.begin()
    plant.look()
    assert plant.late() == [("g-1", nodes[1]), ("g-2", nodes[2])], "their places are kept"
    assert plant.due() == [], "nobody else gets them"
    for name, node in plant.late():
        plant.seat(name, node, plant.pods["g-0"]["metadata"]["annotations"]["headroom.dev/placement"])
    for at, node in enumerate(nodes):
        plant.change(f"g-{at}", node=node)
    plant.look()
    assert plant.told().state is GangState.RUNNING


async def test_a_pod_that_is_made_anew_gets_the_place_of_the_one_that_was_lost() -> None:
    plant = running()
    lost = plant.pods["g-1"]["spec"]["nodeName"]
    plant.vanish("g-1")
    plant.look()
    assert "2 of 3 pods are there; one that is made anew gets the place" in plant.told().remarks[0]
    plant.job("other", pods=2)
    plant.look()
    assert plant.due() == [], "it is kept"
    plant.gated("g-1", 3)
    plant.look()
    assert plant.late() == [("g-1", lost)]


async def test_the_place_of_a_pod_that_is_gone_is_kept_over_a_restart() -> None:
    plant = running()
    lost = plant.pods["g-1"]["spec"]["nodeName"]
    plant.vanish("g-1")
    plant.begin()
    plant.look()
    plant.job("other", pods=2)
    plant.look()
    assert (plant.due(), plant.told().units) == ([], (("h100", 24),)), "nobody else gets it"
    plant.gated("g-1", 3)
    plant.look()
    assert plant.late() == [("g-1", lost)]


async def test_the_place_of_a_pod_that_is_over_is_kept_by_nobody() -> None:
    plant = running()
    plant.change("g-1", phase="Succeeded")
    plant.begin()
    plant.look()
    assert sorted(plant.free().values()) == [0, 0, 8, 8]


async def test_one_that_finds_no_place_is_told_of_and_cannot_be_stopped() -> None:
    plant = whole()
    plant.let_in(plant.plan())
    plant.look()
    for _ in range(4):
        plant.look(10.0)
    told = plant.told()
    assert (told.state, told.reason) == (GangState.STARTING, "UNBOUND")
    assert "pods cannot be stopped but by whoever may delete them" in sentence(told, plant.now_s)
    assert list(plant.books.due_stops()) == []
    for at, node in enumerate(("n0", "n1", "n2")):
        plant.change(f"g-{at}", node=node)
    plant.look()
    assert plant.told().state is GangState.RUNNING


async def test_of_one_that_lost_a_node_the_rest_holds_its_gpus_until_somebody_deletes_it() -> None:
    plant = running()
    lost = plant.pods["g-1"]["spec"]["nodeName"]
    plant.lose(lost)
    plant.look()
    assert list(plant.books.due_stops()) == [], "nobody deletes what he did not make"
    plant.look()
    told = plant.told()
    assert (told.state, told.reason) == (GangState.LEAVING, "CANNOT_STOP")
    assert "delete those that are left" in sentence(told, plant.now_s)
    plant.vanish("g-0", "g-1", "g-2")
    plant.look()
    assert set(plant.free().values()) == {8}


async def test_nobody_counts_on_its_leaving_and_everybody_on_a_jobs() -> None:
    plant = whole(2)
    plant.job("beside")
    plant.look()
    plant.let_in(plant.plan())
    plant.start()
    plant.look()
    runs = plant.books.room.runs.all
    assert {name: run.gang.recallable for name, run in runs.items()} == {NAME: False, "job/ns/beside": True}


async def test_a_gang_whose_pods_have_ended_well_holds_nothing() -> None:
    plant = running()
    for at in range(3):
        plant.change(f"g-{at}", phase="Succeeded")
    plant.look()
    assert (NAME in plant.books.room.runs.all, set(plant.free().values())) == (False, {8})


async def test_case_35_the_surge_pod_of_a_deployment_waits_and_says_what_it_lacks() -> None:
    plant = PodPlant()
    for at in range(5):
        plant.gated(f"serve-{at}")
        owners = [{"kind": "ReplicaSet", "name": "serve", "controller": True}]
        plant.change(f"serve-{at}", ownerReferences=owners)
        plant.look()
    states = [plant.told(f"pod/ns/serve-{at}") for at in range(5)]
    assert [told.state for told in states] == [GangState.STARTING] * 4 + [GangState.WAITING]
    assert [(one.reason, one.units) for one in states[-1].changes] == [("ROOM", 8)]


def theirs(**spec: Any) -> WorkPod:
    """A pod of eight GPUs that names no queue of ours."""
    found = {
        "metadata": {"name": "theirs", "namespace": "ns", "uid": "t"}, "status": {"phase": "Pending"},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]} | spec,
    }  # fmt: skip
    return msgspec.convert(found, WorkPod, strict=False)


@pytest.mark.parametrize(
    ("spec", "manager"),
    [
        ({"schedulerName": "volcano"}, "Volcano"),
        ({"schedulerName": "kai-scheduler"}, "KAI"),
        ({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, "Kueue"),
    ],
    ids=["Volcano", "KAI", "Kueue"],
)
async def test_the_demand_of_pods_that_others_place_is_shown_until_they_are_placed(
    spec: dict[str, Any], manager: str
) -> None:
    plant = PodPlant()
    plant.cluster._pods._cache.put(theirs(**spec))
    plant.look()
    told = plant.told("pod/ns/theirs")
    assert (told.state, told.detail) == (GangState.FOREIGN, f"{manager} manages it")
    assert told.units == (("nvidia.com/gpu", 8),)
    assert set(plant.free().values()) == {8}
    plant.cluster._pods._cache.put(theirs(**spec, nodeName="n0"))
    plant.look()
    assert "pod/ns/theirs" not in plant.cluster.works
    assert plant.free()["n0"] == 0, "what it holds is a stranger's"


async def test_pods_of_the_default_scheduler_are_nobodys_demand_here() -> None:
    plant = PodPlant()
    plant.cluster._pods._cache.put(theirs(schedulerName="default-scheduler"))
    plant.look()
    assert "pod/ns/theirs" not in plant.cluster.works


async def test_a_pod_that_is_deleted_while_it_waits_leaves_its_group_incomplete() -> None:
    plant = PodPlant()
    plant.job("before", pods=4)
    plant.look()
    plant.start()
    for at in range(2):
        plant.gated(f"g-{at}", 2)
    plant.look()
    assert plant.told().reason != "INCOMPLETE"
    plant.vanish("g-1")
    plant.look()
    assert plant.told().reason == "INCOMPLETE"


async def test_a_replica_that_only_follows_keeps_no_name_of_work_that_is_gone() -> None:
    """Nobody looks while another replica leads, for months; whoever begins to lead is told of all there is."""
    plant = PodPlant()
    plant.cluster = BatchCluster(cast(KubeApi, plant), plant._clock, plant.cluster._scope, lambda: None)
    for at in range(3 * GATHERED):
        plant.job(f"job-{at}")
        plant.gated(f"pod-{at}")
        if at < 3 * GATHERED - 2:
            plant.delete(f"job-{at}")
            plant.vanish(f"pod-{at}")
    assert len(plant.cluster._queued._due) <= GATHERED
    assert not plant.cluster.taken._touched
    there = {"job/ns/job-766", "job/ns/job-767", "pod/ns/pod-766", "pod/ns/pod-767"}
    assert set(plant.cluster.touched()) >= there
    assert set(plant.cluster.works) == there
    plant.delete("job-766")
    assert plant.cluster.touched() == ("job/ns/job-766",)
