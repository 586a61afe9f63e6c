"""Shutdown in order, bounded even when everything hangs, and what happens when a task fails."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from autoscaler.runtime.checkpoints import EVERY_S
from autoscaler.runtime.supervisor import Bounds
from tests.runtime.bench import A, B, Bench, running, target
from tests.runtime.fakes import Lines, Pushes, Store

pytestmark = pytest.mark.looptime(noop_cycles=1)


async def test_shutdown_stops_deciding_then_acting_then_writes_record_and_checkpoint() -> None:
    order: list[str] = []

    class Told(Lines):
        async def write(self, lines):
            order.extend(["record"] * (b"STOPPING" in b"".join(lines) or b"stopping" in b"".join(lines)))
            await super().write(lines)

    class Kept(Store):
        async def save(self, checkpoints):
            order.append("checkpoint")
            await super().save(checkpoints)

    async with running(target(min_replicas=6), store=Kept(), bounds=Bounds(patch_s=60.0, acting_s=3.0)) as bench:
        bench.runtime.recorder.journal._sink = bench.journal = Told()
        bench.scale.answers = ["hang"]
        await bench.until(2.0)
        order.clear()
    assert order == ["record", "checkpoint"]
    assert len(bench.steps()) == 1, "nothing is decided while patches are waited for"
    kinds = [(line["kind"], line.get("event") or line["outcome"]) for line in bench.told("note") + bench.told("act")]
    assert kinds == [("note", "stopping"), ("note", "stopped"), ("act", "unknown")]
    assert bench.told("note")[1]["message"] == "checkpoint saved, 0 lines not written before it"
    assert bench.clock.now() == 5.0


async def test_shutdown_is_bounded_when_everything_hangs() -> None:
    bounds = Bounds(gather_s=100.0, patch_s=100.0, store_s=4.0, acting_s=3.0, flush_s=2.0)
    async with running(target(min_replicas=6), target(B), store=Store(hangs=True), bounds=bounds) as bench:
        bench.scale.answers = ["hang"]
        await bench.until(1.0)
        bench.source.hangs = {A, B}
        await bench.until(10.0)
        bench.audit.hangs = bench.journal.hangs = True
    # 3 s for the patch, 2 s for the sinks, 4 s for the store, 2 s for what is left of the journal.
    assert bench.clock.now() == pytest.approx(10.0 + 3.0 + 2.0 + 4.0 + 2.0)


async def test_a_failing_task_stops_everything_and_still_saves() -> None:
    class Broken(Pushes):
        async def changes(self) -> AsyncIterator[str]:
            yield A
            await asyncio.sleep(10.0)
            raise ZeroDivisionError("a bug")

    seen: list[Bench] = []

    async def scenario() -> None:
        async with running(target(), target(B), watch=Broken()) as bench:
            seen.append(bench)
            await bench.until(30.0)

    with pytest.raises(ExceptionGroup) as raised:
        await scenario()
    assert raised.group_contains(ZeroDivisionError, match="a bug")
    (bench,) = seen
    assert set(bench.store.kept) == {A, B}
    assert bench.told("note")[-1]["event"] == "stopped"
    assert [at_s for at_s, _ in bench.steps()] == [0.0, 5.0]
    assert bench.clock.now() == 10.0


async def test_cancelling_the_driver_saves_too() -> None:
    async with running(target()) as bench:
        await bench.until(3.0)
        next(task for task in asyncio.all_tasks() if task.get_name() == "driver").cancel()
    assert set(bench.store.kept) == {A}
    assert bench.told("note")[-1]["event"] == "stopped"


async def test_a_task_that_ends_by_itself_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patched because every one of the tasks is written never to end."""

    async def ends() -> None:
        await asyncio.sleep(4.0)

    async def scenario() -> None:
        async with running(target()) as bench:
            monkeypatch.setattr(bench.runtime._checkpoints, "run", ends)
            await bench.until(60.0)

    with pytest.raises(ExceptionGroup) as raised:
        await scenario()
    assert raised.group_contains(RuntimeError, match="'checkpoint' ended by itself")


async def test_checkpoints_are_saved_every_minute_and_at_the_end() -> None:
    async with running(target()) as bench:
        await bench.until(2.5 * EVERY_S)
    assert bench.store.saves == pytest.approx([EVERY_S, 2 * EVERY_S, 2.5 * EVERY_S])


async def test_targets_put_before_during_and_after_the_run_are_taken() -> None:
    async with running() as bench:
        bench.runtime.put(target())
        await bench.until(7.0)
        bench.runtime.put(target(B))
        await bench.until(9.0)
    assert [at_s for at_s, _ in bench.steps()] == [0.0, 5.0]
    assert [at_s for at_s, _ in bench.steps(B)] == [7.0]
    bench.runtime.remove(B)
    with pytest.raises(KeyError):
        bench.runtime.remove(B)
