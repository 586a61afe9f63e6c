"""What serving is expected to leave, as ends like those of gangs.

Enters: by lender, on which nodes its replicas are and by how much their demand is expected to fall. Leaves: units by
node that are expected to be free, each with when. Which replicas go is not known: those of the nodes that have fewest
are taken to, which is where a gang finds whole nodes first. Nothing is promised: serving owes nobody what it is only
expected to leave, so who relied on it once in vain relies on it no more (`promises`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autoscaler.core.batch.ledger import Ledger
from autoscaler.core.batch.owners import Owner
from autoscaler.core.batch.starts import Ending


@dataclass(frozen=True, slots=True)
class Fall:
    """By an instant so many units less are serving's than now, in all."""

    at_s: float
    usual_units: int
    """As often as not."""
    sure_units: int
    """In nine of ten cases."""


@dataclass(frozen=True, slots=True)
class Ebbing:
    """What one lender's replicas are expected to leave."""

    places: frozenset[tuple[str, str]]
    """Nodes and shapes where they are."""
    falls: tuple[Fall, ...]
    """The soonest first, none of them smaller than one before it."""


def endings(ledger: Ledger, ebbing: tuple[Ebbing, ...], now_s: float, *, sure: bool) -> list[Ending]:
    """The ends; of falls that should have come already none, for they have not."""
    if not ebbing:
        return []
    held = _held(ledger)
    return [each for one in ebbing for each in _of_one(ledger, one, held, now_s, sure=sure)]


def _held(ledger: Ledger) -> list[int]:
    """Units by node that pods of serving hold, what it keeps idle left out."""
    idle = np.maximum(0, ledger.warm - ledger.owned[:, Owner.LOAN])
    found: list[int] = np.maximum(0, ledger.owned[:, Owner.SERVING] - idle).tolist()
    return found


def _of_one(ledger: Ledger, one: Ebbing, held: list[int], now_s: float, *, sure: bool) -> Iterator[Ending]:
    nodes, where = ledger.estate.nodes, ledger.estate.where
    mine = [at for at, units in enumerate(held) if units and where[at] in one.places and nodes[at].usable]
    left = [(at, held[at]) for at in sorted(mine, key=lambda at: (-held[at], nodes[at].name))]
    gone = 0
    for fall in one.falls:
        if fall.at_s <= now_s:
            continue
        units, taken = (fall.sure_units if sure else fall.usual_units) - gone, list[tuple[int, int]]()
        while units > 0 and left:
            at, here = left.pop()
            took = min(units, here)
            taken.append((at, took))
            units, gone = units - took, gone + took
            if took < here:
                left.append((at, here - took))
        if taken:
            yield Ending(fall.at_s, tuple(taken), tuple(_spare(ledger, held, at, took) for at, took in taken))


def _spare(ledger: Ledger, held: list[int], at: int, units: int) -> tuple[int, float, float]:
    """Cores and GiB that go with so many units of a node."""
    node, share = ledger.estate.nodes[at], units / held[at]
    return at, share * node.serving_cpu, share * node.serving_memory_gib
