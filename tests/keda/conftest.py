"""What the suites of KEDA's external scaler share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.engines import Engines
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
