"""The control plane that the suites of this folder share, with Headroom's own objects installed."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

from tests.cluster.controller import STARTED
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane
from tests.conftest import ROOT

CONFIG: Final = ROOT / "config"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed shows what the controller that was started last said."""
    report = yield
    if report.failed and STARTED:
        report.sections.append(("the last controller", STARTED[-1].testimony()))
    return report


def install(plane: Plane) -> None:
    """Install what an administrator applies before the first start."""
    plane.kubectl("create", "namespace", "headroom-system")
    plane.kubectl("apply", "--server-side", "-f", CONFIG / "crd")
    plane.kubectl("apply", "--server-side", "-f", CONFIG / "rbac")
    plane.kubectl("wait", "--for=condition=Established", "crd/scalingpolicies.headroom.dev", "--timeout=30s")


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """One control plane for all tests of a process that leave it as it was."""
    with Plane(tmp_path_factory.mktemp("plane")) as made:
        install(made)
        yield made


@pytest.fixture
def own_plane(tmp_path: Path) -> Iterator[Plane]:
    """A control plane of the test's own, to be harmed."""
    with Plane(tmp_path / "plane") as made:
        install(made)
        yield made


@pytest.fixture
def namespace(plane: Plane) -> Iterator[str]:
    """An empty namespace, deleted afterwards."""
    name = f"t-{uuid4().hex[:8]}"
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def engines() -> Iterator[Engines]:
    """The fake pods' metrics pages."""
    with Engines() as made:
        yield made
