"""What of a cluster batch may use.

Enters: a ledger. Leaves: units by shape, cores and memory, those that gangs hold included. What is to come for a gang,
or is lent, is not counted here.
"""

import numpy as np

from autoscaler.core.batch.ledger import Ledger
from autoscaler.core.batch.owners import Owner


def units(ledger: Ledger) -> tuple[list[int], list[int]]:
    """By shape: units that are neither serving's own, standby, foreign nor unavailable, or on their way; and those of
    them that are on loan.
    """
    estate = ledger.estate
    away = ledger.owned[:, (Owner.SERVING, Owner.STANDBY, Owner.FOREIGN)].sum(axis=1)
    coming = np.array([node.due_s is not None for node in estate.nodes], dtype=np.bool_)
    away += np.where(coming, 0, ledger.owned[:, Owner.UNAVAILABLE])
    there, lent = [0] * len(estate.shape_names), [0] * len(estate.shape_names)
    for shape, number in zip(estate.shape.tolist(), (estate.units - away).tolist(), strict=True):
        there[shape] += number
    for holding in ledger.holdings.values():
        for node, number in holding.lent.items():
            lent[int(estate.shape[node])] += number
    return there, lent


def spare(ledger: Ledger) -> tuple[float, float]:
    """Cores and GiB, those that gangs hold included; infinite where a node does not say."""
    held = [(spot.cpu, spot.memory_gib) for holding in ledger.holdings.values() for spot in holding.spots]
    cpu, memory_gib = ledger.estate.spare.sum(axis=0).tolist()
    return cpu + sum(each for each, _ in held), memory_gib + sum(each for _, each in held)
