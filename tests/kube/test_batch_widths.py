"""How many pods work may have: what of it is read in each kind, what a start writes, and what a stop writes back."""

from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.batch_jobsets import of_jobset
from autoscaler.adapters.kube.batch_objects import Job, JobSet
from autoscaler.adapters.kube.batch_training import TRAINING, TrainingJob
from autoscaler.adapters.kube.batch_widths import WIDTH, WorkWidth
from autoscaler.adapters.kube.batch_work import Put, Work, of_job
from autoscaler.adapters.kube.batch_writer import BatchWriter
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.runtime.clock import ScaledClock
from tests.kube.patched import Changes, Patched

AT: Final = "/spec/parallelism"
TOGETHER: Final = (AT, "/spec/completions")


def meta(bounds: tuple[str, str], chosen: str = "") -> dict[str, Any]:
    """Of an object with such a least and most; empty for none."""
    notes = {f"headroom.dev/{name}-width": text for name, text in zip(("min", "max"), bounds, strict=True) if text}
    return {
        "name": "train", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 1,
        "labels": {"headroom.dev/queue": "team"}, "annotations": notes | ({WIDTH: chosen} if chosen else {}),
    }  # fmt: skip


def job(
    bounds: tuple[str, str] = ("2", "8"), *, chosen: str = "", suspend: bool = True, over: int = 0, **spec: Any
) -> Work:
    given = {"parallelism": 6, **spec}
    found = {"metadata": meta(bounds, chosen), "spec": {"suspend": suspend, **given}, "status": {"succeeded": over}}
    read = of_job(msgspec.convert(found, Job), 0.0)
    assert read is not None
    return read


def remarks(work: Work) -> list[str]:
    assert work.says is not None
    return [each.words for each in work.says.findings]


def test_a_job_of_any_number_of_ends_changes_only_how_many_run_at_once() -> None:
    assert job().width == WorkWidth(0, (AT,), stands=6, written=6, least=2, most=8)


def test_one_with_so_many_ends_to_come_is_no_wider_than_those() -> None:
    assert job(completions=100).width == WorkWidth(0, (AT,), 6, 6, 2, 8)
    assert job(completions=100, over=96).width == WorkWidth(0, (AT,), 6, 6, 2, 4)
    assert job(completions=100, over=99).width == WorkWidth(0, (AT,), 6, 6, 1, 1)


def test_an_indexed_one_whose_pods_all_run_at_once_changes_both_and_none_once_a_rank_has_ended() -> None:
    indexed: Any = {"completionMode": "Indexed", "completions": 6}
    assert job(**indexed).width == WorkWidth(0, TOGETHER, 6, 6, 2, 8)
    assert job(**indexed, over=1).width is None
    assert job(completionMode="Indexed", completions=60).width == WorkWidth(0, (AT,), 6, 6, 2, 8)


@pytest.mark.parametrize(
    ("bounds", "least", "most"), [(("2", ""), 2, 6), (("", "9"), 6, 9), (("7", "9"), 7, 9)], ids=str
)
def test_a_bound_that_is_left_out_is_what_is_written(bounds: tuple[str, str], least: int, most: int) -> None:
    width = job(bounds).width
    assert width is not None
    assert (width.least, width.most, width.written) == (least, most, 6)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (
            ("8", ""),
            "headroom.dev/min-width: 8 is above the 6 of spec.parallelism; lower it, or give max-width besides",
        ),
        (
            ("", "4"),
            "headroom.dev/max-width: 4 is below the 6 of spec.parallelism; raise it, or give min-width besides",
        ),
        (("4", "2"), "headroom.dev/min-width: 4 is above max-width 2; lower it, or raise max-width"),
    ],
    ids=["least above what is written", "most below it", "least above most"],
)
def test_bounds_that_contradict_what_is_written_are_named(bounds: tuple[str, str], words: str) -> None:
    found = job(bounds)
    assert remarks(found) == [words]
    assert found.says is not None
    assert found.says.refused


def test_a_job_that_says_nothing_of_it_and_one_that_its_author_paused_are_as_wide_as_they_are() -> None:
    assert job(("", "")).width is None
    assert job(parallelism=0).width is None


def test_what_was_written_is_read_off_the_object_until_somebody_else_changes_the_number() -> None:
    chosen = '{"pods":4,"written":6}'
    assert job(chosen=chosen, parallelism=4).width == WorkWidth(0, (AT,), stands=4, written=6, least=2, most=8)
    assert job(chosen=chosen, parallelism=5).width == WorkWidth(0, (AT,), 5, 5, 2, 8), "theirs"
    assert job(("", ""), chosen=chosen, parallelism=4).width == WorkWidth(0, (AT,), 4, 6, 6, 6), "bounds taken away"


@pytest.mark.parametrize(
    "chosen", ["x", "{}", '{"pods":6}', '{"pods":6,"written":0}', "[" * 5000], ids=lambda s: s[:20]
)
def test_a_note_that_somebody_edited_beyond_meaning_is_none(chosen: str) -> None:
    assert job(chosen=chosen).width == WorkWidth(0, (AT,), 6, 6, 2, 8)


