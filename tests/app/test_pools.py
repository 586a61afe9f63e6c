"""Warm pools as the leader keeps them: a plant of nodes and slots behind fakes of what follows and writes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pods import Taint
from autoscaler.adapters.kube.pool_cluster import PoolCluster
from autoscaler.adapters.kube.pool_left import Left
from autoscaler.adapters.kube.pool_objects import WarmPoolObject
from autoscaler.adapters.kube.pool_slot_pod import Errand
from autoscaler.adapters.kube.pool_writer import Became, Outcome, PoolWriter
from autoscaler.api.claims import TargetRef
from autoscaler.api.shapes import Shape
from autoscaler.app.guard import Guard
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.app.pool_demand import Demands
from autoscaler.app.pool_leads import NextStart, PoolLeads
from autoscaler.app.pool_specs import PoolSpecs
from autoscaler.app.pool_telling import PoolTelling
from autoscaler.app.pools import GATHER_S, Pools
from autoscaler.core.pool.ahead import Started
from autoscaler.core.pool.gangs import FRESH_S
from autoscaler.core.pool.intents import CreateHolder, CreateSlot, DeleteSlot, Intent
from autoscaler.core.pool.params import PoolParams
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import (
    AskedOf,
    GangAsk,
    HolderSeen,
    LentSeen,
    ModelDemand,
    NodePoolSeen,
    PodsAsked,
    World,
)
from autoscaler.record.loans import LoanState, LoanTold
from autoscaler.record.pool_status import PoolLine
from autoscaler.runtime.clock import ScaledClock
from autoscaler.settings.warm_pools import WarmPools
from autoscaler.sim.warm.demand import ReplicaDemand
from autoscaler.sim.warm.plant import Plant, PlantTier, Stages
from tests.runtime.fakes import Store

pytestmark = pytest.mark.looptime(noop_cycles=1)

START_S = 1_700_000_000.0
IMAGE = "registry.example.com/vllm:v1"
QUICK = Stages(launch_s=50.0, register_s=5.0, gpu_s=20.0, image_s=15.0, weights_s=10.0, spread=0.05)
NOTHING = ReplicaDemand(("chat",), 60.0, np.zeros((1, 1), dtype=np.int64))


def warm_pool(generation: int = 1, uid: str = "u1", **fields: Any) -> WarmPoolObject:
    spec = {
        "tiers": [{"name": "gpu", "shape": "h100", "nodePoolRef": "gpu"}], "minSlots": 2,
        "models": [{"name": "chat", "image": IMAGE}], **fields,
    }  # fmt: skip
    return WarmPoolObject(Meta("chat", uid=uid, generation=generation), msgspec.Raw(msgspec.json.encode(spec)))


class Seen:
    """A followed cluster whose worlds are a plant's."""

    def __init__(self, clock: ScaledClock) -> None:
        self.clock = clock
        self.plant = Plant((PlantTier("gpu", "h100"),), QUICK, np.random.default_rng(5), now_s=clock.now())
        self.pools: dict[str, WarmPoolObject] = {}
        self.class_value = lambda _: 0
        self.relists = 0
        self.rereads = 0
        self.answered = True
        self.unread: tuple[str, ...] = ()
        self.breaks: set[str] = set()
        self.holders: tuple[HolderSeen, ...] = ()
        self.pods_unread = False

    @property
    def feeds(self) -> "Seen":
        """It is its own informers."""
        return self

    async def wait_synced(self) -> None:
        """At once."""

    async def relist(self) -> None:
        self.relists += 1

    def problems(self) -> tuple[str, ...]:
        return self.unread

    def world(self, params: PoolParams, uid: str, **given: Any) -> World:
        if params.name in self.breaks:
            raise ZeroDivisionError("a bug of ours")
        self.plant.advance(self.clock.now(), NOTHING)
        world = self.plant.world()
        mine = tuple(each for each in world.slots or () if each.name.startswith(f"{params.name}-"))
        launched = sum(each.launched_s is not None for each in world.claims or ())
        told = (NodePoolSeen("gpu", True, used_gpus=launched, used_nodes=launched),)
        slots, holders = (None, ()) if self.pods_unread else (mine, self.holders)
        return replace(world, slots=slots, node_pools=told, holders=holders)

    def left(self, pool: str, _: str) -> Left | None:
        """The slots of a pool that wait for a node: each asks for the one GPU of a node of its own."""
        if self.pods_unread:
            return None
        self.plant.advance(self.clock.now(), NOTHING)
        waits = [each for each in self.plant.world().slots or () if each.name.startswith(f"{pool}-") and not each.node]
        mine = tuple(each for each in self.holders if each.name.startswith(f"{pool}-"))
        return Left((AskedOf("gpu", float(len(waits)), len(waits)),), mine)

    def lasting_taints_of(self, _: str) -> tuple[Taint, ...]:
        return ()

    def reread(self) -> str:
        self.rereads += 1
        return "asked"

    def is_read(self, asked: str) -> bool:
        return self.answered


