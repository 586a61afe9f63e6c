"""The image's steps done in a bare folder, and the controller run from it as a pod would run it."""

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

import dev
from tests.chart.image import DOCKERFILE, UID, inside
from tests.chart.release import Pod, Release
from tests.chart.rendering import only, render
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import FLOOD, QUIET
from tests.cluster.service import Service
from tests.conftest import ROOT

TEAM: Final = {
    "settings": {"watch_namespaces": ["team-a"], "default_mode": "Active"},
    "rbac": {"nodes": False},
    "priorityClass": {"create": False},
    "crds": {"install": False},
}
"""An installation that takes no right of the whole cluster."""


def run(image: Path, *command: str) -> str:
    """What a command prints in what stands for the container."""
    done = subprocess.run(inside(image, *command), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_dockerfile_and_dev_install_with_the_same_uv() -> None:
    assert re.findall(r"uv==[\d.]+", DOCKERFILE.read_text()) == [dev.UV_PIN]


def test_the_image_runs_as_the_user_that_the_chart_names() -> None:
    text = DOCKERFILE.read_text()
    assert f"\nUSER {UID}:{UID}\n" in text
    assert "OMP_NUM_THREADS=1" in text
    pod = only(render(), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == UID


def test_only_what_the_build_copies_is_sent_to_it() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for words in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(), re.MULTILINE)
              for name in words.split()}  # fmt: skip
    assert kept == copied


@pytest.mark.real
@pytest.mark.timeout(900)
def test_it_starts_without_a_name_on_a_root_that_it_cannot_write(image: Path) -> None:
    assert run(image, "headroom", "--version").startswith("headroom ")
    assert "HEADROOM_CONFIG" in run(image, "headroom", "run", "--help")
    assert run(image, "sh", "-c", "id -u; ! touch /tmp/x 2>/dev/null && touch /mnt/scratch/x && echo held").split() == [
        str(UID), "held",
    ]  # fmt: skip
    assert run(image, "python", "-c", "import os; print(os.environ['OMP_NUM_THREADS'])").strip() == "1"


@pytest.mark.real
@pytest.mark.timeout(900)
def test_it_holds_what_the_lock_names_compiled_and_no_tools(image: Path) -> None:
    (packages,) = image.glob("lib/python*/site-packages")
    for name in ("pytest", "mypy", "ruff", "kubernetes_validate", "pip"):
        assert not (packages / name).exists()
    modules = list((packages / "autoscaler").rglob("*.py"))
    compiled = {path.name.partition(".")[0] for path in (packages / "autoscaler").rglob("*.pyc")}
    assert len(modules) > 100
    assert {path.stem for path in modules} <= compiled
    assert not list(packages.glob("*/tests"))


@pytest.mark.real
@pytest.mark.needs("control-plane")
@pytest.mark.timeout(900)
def test_the_controller_runs_from_it_and_in_one_namespace_without_any_right_of_the_cluster(
    bare: Plane, engines: Engines, image: Path
) -> None:
    bare.kubectl("create", "namespace", "team-a")
    bare.kubectl("apply", "--server-side", "-f", ROOT / "config" / "crd")
    release = Release(bare, "headroom-a")
    try:
        release.install(TEAM)
        service = Service(bare, engines, "team-a", "chat", replicas=2, max_replicas="4")
        engines.of_all(service.wait_ready(2), **QUIET)
        wait_for(lambda: len(release.pods()) == 2, 60, "the chart's pods")
        with Pod(release, release.pods()[0], image) as pod:
            pod.wait_leading()
            engines.of_all(service.ips(), **FLOOD)
            wait_for(lambda: service.replicas() > 2, 120, "growth under rights of one namespace")
            assert 'cannot list resource "nodes"' in pod.ask("explain", "team-a/chat")
            assert pod.stop() == 0
        release.uninstall()
    finally:
        bare.kubectl("delete", "-f", ROOT / "config" / "crd")
    assert "headroom" not in bare.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")
