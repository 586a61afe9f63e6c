"""Warm pools as the leader keeps them: filled, told of, left alone, kept over a restart."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
import structlog

from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_objects import WarmPoolObject
from autoscaler.adapters.kube.pool_writer import Became, Outcome
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.app.pool_leads import NextStart
from autoscaler.app.pools import GATHER_S
from autoscaler.core.pool.history import BIN_S, DemandHistory
from autoscaler.core.pool.intents import MarkNodeEnds
from autoscaler.core.pool.state import PoolState, pack
from autoscaler.core.pool.world import LentSeen
from autoscaler.record.loans import LoanState, LoanTold
from tests.app.pool_scene import START_S, UNKNOWN, Scene, keeping, warm_pool
from tests.runtime.fakes import Store

pytestmark = pytest.mark.looptime(noop_cycles=1)


async def test_a_pool_is_filled_to_its_minimum_and_told_of_as_it_warms() -> None:
    async with keeping(warm_pool()) as scene:
        await scene.wait(1.0)
        assert scene.written.created == ["chat-0", "chat-1"]
        assert scene.seen.relists == 1, "what was followed before may be behind what the last leader wrote"
        assert scene.warm == 0
        await scene.wait(180.0)
        assert scene.warm == 2
        assert scene.written.created == ["chat-0", "chat-1"], "once is enough"
        assert [(line.pool, line.warm, line.state) for line in scene.shown[-1]] == [("chat", 2, "warm")]
        assert scene.told.condition("Ready")[0] == scene.told.condition("Acting")[0] == "True"
        assert scene.told.statuses[-1]["warmSlots"] == 2
        assert ("Normal", "SlotsOrdered", "2 ordered in tier gpu: refill") in scene.told.events
        assert len(scene.told.statuses) < 30, "written on change, not at every look"


async def test_every_look_tells_what_the_next_replica_finds_until_the_pool_is_gone() -> None:
    async with keeping(warm_pool()) as scene:
        await scene.wait(1.0)
        assert scene.leads.next_start("serving/chat") is None, "no slot has started from nothing yet"
        await scene.wait(180.0)
        assert scene.leads.next_start("serving/chat") == NextStart(65.0, few=True), "two slots are warm"
        scene.seen.pools["chat"] = warm_pool(2, tiers=[])
        await scene.wait(10.0)
        assert list(scene.leads.words("serving/chat")) == [], "a pool that is not looked at says nothing"
        scene.seen.pools["chat"] = warm_pool(3)
        await scene.wait(10.0)
        assert scene.leads.next_start("serving/chat") == NextStart(65.0, few=True)
        del scene.seen.pools["chat"]
        await scene.wait(10.0)
        assert list(scene.leads.words("serving/chat")) == []


async def test_a_change_is_looked_at_without_waiting_for_the_next_turn() -> None:
    async with keeping() as scene:
        await scene.wait(1.0)
        scene.seen.pools["chat"] = warm_pool()
        scene.pools.changed()
        await scene.wait(2 * GATHER_S)
        assert scene.written.created == ["chat-0", "chat-1"]


async def test_an_outcome_that_is_unknown_stops_the_pool_until_the_cluster_was_read() -> None:
    async with keeping() as scene:
        scene.seen.answered = False
        scene.written.answers = [Outcome(Became.UNKNOWN, "POST: no answer within 10 s")] * 2
        scene.seen.pools["chat"] = warm_pool()
        await scene.wait(120.0)
        assert scene.written.created == ["chat-0", "chat-1"]
        assert scene.seen.rereads == 1
        assert scene.told.condition("Acting") == (
            "Unknown",
            "nothing more until it is read: POST: no answer within 10 s",
        )
        scene.seen.answered = True
        await scene.wait(120.0)
        assert scene.written.created == ["chat-0", "chat-1"] * 2, "ordered again under the same names"
        assert scene.told.condition("Acting")[0] == "True"


async def test_what_was_not_begun_before_a_doubt_is_ordered_once_the_cluster_was_read() -> None:
    """Ten slots are wanted and eight writes begin at once: a ninth and a tenth were never asked for."""
    async with keeping() as scene:
        scene.written.answers = [Outcome(Became.UNKNOWN, "POST: no answer within 10 s")] * 8
        scene.seen.pools["chat"] = warm_pool(minSlots=10)
        await scene.wait(20.0)
        assert scene.written.created == [f"chat-{at}" for at in range(10)]
        await scene.wait(60.0)
        assert sorted(scene.written.created[10:]) == [f"chat-{at}" for at in range(8)], (
            "whether these are is seen later"
        )


async def test_what_never_left_is_asked_for_at_the_next_look() -> None:
    async with keeping() as scene:
        unsent = Outcome(Became.REFUSED, "not sent: it was allowed no more when its turn came", sent=False)
        scene.written.answers = [unsent] * 2
        scene.seen.pools["chat"] = warm_pool()
        await scene.wait(10.0)
        assert scene.written.created == ["chat-0", "chat-1"] * 2


async def test_a_refusal_is_told_and_tried_again_once_a_minute() -> None:
    async with keeping() as scene:
        scene.written.answers = [Outcome(Became.REFUSED, "403: exceeded quota")] * 1000
        scene.seen.pools["chat"] = warm_pool()
        await scene.wait(300.0)
        assert 8 <= len(scene.written.created) <= 12
        assert scene.told.condition("Acting") == ("False", "403: exceeded quota")
        assert len(scene.told.statuses) < 5, "a refusal stands until something was written"
        assert ("Warning", "WriteFailed", "refused: 403: exceeded quota") in scene.told.events
        pool = scene.telling.pool("chat")
        assert pool is not None
        assert pool.counts.refused == len(scene.written.created)
        assert pool.counts.ordered == 0


async def test_a_slot_that_is_kept_off_a_node_that_ends_is_made_once_that_is_written_on_the_slots_there() -> None:
    """Written beside each other, the scheduler might place it before it can see what to keep it off."""
    async with keeping(warm_pool(minSlots=1)) as scene:
        await scene.wait(180.0)
        scene.seen.ends_s, scene.written.takes_s = scene.clock.now() + 300.0, 0.1
        scene.seen.pools["chat"] = warm_pool(2, minSlots=3)
        scene.pools.changed()
        await scene.wait(1.0)
        assert scene.written.created == ["chat-0", "chat-1", "chat-2"]
        (mark,) = (each for each in scene.written.intents if isinstance(each, MarkNodeEnds))
        assert mark in scene.written.before["chat-1"]
        assert mark in scene.written.before["chat-2"]


async def test_a_frozen_cluster_is_decided_on_and_left_alone() -> None:
    async with keeping(warm_pool()) as scene:
        scene.frozen = "change of racks"
        await scene.wait(60.0)
        assert scene.written.intents == []
        assert scene.told.statuses[-1]["targetSlots"] == 2
        assert scene.told.condition("Acting") == ("False", "the whole cluster is frozen: change of racks")
        scene.frozen = None
        await scene.wait(10.0)
        assert len(scene.written.created) == 2


async def test_the_backend_observe_writes_nothing_but_its_status() -> None:
    async with keeping(warm_pool(backend="observe")) as scene:
        await scene.wait(60.0)
        assert scene.written.intents == []
        assert scene.told.statuses[-1]["targetSlots"] == 2


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a shape that nobody knows": (
        {"tiers": [{"name": "gpu", "shape": "b200", "nodePoolRef": "gpu"}]}, "spec.tiers[0].shape: 'b200'"),
    "a registry that is not allowed": (
        {"models": [{"name": "chat", "image": "evil.example.com/vllm"}]}, "spec.models[0].image"),
    "an image of Docker Hub by its short name": ({"models": [{"name": "chat", "image": "vllm/vllm"}]}, "registries"),
    "a cache in a folder that is not for caches": (
        {"cache": {"hostPath": "/mnt/cache"}},
        (
            "spec.cache.hostPath: '/mnt/cache' is not directly below a folder that caches may be in "
            "(/var/lib/headroom); name a folder there, or ask for '/mnt' to be added to the setting "
            "warm_pools.cache_roots"
        ),
    ),
    "a minimum above the maximum": ({"minSlots": 9, "maxSlots": 3}, "spec.minSlots: 9 is above maxSlots 3"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "words"), FAULTS.values(), ids=FAULTS)
async def test_a_faulty_pool_is_told_and_what_it_had_stays(fields: dict[str, Any], words: str) -> None:
    async with keeping(warm_pool()) as scene:
        await scene.wait(10.0)
        scene.seen.pools["chat"] = warm_pool(2, **fields)
        await scene.wait(60.0)
        assert scene.told.condition("Accepted")[0] == "False"
        assert words in scene.told.condition("Accepted")[1]
        assert scene.told.statuses[-1]["observedGeneration"] == 2
        assert len(scene.written.intents) == 2


async def test_a_bug_met_by_one_pool_stops_no_other() -> None:
    async with keeping(warm_pool()) as scene:
        scene.seen.pools["bad"] = WarmPoolObject(Meta("bad", uid="u2", generation=1), warm_pool().spec)
        scene.seen.breaks.add("bad")
        await scene.wait(30.0)
        assert scene.written.created == ["chat-0", "chat-1"]


THREE = [{"name": "gpu", "shape": "h100", "nodePoolRef": "gpu", "limits": {"gpus": 3}}]


def two_pools() -> dict[str, WarmPoolObject]:
    """Two pools of one NodePool, in which each wants two slots and three GPUs may be."""
    chat = warm_pool(tiers=THREE)
    return {"chat": chat, "bulk": WarmPoolObject(Meta("bulk", uid="u2", generation=1), chat.spec)}


async def test_two_pools_of_one_nodepool_together_ask_for_no_more_than_it_may_hold() -> None:
    async with keeping() as scene:
        scene.told.pools = {"chat", "bulk"}
        scene.seen.pools |= two_pools()
        await scene.wait(240.0)
        assert scene.written.created == ["bulk-0", "bulk-1", "chat-0"]
        assert len(scene.seen.plant.nodes) == 3


async def test_a_new_leader_knows_before_its_first_order_what_all_pools_have_asked_of_a_nodepool() -> None:
    """A leader that died before any node was launched had ordered two slots for the pool that is looked at last."""
    async with keeping(warm_pool(tiers=THREE)) as scene:
        await scene.wait(1.0)
        assert scene.written.created == ["chat-0", "chat-1"]
    scene.told.pools = {"chat", "bulk"}
    scene.seen.pools |= two_pools()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scene.anew().run())
        await scene.wait(1.0)
        task.cancel()
    assert scene.written.created == ["chat-0", "chat-1", "bulk-0"]


async def test_a_new_leader_counts_what_a_pool_asked_for_that_cannot_be_read_any_more() -> None:
    """Two slots were ordered of a NodePool of three GPUs when the leader died; their pool was edited to a fault."""
    async with keeping(warm_pool(tiers=THREE)) as scene:
        await scene.wait(1.0)
    scene.told.pools = {"chat", "bulk"}
    scene.seen.pools |= {**two_pools(), "chat": warm_pool(2, tiers=UNKNOWN)}
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scene.anew().run())
        await scene.wait(1.0)
        task.cancel()
    assert scene.written.created == ["chat-0", "chat-1", "bulk-0"]


async def test_what_a_pool_asked_for_that_turns_faulty_counts_until_its_nodes_do_and_not_beside_them() -> None:
    """Two of three GPUs: once both nodes were launched the NodePool counts them itself."""
    async with keeping(warm_pool(tiers=THREE)) as scene:
        await scene.wait(1.0)
        scene.told.pools = {"chat", "bulk"}
        scene.seen.pools["chat"] = warm_pool(2, tiers=UNKNOWN)
        await scene.wait(120.0)
        scene.seen.pools["bulk"] = two_pools()["bulk"]
        await scene.wait(20.0)
        assert scene.written.created == ["chat-0", "chat-1", "bulk-0"]


async def test_a_leader_that_may_not_read_warm_pools_takes_no_node_for_nobodys_until_it_may() -> None:
    """Without it their list is empty: all would count as looked at, and every loan as the gang's own for good."""
    async with keeping() as scene:
        scene.desk.all_looked = False
        scene.seen.pools_read, scene.seen.unread = False, ("GET warmpools: 403",)
        with structlog.testing.capture_logs() as log:
            await scene.wait(30.0)
        assert (scene.desk.all_looked, scene.desk.all_known) == (False, False)
        (said,) = [line for line in log if line["log_level"] == "warning"]
        assert (said["why"], "what they lent stays lent" in said["event"]) == ("GET warmpools: 403", True)
        scene.seen.pools_read = True
        scene.seen.pools["chat"] = warm_pool()
        await scene.wait(10.0)
        assert (scene.desk.all_known, sorted(scene.desk.offers)) == (True, ["chat"])


