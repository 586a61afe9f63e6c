"""Warm pools that cannot be used as they stand: what they asked for counts for others still, and gangs are let go.

Enters: the pods of such a pool, which gangs ask for nodes. Leaves: word to batch admission that the pool makes nothing
for gangs; deletions of places that no gang asks for any more. Slots and what is lent stay as they are: the spec that
says what is wanted of them cannot be read.
"""

from collections.abc import Callable
from typing import Final

import structlog

from autoscaler.adapters.kube.pool_cluster import PoolCluster
from autoscaler.adapters.kube.pool_left import Left
from autoscaler.adapters.kube.pool_writer import Became, PoolWriter
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.core.pool.gangs import unwanted
from autoscaler.core.pool.world import AskedOf
from autoscaler.ports import Clock

MOST: Final = 32
"""Places that one look gives back of one pool; the next one goes on."""

LOG: Final = structlog.get_logger("headroom")


class PoolsLeft:
    """Such pools of one cluster."""

    def __init__(
        self, cluster: PoolCluster, writer: PoolWriter, desk: LoanDesk, clock: Clock, frozen: Callable[[], str | None]
    ) -> None:
        self._cluster, self._writer, self._desk, self._clock = cluster, writer, desk, clock
        self._frozen = frozen
        self._left: dict[str, Left | None] = {}

    def meet(self, pool: str, uid: str) -> tuple[AskedOf, ...] | None:
        """What a pool asks of NodePools and has no node yet; None where its pods were not read."""
        self._left[pool] = left = self._cluster.left(pool, uid)
        return None if left is None else left.asked

    async def leave(self, pool: str) -> None:
        """Tell whoever asked it to ask elsewhere; give back what no gang asks for. After `meet`."""
        left = self._left.pop(pool, None)
        if left is None:
            self._desk.looked_in_vain(pool, None)
            return
        self._desk.looked_in_vain(pool, frozenset(e.gang_uid for e in left.holders if not (e.over or e.deleting)))
        if self._frozen() is not None:
            return
        age_s = self._desk.asks_age_s(self._clock.now())
        for gone in list(unwanted(left.holders, self._desk.asks_of(pool), age_s))[:MOST]:
            done = await self._writer.delete(gone)
            if done.became is not Became.DONE:
                LOG.warning("a place for a gang is not given back", pool=pool, pod=gone.name, why=done.words)
            if done.became is Became.UNKNOWN:
                break  # who does not answer now would keep the looks at all other pools waiting, ten seconds a pod
