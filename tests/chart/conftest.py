"""What the chart's suite needs besides what every suite shares."""

from collections.abc import Iterator

import pytest

from tests.chart.rendering import HELM
from tests.cluster.engines import Engines


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
