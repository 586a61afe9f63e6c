"""A control plane without nodes of its own, and real Karpenter that makes them."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.capacity.karpenter import CLAIMS, NODE_POOLS, STAGES, Karpenter
from tests.cluster.conftest import install
from tests.cluster.plane import Plane


@pytest.fixture(scope="session")
def empty_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """No node is there until Karpenter makes one; pods of nodes that are gone are collected."""
    folder = tmp_path_factory.mktemp("capacity")
    with Plane(folder, nodes=0, stages=[STAGES], manager_flags=["--controllers", "podgc"]) as made:
        install(made)
        yield made


@pytest.fixture(scope="session")
def shared_karpenter(empty_plane: Plane) -> Iterator[Karpenter]:
    """One Karpenter for all tests of a process."""
    with Karpenter(empty_plane) as made:
        yield made


@pytest.fixture
def karpenter(shared_karpenter: Karpenter) -> Iterator[Karpenter]:
    """Karpenter without faults. NodePools and nodes go afterwards, in their own time: each test names its own."""
    shared_karpenter.fail()
    yield shared_karpenter
    for path in (NODE_POOLS, CLAIMS):
        shared_karpenter.plane.call("DELETE", path)


@pytest.fixture
def pods(karpenter: Karpenter) -> Iterator[str]:
    """A namespace for pods; they go with it."""
    plane, name = karpenter.plane, f"t-{uuid4().hex[:8]}"
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "pods", "--all", "-n", name, "--grace-period=0", "--force", "--wait=false")
    plane.kubectl("delete", "namespace", name, "--wait=false")
