"""What the live driver records is replayed to the same bytes: the demonstration, and a take-over in mid-burst."""

import asyncio
import re
from pathlib import Path

import pytest

from autoscaler.app.demo import demo_session
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.params import Params
from autoscaler.fitting.fit import fit
from autoscaler.hindsight.recording import Looked, Recording
from autoscaler.hindsight.replay import replay
from autoscaler.record import memories
from autoscaler.record.fits import PREFIX
from autoscaler.runtime.refit import InlineFitter
from autoscaler.sim.plant import Plant
from tests.app.test_demo_session import SPEED, workload
from tests.hindsight.recorded import write
from tests.runtime.fakes import Lines
from tests.runtime.plants import NAME, Embedded, burst, spec

pytestmark = pytest.mark.looptime(noop_cycles=1)


@pytest.mark.slow
async def test_a_demonstration_of_two_workloads_is_replayed_to_the_same_bytes(tmp_path: Path) -> None:
    audit = Lines()
    given = [workload("demo/chat"), workload("demo/code", rps=9.0)]
    async with demo_session(given, speed=SPEED, fitter=InlineFitter(fit), audit=audit) as session:
        await asyncio.wait_for(session.run(), 600)
    done = replay(Recording.of([write(tmp_path / "audit.jsonl", list(audit.lines))]), fit)
    assert done.workloads == ["demo/chat", "demo/code"]
    assert (done.rerun.compared, done.rerun.different) == (done.rerun.steps, 0)
    assert done.rerun.steps > 200
    assert (done.gaps, done.rerun.unbegun, done.recording.alone) == ([], set(), 0)


async def test_two_drivers_after_each_other_are_replayed_to_the_same_bytes(tmp_path: Path) -> None:
    embedded = Embedded.make(
        {NAME: Plant(spec(capacity_rps=2.0), burst(onset_s=300))},
        Params(max_replicas=100, tick_s=5.0, warmup_prior_s=180.0),
    )
    await embedded.drive(330.0)
    await embedded.drive(500.0)
    done = replay(Recording.of([write(tmp_path / "audit.jsonl", list(embedded.audit.lines))]), fit)
    assert (done.rerun.different, done.rerun.unbegun) == (0, set())
    assert done.rerun.compared > 90


def refused(_: FitRequest) -> FittedModel:
    raise AssertionError("the record has the models")


@pytest.mark.slow
@pytest.mark.parametrize("late_s", [0.0, 90.0], ids=["models in time", "models after the instant they were due"])
async def test_models_are_taken_from_the_record_as_they_came(tmp_path: Path, late_s: float) -> None:
    """Two hours; the first model is asked for after an hour and three quarters, and due a minute later."""

    class Slow(InlineFitter):
        async def fit(self, request: FitRequest) -> FittedModel:
            await asyncio.sleep(late_s)
            return await super().fit(request)

    embedded = Embedded.make(
        {NAME: Plant(spec(capacity_rps=2.0), burst(onset_s=3000, length_s=7200))},
        Params(max_replicas=100, tick_s=30.0, warmup_prior_s=180.0),
    )
    embedded.fitter = Slow(fit)
    await embedded.drive(7000.0)
    recorded = list(embedded.audit.lines)
    models = [line for line in recorded if line.startswith(PREFIX)]
    assert models
    assert all(len(line) < 40_000 for line in models), "beside an hour of inputs, of a megabyte at eight pods, nothing"
    done = replay(Recording.of([write(tmp_path / "audit.jsonl", recorded)]), refused)
    assert (done.rerun.different, done.rerun.unbegun) == (0, set())
    assert len(done.rerun.table.fitted) == 1
    assert (done.rerun.memories, done.rerun.unlike) == (1, [])
    remembered = [line for line in recorded if line.startswith(memories.PREFIX)]
    assert [len(line) < 100_000 for line in remembered] == [True]
    without = [line for line in recorded if line not in {*models, *remembered}]
    other = replay(Recording.of([write(tmp_path / "audit.jsonl", without)]), refused)
    assert other.rerun.table.fitted == {}, "none is made anew where the record has them"


async def test_a_start_that_is_newer_than_the_metrics_of_its_look_is_replayed(tmp_path: Path) -> None:
    """A replica is heard of 0.4 s after the pages were read, as where a human or an HPA orders it in Shadow."""
    embedded = Embedded.make(
        {NAME: Plant(spec(capacity_rps=2.0), burst(onset_s=300))},
        Params(max_replicas=100, tick_s=5.0, warmup_prior_s=180.0),
    )
    await embedded.drive(500.0)
    recorded = [re.sub(rb'"since_s":([0-9.]+)', later, line) for line in embedded.audit.lines]
    assert recorded != list(embedded.audit.lines)
    found = Recording.of([write(tmp_path / "audit.jsonl", recorded)])
    looks = [entry for entry in found.entries() if isinstance(entry, Looked)]
    assert any(start.since_s > look.line.now_s for look in looks for start in look.line.replicas.starting or ())
    assert (found.bad, found.faults) == (0, [])


def later(start: re.Match[bytes]) -> bytes:
    return b'"since_s":%.3f' % (float(start[1]) + 5.4)