def training(**sets: tuple[int | None, int]) -> Work:
    specs = {
        name: {"replicas": pods, "template": {"spec": {"containers": [
            {"resources": {"limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}}}]}}}
        for name, (pods, gpus) in sets.items()
    }  # fmt: skip
    found = {
        "metadata": meta(("1", "4")), "spec": {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": specs},
    }  # fmt: skip
    read = TRAINING[0].read(msgspec.convert(found, TrainingJob), 0.0)
    assert read is not None
    return read


def test_of_a_pytorch_job_the_workers_may_be_more_or_fewer() -> None:
    at = "/spec/pytorchReplicaSpecs/Worker/replicas"
    assert training(Master=(1, 8), Worker=(3, 8)).width == WorkWidth(1, (at,), 3, 3, 1, 4)
    assert training(Worker=(None, 8)).width == WorkWidth(0, (at,), 1, 1, 1, 4)
    for sets in ({"Master": (1, 8)}, {"Master": (1, 8), "Worker": (3, 0)}):
        found = training(**sets)
        assert found.width is None
        assert remarks(found)[0] == "headroom.dev/min-width: 1 has no effect: it has no Workers with GPUs; leave it out"


def test_a_jobset_has_as_many_pods_as_it_has() -> None:
    box = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
    sets = [{"name": "w", "replicas": 1, "template": {"spec": {"parallelism": 2, "template": {"spec": box}}}}]
    found = {"metadata": meta(("", "4")), "spec": {"suspend": True, "replicatedJobs": sets}}
    read = of_jobset(msgspec.convert(found, JobSet), 0.0)
    assert read is not None
    assert read.says is not None
    assert (read.width, read.says.refused) == (None, False)
    words = "headroom.dev/max-width: 4 has no effect: JobSet lets nobody change how many pods it has; leave it out"
    assert remarks(read) == [words]


def answering(forbids: str = "") -> Patched:
    """Takes patches, but for those that change what a policy forbids."""
    answer = {"metadata": meta(("2", "8")), "spec": {"suspend": False}}
    return Patched(lambda _: answer, lambda changes: 422 if forbids in changed(changes) else None)


def changed(changes: Changes) -> dict[str, Any]:
    """What a patch makes of each place."""
    return {each["path"]: each.get("value") for each in changes if each["op"] != "test"}


async def start(work: Work, pods: int) -> dict[str, Any]:
    server = answering()
    writer = BatchWriter(server, ScaledClock(), lambda: True)
    await writer.admit(work, [Put("n", "h100", 0, pods - 1), Put("m", "h100", 0, 1)], {"n": "n", "m": "m"}, [])
    return changed(server.patches[-1])


async def stop(work: Work) -> dict[str, Any]:
    server = answering()
    await BatchWriter(server, ScaledClock(), lambda: True).stop(work)
    return changed(server.patches[-1])


@pytest.mark.looptime
async def test_a_start_writes_how_many_were_put_and_beside_it_what_was_written() -> None:
    changes = await start(job(completionMode="Indexed", completions=6), 4)
    assert (changes["/spec/suspend"], changes[AT], changes["/spec/completions"]) == (False, 4, 4)
    assert changes["/metadata/annotations"][WIDTH] == '{"pods":4,"written":6}'


@pytest.mark.looptime
async def test_a_start_as_wide_as_it_is_written_changes_no_number_and_leaves_no_note() -> None:
    changes = await start(job(), 6)
    assert AT not in changes
    assert WIDTH not in changes["/metadata/annotations"]
    again = await start(job(chosen='{"pods":4,"written":6}', parallelism=4), 6)
    assert again[AT] == 6, "somebody suspended it with four"
    assert WIDTH not in again["/metadata/annotations"]


@pytest.mark.looptime
async def test_a_stop_writes_back_what_was_written() -> None:
    chosen = '{"pods":4,"written":6}'
    note = "/metadata/annotations/headroom.dev~1width"
    changes = await stop(job(chosen=chosen, parallelism=4, suspend=False))
    assert changes == {"/spec/suspend": True, AT: 6, note: None}
    indexed = job(chosen=chosen, parallelism=4, completions=4, completionMode="Indexed", suspend=False)
    assert await stop(indexed) == {"/spec/suspend": True, AT: 6, "/spec/completions": 6, note: None}
    theirs = job(chosen=chosen, parallelism=5, suspend=False)
    assert await stop(theirs) == {"/spec/suspend": True, note: None}, "somebody changed it since"
    assert await stop(job(suspend=False)) == {"/spec/suspend": True}


@pytest.mark.looptime
async def test_whoever_forbids_the_number_does_not_keep_a_gang_from_being_stopped() -> None:
    server, chosen = answering(forbids=AT), '{"pods":4,"written":6}'
    done = await BatchWriter(server, ScaledClock(), lambda: True).stop(job(chosen=chosen, parallelism=4, suspend=False))
    assert (done.became, changed(server.patches[-1])) == (Became.DONE, {"/spec/suspend": True})
    left = job(chosen=chosen, parallelism=4)
    assert left.width == WorkWidth(0, (AT,), stands=4, written=6, least=2, most=8), "it is known still"
