"""One run on a real control plane, from the target's creation to the last answer.

Enters: a scenario, a standing control plane. Leaves: a `Course`: samples of each second, every pod's life, every
request that ended, the controller's decisions and what it used. Whatever ends the run, what was known until then is
kept. It judges nothing and draws nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.errors import HeadroomError
from autoscaler.runtime.clock import WallClock
from loadtests.engines.server import ListenError
from loadtests.groups import first_of
from loadtests.run.foreign import NAMES, metrics_port, prepare
from loadtests.run.pods import MODEL, Life, Made, dynamos, ours
from loadtests.run.scalers import NAME, NAMESPACE, UP_S, scaler
from loadtests.run.scenario import TIMEOUT_S, Make, Scaling, Scenario
from loadtests.run.watched import Sample, Watched
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

SET_S: Final = 0.5
"""A clock that is off by less was not set, but disciplined."""


class CourseError(HeadroomError):
    """The run could not begin; the message says what was waited for."""


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
        made = _made(scenario, folder, plane, clock)
        pages = port if scenario.engine.make is Make.OURS else metrics_port(port)
        await asyncio.to_thread(_create, plane, scenario, pages)
        scaling = scaler(plane, scenario, pages)
        stack.callback(scaling.close)
        ended.callback(scaling.close)
        watched = Watched(scenario, made, api, clock, port=port, scaler=scaling)
        start = await stack.enter_async_context(beside())
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
            start(watched.listen())

        run, tally = await execute(plan, view, hired)
        end_s, crew = clock.monotonic(), watched.crew
        assert crew is not None
        ended_early = [
            f"{process.command[0]} ended by itself with {process.returncode}: {process.words()[-500:]}"
            for process in scaling.processes
            if process.returncode is not None
        ]
        notes = [*watched.notes, *set_clock(clock), *ended_early]
        began_at_s = clock.now() - (clock.monotonic() - crew.start_s)
        await asyncio.to_thread(scaling.close)
        return Course(
            run, tally, began_at_s, watched.samples, list(watched.pods.lives.values()),
            crew.start_s, end_s, read_log(logs), scaling.decisions(), notes,
        )  # fmt: skip


def set_clock(clock: WallClock) -> list[str]:
    """A note where the machine's clock was set since `clock` was made. What scales goes by such a clock too, which
    follows slowly; requests and pods are timed by one that nobody sets."""
    off_s = clock.off_s()
    if abs(off_s) < SET_S:
        return []
    way = f"{'forward' if off_s > 0 else 'back'} by {abs(off_s):.0f} s"
    note = (
        f"the machine's clock was set {way} while this ran: latencies, replicas and GPU-hours are not touched by it, "
        "but decisions may stand a few seconds from where they were made"
    )
    return [note]


@asynccontextmanager
async def beside() -> AsyncIterator[Callable[[Coroutine[Any, Any, None]], None]]:
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
        error = first_of(found)
        if isinstance(error, ListenError):
            raise CourseError(f"a pod's server: {error}; run it again, which chooses another port") from error
        raise error from None


def _plan(scenario: Scenario, command: str, bases: tuple[str, ...], logs: Path) -> Plan:
    return Plan(
        command=command, seed=scenario.seed, target=Target(bases[0]), model=MODEL, headers={}, ignore_eos=True,
        schedule=scenario.schedule(), workers=1, timeout_s=TIMEOUT_S, most_open=4000, stop_errors=0.9, bases=bases,
        log=logs,
    )  # fmt: skip


def _made(scenario: Scenario, folder: Path, plane: Plane, clock: WallClock) -> Made:
    """What makes the pods' servers."""
    speed = scenario.speed(folder)
    if scenario.engine.make is Make.OURS:
        return ours(speed, clock, scenario.engine.pages)
    place = plane.folder / "dynamo"
    place.mkdir()
    prepare(place, speed)
    return dynamos(speed, clock, place)


def _create(plane: Plane, scenario: Scenario, port: int) -> None:
    policy, direct = scenario.policy, scenario.scaling is Scaling.DIRECT
    names = {"engine": scenario.engine.pages} if scenario.engine.make is Make.OURS else NAMES
    settings = {
        "scale": "true", "slo-ttft-s": f"{policy.ttft:g}", "min-replicas": str(policy.min_replicas),
        "max-replicas": str(policy.max_replicas), **names,
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
