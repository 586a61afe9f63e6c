"""What every suite shares: parts a machine may lack, and the table that says which cases did not run and why.

A test that needs a part asks for it, `@pytest.mark.needs("shared-data")`. Where the part is missing the test becomes a
row of the case table at the end of the run, with the remedy; nothing is skipped without a row.
"""

import asyncio
import gc
import os
import shutil
import socket
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings

from tests.real import environments, parts

if sys.version_info < (3, 12):
    # Python before 3.12 makes a loop for whoever asks for the current one; pytest-asyncio asks before its first test,
    # and nobody closes what it gets, which the rule that warnings are errors then reports in some other test.
    asyncio.set_event_loop(None)

# A change is judged by the same drawn cases wherever it is tested; `--hypothesis-profile explore` draws others, and
# what it finds becomes an example of its law.
settings.register_profile("steady", derandomize=True)
settings.register_profile("explore", derandomize=False, print_blob=True)
settings.load_profile("steady")

# What is drawn on a terminal is tested on one that can move its cursor, whichever runs the tests.
if os.environ.get("TERM", "") in {"dumb", "unknown"}:
    del os.environ["TERM"]

ROOT: Final = Path(__file__).resolve().parent.parent
SHARED_DATA: Final = ROOT.parent / "shared" / "data"

LEFT_OUT: Final[pytest.StashKey[Counter[tuple[str, str]]]] = pytest.StashKey()
"""(suite, reason) -> cases that this run did not execute; summed over the worker processes."""


def _shared_data() -> str | None:
    return None if (SHARED_DATA / "README.md").is_file() else f"the trace files are not at {SHARED_DATA}"


def _chromium() -> str | None:
    found = any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return None if found else "no Chromium on PATH (Debian: apt install chromium)"


def _go() -> str | None:
    return None if shutil.which("go") else "no Go toolchain on PATH (https://go.dev/dl)"


def _two_cpus() -> str | None:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return None if cpus > 1 else "only one CPU, and this case measures two busy processes"


def _openssl() -> str | None:
    return None if shutil.which("openssl") else "no openssl on PATH, which makes keys (Debian: apt install openssl)"


def _control_plane() -> str | None:
    return _openssl() or parts.missing(parts.CONTROL_PLANE)


def _keda() -> str | None:
    return _control_plane() or parts.missing(("keda",))


def _karpenter() -> str | None:
    return _control_plane() or parts.missing(("karpenter",))


def _operator(part: str, module: str, name: str) -> Callable[[], str | None]:
    """A probe for a controller that a suite starts, and whose definitions it reads from its Go module."""

    def probe() -> str | None:
        lacking = _control_plane() or parts.missing((part,))
        if lacking:
            return lacking
        found = parts.source(part, module)
        return None if found else f"{name} Go module is not downloaded (python3 dev.py parts {part})"

    return probe


def _kubernetes_module() -> str | None:
    found = parts.source("kubernetes", parts.KUBERNETES_MODULE)
    return None if found else "Kubernetes' Go module is not downloaded (python3 dev.py parts kubernetes)"


def _keda_module() -> str | None:
    found = parts.source("keda", parts.KEDA_MODULE)
    return None if found else "KEDA's Go module is not downloaded (python3 dev.py parts keda)"


def _dynamo() -> str | None:
    return environments.missing(environments.DYNAMO)


def _inference_sim() -> str | None:
    return parts.missing(("llm-d",))


def _prometheus() -> str | None:
    return None if shutil.which("prometheus") else "no Prometheus on PATH (Debian: apt install prometheus)"


def _faketime() -> str | None:
    return None if libfaketime() else "no libfaketime (Debian: apt install faketime)"


def libfaketime() -> Path | None:
    """The library that gives a process another time, as Debian installs it."""
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)


