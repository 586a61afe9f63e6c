"""How long the next start of a workload takes, from what its warm pools and the stage clock of pods have measured.

Enters: each look at a pool, what starts of a workload's model took. Leaves: seconds that its decisions begin with until
they have measured starts of their own, word to who passes them on, and a sentence. Only workloads of a warm pool have
one: of others nobody knows which node is ahead. What is not known is left to the policy's guess, and starts that are
under way are reckoned with nothing shorter than that: the pool has a slot for the next one, not for each of them.
"""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from autoscaler.core.capacity.leadtime import PRIOR_S
from autoscaler.core.pool.ahead import Ahead, Lead, Seconds, Started, lead_ahead
from autoscaler.core.pool.clock import LEAST_SAMPLES
from autoscaler.core.pool.world import ModelDemand
from autoscaler.core.spread import spread
from autoscaler.record.explain import duration

GRAIN_S: Final = 5.0
"""Leads are rounded up to this, so that not every start that ends is a new policy to decide by."""

FEW: Final = f"with fewer than {LEAST_SAMPLES} starts only where that is longer than the policy's warmupPriorS"
MANY: Final = "while replicas start, by nothing shorter than they were ordered with or than warmupPriorS"

LONGEST_S: Final = 7200.0
"""What a policy may say at most."""


@dataclass(frozen=True, slots=True)
class NextStart:
    """How long the next start of a workload takes."""

    within_s: float
    """In nine of ten cases."""
    few: bool
    """Whether so few starts stand behind it that it makes no guess shorter."""
    cold_s: float | None = field(default=None, compare=False)
    """The same of a start that finds no warm slot; None where that is not known."""


class Priors:
    """What the decisions of workloads reckon a start with, in the place of the policy's guess. `lead` gives what is
    known of a workload's next start.

    Starts that take longer than they were reckoned with are ordered again, and those as well: what is under way is
    never reckoned with less than the policy says, or than it was ordered with. What was under way when this controller
    began was ordered with nobody knows what: with a start that finds no warm slot, at most.
    """

    def __init__(self, lead: Callable[[str], NextStart | None]) -> None:
        self._lead = lead
        self._held_s: dict[str, float] = {}
        """Workload -> the seconds in force, where they are not the policy's."""
        self._ours: set[str] = set()
        """Workloads of which all that is under way was ordered by this process."""

    def settle(self, workload: str, own_s: float | None, starting: Callable[[], bool]) -> float | None:
        """The seconds in force from now on; None where the policy's guess `own_s` is, or the core's without one.

        `starting` says whether replicas of the workload are under way.
        """
        lead, held_s = self._lead(workload), self._held_s.get(workload)
        if lead is None and held_s is None:
            return None
        guess_s = PRIOR_S if own_s is None else own_s
        prior_s = guess_s if lead is None else max(lead.within_s, guess_s) if lead.few else lead.within_s
        least_s = guess_s if held_s is None else max(guess_s, held_s)
        if workload not in self._ours and lead is not None:
            if starting():
                least_s = max(least_s, lead.cold_s or 0.0)
            else:
                self._ours.add(workload)
        if prior_s < least_s and starting():
            prior_s = least_s
        if prior_s == guess_s:
            self._held_s.pop(workload, None)
            return None
        self._held_s[workload] = prior_s
        return prior_s

    def forget(self, workload: str) -> None:
        """A workload is gone."""
        self._held_s.pop(workload, None)
        self._ours.discard(workload)


@dataclass(frozen=True, slots=True)
class _Here:
    """What one pool has for a workload."""

    warm: bool
    slots: int
    """Slots that one replica holds."""
    slots_s: Seconds


@dataclass(frozen=True, slots=True)
class _Found:
    """A lead, and what it was worked out of."""

    started: Started | None
    slots_s: Seconds
    warm: bool
    lead: Lead | None
    cold: Lead | None
    """The lead that it would be without a warm slot."""


