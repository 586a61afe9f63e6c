"""Warm pools under two controllers: one writes, the other takes over, and no slot is ordered by both."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest

from tests.capacity.karpenter import STAGES
from tests.capacity.pools import MERGE, POOLS, SETTINGS, Pool
from tests.cluster.conftest import CONFIG, install
from tests.cluster.controller import ACCOUNT, Controller
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.cluster.scene import apply_file

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(300)]

LOST: Final = 3
"""How a controller ends that finds its lead lost."""

WITHIN_S: Final = 90.0


@pytest.fixture
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Two nodes of one NodePool, eight GPUs each."""
    with Plane(tmp_path_factory.mktemp("pair"), nodes=2, gpus=8, stages=[STAGES]) as made:
        install(made)
        apply_file(made, CONFIG / "rbac" / "warm-pools")
        for node in ("gpu-0", "gpu-1"):
            made.kubectl("label", "node", node, "karpenter.sh/nodepool=gpu", "topology.kubernetes.io/zone=a")
        yield made


def test_one_of_two_controllers_writes_slots_and_its_heir_orders_none_twice(plane: Plane) -> None:
    """The first is halted with its orders seen, and thaws while the second has ordered more."""
    with ExitStack() as stack:
        first = stack.enter_context(Controller(plane, "pools-first", **SETTINGS))
        first.wait_leading(WITHIN_S)
        second = stack.enter_context(Controller(plane, "pools-second", **SETTINGS))
        wait_for(lambda: _answers(second), WITHIN_S, "the follower")
        pool = Pool(plane, "chat", ("h100", "gpu"), slot={"count": 2}, minSlots=3, maxSlots=3)
        wait_for(lambda: pool.warm == 3, WITHIN_S, "three warm slots")
        assert _writers(plane) == {
            "chat-0": [first.credential],
            "chat-1": [first.credential],
            "chat-2": [first.credential],
        }
        first.signal(signal.SIGSTOP)
        second.wait_leading(WITHIN_S)
        plane.call("PATCH", f"{POOLS}/chat", {"spec": {"minSlots": 5, "maxSlots": 5}}, MERGE)
        wait_for(lambda: pool.warm == 5, WITHIN_S, "five warm slots under the new leader")
        first.signal(signal.SIGCONT)
        assert first.wait(WITHIN_S) == LOST
        writers = _writers(plane)
        assert {name: writers[name] for name in ("chat-3", "chat-4")} == {
            "chat-3": [second.credential],
            "chat-4": [second.credential],
        }
        assert len(writers) == len(pool.slots) == 5, "each slot was ordered once, by one of them"
        assert not plane.audited(verb="delete", resource="pods", user=ACCOUNT)
        assert second.returncode is None


def _answers(controller: Controller) -> bool:
    try:
        return controller.get("/api/status")["replica"]["leading"] is False
    except OSError:
        return False


def _writers(plane: Plane) -> dict[str, list[str]]:
    """Slot -> the tokens that the requests to create it came with, refused ones included."""
    found: dict[str, list[str]] = {}
    for entry in plane.audited(verb="create", resource="pods", user=ACCOUNT):
        told: list[Any] = entry["user"]["extra"]["authentication.kubernetes.io/credential-id"]
        found.setdefault(str(entry["objectRef"]["name"]), []).extend(told)
    return found
