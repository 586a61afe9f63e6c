"""Fits: where they are made and how long they take changes nothing, and a failed one is a note."""

import asyncio
import sys
from dataclasses import replace

import numpy as np
import pytest

from autoscaler.core.forecast import features
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.fitting.fit import fit
from autoscaler.ports import Fault, PortError
from autoscaler.runtime import fit_wire
from autoscaler.runtime.fit_process import ProcessFitter
from autoscaler.runtime.refit import InlineFitter
from autoscaler.runtime.supervisor import Bounds
from tests.runtime.bench import A, B, running, target

virtual = pytest.mark.looptime(noop_cycles=1)


def request(workload: str = A, in_force_at_s: float = 60.0, rows: int = 240) -> FitRequest:
    rng = np.random.default_rng(7)
    x = rng.normal(1.0, 0.3, (rows, 6))
    return FitRequest(workload, 12, x, x @ np.arange(6.0) + 0.1 * rng.normal(size=rows), in_force_at_s)


def model(asked: FitRequest) -> FittedModel:
    """A model of the core's own width that says: as much as now."""
    none = np.zeros(len(features.NAMES))
    return FittedModel(asked.in_force_at_s, asked.horizon_bins, none, 1.0, None, len(asked.y))


class Slow:
    """A fitter that takes `takes_s`."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.began: list[tuple[str, float]] = []

    async def fit(self, asked: FitRequest) -> FittedModel:
        self.began.append((asked.workload, asked.in_force_at_s))
        await asyncio.sleep(self.takes_s)
        return model(asked)


@virtual
async def test_a_long_fit_holds_up_no_step_and_is_in_force_at_its_time() -> None:
    async with running(target(), fitter=Slow(40.0)) as bench:
        bench.runtime._refit.ask(request(in_force_at_s=60.0))
        await bench.until(41.0)
        track = bench.runtime.table.track(0)
        assert track.coming is not None
        assert 0 not in bench.runtime.table.fitted
        await bench.until(61.0)
        assert 0 in bench.runtime.table.fitted
    assert [at_s for at_s, _ in bench.steps()] == [5.0 * tick for tick in range(13)]
    assert [n["event"] for n in bench.told("note")] == ["stopping", "stopped"]


@virtual
async def test_a_fit_that_comes_too_late_says_so() -> None:
    async with running(target(), fitter=Slow(70.0)) as bench:
        bench.runtime._refit.ask(request(in_force_at_s=60.0))
        await bench.until(76.0)
        assert 0 in bench.runtime.table.fitted
    assert bench.told("note")[0]["message"] == "10.0 s after its time"


@virtual
async def test_of_several_requests_of_a_workload_only_the_newest_is_fitted() -> None:
    slow = Slow(10.0)
    async with running(target(), target(B), fitter=slow) as bench:
        for asked in (request(A, 1.0), request(A, 2.0), request(B, 3.0), request(A, 4.0)):
            bench.runtime._refit.ask(asked)
        await bench.until(30.0)
    assert slow.began == [(A, 4.0), (B, 3.0)]


@virtual
async def test_a_fit_that_hangs_is_given_up_and_the_next_is_made() -> None:
    slow = Slow(1e6)
    async with running(target(), target(B), fitter=slow, bounds=Bounds(fit_s=20.0)) as bench:
        bench.runtime._refit.ask(request(A))
        bench.runtime._refit.ask(request(B))
        await bench.until(25.0)
        slow.takes_s = 1.0
    assert slow.began == [(A, 60.0), (B, 60.0)]
    assert bench.told("note")[0]["message"] == "not done within 20 s"


@virtual
async def test_a_model_of_a_workload_that_is_gone_is_dropped() -> None:
    async with running(target(), target(B), fitter=Slow(10.0)) as bench:
        bench.runtime._refit.ask(request(B))
        await bench.until(5.0)
        bench.runtime.remove(B)
        await bench.until(20.0)
        assert list(bench.runtime.table.rows) == [A]


@virtual
async def test_data_that_cannot_be_fitted_is_a_note_and_no_model() -> None:
    asked = request()
    broken = replace(asked, x=np.full_like(asked.x, np.nan))
    async with running(target(), fitter=InlineFitter(fit)) as bench:
        bench.runtime._refit.ask(broken)
        await bench.until(70.0)
        assert bench.runtime.table.fitted == {}
    assert bench.told("note")[0]["event"] == "fit failed"


def test_requests_and_models_cross_the_wire_unchanged() -> None:
    asked = request()
    back = fit_wire.unpack_request(fit_wire.pack_request(asked))
    assert (back.workload, back.horizon_bins, back.in_force_at_s) == (A, 12, 60.0)
    assert back.x.tobytes() == asked.x.tobytes()
    made = fit(asked)
    again = fit_wire.unpack_answer(fit_wire.pack_answer(made))
    assert isinstance(again, FittedModel)
    assert fit_wire.pack_answer(again) == fit_wire.pack_answer(made)
    linear = fit_wire.unpack_answer(fit_wire.pack_answer(model(asked)))
    assert isinstance(linear, FittedModel)
    assert linear.trees is None
    assert fit_wire.unpack_answer(fit_wire.pack_answer("too few rows")) == "too few rows"


@pytest.mark.slow
async def test_a_fit_in_the_child_equals_one_made_inline_and_the_child_is_kept() -> None:
    asked = request()
    async with ProcessFitter() as fitter:
        made = await fitter.fit(asked)
        child = fitter._child
        assert child is not None
        with pytest.raises(PortError) as raised:
            await fitter.fit(replace(asked, x=np.full_like(asked.x, np.nan)))
        again = await fitter.fit(asked)
        assert fitter._child is child
    assert raised.value.fault is Fault.INVALID
    assert fit_wire.pack_answer(made) == fit_wire.pack_answer(fit(asked)) == fit_wire.pack_answer(again)
    assert child.returncode is not None


async def test_a_child_that_dies_is_a_port_error_and_the_next_fit_starts_another() -> None:
    async with ProcessFitter((sys.executable, "-c", "import sys; sys.stdin.buffer.read(1)")) as fitter:
        for _ in range(2):
            with pytest.raises(PortError) as raised:
                await fitter.fit(request())
            assert raised.value.fault is Fault.UNAVAILABLE


async def test_a_child_that_cannot_be_started_is_a_port_error() -> None:
    async with ProcessFitter(("/nowhere/python",)) as fitter:
        with pytest.raises(PortError, match="cannot be started"):
            await fitter.fit(request())


async def test_a_cancelled_fit_ends_the_child() -> None:
    async with ProcessFitter((sys.executable, "-c", "import sys; sys.stdin.buffer.read()")) as fitter:
        child = fitter._child
        assert child is not None
        async with asyncio.TaskGroup() as group:
            task = group.create_task(fitter.fit(request()))
            for _ in range(5):  # turns of the loop, enough to have sent the request and to wait for the answer
                await asyncio.sleep(0)
            task.cancel()
        assert task.cancelled()
        assert child.returncode is not None
        assert fitter._child is None
