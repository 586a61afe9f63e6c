"""The live driver and the simulator drive one core: the same scenario leaves the same audit lines, byte for byte.

The scenario: two hours of a workload that triples, scrapes missing for two minutes and for half a minute, patches
refused for a minute when the load climbs, some starts that fail, and fits from the data.
"""

import asyncio
import json

import pytest

from autoscaler.core.params import Params
from autoscaler.core.types import Decision, Readings
from autoscaler.fitting.fit import fit
from autoscaler.ports import Watch
from autoscaler.record.fits import PREFIX as FITS
from autoscaler.record.inputs import PREFIX
from autoscaler.record.memories import PREFIX as MEMORIES
from autoscaler.record.starts import start_line
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.refit import InlineFitter
from autoscaler.runtime.supervisor import Ports, Runtime
from autoscaler.runtime.target import Target
from autoscaler.runtime.triggers import Assumed, contradiction
from autoscaler.sim import simulate
from autoscaler.sim.embedded import EmbeddedCluster, EmbeddedMetrics, EmbeddedScale
from autoscaler.sim.headroom import WORKLOAD
from autoscaler.sim.plant import Plant, PlantSpec
from autoscaler.sim.recorded import RecordedPolicy
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup
from autoscaler.sim.workloads import named_workload
from tests.runtime.fakes import Lines, NoWatch, Store

LENGTH_S = 7600.0
STEP_S = 2.0
OUTAGE_S = (6900.0, 7020.0)

SPEC = PlantSpec(
    capacity_rps=2.0,
    warmup=Warmup(90.0, 120.0),
    failed_start_ratio=0.1,
    outages=(OUTAGE_S, (7200.0, 7230.0)),
    seed=3,
)
PARAMS = Params(max_replicas=60, tick_s=20.0)


def traffic() -> Traffic:
    """The named workload in bins of 2 s, the coarsest the plant takes: half the looks."""
    fine = named_workload("step-x3", 1).window(1400.0, 1400.0 + LENGTH_S)
    return Traffic(
        name=fine.name,
        step_s=STEP_S,
        arrivals=fine.arrivals.reshape(-1, 2).sum(axis=1),
        source=fine.source,
        onsets_s=fine.onsets_s,
    )


def refusals() -> tuple[tuple[float, float], ...]:
    onset_s = traffic().onsets_s[0]
    return ((onset_s, onset_s + 60.0),)


def contradicts(decision: Decision, then: Readings, now: Readings) -> bool:
    return contradiction(Assumed(decision, then), now) is not None


async def live_lines(*, events: bool) -> tuple[list[bytes], list[bytes], Runtime]:
    """Audit and journal of the live driver over the embedded cluster, on the loop's virtual time."""
    clock = ScaledClock(1.0)
    cluster = EmbeddedCluster({WORKLOAD: Plant(SPEC, traffic())}, clock, {WORKLOAD: refusals()})
    audit, journal = Lines(), Lines()
    watch: Watch = cluster if events else NoWatch()
    ports = Ports(
        clock=clock,
        metrics=EmbeddedMetrics(cluster),
        scale=EmbeddedScale(cluster),
        watch=watch,
        audit=audit,
        journal=journal,
        store=Store(),
        fitter=InlineFitter(fit),
    )
    runtime = Runtime(ports)
    runtime.put(Target(WORKLOAD, PARAMS))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(runtime.run(stop))
        group.create_task(cluster.run())
        await clock.sleep_until(LENGTH_S - 0.5)
        stop.set()
    return audit.lines, journal.lines, runtime


def simulated_lines(*, events: bool) -> tuple[list[bytes], RecordedPolicy]:
    policy = RecordedPolicy(
        PARAMS,
        look_s=STEP_S if events else PARAMS.tick_s,
        contradicts=contradicts if events else None,
        refusals=refusals(),
    )
    simulate.run(traffic(), SPEC, policy)
    return policy.lines, policy


def _oldest_s(line: bytes) -> float:
    """The age of the oldest signal that a decision shows."""
    evidence = [item for step in json.loads(line)["trace"] for item in step["evidence"].items()]
    return max(float(value) for name, value in evidence if name.endswith("_age_s"))


@pytest.mark.looptime(noop_cycles=1)
@pytest.mark.parametrize("events", [False, True], ids=["stepped at ticks", "stepped by events too"])
async def test_live_and_simulated_runs_leave_the_same_bytes(events: bool) -> None:
    (started, *live), journal, runtime = await live_lines(events=events)
    assert started == start_line(WORKLOAD, 0.0, None, float("-inf"), models=True), "only a live driver has a beginning"
    assert all(any(line.startswith(kind) for line in live) for kind in (FITS, MEMORIES)), "nor its models and memories"
    live = [line for line in live if not line.startswith((FITS, MEMORIES))]
    simulated, policy = simulated_lines(events=events)
    for mine, theirs in zip(live, simulated, strict=False):
        assert mine == theirs
    assert len(live) == len(simulated)
    # The scenario holds what it promises.
    acts = [json.loads(line) for line in journal]
    assert any(act.get("outcome") == "refused" for act in acts)
    assert any(act.get("event") == "source lost" for act in acts)
    assert runtime.table.fitted
    assert policy._core.table.fitted
    decided = [line for line in live if not line.startswith(PREFIX)]
    assert len(live) == 2 * len(decided), "every decision has its inputs before it"
    blind = [line for line in decided if OUTAGE_S[0] + 60 <= json.loads(line)["now_s"] < OUTAGE_S[1]]
    assert blind
    assert all(_oldest_s(line) > 60 for line in blind)
    steps = len(decided)
    assert steps > LENGTH_S / PARAMS.tick_s if events else steps == LENGTH_S / PARAMS.tick_s
