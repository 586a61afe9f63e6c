"""Metrics pages that fail, each on a workload of its own, beside one whose pages are sound and which shrinks.

Every workload holds six replicas that were busy for a moment and have no work then, so that a controller that takes
silence for zero would shrink all of them when the hold of two minutes ends. The sound one proves that the hold did end.
"""

from collections.abc import Callable
from typing import Final

import pytest

from tests.cluster.controller import Controller
from tests.cluster.engines import Engines, Figures
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.service import Service

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.needs("control-plane"),
    pytest.mark.timeout(600),
]

HELD_S: Final = 300.0
"""The stabilisation of at least 120 s begins with the first reading; growth and the pace of shrinking come on top."""

BUSY: Final = {"waiting": 0.0, "running": 1.0, "rps": 2.0}
QUIET: Final = {"waiting": 0.0, "running": 0.0, "rps": 0.0}


def _set(**figures: object) -> Callable[[Figures], None]:
    def change(page: Figures) -> None:
        for name, value in figures.items():
            setattr(page, name, value)

    return change


def _renamed(page: Figures) -> None:
    page.page = page.text(page.since_s).replace(b"vllm:num_requests", b"vllm:requests").replace(b"success", b"ok")


def _truncated(page: Figures) -> None:
    page.page = page.text(page.since_s)[:60]


FAULTS: Final[dict[str, Callable[[Figures], None]]] = {
    "empty": _set(page=b""),
    "truncated": _truncated,
    "html": _set(page=b"<html><body>502 Bad Gateway</body></html>", kind="text/html"),
    "error-500": _set(page=b"<html>oops</html>", status=500),
    "hundred-megabytes": _set(page=b"# filler\n" * 12_000_000),
    "drip": _set(drip_s=0.5),
    "silent": _set(silent=True),
    "nan": _set(waiting=float("nan"), running=float("nan"), kv=float("nan")),
    "renamed": _renamed,
}
"""Fault -> what it does to every page of its workload, from the first minute on."""

HALF: Final = "half-vanish"
RESET: Final = "reset"
SOUND: Final = "sound"


def test_no_fault_of_a_page_takes_a_replica_away(plane: Plane, namespace: str, engines: Engines) -> None:
    names = [*FAULTS, HALF, RESET, SOUND]
    services = {
        name: Service(plane, engines, namespace, name, replicas=6, min_replicas="1", max_replicas="12")
        for name in names
    }
    ips = {name: service.wait_ready(6, 60) for name, service in services.items()}
    for some in ips.values():
        engines.of_all(some, **BUSY)
    with Controller(plane, "pages", watch_namespaces=[namespace]) as controller:
        controller.wait_leading()
        wait_for(lambda: all(engines.asked.get(ip, 0) > 5 for some in ips.values() for ip in some), 60, "sound pages")
        for some in ips.values():
            engines.of_all(some, **QUIET)
        for name, harm in FAULTS.items():
            for ip in ips[name]:
                harm(engines.of(ip))
        engines.of_all(ips[HALF][:3], silent=True)
        engines.of_all(ips[RESET], done=0.0)
        wait_for(services[SOUND].shrinks, HELD_S, "the sound workload to shrink", every_s=1.0)
        harmed = {name: services[name].shrinks() for name in [*FAULTS, HALF]}
        assert harmed == {name: [] for name in harmed}
        conditions = {
            name: controller.get(f"/api/explain/{services[name].workload}")["text"] for name in [*FAULTS, HALF]
        }
        assert all("SignalsFresh=" in text for text in conditions.values())
        assert {n for n, text in conditions.items() if "SignalsFresh=True" in text} == set()
        for name in [*FAULTS, HALF]:
            engines.of_all(ips[name], page=None, status=200, silent=False, drip_s=0.0, kind="text/plain", **QUIET)
        engines.of_all(ips["drip"], waiting=40.0, running=8.0)
        wait_for(lambda: services["drip"].replicas() > 6, 20, "growth within an interval of the fault's end")
