"""What the suites of KEDA's external scaler share."""

from pathlib import Path

import pytest

from tests.real import parts


@pytest.fixture(scope="session")
def keda_module() -> Path:
    """The sources of KEDA's Go module; a test that uses it is marked `needs("keda-module")`."""
    found = parts.source("keda", parts.KEDA_MODULE)
    assert found is not None
    return found
