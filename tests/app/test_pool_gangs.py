"""Nodes that the leader's pools make for gangs: whole, told to who asked, given back where nobody asks any more."""

import pytest

from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_objects import WarmPoolObject
from autoscaler.adapters.kube.pool_writer import Became, Outcome
from autoscaler.core.pool.gangs import FRESH_S
from autoscaler.core.pool.intents import CreateHolder, CreateSlot, DeleteSlot
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import (
    GangAsk,
    HolderSeen,
    PodsAsked,
)
from tests.app.pool_scene import START_S, UNKNOWN, keeping, warm_pool

pytestmark = pytest.mark.looptime(noop_cycles=1)


async def test_a_pool_that_is_asked_makes_places_for_a_whole_gang_and_tells_who_asked_how_that_stands() -> None:
    async with keeping(warm_pool(gangs={"maxGpus": 32})) as scene:
        await scene.wait(180.0)
        before = scene.telling.pool("chat")
        assert before is not None
        assert scene.desk.makers("h100") == ("chat",)
        assert scene.desk.asks_of("chat") is None
        ask = GangAsk("job/ns/train", "u1", "h100", (PodsAsked(2, 8),))
        scene.desk.asks({"chat": (ask,)}, scene.clock.now())
        await scene.wait(10.0)
        made = [intent for intent in scene.written.intents if isinstance(intent, CreateHolder)]
        assert {(each.gang_uid, each.units, each.node_pool) for each in made} == {("u1", 8, "gpu")}
        assert len({each.name for each in made}) == 2
        assert ("Normal", "GangNodesAsked", "2 pods that hold places in tier gpu for job/ns/train") in scene.told.events
        (standing,) = scene.desk.offers["chat"].standings
        assert (standing.gang, standing.pods, standing.refused) == ("job/ns/train", 2, None)
        place = HolderSeen(made[0].name, "u-0", "u1", "gpu", 8, scene.clock.now())
        scene.seen.holders = (place,)
        scene.desk.asks({}, scene.clock.now())
        await scene.wait(7.0)
        (told,) = scene.telling.pools
        assert told.gang_gpus == 8.0
        assert DeleteSlot(place.name, "u-0", PoolReason.GANG_OVER, of_gang=True) in scene.written.intents
        assert [word for _, word, _ in scene.told.events].count("GangNodesGivenBack") >= 1
        after = scene.telling.pool("chat")
        assert after is not None
        assert after.counts.deleted == before.counts.deleted, "it was no slot"


async def test_a_pool_that_turns_faulty_makes_no_nodes_for_gangs_and_gives_back_what_none_asks_for() -> None:
    async with keeping(warm_pool(gangs={"maxGpus": 32})) as scene:
        await scene.wait(5.0)
        ask = GangAsk("job/ns/train", "u1", "h100", (PodsAsked(2, 8),))
        scene.desk.asks({"chat": (ask,)}, scene.clock.now())
        await scene.wait(10.0)
        made = [intent for intent in scene.written.intents if isinstance(intent, CreateHolder)]
        place = HolderSeen(made[0].name, "u-0", "u1", "gpu", 8, scene.clock.now())
        scene.seen.holders = (place,)
        scene.seen.pools["chat"] = warm_pool(2, gangs={"maxGpus": 32}, tiers=UNKNOWN)
        scene.frozen = "change of racks"
        await scene.wait(10.0)
        offer = scene.desk.offers["chat"]
        assert (offer.makes, offer.standings) == ((), ())
        assert offer.holds == {"u1"}
        gone = DeleteSlot(place.name, "u-0", PoolReason.GANG_OVER, of_gang=True)
        assert gone not in scene.written.intents, "the gang asks for it still"
        scene.desk.asks({}, scene.clock.now())
        await scene.wait(6.0)
        assert gone not in scene.written.intents, "all is frozen"
        scene.frozen = None
        await scene.wait(6.0)
        assert gone in scene.written.intents
        slots = [each for each in scene.written.intents if isinstance(each, DeleteSlot) and not each.of_gang]
        assert slots == [], "what it keeps warm stays"


