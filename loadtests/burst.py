"""`loadtests burst`: two bursts of replicas on a warm pool of real Karpenter, and the stage clock of it, recorded.

Enters: how many replicas at once. Leaves: when each was ordered, on a node and ready, whether that node had been warm,
what the controller had said of the next start, and its stage clock, printed and as JSON. Nodes, images, weights and
engines are KWOK's: how long they take is an input of the run. What is real is who does what, in which order, and that
what was measured of the first burst foretells the second. The bursts are orders given by hand.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from autoscaler.errors import InputError
from loadtests import recorded
from loadtests.recovery import MOST_RATIO
from tests.capacity.karpenter import STAGES, Karpenter, node_pool
from tests.capacity.pools import SETTINGS, Pool
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import Controller
from tests.cluster.manifests import deployment
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file
from tests.real import parts

NAME: Final = "chat"
NAMESPACE: Final = "serving"
WORKLOAD: Final = f"{NAMESPACE}/{NAME}"
NOTHING: Final = "says nothing of the next start"
GPUS: Final = 8
"""Of a node, of a slot and of a replica."""

SLACK_S: Final = 240.0
"""How long anything may take on a loaded machine."""

UNIT_S: Final = {"s": 1.0, "min": 60.0, "h": 3600.0}
"""Of the words in which a start is foretold."""

MERGE: Final = "application/merge-patch+json"
INPUTS: Final = {"gpus-after": "4s", "start-after": "1s", "ready-after": "3s"}
"""What KWOK makes nodes and engines take; an image and weights take half a second each."""


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica of a burst; seconds from its order to its node and to readiness, as Kubernetes tells them."""

    name: str
    node: str
    node_was_warm: bool
    placed_s: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class Burst:
    """Replicas that were ordered at once, and what the controller said of the next start before and after."""

    said_before: str
    replicas: tuple[Replica, ...]
    said_after: str

    @property
    def over_foretold(self) -> float | None:
        """The last replica's readiness over what nine of ten starts were foretold to take; None where nothing was.

        Kubernetes tells instants by whole seconds, and of a start of seconds the words do too.
        """
        told = re.search(r"9 of 10 within ([0-9.]+) (s|min|h)\b", self.said_before)
        within_s = 0.0 if told is None else float(told[1]) * UNIT_S[told[2]]
        return max(replica.ready_s for replica in self.replicas) / within_s if within_s else None


@dataclass(frozen=True, slots=True)
class Record:
    """What a run found."""

    bursts: tuple[Burst, ...]
    stage_clock: tuple[str, ...]
    """As `headroom explain` prints it, of the pool and of the workload."""


def record(folder: Path, count: int, say: recorded.Say) -> Record:
    """Run it in `folder`; AssertionError with what was waited for where something does not come about."""
    say("starting the control plane and Karpenter")
    with Plane(folder, nodes=0, stages=[STAGES], manager_flags=["--controllers", "podgc"]) as plane:
        install(plane)
        apply_file(plane, CONFIG / "rbac" / "warm-pools")
        plane.kubectl("create", "namespace", NAMESPACE)
        with Karpenter(plane) as karpenter, Controller(plane, **SETTINGS) as controller:
            controller.wait_leading(SLACK_S)
            gpus = {"gpus-after": INPUTS["gpus-after"]}
            karpenter.plane.apply(node_pool("gpu", stages=gpus, startup_taints=["readiness.k8s.io/gpu"]))
            pool = Pool(plane, NAME, ("h100", "gpu"), minSlots=count, maxSlots=count)
            plane.apply(_service())
            bursts: list[Burst] = []
            for ordered in (count, 2 * count):
                say(f"waiting for {count} warm slots")
                _wait_warm(pool, count)
                say(f"burst {len(bursts) + 1}: {count} replicas")
                bursts.append(_burst(plane, controller, pool, ordered))
            _wait_warm(pool, count)
            return Record(tuple(bursts), tuple(_stage_clock(controller)))


def lines(found: Record) -> Iterator[str]:
    """A record for people."""
    for number, burst in enumerate(found.bursts, start=1):
        warm = sum(replica.node_was_warm for replica in burst.replicas)
        bound = ", ".join(f"{replica.placed_s:.0f}" for replica in burst.replicas)
        ready = ", ".join(f"{replica.ready_s:.0f}" for replica in burst.replicas)
        took = f"seconds from its order until each is bound: {bound}; ready: {ready}"
        yield f"burst {number}: {warm} of {len(burst.replicas)} replicas on warm nodes; {took}"
        yield f"  the controller before it: {burst.said_before or NOTHING}"
        if burst.over_foretold is not None:
            foretold = f"{burst.over_foretold:.2f} times what was foretold for 9 of 10 starts"
            yield f"  the last replica was ready after {foretold}; at most {MOST_RATIO:g} is asked"
        yield f"  the controller after it: {burst.said_after or NOTHING}"
    yield "the stage clock, as `headroom explain` tells it of the pool and of the workload:"
    yield from (f"  {line}" for line in found.stage_clock)


