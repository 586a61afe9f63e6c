"""Jobs that Kueue takes though they name no queue of it: known by its Workloads, as its controller writes them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, cast

import msgspec
import pytest

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_kueue import GONE_S, PATHS, TAKEN_WITHIN_S, Workload
from autoscaler.adapters.kube.batch_objects import Job
from autoscaler.adapters.kube.batch_scope import BatchScope
from autoscaler.api.shapes import Shape
from autoscaler.runtime.clock import ScaledClock

pytestmark = pytest.mark.looptime

KEY: Final = "job/ns/train"


def cluster(changed: Callable[[], None] = lambda: None) -> BatchCluster:
    scope = BatchScope({"h100": Shape(sku="h100")}, ("rack",), "slots", lambda _: False)
    return BatchCluster(cast(KubeApi, None), ScaledClock(), scope, changed)


def put_job(made: BatchCluster, uid: str = "u-1", *, suspend: bool = True, **more: Any) -> None:
    found = {
        "metadata": {
            "name": "train", "namespace": "ns", "uid": uid, "resourceVersion": uid, "generation": 1,
            "labels": {"headroom.dev/queue": "team"}, **more,
        },
        "spec": {"suspend": suspend, "parallelism": 2, "completions": 2, "template": {"spec": {"containers": [{}]}}},
    }  # fmt: skip
    made._kinds["Job"]._cache.put(msgspec.convert(found, Job, strict=False))


@asynccontextmanager
async def reading(made: BatchCluster) -> AsyncIterator[None]:
    """What is due is read anew meanwhile."""
    task = asyncio.create_task(made._claims.run())
    yield
    task.cancel()


def serve(made: BatchCluster) -> None:
    """Kueue's newer Workloads are served, and there is none; of the older ones the server knows nothing."""
    for path, informer in made._kueue.items():
        informer.absent = path != PATHS[-1]
        informer._settle()


def workload(uid: str = "u-1", *, version: str = "1", controller: bool = True) -> Workload:
    """What Kueue writes for a Job: `job-NAME-HASH`, controlled by it, with its UID as a label."""
    return msgspec.convert(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {
                "name": "job-train-3f4ab", "namespace": "ns", "uid": "w-1", "resourceVersion": version,
                "labels": {"kueue.x-k8s.io/job-uid": uid}, "finalizers": ["kueue.x-k8s.io/resource-in-use"],
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": controller}
                ],
            },
            "spec": {"active": True, "queueName": "", "podSets": [{"name": "main", "count": 2}]},
        },
        Workload,
    )  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("first", ["the Job", "the Workload"])
async def test_a_job_without_a_queue_of_kueue_is_kueues_from_when_its_workload_is_seen(first: str, path: str) -> None:
    made = cluster()
    if first == "the Workload":
        made._kueue[path]._cache.put(workload())
    put_job(made)
    if first == "the Job":
        assert made.works[KEY].manager == ""
        made.touched()
        made._kueue[path]._cache.put(workload())
    assert made.works[KEY].manager == "Kueue"
    assert made.touched() == (KEY,), "the next look hears of it"
    made._kueue[path]._cache.drop("ns/job-train-3f4ab")
    async with reading(made):
        await asyncio.sleep(GONE_S - 1.0)
        assert (made.works[KEY].manager, made.touched()) == ("Kueue", ())
        await asyncio.sleep(2.0)
    assert made.works[KEY].manager == "", "Kueue was taken off the cluster, and its objects with it"
    assert made.touched() == (KEY,)


async def test_a_job_stays_kueues_while_kueue_makes_its_workload_anew() -> None:
    """As it does where somebody changed the Job: one goes, the next one comes 13 ms later, however often."""
    rings: list[str] = []
    made = cluster(lambda: rings.append("changed"))
    put_job(made)
    made._kueue[PATHS[1]]._cache.put(workload())
    made.touched()
    rings.clear()
    async with reading(made):
        for _ in range(20):
            made._kueue[PATHS[1]]._cache.drop("ns/job-train-3f4ab")
            assert made.works[KEY].manager == "Kueue"
            await asyncio.sleep(0.013)
            made._kueue[PATHS[1]]._cache.put(workload())
            await asyncio.sleep(GONE_S / 2)
    assert (rings, made.touched(), made.works[KEY].manager) == ([], (), "Kueue")


