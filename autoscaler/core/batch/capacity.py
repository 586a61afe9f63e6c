"""What of a cluster batch may use.

Enters: a ledger, what is to come for gangs, what serving lends. Leaves: units by shape, cores and memory, those that
gangs hold included.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from autoscaler.core.batch.ledger import Ledger
from autoscaler.core.batch.owners import Owner


def units(
    ledger: Ledger, coming: Iterable[tuple[Mapping[int, int], Iterable[tuple[int, int]]]], bounds: Mapping[int, int]
) -> list[int]:
    """By shape: units that are neither serving's own, standby, foreign nor unavailable, or on their way, or to come for
    a gang, or that serving lends.

    `coming` are, for each gang that nodes were asked for, units by node that are held by now, and units by shape that
    it wants; `bounds` are the units by shape that serving lends at most.
    """
    estate = ledger.estate
    away = ledger.owned[:, (Owner.SERVING, Owner.STANDBY, Owner.FOREIGN)].sum(axis=1)
    due = np.array([node.due_s is not None for node in estate.nodes], dtype=np.bool_)
    away += np.where(due, 0, ledger.owned[:, Owner.UNAVAILABLE])
    there, lent = [0] * len(estate.shape_names), [0] * len(estate.shape_names)
    for shape, number in zip(estate.shape.tolist(), (estate.units - away).tolist(), strict=True):
        there[shape] += number
    for holding in ledger.holdings.values():
        for node, number in holding.lent.items():
            lent[int(estate.shape[node])] += number
    for held, wanted in coming:
        for shape, number in wanted:
            by_now = sum(units for node, units in held.items() if int(estate.shape[node]) == shape)
            there[shape] += max(0, number - by_now)
    for shape, most in bounds.items():
        there[shape] += max(0, most - lent[shape])
    return there


def spare(ledger: Ledger) -> tuple[float, float]:
    """Cores and GiB, those that gangs hold included; infinite where a node does not say."""
    held = [(spot.cpu, spot.memory_gib) for holding in ledger.holdings.values() for spot in holding.spots]
    cpu, memory_gib = ledger.estate.spare.sum(axis=0).tolist()
    return cpu + sum(each for each, _ in held), memory_gib + sum(each for _, each in held)
