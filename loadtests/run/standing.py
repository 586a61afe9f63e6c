"""A control plane for one run, started and ended around it.

Enters: a scenario. Leaves: its course, on a control plane of its own with nodes enough for the most replicas. Whatever
did not come up is a `CourseError` that says what was waited for.
"""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from autoscaler.errors import InputError
from loadtests.run.course import Course, CourseError, course
from loadtests.run.scenario import Make, Policy, Scaling, Scenario
from loadtests.traffic.live import watching
from tests.cluster.conftest import install
from tests.cluster.plane import Plane
from tests.real import environments, parts

GPUS_PER_NODE: Final = 8


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Within the block SIGTERM ends as Ctrl-C does, so that nothing that was started is left behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _missing(scaling: Scaling) -> str | None:
    """What this way of scaling needs and is not here, with the remedy."""
    if scaling is Scaling.DIRECT:
        return parts.missing(parts.CONTROL_PLANE)
    if scaling is Scaling.KEDA_QUEUE and shutil.which("prometheus") is None:
        return "no Prometheus on PATH (Debian: apt install prometheus)"
    lacking = parts.missing((*parts.CONTROL_PLANE, "keda"))
    if lacking is None and parts.source("keda", parts.KEDA_MODULE) is None:
        return "KEDA's sources, which hold its definitions, are not there (python3 dev.py parts keda, with Go on PATH)"
    return lacking


def _missing_dynamo(scaling: Scaling) -> str | None:
    """What Dynamo's engine lacks for this way of scaling, with the remedy."""
    if scaling is not Scaling.DIRECT:
        return f"engine.make is dynamo, whose page only scaling: direct is told to read; scaling is {scaling.value}"
    return environments.missing(environments.DYNAMO)


def check_parts(ways: Iterable[Scaling], make: Make = Make.OURS) -> None:
    """InputError where what one of these ways of scaling such engines needs is not here."""
    for way in ways:
        missing = (_missing_dynamo(way) if make is Make.DYNAMO else None) or _missing(way)
        if missing:
            raise InputError(missing)


def nodes_for(policy: Policy, gpus: int) -> int:
    """Nodes that hold the most replicas of so many GPUs, each on one node, and one more for those that leave late."""
    each = GPUS_PER_NODE // gpus
    return 1 + -(-policy.max_replicas // each)


def measured(scenario: Scenario, folder: Path, command: str) -> Course:
    """Run it; `folder` is the scenario's. What it needs is here: see `check_parts`."""
    direct = scenario.scaling is Scaling.DIRECT
    console = Console(stderr=True, highlight=False)
    nodes = nodes_for(scenario.policy, scenario.engine.gpus)
    console.print("starting the control plane")
    with tempfile.TemporaryDirectory(prefix="headroom-run-") as place, ended_in_order(), ExitStack() as ended:
        plane = Plane(Path(place) / "plane", nodes=nodes, gpus=GPUS_PER_NODE, aggregates=not direct)
        ended.push(plane)  # before it starts: what an interruption finds half started is ended too
        try:
            plane.__enter__()
            install(plane)
            with watching(console, len(scenario.schedule())) as view:
                told = course(scenario, folder, plane, view, command=command, say=console.print, ended=ended)
                return asyncio.run(told)
        except AssertionError as error:  # how those who start its parts say what they waited for
            raise CourseError(f"the control plane did not start: {error}") from error
