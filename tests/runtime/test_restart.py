"""A restart loses nothing that matters: checkpoints, and a driver that takes over in the middle of a burst."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from typing import Any

import looptime
import pytest

from autoscaler.core import checkpoint
from autoscaler.core.params import Params
from autoscaler.core.state import Table
from autoscaler.runtime.checkpoints import Checkpoints
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.records import Recorder, Stepped
from autoscaler.sim.plant import Plant
from tests.runtime.bench import A, B, running, target
from tests.runtime.fakes import Lines, Store
from tests.runtime.plants import NAME, Embedded, burst, spec

virtual = pytest.mark.looptime(noop_cycles=1)

PARAMS = Params(max_replicas=100, tick_s=5.0, warmup_prior_s=180.0)
ONSET_S = 1800
END_S = 2220.0
DOWN_S = 10.0
"""Nobody drives for this long."""


@cache
def played(restart_s: float | None) -> Embedded:
    """A burst under one driver, or under two after each other."""

    async def play() -> Embedded:
        plant = Plant(spec(capacity_rps=2.0), burst(onset_s=ONSET_S))
        embedded = Embedded.make({NAME: plant}, PARAMS)
        if restart_s is not None:
            await embedded.drive(restart_s)
            await embedded.clock.sleep_until(restart_s + DOWN_S)
        await embedded.drive(END_S)
        return embedded

    with closing(looptime.new_event_loop(noop_cycles=1)) as loop:
        return loop.run_until_complete(play())


def desired(restart_s: float | None) -> list[int]:
    """The ordered count at every second."""
    return [int(count) for count in played(restart_s).cluster.plant(NAME).timeline().desired]


AFTER_S = [15, 60, 170]
"""Seconds from the onset to the restart: orders are seconds old, a third warmed up, nearly ready."""


@pytest.mark.parametrize("after_s", AFTER_S)
def test_a_restart_in_mid_burst_gives_nothing_back_while_it_warms_up(after_s: int) -> None:
    at_s = ONSET_S + after_s
    counts = desired(at_s)
    assert min(counts[at_s : at_s + 180]) >= counts[at_s - 1]


@pytest.mark.parametrize("after_s", AFTER_S)
def test_a_restart_in_mid_burst_orders_nothing_twice(after_s: int) -> None:
    counts = desired(ONSET_S + after_s)
    assert counts[ONSET_S + after_s - 1] > 1.5 * counts[ONSET_S - 1], "the burst was under way"
    assert max(counts) <= 1.1 * max(desired(None)) + 1


def test_a_restarted_driver_knows_capacity_and_warm_up_again() -> None:
    steps = played(ONSET_S + 240).steps()
    last = [s for s in steps if s.decision.now_s <= ONSET_S + 240][-1]
    first = next(s for s in steps if s.decision.now_s >= ONSET_S + 245)
    assert first.view.replica_rps == pytest.approx(last.view.replica_rps, rel=0.02)
    assert first.view.warmup_p50_s == pytest.approx(last.view.warmup_p50_s, abs=0.1)
    assert first.view.warmup_samples == min(last.view.warmup_samples, 12) > 0


def test_checkpoints_are_small_and_plain() -> None:
    saved = played(ONSET_S + 240).store.kept[NAME]
    text = json.dumps(saved, allow_nan=False, separators=(",", ":"))
    assert len(text) <= 4096
    assert json.loads(text) == saved


BAD: dict[str, dict[str, Any]] = {
    "of another version": {"version": 999},
    "without its parts": {"version": 1},
    "with columns nobody knows": {"version": 1, "columns": {"nonsense": {}}},
    "of another shape": {"version": 1, "columns": {"bounds": 7}},
}


def bent(name: str) -> dict[str, Any]:
    """A checkpoint of this version with something in it that nobody wrote."""
    table = Table.empty()
    table.put(A, Params())
    saved = checkpoint.checkpoint(table, A)
    if name == "columns":
        return saved | {"columns": None}
    return saved | {"load": saved["load"] | {"head": 10**30}}


BAD |= {"with no columns at all": bent("columns"), "with a number that no array holds": bent("load")}


@virtual
@pytest.mark.parametrize("saved", BAD.values(), ids=BAD.keys())
async def test_a_checkpoint_that_cannot_be_used_is_noted_and_the_workload_starts_afresh(saved: dict[str, Any]) -> None:
    async with running(target(), store=Store({A: saved})) as bench:
        await bench.until(6.0)
    assert [at_s for at_s, _ in bench.steps()] == [0.0, 5.0]
    assert bench.told("note")[0]["event"] == "checkpoint not usable"
    assert bench.store.kept[A]["workload"] == A


@virtual
async def test_what_a_later_build_learned_besides_is_left_out_and_said_and_the_rest_is_used() -> None:
    async with running(target()) as leader:
        await leader.until(61.0)
    kept = leader.store.kept[A]
    kept["columns"]["rhythms"] = {"phase": [1.0, 2.0]}
    kept["zero_signal"] = True
    async with running(target(), store=Store({A: kept})) as older:
        await older.until(6.0)
        assert older.runtime.table.track(older.runtime.table.rows[A]).zero_signal is True
    (note,) = [each for each in older.told("note") if each["event"] == "restored from a checkpoint"]
    assert note["message"] == f"version {kept['version']}; left out, as this build does not know it: rhythms"
    assert "rhythms" not in older.store.kept[A]["columns"]


@virtual
async def test_a_store_that_fails_is_noted_and_nothing_else_happens() -> None:
    async with running(target(), store=Store(fails=True)) as bench:
        await bench.until(61.0)
    assert len(bench.steps()) == 13
    events = [note["event"] for note in bench.told("note")]
    assert events == ["checkpoint not usable", "checkpoint not saved", "stopping", "checkpoint not saved", "stopped"]
    assert "checkpoint not saved" in bench.told("note")[-1]["message"]


GONE: dict[str, tuple[dict[str, Any], bool]] = {
    "an hour": ({"saved_s": -3600.0}, True),
    "a day less a minute": ({"saved_s": -86_340.0 + 61.0}, True),
    "a day": ({"saved_s": -86_400.0}, False),
    "nobody knows how long": ({}, False),
}


@virtual
@pytest.mark.parametrize(("age", "kept"), GONE.values(), ids=GONE.keys())
async def test_the_checkpoint_of_a_workload_that_is_not_back_is_kept_for_a_day(age: dict[str, Any], kept: bool) -> None:
    """Deleted while nobody led, it would else be carried from leader to leader for ever."""
    other = {"version": 1, "anything": 1} | age
    store = Store({"prod/other": other})
    async with running(target(), store=store) as bench:
        await bench.until(61.0)
    assert store.kept.get("prod/other") == (other if kept else None)
    assert A in store.kept


@virtual
async def test_a_follower_takes_over_with_what_it_heard_of_the_leader_and_the_store_fills_the_rest() -> None:
    async with running(target(), target(B)) as leader:
        await leader.until(12.0)
        heard = await leader.runtime.snapshot()
    assert set(heard) == {A, B}
    assert heard[A]["saved_s"] == 12.0
    heard[A]["lead_samples_s"], heard[B]["lead_samples_s"] = [70.0], [80.0]
    store = Store({A: heard[A] | {"saved_s": 3.0, "lead_samples_s": [10.0]}, B: heard[B]})
    async with running(target(), target(B), store=store, heard={A: heard[A]}) as follower:
        await follower.until(1.0)
        assert {e.decision.workload: e.view.warmup_p50_s for e in follower.entries if isinstance(e, Stepped)} == {
            A: 70.0, B: 80.0,
        }  # fmt: skip
    assert [n["event"] for n in follower.told("note")[:2]] == ["restored from a checkpoint"] * 2


class SlowStore(Store):
    """A store that takes two seconds to be read."""

    async def load(self) -> Mapping[str, dict[str, Any]]:
        await asyncio.sleep(2.0)
        return await super().load()


@virtual
async def test_the_first_snapshot_of_a_new_leader_holds_what_the_store_has() -> None:
    """A follower that fetched an empty one, and led a moment later, would begin with nothing."""
    store = SlowStore({A: {"version": 1, "saved_s": 0.0}, "prod/later": {"version": 1, "saved_s": 0.0}})
    async with running(target(), store=store) as leader:
        heard = await leader.runtime.snapshot()
        assert leader.clock.now() == 2.0
    assert set(heard) == {A, "prod/later"}


KEPT, HEARD = False, True
NEWER: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "what was heard is newer": ({"saved_s": 10.0}, {"saved_s": 20.0}, HEARD),
    "what was kept is newer": ({"saved_s": 20.0}, {"saved_s": 10.0}, KEPT),
    "both are of one moment": ({"saved_s": 10.0}, {"saved_s": 10.0}, HEARD),
    "what was kept is of no instant that there is": ({"saved_s": 10**400}, {"saved_s": 10.0}, HEARD),
    "what was kept is of none before 1970 either": ({"saved_s": -(10**400)}, {"saved_s": 10.0}, HEARD),
    "what was kept does not say": ({}, {"saved_s": 10.0}, HEARD),
    "what was heard does not say": ({"saved_s": 10.0}, {}, KEPT),
    "neither says": ({}, {"saved_s": None}, HEARD),
}


@virtual
@pytest.mark.parametrize(("kept", "heard", "used"), NEWER.values(), ids=NEWER.keys())
async def test_the_newer_checkpoint_is_used(kept: dict[str, Any], heard: dict[str, Any], used: bool) -> None:
    clock, table = ScaledClock(), Table.empty()
    table.put(A, Params())
    made = checkpoint.checkpoint(table, A)
    store = Store({A: made | {"zero_signal": KEPT} | kept})
    recorder = Recorder(audit=Lines(), journal=Lines(), clock=clock)
    checkpoints = Checkpoints(table=table, store=store, clock=clock, recorder=recorder, load_s=1.0, timeout_s=1.0)
    checkpoints.adopt({A: made | {"zero_signal": HEARD} | heard})
    await checkpoints.load()
    checkpoints.restore(A)
    assert table.track(table.rows[A]).zero_signal is used


SAVED = {A: {"saved_s": 500.0}, "prod/b": {"saved_s": 499.0}, "prod/gone": {"saved_s": 440.0}, "prod/c": {}}
WENT: dict[str, tuple[dict[str, Any], set[str]]] = {
    "as one leader saved them": (SAVED, {A, "prod/b"}),
    "one by a clock seconds ahead": (SAVED | {A: {"saved_s": 519.0}}, {A, "prod/b"}),
    "one of an instant that has not come": (SAVED | {"prod/odd": {"saved_s": 9e9}}, {A, "prod/b", "prod/odd"}),
    "all by a clock an hour ahead": ({A: {"saved_s": 4100.0}, "prod/b": {"saved_s": 4099.0}}, {A, "prod/b"}),
}


@virtual
@pytest.mark.parametrize(("kept", "there"), WENT.values(), ids=WENT)
async def test_what_was_decided_on_to_the_end_is_known_from_what_had_gone_before(
    kept: dict[str, Any], there: set[str]
) -> None:
    clock = ScaledClock(origin_s=510.0)
    recorder = Recorder(audit=Lines(), journal=Lines(), clock=clock)
    checkpoints = Checkpoints(
        table=Table.empty(), store=Store(kept), clock=clock, recorder=recorder, load_s=1.0, timeout_s=1.0
    )
    assert checkpoints.latest() == frozenset()
    await checkpoints.load()
    assert checkpoints.latest() == there


@virtual
async def test_a_checkpoint_of_an_instant_that_has_not_come_is_kept_for_a_day_from_now_on() -> None:
    store = Store({"prod/other": {"version": 1, "saved_s": 9e9}})
    async with running(target(), store=store) as bench:
        await bench.until(61.0)
        (saved_s,) = {one["saved_s"] for name, one in store.kept.items() if name == "prod/other"}
        assert 60.0 <= saved_s <= 61.0
        await bench.until(121.0)
        assert store.kept["prod/other"]["saved_s"] == saved_s, "and it ages"


@virtual
async def test_what_was_heard_is_used_although_the_store_fails() -> None:
    async with running(target()) as leader:
        await leader.until(12.0)
    async with running(target(), store=Store(fails=True), heard=leader.store.kept) as follower:
        await follower.until(1.0)
    assert [n["event"] for n in follower.told("note")[:2]] == ["checkpoint not usable", "restored from a checkpoint"]