def main(arguments: list[str]) -> int:
    """Run, print, write; 0 where every replica found a warm node, 1 where not, 2 for unusable arguments."""
    parser = recorded.parser("burst", __doc__)
    parser.add_argument("--replicas", type=int, default=2, metavar="N", help="replicas of a burst (1..8), by default 2")
    given = parser.parse_args(arguments)
    found = recorded.recorded("burst", lambda: _check(given), lambda folder, say: record(folder, given.replicas, say))
    if isinstance(found, int):
        return found
    print("\n".join(lines(found)))
    over = [burst.over_foretold for burst in found.bursts]
    recorded.keep(given.json, "burst", arguments, {"inputs": INPUTS, "over_foretold": over, **asdict(found)})
    return 0 if all(replica.node_was_warm for burst in found.bursts for replica in burst.replicas) else 1


def _check(given: argparse.Namespace) -> None:
    """InputError where it cannot be run as it is asked for."""
    if not 1 <= given.replicas <= 8:
        raise InputError(f"--replicas: {given.replicas} is out of range; it must be 1..8")
    recorded.check(given, (*parts.CONTROL_PLANE, "karpenter"))


def _service() -> dict[str, Any]:
    """A service that is watched and not scaled, whose image is on every warm node."""
    stages = {"image": "present", "start-after": INPUTS["start-after"], "ready-after": INPUTS["ready-after"]}
    said = {"headroom.dev/scale": "true", "headroom.dev/mode": "Shadow", "headroom.dev/max-replicas": "32"}
    made = deployment(NAMESPACE, NAME, 8000, replicas=0, annotations=said, stages=stages, gpus=GPUS)
    made["spec"]["template"]["spec"] |= {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    return made


def _burst(plane: Plane, controller: Controller, pool: Pool, ordered: int) -> Burst:
    """Order so many replicas in all, and wait for the new ones to be ready."""
    before, warm = {pod["metadata"]["uid"] for pod in _pods(plane)}, {slot["spec"]["nodeName"] for slot in pool.slots}
    said = _said(controller)
    plane.call(
        "PATCH", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}", {"spec": {"replicas": ordered}}, MERGE
    )
    wait_for(lambda: sum(map(_is_ready, _pods(plane))) == ordered, SLACK_S, f"{ordered} ready replicas", every_s=0.2)
    new = [pod for pod in _pods(plane) if pod["metadata"]["uid"] not in before]
    found = tuple(sorted((_replica(pod, warm) for pod in new), key=lambda replica: (replica.ready_s, replica.name)))
    wait_for(lambda: _said(controller) not in {"", said}, SLACK_S, "a word on the next start", every_s=0.5)
    return Burst(said, found, _said(controller))


def _wait_warm(pool: Pool, count: int) -> None:
    """A status may be as old as the slots that a burst has just taken: these have to be there themselves."""
    ready = lambda: sum(map(_is_ready, pool.slots)) == pool.warm == count  # noqa: E731 - one expression, named
    wait_for(ready, SLACK_S, f"{count} warm slots", every_s=0.2)


def _pods(plane: Plane) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = plane.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return items


def _is_ready(pod: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))


def _replica(pod: dict[str, Any], warm: set[str]) -> Replica:
    meta, node = pod["metadata"], pod["spec"]["nodeName"]
    ended = {c["type"]: datetime.fromisoformat(c["lastTransitionTime"]) for c in pod["status"]["conditions"]}
    began = datetime.fromisoformat(meta["creationTimestamp"])
    placed_s, ready_s = ((ended[kind] - began).total_seconds() for kind in ("PodScheduled", "Ready"))
    return Replica(meta["name"], node, node in warm, placed_s, ready_s)


def _said(controller: Controller) -> str:
    """What the controller says of the next start; empty while it says nothing."""
    told = re.search(r"(the next start takes .*|how long the next start .*)", _explained(controller))
    return "" if told is None else told[1]


def _stage_clock(controller: Controller) -> Iterator[str]:
    """What it measured, of slots and of replicas."""
    text = f"{controller.get(f'/api/pools/{NAME}')['explained']}\n{_explained(controller)}"
    yield from (said[1] for said in re.finditer(r"((?:a slot on|a replica,|the next start takes) .*)", text))


def _explained(controller: Controller) -> str:
    return str(controller.get(f"/api/explain/{WORKLOAD}")["text"])
