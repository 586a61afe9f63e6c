"""What the suites of KEDA's external scaler share."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.engines import Engines
from tests.cluster.keda import Keda
from tests.cluster.plane import Plane
from tests.cluster.scaler import Scaler
from tests.keda.target import Target
from tests.real import parts


@pytest.fixture(scope="session")
def keda_module() -> Path:
    """The sources of KEDA's Go module; a test that uses it is marked `needs("keda-module")`."""
    found = parts.source("keda", parts.KEDA_MODULE)
    assert found is not None
    return found


@pytest.fixture
def engines() -> Iterator[Engines]:
    """The fake pods' metrics pages."""
    with Engines() as made:
        yield made


@pytest.fixture(scope="module")
def keda(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keda]:
    """One control plane with KEDA for all tests of a file."""
    flags = ("--horizontal-pod-autoscaler-sync-period=2s",)
    with (
        Plane(tmp_path_factory.mktemp("plane"), aggregates=True, manager_flags=flags) as plane,
        Keda(plane) as started,
    ):
        yield started


@pytest.fixture
def namespace(keda: Keda) -> Iterator[str]:
    """A namespace of the test's own; its ScaledObjects go with it."""
    name = f"t-{uuid4().hex[:8]}"
    keda.plane.kubectl("create", "namespace", name)
    yield name
    keda.plane.kubectl("-n", name, "delete", "scaledobject", "--all", "--timeout=20s")
    keda.plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def scaler() -> Iterator[Scaler]:
    with Scaler() as made:
        yield made


@pytest.fixture
def chat(keda: Keda, scaler: Scaler, namespace: str) -> Target:
    return Target(keda, scaler, namespace)
