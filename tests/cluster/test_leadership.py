"""Two replicas of the controller: one writes, whatever happens to it, and the other takes over warm."""

import asyncio
import math
import re
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.proxy import Proxy, Rule
from tests.cluster.scene import QUEUE
from tests.cluster.service import Service

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

LOST = 3
COLD_S = 15.0 + 5.0
"""The promise for a cold take-over, and room for a loaded machine; the bench measures it."""


@contextmanager
def pair(
    plane: Plane, namespace: str, server: str | None = None, *, follower: dict[str, Any] | None = None, **settings: Any
) -> Iterator[tuple[Controller, Controller]]:
    """A leader, reached through `server` where given, and a follower that has heard of its workloads.

    `follower` are settings of the second alone. Each pair writes its own books: a test reads nothing of another's.
    """
    with ExitStack() as stack:
        settings |= {"watch_namespaces": [namespace]}
        first = stack.enter_context(Controller(plane, f"{namespace}-first", server, **settings))
        first.wait_leading()
        second = stack.enter_context(Controller(plane, f"{namespace}-second", **settings | (follower or {})))
        wait_for(lambda: _up(second), 30, "the follower")
        yield first, second


def test_the_follower_writes_nothing_and_takes_over_when_the_leader_stops(
    plane: Plane, namespace: str, engines: Engines
) -> None:
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    ips = service.wait_ready(2)
    with pair(plane, namespace) as (first, second):
        assert second.get("/api/status")["replica"]["leading"] is False
        before = len(_lists(plane, namespace))
        assert first.stop() == 0
        stopped = time.monotonic()
        second.wait_leading(10)
        assert time.monotonic() - stopped < 5.0, "the lease was given back, so nobody waits for it to run out"
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() > 2, 20, "growth under the new leader")
        assert second.decisions()
    assert not service.shrinks()
    anew = _lists(plane, namespace)[before:]
    assert anew, "what was followed before may be behind what the last leader wrote"
    assert anew[0]["stageTimestamp"] < service.patches()[0]["requestReceivedTimestamp"]


def test_in_a_burst_under_both_only_the_leader_writes(plane: Plane, namespace: str, engines: Engines) -> None:
    """The follower reads the pods too, so that it could decide; each has a token of its own, which the audit names."""
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    ips = service.wait_ready(2)
    with pair(plane, namespace, scrape={"follower_scrapes": True}) as (first, second):
        began = dict(engines.asked)
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() > 2, 30, "growth under the leader")
        wait_for(lambda: all(engines.asked[ip] > began[ip] + 5 for ip in ips), 30, "the burst to be read again by both")
        writers = {_credential(entry) for entry in service.patches()}
        assert (writers, second.decisions()) == ({first.credential}, []), "only the leader decides, and writes"
        wait_for(lambda: _applied(first) == len(service.counts()), 10, "the leader to write down what it did")
        assert second.get("/api/status")["replica"]["leading"] is False
        assert second.decisions() == second.journal() == []
    assert not service.shrinks()


@pytest.mark.parametrize("reads", [False, True], ids=["by the leader's snapshot alone", "and reads the pods itself"])
def test_a_follower_is_warm_and_asks_the_pods_only_if_it_is_told_to(
    plane: Plane, namespace: str, engines: Engines, reads: bool
) -> None:
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    ips = service.wait_ready(2)
    with pair(plane, namespace, scrape={"follower_scrapes": reads}) as (first, second):
        wait_for(lambda: service.workload in str(first.get("/api/snapshot")), 40, "a snapshot that knows the workload")
        wait_for(lambda: _snapshot_age_s(second) < 1.0, 30, "the follower to fetch one", every_s=0.3)
        first.signal(signal.SIGSTOP)
        time.sleep(1.5)  # what was on its way is answered
        asked = sum(engines.asked[ip] for ip in ips)
        time.sleep(3.0)
        assert (sum(engines.asked[ip] for ip in ips) > asked) is reads
        second.wait_leading(COLD_S)
        wait_for(lambda: _restored(second, service.workload), 20, "what the leader had learnt, in the new one")


def test_a_killed_leader_is_replaced(plane: Plane, namespace: str, engines: Engines) -> None:
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    ips = service.wait_ready(2)
    with pair(plane, namespace) as (first, second):
        first.kill()
        engines.of_all(ips, **QUEUE)
        second.wait_leading(COLD_S)
        wait_for(lambda: service.replicas() > 2, 20, "growth under the new leader")
    assert not service.shrinks()


