"""The session in the README, run as it stands: each command, and every line that is shown of its answer."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.controller import Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.service import Service
from tests.conftest import ROOT
from tests.real import parts

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

QUEUE: Final = {"waiting": 30.0, "running": 8.0, "rps": 5.0}


def session() -> list[tuple[str, list[str]]]:
    """(command, lines shown of its answer) of the README's console block."""
    block = re.search(r"```console\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None, "the README shows a session"
    steps: list[tuple[str, list[str]]] = []
    for line in block[1].splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def gist(line: str) -> str:
    """A line without what moves: instants, ages, widths of columns."""
    line = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:]+Z", "WHEN", line)
    line = re.sub(r"\b\d+s\b", "AGE", line)
    return " ".join(line.split())


def test_the_session_of_the_readme_is_what_happens(plane: Plane, engines: Engines) -> None:
    plane.kubectl("create", "namespace", "prod")
    service = Service(plane, engines, "prod", "chat", replicas=2, asks=False)
    engines.of_all(service.wait_ready(2), **QUEUE)
    kubectl = parts.program("kubectl")
    assert kubectl is not None
    tools = [str(kubectl.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    with Controller(plane, "readme", watch_namespaces=["prod"]) as controller:
        controller.wait_leading()
        env = os.environ | {
            "KUBECONFIG": str(plane.folder / "admin.kubeconfig"),
            "PATH": os.pathsep.join(tools),
            "SERVER": controller.url,
            "COLUMNS": "200",
        }
        for command, shown in session():
            said = ""

            def told(command: str = command, shown: list[str] = shown) -> bool:
                nonlocal said
                done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, check=False)
                said = done.stdout + done.stderr
                lines = {gist(line) for line in said.splitlines()}
                return all(gist(line) in lines for line in shown)

            try:
                wait_for(told, 20, command, every_s=1.0)
            except AssertionError:
                raise AssertionError(f"$ {command}\n{said}\nshown in the README:\n" + "\n".join(shown)) from None
    plane.kubectl("delete", "namespace", "prod", "--wait=false")