PARTS: Final[dict[str, Callable[[], str | None]]] = {
    "chromium": _chromium,
    "control-plane": _control_plane,
    "dynamo": _dynamo,
    "faketime": _faketime,
    "go": _go,
    "ipv6": lambda: None if socket.has_dualstack_ipv6() else "IPv6 is off in this machine's kernel",
    "jobset": _operator("jobset", parts.JOBSET_MODULE, "JobSet's"),
    "karpenter": _karpenter,
    "keda": _keda,
    "keda-module": _keda_module,
    "kubernetes-module": _kubernetes_module,
    "kueue": _operator("kueue", parts.KUEUE_MODULE, "Kueue's"),
    "openssl": _openssl,
    "llm-d-inference-sim": _inference_sim,
    "lws": _operator("lws", parts.LWS_MODULE, "LeaderWorkerSet's"),
    "prometheus": _prometheus,
    "shared-data": _shared_data,
    "trainer": _operator("trainer", parts.TRAINER_MODULE, "The Trainer's"),
    "training": _operator("training", parts.TRAINING_MODULE, "The training operator's"),
    "two-cpus": _two_cpus,
}
"""Part -> a probe that returns None when it is here, else what is missing and what to do about it."""


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of trace data beside the project; a test that uses it is marked `needs("shared-data")`."""
    return SHARED_DATA


def pytest_configure(config: pytest.Config) -> None:
    rows: Counter[tuple[str, str]] = Counter()
    config.stash[LEFT_OUT] = rows


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for part in mark.args:
            if part not in PARTS:
                pytest.fail(f"unknown part {part!r}; tests/conftest.py knows {', '.join(PARTS)}", pytrace=False)
            missing = PARTS[part]()
            if missing:
                pytest.skip(missing)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collect tests without the garbage collector: nothing that they are made of is let go."""
    gc.disable()
    yield
    gc.enable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()  # what was imported stays: to look through it, too, took a thirtieth of the suite's time
    if not all(item.get_closest_marker("real") for item in session.items):
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, 100)  # ten times as seldom: it took a twentieth of the fast suite's time


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Fail the real test that left something open, once its fixtures and its loop are gone.

    Whoever leaves a socket or a process to the garbage collector would otherwise fail whichever test that comes by in.
    """
    yield
    if item.get_closest_marker("real") is None or not isinstance(item, pytest.Function):
        return
    found: list[str] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda told: found.append(f"{told.exc_value!r} in {told.object!r}")
    try:
        item.funcargs.clear()  # pytest itself lets them go only after this
        gc.collect()
    finally:
        sys.unraisablehook = before
    if found:
        pytest.fail("left open, by this test or a fixture that ends with it:\n" + "\n".join(found), pytrace=False)


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        marks = [name for name in ("real", "slow") if item.get_closest_marker(name)]
        reason = f"left out by -m: marked {' and '.join(marks)}" if marks else "left out by -m or -k"
        item.config.stash[LEFT_OUT][_suite(item.nodeid), reason] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()  # pytest's last look is at everything, and so at what was left open before a freeze
    output = getattr(session.config, "workeroutput", None)
    if output is not None:  # a worker of xdist: every worker collects, and so deselects, the same cases
        output["left_out"] = [[*key, count] for key, count in session.config.stash[LEFT_OUT].items()]


class WorkerReports:
    """Takes what the xdist workers left out into the controlling process."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        for suite, reason, count in getattr(node, "workeroutput", {}).get("left_out", ()):
            node.config.stash[LEFT_OUT][suite, reason] = count


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.register(WorkerReports(), "headroom-worker-reports")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash[LEFT_OUT].copy()
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        rows[_suite(report.nodeid), reason.removeprefix("Skipped: ")] += 1
    if not rows:
        return
    terminalreporter.section("cases this run did not execute")
    width = max(len(suite) for suite, _ in rows)
    for (suite, reason), count in sorted(rows.items()):
        terminalreporter.write_line(f"{count:5d}  {suite:<{width}}  {reason}")


def _suite(nodeid: str) -> str:
    """The folder of a test: `tests/sim/test_plant.py::test_x` -> `tests/sim`."""
    return str(Path(nodeid.split("::", 1)[0]).parent)
