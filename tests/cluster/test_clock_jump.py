"""The machine's time is set by five minutes, forwards and back, under a controller that works."""

import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller import NAMESPACE
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import FLOOD, WITHIN_S, Scene
from tests.cluster.service import Service
from tests.conftest import libfaketime

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.needs("control-plane", "faketime"),
    pytest.mark.timeout(300),
]

AHEAD, BEHIND = "ahead", "behind"

WATCHED_S = 15.0
"""After a jump: three ticks, and more than a lease lasts."""


class Set:
    """The controller's wall clock, as an offset to the machine's; monotonic time stays as it is."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.by("+0")
        self.env = {
            "LD_PRELOAD": str(libfaketime()), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1",
        }  # fmt: skip

    def by(self, offset: str) -> None:
        """Set it, at once for whoever asks next."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{offset}\n")
        fresh.replace(self._file)


@pytest.fixture
def clock(tmp_path: Path) -> Set:
    return Set(tmp_path / "offset")


@pytest.fixture
def scene(plane: Plane, clock: Set) -> Iterator[Scene]:
    with Scene.begin(plane, "clock", env=clock.env) as made:
        yield made


def test_a_clock_that_is_set_neither_shrinks_nor_stops_anything(scene: Scene, clock: Set) -> None:
    """The idle one is held at 6 by what it needed a moment ago: a jump must not be the time that this takes."""
    held, ips = scene.serve("held", 6, min_replicas="1", max_replicas="6")
    scene.engines.of_all(ips, running=0.0, rps=0.0)
    wait_for(lambda: "STABILISATION" in _reasons(scene, held), 30, "the hold")
    for direction, offset, told in (("forwards", "+300", AHEAD), ("back", "+0", ""), ("further-back", "-300", BEHIND)):
        service, ips = scene.serve(direction, max_replicas="6")
        seen = _renewals(scene)
        clock.by(offset)
        scene.engines.of_all(ips, **FLOOD)
        wait_for(partial(_grown, service), WITHIN_S, f"growth after a jump {direction}")
        wait_for(partial(_tells, scene, held, told), WITHIN_S, f"a word about a jump {direction}")
        time.sleep(WATCHED_S)
        assert scene.controller.returncode is None
        assert scene.answer("/api/status")["replica"]["leading"]
        assert _renewals(scene) - seen >= 3
        assert not service.shrinks()
    assert held.shrinks() == []
    assert _restful(held)


def _tells(scene: Scene, service: Service, way: str) -> bool:
    """Whether the machine's clock is said to be off that way; not at all where `way` is empty."""
    found = re.search(r"the clock of Headroom's machine was set: it is \S+ \S+ (\w+)", scene.explained(service))
    return ("" if found is None else found[1]) == way


def _grown(service: Service) -> bool:
    return service.replicas() > 2


def _renewals(scene: Scene) -> int:
    """How often the lease was written."""
    return len(scene.plane.audited(verb="update", resource="leases", user=NAMESPACE)) + len(
        scene.plane.audited(verb="patch", resource="leases", user=NAMESPACE)
    )


def _restful(service: Service) -> bool:
    status: dict[str, Any] = service.plane.call("GET", service.path)["status"]
    return bool(status["readyReplicas"] == 6)


def _reasons(scene: Scene, service: Service) -> set[str]:
    return {line["reason"] for line in scene.decided(service)}