async def test_where_kueue_is_there_a_new_job_is_not_heard_of_before_kueue_could_have_taken_it() -> None:
    made = cluster()
    serve(made)
    async with reading(made):
        put_job(made)
        await asyncio.sleep(TAKEN_WITHIN_S - 0.1)
        put_job(made, annotations={"note": "edited"}, generation=2, resourceVersion="2")
        assert dict(made.works) == {}
        await asyncio.sleep(0.2)
        assert made.works[KEY].manager == ""
        assert made.touched() == (KEY,)
        put_job(made, annotations={"note": "again"}, generation=3, resourceVersion="3")
        assert made.works[KEY].generation == 3, "one that is known is heard of at once"


async def test_a_new_job_whose_workload_comes_is_kueues_at_once() -> None:
    made = cluster()
    serve(made)
    async with reading(made):
        put_job(made)
        await asyncio.sleep(0.3)
        made._kueue[PATHS[1]]._cache.put(workload())
        assert made.works[KEY].manager == "Kueue"
        made.touched()
        await asyncio.sleep(2 * TAKEN_WITHIN_S)
    assert made.works[KEY].manager == "Kueue"


@pytest.mark.parametrize("case", ["made long ago", "no Kueue", "it runs", "Kueue's by its label"])
async def test_nobody_is_held_back_for_a_kueue_that_will_not_come(case: str) -> None:
    made = cluster()
    if case != "no Kueue":
        serve(made)
    async with reading(made):
        await asyncio.sleep(600.0)
        more: dict[str, Any] = {"creationTimestamp": "1970-01-01T00:09:59Z"}
        if case == "made long ago":
            more = {"creationTimestamp": "1970-01-01T00:09:56Z"}
        if case == "Kueue's by its label":
            more["labels"] = {"kueue.x-k8s.io/queue-name": "lane"}
        put_job(made, suspend=case != "it runs", **more)
        assert list(made.works) == [KEY]


async def test_a_job_that_goes_while_it_is_held_back_is_forgotten() -> None:
    made = cluster()
    serve(made)
    async with reading(made):
        put_job(made)
        made._kinds["Job"]._cache.drop("ns/train")
        await asyncio.sleep(2 * TAKEN_WITHIN_S)
    assert dict(made.works) == {}


async def test_what_both_versions_of_the_api_show_is_kueues_until_neither_does() -> None:
    made = cluster()
    put_job(made)
    for path in PATHS:
        made._kueue[path]._cache.put(workload())
    async with reading(made):
        made._kueue[PATHS[0]]._cache.drop("ns/job-train-3f4ab")
        await asyncio.sleep(2 * GONE_S)
        assert made.works[KEY].manager == "Kueue"
        made._kueue[PATHS[1]]._cache.drop("ns/job-train-3f4ab")
        await asyncio.sleep(2 * GONE_S)
        assert made.works[KEY].manager == ""


@pytest.mark.parametrize(
    "found",
    [workload("u-0"), workload(controller=False)],
    ids=["of another Job of its name", "of somebody who only refers to it"],
)
async def test_a_workload_of_somebody_else_leaves_a_job_ours(found: Workload) -> None:
    made = cluster()
    made._kueue[PATHS[0]]._cache.put(found)
    put_job(made)
    assert made.works[KEY].manager == ""


async def test_a_job_that_is_edited_stays_kueues_and_one_made_anew_under_its_name_is_not() -> None:
    made = cluster()
    made._kueue[PATHS[0]]._cache.put(workload())
    put_job(made)
    put_job(made, annotations={"note": "edited"}, generation=2, resourceVersion="2")
    assert made.works[KEY].manager == "Kueue"
    put_job(made, "u-2")
    assert made.works[KEY].manager == ""


async def test_what_the_server_answers_to_a_write_of_ours_does_not_take_a_job_from_kueue() -> None:
    made = cluster()
    put_job(made)
    ours = made.works[KEY]
    made._kueue[PATHS[0]]._cache.put(workload())
    made.written(replace(ours, generation=2))
    assert made.works[KEY].manager == "Kueue"


async def test_what_kueue_writes_into_a_workload_later_wakes_nobody_until_it_is_gone() -> None:
    """Quota reserved, admitted, pods ready: a hundred statuses of one Workload, which is Kueue's all the while."""
    rings: list[str] = []
    made = cluster(lambda: rings.append("changed"))
    put_job(made)
    made._kueue[PATHS[0]]._cache.put(workload())
    assert made.touched() == (KEY,)
    rings.clear()
    for version in range(2, 102):
        made._kueue[PATHS[0]]._cache.put(workload(version=str(version)))
    assert (len(rings), made.touched(), made.works[KEY].manager) == (0, (), "Kueue")
    made._kueue[PATHS[0]]._cache.drop("ns/job-train-3f4ab")
    async with reading(made):
        await asyncio.sleep(2 * GONE_S)
    assert (len(rings), made.touched(), made.works[KEY].manager) == (1, (KEY,), "")
