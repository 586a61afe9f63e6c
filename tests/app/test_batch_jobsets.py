"""JobSets in the books: several sets start as one gang where each fits, are stopped whole, and found again."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec
import pytest

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_cluster import SELDOM, _believed
from autoscaler.adapters.kube.batch_holds import (
    HOLDS,
    LONG_S,
    TAKES_S,
    Binding,
    BindingSpec,
    Holds,
    Matches,
    Policy,
)
from autoscaler.adapters.kube.batch_objects import JobSet
from autoscaler.adapters.kube.batch_work import Put
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.scaling import Selector
from autoscaler.app.batch_look import Look
from autoscaler.app.batch_patience import START_WITHIN_S
from autoscaler.ports import Fault
from autoscaler.record.batch import GangState, GangTold
from tests.app.batch_plant import START_S, BatchPlant
from tests.kube.places import places_policy

pytestmark = pytest.mark.looptime

NAME: Final = "jobset/ns/train"
POLICY: Final = places_policy()


class JobSetPlant(BatchPlant):
    """Four nodes of eight GPUs; JobSets beside Jobs, and the policy that holds their pods."""

    def __init__(self, *, holds: bool = True) -> None:
        super().__init__({f"n{at}": 8 for at in range(4)}, guaranteed=32)
        self.jobsets: dict[str, dict[str, Any]] = {}
        self.holds = self.cluster._holds
        if holds:
            self.hold()
        else:
            self.read()

    def hold(self, **more: Any) -> None:
        """The policy is bound, and was made long ago."""
        meta = Meta(HOLDS, creation_timestamp=datetime.fromtimestamp(START_S - LONG_S, UTC), **more)
        self.holds.policies._cache.put(msgspec.structs.replace(POLICY, metadata=meta))
        self.holds.bindings._cache.put(Binding(meta, BindingSpec(HOLDS)))
        self.read()

    def read(self) -> None:
        """Policies and bindings were listed."""
        self.holds.policies._settle()
        self.holds.bindings._settle()

    def lead_anew(self) -> None:
        """Another replica leads, that has read nothing of policies yet."""
        clock = self.cluster._clock
        self.holds = self.cluster._holds = Holds(cast(KubeApi, None), clock, lambda: None, _believed, SELDOM)

    def jobset(
        self, name: str = "train", classes: tuple[str, ...] = ("batch", "batch"), **sets: tuple[int, int]
    ) -> None:
        """A suspended JobSet comes; of each set its pods and the GPUs of each."""
        made = [
            {
                "name": each, "replicas": pods,
                "template": {"spec": {"template": {"spec": {
                    "priorityClassName": of, "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
                }}}},
            }
            for (each, (pods, gpus)), of in zip(sets.items(), classes, strict=False)
        ]  # fmt: skip
        meta = {
            "name": name, "namespace": "ns", "uid": name, "labels": {"headroom.dev/queue": "team"},
            "creationTimestamp": "2023-11-14T22:13:20Z",
        }  # fmt: skip
        self.jobsets[name] = {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": made}, "status": {}}
        self.change(name)

    def change(self, name: str = "train", *, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        """A JobSet is edited."""
        found = self.jobsets[name]
        self._versions += 1
        found["metadata"] |= {"resourceVersion": str(self._versions), "generation": self._versions}
        found["metadata"] |= {} if annotations is None else {"annotations": annotations}
        found["spec"] |= spec
        self.cluster.on_work("JobSet", Change(f"ns/{name}", None, msgspec.convert(found, JobSet, strict=False)))

    def say(self, **status: Any) -> None:
        """The status of the JobSet `train` changes."""
        self.jobsets["train"]["status"] |= status
        self.change()

    def let_in(self) -> dict[str, tuple[Put, ...]]:
        """Start what is due, as the writer would; where each JobSet was put."""
        found = {}
        for work, plan in list(self.books.due_starts(self.now_s)):
            found[work.ref.name] = plan
            placement = msgspec.json.encode(plan).decode()
            self.change(work.ref.name, annotations={"headroom.dev/placement": placement}, suspend=False)
        return found

    def bind(self, name: str, plan: tuple[Put, ...], gpus: tuple[int, ...]) -> list[str]:
        """All pods of a JobSet are bound where it was put; their names."""
        names = []
        for at, put in enumerate(plan):
            for number in range(put.pods):
                names.append(f"{name}-{at}-{number}")
                self.pod(names[-1], put.node, gpus[put.pod_set], job=f"{name}-w-0")
                self.label(names[-1], name)
        return names

    def label(self, pod: str, name: str) -> None:
        """A pod carries the label of a JobSet."""
        old = self.cluster._pods.items[f"ns/{pod}"]
        meta = msgspec.structs.replace(old.metadata, labels={"jobset.sigs.k8s.io/jobset-name": name})
        self.cluster._pods._cache.put(msgspec.structs.replace(old, metadata=meta))

    def told(self, name: str = NAME) -> GangTold:
        """What is told of a gang."""
        return Look(self.books, self.tree, self.now_s).gang(name)


async def test_two_sets_of_two_shapes_are_one_gang_that_starts_where_each_fits() -> None:
    plant = JobSetPlant()
    plant.jobset(small=(4, 4), large=(2, 8))
    plant.look()
    plan = plant.let_in()["train"]
    by_set = {at: sorted(put.node for put in plan if put.pod_set == at) for at in (0, 1)}
    assert [len(nodes) for nodes in by_set.values()] == [2, 2]
    assert not set(by_set[0]) & set(by_set[1])
    pods = plant.bind("train", plan, (4, 8))
    plant.look()
    told = plant.told()
    assert (told.state, told.pods, told.units) == (GangState.RUNNING, 6, (("h100", 32),))
    assert len(pods) == 6
    assert set(plant.free().values()) == {0}


async def test_it_waits_whole_while_a_set_has_no_room_and_starts_when_the_other_has_ended() -> None:
    plant = JobSetPlant()
    plant.jobset("train", driver=(1, 1), workers=(3, 8))
    plant.jobset("next", driver=(1, 1), workers=(3, 8))
    plant.look()
    (first,) = plant.let_in()
    second = "next" if first == "train" else "train"
    told = plant.told(f"jobset/ns/{second}")
    assert (told.state, told.changes[0].units) == (GangState.WAITING, 25 - 7)
    plant.jobsets[first]["status"] = {"conditions": [{"type": "Completed", "status": "True"}]}
    plant.change(first)
    plant.look()
    assert list(plant.let_in()) == [second]


async def test_after_a_restart_it_is_found_where_its_pods_are_and_nobody_is_let_in_twice() -> None:
    plant = JobSetPlant()
    plant.jobset(small=(4, 4), large=(2, 8))
    plant.look()
    plant.bind("train", plant.let_in()["train"], (4, 8))
    plant.look()
    plant.begin()
    plant.look()
    assert plant.told().state is GangState.RUNNING
    assert (plant.let_in(), set(plant.free().values())) == ({}, {0})


async def test_it_is_found_by_what_its_object_says_before_a_pod_of_it_is_seen() -> None:
    plant = JobSetPlant()
    plant.jobset(small=(4, 4), large=(2, 8))
    plant.look()
    plant.let_in()
    plant.begin()
    plant.job("beside")
    plant.look()
    assert (plant.due(), plant.told().state) == ([], GangState.STARTING)


async def test_stopped_by_somebody_it_waits_again_once_its_last_pod_is_gone() -> None:
    plant = JobSetPlant()
    plant.jobset(small=(4, 4), large=(2, 8))
    plant.look()
    pods = plant.bind("train", plant.let_in()["train"], (4, 8))
    plant.look()
    plant.change(suspend=True)
    plant.look()
    assert plant.let_in() == {}, "its pods hold the GPUs still"
    plant.gone(*pods)
    plant.look()
    assert list(plant.let_in()) == ["train"]


async def test_without_the_policy_it_is_refused_and_once_that_is_bound_it_starts() -> None:
    plant = JobSetPlant(holds=False)
    plant.jobset(large=(2, 8))
    plant.job("beside")
    plant.look()
    told = plant.told()
    assert (told.state, told.reason) == (GangState.REFUSED, "UNHELD")
    assert "apply config/rbac/jobsets, on Kubernetes 1.36 or newer" in told.detail
    assert plant.due() == ["beside"]
    plant.hold()
    plant.look()
    assert plant.due() == ["beside", "train"]


PART: Final = Matches(namespace_selector=Selector({"team": "other"}))
LOOSE: Final[dict[str, tuple[Callable[[JobSetPlant], object], str]]] = {
    "the policy is deleted": (lambda plant: plant.holds.policies._cache.drop(HOLDS), "it is bound and is not there"),
    "the policy is narrowed": (
        lambda plant: plant.holds.policies._cache.put(
            Policy(Meta(HOLDS, resource_version="2"), msgspec.structs.replace(POLICY.spec, match_constraints=PART))
        ),
        "it is not the one that this version comes with",
    ),
    "the binding is narrowed": (
        lambda plant: plant.holds.bindings._cache.put(
            Binding(Meta(HOLDS, resource_version="2"), BindingSpec(HOLDS, match_resources=PART))
        ),
        "it is bound for some pods only",
    ),
    "it may not be read any more": (
        lambda plant: plant.holds.policies._note(KubeError(Fault.DENIED, "may not list", status=403)),
        "it cannot be read any more",
    ),
}


@pytest.mark.parametrize(("loosen", "words"), LOOSE.values(), ids=LOOSE)
async def test_nothing_is_released_once_its_pods_would_not_be_held_though_its_place_was_proven(
    loosen: Callable[[JobSetPlant], object], words: str
) -> None:
    plant = JobSetPlant()
    plant.jobset(large=(2, 8))
    plant.look()
    assert plant.due() == ["train"]
    loosen(plant)
    plant.look()
    told = plant.told()
    assert (plant.let_in(), told.state, told.reason) == ({}, GangState.REFUSED, "UNHELD")
    assert words in told.detail
    assert set(plant.free().values()) == {8}
    plant.hold()
    plant.look(TAKES_S)
    assert list(plant.let_in()) == ["train"]


async def test_while_the_policy_cannot_be_looked_at_nothing_is_released_and_nobody_loses_a_place_for_a_minute() -> None:
    plant = JobSetPlant()
    plant.jobset(large=(2, 8))
    plant.look()
    clock, policies = plant.cluster._clock, plant.holds.policies
    policies._note(KubeError(Fault.UNAVAILABLE, "the server is busy", status=500))
    await clock.sleep_until(clock.monotonic() + LONG_S)
    plant.look()
    assert (plant.due(), plant.told().state) == ([], GangState.STARTING)
    policies._settle()
    plant.look()
    assert plant.due() == ["train"]
    policies._note(KubeError(Fault.UNAVAILABLE, "the server is busy", status=500))
    await clock.sleep_until(clock.monotonic() + LONG_S + 1.0)
    plant.look()
    assert (plant.due(), plant.told().reason) == ([], "UNHELD")


async def test_what_others_do_with_their_policies_and_labels_on_ours_keep_no_jobset_waiting() -> None:
    plant = JobSetPlant(holds=False)
    plant.hold(generation=2)
    plant.jobset(large=(2, 8))
    plant.look()
    assert (plant.let_in(), plant.told().state) == ({}, GangState.STARTING), "API servers have yet to hear of it"
    await plant.cluster._clock.sleep_until(plant.cluster._clock.monotonic() + TAKES_S)
    plant.holds.bindings._cache.put(Binding(Meta("theirs"), BindingSpec("theirs")))
    plant.hold(generation=2, labels={"team": "infra"})
    plant.look()
    assert list(plant.let_in()) == ["train"]


@pytest.mark.parametrize("read", ["not yet", "a moment ago, and edited once"])
async def test_a_new_leader_that_does_not_know_the_policy_yet_keeps_what_others_were_told_to_leave_for(
    read: str,
) -> None:
    plant = JobSetPlant()
    clock = plant.cluster._clock
    lows = [f"low{at}" for at in range(4)]
    for name in lows:
        plant.job(name)
    plant.look()
    plant.start()
    for name in lows:
        plant.pod(f"{name}-0", plant.work(name).put[0].node, job=name)
    plant.classes(high=-10)
    plant.jobset(classes=("high",), large=(2, 8))
    plant.look(100.0)
    left = plant.stop()
    assert (len(left), list(plant.books.room.kept_for)) == (2, [NAME])
    saved = plant.books.packed(plant.now_s)
    plant.lead_anew()
    if read != "not yet":
        plant.hold(generation=2)
    plant.begin(saved)
    plant.look()
    plant.gone(*(f"{name}-0" for name in left))
    plant.look()
    assert (plant.due(), plant.told().state) == ([], GangState.STARTING), "nor do those start who left for it"
    plant.hold(generation=2)
    await clock.sleep_until(clock.monotonic() + TAKES_S)
    plant.look()
    assert list(plant.let_in()) == ["train"]


UNREAD: Final = {
    "neither may be read": (403, 403, 0.0),
    "policies may not be read": (403, 200, 0.0),
    "bindings are broken for a minute": (200, 500, LONG_S + 1.0),
}


@pytest.mark.parametrize(("policies", "bindings", "after_s"), UNREAD.values(), ids=UNREAD)
async def test_what_could_never_be_read_is_told_as_that_and_not_as_missing(
    policies: int, bindings: int, after_s: float
) -> None:
    plant = JobSetPlant()
    plant.lead_anew()
    clock, kept = plant.cluster._clock, msgspec.structs.replace(POLICY, metadata=Meta(HOLDS))
    for informer, status, one in (
        (plant.holds.policies, policies, kept),
        (plant.holds.bindings, bindings, Binding(Meta(HOLDS), BindingSpec(HOLDS))),
    ):
        if status == 200:
            cast(Any, informer)._cache.put(one)
            informer._settle()
        else:
            informer._note(KubeError(Fault.DENIED if status == 403 else Fault.UNAVAILABLE, "no", status=status))
    await clock.sleep_until(clock.monotonic() + after_s)
    plant.jobset(large=(2, 8))
    plant.look()
    assert plant.told().reason == "UNHELD"
    assert "is in force, it cannot be read; apply" in plant.told().detail


async def test_one_that_runs_stays_in_the_books_when_the_policy_goes() -> None:
    plant = JobSetPlant()
    plant.jobset(large=(2, 8))
    plant.look()
    plant.bind("train", plant.let_in()["train"], (8,))
    plant.look()
    plant.holds.bindings._cache.drop(HOLDS)
    plant.begin()
    plant.look()
    assert plant.told().state is GangState.RUNNING


async def test_where_the_right_to_read_them_is_taken_away_one_that_runs_keeps_its_gpus_and_that_is_told() -> None:
    plant = JobSetPlant()
    plant.jobset(large=(2, 8))
    plant.look()
    pods = plant.bind("train", plant.let_in()["train"], (8,))
    informer = plant.cluster._kinds["JobSet"]
    informer._cache.put(msgspec.convert(plant.jobsets["train"], JobSet, strict=False))
    informer._settle()
    assert [words for words in plant.cluster.unread() if "JobSets" in words] == []
    informer._note(KubeError(Fault.DENIED, "GET jobsets: may not list", status=403))
    plant.gone(*pods)
    plant.look()
    assert sorted(plant.free().values()) == [0, 0, 8, 8], "whether it has ended is not known"
    (told,) = [words for words in plant.cluster.unread() if "JobSets" in words]
    assert "stay what they were then: GET jobsets: may not list" in told


REFUSED: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "absurd widths": ({"a": (2**40, 8)}, "ABSURD", "are 1099511627776 at once; ask for 1 to 16384"),
    "many sets of too many units": ({"a": (16_384, 8), "b": (16_384, 10**9)}, "ABSURD", "ask for 1048576 at most"),
    "no pod": ({"a": (0, 8)}, "ABSURD", "are 0 at once; ask for 1 to 16384"),
    "fewer than none": ({"a": (1, 8), "b": (-1, 8)}, "ABSURD", "are -1 at once; ask for 1 to 16384"),
    "no GPU": ({"a": (1, 0)}, "UNKNOWN_SHAPE", "the pods of a ask for no GPU; ask for one of nvidia.com/gpu"),
    "two classes": (
        {"a": (1, 8), "b": (1, 8), "classes": ("batch", "")}, "MIXED_CLASSES", "give all of them the same one",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "reason", "words"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_meant_is_refused_by_name_and_keeps_nobody_else(
    given: dict[str, Any], reason: str, words: str
) -> None:
    plant = JobSetPlant()
    plant.jobset(**given)
    plant.job("beside")
    plant.look()
    told = plant.told()
    assert (told.state, told.reason) == (GangState.REFUSED, reason)
    assert words in told.detail
    assert plant.due() == ["beside"]


async def test_a_job_of_a_jobset_is_no_gang_and_its_pods_are_not_strangers() -> None:
    plant = JobSetPlant()
    plant.jobset(large=(2, 8))
    plant.job(
        "train-large-0", ownerReferences=[{"kind": "JobSet", "name": "train", "uid": "train", "controller": True}]
    )
    plant.look()
    plant.bind("train", plant.let_in()["train"], (8,))
    plant.look()
    assert list(plant.cluster.works) == [NAME]
    assert plant.cluster.seen(plant.books.is_tracked, plant.now_s).others == ()


@pytest.mark.parametrize("anew", [False, True], ids=["the same books", "books that are written anew"])
async def test_stopped_after_one_of_its_sets_had_finished_it_starts_again_with_the_others(anew: bool) -> None:
    plant = JobSetPlant()
    pods = _without_its_judge(plant)
    plant.say(replicatedJobsStatus=[{"name": "judge", "succeeded": 1}])
    plant.look()
    assert (plant.told().state, plant.told().pods) == (GangState.RUNNING, 4)
    plant.change(suspend=True)
    plant.gone(*pods)
    plant.look()
    plan = plant.let_in()["train"]
    assert [put.pod_set for put in _each(plan)] == [1, 1, 1]
    again = plant.bind("train", plan, (2, 8))
    assert {plant.cluster._pods.items[f"ns/{name}"].spec.node_name for name in again} == {p.node for p in plan}
    plant.look()
    if anew:
        plant.begin()
    plant.look(2 * START_WITHIN_S)
    assert ([work.ref.name for work, _ in plant.books.due_stops()], plant.told().state) == ([], GangState.RUNNING)
    assert sorted(plant.free().values()) == [0, 0, 0, 8]


async def test_one_that_was_never_suspended_is_not_taken_for_new_whenever_the_books_are_written_anew() -> None:
    """Its controller never said when it began: one of its pods has ended well since, and nobody waits for another."""
    plant = JobSetPlant()
    _without_its_judge(plant)
    plant.begin()
    plant.look(2 * START_WITHIN_S)
    assert ([work.ref.name for work, _ in plant.books.due_stops()], plant.told().state) == ([], GangState.RUNNING)


@pytest.mark.parametrize("driver", ["waiting for CPU", "bound"])
async def test_a_driver_that_is_placed_by_nobody_makes_no_running_gang_late_when_the_books_are_written_anew(
    driver: str,
) -> None:
    plant = JobSetPlant()
    plant.jobset(driver=(1, 0), workers=(3, 8))
    plant.look()
    plant.bind("train", plant.let_in()["train"], (8,))
    plant.pod("driver", "n0" if driver == "bound" else "", 0, job="train-driver-0")
    plant.label("driver", "train")
    plant.look(3_600.0)
    assert plant.told().state is GangState.RUNNING
    plant.begin()
    plant.look()
    assert plant.told().state is GangState.RUNNING
    plant.look(2 * START_WITHIN_S)
    assert [work.ref.name for work, _ in plant.books.due_stops()] == []


async def test_a_worker_that_is_made_anew_while_the_driver_runs_is_waited_for_and_not_for_ever() -> None:
    plant = JobSetPlant()
    plant.jobset(driver=(1, 0), workers=(3, 8))
    plant.look()
    pods = plant.bind("train", plant.let_in()["train"], (8,))
    plant.pod("driver", "n0", 0, job="train-driver-0")
    plant.label("driver", "train")
    plant.look(3_600.0)
    plant.pod(pods[0], "", 8, job="train-w-0")
    plant.label(pods[0], "train")
    plant.begin()
    plant.look()
    assert plant.told().state is GangState.STARTING
    plant.look(START_WITHIN_S)
    assert [work.ref.name for work, _ in plant.books.due_stops()] == ["train"]


def _without_its_judge(plant: JobSetPlant) -> list[str]:
    """A JobSet runs for an hour, and then the only pod of one of its sets is gone; all of its pods."""
    plant.jobset(judge=(1, 2), workers=(3, 8))
    plant.look()
    plan = plant.let_in()["train"]
    pods = plant.bind("train", plan, (2, 8))
    plant.look(3_600.0)
    plant.gone(next(name for name, put in zip(pods, _each(plan), strict=True) if put.pod_set == 0))
    return pods


def _each(plan: tuple[Put, ...]) -> list[Put]:
    """Where each pod was put."""
    return [put for put in plan for _ in range(put.pods)]
