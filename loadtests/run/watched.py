"""What a run sees of the cluster while it lasts, second by second, and the pods it makes ready.

Enters: changes of pods and of the target as the API server tells them, and what the scaler signals. Leaves: a `Sample`
for each second, and notes about what went wrong. It starts nothing and judges nothing.
"""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Final

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.informer import Change, Informer, Resource
from autoscaler.adapters.kube.objects import Pod
from autoscaler.adapters.kube.scaling import Target as Scaled
from autoscaler.ports import Clock
from loadtests.run.pods import Made, Pods
from loadtests.run.scalers import NAMESPACE, Scaler, Signal
from loadtests.run.scenario import Scenario
from loadtests.run.usage import Usage, usage
from loadtests.traffic.crew import Crew

HOLD: Final = "stage.headroom.dev/hold"
EVERY_S: Final = 1.0
LIFTS: Final = 5
"""Tries to make a pod ready, a second apart."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One second: counts at its end, and what was used since the start of the load."""

    at_s: float
    desired: int
    ready: int
    starting: int
    leaving: int
    waiting: int
    running: int
    kv_used_ratio: float
    """Of the fullest KV cache."""
    busy_s: float
    scaler_cpu_s: float
    scaler_rss_bytes: int
    """Of all processes of what scales: the controller, or KEDA and its Prometheus."""
    harness_cpu_s: float
    """Of this process: the servers, and the following of pods."""
    signal: Signal | None = None
    """What gateways were told last; None of what scales without telling any."""


class Watched:
    """What the run sees of the cluster, and samples."""

    def __init__(
        self, scenario: Scenario, made: Made, api: KubeApi, clock: Clock, *, port: int, scaler: Scaler
    ) -> None:
        self.desired = scenario.policy.replicas
        self.samples: list[Sample] = []
        self.notes: list[str] = []
        self.signal: Signal | None = None
        self.crew: Crew | None = None
        self.scaler = scaler
        self.clock = clock
        self.api = api
        self.pods = Pods(
            made, clock, port=port, stages=scenario.engine.stages, lift=self.lift, told=self._told,
            warm_slots=scenario.engine.warm_slots,
        )  # fmt: skip
        where = f"namespaces/{NAMESPACE}"
        self.informers = (
            Informer(api, Resource(f"/api/v1/{where}/pods", Pod), clock, self.pods.heard),
            Informer(api, Resource(f"/apis/apps/v1/{where}/deployments", Scaled), clock, self._scaled),
        )

    def _told(self) -> None:
        if self.crew is not None and self.crew.start_s:
            self.crew.aim(self.pods.bases)
        self.scaler.serve({life.name: life.address for life in self.pods.lives.values() if life.serving})

    def _scaled(self, change: Change[Scaled]) -> None:
        if change.new is not None and change.new.spec.replicas is not None:
            self.desired = change.new.spec.replicas

    async def lift(self, pod: str) -> None:
        """Let the pod become ready; a note where the API server does not take it."""
        body = json.dumps({"metadata": {"annotations": {HOLD: None}}}).encode()
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}"
        for left in reversed(range(LIFTS)):
            try:
                await self.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
                return
            except KubeError as error:
                if error.status == 404:  # it was told to go meanwhile
                    return
                if not left:
                    self.notes.append(
                        f"pod {pod} never became ready, though its server was warm: {LIFTS} times the API server did "
                        f"not take {HOLD} off it ({error}). It counts as starting, so these figures say nothing; run "
                        "the scenario again when the machine has room"
                    )
                    return
                await self.clock.sleep_until(self.clock.monotonic() + EVERY_S)

    async def listen(self) -> None:
        """Ask each second what the scaler tells gateways, until cancelled, or until it turns out to tell nothing."""
        while True:
            asked_s = self.clock.monotonic()
            self.signal = await asyncio.to_thread(self.scaler.signalled)
            if self.signal is None:
                return
            await self.clock.sleep_until(asked_s + EVERY_S)

    def _used(self) -> Usage:
        each = [usage(process.pid) for process in self.scaler.processes if process.returncode is None]
        return Usage(sum(one.cpu_s for one in each), sum(one.rss_bytes for one in each))

    async def sample(self) -> None:
        """Note each second until cancelled."""
        crew, clock = self.crew, self.clock
        assert crew is not None
        while not crew.start_s:
            await clock.sleep_until(clock.monotonic() + 0.05)
        self._told()
        await clock.sleep_until(crew.start_s)
        before, own_s, busy_s = self._used(), time.process_time(), self.pods.busy_s
        number = 0
        while True:
            pods = self.pods
            used, lives = self._used(), pods.lives.values()
            self.samples.append(Sample(
                at_s=clock.monotonic() - crew.start_s, desired=self.desired,
                ready=sum(life.serving for life in lives),
                starting=sum(life.ready_s is None and life.gone_s is None for life in lives),
                leaving=sum(life.gone_s is not None and life.ended_s is None for life in lives),
                waiting=pods.waiting, running=pods.running, kv_used_ratio=pods.kv_used_ratio,
                busy_s=pods.busy_s - busy_s,
                scaler_cpu_s=max(0.0, used.cpu_s - before.cpu_s), scaler_rss_bytes=used.rss_bytes,
                harness_cpu_s=time.process_time() - own_s, signal=self.signal,
            ))  # fmt: skip
            number += 1
            await clock.sleep_until(crew.start_s + number * EVERY_S)
