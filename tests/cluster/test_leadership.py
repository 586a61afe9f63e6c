"""Two replicas of the controller: one writes, whatever happens to it, and the other takes over warm."""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.cluster.controller import Controller
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
def pair(plane: Plane, namespace: str, server: str | None = None) -> Iterator[tuple[Controller, Controller]]:
    """A leader, reached through `server` where given, and a follower that holds its snapshot."""
    with ExitStack() as stack:
        first = stack.enter_context(Controller(plane, "first", server, watch_namespaces=[namespace]))
        first.wait_leading()
        second = stack.enter_context(Controller(plane, "second", watch_namespaces=[namespace]))
        wait_for(lambda: _up(second), 30, "the follower")
        yield first, second


def test_the_follower_writes_nothing_and_takes_over_when_the_leader_stops(
    plane: Plane, namespace: str, engines: Engines
) -> None:
    service = Service(plane, engines, namespace, "chat", replicas=2, max_replicas="8")
    ips = service.wait_ready(2)
    with pair(plane, namespace) as (first, second):
        assert second.get("/api/status")["replica"]["leading"] is False
        assert first.stop() == 0
        stopped = time.monotonic()
        second.wait_leading(10)
        assert time.monotonic() - stopped < 5.0, "the lease was given back, so nobody waits for it to run out"
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() > 2, 20, "growth under the new leader")
        assert second.decisions()
    assert not service.shrinks()


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


def _up(controller: Controller) -> bool:
    try:
        status = controller.get("/api/status")
    except OSError:
        return False
    return bool(status["workloads"])
