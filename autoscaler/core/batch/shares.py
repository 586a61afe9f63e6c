"""Shares beside those who wait for whole devices: what becomes whole when gangs leave, where no share joins others.

Enters: a ledger. Leaves: devices, or nodes; nothing is changed. What is kept for a gang, and what others leave for it,
is whole devices, for a gang of shares as well: the rest of a device that others are on is kept for nobody.
"""

from collections.abc import Iterable

from autoscaler.core.batch.ledger import Ledger, Reservation


def closing(ledger: Ledger, node: int, gangs: Iterable[str]) -> int:
    """Devices of a node that carry shares, and none once these gangs have left."""
    if ledger.estate.devices is None:
        return 0
    held: list[int] = ledger.estate.devices.held[node].tolist()
    for gang in gangs:
        for spot in ledger.holdings[gang].spots:
            if spot.share and spot.node == node:
                held[spot.device] -= spot.share
    return held.count(0) - (len(held) - ledger.estate.opened(node))


def barred_for(ledger: Ledger, reservation: Reservation) -> list[int]:
    """Nodes on which no more shares join others because this reservation, and no other, lacks units there."""
    held = reservation.held
    lacking = [node for node, units in reservation.plan.items() if units > held.get(node, 0)]
    return [node for node in lacking if not ledger.is_lacking(node, but=reservation)]
