"""What the README shows, run as it stands: its session, line by line, and the way to a first recommendation."""

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.chart.release import Pod, Release
from tests.chart.rendering import HELM
from tests.cluster.controller import Controller
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import QUEUE
from tests.cluster.service import Service
from tests.conftest import ROOT
from tests.real import parts

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]

SHOWN: Final = QUEUE | {"waiting": 30.0}
"""What the session of the README tells of."""


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
    # One pod: of two, whose pages come at instants of their own, the first decision may know one or both.
    service = Service(plane, engines, "prod", "chat", replicas=1, asks=False)
    engines.of_all(service.wait_ready(1), **SHOWN)
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


def quickstart() -> list[str]:
    """The commands by which the README installs Headroom on a cluster, without what is said behind them."""
    text = (ROOT / "README.md").read_text()
    section = text.partition("## On your cluster, touching nothing\n")[2].partition("```console")[0]
    blocks = re.findall(r"^```\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return [re.sub(r"\s+#.*", "", line) for block in blocks for line in block.splitlines()]


ELSEWHERE: Final = {
    "docker build": "no container engine runs here; tests/chart/test_image.py does the Dockerfile's steps",
    "helm -n headroom-system test": "fake pods run nothing; tests/chart/test_install.py runs what the pod would run",
    "headroom status through the API server's proxy": "that goes to no loopback address (k8s.io/kubernetes, "
    "pkg/proxy/util), where all pods of these tests are; tests/cli/test_leader.py asks through a stand-in of it",
}
"""How a command of the quickstart begins that cannot be run here, and why."""

SAID: Final = {
    "helm install": r"STATUS: deployed",
    "kubectl -n prod annotate deployment chat headroom.dev/scale": r"deployment.apps/chat annotated",
    "python3 dev.py headroom status": r"prod/chat +.*Shadow",
    "python3 dev.py headroom explain": r"prod/chat +2 → [34](?s:.*)mode: Shadow \(Deployment, by annotation\)",
    "python3 dev.py headroom doctor": r"ok +rights +(?s:.*)ok +controller(?s:.*) 0 fail",
    "python3 dev.py headroom report": r"prod/chat",
    "kubectl -n prod annotate deployment chat headroom.dev/mode": r"deployment.apps/chat annotated",
    "python3 dev.py headroom pause": r"prod/chat: Paused until",
    "helm -n headroom-system uninstall": r"uninstalled(?s:.*)kubectl delete crd",
}
"""How the others begin, and what they say, sooner or later."""


@pytest.mark.parametrize(
    "begins", [pytest.param(begins, marks=pytest.mark.skip(reason=why)) for begins, why in ELSEWHERE.items()]
)
def test_a_command_of_the_quickstart_that_cannot_be_run_here(begins: str) -> None:
    """A row of the case table."""


@pytest.mark.timeout(480)  # a dozen processes, one after the other, on a machine that may be busy
@pytest.mark.skipif(not HELM.exists(), reason=f"no Helm at {HELM}")
def test_the_quickstart_of_the_readme_recommends_and_touches_nothing_until_it_may(
    tmp_path: Path, engines: Engines
) -> None:
    commands = quickstart()
    assert [one for one in commands if not one.startswith((*SAID, *ELSEWHERE))] == [], (
        "each is run, or a row says why not"
    )
    with Plane(tmp_path / "bare", nodes=2) as bare, ExitStack() as pods:
        bare.kubectl("create", "namespace", "prod")
        service = Service(bare, engines, "prod", "chat", replicas=2, asks=False)
        engines.of_all(service.wait_ready(2), **QUEUE)
        env = reader(bare)
        for command in commands:
            begins = next((known for known in SAID if command.startswith(known)), None)
            if begins is None:
                continue
            if "mode=Active" in command:
                assert service.replicas() == 2, "in Shadow nothing is touched"
            run_until(command.replace("REGISTRY", "registry.example.com"), SAID[begins], env)
            if begins == "helm install":
                env["HEADROOM_SERVER"] = run_a_pod(Release(bare), pods)
            if "mode=Active" in command:
                wait_for(lambda: service.replicas() > 2, 30, "growth once it may act")
            if begins == "python3 dev.py headroom pause":
                pods.close()  # what the uninstallation does to the chart's pods, which are fakes


def reader(plane: Plane) -> dict[str, str]:
    """The environment of a person with this cluster, kubectl, Helm and the project."""
    kubectl = parts.program("kubectl")
    assert kubectl is not None
    tools = [str(kubectl.parent), str(HELM.parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    homes = {f"HELM_{name}_HOME": str(plane.folder / "helm") for name in ("CACHE", "CONFIG", "DATA")}
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADROOM_")}
    return own | homes | {
        "KUBECONFIG": str(plane.folder / "admin.kubeconfig"), "PATH": os.pathsep.join(tools), "COLUMNS": "200"
    }  # fmt: skip


def run_a_pod(release: Release, pods: ExitStack) -> str:
    """Where one of the chart's pods answers; the API server's proxy goes to no address of this machine."""
    wait_for(lambda: len(release.pods()) == 2, 30, "the chart's pods")
    pod = pods.enter_context(Pod(release, release.pods()[0]))
    pod.wait_leading()
    return pod.url


def run_until(command: str, pattern: str, env: dict[str, str]) -> None:
    """Run a command of the README until it says what it should; one that changes something says so at once."""
    said = ""

    def told() -> bool:
        nonlocal said
        done = subprocess.run(["bash", "-c", command], env=env, cwd=ROOT, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        return re.search(pattern, said) is not None

    tries_s = 1 if command.startswith("helm") else 60
    try:
        wait_for(told, tries_s, command, every_s=1.0)
    except AssertionError:
        raise AssertionError(f"$ {command}\n{said}\nexpected: {pattern}") from None