async def test_what_was_learnt_is_kept_and_a_new_leader_begins_with_it() -> None:
    store = Store()
    async with keeping(warm_pool(), store=store) as scene:
        await scene.wait(240.0)
    assert "chat" in store.kept
    async with keeping(warm_pool(), store=store) as scene:
        await scene.wait(1.0)
        pool = scene.telling.pool("chat")
        assert pool is not None
        assert "a slot on a new node, h100 on-demand" in pool.explained, "starts that the last leader measured"


async def test_what_was_learnt_of_a_pool_that_cannot_be_read_after_a_restart_outlives_what_the_others_save() -> None:
    store = Store()
    async with keeping(warm_pool(), store=store) as scene:
        await scene.wait(240.0)
    learnt = store.kept["chat"]
    other = WarmPoolObject(Meta("bulk", uid="u2", generation=1), warm_pool().spec)
    async with keeping(warm_pool(2, tiers=UNKNOWN), other, store=store) as scene:
        scene.told.pools = {"chat", "bulk"}
        await scene.wait(130.0)
        assert store.kept.keys() == {"chat", "bulk"}
        assert store.kept["chat"] == learnt
        del scene.seen.pools["chat"]
        await scene.wait(70.0)
        assert store.kept.keys() == {"bulk"}


@pytest.mark.parametrize(
    "kept",
    [{"version": 99}, {**pack(PoolState()), "level": 10**400}],
    ids=["of another kind", "a figure no float holds"],
)
async def test_a_checkpoint_that_cannot_be_used_is_left_and_said(kept: dict[str, Any]) -> None:
    store = Store()
    store.kept = {"chat": kept}
    async with keeping(warm_pool(), store=store) as scene:
        await scene.wait(1.0)
        assert len(scene.written.created) == 2


