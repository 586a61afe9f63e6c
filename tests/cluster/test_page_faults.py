"""Metrics that fail for ten minutes, each on a workload of its own, beside one whose pages are sound and which shrinks.

Every workload holds six replicas that were busy for a moment and have no work then, so that a controller that takes
silence for zero would shrink all of them when the hold of two minutes ends. The sound one proves that the hold did end.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final

import pytest

from tests.cluster.engines import Engines, Figures
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.prometheus import Prometheus
from tests.cluster.scene import FLOOD, WITHIN_S, Scene
from tests.cluster.service import Service

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.needs("control-plane", "prometheus"),
    pytest.mark.timeout(900),
]

HELD_S: Final = 300.0
"""The stabilisation of at least 120 s begins with the first reading; growth and the pace of shrinking come on top."""

LASTS_S: Final = 600.0
"""How long all faults last."""

BUSY: Final[dict[str, Any]] = {"waiting": 0.0, "running": 1.0, "rps": 2.0}
QUIET: Final = {"waiting": 0.0, "running": 0.0, "rps": 0.0}
WHOLE: Final = {
    "page": None, "status": 200, "silent": False, "hangs_up": False, "drip_s": 0.0, "kind": "text/plain", "kv": 0.1,
}  # fmt: skip
"""What ends any fault of a page."""


@dataclass(frozen=True)
class Fault:
    """What it does to a page, and the words by which a person learns of it."""

    harm: Callable[[Figures], None]
    words: str
    share: float = 1.0
    """Of the pods that it befalls."""


def _set(**figures: object) -> Callable[[Figures], None]:
    def change(page: Figures) -> None:
        for name, value in figures.items():
            setattr(page, name, value)

    return change


def _renamed(page: Figures) -> None:
    page.page = page.text(page.since_s).replace(b"vllm:num_requests", b"vllm:requests").replace(b"success", b"ok")


def _truncated(page: Figures) -> None:
    """All of the page but the end of its last number: of a pod's two engines one can be read, and not the busy one."""
    *others, last = sorted(page.text(page.since_s).splitlines(), key=lambda line: b"running{" in line)
    page.page = b"\n".join([*others, last, last.replace(b"{", b'{engine="1",').replace(b"0.0", b"1")])


@cache
def _hundred_megabytes() -> bytes:
    return b"# filler\n" * 12_000_000


def _enormous(page: Figures) -> None:
    """One page for all pods, made when it is wanted and not by whoever collects tests."""
    page.page = _hundred_megabytes()


FAULTS: Final[dict[str, Fault]] = {
    "empty": Fault(_set(page=b""), "the page is empty"),
    "truncated": Fault(_truncated, "in flight: no reading of now"),
    "html": Fault(_set(page=b"<html><body>502 Bad Gateway</body></html>", kind="text/html"), "the page is HTML"),
    "error-500": Fault(_set(status=500), "HTTP 500"),
    "hundred-megabytes": Fault(_enormous, "the page is larger than 1048576 bytes"),
    "drip": Fault(_set(drip_s=0.5), "no whole page within 1 s"),
    "silent": Fault(_set(silent=True), "no whole page within 1 s"),
    "half-vanish": Fault(_set(silent=True), "no whole page within 1 s", share=0.5),
    "nan": Fault(_set(waiting=float("nan"), running=float("nan"), kv=float("nan")), "value cannot be true"),
    "renamed": Fault(_renamed, "none of vllm:num_requests_waiting_by_reason, vllm:num_requests_waiting"),
    "reset": Fault(_set(hangs_up=True), "unavailable: "),
    "counters-fall": Fault(_set(rps=-5.0), "arrivals: no reading of now"),
}

COUNTERS: Final = "counters-reset"
"""Its engines start anew, all at once: their counters begin at nought, and nothing else is wrong."""

ANEW: Final = {"done": 0.0, "rps": 1.8}
"""A tenth below what they were seen to carry: six are right, and neither five nor seven by a reading's noise."""

OUTAGE: Final = "prometheus-down"
"""Only Prometheus can read it."""

SOUND: Final = "sound"


