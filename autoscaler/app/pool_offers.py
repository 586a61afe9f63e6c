"""What a look at a pool lets batch work have: idle slots on loan, nodes made for gangs, how requests stand.

Enters: the outcome of a look, what is known of the pool's nodes. Leaves: an offer for the desk. It decides nothing.
"""

from collections.abc import Iterator
from dataclasses import replace

from autoscaler.adapters.kube.batch_nodes import KEEPING_OFF
from autoscaler.adapters.kube.pool_cluster import PoolCluster
from autoscaler.app.loan_desk import LoanDesk, Offer, Terms
from autoscaler.app.pool_leads import PoolLeads
from autoscaler.core.batch.ebb import Fall
from autoscaler.core.pool.ebb import ebbs
from autoscaler.core.pool.params import LoanTerms, PoolParams
from autoscaler.core.pool.reconcile import Reconciled
from autoscaler.core.pool.world import World


class Offers:
    """Makes the offers of one cluster's pools."""

    def __init__(self, cluster: PoolCluster, leads: PoolLeads, desk: LoanDesk) -> None:
        self._cluster, self._leads, self._desk = cluster, leads, desk
        self._ebbs: dict[str, tuple[int | None, tuple[Fall, ...]]] = {}
        """By pool, the minute and the falls that were found in it."""

    def offer(self, params: PoolParams, world: World, result: Reconciled, knew: int) -> Offer | None:
        """What a pool offers to batch work; the one before stands where nodes were not read, but for what it lends, and
        what it said of gangs where its pods were not."""
        before = self._desk.offers.get(params.name)
        if world.nodes is None:
            return None if before is None else replace(before, lending=result.lending, knew=knew)
        starts = [self._leads.next_start(each.workload) for each in world.demand or ()]
        terms = Terms(
            params.slot.resource,
            params.slot.count,
            LoanTerms().reclaim_s if params.loan is None else params.loan.reclaim_s,
            max((start.within_s for start in starts if start is not None), default=0.0),
        )
        nodes = frozenset(node.name for node in world.nodes)
        makes = () if params.observe or params.gangs is None else tuple(self._taken_by_gangs(params))
        takes_s = result.decision.refill_s or params.lead_prior_s
        said = result.gangs if world.slots is not None or before is None else before
        told = said.standings, said.holds
        return Offer(
            terms, nodes, result.lending, knew, makes, takes_s, *told, gives_back=not params.observe,
            falls=self._falls(params, result),
        )  # fmt: skip

    def _falls(self, params: PoolParams, result: Reconciled) -> tuple[Fall, ...]:
        """What is expected to be left of a pool's nodes, found once a minute: before that nothing new was seen."""
        history, now_s = result.state.history, result.decision.now_s
        if not self._desk.is_open:
            return ()
        known = self._ebbs.get(params.name)
        if known is None or known[0] != history.last_bin:
            count = params.slot.count
            falls = tuple(
                Fall(now_s + each.within_s, count * each.usual_slots, count * each.sure_slots)
                for each in ebbs(history, now_s)
            )
            known = self._ebbs[params.name] = history.last_bin, falls
        return known[1]

    def _taken_by_gangs(self, params: PoolParams) -> Iterator[str]:
        """Shapes of tiers whose nodes have no taint that would keep gangs off for good."""
        for tier in params.tiers:
            keeps_off = [t for t in self._cluster.lasting_taints_of(tier.node_pool) if t.key != params.slot.resource]
            if not any(taint.effect in KEEPING_OFF for taint in keeps_off):
                yield tier.shape