async def test_what_a_leader_whose_clock_was_an_hour_ahead_left_is_used_until_now_and_said() -> None:
    store = Store()
    seen = DemandHistory(int((START_S + 3600.0) // BIN_S), np.ones(120), np.ones(120), 1.0, 1.0)
    store.kept = {"chat": pack(PoolState(seen, targets=((START_S + 3600.0, 5),)))}
    with structlog.testing.capture_logs() as logs:
        async with keeping(warm_pool(), store=store) as scene:
            await scene.wait(130.0)
    assert [each["pool"] for each in logs if each["event"].endswith("of minutes to come: they are left out")] == [
        "chat"
    ]
    learnt = store.kept["chat"]
    assert START_S // BIN_S <= learnt["history"]["last_bin"] <= (START_S + 130.0) // BIN_S
    assert len(learnt["history"]["levels"]) in (61, 62, 63), "the hour before is kept"
    assert all(at_s <= START_S + 130.0 for at_s, _ in learnt["targets"])


async def test_a_pool_that_is_deleted_is_forgotten_and_one_of_its_name_begins_afresh() -> None:
    async with keeping(warm_pool()) as scene:
        await scene.wait(10.0)
        del scene.seen.pools["chat"]
        await scene.wait(10.0)
        assert scene.told.forgotten == ["chat"]
        assert scene.telling.pools == ()
        scene.seen.pools["chat"] = warm_pool(uid="u9")
        await scene.wait(10.0)
        assert scene.telling.pool("chat") is not None


async def test_idle_warm_slots_are_counted_in_slot_seconds() -> None:
    async with keeping(warm_pool()) as scene:
        await scene.wait(180.0)
        before = scene.telling.pool("chat")
        await scene.wait(200.0)
        after = scene.telling.pool("chat")
        assert before is not None
        assert after is not None
        assert after.counts.idle_warm_s - before.counts.idle_warm_s == pytest.approx(400.0, rel=0.1)


async def test_what_cannot_be_read_is_told_beside_what_is_decided() -> None:
    async with keeping(warm_pool()) as scene:
        await scene.wait(10.0)
        assert scene.told.condition("Followed")[0] == "True"
        scene.seen.unread = ("GET /apis/karpenter.sh/v1/nodeclaims: 403 Forbidden",)
        await scene.wait(10.0)
        assert scene.told.condition("Followed") == (
            "False", "not read: GET /apis/karpenter.sh/v1/nodeclaims: 403 Forbidden",
        )  # fmt: skip
        assert ("Warning", "Unread", scene.told.condition("Followed")[1]) in scene.told.events


async def test_the_status_and_the_events_of_a_pool_tell_who_has_a_slot_on_loan_and_when_it_was_called_back() -> None:
    async with keeping(warm_pool(loan={"enabled": True})) as scene:
        await scene.wait(180.0)
        assert (scene.told.statuses[-1]["lentSlots"], scene.told.statuses[-1]["loans"]) == (0, [])
        node = next(slot.node for slot in scene.seen.plant.world().slots or () if slot.node is not None)
        loan = LoanTold("job/ns/train", 1, START_S + 180.0)
        scene.desk.holds({"chat": (LentSeen(node, 1),)}, {"chat": (loan,)})
        await scene.wait(10.0)
        (told,) = scene.told.statuses[-1]["loans"]
        assert (told["gang"], told["units"], scene.told.statuses[-1]["lentSlots"]) == ("job/ns/train", 1, 1)
        assert "overdue" not in told
        back = replace(loan, state=LoanState.RECALLED, recalled_s=START_S + 190.0, why="replicas wait")
        scene.desk.holds({"chat": (LentSeen(node, 1, leaving=1),)}, {"chat": (back,)})
        await scene.wait(10.0)
        (told,) = scene.told.statuses[-1]["loans"]
        assert told["recalledAt"] == "2023-11-14T22:16:30Z"
        hangs = replace(back, state=LoanState.OVERDUE)
        scene.desk.holds({"chat": (LentSeen(node, 1, overdue=1),)}, {"chat": (hangs,)})
        await scene.wait(10.0)
        (told,) = scene.told.statuses[-1]["loans"]
        assert (told["overdue"], scene.told.statuses[-1]["lentSlots"], scene.told.statuses[-1]["overdueSlots"]) == (
            True, 0, 1,
        )  # fmt: skip
        assert [word for _, word, _ in scene.told.events].count("NotLoansGivenBack") == 1
        scene.desk.holds({}, {})
        await scene.wait(10.0)
        words = [word for _, word, _ in scene.told.events if word.startswith("Loan")]
        assert words == ["LoanMade", "LoanRecalled", "LoansGivenBack", "LoanReturned"]
        (line,) = scene.shown[-1]
        assert (line.lent, line.loans) == (0, ())


async def test_until_it_is_known_who_has_loans_the_status_keeps_what_it_said_and_no_more_than_64_are_named() -> None:
    before = [{"gang": "job/ns/old", "units": 1, "since": "2023-11-14T22:00:00Z"}]
    found = warm_pool(loan={"enabled": True})
    found = msgspec.structs.replace(found, status=msgspec.Raw(msgspec.json.encode({"loans": before})))
    scene = Scene()
    scene.desk = scene.pools._desk = LoanDesk(is_open=True)
    scene.seen.pools["chat"] = found
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scene.pools.run())
        await scene.wait(100.0)
        assert scene.told.statuses[-1]["loans"] == before, "a minute and more: batch work was not read yet"
        scene.desk.holds({}, {"chat": tuple(LoanTold(f"job/ns/g{at}", 1, START_S) for at in range(70))})
        await scene.wait(10.0)
        assert (len(scene.told.statuses[-1]["loans"]), scene.told.statuses[-1]["loansLeftOut"]) == (64, 6)
        scene.desk.holds({}, {})
        await scene.wait(10.0)
        assert scene.told.statuses[-1]["loans"] == []
        assert "loansLeftOut" not in scene.told.statuses[-1]
        task.cancel()
    unknown = [status["loans"] for status in scene.told.statuses if "lentSlots" not in status]
    assert unknown
    assert all(loans == before for loans in unknown)
