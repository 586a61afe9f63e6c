"""One demo from start to end: the live controller on an embedded cluster, its page, its progress, its comparison.

Enters: a plan. Leaves: an outcome to print and to write. The first interrupt ends the run early and still compares what
ran; the second one gives that up too.
"""

import asyncio
import os
import signal
import sys
import webbrowser
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from autoscaler.adapters.web.hub import Hub
from autoscaler.app.demo import DemoSession, DemoWorkload, demo_session
from autoscaler.cli.comparison import Comparison, compare_here
from autoscaler.cli.screen import Line, progress
from autoscaler.core.params import Params
from autoscaler.record.stream import Aim, Frame, Results, WorkloadFrame, workload_frame
from autoscaler.runtime.clock import WallClock
from autoscaler.runtime.records import Stepped
from autoscaler.sim.instance import Instance

REDRAW_S: Final = 0.25
LATE_TICKS: Final = 2.0
"""A decision this many ticks behind its data was made by a controller that was not given the processor it needs."""
LATE_RATIO: Final = 0.05
"""The table says so where more than this share of the decisions was late."""
ENDS: Final = 2
"""Ticks of a workload that may pass without a decision though nothing is amiss: the first one and the last one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be played. Instances are cut to the length that fits the wall time."""

    instances: Mapping[str, Instance]
    params: Mapping[str, Params]
    speed: float
    wall_s: float
    port: int | None
    browser: bool
    processes: int = 1
    """For the comparison; they yield to the live part."""


@dataclass(slots=True)
class Outcome:
    """What was played. `decisions` and `moves`, those that changed the count, are counted per workload."""

    interrupted: bool = False
    results: list[Results] = field(default_factory=list)
    last: dict[str, WorkloadFrame] = field(default_factory=dict)
    decisions: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    late: int = 0

    @property
    def late_ratio(self) -> float:
        """Share of the decisions that came more than `LATE_TICKS` after their readings, 0..1."""
        return self.late / max(1, self.decisions.total())

    def due(self, plan: Plan) -> int:
        """How many decisions what was played has ticks for; what happens between two ticks brings more."""
        return sum(int(played.duration_s / plan.params[played.workload].tick_s) for played in self.results)

    def take(self, frame: WorkloadFrame, now_s: float, tick_s: float) -> None:
        """Count a frame that arrived at data time `now_s`."""
        self.last[frame.workload] = frame
        self.decisions[frame.workload] += 1
        self.moves[frame.workload] += frame.decision.verdict == "SCALE"
        self.late += now_s - frame.now_s > LATE_TICKS * tick_s

    def warnings(self, plan: Plan) -> list[str]:
        """What limits the figures, in words."""
        texts = []
        due = self.due(plan)
        if self.decisions.total() < due * (1.0 - LATE_RATIO) - ENDS * len(self.results):
            texts.append(
                f"this machine could not keep up: {self.decisions.total():,} decisions were made where {due:,} were "
                "due, so the figures of ours tell nothing of the controller; a lower --speed than "
                f"{plan.speed:g} shows it as it is"
            )
        elif self.late_ratio > LATE_RATIO:
            texts.append(
                f"this machine could not keep up: {self.late_ratio:.0%} of the decisions came more than {LATE_TICKS:g} "
                f"ticks after their readings, which costs ours and not the rivals; a lower --speed than {plan.speed:g} "
                "shows it as it is"
            )
        if self.interrupted:
            texts.append("interrupted: the tables are of what ran until then, and rivals are not swept in hindsight")
        return texts


