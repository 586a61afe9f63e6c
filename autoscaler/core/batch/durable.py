"""Reservations as plain JSON values of bounded size, and back: what was freed for someone outlives a restart.

Enters: a ledger. Leaves: what a BatchQueue's status keeps. Only names are kept, never rows; a node that is gone is left
out, and a reservation none of whose nodes is there is dropped. Bookings are not kept: they are read off the cluster.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from autoscaler.core.batch.ledger import Kind, Ledger, Reservation

VERSION: Final = 1

MAX_BYTES: Final = 64 * 1024
"""A twentieth of what etcd takes for one object, which holds more than this."""


def pack(ledger: Ledger, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Reservations, oldest first, as many as fit; `left_out` counts the others."""
    nodes = ledger.estate.nodes
    kept: list[list[Any]] = []
    oldest_first = sorted(ledger.reservations.values(), key=lambda each: (each.made_s, each.gang))
    room = max_bytes - len(json.dumps(_envelope([], len(oldest_first))))
    for reservation in oldest_first:
        plan = [[nodes[at].name, nodes[at].shape, units] for at, units in sorted(reservation.plan.items())]
        row = [reservation.gang, reservation.kind.name, reservation.made_s, reservation.start_s, plan]
        room -= len(json.dumps(row)) + 2
        if room < 0:
            break
        kept.append(row)
    return _envelope(kept, len(oldest_first) - len(kept))


def _envelope(kept: list[list[Any]], left_out: int) -> dict[str, Any]:
    return {"version": VERSION, "reservations": kept, "left_out": left_out}


def unpack(ledger: Ledger, saved: Mapping[str, Any]) -> tuple[str, ...]:
    """Put reservations back into a ledger that has seen its nodes. Returns the gangs whose nodes are all gone.

    Then every gang is submitted or adopted; the first cycle lets go of what is kept for one that was not.

    Raises ValueError when what was saved is of another version or shape.
    """
    if saved.get("version") != VERSION:
        raise ValueError(f"reservations: version {saved.get('version')!r}, this build reads {VERSION}")
    try:
        rows = [
            (str(gang), Kind[kind], float(made_s), float(start_s), [(str(n), str(s), int(u)) for n, s, u in plan])
            for gang, kind, made_s, start_s, plan in saved["reservations"]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"reservations: {type(error).__name__}: {error}") from error
    dropped = []
    for gang, kind, made_s, start_s, plan in rows:
        index = ledger.estate.index
        here = {index[name, shape]: units for name, shape, units in plan if (name, shape) in index and units > 0}
        if here:
            ledger.reserve(Reservation(gang, kind, here, made_s, start_s))
        else:
            dropped.append(gang)
    return tuple(dropped)