@pytest.mark.parametrize("is_faulty", [False, True], ids=["of a pool that is kept", "of a pool that turned faulty"])
async def test_whose_places_are_held_stands_as_it_was_while_pods_are_not_read(is_faulty: bool) -> None:
    """Else a gang that starts would be taken for one that asks for nothing, and its places given back."""
    async with keeping(warm_pool(gangs={"maxGpus": 32})) as scene:
        scene.seen.holders = (HolderSeen("chat-gang-0", "u-0", "u1", "gpu", 8, scene.clock.now(), node="n0"),)
        await scene.wait(10.0)
        assert scene.desk.holder("u1") == "chat"
        scene.seen.pods_unread = True
        if is_faulty:
            scene.seen.pools["chat"] = warm_pool(2, gangs={"maxGpus": 32}, tiers=UNKNOWN)
        await scene.wait(10.0)
        assert scene.desk.holder("u1") == "chat"
        scene.seen.pods_unread, scene.seen.holders = False, ()
        await scene.wait(10.0)
        assert scene.desk.holder("u1") is None


async def test_places_of_a_faulty_pool_are_given_back_no_further_at_a_look_once_no_answer_came() -> None:
    """Each waits for ten seconds, and other pools with it; a refusal holds up none of the others."""
    held = tuple(HolderSeen(f"chat-gang-{at}", f"u-{at}", "u1", "gpu", 8, START_S) for at in range(3))
    async with keeping(warm_pool(gangs={"maxGpus": 32})) as scene:
        await scene.wait(5.0)
        scene.seen.holders = held
        scene.desk.asks({}, scene.clock.now())
        scene.seen.pools["chat"] = warm_pool(2, gangs={"maxGpus": 32}, tiers=UNKNOWN)
        silent, refused = Outcome(Became.UNKNOWN, "no answer within 10 s"), Outcome(Became.REFUSED, "403")
        scene.written.intents, scene.written.answers = [], [refused, silent]
        await scene.wait(5.0)
        assert [each.name for each in scene.written.intents if isinstance(each, DeleteSlot)] == [
            "chat-gang-0", "chat-gang-1",
        ]  # fmt: skip


async def test_a_bug_met_by_a_pool_that_cannot_be_used_stops_no_other() -> None:
    async with keeping(warm_pool(gangs={"maxGpus": 32})) as scene:
        await scene.wait(5.0)
        scene.desk.asks({}, scene.clock.now())
        scene.seen.holders = (HolderSeen("chat-gang-0", "u-0", "u1", "gpu", 8, scene.clock.now()),)
        scene.written.breaks = {"chat-gang-0"}
        scene.told.pools = {"chat", "other"}
        scene.seen.pools["chat"] = warm_pool(2, gangs={"maxGpus": 32}, tiers=UNKNOWN)
        scene.seen.pools["other"] = WarmPoolObject(Meta("other", uid="u2", generation=1), warm_pool().spec)
        await scene.wait(10.0)
        assert "other-0" in scene.written.created


async def test_a_pool_begins_nothing_for_gangs_of_which_batch_admission_has_not_spoken_for_a_minute() -> None:
    async with keeping(warm_pool(gangs={"maxGpus": 32})) as scene:
        ask = GangAsk("job/ns/train", "u1", "h100", (PodsAsked(2, 8),))
        await scene.wait(180.0)
        scene.desk.asks({"chat": (ask,)}, scene.clock.now() - FRESH_S)
        await scene.wait(60.0)
        assert not [intent for intent in scene.written.intents if isinstance(intent, CreateHolder)]
        assert scene.desk.offers["chat"].standings[0].refused is PoolReason.GANG_UNSURE
        scene.desk.asks({"chat": (ask,)}, scene.clock.now())
        await scene.wait(10.0)
        assert len({i.name for i in scene.written.intents if isinstance(i, CreateHolder)}) == 2


