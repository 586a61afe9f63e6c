"""A cluster of which nothing is to be told."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.doctor import QUEUES, resources
from tests.cli.plane import LEASE, Plane, lease, plane
from tests.record.test_board import AIM, step
from tests.web.test_live import CHAT, Controller


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    """A cluster in which everything is as it should be."""
    controller = Controller(workloads={"prod/chat": CHAT})
    controller.board.stepped(step(100.0), AIM, 100.2)
    with plane(tmp_path, controller) as made:
        later = datetime.now(UTC) + timedelta(minutes=1)  # on a machine that is busy it is looked at late
        now = later.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        made.objects |= {
            LEASE: lease(renewed=now),
            "/apis/apps/v1": resources("deployments", "deployments/scale", "statefulsets", "statefulsets/scale"),
            "/apis/headroom.dev/v1alpha1": resources(
                "scalingpolicies", "scalingpolicies/status", "warmpools", "batchqueues"
            ),
            QUEUES: {"items": []},
        }
        yield made
