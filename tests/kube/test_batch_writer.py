"""What is sent to let a gang start and to stop it, and what became of it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.batch_objects import Job
from autoscaler.adapters.kube.batch_work import Put, Work, of_job
from autoscaler.adapters.kube.batch_writer import BatchWriter
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.ports import Fault
from autoscaler.runtime.clock import ScaledClock

pytestmark = pytest.mark.looptime


class Server:
    """Takes patches, and answers what it is told to."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.error: KubeError | None = None
        self.allowed = True
        self.tried = 0
        """Patches that were only to be tried out."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        admit: Callable[[], bool] = lambda: True,
        **more: Any,
    ) -> Answer:
        self.tried += ("dryRun", "All") in more.get("query", ())
        if not admit():
            refused = KubeError(Fault.DENIED, "not sent")
            refused.sent = False
            raise refused
        if self.error is not None:
            raise self.error
        assert body is not None
        self.sent.append((path, msgspec.json.decode(body)))
        return Answer(200, msgspec.json.encode(found(suspend=False, version="8", generation=2)), {})


def found(*, suspend: bool = True, version: str = "7", generation: int = 1, **template: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "train", "namespace": "ns", "uid": "u", "resourceVersion": version, "generation": generation,
            "labels": {"headroom.dev/queue": "team"}, "annotations": {"theirs": "kept"},
        },
        "spec": {"suspend": suspend, "template": {"spec": template}},
    }  # fmt: skip


def work(**given: Any) -> Work:
    read = of_job(msgspec.convert(found(**given), Job), 0.0)
    assert read is not None
    return read


def writer(server: Server) -> BatchWriter:
    return BatchWriter(server, ScaledClock(), lambda: server.allowed)


PLAN = [Put("n", "h100", 0, 1)]


async def test_a_start_is_one_patch_that_no_other_version_takes() -> None:
    server = Server()
    done = await writer(server).admit(work(), PLAN, {"n": "host"}, ["nvidia.com/gpu"])
    assert done.work is not None
    assert (done.became, done.work.suspended, done.work.generation) == (Became.DONE, False, 2)
    [(path, changes)] = server.sent
    assert path == "/apis/batch/v1/namespaces/ns/jobs/train"
    assert changes[:3] == [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "test", "path": "/spec/suspend", "value": True},
        {"op": "replace", "path": "/spec/suspend", "value": False},
    ]
    by_path = {change["path"]: change["value"] for change in changes[3:]}
    placement = '[{"node":"n","shape":"h100","pod_set":0,"pods":1}]'
    assert by_path["/metadata/annotations"] == {"theirs": "kept", "headroom.dev/placement": placement}
    assert "host" in str(by_path["/spec/template/spec/affinity"])
    tolerated = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert by_path["/spec/template/spec/tolerations"] == tolerated


async def test_a_start_that_is_tried_out_is_of_this_version_and_changes_nothing() -> None:
    server = Server()
    done = await writer(server).try_out(work())
    assert (done.became, done.work, server.tried) == (Became.DONE, None, 1)
    [(path, changes)] = server.sent
    assert path == "/apis/batch/v1/namespaces/ns/jobs/train"
    assert [each["path"] for each in changes] == ["/metadata/resourceVersion", "/spec/suspend", "/spec/suspend"]
    await writer(server).stop(work())
    assert server.tried == 1


@pytest.mark.parametrize(
    ("words", "became"),
    [
        ("webhook w denied the request", Became.REFUSED),
        ("webhook w does not support dry run", Became.DONE),
    ],
    ids=["refused", "a webhook that cannot be asked first"],
)
async def test_what_the_server_says_to_a_try_is_what_it_would_say_to_a_start(words: str, became: Became) -> None:
    server = Server()
    server.error = KubeError(Fault.DENIED, words, status=400)
    server.error.sent = True
    done = await writer(server).try_out(work())
    assert (done.became, done.work, words in done.words) == (became, None, became is Became.REFUSED)
    stop = await writer(server).stop(work(suspend=False), tries=True)
    assert stop.became is Became.REFUSED, "whom nobody can be asked about is not told to leave instead of another"


async def test_what_its_author_wrote_is_kept_beside_and_a_taint_that_is_put_up_with_is_not_told_twice() -> None:
    server = Server()
    theirs = {"podAffinity": {"x": 1}}
    given = work(affinity=theirs, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
    await writer(server).admit(given, PLAN, {"n": "host"}, ["nvidia.com/gpu"])
    by_path = {change["path"]: change["value"] for change in server.sent[0][1]}
    assert by_path["/metadata/annotations"]["headroom.dev/affinity"] == '[{"podAffinity":{"x":1}}]'
    assert by_path["/spec/template/spec/affinity"]["podAffinity"] == {"x": 1}
    assert "/spec/template/spec/tolerations" not in by_path


async def test_a_toleration_of_its_author_is_never_written_over_and_ours_stands_beside_one_that_is_not_enough() -> None:
    """A part that is not read, such as tolerationSeconds, would be lost with the list."""
    server = Server()
    given = work(tolerations=[{"key": "nvidia.com/gpu", "operator": "Equal", "value": "a", "tolerationSeconds": 9}])
    await writer(server).admit(given, PLAN, {"n": "host"}, ["nvidia.com/gpu"])
    at = "/spec/template/spec/tolerations"
    assert [change for change in server.sent[0][1] if change["path"].startswith(at)] == [
        {"op": "add", "path": f"{at}/-", "value": {"key": "nvidia.com/gpu", "operator": "Exists"}}
    ]


async def test_nothing_is_sent_without_the_lead() -> None:
    server = Server()
    server.allowed = False
    done = [
        await writer(server).admit(work(), PLAN, {"n": "host"}, []),
        await writer(server).stop(work(suspend=False)),
        await writer(server).status("team", {}),
    ]
    assert [each.became for each in done] == [Became.REFUSED] * 3
    assert server.sent == []


@pytest.mark.parametrize(
    ("status", "became", "changed"),
    [
        (409, Became.REFUSED, True), (422, Became.REFUSED, True), (404, Became.REFUSED, True),
        (403, Became.REFUSED, False), (500, Became.UNKNOWN, False), (None, Became.UNKNOWN, False),
        (429, Became.REFUSED, False),
    ],
)  # fmt: skip
async def test_a_silence_is_no_refusal_and_another_version_is_no_fault(
    status: int | None, became: Became, changed: bool
) -> None:
    server = Server()
    server.error = KubeError(Fault.UNAVAILABLE, "words", status=status)
    done = await writer(server).stop(work(suspend=False))
    assert (done.became, done.changed, done.words) == (became, changed, "words")
    assert done.denied == (status in {403, 422}), "by who looked at it, not for want of time or for another version"


@pytest.mark.parametrize("why", ["connect: connection refused", "context deadline exceeded"])
async def test_a_webhook_that_cannot_be_asked_is_a_refusal_for_nothing_was_written(why: str) -> None:
    """As Kueue's while Kueue is down: sent again every 2 s, it would hold its places and be told of nowhere."""
    server = Server()
    words = f'500 InternalError: Internal error occurred: failed calling webhook "vjob.kb.io": Post: {why}'
    server.error = KubeError(Fault.UNAVAILABLE, words, status=500, reason="InternalError")
    for done in (await writer(server).stop(work(suspend=False)), await writer(server).try_out(work())):
        assert (done.became, done.changed, done.denied, done.words) == (Became.REFUSED, False, False, words)


async def test_a_stop_takes_the_word_of_a_loan_away_and_leaves_all_else_that_is_noted() -> None:
    server = Server()
    given = found(suspend=False)
    given["metadata"]["annotations"] |= {"headroom.dev/loan": "{}", "headroom.dev/placement": "[]"}
    lent = of_job(msgspec.convert(given, Job), 0.0)
    assert lent is not None
    await writer(server).stop(lent)
    await writer(server).stop(work(suspend=False))
    with_loan, without = (changes for _, changes in server.sent)
    assert [change for change in with_loan if change["path"].startswith("/metadata/annotations")] == [
        {"op": "remove", "path": "/metadata/annotations/headroom.dev~1loan"}
    ]
    assert len(with_loan) == len(without) + 1
