"""Who sets the replicas: Headroom on ``/scale``, Headroom through KEDA, or KEDA and HPA on the length of the queue.

Enters: a control plane with the workload on it. Leaves: a running scaler, what it decided, and its processes. Each is
started as its own documentation says, at its defaults.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from typing import Any, Final, Protocol

import msgspec

from loadtests.run.scenario import Scaling, Scenario
from tests.cluster.controller import Controller
from tests.cluster.hpa import USER
from tests.cluster.keda import Keda, scaled_object
from tests.cluster.plane import Plane
from tests.cluster.processes import Process, free_port, wait_for
from tests.cluster.prometheus import Prometheus

NAMESPACE: Final = "load"
NAME: Final = "chat"
UP_S: Final = 60.0
ANSWER_S: Final = 1.0

THRESHOLD: Final = 5
"""Waiting requests for each replica. This, the polling interval and the cooldown are those that vLLM's production stack
documents (vllm-project/production-stack @ 183a136abb5f, docs/source/use_cases/autoscaling-keda.rst); the query here
sums over pods, as one of several series is refused."""
POLLED_S: Final = 15
COOLDOWN_S: Final = 360

QUEUES: Final = {"vllm": "vllm:num_requests_waiting", "sglang": "sglang:num_queue_reqs"}


@dataclass(frozen=True, slots=True)
class Signal:
    """What gateways are told of the workload; figures are None where `state` says that none hold."""

    state: str
    """overloaded, fits, or unknown, which it also is while nobody answers."""
    shed_ratio: float | None = None
    """Share of the load beyond what is served."""
    deficit_replicas: int | None = None
    admissible_rps: float | None = None
    retry_after_s: float | None = None


class Scaler(Protocol):
    """Something that sets the replicas. `close` ends what was started until then, and may be called again."""

    @property
    def processes(self) -> list[Process]:
        """All that it consists of."""
        ...

    def start(self) -> None:
        """Return once it decides. AssertionError where it does not come up."""
        ...

    def serve(self, pods: Mapping[str, str]) -> None:
        """These pods take requests now; addresses by name."""
        ...

    def signalled(self) -> Signal | None:
        """What it tells gateways now, within a second; None where it tells them nothing ever."""
        ...

    def decisions(self) -> list[dict[str, Any]]:
        """What it decided, oldest first, as lines of an audit."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Headroom:
    """The controller, which patches ``/scale`` itself or, with KEDA, tells KEDA what to set."""

    def __init__(self, plane: Plane, scenario: Scenario) -> None:
        self._plane, self._scenario = plane, scenario
        self._ended = ExitStack()
        port = free_port()
        more: dict[str, Any] = {}
        self._address = f"127.0.0.1:{port}"
        if scenario.scaling is Scaling.KEDA:
            more["keda"] = {
                "enabled": True, "plaintext": True, "host": "127.0.0.1", "port": port, "addresses": [self._address],
            }  # fmt: skip
        self._controller = Controller(plane, "headroom", watch_namespaces=[NAMESPACE], **more)
        self.processes: list[Process] = [self._controller]

    def start(self) -> None:
        """Return once it leads, and behind KEDA once KEDA was told a number."""
        self._controller.start()
        self._ended.callback(self._controller.stop)
        self._controller.wait_leading(UP_S)
        if self._scenario.scaling is not Scaling.KEDA:
            return
        keda = self._ended.enter_context(Keda(self._plane))
        self.processes += [keda.operator, keda.adapter]
        policy, engine = self._scenario.policy, self._scenario.engine
        self._plane.apply(scaled_object(
            NAMESPACE, NAME, self._address, push=True, pollingInterval=POLLED_S, advanced={},
            metadata={"sloTtftS": f"{policy.ttft:g}", "engine": engine.pages}, **_bounds(self._scenario),
        ))  # fmt: skip
        wait_for(lambda: keda.value(NAMESPACE, NAME) is not None, UP_S, "KEDA to be told a number", 0.5)

    def serve(self, pods: Mapping[str, str]) -> None:
        """It follows pods by itself."""

    def signalled(self) -> Signal | None:
        """Its word on overload."""
        try:
            told = self._controller.get(f"/api/overload/{NAMESPACE}/{NAME}", ANSWER_S)
        except (OSError, HTTPException):
            return Signal("unknown")
        return msgspec.convert(told, Signal)

    def decisions(self) -> list[dict[str, Any]]:
        """Its audit."""
        return self._controller.decisions()

    def close(self) -> None:
        """Stop it, so that its audit is whole."""
        self._ended.close()


class QueueLength:
    """KEDA with a Prometheus trigger on the requests that wait, and the HPA that KEDA makes, both at their defaults."""

    def __init__(self, plane: Plane, scenario: Scenario, port: int) -> None:
        self._plane, self._scenario, self._port = plane, scenario, port
        self._prometheus = Prometheus(plane.folder / "prometheus")
        self._ended = ExitStack()
        self.processes: list[Process] = []

    def start(self) -> None:
        """Return once HPA can read the metric."""
        prometheus = self._ended.enter_context(self._prometheus)
        prometheus.wait_ready(UP_S)
        keda = self._ended.enter_context(Keda(self._plane))
        self.processes = [prometheus, keda.operator, keda.adapter]
        trigger = {
            "type": "prometheus",
            "metadata": {
                "serverAddress": prometheus.url, "query": f"sum({QUEUES[self._scenario.engine.pages]})",
                "threshold": str(THRESHOLD),
            },
        }  # fmt: skip
        self._plane.apply(scaled_object(
            NAMESPACE, NAME, "", triggers=[trigger], pollingInterval=POLLED_S, advanced={}, **_bounds(self._scenario)
        ))  # fmt: skip
        wait_for(lambda: keda.value(NAMESPACE, NAME, "s0-prometheus") is not None, UP_S, "KEDA's metric", 0.5)

    def serve(self, pods: Mapping[str, str]) -> None:
        """Let Prometheus scrape them."""
        self._prometheus.scrape(NAMESPACE, pods, self._port)

    def signalled(self) -> Signal | None:
        """Neither KEDA nor HPA has such a word."""
        return None

    def decisions(self) -> list[dict[str, Any]]:
        """Every count that HPA wrote, by the API server's audit log."""
        made, before = [], self._scenario.policy.replicas
        for entry in self._plane.audited(verb="update", resource="deployments/scale", user=USER):
            after = int(entry["requestObject"]["spec"].get("replicas", 0))
            made.append({
                "now_s": datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp(),
                "workload": f"{NAMESPACE}/{NAME}", "seen_replicas": before, "replicas": after, "verdict": "SCALE",
                "reason": "HPA", "text": f"{before}→{after}: HPA wrote it; it gives no reason here",
            })  # fmt: skip
            before = after
        return made

    def close(self) -> None:
        """End all of it."""
        self._ended.close()


def scaler(plane: Plane, scenario: Scenario, port: int) -> Scaler:
    """The one that the scenario names; `port` is that of the pods' pages."""
    if scenario.scaling is Scaling.KEDA_QUEUE:
        return QueueLength(plane, scenario, port)
    return Headroom(plane, scenario)


def _bounds(scenario: Scenario) -> dict[str, Any]:
    policy = scenario.policy
    return {
        "minReplicaCount": policy.min_replicas,
        "maxReplicaCount": policy.max_replicas,
        "cooldownPeriod": COOLDOWN_S,
    }
