"""What stops every act at once: not leading, and a freeze. Decisions are made and recorded all the same."""

import asyncio
from dataclasses import replace

import pytest

from autoscaler.api.modes import Mode
from autoscaler.ports import Patch
from tests.runtime.bench import A, B, running, target
from tests.runtime.fakes import Scale

pytestmark = pytest.mark.looptime(noop_cycles=1)

WANTS_SIX = target(min_replicas=6)
"""Its policy's minimum makes every step order 6 where 2 stand."""


async def test_one_that_does_not_lead_decides_and_records_and_writes_nothing() -> None:
    leads = False
    async with running(WANTS_SIX, may_write=lambda: leads) as bench:
        await bench.until(11.0)
        leads = True
        await bench.until(16.0)
    assert [e.decision.replicas for e in bench.stepped()] == [6, 6, 6, 6]
    assert [patch[0] for patch in bench.scale.patches] == [15.0]
    denied = "not acted upon by one that does not lead"
    assert bench.outcomes() == [(0.0, denied), (5.0, denied), (10.0, denied), (15.0, "applied")]


async def test_leadership_is_asked_in_the_turn_in_which_the_patch_leaves() -> None:
    """A turn of the event loop between the answer and the port's call would be time for another to lead."""
    turned, found = asyncio.Event(), list[bool]()

    class Told(Scale):
        async def patch(self, workload: str, seen_replicas: int, replicas: int) -> Patch:
            found.append(turned.is_set())
            return await super().patch(workload, seen_replicas, replicas)

    def may_write() -> bool:
        turned.clear()
        asyncio.get_running_loop().call_soon(turned.set)
        return True

    async with running(WANTS_SIX, may_write=may_write) as bench:
        bench.runtime._actuator._scale = Told(bench.clock)
        await bench.until(1.0)
    assert found == [False]


async def test_a_freeze_stops_every_act_and_says_why_and_the_thaw_steps_at_once_whoever_waits() -> None:
    async with running(WANTS_SIX, target(B)) as bench:
        bench.runtime.freeze(True, "change of the cluster's network, ask the platform team")
        await bench.until(7.0)
        assert bench.scale.patches == []
        bench.runtime.freeze(False, "done")
        await bench.until(8.0)
    assert bench.scale.patches == [(7.0, A, 2, 6)]
    assert bench.steps() == [(0.0, "DUE"), (5.0, "DUE"), (7.0, "UNFROZEN")]
    assert bench.steps(B) == [(0.0, "DUE"), (5.0, "DUE")], "nothing was held back of it"
    acts = [(act["outcome"], act["message"]) for act in bench.told("act")]
    why = "change of the cluster's network, ask the platform team"
    assert acts == [("not acted upon while everything is frozen", why)] * 2 + [("applied", None)]
    notes = [(n["event"], n["message"]) for n in bench.told("note")[:2]]
    assert notes == [("frozen: nothing is acted upon", why), ("freeze ended", "done")]


async def test_a_decision_withdrawn_during_the_freeze_is_not_stepped_for() -> None:
    async with running(WANTS_SIX) as bench:
        bench.runtime.freeze(True, "maintenance")
        await bench.until(1.0)
        bench.runtime.put(target())
        await bench.until(2.0)
        bench.runtime.freeze(False, "maintenance over")
        await bench.until(4.0)
    assert bench.steps() == [(0.0, "DUE"), (1.0, "EDITED")]
    assert bench.scale.patches == []


async def test_freezing_twice_for_the_same_reason_is_noted_once_and_thawing_what_is_not_frozen_never() -> None:
    async with running(target()) as bench:
        bench.runtime.freeze(False, "nothing")
        for why in ("a", "a", "b"):
            bench.runtime.freeze(True, why)
        await bench.until(1.0)
    assert [n["message"] for n in bench.told("note")[:-2]] == ["a", "b"]


async def test_a_patch_that_had_left_before_the_freeze_ends_as_it_ends() -> None:
    async with running(WANTS_SIX) as bench:
        await bench.until(0.1)
        bench.runtime.freeze(True, "too late for the first")
        await bench.until(1.0)
    assert bench.outcomes() == [(0.0, "applied")]


async def test_a_paused_target_says_its_mode_even_while_everything_is_frozen() -> None:
    async with running(target(min_replicas=6, mode=Mode.PAUSED)) as bench:
        bench.runtime.freeze(True, "maintenance")
        await bench.until(1.0)
        bench.runtime.freeze(False, "over")
        await bench.until(2.0)
    assert bench.outcomes() == [(0.0, "not acted upon in this mode")]
    assert len(bench.steps()) == 1


async def test_a_count_set_by_hand_is_noted_once_and_not_worked_against_for_two_minutes() -> None:
    """The policy's minimum asks for 6; somebody takes the target down to 3 at 12 s."""
    async with running(WANTS_SIX) as bench:
        await bench.until(12.0)
        bench.scale.replicas[A] = 3
        bench.pushes.names.put_nowait(A)
        await bench.until(131.0)
        assert bench.scale.patches == [(0.0, A, 2, 6)], "held: nobody undoes the edit"
        await bench.until(140.0)
    assert bench.scale.patches[1][1:] == (A, 3, 6)
    assert 132.0 <= bench.scale.patches[1][0] <= 137.5
    notes = [n["message"] for n in bench.told("note") if n["event"] == "count set by somebody else"]
    assert notes == ["somebody else set 6→3; not worked against for 120 s"]
    held = [act["message"] for act in bench.told("act") if act["outcome"] == "left as somebody else set it"]
    assert held
    assert "somebody else set 6→3" in held[0]


async def test_an_edit_that_follows_a_patch_at_once_is_an_edit_of_what_was_patched() -> None:
    """2→6 was patched and 6→4 set by hand before anybody looked again: not a raise from 2, so 4→6 would be a fight."""
    async with running(WANTS_SIX) as bench:
        await bench.until(0.1)
        assert bench.scale.patches == [(0.0, A, 2, 6)]
        bench.scale.replicas[A] = 4
        await bench.until(60.0)
    assert len(bench.scale.patches) == 1
    notes = [n["message"] for n in bench.told("note") if n["event"] == "count set by somebody else"]
    assert notes == ["somebody else set 6→4; not worked against for 120 s"]


async def test_a_patch_that_somebody_puts_back_at_once_is_an_edit_too() -> None:
    """2→6 was patched and 6→2 set by hand before anybody looked again: 2 is what was seen before, and yet not ours."""
    async with running(WANTS_SIX) as bench:
        await bench.until(0.1)
        bench.scale.replicas[A] = 2
        await bench.until(60.0)
    assert bench.scale.patches == [(0.0, A, 2, 6)]
    notes = [n["message"] for n in bench.told("note") if n["event"] == "count set by somebody else"]
    assert notes == ["somebody else set 6→2; not worked against for 120 s"]


async def test_a_count_that_keda_brings_about_in_steps_is_nobodys_edit() -> None:
    """KEDA is told 6 and takes the target to 4 first, as HPA's own policies may have it."""
    async with running(replace(WANTS_SIX, told=True)) as bench:
        await bench.until(12.0)
        bench.scale.replicas[A] = 4
        await bench.until(26.0)
    assert [n for n in bench.told("note") if n["event"] == "count set by somebody else"] == []
    assert {outcome for _, outcome in bench.outcomes()} == {"told to KEDA, which acts"}
