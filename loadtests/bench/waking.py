"""How long a wake through KEDA takes: its push brings 0 to 1, and HPA's next pull brings 1 to N.

KEDA's real operator, HPA at its default period of 15 s, and a server of ours whose answer turns from 0 to N at a known
instant, for one workload after the other. KEDA itself polls once an hour, so that nothing but the push wakes. What
`idleReplicaCount: 0` with a `minReplicaCount` of N makes of it is measured beside. Pods start at nobody's pace here.
"""

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from loadtests.bench.machine import command, machine
from tests.cluster.keda import Keda, scaled_object
from tests.cluster.manifests import deployment
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scaler import Scaler
from tests.real import parts

NAMESPACE: Final = "waking"
COUNT: Final = 6
WAYS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "from_zero": (1, {}),
    "from_idle_to_the_minimum": (COUNT, {"idleReplicaCount": 0, "minReplicaCount": COUNT}),
}
"""By name the count that the push alone leads to, and what the ScaledObject says for it."""
PATIENCE_S: Final = 60.0


def main(arguments: list[str]) -> int:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(prog="bench waking", description=__doc__)
    parser.add_argument("--rounds", type=int, default=6, help="wakes of either kind, one after the other")
    chosen = parser.parse_args(arguments)
    missing = parts.missing((*parts.CONTROL_PLANE, "keda"))
    if missing:
        print(f"bench waking: {missing}", file=sys.stderr)
        return 2
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plane = stack.enter_context(Plane(folder, nodes=0, gpus=0, aggregates=True))
        stack.enter_context(Keda(plane))
        scaler = stack.enter_context(Scaler())
        plane.kubectl("create", "namespace", NAMESPACE)
        figures = {
            way: [Wake(plane, scaler, f"{way.replace('_', '-')}-{turn}", *WAYS[way]) for turn in range(chosen.rounds)]
            for way in WAYS
        }
        count = sum(len(wakes) for wakes in figures.values())
        wait_for(lambda: scaler.book.counts.streams >= count, 120, "KEDA to open its streams", every_s=0.2)
        for wakes in figures.values():
            for wake in wakes:
                wake.measure()
    told = {
        way: {f"to_{n}_s": sorted(wake.took_s[n] for wake in wakes) for n in sorted({WAYS[way][0], COUNT})}
        for way, wakes in figures.items()
    }
    said = {"bench": "waking", "command": command("waking", arguments), "machine": machine()}
    print(json.dumps({**said, "hpa_period_s": 15, **told}, indent=1))
    return 0


class Wake:
    """One workload at zero, with its ScaledObject."""

    def __init__(self, plane: Plane, scaler: Scaler, name: str, first: int, options: dict[str, Any]) -> None:
        self.took_s: dict[int, float] = {}
        """Until it stood at a count."""
        self._plane, self._scaler, self._name, self._first = plane, scaler, name, first
        scaler.say(NAMESPACE, name, 0)
        plane.apply(deployment(NAMESPACE, name, 8000, replicas=0, gpus=0))
        plane.apply(scaled_object(NAMESPACE, name, scaler.address, push=True, pollingInterval=3600, **options))

    def measure(self) -> None:
        """Answer for it, and note when it stands."""
        wait_for(self._is_set_up, PATIENCE_S, f"KEDA to set {self._name} up")
        self._scaler.say(NAMESPACE, self._name, COUNT, 0)
        begun_s = time.monotonic()
        for count in sorted({self._first, COUNT}):
            wait_for(partial(self._has, count), PATIENCE_S, f"{self._name} at {count}", 0.01)
            self.took_s[count] = round(time.monotonic() - begun_s, 3)

    def _is_set_up(self) -> bool:
        path = f"/apis/keda.sh/v1alpha1/namespaces/{NAMESPACE}/scaledobjects/{self._name}"
        return bool(self._plane.call("GET", path).get("status", {}).get("externalMetricNames"))

    def _has(self, count: int) -> bool:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{self._name}"
        return int(self._plane.call("GET", path)["spec"]["replicas"]) >= count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
