"""What the chart's suite needs besides what every suite shares."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.chart.image import built, why_not
from tests.chart.rendering import HELM
from tests.cluster.engines import Engines
from tests.cluster.plane import Plane

AUTHENTICATION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "clustertriggerauthentications.keda.sh"},
    "spec": {
        "group": "keda.sh", "scope": "Cluster",
        "names": {"kind": "ClusterTriggerAuthentication", "plural": "clustertriggerauthentications"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}],
    },
}  # fmt: skip
"""Stands for KEDA's own definition, whose controller is not needed here."""


@pytest.fixture(autouse=True, scope="session")
def _with_helm() -> None:
    """Helm comes as a wheel, for Linux on x86-64 only."""
    if not HELM.exists():
        pytest.skip(f"no Helm at {HELM} (https://helm.sh/docs/intro/install, linked there)")


@pytest.fixture
def engines() -> Iterator[Engines]:
    """The fake pods' metrics pages."""
    with Engines() as made:
        yield made


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane that has never heard of Headroom; KEDA has been there."""
    with Plane(tmp_path_factory.mktemp("bare"), nodes=2) as plane:
        plane.kubectl("create", "namespace", "keda")
        plane.apply(AUTHENTICATION)
        plane.kubectl("wait", "--for=condition=Established", f"crd/{AUTHENTICATION['metadata']['name']}")  # type: ignore[index]
        yield plane


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The folder that the image would hold, where another user may look."""
    missing = why_not()
    if missing:
        pytest.skip(missing)
    folder = Path(tempfile.mkdtemp(prefix="headroom-image-"))
    folder.chmod(0o755)
    try:
        yield built(folder)
    finally:
        shutil.rmtree(folder)
