"""One replica of the controller: what it follows, how it comes to lead, what it does while it leads.

Enters: settings and everything outside. Leaves: a process that follows the cluster at once, decides and acts while it
leads, and ends when it is told to or has lost the lead. It wires rooms that must not know each other, and decides
nothing.
"""

import asyncio
import os
import socket
import uuid
from functools import partial
from typing import Final, NoReturn

import structlog

from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.deletion_cost import DeletionCost
from autoscaler.adapters.kube.events import EventWriter
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.replicas import ClusterScale, News
from autoscaler.adapters.kube.scope import Hooks
from autoscaler.adapters.kube.status import StatusWriter
from autoscaler.adapters.kube.store import Stored
from autoscaler.adapters.prometheus.source import PrometheusSource
from autoscaler.adapters.web.hub import Hub
from autoscaler.adapters.web.live import LiveFacts
from autoscaler.adapters.web.pulse import Pulse
from autoscaler.adapters.web.tls import Greeting
from autoscaler.api.claims import Claim
from autoscaler.api.modes import Mode
from autoscaler.app import parts
from autoscaler.app.batch_side import BatchSide
from autoscaler.app.facts import Facts
from autoscaler.app.foreign import Foreign
from autoscaler.app.guard import Guard
from autoscaler.app.health import GpuVeto
from autoscaler.app.keda_side import KedaSide
from autoscaler.app.known import Known
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.app.outside import Outside
from autoscaler.app.pool_demand import Demands, model_of
from autoscaler.app.pool_leads import NextStart, PoolLeads
from autoscaler.app.pool_side import PoolSide
from autoscaler.app.publishing import Publisher
from autoscaler.app.room import Room
from autoscaler.app.shadowing import Shadowing
from autoscaler.app.signals import Signals
from autoscaler.app.snapshots import Fetched, Kept, left
from autoscaler.app.tasks import before, begin, end
from autoscaler.app.warmups import WarmUps
from autoscaler.app.work import work_of
from autoscaler.app.workloads import Choices, Workloads
from autoscaler.core.scale.sharing import Budgets
from autoscaler.hindsight.estimates import Past
from autoscaler.record.batch_lines import batch_lines
from autoscaler.record.board import Board
from autoscaler.runtime.supervisor import Ports, Runtime
from autoscaler.settings.model import Settings

LOST: Final = 3
"""Exit code of a process that lost the lead."""

LAST_WORDS_S: Final = 1.0
"""For the record of a process that lost the lead; it writes nothing else any more."""

COMPONENT: Final = "headroom"
SHADOW_WAITS_S: Final = 10.0
"""For estimates, which the first decision waits for."""

LOG: Final = structlog.get_logger(COMPONENT)


