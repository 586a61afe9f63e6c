"""BatchQueue on a real API server: what it takes, what it refuses before our reader does, its columns, its status."""

import json
from pathlib import Path
from typing import Any

import pytest

from autoscaler.api.batch_queue_status import (
    BatchQueueStatus,
    EvictionCount,
    KeptFor,
    Place,
    QueueCondition,
    QueueMemory,
    ReservationKind,
    ShapeUse,
    WaitingReason,
)
from autoscaler.api.crd import BATCH_QUEUE, manifest
from autoscaler.api.schema import custom_resource
from autoscaler.api.status import Condition, Truth
from tests.api.queues import FAULTY, SOUND, spec
from tests.cluster.plane import Plane, RefusedError

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane")]

MERGE = "application/merge-patch+json"
QUEUES = "/apis/headroom.dev/v1alpha1/batchqueues"
NOON_S = 1795863600.0
"""2026-11-28T11:00:00Z."""

REFUSED = {
    "a weight of 0": "0.001",
    "a limit below the guarantee": "limit is below guaranteed; raise the limit or promise less",
    "a negative guarantee": "should be greater than or equal to 0",
    "a limit that overflows": "spec.quotas[0].limit",
    "half a GPU": "spec.quotas[0].guaranteed",
    "a shape twice": "Duplicate value",
    "a quota without shape": "spec.quotas[0].shape: Required value",
    "a namespace twice": "Duplicate value",
    "a wildcard for namespaces": "spec.namespaces[0]",
    "a tier twice": "Duplicate value",
    "an importance of 0": "spec.tiers[0].importance",
    "an unknown order": "spec.order: Unsupported value",
    "a grace that never ends": "spec.preemption.graceS",
    "two parents": "spec.parent",
    "33 shapes": "spec.quotas: Too many: 33: must have at most 32 items",
    "257 namespaces": "spec.namespaces: Too many: 257: must have at most 256 items",
}
"""Faults that the server refuses too; circles, sums and unknown shapes need the other queues, and are the tree's."""


@pytest.fixture(autouse=True, scope="module")
def _defined(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = Path(tmp_path_factory.mktemp("crd")) / "batchqueues.yaml"
    path.write_text(manifest(BATCH_QUEUE))
    plane.kubectl("apply", "--server-side", "-f", path)
    plane.kubectl("wait", "--for=condition=Established", "crd/batchqueues.headroom.dev", "--timeout=60s")


def queue(given: dict[str, Any], name: str = "vision") -> dict[str, Any]:
    return {"apiVersion": "headroom.dev/v1alpha1", "kind": "BatchQueue", "metadata": {"name": name}, "spec": given}


def refused(plane: Plane, body: dict[str, Any]) -> str:
    with pytest.raises(RefusedError) as caught:
        plane.call("POST", f"{QUEUES}?dryRun=All", body)
    assert caught.value.status == 422
    return str(caught.value)


@pytest.mark.parametrize("given", SOUND.values(), ids=SOUND)
def test_a_sound_queue_is_taken_with_nothing_dropped(plane: Plane, given: dict[str, Any]) -> None:
    stored = plane.call("POST", f"{QUEUES}?dryRun=All&fieldValidation=Strict", queue(given))["spec"]
    flat = {name for name, value in given.items() if not isinstance(value, dict | list)}
    assert {name: stored[name] for name in flat} == {name: given[name] for name in flat}


@pytest.mark.parametrize(("name", "words"), REFUSED.items(), ids=REFUSED)
def test_a_faulty_queue_is_refused_in_words(plane: Plane, name: str, words: str) -> None:
    assert words in refused(plane, queue(FAULTY[name][0]))


def test_a_name_that_no_label_could_carry_is_refused(plane: Plane) -> None:
    assert "so that no label could name the queue; shorten it" in refused(plane, queue({}, name="q" * 64))


def test_a_queue_that_is_its_own_parent_is_refused(plane: Plane) -> None:
    assert "spec.parent names the queue itself" in refused(plane, queue({"parent": "vision"}))


def test_the_whole_status_is_kept_and_shown_in_the_columns(plane: Plane) -> None:
    memory = QueueMemory(
        written_at_s=NOON_S,
        used_gpu_s=12.5,
        run_ratios=(0.5, 1.25),
        reservations=(
            KeptFor(
                gang="job/team-a/train", kind=ReservationKind.START, made_s=NOON_S, start_s=NOON_S + 900,
                places=(Place(node="n1", shape="h100", units=8),),
            ),
        ),
        evictions=(EvictionCount(gang="job/team-a/old", times=2),),
        left_out=1,
    )  # fmt: skip
    status = BatchQueueStatus(
        observed_generation=1,
        waiting_gangs=3,
        running_gangs=2,
        used_gpus=24,
        share_ratio=0.125,
        reason="QUOTA",
        text="t" * 10_000,
        shapes=(ShapeUse(shape="h100", guaranteed=16, used=24, wanted=40),),
        waiting=(WaitingReason(reason="QUOTA", gangs=3),),
        memory=memory,
        conditions=tuple(
            Condition(type=c.value, status=Truth.TRUE, last_transition_time_s=NOON_S, reason=c.value, message="…")
            for c in QueueCondition
        ),
    )
    plane.call("POST", QUEUES, queue(spec(parent="research", weight=2)))
    try:
        written = custom_resource(status)
        kept = plane.call("PATCH", f"{QUEUES}/vision/status?fieldValidation=Strict", {"status": written}, kind=MERGE)
        assert kept["status"] == json.loads(json.dumps(written))
        header, row = plane.kubectl("get", "hbq").splitlines()
        assert header.split() == [
            "NAME", "PARENT", "WEIGHT", "ORDER", "WAITING", "RUNNING", "USED", "READY", "REASON", "AGE",
        ]  # fmt: skip
        assert row.split()[:9] == ["vision", "research", "2", "fair", "3", "2", "24", "True", "QUOTA"]
    finally:
        plane.call("DELETE", f"{QUEUES}/vision")
