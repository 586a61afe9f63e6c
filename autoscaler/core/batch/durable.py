"""What must outlive a restart, as plain JSON values of bounded size, and back.

Enters: a room. Leaves: what a BatchQueue's status keeps: what was freed for someone, what queues used and how well
their gangs keep to what they say, how often a gang that wants to run was evicted, and the places of gangs that lost
GPUs and leave still, or were let in and not told so yet. Only names are kept, never rows.
Other bookings are not: they are read off the cluster. What is used between the writing and the restart, and who gave
way to whom, is lost.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from autoscaler.core.batch.ledger import Kind, Reservation
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.running import Past

VERSION: Final = 3

MAX_BYTES: Final = 64 * 1024
"""A twentieth of what etcd takes for one object, which holds more than this."""

DECILES: Final = 10
"""Of the ratios of a queue, which keep its median and its ninth decile exactly."""

T = TypeVar("T")
PARTS: Final = ("reservations", "queues", "evictions", "places")
"""The last first to be left out: where a zone fails, places would crowd out what others were stopped for."""


def pack(room: Room, now_s: float, max_bytes: int = MAX_BYTES, *, starting: Iterable[str] = ()) -> dict[str, Any]:
    """As much as fits: reservations, the oldest first; queues, who used most first; gangs, who was evicted most first;
    places, as reservations.

    `starting` are gangs that were let in and whose objects do not say so yet: their places are kept for them.
    `left_out` counts what did not fit. The size is that of `json.dumps` without further arguments.
    """
    kept_for, places = _reservations(room, starting, now_s)
    rows = (kept_for, _queues(room, now_s), _evictions(room), places)
    parts = dict(zip(PARTS, rows, strict=True))
    empty = {"version": VERSION, "at_s": now_s, **{part: [] for part in PARTS}}
    left = max_bytes - len(json.dumps({**empty, "left_out": {part: len(rows) for part, rows in parts.items()}}))
    kept: dict[str, list[Any]] = {part: [] for part in PARTS}
    for part in PARTS:
        for row in parts[part]:
            left -= len(json.dumps(row)) + 2
            if left < 0:
                break
            kept[part].append(row)
    return {**empty, **kept, "left_out": {part: len(parts[part]) - len(kept[part]) for part in PARTS}}


def unpack(room: Room, saved: Mapping[str, Any], now_s: float) -> tuple[str, ...]:
    """Put back what was packed into a fresh room that has seen its nodes. Returns the gangs that had nodes kept, all of
    which are gone.

    Then every gang is submitted or adopted; the first cycle lets go of what is kept for one that was not. Queues that
    are not there any more are passed over. Raises ValueError, and changes nothing, where what was saved is of another
    version or shape.
    """
    if saved.get("version") != VERSION:
        raise ValueError(f"saved batch state: version {saved.get('version')!r}, this build reads {VERSION}")
    reservations = [*_rows(saved, "reservations", _reservation), *_rows(saved, "places", _reservation)]
    queues = _rows(saved, "queues", lambda row: (str(row[0]), Past(_number(row[1]), tuple(_number(r) for r in row[2]))))
    evictions = _rows(saved, "evictions", lambda row: (str(row[0]), int(row[1])))
    at_s = _rows({"at_s": [saved.get("at_s")]}, "at_s", float)[0]
    for name, past in queues:
        if name in room.tree.index:
            room.remember(name, past, min(at_s, now_s), now_s)
    room.evictions.update(evictions)
    dropped = []
    index = room.ledger.estate.index
    for gang, kind, made_s, start_s, plan in sorted(reservations, key=lambda each: (each[2], each[0])):
        here = {index[name, shape]: units for name, shape, units in plan if (name, shape) in index and units > 0}
        if here or kind is Kind.START:  # without a place it tells that a gang that leaves lost GPUs
            room.ledger.reserve(Reservation(gang, kind, here, made_s, start_s))
        if plan and not here:
            dropped.append(gang)
    return tuple(dropped)


def _reservations(room: Room, starting: Iterable[str], now_s: float) -> tuple[list[Any], list[Any]]:
    """What is kept for gangs that wait or start, and for those that lost GPUs and leave still, those without a place
    last."""
    nodes, lost = room.ledger.estate.nodes, room.runs.lost
    rows, places = list[Any](), list[Any]()
    # Nodes that were asked for are read off the pods that hold them.
    kept = [each for each in room.ledger.reservations.values() if each.kind is not Kind.NODES]
    kept += filter(None, (_start(room, name) for name in starting))
    for each in sorted(kept, key=lambda each: (each.made_s, each.gang)):
        plan = [[nodes[at].name, nodes[at].shape, units] for at, units in sorted(each.plan.items())]
        mine = places if each.gang in lost else rows
        mine.append([each.gang, each.kind.name, each.made_s, each.start_s, plan])
    for name in sorted(lost.keys() - room.ledger.reservations.keys()):
        since_s = lost[name].leaving_s
        if not room.is_overdue(lost[name], now_s):
            places.append([name, Kind.START.name, since_s, since_s, []])
    return rows, places


def _start(room: Room, name: str) -> Reservation | None:
    """The places of a gang that is to start, as ones that nobody else may use; None for those that are on loan, which
    serving may want again meanwhile."""
    run, holding = room.runs.all.get(name), room.ledger.holdings.get(name)
    if run is None or run.leaving_s is not None or holding is None or holding.lent:
        return None
    plan = Counter[int]()
    for spot in holding.spots:
        plan[spot.node] += max(1, spot.units)
    return Reservation(name, Kind.PREEMPTION, dict(plan), run.started_s, run.started_s)


def _queues(room: Room, now_s: float) -> list[Any]:
    rows = []
    for name, at in room.tree.index.items():
        past = room.runs.past(at, now_s)
        if past.used_gpu_s > 0 or past.ratios:
            rows.append([name, round(past.used_gpu_s, 1), [round(each, 3) for each in _deciles(past.ratios)]])
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def _deciles(ratios: Iterable[float]) -> list[float]:
    ranked = sorted(ratios)
    if len(ranked) <= DECILES:
        return ranked
    return [ranked[math.ceil(at * len(ranked) / DECILES) - 1] for at in range(1, DECILES + 1)]


def _evictions(room: Room) -> list[Any]:
    return sorted(([name, number] for name, number in room.evictions.items()), key=lambda row: (-row[1], row[0]))


def _rows(saved: Mapping[str, Any], part: str, read: Callable[[Any], T]) -> list[T]:
    try:
        return [read(row) for row in saved[part]]
    except (KeyError, IndexError, OverflowError, TypeError, ValueError) as error:
        raise ValueError(f"saved batch state: {part}: {type(error).__name__}: {error}") from error


def _reservation(row: Any) -> tuple[str, Kind, float, float, list[tuple[str, str, int]]]:
    gang, kind, made_s, start_s, plan = row
    return str(gang), Kind[kind], float(made_s), float(start_s), [(str(n), str(s), int(u)) for n, s, u in plan]


def _number(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{value!r} is no amount")
    return number
