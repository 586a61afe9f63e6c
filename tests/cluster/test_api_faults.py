"""The API server dies, freezes, refuses and forgets while a burst is on; the controller recovers and never shrinks."""

import signal
import time
from typing import Final

import pytest

from tests.cluster.controller import NAMESPACE, Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import FLOOD, QUEUE, WITHIN_S
from tests.cluster.service import Service
from tests.cluster.test_leadership import COLD_S, LOST

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(300)]

OUTAGE_S: Final = 20.0
"""Long enough for a back-off that knows no bound to outlast an interval."""

LEASE: Final = {"duration_s": 60, "deadline_s": 50, "renew_s": 2}
"""Longer than the outage: with the default lease the process would rightly end, as the last story here shows."""

RECOVERY_S: Final = 140.0
"""For pods after an outage: the control plane's own parts dial again after up to a minute each."""


def test_killed_and_restarted_in_mid_burst(own_plane: Plane, engines: Engines) -> None:
    service = Service(own_plane, engines, "default", "chat", replicas=2, max_replicas="12")
    ips = service.wait_ready(2)
    with Controller(own_plane, lease=LEASE) as controller:
        controller.wait_leading()
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: service.replicas() > 2, 20, "growth")
        before = service.replicas()
        own_plane.api.kill()
        seen = len(controller.decisions())
        wait_for(lambda: len(controller.decisions()) > seen + 1, 20, "decisions while there is no API server")
        wait_for(lambda: "problem: not heard for" in _told(controller, service), 10, "a word about the API server")
        time.sleep(OUTAGE_S)
        own_plane.restart_api()
        engines.of_all(service.ips(), **FLOOD)
        wait_for(lambda: service.replicas() > before, WITHIN_S, "growth after the restart")
        wait_for(lambda: "problem: " not in _told(controller, service), WITHIN_S, "every watch to be heard again")
        assert controller.returncode is None
    assert not service.shrinks()


def test_frozen_it_accepts_and_never_answers(own_plane: Plane, engines: Engines) -> None:
    service = Service(own_plane, engines, "default", "chat", replicas=2, max_replicas="12")
    ips = service.wait_ready(2)
    with Controller(own_plane, lease=LEASE) as controller:
        controller.wait_leading()
        wait_for(lambda: all(engines.asked.get(ip, 0) > 3 for ip in ips), 20, "pages")
        _speak(own_plane, service)
        own_plane.api.signal(signal.SIGSTOP)
        engines.of_all(ips, **QUEUE)
        wait_for(lambda: _outcomes(controller, "unknown"), 30, "a patch of unknown outcome")
        wait_for(lambda: "Active=False: Un" in _told(controller, service), 10, "a word about the patch")
        time.sleep(OUTAGE_S)
        assert _outcomes(controller, "unknown") == 1, "nothing is written before the first is read back"
        assert controller.returncode is None
        own_plane.api.signal(signal.SIGCONT)
        wait_for(lambda: service.replicas() > 2, WITHIN_S, "growth once it answers")
    assert not service.shrinks()
    counts = service.counts()
    assert [before for before, _ in counts[1:]] == [after for _, after in counts[:-1]], "each patch saw the one before"


def test_killed_for_longer_than_the_lease_as_it_is_shipped_lasts(own_plane: Plane, engines: Engines) -> None:
    """The lead cannot be confirmed, so the process ends; started again, it waits for the server, then for the lease.

    The burst begins as the server dies: what was ordered before would wait for the control plane's own recovery.
    """
    service = Service(own_plane, engines, "default", "chat", replicas=2, max_replicas="12")
    ips = service.wait_ready(2)
    with Controller(own_plane) as controller:
        controller.wait_leading()
        wait_for(lambda: all(engines.asked.get(ip, 0) > 3 for ip in ips), 20, "pages")
        own_plane.api.kill()
        killed_s = time.monotonic()
        engines.of_all(ips, **FLOOD)
        assert controller.wait(20) == LOST
        controller.start()
        time.sleep(max(0.0, killed_s + OUTAGE_S - time.monotonic()))
        assert controller.returncode is None, "a start while there is no API server is no reason to end"
        own_plane.restart_api()
        wait_for(lambda: service.replicas() > 2, COLD_S + WITHIN_S, "growth after the server's return")
        wait_for(lambda: _flooded(service) == 12, RECOVERY_S + WITHIN_S, "the maximum", every_s=0.5)
        assert controller.returncode is None
    assert not service.shrinks()


def _speak(plane: Plane, service: Service) -> None:
    """Have the watches heard that are looked at again before a patch when they are quiet: a patch shall leave."""
    plane.kubectl("-n", NAMESPACE, "create", "configmap", "headroom-freeze", "--from-literal=freeze=false")
    service.annotate(max_replicas="11")


def _flooded(service: Service) -> int:
    """Its count, once all that are ready are flooded."""
    service.engines.of_all(service.ips(), **FLOOD)
    return service.replicas()


def _told(controller: Controller, service: Service) -> str:
    return str(controller.get(f"/api/explain/{service.workload}")["text"])


def _outcomes(controller: Controller, outcome: str) -> int:
    return sum(line.get("outcome") == outcome for line in controller.journal())
