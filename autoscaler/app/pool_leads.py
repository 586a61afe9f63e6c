"""How long the next start of a workload takes, from what its warm pools and the stage clock of pods have measured.

Enters: each look at a pool, what starts of a workload's model took. Leaves: seconds that its decisions begin with until
they have measured starts of their own, word to who passes them on, and a sentence. Only workloads of a warm pool have
one: of others nobody knows which node is ahead. What is not known is left to the policy's guess.
"""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from autoscaler.core.pool.ahead import Ahead, Lead, Seconds, Started, lead_ahead
from autoscaler.core.pool.world import ModelDemand
from autoscaler.core.spread import spread
from autoscaler.record.explain import duration

GRAIN_S: Final = 5.0
"""Leads are rounded up to this, so that not every start that ends is a new policy to decide by."""

LONGEST_S: Final = 7200.0
"""What a policy may say at most."""


@dataclass(frozen=True, slots=True)
class _Here:
    """What one pool has for a workload."""

    warm: bool
    slots_s: Seconds


class PoolLeads:
    """Answers for workloads. `started` gives what starts of a workload's model took, None before one was seen; `moved`
    is told of every workload whose seconds changed."""

    def __init__(self, started: Callable[[str], Started | None], moved: Callable[[str], None]) -> None:
        self._started = started
        self._moved = moved
        self._pools: dict[str, dict[str, _Here]] = {}
        """Pool -> its workloads."""
        self._found: dict[str, tuple[object, Lead | None]] = {}
        """Workload -> what its lead was worked out of, and the lead."""

    def looked(self, pool: str, demand: Collection[ModelDemand] | None, ahead: Ahead | None) -> None:
        """A look at a pool; one that could not read slots or demand leaves what was known."""
        if demand is None or ahead is None:
            return
        here = {
            each.workload: _Here(ahead.warm >= each.slots_per_replica, ahead.slots_s)
            for each in demand
            if not each.uses_claims
        }
        self._take(pool, here)

    def forget(self, pool: str) -> None:
        """A pool is gone."""
        self._take(pool, {})

    def lead_s(self, workload: str) -> float | None:
        """Seconds within which the next start is ready in nine of ten cases; None where it is not known.

        Of the two quantiles the longer: a decision takes one, and late replicas cost more than early ones.
        """
        lead = self._found.get(workload, (None, None))[1]
        return None if lead is None else min(LONGEST_S, max(1, math.ceil(lead.spread.p90_s / GRAIN_S)) * GRAIN_S)

    def words(self, workload: str) -> Iterator[str]:
        """The lead as a sentence that says where it came from; none for a workload without a warm pool."""
        if workload not in self._found:
            return
        pools = ", ".join(sorted(pool for pool, here in self._pools.items() if workload in here))
        warm = any(here[workload].warm for here in self._pools.values() if workload in here)
        ahead = f"with a warm slot of {pools}" if warm else f"without a warm slot of {pools}"
        lead = self._found[workload][1]
        if lead is None:
            yield f"how long the next start takes {ahead} is not known: a part of it was never measured"
            return
        took = f"{duration(lead.spread.p50_s)}, 9 of 10 within {duration(lead.spread.p90_s)}"
        until = "decisions go by it until they have seen starts of their own"
        yield f"the next start takes {took}, {ahead}: {_origin(lead)}; {until}"

    def _take(self, pool: str, here: dict[str, _Here]) -> None:
        before, self._pools[pool] = self._pools.get(pool, {}), here
        if not here:
            del self._pools[pool]
        for workload in before.keys() | here.keys():
            self._settle(workload)

    def _settle(self, workload: str) -> None:
        told_s, there = self.lead_s(workload), [here[workload] for here in self._pools.values() if workload in here]
        if not there:
            self._found.pop(workload, None)
        else:
            started, warm = self._started(workload), any(each.warm for each in there)
            basis = (started, slots_s := _slowest(there), warm)
            if self._found.get(workload, (None,))[0] != basis:
                lead = None if started is None else lead_ahead(started, slots_s, warm=warm)
                self._found[workload] = (basis, lead)
        if self.lead_s(workload) != told_s:
            self._moved(workload)


def _slowest(there: Collection[_Here]) -> Seconds:
    """The slots of the pool that takes longest; nothing while one of the pools has measured none."""
    if not all(each.slots_s for each in there):
        return ()
    return max((each.slots_s for each in there), key=lambda slots_s: spread(slots_s).p90_s)


def _origin(lead: Lead) -> str:
    """What a lead was measured of."""
    if lead.warm:
        return f"{lead.replicas} starts of its model on nodes that were there, their image too"
    if not lead.slots:
        return f"{lead.whole} starts of its model on new nodes"
    apart = f"put together of {lead.slots} starts of slots and {lead.replicas} of its model on nodes that were there"
    return f"{apart}, and no shorter than {lead.whole} on new nodes" if lead.whole else apart
