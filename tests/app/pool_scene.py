"""Warm pools as a leader keeps them, for tests: a plant of nodes and slots behind fakes of what follows and writes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Literal, cast

import msgspec
import numpy as np

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
from autoscaler.app.pool_leads import PoolLeads
from autoscaler.app.pool_specs import PoolSpecs
from autoscaler.app.pool_telling import PoolTelling
from autoscaler.app.pools import Pools
from autoscaler.core.pool.ahead import Started
from autoscaler.core.pool.intents import CreateSlot, DeleteSlot, Intent
from autoscaler.core.pool.params import PoolParams
from autoscaler.core.pool.world import (
    AskedOf,
    HolderSeen,
    ModelDemand,
    NodePoolSeen,
    World,
)
from autoscaler.record.pool_status import PoolLine
from autoscaler.runtime.clock import ScaledClock
from autoscaler.settings.warm_pools import WarmPools
from autoscaler.sim.warm.demand import ReplicaDemand
from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.plant_parts import PlantTier, Stages
from tests.runtime.fakes import Store

START_S = 1_700_000_000.0
IMAGE = "registry.example.com/vllm:v1"
QUICK = Stages(launch_s=50.0, register_s=5.0, gpu_s=20.0, image_s=15.0, weights_s=10.0, spread=0.05)
NOTHING = ReplicaDemand(("chat",), 60.0, np.zeros((1, 1), dtype=np.int64))
UNKNOWN = [{"name": "gpu", "shape": "b200", "nodePoolRef": "gpu"}]
"""Tiers of a shape that nobody knows: a WarmPool that cannot be used."""


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
        self.preempts = lambda _: True
        self.relists = 0
        self.rereads = 0
        self.answered = True
        self.unread: tuple[str, ...] = ()
        self.breaks: set[str] = set()
        self.holders: tuple[HolderSeen, ...] = ()
        self.pods_unread = False
        self.pools_read = True
        self.ends_s: float | None = None
        """When all nodes that stand end, each with room for seven more; None where they are as the plant has them."""

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
        nodes = world.nodes
        if self.ends_s is not None:
            nodes = tuple(replace(each, units=8, free_units=7, ends_s=self.ends_s) for each in nodes or ())
        return replace(world, slots=slots, nodes=nodes, node_pools=told, holders=holders)

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
        self.takes_s = 0.0
        """How long a write takes."""
        self.before: dict[str, list[Intent]] = {}
        """By slot, what had been carried out when it was begun to be made."""
        self.ended: list[Intent] = []
        self.answers: list[Outcome] = []
        self.breaks: set[str] = set()

    async def carry_out(self, intent: Intent, errand: Errand) -> Outcome:
        self.intents.append(intent)
        if isinstance(intent, CreateSlot):
            self.before.setdefault(intent.name, list(self.ended))
        await asyncio.sleep(self.takes_s)
        self.ended.append(intent)
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

    def note(
        self, ref: TargetRef, kind_type: Literal["Normal", "Warning"], reason: str, message: str, *, aside: bool = False
    ) -> None:
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
