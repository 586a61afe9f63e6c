"""A slot's life is read off its own pod: instants, failure, lease; and a slot is told from what only looks like one."""

from typing import Any

import pytest

from autoscaler.adapters.kube.pool_slots import owned_by, pool_of, slot_seen
from tests.kube.pools import T0, at, pod


def true(kind: str, second: int) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": at(second)}


def init(name: str, second: int | None = None, **more: Any) -> dict[str, Any]:
    state = {} if second is None else {"terminated": {"exitCode": 0, "finishedAt": at(second)}}
    return {"name": name, "state": state, **more}


def test_a_slot_that_waits_knows_its_tier_zone_content_and_nominated_claim() -> None:
    zone = {"topology.kubernetes.io/zone": "b"}
    seen = slot_seen(pod(spec={"nodeSelector": zone, "activeDeadlineSeconds": 600}), "gpu-abcde")
    assert (seen.name, seen.uid, seen.tier, seen.content) == ("chat-0", "uid-chat-0", "first", "c1")
    assert (seen.created_s, seen.zone, seen.claim, seen.node) == (T0, "b", "gpu-abcde", None)
    assert seen.scheduled_s is seen.images_s is seen.weights_s is seen.ready_s is seen.deadline_s is None


def test_a_slot_says_which_nodepool_it_is_pinned_to_and_what_it_asks_for() -> None:
    pinned = pod(spec={"nodeSelector": {"karpenter.sh/nodepool": "gpu"}})
    seen = slot_seen(pinned, None, label="karpenter.sh/nodepool", units=4)
    assert (seen.node_pool, seen.units) == ("gpu", 4)
    assert slot_seen(pod(), None, label="karpenter.sh/nodepool").node_pool == ""


def test_a_warm_slot_has_every_instant_of_its_start() -> None:
    status = {
        "phase": "Running", "startTime": at(3), "conditions": [true("PodScheduled", 2), true("Ready", 20)],
        "initContainerStatuses": [init("pull-0", 9), init("pull-1", 7), init("fetch-0", 18)],
    }  # fmt: skip
    seen = slot_seen(pod(spec={"nodeName": "n0", "activeDeadlineSeconds": 600}, status=status), "gpu-abcde")
    assert (seen.node, seen.claim) == ("n0", None), "a nomination is over once it is bound"
    assert (seen.scheduled_s, seen.images_s, seen.weights_s, seen.ready_s) == (T0 + 2, T0 + 9, T0 + 18, T0 + 20)
    assert seen.deadline_s == T0 + 603, "the kubelet counts from when it began with the pod"


def test_a_slot_whose_node_is_cut_off_says_since_when_it_is_not_ready() -> None:
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": at(30)}
    told = {"conditions": [true("Initialized", 18), unready], "initContainerStatuses": [init("pull-0", 9)]}
    seen = slot_seen(pod(spec={"nodeName": "n0"}, status=told), None)
    assert (seen.weights_s, seen.ready_s, seen.unready_s) == (T0 + 9, None, T0 + 30)
    assert slot_seen(pod(status={"conditions": [true("Ready", 20)]}), None).unready_s is None


STARTS: dict[str, tuple[list[dict[str, Any]], list[str], tuple[int | None, int | None]]] = {
    "one of two images is there": ([init("pull-0", 9), init("pull-1"), init("fetch-0")], [], (None, None)),
    "images are there and weights are not": ([init("pull-0", 9), init("fetch-0")], [], (9, None)),
    "nothing is to be fetched": ([init("pull-0", 9)], [], (9, 9)),
    "it is initialized and tells no containers": ([], ["Initialized"], (12, 12)),
    "nothing is known": ([], [], (None, None)),
}


@pytest.mark.parametrize(("statuses", "conditions", "expected"), STARTS.values(), ids=STARTS)
def test_images_and_weights_are_there_when_the_last_container_of_their_kind_has_ended(
    statuses: list[dict[str, Any]], conditions: list[str], expected: tuple[int | None, int | None]
) -> None:
    told = {"conditions": [true(kind, 12) for kind in conditions], "initContainerStatuses": statuses}
    seen = slot_seen(pod(status=told), None)
    assert (seen.images_s, seen.weights_s) == tuple(None if s is None else T0 + s for s in expected)


DIGESTS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "one image": ([init("pull-0", 9, imageID="docker.io/vllm@sha256:aa"), init("fetch-0", 12, imageID="sha256:f")],
                  "sha256:aa"),
    "two images": ([init("pull-0", 9, imageID="sha256:bb"), init("pull-1", 9, imageID="x@sha256:aa")],
                   "sha256:aa+sha256:bb"),
    "one is still pulled": ([init("pull-0", 9, imageID="sha256:bb"), init("pull-1", imageID="")], ""),
    "a runtime that does not say": ([init("pull-0", 9)], ""),
}  # fmt: skip


@pytest.mark.parametrize(("statuses", "digests"), DIGESTS.values(), ids=DIGESTS)
def test_what_a_tag_stood_for_is_read_once_all_images_are_there(statuses: list[dict[str, Any]], digests: str) -> None:
    assert slot_seen(pod(status={"initContainerStatuses": statuses}), None).digests == digests


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": "Error"}}


FAILURES: dict[str, tuple[dict[str, Any], str | None]] = {
    "the deadline": ({"phase": "Failed", "reason": "DeadlineExceeded"}, "DeadlineExceeded"),
    "the kubelet's words": ({"phase": "Failed", "reason": "Evicted", "message": "disk pressure"}, "disk pressure"),
    "a fetch that fails again and again": (
        {"initContainerStatuses": [{"name": "fetch-0", "restartCount": 4, "lastState": ended(1)}]},
        "fetch-0: exit code 1 4 times, Error",
    ),
    "a fetch that failed once": (
        {"initContainerStatuses": [{"name": "fetch-0", "restartCount": 1, "lastState": ended(1)}]}, None,
    ),
    "an image that cannot be named": (
        {"initContainerStatuses": [{"name": "pull-0", "state": {"waiting": {"reason": "InvalidImageName"}}}]},
        "pull-0: InvalidImageName",
    ),
    "an image that may come yet": (
        {"initContainerStatuses": [{"name": "pull-0", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("status", "words"), FAILURES.values(), ids=FAILURES)
def test_a_failed_start_is_told_in_its_own_words(status: dict[str, Any], words: str | None) -> None:
    assert slot_seen(pod(status=status), None).failed == words


def test_a_mark_is_read_back_and_one_without_a_time_is_no_time() -> None:
    notes = {"headroom.dev/content": "c1", "headroom.dev/lease": "prod/chat", "headroom.dev/leased-at": "1700000007.5"}
    seen = slot_seen(pod(metadata={"annotations": notes}), None)
    assert (seen.lease, seen.leased_s) == ("prod/chat", T0 + 7.5)
    assert slot_seen(pod(metadata={"annotations": notes | {"headroom.dev/leased-at": "?"}}), None).leased_s is None


def test_a_slot_that_says_that_its_node_ends_is_read_so() -> None:
    assert slot_seen(pod(), None).node_ends is False
    labels = {"app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat", "headroom.dev/node-ends": "true"}
    assert slot_seen(pod(metadata={"labels": labels}), None).node_ends is True


def test_only_our_labels_and_our_owner_make_a_slot() -> None:
    assert pool_of(pod()) == "chat"
    assert pool_of(pod(metadata={"labels": {"headroom.dev/pool": "chat"}})) is None
    assert owned_by(pod(), "pool-uid")
    assert not owned_by(pod(), "of-an-earlier-pool-of-that-name")