class PoolLeads:
    """Answers for workloads. `started` gives what starts of a workload's model took, None before one was seen; `moved`
    is told of every workload whose seconds changed."""

    def __init__(self, started: Callable[[str], Started | None], moved: Callable[[str], None]) -> None:
        self._started = started
        self._moved = moved
        self._pools: dict[str, dict[str, _Here]] = {}
        """Pool -> its workloads."""
        self._found: dict[str, _Found] = {}

    def looked(self, pool: str, demand: Collection[ModelDemand] | None, ahead: Ahead | None) -> None:
        """A look at a pool; one that could not read slots or demand leaves what was known."""
        if demand is None or ahead is None:
            return
        here = {
            each.workload: _Here(ahead.warm >= each.slots_per_replica, each.slots_per_replica, ahead.slots_s)
            for each in demand
            if not each.uses_claims
        }
        self._take(pool, here)

    def forget(self, pool: str) -> None:
        """A pool is gone."""
        self._take(pool, {})

    def next_start(self, workload: str) -> NextStart | None:
        """How long the next start takes; None where it is not known.

        Of the two quantiles the longer: a decision takes one, and late replicas cost more than early ones.
        """
        found = self._found.get(workload)
        if found is None or found.lead is None:
            return None
        cold_s = None if found.cold is None else _within_s(found.cold)
        return NextStart(_within_s(found.lead), found.lead.spread.samples < LEAST_SAMPLES, cold_s)

    def words(self, workload: str) -> Iterator[str]:
        """The lead as a sentence that says where it came from; none for a workload without a warm pool."""
        found = self._found.get(workload)
        if found is None:
            return
        pools = ", ".join(sorted(pool for pool, here in self._pools.items() if workload in here))
        slots = max(here[workload].slots for here in self._pools.values() if workload in here)
        room = f"a warm slot of {pools}" if slots == 1 else f"{slots} warm slots of {pools} on one node"
        ahead = f"with {room}" if found.warm else f"without {room}"
        lead = found.lead
        if lead is None:
            yield f"how long the next start takes {ahead} is not known: {_unknown(found)}"
            return
        took = f"{duration(lead.spread.p50_s)}, 9 of 10 within {duration(lead.spread.p90_s)}"
        until = "decisions go by it until they have seen starts of their own"
        few = lead.spread.samples < LEAST_SAMPLES
        least = FEW if few else MANY
        yield f"the next start takes {took}, {ahead}: {_origin(lead)}; {until}; {least}"

    def _take(self, pool: str, here: dict[str, _Here]) -> None:
        before, self._pools[pool] = self._pools.get(pool, {}), here
        if not here:
            del self._pools[pool]
        for workload in before.keys() | here.keys():
            self._settle(workload)

    def _settle(self, workload: str) -> None:
        told, there = self.next_start(workload), [here[workload] for here in self._pools.values() if workload in here]
        if not there:
            self._found.pop(workload, None)
        else:
            started, warm = self._started(workload), any(each.warm for each in there)
            before, slots_s = self._found.get(workload), _slowest(there)
            if before is None or (before.started, before.slots_s, before.warm) != (started, slots_s, warm):
                cold = None if started is None else lead_ahead(started, slots_s, warm=False)
                lead = cold if started is None or not warm else lead_ahead(started, slots_s, warm=True)
                self._found[workload] = _Found(started, slots_s, warm, lead, cold)
        if self.next_start(workload) != told:
            self._moved(workload)


def _within_s(lead: Lead) -> float:
    """The seconds within which nine of ten such starts end, in whole grains."""
    return min(LONGEST_S, max(1, math.ceil(lead.spread.p90_s / GRAIN_S)) * GRAIN_S)


def _slowest(there: Collection[_Here]) -> Seconds:
    """The slots of the pool that takes longest; nothing while one of the pools has measured none."""
    if not all(each.slots_s for each in there):
        return ()
    return max((each.slots_s for each in there), key=lambda slots_s: spread(slots_s).p90_s)


def _unknown(found: _Found) -> str:
    """Why there is no lead. Which start a workload's is alike is known of its newest ready pod."""
    if found.started is None:
        return "no ready pod of it has been seen yet, and only that tells which starts are like its own"
    return "of a part of it no measured start is known"


def _origin(lead: Lead) -> str:
    """What a lead was measured of."""
    if lead.warm:
        return f"{lead.replicas} starts of its model on nodes that were there, their image too"
    if not lead.slots:
        return f"{lead.whole} starts of its model on new nodes"
    apart = f"put together from {lead.slots} starts of slots and {lead.replicas} of its model on nodes that were there"
    return f"{apart}, and no shorter than {lead.whole} on new nodes" if lead.whole else apart
