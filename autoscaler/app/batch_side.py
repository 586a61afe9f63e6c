"""Batch admission's side of one replica: what is followed for it, and the task that admits while it leads.

Enters: settings, a client, which pods serve. Leaves: tasks, and answers from memory. Without the setting nothing is
followed and nothing is asked of the API server.
"""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from autoscaler.adapters.kube.batch_aliases import Aliases
from autoscaler.adapters.kube.batch_cluster import BatchCluster
from autoscaler.adapters.kube.batch_scope import BatchScope
from autoscaler.adapters.kube.batch_writer import BatchWriter
from autoscaler.api.modes import Mode
from autoscaler.app.batch import Batch
from autoscaler.app.batch_telling import BatchTelling
from autoscaler.app.guard import Guard
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.app.outside import Outside
from autoscaler.app.publishing import Events
from autoscaler.record.batch import BatchTold, GangTold
from autoscaler.settings.model import Settings

SHADOW: Final = "the default mode is {mode}: it is only decided and told"


class BatchSide:
    """Everything of batch admission; `enabled` is the setting."""

    def __init__(
        self,
        settings: Settings,
        outside: Outside,
        *,
        serves: Callable[[str], bool],
        events: Events,
        guard: Guard,
        may_write: Callable[[], bool],
        frozen: Callable[[], str | None],
        shown: Callable[[BatchTold], None],
        desk: LoanDesk,
    ) -> None:
        given, api, clock = settings.batch, outside.api, outside.clock
        self.enabled = given.enabled
        mode = settings.default_mode
        acts = mode is Mode.ACTIVE
        levels = (given.rack_label, given.island_label)
        namespaces = frozenset(settings.watch_namespaces)
        scope = BatchScope(
            settings.shapes,
            levels,
            settings.warm_pools.namespace,
            serves,
            namespaces,
            settings.warm_pools.priority_class,
            settings.limits.batch_work,
            given.serving_priority,
            aliases := Aliases(given.alias_namespaces),
        )
        cluster = BatchCluster(api, clock, scope, self.changed)
        writer = BatchWriter(api, clock, may_write, aliases)
        telling = BatchTelling(
            cluster=cluster, writer=writer, events=events, shown=shown, writes=lambda: acts and frozen() is None
        )
        self._cluster = cluster
        self._batch = Batch(
            cluster=cluster,
            writer=writer,
            shapes=dict(settings.shapes),
            serving_priority=given.serving_priority,
            telling=telling,
            clock=clock,
            guard=guard,
            idle=lambda: None if acts else SHADOW.format(mode=mode.value),
            frozen=frozen,
            desk=desk,
        )
        desk.ring_batch = self.changed

    def changed(self) -> None:
        """Something that concerns batch work changed: it is looked at soon."""
        self._batch.changed()

    def follows(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Tasks of a replica, leading or not."""
        return {"batch_cluster": self._cluster.run()} if self.enabled else {}

    def leads(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Tasks of the replica that leads."""
        return {"batch": self._batch.run()} if self.enabled else {}

    def told(self) -> BatchTold | None:
        """The newest look; None where batch work is not admitted, and before the first."""
        return self._batch.told()

    def find(self, kind: str, namespace: str | None, name: str) -> Sequence[GangTold]:
        """Gangs of this kind and name, in one namespace or in all; whether told of above or not."""
        return self._batch.find(kind, namespace, name)
