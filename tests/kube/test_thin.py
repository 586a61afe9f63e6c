"""Objects of which little is held: told from their next version, read anew by name, and by no older version."""

from typing import Any

import msgspec

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.batch_objects import Job
from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.informer import Informer, Resource
from autoscaler.adapters.kube.meta import Thin
from autoscaler.ports import Fault
from autoscaler.runtime.clock import WallClock


def job(version: int, uid: str = "u", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train", "namespace": "ns", "uid": uid, "resourceVersion": str(version)}, "spec": spec}


class Server:
    """Answers with what it has, after `then` was done."""

    def __init__(self) -> None:
        self.has: list[dict[str, Any]] = []
        self.calls: list[tuple[str, tuple[tuple[str, str], ...]]] = []
        self.then: Any = lambda: None
        self.fails = False

    async def request(self, method: str, path: str, *, query: Any, timeout_s: float) -> Answer:
        self.calls.append((path, tuple(query)))
        if self.fails:
            raise KubeError(Fault.TIMEOUT, "no answer")
        body = msgspec.json.encode({"metadata": {"resourceVersion": "99"}, "items": self.has})
        self.then()
        return Answer(200, body, {})


def followed(server: Server) -> tuple[Informer[Job], list[Change[Job]]]:
    """An informer that holds little of one Job in version 5, and what it told since."""
    told: list[Change[Job]] = []
    informer = Informer(server, Resource("/apis/batch/v1/jobs", Job), WallClock(), told.append)  # type: ignore[arg-type]
    informer._cache.put(msgspec.convert(job(5, parallelism=3), Job))
    informer.thin("ns/train")
    told.clear()
    return informer, told


async def test_an_object_that_is_thinned_has_its_place_and_no_content_and_nobody_is_told() -> None:
    informer, told = followed(Server())
    held = informer.items["ns/train"]
    assert isinstance(held.metadata, Thin)
    assert (held.metadata.uid, held.metadata.resource_version, held.spec.parallelism) == ("u", "5", None)
    informer._cache.put(msgspec.convert(job(5, parallelism=3), Job))
    assert told == [], "the same version in a list is no news"
    informer._cache.put(msgspec.convert(job(6, parallelism=4), Job))
    assert [change.new.spec.parallelism for change in told if change.new] == [4]


async def test_it_is_listed_by_its_name_and_told_whole() -> None:
    server = Server()
    informer, told = followed(server)
    server.has = [job(5, parallelism=3)]
    assert await informer.restore("ns/train")
    assert server.calls == [("/apis/batch/v1/namespaces/ns/jobs", (("fieldSelector", "metadata.name=train"),))]
    assert informer.items["ns/train"].spec.parallelism == 3
    assert [change.new.spec.parallelism for change in told if change.new] == [3]
    assert await informer.restore("ns/train")
    assert len(server.calls) == 1, "it is held whole"


async def test_what_was_heard_while_it_was_read_is_not_written_over_by_an_older_version() -> None:
    server = Server()
    informer, told = followed(server)
    server.has = [job(5, parallelism=3)]

    def heard() -> None:
        informer._cache.put(msgspec.convert(job(8, parallelism=9), Job))
        informer.thin("ns/train")

    server.then = heard
    assert not await informer.restore("ns/train")
    assert informer.items["ns/train"].metadata.resource_version == "8"
    assert [change.new.spec.parallelism for change in told if change.new] == [9]


async def test_one_that_is_gone_is_left_to_the_watch_and_no_answer_is_tried_again() -> None:
    server = Server()
    informer, told = followed(server)
    assert await informer.restore("ns/train")
    assert await informer.restore("ns/nobody")
    server.fails = True
    assert not await informer.restore("ns/train")
    server.fails, server.has = False, [job(6, uid="another")]
    assert not await informer.restore("ns/train"), "the watch tells of it, and of the end of this one"
    assert told == []