class Harmed:
    """The scene, its workloads by name, and since when they are harmed."""

    def __init__(self, scene: Scene, prometheus: Prometheus) -> None:
        self.scene, self.prometheus = scene, prometheus
        scene.engines.default = Figures(done=1e6, **BUSY)
        self.services = {name: self._serve(name) for name in [*FAULTS, COUNTERS, SOUND]}
        self.services[OUTAGE] = self._serve(OUTAGE, prometheus="main", metrics_port="9")
        self.ips = {name: service.wait_ready(6, 60) for name, service in self.services.items()}
        engines = scene.engines
        pods = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in self.services[OUTAGE].pods()}
        prometheus.scrape(scene.namespace, pods, engines.port)
        for name in self.services:
            wait_for(partial(self.fresh, name, "True"), 60, f"signals of {name}")
        for name, ips in self.ips.items():
            engines.of_all(ips, **(QUIET if name != COUNTERS else ANEW))
        for name, fault in FAULTS.items():
            for ip in self.ips[name][: round(6 * fault.share)]:
                fault.harm(engines.of(ip))
        prometheus.kill()
        self.since_s, self.began = time.monotonic(), datetime.now(UTC)

    def fresh(self, name: str, status: str) -> bool:
        """Whether a workload's condition SignalsFresh has this status."""
        return self.scene.condition(self.services[name], "SignalsFresh")[0] == status

    def shrinks(self) -> dict[str, list[tuple[int, int]]]:
        """What was taken from whom, of those who lost nothing by right."""
        return {name: lost for name, one in self.services.items() if name != SOUND and (lost := one.shrinks())}

    def _serve(self, name: str, **given: Any) -> Service:
        scene, given = self.scene, {"replicas": 6, "min_replicas": "1", "max_replicas": "12", **given}
        return Service(scene.plane, scene.engines, scene.namespace, name, **given)


@pytest.fixture(scope="module")
def harmed(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harmed]:
    with Prometheus(tmp_path_factory.mktemp("prometheus")) as prometheus, Engines() as engines:
        prometheus.wait_ready()
        with Scene.begin(plane, "pages", engines=engines, prometheus={"main": {"url": prometheus.url}}) as scene:
            yield Harmed(scene, prometheus)


@pytest.mark.parametrize("name", FAULTS)
def test_a_page_that_fails_is_told_and_passes_for_no_reading(harmed: Harmed, name: str) -> None:
    scene, service = harmed.scene, harmed.services[name]
    wait_for(lambda: FAULTS[name].words in scene.explained(service), 40, f"the words {FAULTS[name].words!r}")
    scene.decide_anew(service)
    assert harmed.fresh(name, "False"), "not for a moment only"


def test_prometheus_that_is_down_is_told(harmed: Harmed) -> None:
    scene, service = harmed.scene, harmed.services[OUTAGE]
    wait_for(lambda: "problem: prometheus main: " in scene.explained(service), 60, "a word about Prometheus")
    wait_for(lambda: harmed.fresh(OUTAGE, "False"), 60, "a word about missing signals")
    assert harmed.services[OUTAGE].shrinks() == [], "told, and nothing taken away"


def test_counters_that_begin_anew_are_neither_a_burst_nor_its_end(harmed: Harmed) -> None:
    """Later on, what they were seen to carry is what they carry now, and the noise of a reading may buy another."""
    time.sleep(max(0.0, harmed.since_s + 30.0 - time.monotonic()))
    until = harmed.began + timedelta(seconds=30)
    written = [patch["requestReceivedTimestamp"] for patch in harmed.services[COUNTERS].patches()]
    assert [at for at in written if datetime.fromisoformat(at) < until] == []


def test_nothing_shrinks_that_cannot_be_read(harmed: Harmed) -> None:
    wait_for(harmed.services[SOUND].shrinks, HELD_S, "the sound workload to shrink", every_s=1.0)
    time.sleep(3 * WITHIN_S)
    assert harmed.shrinks() == {}


def test_nothing_shrinks_in_ten_minutes_either_and_all_that_is_back_counts_at_once(harmed: Harmed) -> None:
    time.sleep(max(0.0, harmed.since_s + LASTS_S - time.monotonic()))
    assert harmed.shrinks() == {}
    assert harmed.scene.controller.returncode is None
    for name in [*FAULTS, OUTAGE]:
        harmed.scene.engines.of_all(harmed.ips[name], **WHOLE, **FLOOD)
    harmed.prometheus.start().wait_ready()
    grown = {name: harmed.services[name] for name in [*FAULTS, OUTAGE]}
    wait_for(lambda: all(one.replicas() > 6 for one in grown.values()), WITHIN_S, "growth of all within an interval")
    assert harmed.shrinks() == {}