async def test_a_pool_that_only_observes_or_is_frozen_makes_no_node_for_a_gang() -> None:
    ask = GangAsk("job/ns/train", "u1", "h100", (PodsAsked(2, 8),))
    for backend, frozen in (("observe", None), ("slots", "an incident")):
        async with keeping(warm_pool(gangs={"maxGpus": 32}, backend=backend)) as scene:
            scene.frozen = frozen
            await scene.wait(2.0)
            scene.desk.asks({"chat": (ask,)}, scene.clock.now())
            await scene.wait(10.0)
            assert not [intent for intent in scene.written.intents if isinstance(intent, CreateHolder)]


def places(*names: str, node: str | None = None) -> tuple[HolderSeen, ...]:
    return tuple(HolderSeen(name, f"u-{name}", "u1", "gpu", 8, START_S, node=node) for name in names)


async def test_places_of_a_pool_that_is_faulty_when_the_leader_begins_are_given_back_where_no_gang_asks_them() -> None:
    """The last leader asked for two nodes for a gang; this one can read the pods, and not what their pool wants."""
    async with keeping(warm_pool(2, gangs={"maxGpus": 32}, tiers=UNKNOWN)) as scene:
        scene.seen.holders = places("chat-gang-0", "chat-gang-1")
        await scene.wait(60.0)
        assert scene.written.intents == [], "nobody has said yet who asks for nodes"
        assert scene.desk.holder("u1") == "chat"
        assert not scene.desk.all_known, "whose nodes are its own it has not said"
        scene.desk.asks({"chat": (GangAsk("job/ns/train", "u1", "h100", (PodsAsked(2, 8),), starts=True),)},
                        scene.clock.now())  # fmt: skip
        await scene.wait(10.0)
        assert scene.written.intents == [], "a gang that starts there takes them"
        scene.desk.asks({}, scene.clock.now())
        await scene.wait(6.0)
        assert {each.name for each in scene.written.intents if isinstance(each, DeleteSlot)} == {
            "chat-gang-0", "chat-gang-1",
        }  # fmt: skip


async def test_a_pool_that_was_faulty_from_the_start_and_is_mended_says_all_that_a_sound_one_does() -> None:
    async with keeping(warm_pool(2, gangs={"maxGpus": 32}, tiers=UNKNOWN)) as scene:
        await scene.wait(5.0)
        assert (scene.desk.makers("h100"), scene.desk.all_known) == ((), False)
        scene.seen.pools["chat"] = warm_pool(3, gangs={"maxGpus": 32})
        await scene.wait(10.0)
        assert (scene.desk.makers("h100"), scene.desk.all_known) == (("chat",), True)


async def test_a_request_stands_at_a_pool_that_is_set_to_observe_while_its_places_wait_for_nodes() -> None:
    """What holds them has nodes made all the same: at another pool as well these would be made twice."""
    ask = GangAsk("job/ns/train", "u1", "h100", (PodsAsked(2, 8),))
    async with keeping(warm_pool(gangs={"maxGpus": 32, "timeoutS": 600})) as scene:
        await scene.wait(5.0)
        scene.desk.asks({"chat": (ask,)}, scene.clock.now())
        await scene.wait(10.0)
        made = [each for each in scene.written.intents if isinstance(each, CreateHolder)]
        begun_s = scene.clock.now()
        scene.seen.holders = tuple(HolderSeen(each.name, "u-0", "u1", "gpu", 8, begun_s) for each in made[:2])
        scene.seen.pools["chat"] = warm_pool(2, backend="observe", gangs={"maxGpus": 32, "timeoutS": 600})
        scene.written.intents = []
        await scene.wait(10.0)
        scene.desk.asks({"chat": (ask,)}, scene.clock.now())
        (standing,) = scene.desk.offers["chat"].standings
        assert (standing.placed, standing.pods, standing.since_s, standing.refused) == (0, 2, begun_s, None)
        await scene.wait(600.0)
        assert scene.desk.offers["chat"].standings == (), "no node has come in time: it is asked for elsewhere"
        assert not [each for each in scene.written.intents if not isinstance(each, CreateSlot)], "it only observes"