def test_a_frozen_leader_that_thaws_late_writes_nothing_more(plane: Plane, namespace: str, engines: Engines) -> None:
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    ips = service.wait_ready(2)
    with pair(plane, namespace) as (first, second):
        first.signal(signal.SIGSTOP)
        second.wait_leading(COLD_S)
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() > 2, 20, "growth under the new leader")
        patched = len(service.counts())
        first.signal(signal.SIGCONT)
        assert first.wait(15) == LOST
        acts = [line for line in first.journal() if line["kind"] == "act" and line["outcome"] == "applied"]
        assert acts == []
        assert all(b == a for (_, a), (b, _) in zip(service.counts(), service.counts()[1:], strict=False))
        assert len(service.counts()) >= patched
        assert second.returncode is None


def test_a_frozen_leader_that_thaws_into_a_burst_writes_nothing_at_all(
    plane: Plane, namespace: str, engines: Engines
) -> None:
    """The new leader is in Shadow: the count stays as the old one saw it, so that no server would refuse its patch."""
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    ips = service.wait_ready(2)
    with pair(plane, namespace, follower={"default_mode": "Shadow"}) as (first, second):
        first.signal(signal.SIGSTOP)
        second.wait_leading(COLD_S)
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: any(line["replicas"] > 2 for line in second.decisions()), 30, "the new leader to want more")
        first.signal(signal.SIGCONT)
        wait_for(lambda: first.returncode is not None or service.patches(), 30, "the old leader to end, or to write")
        assert service.patches() == []
        assert first.wait(15) == LOST
    assert service.patches() == []
    assert service.replicas() == 2


def test_a_write_of_a_lost_lead_that_arrives_late_is_refused(plane: Plane, namespace: str, engines: Engines) -> None:
    """It was sent in time and held up on its way, as in a queue of a gateway, while its sender froze."""
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    ips = service.wait_ready(2)
    on_its_way = Rule("PATCH", "/scale", held=asyncio.Event())
    with Proxy(plane) as proxy, pair(plane, namespace, proxy.url) as (first, second):
        proxy.rules = [on_its_way]
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: on_its_way.hits, 20, "a write on its way")
        first.signal(signal.SIGSTOP)
        second.wait_leading(COLD_S)
        wait_for(lambda: service.replicas() > 2, 20, "growth under the new leader")
        proxy.release(on_its_way)
        wait_for(lambda: 422 in service.answers(), 10, "the late write to be refused")
        first.signal(signal.SIGCONT)
        assert first.wait(15) == LOST
        assert second.returncode is None
    assert not service.shrinks()


def test_a_leader_that_is_cut_off_ends_by_itself(plane: Plane, namespace: str, engines: Engines) -> None:
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    ips = service.wait_ready(2)
    with Proxy(plane) as proxy, pair(plane, namespace, proxy.url) as (first, second):
        proxy.cut()
        engines.of_all(ips, **QUEUE)
        assert first.wait(15) == LOST
        second.wait_leading(COLD_S)
        wait_for(lambda: service.replicas() > 2, 20, "growth under the new leader")
    assert not service.shrinks()


def test_a_leader_whose_api_server_hangs_ends_by_itself(plane: Plane, namespace: str, engines: Engines) -> None:
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    service.wait_ready(2)
    with Proxy(plane) as proxy, pair(plane, namespace, proxy.url) as (first, second):
        proxy.hang()
        assert first.wait(15) == LOST
        second.wait_leading(COLD_S)


def _lists(plane: Plane, namespace: str) -> list[dict[str, Any]]:
    """Lists of the namespace's Deployments that were answered to controllers, oldest first."""
    lists = plane.audited(verb="list", resource="deployments", user=ACCOUNT)
    return [entry for entry in lists if entry["objectRef"].get("namespace") == namespace]


def _applied(controller: Controller) -> int:
    """How many of its patches were taken, by its own journal."""
    return sum(line["kind"] == "act" and line["outcome"] == "applied" for line in controller.journal())


def _credential(entry: dict[str, Any]) -> str:
    """The token that a request of the audit log came with."""
    (told,) = entry["user"]["extra"]["authentication.kubernetes.io/credential-id"]
    return str(told)


def _restored(controller: Controller, workload: str) -> bool:
    """Whether it began with what another had learnt of a workload."""
    said = {(line.get("event"), line.get("workload")) for line in controller.journal()}
    return ("restored from a checkpoint", workload) in said


def _snapshot_age_s(follower: Controller) -> float:
    """Of the leader's snapshot that it holds; infinite without one."""
    text = str(follower.get("/metrics"))
    found = re.search(r"^headroom_snapshot_age_seconds(?:\{.*\})? (\S+)$", text, re.MULTILINE)
    return math.inf if found is None else float(found[1])


def _up(controller: Controller) -> bool:
    try:
        status = controller.get("/api/status")
    except OSError:
        return False
    return bool(status["workloads"])
