"""What is kept in the cluster is read before it is overwritten, as far as asking again helps; on virtual time."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.app.stores import PATIENCE_S, Patient, Saver
from autoscaler.ports import Fault, PortError
from autoscaler.runtime.clock import WallClock
from tests.runtime.fakes import Store

pytestmark = pytest.mark.looptime(noop_cycles=1)

LEARNT: Final[dict[str, dict[str, Any]]] = {"prod/chat": {"rps": 2.5}}


class Troubled(Store):
    """A store that fails with these before it answers."""

    def __init__(self, *troubles: PortError) -> None:
        super().__init__(dict(LEARNT))
        self.troubles = list(troubles)
        self.asked = 0

    async def load(self) -> Mapping[str, dict[str, Any]]:
        self.asked += 1
        if self.troubles:
            raise self.troubles.pop(0)
        return await super().load()


def refused_connection() -> PortError:
    return PortError(Fault.UNAVAILABLE, "connection refused")


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def test_a_network_that_is_not_up_in_a_pods_first_seconds_loses_nothing_that_was_learnt() -> None:
    store = Troubled(*(refused_connection() for _ in range(5)))
    begun_s = now_s()
    assert await Patient(store, WallClock(), "warm-ups").load() == LEARNT
    assert 1.0 <= now_s() - begun_s < 20.0, "five waits of 0.2 s at least"


async def test_a_server_that_sheds_load_is_left_alone_for_as_long_as_it_asks() -> None:
    store = Troubled(KubeError(Fault.UNAVAILABLE, "429", status=429, retry_after_s=7.0))
    begun_s = now_s()
    assert await Patient(store, WallClock(), "warm-ups").load() == LEARNT
    assert 7.2 <= now_s() - begun_s < 7.5


@pytest.mark.parametrize("fault", [Fault.DENIED, Fault.INVALID])
async def test_what_asking_again_does_not_mend_is_told_at_once(fault: Fault) -> None:
    store = Troubled(PortError(fault, "damaged, or not ours to read"))
    with pytest.raises(PortError, match="damaged"):
        await Patient(store, WallClock(), "warm-ups").load()
    assert store.asked == 1


async def test_a_server_that_stays_away_is_given_up_after_a_minute() -> None:
    store, begun_s = Troubled(*(refused_connection() for _ in range(1000))), now_s()
    with pytest.raises(PortError, match="refused"):
        await Patient(store, WallClock(), "warm-ups").load()
    assert PATIENCE_S - 5.0 <= now_s() - begun_s <= PATIENCE_S
    assert store.asked < 60


async def test_what_is_saved_reaches_the_store() -> None:
    store = Troubled()
    await Patient(store, WallClock(), "warm-ups").save({"prod/chat": {"rps": 3.0}})
    assert store.kept == {"prod/chat": {"rps": 3.0}}


async def test_what_did_not_change_is_saved_once_and_a_save_that_failed_is_made_again() -> None:
    store = Store(fails=True)
    saver = Saver(store, "sums not kept")
    with capture_logs() as logged:
        await saver.save(LEARNT)
    assert [(line["event"], line["why"]) for line in logged] == [("sums not kept", "403 forbidden")]
    store.fails = False
    await saver.save(LEARNT)
    await saver.save({"prod/chat": {"rps": 2.5}})
    assert (len(store.saves), store.kept) == (1, LEARNT), "made again, then left alone"
    await saver.save({"prod/chat": {"rps": 3.0}})
    assert (len(store.saves), store.kept) == (2, {"prod/chat": {"rps": 3.0}})
