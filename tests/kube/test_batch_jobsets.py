"""What is read of JobSets, whose pods are whose, and what is sent to let one start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube import batch_cluster, batch_holds
from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_jobsets import of_jobset
from autoscaler.adapters.kube.batch_objects import JobSet
from autoscaler.adapters.kube.batch_pods import gang_of
from autoscaler.adapters.kube.batch_scope import BatchScope
from autoscaler.adapters.kube.batch_work import Put, Work
from autoscaler.adapters.kube.batch_writer import BatchWriter
from autoscaler.adapters.kube.informer import InformerTimes
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.adapters.kube.retry import BackoffBounds
from autoscaler.api.shapes import Shape
from autoscaler.runtime.clock import ScaledClock, WallClock
from tests.kube.clients import client, until
from tests.kube.fakeserver import Connection, FakeServer, Request, status
from tests.kube.patched import Patched
from tests.kube.places import places

ROOT: Final = "/spec/replicatedJobs"


def box(gpus: str) -> dict[str, Any]:
    return {"resources": {"limits": {"nvidia.com/gpu": gpus} if gpus else {}}}


def replicated(name: str, replicas: int = 1, gpus: str = "8", *, meta: Any = None, **spec: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [box(gpus)]}} | ({} if meta is None else {"metadata": meta})
    more = {key: spec.pop(key) for key in ("dependsOn",) if key in spec}
    return {"name": name, "replicas": replicas, "template": {"spec": {"template": pod, **spec}}, **more}


def found(*sets: dict[str, Any], **given: Any) -> dict[str, Any]:
    meta = {
        "name": "train", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 1,
        "labels": {"headroom.dev/queue": "team"} | given.pop("labels", {}), "annotations": {"theirs": "kept"},
    }  # fmt: skip
    over = [{"name": name, "succeeded": jobs, "ready": 0} for name, jobs in given.pop("succeeded", {}).items()]
    status = {"conditions": given.pop("conditions", []), "replicatedJobsStatus": over}
    meta |= {
        key: given.pop(key) for key in ("creationTimestamp", "deletionTimestamp", "ownerReferences") if key in given
    }
    return {"metadata": meta, "spec": {"suspend": True, "replicatedJobs": list(sets), **given}, "status": status}


def read(*sets: dict[str, Any], **given: Any) -> Work | None:
    return of_jobset(msgspec.convert(found(*sets, **given), JobSet, strict=False), 100.0)


def work(*sets: dict[str, Any], **given: Any) -> Work:
    made = read(*sets, **given)
    assert made is not None
    return made


def refused(one: Work) -> list[tuple[str, str]]:
    """Codes and fields of what keeps it from starting."""
    assert one.says is not None
    return [(each.code, each.field) for each in one.says.findings if each.stops]


def test_a_set_is_as_wide_as_all_pods_of_its_jobs_that_run_at_once() -> None:
    sets = work(
        replicated("a", 3, parallelism=2, completions=9), replicated("b", 2), replicated("c", 1, parallelism=4)
    ).sets
    assert [(each.name, each.pods) for each in sets] == [("a", 6), ("b", 2), ("c", 4)]


@pytest.mark.parametrize(
    ("succeeded", "pods", "placed"),
    [({"a": 1}, [4, 1], (0, 1)), ({"a": 3, "w": 0}, [0, 1], (1,)), ({"a": 3, "w": 1}, [6, 1], (0, 1))],
    ids=["one Job", "a whole set", "all, and it is about to end"],
)
def test_jobs_that_ended_well_are_not_made_again(
    succeeded: dict[str, int], pods: list[int], placed: tuple[int, ...]
) -> None:
    one = work(replicated("a", 3, parallelism=2), replicated("w"), succeeded=succeeded)
    assert ([each.pods for each in one.sets], one.placed) == (pods, placed)


def test_sets_without_a_gpu_or_a_pod_are_not_placed_and_the_others_keep_their_place_in_the_object() -> None:
    sets = work(
        replicated("driver", gpus=""), replicated("none", 0), replicated("zero", gpus="0"), replicated("w")
    ).sets
    assert [(each.name, each.at) for each in sets] == [("w", f"{ROOT}/3/template/spec/template/spec")]


@pytest.mark.parametrize(("gpus", "replicas"), [("", 1), ("8", 0), ("1e999", 1), ("8", -3)])
def test_of_a_jobset_that_asks_for_nothing_that_is_meant_everything_is_kept_to_be_told(
    gpus: str, replicas: int
) -> None:
    assert len(work(replicated("a", replicas, gpus)).sets) == 1


def test_absurd_widths_are_numbers_like_others_and_refused_by_whoever_takes_gangs_in() -> None:
    (one,) = work(replicated("a", 2**31 - 1, parallelism=2**31 - 1)).sets
    assert one.pods == (2**31 - 1) ** 2


STOPPED: Final[dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any], tuple[str, str]]]] = {
    "one that depends on another": (
        (replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Ready"}])), {},
        ("STAGED", "spec.replicatedJobs[1].dependsOn"),
    ),
    "one after the other": (
        (replicated("a"), replicated("b")), {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
        ("STAGED", "spec.startupPolicy"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sets", "spec", "why"), STOPPED.values(), ids=STOPPED)
def test_sets_that_wait_for_each_other_are_no_gang(
    sets: tuple[dict[str, Any], ...], spec: dict[str, Any], why: tuple[str, str]
) -> None:
    assert refused(work(*sets, **spec)) == [why]


def test_the_first_of_an_order_and_a_driver_that_waits_for_it_are_a_gang() -> None:
    driver = replicated("driver", gpus="", dependsOn=[{"name": "a", "status": "Ready"}])
    assert refused(work(replicated("a"), driver)) == []
    assert refused(work(replicated("a"), driver, startupPolicy={"startupPolicyOrder": "InOrder"})) == []


def test_a_domain_for_each_job_alone_is_not_proven_wherever_it_is_asked_for() -> None:
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    inner = replicated("a")
    inner["template"]["metadata"] = {"annotations": {key: "rack"}}
    assert refused(work(inner)) == [("EXCLUSIVE", key)]


def test_what_others_manage_is_theirs_and_what_is_a_part_of_something_is_no_gang() -> None:
    assert work(replicated("a"), labels={"kueue.x-k8s.io/queue-name": "q"}).manager == "Kueue"
    assert work(replicated("a"), managedBy="kueue.x-k8s.io/multikueue").manager == "kueue.x-k8s.io/multikueue"
    assert work(replicated("a"), managedBy="jobset.sigs.k8s.io/jobset-controller").manager == ""
    assert read(replicated("a"), ownerReferences=[{"kind": "TrainJob", "name": "t", "controller": True}]) is None


def test_how_far_it_is_stands_in_its_conditions() -> None:
    def ended(kind: str) -> tuple[bool, bool]:
        one = work(replicated("a"), conditions=[{"type": kind, "status": "True"}])
        return one.ended, one.finished

    assert [ended(kind) for kind in ("Suspended", "Failed", "Completed")] == [
        (False, False),
        (True, False),
        (True, True),
    ]
    resumed = [{"type": "Suspended", "status": "False", "lastTransitionTime": "1970-01-01T00:01:00Z"}]
    assert work(replicated("a"), conditions=resumed).started_s == 60.0
    assert work(replicated("a")).started_s is None
    made = {"creationTimestamp": "1970-01-01T00:00:30Z", "suspend": False}
    assert work(replicated("a"), **made).started_s == 30.0, "it was never suspended"
    waits = [resumed[0] | {"status": "True"}]
    assert work(replicated("a"), **made, conditions=waits).started_s is None, "its controller has yet to hear of it"
    assert work(replicated("a"), deletionTimestamp="2026-01-01T00:00:00Z").ended


def test_pods_are_the_jobsets_whose_jobs_made_them() -> None:
    def gang(owner: str, name: str, labels: dict[str, str]) -> str | None:
        owners = [{"kind": owner, "name": name, "controller": True}]
        return gang_of(msgspec.convert({"namespace": "ns", "labels": labels, "ownerReferences": owners}, Meta))

    mine = {"jobset.sigs.k8s.io/jobset-name": "train"}
    assert gang("Job", "train-workers-0", mine) == "jobset/ns/train"
    assert gang("Job", "train-workers-0", {}) == "job/ns/train-workers-0"
    assert gang("Job", "other-workers-0", mine) == "job/ns/other-workers-0", "a label that its Job belies"
    assert gang("ReplicaSet", "train-workers-0", mine) is None


def answering() -> Patched:
    """Takes patches and answers with a JobSet that may run."""
    answer = found(replicated("a"), suspend=False)
    answer["metadata"]["generation"] = 2
    return Patched(lambda _: answer)


@pytest.mark.looptime
async def test_a_start_is_one_patch_that_holds_each_set_to_its_own_nodes_and_changes_no_affinity() -> None:
    server = answering()
    one = work(
        replicated("a", 2), replicated("driver", gpus=""), replicated("b", 1, "1", meta={"annotations": {"x": "y"}})
    )
    puts = [Put("n1", "h100", 0, 1), Put("n2", "h100", 0, 1), Put("n3", "h100", 1, 1)]
    hosts = {"n1": "h1", "n2": "h2", "n3": "h3"}
    done = await BatchWriter(server, ScaledClock(), lambda: True).admit(one, puts, hosts, ["nvidia.com/gpu"])
    assert (done.became, done.work and done.work.suspended, done.work and done.work.generation) == (
        Became.DONE,
        False,
        2,
    )
    [(path, changes)] = server.sent
    assert path == "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ns/jobsets/train"
    by_path = {change["path"]: change.get("value") for change in changes}
    assert not [at for at in by_path if "affinity" in at]
    assert by_path["/spec/suspend"] is False
    assert by_path[f"{ROOT}/0/template/spec/template/metadata"] == {"annotations": {"headroom.dev/hosts": "h1,h2"}}
    kept = {"x": "y", "headroom.dev/hosts": "h3"}
    assert by_path[f"{ROOT}/2/template/spec/template/metadata/annotations"] == kept
    tolerates = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert by_path[f"{ROOT}/0/template/spec/template/spec/tolerations"] == tolerates
    assert not [at for at in by_path if at.startswith(f"{ROOT}/1/")], "the driver goes where it likes"


@pytest.mark.looptime
async def test_a_set_all_of_whose_jobs_have_ended_is_not_held_anew() -> None:
    server = answering()
    one = work(replicated("a"), replicated("b"), succeeded={"a": 1})
    await BatchWriter(server, ScaledClock(), lambda: True).admit(one, [Put("n1", "h100", 1, 1)], {"n1": "h1"}, ["g"])
    [(_, changes)] = server.sent
    held = [change["path"] for change in changes if change["path"].startswith(ROOT)]
    assert held != []
    assert all(path.startswith(f"{ROOT}/1/") for path in held)


@pytest.mark.looptime
async def test_one_that_never_said_whether_it_may_run_is_stopped_all_the_same() -> None:
    raw, server = found(replicated("a")), answering()
    del raw["spec"]["suspend"]
    runs = of_jobset(msgspec.convert(raw, JobSet), 0.0)
    assert runs is not None
    assert not runs.suspended
    await BatchWriter(server, ScaledClock(), lambda: True).stop(runs)
    assert server.sent[0][1][1:] == [{"op": "add", "path": "/spec/suspend", "value": True}]


def test_an_affinity_that_its_author_wrote_is_read_from_the_object_though_it_was_put_somewhere() -> None:
    inner = replicated("a")
    own: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    inner["template"]["spec"]["template"]["spec"]["affinity"] = own
    raw = found(inner)
    raw["metadata"]["annotations"] = {"headroom.dev/placement": "[]", "headroom.dev/affinity": "[null]"}
    one = of_jobset(msgspec.convert(raw, JobSet), 0.0)
    assert one is not None
    assert one.affinities == (own,)


PLAIN: Final = (
    "/api/v1/pods", "/api/v1/nodes", "/apis/batch/v1/jobs", "/apis/headroom.dev/v1alpha1/batchqueues",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
)  # fmt: skip
WITHIN_S: Final = 20.0
"""The machine may be busy."""

JOBSETS: Final = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
BINDINGS: Final = f"{batch_holds.ROOT}/{batch_holds.BINDINGS}"
POLICIES: Final = f"{batch_holds.ROOT}/{batch_holds.POLICIES}"


@asynccontextmanager
async def following(server: FakeServer) -> AsyncIterator[BatchCluster]:
    """A cluster that is followed, and was listed."""
    server.objects |= {path: {} for path in PLAIN}
    scope = BatchScope({"h100": Shape(sku="h100")}, (), "slots", lambda _: False)
    async with client(server.url) as api, asyncio.TaskGroup() as group:
        cluster = BatchCluster(api, WallClock(), scope, lambda: None)
        task = group.create_task(cluster.run())
        await cluster.wait_synced()
        await cluster.relist()
        yield cluster
        task.cancel()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_cluster, "SELDOM", InformerTimes(absent_s=0.02, backoff=BackoffBounds(0.01, 0.02, 0.02)))
    monkeypatch.setattr(batch_cluster, "BELIEVED_S", 0.2)
    monkeypatch.setattr(batch_holds, "TAKES_S", 1e9)


async def test_a_cluster_without_jobsets_is_whole_and_one_that_gets_them_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FakeServer() as server, following(server) as cluster:
        assert (cluster.problems(), cluster.unread(), cluster.unheld()) == ((), (), "it is not bound")
        server.objects |= {JOBSETS: {}, BINDINGS: {}, POLICIES: {}}
        raw = found(replicated("a"))
        raw["metadata"].pop("resourceVersion")
        server.put("train", path=JOBSETS, **(raw | {"metadata": raw["metadata"] | {"namespace": "prod"}}))
        await until(lambda: "jobset/prod/train" in cluster.touched(), WITHIN_S)
        assert "jobset/prod/train" in cluster.works
        server.put("headroom-places", path=POLICIES, spec=places()["spec"])
        server.put("headroom-places", path=BINDINGS, spec={"policyName": "headroom-places"})
        await until(lambda: not cluster.unheld(), WITHIN_S)
        assert cluster.touched() == ("jobset/prod/train",), "it is refused no more"
        assert not cluster.sees_policy(), "API servers have yet to hear of it"
        monkeypatch.setattr(batch_holds, "TAKES_S", 0.0)
        assert cluster.sees_policy(), "it may start now"
        monkeypatch.setattr(batch_holds, "TAKES_S", 1e9)
        old = {"creationTimestamp": "2020-01-01T00:00:00Z", "generation": 1}
        for path in (POLICIES, BINDINGS):
            spec = server.objects[path]["prod/headroom-places"]["spec"]
            server.delete("headroom-places", path=path)
            server.put("headroom-places", path=path, metadata=old, spec=spec)
        await until(cluster.sees_policy, WITHIN_S)  # it was bound long before we looked
        server.put("headroom-places", path=POLICIES, metadata=old | {"generation": 2}, spec=places()["spec"])
        await until(lambda: not cluster.sees_policy(), WITHIN_S)  # that it was made long before says nothing
        assert not cluster.unheld()
        server.delete("headroom-places", path=POLICIES)
        await until(lambda: cluster.unheld() == "it is bound and is not there", WITHIN_S)


@pytest.mark.parametrize(("code", "told"), [(403, 0), (500, 1)], ids=["not ours to read", "broken"])
async def test_jobsets_that_cannot_be_read_keep_nobody_else_waiting(code: int, told: int) -> None:
    async with FakeServer() as server:

        async def refuses(request: Request, connection: Connection) -> None:
            answers = status(code, "Reason", "no") if request.path == JOBSETS else server.honest
            await answers(request, connection)

        server.always = refuses
        async with following(server) as cluster:
            await asyncio.sleep(0.3)
            assert cluster.problems() == ()
            assert len(cluster.unread()) == told
            assert all(words.startswith("JobSets are not followed: ") for words in cluster.unread())
