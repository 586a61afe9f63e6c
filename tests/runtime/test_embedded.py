"""Plants behind the ports: time, preconditions, outages, and several workloads in step."""

import asyncio
from collections import Counter

import numpy as np
import pytest

from autoscaler.core.params import Params
from autoscaler.ports import Fault, Patch, PortError
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.triggers import Cause
from autoscaler.sim.embedded import EmbeddedCluster, EmbeddedMetrics, EmbeddedScale
from autoscaler.sim.plant import Plant
from autoscaler.sim.traffic import Traffic
from tests.runtime.plants import NAME, Embedded, burst, spec

pytestmark = pytest.mark.looptime(noop_cycles=1)


def cluster(speed: float = 1.0, **given) -> tuple[ScaledClock, EmbeddedCluster]:
    clock = ScaledClock(speed)
    return clock, EmbeddedCluster({NAME: Plant(spec(), burst())}, clock, **given)


@pytest.mark.parametrize("speed", [1.0, 60.0, 777.0])
async def test_reading_moves_the_plant_to_the_clock_at_any_speed(speed: float) -> None:
    clock, embedded = cluster(speed)
    for at_s in (1.0, 5.0, 100.0, 333.0):
        await clock.sleep_until(at_s)
        sample = await EmbeddedMetrics(embedded).read(NAME)
        assert sample.at_s == at_s
        assert sample.gateway is not None
        assert sample.gateway.requests_total == burst().arrivals[: int(at_s)].sum()
        assert (await EmbeddedScale(embedded).read(NAME)).at_s == at_s


async def test_the_cluster_plays_to_the_end_and_tells_every_step_once() -> None:
    clock, embedded = cluster()
    told: Counter[str] = Counter()

    async def listen() -> None:
        async for name in embedded.changes():
            told[name] += 1

    async with asyncio.TaskGroup() as group:
        listener = group.create_task(listen())
        await embedded.run()
        await asyncio.sleep(0.1)
        listener.cancel()
    assert embedded.done
    assert clock.now() == pytest.approx(2400.0, abs=0.2)
    assert told == {NAME: 2400}


async def test_a_patch_needs_the_count_that_was_seen() -> None:
    _, embedded = cluster()
    scale = EmbeddedScale(embedded)
    assert await scale.patch(NAME, 3, 9) is Patch.CONFLICT
    assert (await scale.read(NAME)).replicas.desired == 4
    assert await scale.patch(NAME, 4, 9) is Patch.APPLIED
    sample = await scale.read(NAME)
    assert (sample.replicas.desired, sample.replicas.ready, len(sample.replicas.starting)) == (9, 4, 5)


async def test_patches_are_refused_in_the_spans_that_were_asked_for() -> None:
    clock, embedded = cluster(refusals={NAME: ((10.0, 20.0),)})
    scale = EmbeddedScale(embedded)
    assert await scale.patch(NAME, 4, 5) is Patch.APPLIED
    await clock.sleep_until(10.0)
    assert await scale.patch(NAME, 5, 6) is Patch.REFUSED
    await clock.sleep_until(20.0)
    assert await scale.patch(NAME, 5, 6) is Patch.APPLIED


async def test_metrics_that_are_cut_are_a_port_error_and_the_replicas_stay_readable() -> None:
    clock, embedded = cluster()
    await clock.sleep_until(50.0)
    embedded.cut_metrics(NAME, 30.0)
    with pytest.raises(PortError) as raised:
        await EmbeddedMetrics(embedded).read(NAME)
    assert raised.value.fault is Fault.UNAVAILABLE
    assert (await EmbeddedScale(embedded).read(NAME)).at_s == 50.0
    await clock.sleep_until(80.0)
    assert (await EmbeddedMetrics(embedded).read(NAME)).at_s == 80.0


async def test_a_workload_that_nobody_knows_is_a_port_error() -> None:
    _, embedded = cluster()
    with pytest.raises(PortError, match="no workload 'x'"):
        await EmbeddedMetrics(embedded).read("x")
    with pytest.raises(KeyError):
        embedded.cut_metrics("x", 1.0)


async def test_a_burst_steps_its_workload_before_its_tick_and_no_other() -> None:
    steady = Traffic(name="steady", step_s=1.0, arrivals=np.full(1200, 4.0), source="test")
    plants = {NAME: Plant(spec(), burst(onset_s=601)), "prod/steady": Plant(spec(), steady)}
    embedded = Embedded.make(plants, Params(max_replicas=100, tick_s=30.0))
    await embedded.drive(640.0, NAME, "prod/steady")
    hit = [s for s in embedded.steps() if s.decision.now_s > 601.0]
    assert hit[0].cause in {Cause.FIRST_WAITING, Cause.DEMAND}
    assert hit[0].decision.now_s <= 610.0, "its tick would have come at 630 s"
    assert {s.cause for s in embedded.steps("prod/steady") if s.decision.now_s > 601.0} == {Cause.DUE}
