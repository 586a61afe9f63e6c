"""Keeps warm pools while this replica leads: looks, decides, carries out, remembers.

Enters: a followed cluster, what workloads want. Leaves: writes by way of the writer, a status per pool. Each pool is
looked at when something about it changed and every few seconds besides. What one look ordered is carried out before the
next; a pool of which a write's outcome is unknown is not looked at until the cluster was read again. What is wrong with
one pool stops no other.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import structlog

from autoscaler.adapters.kube.pool_cluster import PoolCluster
from autoscaler.adapters.kube.pool_feeds import Reread
from autoscaler.adapters.kube.pool_writer import Became, PoolWriter
from autoscaler.app.guard import Guard
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.app.pool_acts import carried_out, counted
from autoscaler.app.pool_demand import Demands
from autoscaler.app.pool_leads import PoolLeads
from autoscaler.app.pool_memory import PoolMemory
from autoscaler.app.pool_offers import Offers
from autoscaler.app.pool_specs import Compiled, Faulty, PoolSpecs
from autoscaler.app.pool_telling import Around, PoolTelling
from autoscaler.app.pools_left import PoolsLeft
from autoscaler.app.stores import KEEP_EVERY_S
from autoscaler.core.pool.limits import asked
from autoscaler.core.pool.pending import without_unsent
from autoscaler.core.pool.reconcile import Reconciled, reconcile
from autoscaler.core.pool.state import PoolState
from autoscaler.core.pool.view import look
from autoscaler.core.pool.world import AskedOf, World
from autoscaler.ports import Clock, StateStore
from autoscaler.record.pool_status import PoolCounts, PoolLine, pool_line
from autoscaler.runtime.clock import breathe

EVERY_S: Final = 5.0
"""Between two looks at a pool about which nothing was heard: deadlines pass and demand changes all the same."""

GATHER_S: Final = 0.2
"""Changes are gathered for this long: a burst of a hundred pods is one look."""

CALM: Final = 10.0
"""The event loop is left to others for so many times what a round of looks took: some 50 ms at 5,000 slots."""

LOG: Final = structlog.get_logger("headroom")


@dataclass(slots=True)
class _Kept:
    """What is held of one pool between two looks."""

    uid: str
    state: PoolState = field(default_factory=PoolState)
    counts: PoolCounts = field(default_factory=PoolCounts)
    looked_s: float | None = None
    doubt: Reread | None = None
    """A reading that has to be complete before the next look."""


class Pools:
    """All warm pools of a cluster. `run` while leading; `changed` may be called at any time."""

    def __init__(
        self,
        *,
        cluster: PoolCluster,
        writer: PoolWriter,
        specs: PoolSpecs,
        demands: Demands,
        leads: PoolLeads,
        telling: PoolTelling,
        store: StateStore,
        clock: Clock,
        guard: Guard,
        frozen: Callable[[], str | None],
        shown: Callable[[tuple[PoolLine, ...]], None],
        desk: LoanDesk | None = None,
    ) -> None:
        self._cluster = cluster
        self._writer = writer
        self._specs = specs
        self._demands = demands
        self._leads = leads
        self._telling = telling
        self._clock = clock
        self._guard = guard
        self._frozen = frozen
        self._shown = shown
        self._desk = desk or LoanDesk(is_open=False)
        self._offers = Offers(cluster, leads, self._desk)
        self._left = PoolsLeft(cluster, writer, self._desk, clock, frozen)
        self._bell = asyncio.Event()
        self._spent_s = 0.0
        """What the deciding of one round took."""
        self._kept: dict[str, _Kept] = {}
        self._asked: dict[str, tuple[AskedOf, ...]] = {}
        """By pool, what it asks of NodePools and has no node yet; other pools of these count it."""
        self._memory = PoolMemory(store)
        self._unread = False
        """Whether it was said that WarmPools cannot be read."""

    def changed(self) -> None:
        """Something was heard that may concern a pool."""
        self._bell.set()

    async def run(self) -> None:
        """Keep the pools until cancelled. What was followed before may be older than the last leader's writes."""
        await self._cluster.feeds.wait_synced()
        await self._cluster.feeds.relist()
        await self._memory.restore()
        kept_s = self._clock.monotonic()
        while True:
            self._bell.clear()
            self._spent_s = 0.0
            await self._look_at_all()
            if self._clock.monotonic() >= kept_s + KEEP_EVERY_S:
                await self.keep()
                kept_s = self._clock.monotonic()
            await self._clock.sleep_until(self._clock.monotonic() + max(GATHER_S, CALM * self._spent_s))
            await self._clock.sleep_until(self._clock.monotonic() + EVERY_S, self._bell)

    async def keep(self) -> None:
        """Save what the pools have learnt, as far as the store lets this replica; what was learnt of a pool that could
        not be read since the start stays as it was."""
        await self._memory.keep({name: kept.state for name, kept in self._kept.items()}, self._cluster.pools)

    async def _look_at_all(self) -> None:
        found = dict(self._cluster.pools)
        for name in [name for name in {**self._kept, **self._asked} if name not in found]:
            self._kept.pop(name, None)
            self._asked.pop(name, None)
            self._specs.forget(name)
            self._telling.forget(name)
            self._leads.forget(name)
            self._desk.looked(name, None)
        specs = {name: self._specs.of(name, pool, self._clock.now()) for name, pool in sorted(found.items())}
        for name, compiled in specs.items():
            if isinstance(compiled, Faulty):
                self._guard.run(f"WarmPool {name}", partial(self._meet_faulty, name, compiled))
            else:
                self._guard.run(f"WarmPool {name}", partial(self._meet, name, compiled))
        for name, compiled in specs.items():
            if isinstance(compiled, Faulty):
                self._leads.forget(name)
                self._guard.run(f"WarmPool {name}", partial(self._telling.fault, name, found[name], compiled))
                await self._guard.wait(f"WarmPool {name}", self._left.leave(name))
            else:
                await self._look(name, compiled)
            await breathe(self._clock)
        if self._cluster.pools_read:
            self._desk.looked_at_all(found)
        elif not self._unread:
            self._unread, why = True, "; ".join(self._cluster.feeds.problems())
            LOG.warning("WarmPools cannot be read: none is kept, and what they lent stays lent until they can", why=why)
        self._shown(tuple(pool_line(pool) for pool in self._telling.pools))

    def _meet(self, name: str, compiled: Compiled) -> None:
        """Before a pool is looked at first, what it asked for earlier is known to all that share its NodePools."""
        kept = self._kept.get(name)
        if kept is None or kept.uid != compiled.uid:
            now_s, params = self._clock.now(), compiled.params
            kept = self._kept[name] = _Kept(compiled.uid, self._memory.of(name, now_s))
            world = self._world(compiled, now_s)
            if world.slots is not None and world.nodes is not None:
                self._asked[name] = asked(look(params, world, now_s), kept.state)

    def _meet_faulty(self, name: str, faulty: Faulty) -> None:
        """Of a pool that cannot be used its pods say the same; what was known stands where they were not read."""
        told = self._left.meet(name, faulty.uid)
        if told is not None:
            self._asked[name] = told

    async def _look(self, name: str, compiled: Compiled) -> None:
        kept = self._kept.get(name)
        if kept is None or (kept.doubt is not None and not self._cluster.feeds.is_read(kept.doubt)):
            return
        kept.doubt, before = None, kept.state
        outcome: list[Reconciled] = []
        if not self._guard.run(f"WarmPool {name}", partial(self._decide, compiled, kept, outcome)):
            return
        done = await carried_out(self._writer, outcome[0].intents, compiled)
        if any(each.outcome.became is Became.UNKNOWN for each in done):
            kept.doubt = self._cluster.feeds.reread()
        unsent = [each.intent for each in done if not each.outcome.sent] + list(outcome[0].intents[len(done) :])
        kept.state = without_unsent(kept.state, before, unsent) if unsent else kept.state
        kept.counts = counted(kept.counts, done)
        tell = partial(self._telling.looked, compiled, outcome[0], kept.counts, done, self._around(name))
        self._guard.run(f"WarmPool {name}", tell)

    def _around(self, name: str) -> Around:
        return Around(self._frozen(), self._cluster.feeds.problems(), self._desk.loans_of(name))

    def _decide(self, compiled: Compiled, kept: _Kept, outcome: list[Reconciled]) -> None:
        now_s, begun_s = self._clock.now(), self._clock.monotonic()
        params, knew = compiled.params, self._desk.lent_version
        if self._frozen() is not None:
            params = replace(params, observe=True)
        world = replace(
            self._world(compiled, now_s),
            lent=self._desk.lent_of(params.name, now_s),
            asks=self._desk.asks_of(params.name),
            asks_age_s=self._desk.asks_age_s(now_s),
            beside=tuple(each for other, mine in self._asked.items() if other != params.name for each in mine),
        )
        result = reconcile(params, world, kept.state, now_s)
        self._leads.looked(params.name, world.demand, result.ahead)
        if self._desk.is_open:
            self._desk.looked(params.name, self._offers.offer(compiled.params, world, result, knew))
        if kept.looked_s is not None:
            idle_s = result.decision.warm * max(0.0, now_s - kept.looked_s)
            kept.counts = replace(kept.counts, idle_warm_s=kept.counts.idle_warm_s + idle_s)
        kept.state, kept.looked_s = result.state, now_s
        if result.asked is not None:
            self._asked[params.name] = result.asked
        outcome.append(result)
        self._spent_s += self._clock.monotonic() - begun_s

    def _world(self, compiled: Compiled, now_s: float) -> World:
        """What is known of a pool's own cluster."""
        params = compiled.params
        return self._cluster.world(
            params,
            compiled.uid,
            demand=self._demands.of(params.models, params.slot, self._cluster.preempts),
            serving_priority=self._demands.priority(params.models, self._cluster.class_value),
            now_s=now_s,
        )
