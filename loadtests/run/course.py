"""One run on a real control plane, from the target's creation to the last answer.

Enters: a scenario, a standing control plane. Leaves: a `Course`: samples of each second, every pod's life, every
request that ended, the controller's decisions and what it used. Whatever ends the run, what was known until then is
kept. It judges nothing and draws nothing.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.informer import Change, Informer, Resource
from autoscaler.adapters.kube.objects import Pod
from autoscaler.adapters.kube.scaling import Target as Scaled
from autoscaler.errors import HeadroomError
from autoscaler.runtime.clock import WallClock
from loadtests.run.pods import MODEL, Life, Pods
from loadtests.run.scalers import NAME, NAMESPACE, UP_S, Scaler, scaler
from loadtests.run.scenario import TIMEOUT_S, Scaling, Scenario
from loadtests.run.usage import Usage, usage
from loadtests.traffic.crew import Crew
from loadtests.traffic.live import View
from loadtests.traffic.log import read_log
from loadtests.traffic.report import Run
from loadtests.traffic.run import Plan, execute
from loadtests.traffic.sender import Ended
from loadtests.traffic.tally import Tally
from loadtests.traffic.target import Target
from tests.cluster.manifests import deployment
from tests.cluster.plane import Plane
from tests.cluster.processes import free_port

HOLD: Final = "stage.headroom.dev/hold"
EVERY_S: Final = 1.0


class CourseError(HeadroomError):
    """The run could not begin; the message says what was waited for."""


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


@dataclass(slots=True)
class Course:
    """A run; instants are seconds from the start of the load."""

    run: Run
    tally: Tally
    began_at_s: float
    """The start of the load, in seconds since 1970."""
    samples: list[Sample]
    lives: list[Life]
    """Their instants are the event loop's; `start_s` is the load's first."""
    start_s: float
    end_s: float
    """When the load had ended, in the event loop's seconds."""
    requests: list[Ended]
    """Numbered as in the schedule: one worker sends them all."""
    decisions: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class _Watched:
    """What the run sees of the cluster, and samples."""

    def __init__(
        self, scenario: Scenario, folder: Path, api: KubeApi, clock: WallClock, *, port: int, scaler: Scaler
    ) -> None:
        self.desired = scenario.policy.replicas
        self.samples: list[Sample] = []
        self.crew: Crew | None = None
        self.scaler = scaler
        self.clock = clock
        self.api = api
        self.pods = Pods(
            scenario.speed(folder), clock, port=port, pages=scenario.engine.pages, stages=scenario.engine.stages,
            lift=self._lift, told=self._told,
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

    async def _lift(self, pod: str) -> None:
        body = json.dumps({"metadata": {"annotations": {HOLD: None}}}).encode()
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}"
        for _ in range(5):
            try:
                await self.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
                return
            except KubeError as error:
                if error.status == 404:  # it was told to go meanwhile
                    return
                await self.clock.sleep_until(self.clock.monotonic() + 1.0)

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
                harness_cpu_s=time.process_time() - own_s,
            ))  # fmt: skip
            number += 1
            await clock.sleep_until(crew.start_s + number * EVERY_S)


async def course(
    scenario: Scenario, folder: Path, plane: Plane, view: View, *, command: str, say: Callable[[str], None],
    ended: ExitStack,
) -> Course:  # fmt: skip
    """Run the scenario; `folder` is the scenario's. CourseError where it cannot begin. `ended` is left once the event
    loop's threads have ended: an interruption finds one of them starting what scales."""
    clock, port = WallClock(), free_port()
    logs = plane.folder / "requests"
    logs.mkdir()
    async with AsyncExitStack() as stack:
        connect = KubeApi.connect(kubeconfig=plane.folder / "admin.kubeconfig", clock=clock, qps=500, burst=1000)
        api = await stack.enter_async_context(connect)
        say(f"starting {scenario.policy.replicas} replicas")
        await asyncio.to_thread(_create, plane, scenario, port)
        scaling = scaler(plane, scenario, port)
        stack.callback(scaling.close)
        ended.callback(scaling.close)
        watched = _Watched(scenario, folder, api, clock, port=port, scaler=scaling)
        start = await stack.enter_async_context(_beside())
        start(watched.pods.run())
        for informer in watched.informers:
            start(informer.run())
        await _until(lambda: len(watched.pods.bases) == scenario.policy.replicas, clock, "the first replicas")
        watched.pods.stages = watched.pods.later
        say(f"starting what scales: {scenario.scaling.value}")
        try:
            await asyncio.to_thread(scaling.start)
        except AssertionError as error:
            raise CourseError(f"what scales does not come up: {error}") from error
        plan = _plan(scenario, command, watched.pods.bases, logs)

        def hired(crew: Crew) -> None:
            watched.crew = crew
            start(watched.sample())

        run, tally = await execute(plan, view, hired)
        end_s, wall_s, crew = clock.monotonic(), time.time(), watched.crew
        assert crew is not None
        notes = [
            f"{process.command[0]} ended by itself with {process.returncode}: {process.words()[-500:]}"
            for process in scaling.processes
            if process.returncode is not None
        ]
        await asyncio.to_thread(scaling.close)
        return Course(
            run, tally, wall_s - (end_s - crew.start_s), watched.samples, list(watched.pods.lives.values()),
            crew.start_s, end_s, read_log(logs), scaling.decisions(), notes,
        )  # fmt: skip


@asynccontextmanager
async def _beside() -> AsyncIterator[Callable[[Coroutine[Any, Any, None]], None]]:
    """What starts tasks that end with the block; an error of the block, or the first of a task, is raised as it is."""
    begun: list[asyncio.Task[None]] = []
    try:
        async with asyncio.TaskGroup() as group:
            try:
                yield lambda work: begun.append(group.create_task(work))
            finally:
                for task in begun:
                    task.cancel()
    except BaseExceptionGroup as found:
        raise found.exceptions[0] from None


def _plan(scenario: Scenario, command: str, bases: tuple[str, ...], logs: Path) -> Plan:
    return Plan(
        command=command, seed=scenario.seed, target=Target(bases[0]), model=MODEL, headers={}, ignore_eos=True,
        schedule=scenario.schedule(), workers=1, timeout_s=TIMEOUT_S, most_open=4000, stop_errors=0.9, bases=bases,
        log=logs,
    )  # fmt: skip


def _create(plane: Plane, scenario: Scenario, port: int) -> None:
    policy, direct = scenario.policy, scenario.scaling is Scaling.DIRECT
    settings = {
        "scale": "true", "slo-ttft-s": f"{policy.ttft:g}", "min-replicas": str(policy.min_replicas),
        "max-replicas": str(policy.max_replicas), "engine": scenario.engine.pages,
    }  # fmt: skip
    plane.kubectl("create", "namespace", NAMESPACE)
    plane.apply(deployment(
        NAMESPACE, NAME, port, replicas=policy.replicas, stages={"hold": "ready"}, gpus=scenario.engine.gpus,
        annotations={f"headroom.dev/{name}": value for name, value in settings.items()} if direct else {},
    ))  # fmt: skip


async def _until(true: Callable[[], bool], clock: WallClock, what: str) -> None:
    end_s = clock.monotonic() + UP_S
    while not true():
        if clock.monotonic() > end_s:
            raise CourseError(f"waited {UP_S:g} s in vain for {what}")
        await clock.sleep_until(clock.monotonic() + 0.1)