class Interrupts:
    """Counts interrupts for the length of a block: the first sets `first`, the second cancels the block's task."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self._task = asyncio.current_task()

    def __enter__(self) -> "Interrupts":
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)

    def _on_signal(self) -> None:
        if self.first.is_set() and self._task is not None:
            self._task.cancel()
        self.first.set()


async def play(plan: Plan) -> Outcome:
    """Play the plan and compare. InputError when the port cannot be had, CancelledError on the second interrupt."""
    from autoscaler.adapters.web.server import serving

    outcome, hub = Outcome(), Hub()
    workloads = [
        DemoWorkload(name, instance.traffic, instance.spec, plan.params[name])
        for name, instance in plan.instances.items()
    ]
    with Interrupts() as interrupts:
        async with serving(hub, plan.port) as url:
            print(f"Headroom demo: {url}", flush=True)
            if plan.browser:
                await asyncio.to_thread(_show, url)
            with Line() as line, Comparison(plan.instances, processes=plan.processes) as comparison:
                async with demo_session(workloads, speed=plan.speed) as session:
                    await _Show(plan, hub, line, outcome, interrupts.first).run(session)
                hub.end("The run has ended.")
                runs = {name: run for name in plan.instances if (run := session.played(name)) is not None}
                if not outcome.interrupted:
                    await _compare(comparison, line, interrupts.first)
                    outcome.interrupted = interrupts.first.is_set()
                if not outcome.interrupted:
                    outcome.results = [comparison.results(name, run) for name, run in runs.items()]
            if outcome.interrupted and runs:
                for name, run in runs.items():
                    played = replace(plan.instances[name], traffic=run.traffic)
                    outcome.results.append(await asyncio.to_thread(compare_here, name, played, run))
            for results in outcome.results:
                hub.publish_results(results)
    return outcome


@dataclass(frozen=True, slots=True)
class _Show:
    """The session with its page and its line, until it ends by itself or is interrupted."""

    plan: Plan
    hub: Hub
    line: Line
    outcome: Outcome
    interrupted: asyncio.Event

    async def run(self, session: DemoSession) -> None:
        """Play the session to its end."""
        over = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(session), name="watch")
            group.create_task(self._draw(session, over), name="draw")
            obeying = group.create_task(self._obey(session), name="obey")
            await session.run()
            over.set()
            obeying.cancel()

    async def _watch(self, session: DemoSession) -> None:
        """Every step becomes a frame, however many come at once: a page that skipped some would show moves from
        nowhere."""
        async for entries in session.entries():
            for step in (entry for entry in entries if isinstance(entry, Stepped)):
                params = self.plan.params[step.decision.workload]
                aim = Aim(params.slo.queue_slack_s(), params.min_replicas, params.max_replicas, params.tick_s)
                shown = workload_frame(step.view, step.decision, step.readings, aim)
                self.hub.publish(Frame(shown.now_s, session.speed, (shown,)))
                self.outcome.take(shown, session.now_s, params.tick_s)

    async def _draw(self, session: DemoSession, over: asyncio.Event) -> None:
        clock, plan = WallClock(), self.plan
        length_s = plan.wall_s * plan.speed
        while not over.is_set():
            data_s = min(session.now_s, length_s)
            text = progress(self.outcome.last, data_s, (length_s - data_s) / plan.speed, plan.speed)
            self.line.tell(text, data_s / length_s, clock.monotonic())
            await clock.sleep_until(clock.monotonic() + REDRAW_S, over)

    async def _obey(self, session: DemoSession) -> None:
        await self.interrupted.wait()
        self.outcome.interrupted = True
        session.stop()


async def _compare(comparison: Comparison, line: Line, interrupted: asyncio.Event) -> None:
    """Wait for the rivals; an interrupt ends the waiting."""
    clock = WallClock()
    while not interrupted.is_set():
        done, total = comparison.done
        if done == total:
            return
        text = f"comparing with the peers and the optimum: {done} of {total} runs"
        line.tell(text, done / total, clock.monotonic())
        await clock.sleep_until(clock.monotonic() + REDRAW_S, interrupted)


def _show(url: str) -> None:
    """Open the page where there is a screen to open it on; a browser in the terminal would take the terminal over."""
    screen = sys.platform in {"darwin", "win32"} or any(os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY"))
    if screen:
        webbrowser.open(url)
