"""The warm pools' side of one replica: what is followed for them, and the task that keeps them while it leads.

Enters: settings, a client, what workloads want. Leaves: tasks, and answers from memory. Without the setting nothing is
followed and nothing is asked of the API server.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from autoscaler.adapters.kube.pool_cluster import PoolCluster, PoolScope
from autoscaler.adapters.kube.pool_slot_pod import Making
from autoscaler.adapters.kube.pool_writer import PoolWriter
from autoscaler.adapters.kube.status import StatusWriter
from autoscaler.adapters.kube.store import Stored
from autoscaler.api.crd import WARM_POOL
from autoscaler.app import parts
from autoscaler.app.guard import Guard
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.app.outside import Outside
from autoscaler.app.pool_demand import Demands
from autoscaler.app.pool_leads import PoolLeads
from autoscaler.app.pool_specs import PoolSpecs
from autoscaler.app.pool_telling import PoolTelling
from autoscaler.app.pools import Pools
from autoscaler.app.publishing import Events
from autoscaler.record.pool_status import PoolLine, PoolStatus
from autoscaler.settings.model import Settings


class PoolSide:
    """Everything of warm pools; `enabled` is the setting."""

    def __init__(
        self,
        settings: Settings,
        outside: Outside,
        *,
        demands: Demands,
        leads: PoolLeads,
        events: Events,
        guard: Guard,
        may_write: Callable[[], bool],
        frozen: Callable[[], str | None],
        shown: Callable[[tuple[PoolLine, ...]], None],
        desk: LoanDesk,
    ) -> None:
        given, api, clock = settings.warm_pools, outside.api, outside.clock
        self.enabled = given.enabled
        scope = PoolScope(given.namespace, given.node_pool_label, given.priority_class)
        self._cluster = PoolCluster(api, clock, scope, self.changed)
        making = Making(
            given.namespace, given.priority_class, given.node_pool_label, given.pause_image, given.fetch_image
        )
        writer = PoolWriter(
            api, clock, making, may_write=may_write, taints_of=self._cluster.taints_of, node_of=self._cluster.node_of
        )
        self._statuses = StatusWriter(api, clock, may_write=may_write, plural=WARM_POOL.plural)
        self._telling = PoolTelling(statuses=self._statuses, events=events, objects=self._cluster.pools, clock=clock)
        self._pools = Pools(
            cluster=self._cluster,
            writer=writer,
            specs=PoolSpecs(settings.shapes, given),
            demands=demands,
            leads=leads,
            telling=self._telling,
            store=parts.kept(settings, outside, Stored.POOLS, may_write),
            clock=clock,
            guard=guard,
            frozen=frozen,
            shown=shown,
            desk=desk,
        )
        desk.ring_pools = self.changed

    def changed(self) -> None:
        """Something that concerns pools changed: they are looked at soon."""
        self._pools.changed()

    def follows(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Tasks of a replica, leading or not."""
        return {"pool_cluster": self._cluster.feeds.run()} if self.enabled else {}

    def leads(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Tasks of the replica that leads."""
        return {"pools": self._pools.run(), "pool_status": self._statuses.run()} if self.enabled else {}

    async def keep(self) -> None:
        """Save what was learnt, at the end of a lead."""
        if self.enabled:
            await self._pools.keep()

    def pools(self) -> tuple[PoolStatus, ...]:
        """The newest status of every pool; none where pools are not kept."""
        return self._telling.pools
