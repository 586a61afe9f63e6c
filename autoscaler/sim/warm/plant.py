"""A plant of nodes and warm slots: what a cluster with Karpenter would show of them, second by second.

Enters: demand, how long stages take, faults, and a policy's intents. Leaves: the world as an adapter would show it, and
counts for the score. One node holds one replica or one slot. A replica that is wanted takes a warm slot, else a free
node, else the slot that is furthest on its way, else a node of its own; the first two start warm. A node that is free
for longer than `empty_s` goes. All randomness is drawn from the generator.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from autoscaler.core.pool.intents import CreateSlot, DeleteClaim, DeleteSlot, Intent
from autoscaler.core.pool.params import CapacityType, Domain
from autoscaler.core.pool.world import ClaimSeen, ModelDemand, NodePoolSeen, NodeSeen, Sign, SlotSeen, Trouble, World
from autoscaler.sim.warm.demand import Wanted
from autoscaler.sim.warm.plant_parts import Counts, Node, PlantTier, Slot, Stages, Taken


@dataclass(slots=True)
class Plant:
    """The plant at `now_s`; `advance` moves it on and `apply` carries out intents."""

    tiers: tuple[PlantTier, ...]
    stages: Stages
    rng: np.random.Generator
    empty_s: float = 900.0
    now_s: float = 0.0
    slots: dict[str, Slot] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    replicas: dict[str, list[Node]] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)
    """What new replicas got, oldest first."""
    troubles: list[Trouble] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    wanted: dict[str, int] = field(default_factory=dict)
    serial: int = 0
    cold_rng: np.random.Generator = field(init=False)
    """Of nodes that are launched for replicas, so that slots are drawn alike whatever misses them."""

    def __post_init__(self) -> None:
        self.cold_rng = self.rng.spawn(1)[0]

    def start_with(self, demand: Wanted) -> None:
        """Let the first replicas run already, on nodes of the first tier."""
        for model, count in zip(demand.models, demand.at(self.now_s).tolist(), strict=True):
            self.wanted[model] = count
            self.replicas[model] = [self._own_node(model, np.zeros(5)) for _ in range(count)]

    def advance(self, now_s: float, demand: Wanted) -> None:
        """Let time pass, then let demand take and give back nodes."""
        passed_s, self.now_s = now_s - self.now_s, now_s
        for slot in list(self.slots.values()):
            self._progress(slot)
        self._count(passed_s)
        for model, count in zip(demand.models, demand.at(now_s).tolist(), strict=True):
            running = self.replicas.setdefault(model, [])
            while len(running) < count:
                running.append(self._taken(model))
            while len(running) > count:
                node = running.pop()
                node.holds, node.free_since_s = None, now_s
                node.has_content = node.has_content and now_s >= node.content_s
            self.wanted[model] = count
        for name, node in list(self.nodes.items()):
            if node.holds is None and now_s - node.free_since_s >= self.empty_s:
                del self.nodes[name]
        self.troubles = [trouble for trouble in self.troubles if now_s - trouble.at_s < 900.0]

    def apply(self, intents: Iterable[Intent]) -> None:
        """Carry out creations and deletions; marks and patches mean nothing here."""
        for intent in intents:
            if isinstance(intent, CreateSlot) and intent.name not in self.slots:
                self.serial += 1
                took_s = self.stages.draw(self.rng)
                self.slots[intent.name] = Slot(intent.name, f"u{self.serial}", intent, self.now_s, took_s)
                self.counts.creates += 1
                self.counts.create_times_s.append(self.now_s)
            elif isinstance(intent, DeleteSlot):
                self.counts.deletes += self._drop(intent.name)
            elif isinstance(intent, DeleteClaim):
                node = self.nodes.pop(intent.name, None)
                if node is not None and node.holds is not None:
                    self._drop(node.holds)

    def interrupt(self, share: float) -> None:
        """Let the provider take this share of the spot nodes that hold slots, at once."""
        spot = [s for s in self.slots.values() if s.node is not None and s.node.tier.capacity_type is CapacityType.SPOT]
        for slot in spot[: round(share * len(spot))]:
            assert slot.node is not None
            self.nodes.pop(slot.node.name, None)
            del self.slots[slot.name]

    def _progress(self, slot: Slot) -> None:
        if slot.failed is None and self.now_s - slot.created_s >= slot.order.life_s:
            slot.failed = "DeadlineExceeded"
            if slot.node is not None:
                slot.node.holds, slot.node.free_since_s = None, self.now_s
                slot.node = None
        if slot.failed is not None:
            return
        if slot.node is None:
            self._place(slot)
        node = slot.node
        if node is None or not node.tier.gpu_comes or self.now_s < node.gpu_s:
            return
        if slot.bound_s is None:
            slot.bound_s = max(slot.created_s, node.gpu_s)
            first, second = (self.stages.again_s, 0.0) if node.has_content else slot.took_s[3:]
            slot.images_s = slot.bound_s + float(first)
            slot.warm_s = slot.images_s + float(second)
        if slot.warm_s is not None and self.now_s >= slot.warm_s:
            node.has_content = True

    def _place(self, slot: Slot) -> None:
        """Put a slot onto a free node of its tier, or launch one where there is capacity."""
        tier = next(tier for tier in self.tiers if tier.name == slot.order.tier)
        for node in self.nodes.values():
            if node.holds is None and node.tier is tier and self.now_s >= node.gpu_s and tier.gpu_comes:
                node.holds, slot.node = slot.name, node
                return
        if self.now_s < slot.retry_s:
            return
        domain = Domain(tier.sku, tier.zone, tier.capacity_type)
        if any(begin_s <= self.now_s < end_s for begin_s, end_s in tier.out_s):
            self.serial += 1
            self.troubles.append(Trouble(Sign.INSUFFICIENT, f"c{self.serial}", self.now_s, domain))
            slot.retry_s = self.now_s + 60.0
            return
        slot.node = self._launched(tier, slot.took_s, slot.name)

    def _launched(self, tier: PlantTier, took_s: np.ndarray, holder: str) -> Node:
        self.serial += 1
        launched_s, registered_s, gpu_s = (self.now_s + np.cumsum(took_s)[:3]).tolist()
        node = Node(f"n{self.serial}", tier, self.now_s, launched_s, registered_s, gpu_s, holder)
        self.nodes[node.name] = node
        return node

    def _own_node(self, model: str, took_s: np.ndarray) -> Node:
        node = self._launched(self.tiers[0], took_s, f"replica of {model}")
        node.has_content, node.content_s = True, self.now_s + float(took_s.sum())
        return node

    def _taken(self, model: str) -> Node:
        """The node a new replica of the model gets; a warm one is a hit."""
        on_node = [slot for slot in self.slots.values() if slot.node is not None and slot.bound_s is not None]
        warm = [slot for slot in on_node if slot.warm_s is not None and slot.warm_s <= self.now_s]
        if warm:
            self.counts.hits += 1
            self.taken.append(Taken(0.0, own=False))
            return self._preempted(min(warm, key=lambda slot: slot.warm_s or 0.0), model)
        for node in self.nodes.values():
            if node.holds is None and node.has_content and self.now_s >= node.gpu_s:
                self.counts.hits += 1
                self.taken.append(Taken(0.0, own=False))
                node.holds = f"replica of {model}"
                return node
        self.counts.misses += 1
        if on_node:
            furthest = min(on_node, key=lambda slot: slot.warm_s or 0.0)
            self.taken.append(Taken((furthest.warm_s or self.now_s) - self.now_s, own=False))
            return self._preempted(furthest, model)
        took_s = self.stages.draw(self.cold_rng)
        self.taken.append(Taken(float(took_s.sum()), own=True))
        return self._own_node(model, took_s)

    def _preempted(self, slot: Slot, model: str) -> Node:
        del self.slots[slot.name]
        assert slot.node is not None
        slot.node.holds, slot.node.has_content = f"replica of {model}", True
        slot.node.content_s = slot.warm_s or self.now_s
        return slot.node

    def _drop(self, name: str) -> bool:
        slot = self.slots.pop(name, None)
        if slot is not None and slot.node is not None:
            slot.node.holds, slot.node.free_since_s = None, self.now_s
        return slot is not None

    def _count(self, passed_s: float) -> None:
        for slot in self.slots.values():
            if slot.failed is None:
                is_warm = slot.warm_s is not None and slot.warm_s <= self.now_s
                self.counts.idle_warm_s += passed_s * is_warm
                self.counts.starting_s += passed_s * (not is_warm)
        self.counts.free_node_s += passed_s * sum(node.holds is None for node in self.nodes.values())

    def world(self) -> World:
        """What an adapter would show now."""
        used = {tier.name: 0 for tier in self.tiers}
        for node in self.nodes.values():
            used[node.tier.name] += 1
        models = [ModelDemand(f"serving/{model}", model, float(count)) for model, count in sorted(self.wanted.items())]
        return World(
            slots=tuple(self._slot_seen(slot) for slot in self.slots.values()),
            nodes=tuple(self._node_seen(node) for node in self.nodes.values() if node.registered_s <= self.now_s),
            claims=tuple(self._claim_seen(node) for node in self.nodes.values()),
            node_pools=tuple(NodePoolSeen(name, True, used_gpus=n, used_nodes=n) for name, n in used.items()),
            demand=tuple(models),
            troubles=tuple(self.troubles),
        )

    def _past(self, at_s: float | None) -> float | None:
        return at_s if at_s is not None and at_s <= self.now_s else None

    def _slot_seen(self, slot: Slot) -> SlotSeen:
        bound = slot.bound_s is not None
        return SlotSeen(
            name=slot.name,
            uid=slot.uid,
            tier=slot.order.tier,
            created_s=slot.created_s,
            content=slot.order.content,
            zone=slot.order.zone,
            node=slot.node.name if slot.node is not None and bound else None,
            claim=slot.node.name if slot.node is not None and not bound else None,
            scheduled_s=slot.bound_s,
            images_s=self._past(slot.images_s),
            weights_s=self._past(slot.warm_s),
            ready_s=self._past(slot.warm_s),
            deadline_s=slot.created_s + slot.order.life_s,
            failed=slot.failed,
        )

    def _node_seen(self, node: Node) -> NodeSeen:
        has_gpu = node.tier.gpu_comes and node.gpu_s <= self.now_s
        return NodeSeen(
            name=node.name,
            node_pool=node.tier.name,
            sku=node.tier.sku,
            zone=node.tier.zone,
            capacity_type=node.tier.capacity_type,
            created_s=node.registered_s,
            claim=node.name,
            units=1 if has_gpu else None,
            free_units=int(has_gpu and node.holds is None),
            gpu_ready_s=node.gpu_s if has_gpu else None,
            foreign_pods=int(node.holds is not None and node.holds not in self.slots),
        )

    def _claim_seen(self, node: Node) -> ClaimSeen:
        past = self._past
        return ClaimSeen(
            name=node.name,
            uid=node.name,
            node_pool=node.tier.name,
            created_s=node.created_s,
            domain=Domain(node.tier.sku, node.tier.zone, node.tier.capacity_type),
            launched_s=past(node.launched_s),
            registered_s=past(node.registered_s),
            initialized_s=past(node.gpu_s) if node.tier.gpu_comes else None,
            node=node.name if node.registered_s <= self.now_s else None,
            units=1 if node.launched_s <= self.now_s else None,
        )