class Live:
    """One replica of the controller. `run` it once."""

    def __init__(self, settings: Settings, outside: Outside) -> None:
        clock, api = outside.clock, outside.api
        self.hub = Hub()
        self._settings = settings
        self._clock = clock
        self._identity = f"{settings.identity or socket.gethostname()}_{uuid.uuid4().hex[:12]}"
        self._elector = parts.elector(settings, outside, self._identity)
        self._board = Board()
        self._pulse = Pulse(clock)
        self._apis = (outside.api, outside.lease_api)
        self._guard = Guard(clock)
        news = News()
        self._scraper = parts.scraper(settings, clock, news)
        prometheus = outside.prometheus
        self._signals = Signals(
            self._scraper, {name: PrometheusSource(prometheus, name, clock) for name in prometheus.endpoints}
        )
        self._cluster = Cluster(api, clock, parts.scope(settings))
        self._gpus = GpuVeto(settings.gpu_exporter, clock, self._on_gpu, allow_loopback=settings.allow_loopback_targets)
        may_write, remaining_s = self._elector.may_write, self._elector.remaining_s
        cost = DeletionCost(api, partial(work_of, self._scraper.sample), may_write) if settings.deletion_cost else None
        self._scale = ClusterScale(
            api, self._cluster, clock, may_write=may_write, remaining_s=remaining_s, failed=self._gpus.failed, cost=cost
        )
        store = parts.kept(settings, outside, Stored.CHECKPOINTS, may_write)
        driven = Ports(clock, self._signals, self._scale, news, outside.audit, outside.journal, store, outside.fitter)
        budgets = Budgets(settings.budgets.cluster_gpus, settings.budgets.namespaces)
        self._runtime = Runtime(driven, may_write=may_write, budgets=budgets)
        gpu_resources = settings.gpu_resource_names
        choices = Choices(settings.default_mode, gpu_resources, settings.gateways)
        self._workloads = Workloads(
            cluster=self._cluster, driver=self._runtime, pages=self._signals, clock=clock, choices=choices, news=news,
            guard=self._guard, lead=self._next_start,
        )  # fmt: skip
        self._warmups = WarmUps(
            cluster=self._cluster, clock=clock, store=parts.kept(settings, outside, Stored.WARM_UPS, may_write),
            gpu_resources=gpu_resources, claimed=lambda workload: workload in self._workloads.driven,
            model=self._model, sample=self._scraper.sample, leading=may_write,
        )  # fmt: skip
        self._leads = PoolLeads(self._warmups.started, self._workloads.on_lead)
        self._foreign = Foreign(
            gpu_resources=gpu_resources, driven=lambda: self._workloads.driven, tell=self._runtime.foreign,
            clock=clock, slots=settings.warm_pools.namespace,
        )  # fmt: skip
        self._events = EventWriter(api, clock, COMPONENT, self._identity)
        self._statuses = StatusWriter(api, clock, may_write=may_write)
        self._known = Known(
            cluster=self._cluster, workloads=self._workloads, elector=self._elector,
            room=Room(self._cluster, gpu_resources), identity=self._identity,
        )  # fmt: skip
        self._shadowing = Shadowing(
            table=self._runtime.table, store=parts.kept(settings, outside, Stored.SHADOW, may_write, SHADOW_WAITS_S),
            clock=clock, leading=may_write, guard=self._guard,
        )  # fmt: skip
        self._publisher = Publisher(
            board=self._board, hub=self.hub, statuses=self._statuses, events=self._events, knowledge=self._known,
            clock=clock, guard=self._guard, shadowing=self._shadowing,
        )  # fmt: skip
        self.keda = KedaSide(settings, api, self._known, clock, self._guard, cluster=self._cluster, hold=self._on_held)
        lends = settings.warm_pools.enabled and settings.batch.enabled and settings.default_mode is Mode.ACTIVE
        desk = LoanDesk(is_open=lends)
        self._pools = self._pool_side(outside, desk)
        self._batch = self._batch_side(outside, desk)
        self._kept = Kept(self._runtime, clock)
        self._fetched = Fetched(outside.peer, clock, lambda: self._known.leader_address)

    def _pool_side(self, outside: Outside, desk: LoanDesk) -> PoolSide:
        demands = Demands(
            claims=lambda: self._workloads.driven, mode=self._workloads.mode, frame=self._board.frame,
            cluster=self._cluster, room=Room(self._cluster, self._settings.gpu_resource_names),
        )  # fmt: skip
        return PoolSide(
            self._settings, outside, demands=demands, leads=self._leads, events=self._events, guard=self._guard,
            may_write=self._elector.may_write, frozen=lambda: self._cluster.frozen, shown=self.hub.publish_pools,
            desk=desk,
        )  # fmt: skip

    def _batch_side(self, outside: Outside, desk: LoanDesk) -> BatchSide:
        return BatchSide(
            self._settings, outside, serves=self._serves, events=self._events, guard=self._guard,
            may_write=self._elector.may_write, frozen=lambda: self._cluster.frozen,
            shown=lambda told: self.hub.publish_batch(batch_lines(told)), desk=desk,
        )  # fmt: skip

    def _model(self, workload: str) -> str:
        claim = self._workloads.driven.get(workload)
        return "" if claim is None else model_of(self._cluster, claim)

    def _next_start(self, workload: str) -> NextStart | None:
        return self._leads.next_start(workload)

    def _serves(self, pod: str) -> bool:
        return self._cluster.workload_of(pod) in self._workloads.driven

    def facts(self, greeting: Greeting | None) -> LiveFacts:
        """What the HTTP server asks, which greets with `greeting`; None: over plain HTTP."""
        told = Facts(
            settings=self._settings, identity=self._identity, cluster=self._cluster, workloads=self._workloads,
            elector=self._elector, runtime=self._runtime, scraper=self._scraper, signals=self._signals,
            board=self._board, fetched=self._fetched, pulse=self._pulse, apis=self._apis, greeting=greeting,
            keda=self.keda, gpus=self._gpus, warmups=self._warmups, leads=self._leads, clock_off_s=self._clock.off_s,
        )  # fmt: skip
        snapshot = lambda: self._kept.bytes if self._known.leading else None  # noqa: E731 - one expression, named for the call
        return LiveFacts(
            self._clock, self._board, told.process, told.workloads, told.not_ready, snapshot, told.rejected, self._past,
            self._pools.pools, self._batch if self._batch.enabled else None,
        )  # fmt: skip

    def _past(self) -> list[Past]:
        """What shadow mode counted, of every workload that it watches."""
        frames = ((name, self._board.frame(name)) for name in sorted(self._workloads.driven))
        return [
            Past(name, self._shadowing.estimate(name), frame.quality)
            for name, frame in frames
            if frame is not None and frame.shadow is not None
        ]

    async def run(self, stop: asyncio.Event) -> int:
        """Follow, campaign, lead; the exit code once `stop` is set or the lead is lost."""
        workloads = self._workloads
        hooks = Hooks(
            self._on_claim, workloads.on_pods, workloads.on_limits, self._freeze, self._on_pod, self._warmups.on_pull
        )
        async with asyncio.TaskGroup() as group:
            following = begin(
                group,
                cluster=self._cluster.run(hooks),
                workloads=workloads.run(),
                pulse=self._pulse.run(),
                gpus=self._gpus.run(),
                warmups=self._warmups.run(),
                foreign=self._foreign.run(),
                **self.keda.works(),
                **self._pools.follows(),
                **self._batch.follows(),
            )
            if self._settings.scrape.follower_scrapes:
                following += begin(group, scraper=self._scraper.run())
            await self._campaign(group, stop)
            end(following)
        return 0

    async def _campaign(self, group: asyncio.TaskGroup, stop: asyncio.Event) -> None:
        LOG.info("waiting for the lead", lease=self._settings.lease.name, identity=self._identity)
        fetching = begin(group, snapshot=self._fetched.run())
        won = await before(stop, self._elector.campaign())
        end(fetching)
        if not won:
            await self._elector.release()  # a claim on its way may have been taken
            return
        LOG.info("leading", term=self._elector.term)
        holding = group.create_task(self._elector.hold(), name="lease")
        leading = group.create_task(self._lead(stop), name="lead")
        await asyncio.wait({holding, leading}, return_when=asyncio.FIRST_COMPLETED)
        if not leading.done():
            await self._give_up(stop, leading)
        await self.keda.hand_over()
        holding.cancel()
        released = await self._elector.release()
        LOG.info("stopped", released=released)

    async def _lead(self, stop: asyncio.Event) -> None:
        """Decide and act until `stop`. What was followed before may be behind what the last leader wrote: list anew."""
        self._runtime.restore_from(self._fetched.checkpoints)
        async with asyncio.TaskGroup() as group:
            with self._runtime.recorder.feed() as feed, self._runtime.recorder.feed() as steps:
                telling = begin(group, events=self._events.run(), status=self._statuses.run(), kept=self._kept.run())
                if not self._settings.scrape.follower_scrapes:
                    telling += begin(group, scraper=self._scraper.run())
                publishing = group.create_task(self._publisher.run(feed), name="publisher")
                if await before(stop, self._catch_up()):
                    await self._shadowing.restore()
                    telling += begin(
                        group, keda=self.keda.lead(steps), shadow=self._shadowing.run(), **self._pools.leads(),
                        **self._batch.leads(),
                    )  # fmt: skip
                    await self._runtime.run(stop)
                    await self._warmups.keep()
                    await self._pools.keep()
                    await publishing
                    await self._shadowing.keep()
                publishing.cancel()
                end(telling)

    async def _catch_up(self) -> None:
        await self._cluster.wait_synced()
        await self._cluster.relist()
        before = await self._runtime.recalled()
        LOG.info("beginning to lead", left=left(len(before), self._settings.lease.name))
        self._cluster.settle(before)
        if self._cluster.intake.keeps:
            LOG.warning("places are kept for workloads that cannot be read yet", workloads=self._cluster.intake.keeps)
        self._freeze()
        self._publisher.begin(sorted(self._cluster.workloads))

    async def _give_up(self, stop: asyncio.Event, leading: asyncio.Task[None]) -> NoReturn:
        """End at once: another may lead already, and cancelling tasks stops neither threads nor children."""
        LOG.error("the lead is lost", why=str(self._elector.error or "another process holds the lease"))
        stop.set()
        await asyncio.wait({leading}, timeout=LAST_WORDS_S)
        os._exit(LOST)

    def _on_claim(self, workload: str) -> None:
        if self._cluster.resolution(workload).claim is None:
            self._scale.forget(workload)
        self._workloads.on_claim(workload)
        self._guard.run(workload, partial(self._publisher.on_claim, workload))
        self._guard.run(workload, partial(self.keda.answers.on_claim, workload))

    def _on_pod(self, change: Change[Pod]) -> None:
        for hear in (self._warmups.on_pod, self._workloads.on_gateway, self._gpus.on_pod, self._foreign.on_pod):
            self._guard.run(change.key, partial(hear, change))

    def _on_held(self, claim: Claim, words: str) -> None:
        self._events.note(claim.ref, "Warning", "HpaHolds", words)

    def _on_gpu(self, pod: str) -> None:
        LOG.warning("a GPU has failed", pod=pod, health=str(self._gpus.failure(pod)))
        workload = self._cluster.workload_of(pod)
        if workload is not None:
            self._workloads.on_pods(workload)

    def _freeze(self) -> None:
        why = self._cluster.frozen
        self._runtime.freeze(why is not None, why or "")
        self._pools.changed()
        self._batch.changed()