class Written:
    """A writer that changes the plant; `answers` are what the next intents get instead."""

    def __init__(self, plant: Plant) -> None:
        self.plant = plant
        self.intents: list[Intent] = []
        self.answers: list[Outcome] = []
        self.breaks: set[str] = set()

    async def carry_out(self, intent: Intent, errand: Errand) -> Outcome:
        self.intents.append(intent)
        if self.answers:
            return self.answers.pop(0)
        self.plant.apply([intent])
        return Outcome(Became.DONE)

    async def delete(self, gone: DeleteSlot) -> Outcome:
        self.intents.append(gone)
        if gone.name in self.breaks:
            raise ZeroDivisionError("a bug of ours")
        return self.answers.pop(0) if self.answers else Outcome(Became.DONE)

    @property
    def created(self) -> list[str]:
        return [intent.name for intent in self.intents if isinstance(intent, CreateSlot)]


class Wants:
    """Workloads of the pool's models."""

    def __init__(self) -> None:
        self.replicas: float | None = 0.0

    def of(self, *_: object) -> tuple[ModelDemand, ...]:
        return (ModelDemand("prod/chat", "chat", self.replicas),)

    def priority(self, *_: object) -> int:
        return 0


class Told:
    """Events and statuses that were told."""

    def __init__(self) -> None:
        self.pools = {"chat"}
        self.events: list[tuple[str, str, str]] = []
        self.statuses: list[Mapping[str, Any]] = []
        self.forgotten: list[str] = []

    def note(self, ref: TargetRef, kind_type: str, reason: str, message: str) -> None:
        assert ref.kind == "WarmPool"
        assert ref.name in self.pools
        self.events.append((kind_type, reason, message))

    def put(self, namespace: str, name: str, status: Mapping[str, Any], *, seen: object = None) -> None:
        self.statuses.append(status)

    def forget(self, namespace: str, name: str) -> None:
        self.forgotten.append(name)

    def condition(self, kind: str) -> tuple[str, str]:
        found = next(c for c in self.statuses[-1]["conditions"] if c["type"] == kind)
        return found["status"], found["message"]


class Scene:
    def __init__(self, store: Store | None = None) -> None:
        self.clock = ScaledClock(1.0, START_S)
        self.seen, self.wants, self.told = Seen(self.clock), Wants(), Told()
        self.written = Written(self.seen.plant)
        self.store = store or Store()
        self.leads = PoolLeads(lambda _: Started((61.0,), ()), lambda _: None)
        self.frozen: str | None = None
        self.desk = LoanDesk(is_open=True)
        self.desk.looked_at_all()
        self.desk.holds({}, {})
        self.shown: list[tuple[PoolLine, ...]] = []
        allowed = WarmPools(enabled=True, registries=("registry.example.com",))
        self.telling = PoolTelling(statuses=self.told, events=self.told, objects=self.seen.pools, clock=self.clock)
        self.allowed = allowed
        self.pools = self.anew()

    def anew(self) -> Pools:
        """Pools of a leader that remembers nothing."""
        return Pools(
            cluster=cast("PoolCluster", self.seen), writer=cast("PoolWriter", self.written),
            specs=PoolSpecs({"h100": Shape(sku="h100")}, self.allowed), demands=cast("Demands", self.wants),
            leads=self.leads,
            telling=self.telling, store=self.store, clock=self.clock, guard=Guard(self.clock),
            frozen=lambda: self.frozen, shown=self.shown.append, desk=self.desk,
        )  # fmt: skip

    async def wait(self, seconds: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + seconds)

    @property
    def warm(self) -> int | None:
        found = self.telling.pool("chat")
        return None if found is None else found.warm


@asynccontextmanager
async def keeping(*pools: WarmPoolObject, store: Store | None = None) -> AsyncIterator[Scene]:
    """Pools that are kept for the length of the block."""
    scene = Scene(store)
    scene.seen.pools |= {pool.metadata.name: pool for pool in pools}
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scene.pools.run())
        yield scene
        task.cancel()


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


UNKNOWN = [{"name": "gpu", "shape": "b200", "nodePoolRef": "gpu"}]
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


async def test_a_checkpoint_of_another_kind_is_left_and_said() -> None:
    store = Store()
    store.kept = {"chat": {"version": 99}}
    async with keeping(warm_pool(), store=store) as scene:
        await scene.wait(1.0)
        assert len(scene.written.created) == 2


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
