"""Room that is kept: when it is expected to be whole, and whether it can still become so.

Enters: a room and a gang that waits, or its reservation. Leaves: expected starts and verdicts on reservations; nothing
is changed. What gangs hold on loan is not counted on: it goes back to serving.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from typing import Final

from autoscaler.core.batch.ebb import endings as falls_of
from autoscaler.core.batch.ledger import NO_LOAN, Holding, Reservation
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.running import Running
from autoscaler.core.batch.shares import closing
from autoscaler.core.batch.starts import Ending, Start, arrivals, first_start
from autoscaler.core.batch.waiting import Waiting

FIRST_ENDS: Final = 256
"""Ends that are looked at first; most gangs start long before the last."""

MORE_ENDS: Final = 2048
"""Those looked at where the first are not enough, before all are."""


class Ebbs(Enum):
    """How much counts of what serving is expected to leave."""

    NONE = "none"
    SURE = "sure"
    USUAL = "usual"


NOTHING: Final = Holding((), NO_LOAN)

NEARLY: Final = 1e-6
"""Cores or GiB that rounding may leave."""


def expected_start(
    room: Room,
    waiting: Waiting,
    now_s: float,
    *,
    level: int,
    ebbs: Ebbs,
    in_whole_units: bool = False,
) -> Start | None:
    """When a gang has room if all ends as expected; level 0 takes medians, level 1 ninth deciles.

    With `in_whole_units` a gang of shares has a whole device for each: that can be kept for it. `ebbs` says how much of
    what serving is expected to leave counts.
    """
    kept = room.ledger.reservations.get(waiting.gang.name)
    own = {} if kept is None else kept.held
    wanted = room.ask_in_whole_units(waiting.brand) if in_whole_units else room.ask(waiting.brand)
    ends = expected_ends(room, now_s, level)
    for number in (FIRST_ENDS, MORE_ENDS, len(ends)):
        endings = [*coming(room, ebbs, now_s, level), *_endings(room, heapq.nsmallest(number, ends))]
        if number < len(ends):
            # What is left out ends later than what is in: a start before that is the first start of all.
            last_s = endings[-1].at_s
            endings = [each for each in endings if each.at_s <= last_s]
        start = first_start(room.ledger, room.placer, wanted, endings=endings, now_s=now_s, own=own)
        if start is not None or number >= len(ends):
            return start
    return None


def start_again(room: Room, run: Running, now_s: float) -> Start | None:
    """When a gang that leaves because it lost GPUs has room on what it leaves and on what nobody has; None without any.

    What it lost may be there again before its other pods are gone, and there may be room elsewhere: until they are gone
    it starts nowhere, and who ends before may use either.
    """
    estate, kept = room.ledger.estate, room.ledger.reservations.get(run.name)
    wanted, own = room.ask_in_whole_units(room.waits_as(run)), {} if kept is None else kept.held
    holding = room.ledger.holdings.get(run.name, NOTHING)
    free = sum(own.values()) + sum(max(1, spot.units) for spot in holding.spots)
    if sum(wanted.units.values()) > free + sum(estate.free_units(shape) for shape in wanted.units):
        return None
    gone_s = now_s if run.told_s is None else max(now_s, run.told_s + run.gang.notice_s)
    ends = [
        replace(
            each,
            units=tuple((at, units) for at, units in each.units if estate.nodes[at].usable),
            shares=tuple(share for share in each.shares if estate.nodes[share[0]].usable),
        )
        for each in _endings(room, [(gone_s, run.name)] if holding.spots else [])
    ]
    return first_start(room.ledger, room.placer, wanted, endings=ends, now_s=now_s, own=own, least=len(ends))


def has_room_by(room: Room, waiting: Waiting, deadline_s: float, ends: list[tuple[float, str]], now_s: float) -> bool:
    """Whether a gang is expected to have room by an instant. `ends` are the first expected ends.

    No more than the first ends are looked at: a gang that waits for hundreds of others has no room soon.
    """
    early = ends[: min(FIRST_ENDS, bisect_right(ends, deadline_s, key=lambda each: each[0]))]
    due = [each for each in coming(room, Ebbs.SURE, now_s, 0) if each.at_s <= deadline_s]
    return _has_room(room, waiting, [*due, *_endings(room, early)], now_s)


def comes_by(room: Room, waiting: Waiting, deadline_s: float, now_s: float) -> bool:
    """Whether nodes on their way make room for a gang by an instant, in nine of ten cases and with nobody leaving."""
    due = [each for each in coming(room, Ebbs.NONE, now_s, 1) if each.at_s <= deadline_s]
    return bool(due) and _has_room(room, waiting, due, now_s)


def _has_room(room: Room, waiting: Waiting, endings: list[Ending], now_s: float) -> bool:
    wanted, own = room.ask(waiting.brand), room.ledger.reservations.get(waiting.gang.name)
    held = {} if own is None else own.held
    return first_start(room.ledger, room.placer, wanted, endings=endings, now_s=now_s, own=held) is not None


def coming(room: Room, ebbs: Ebbs, now_s: float, level: int) -> list[Ending]:
    """What comes beside what gangs leave: nodes on their way, and what serving is expected to leave."""
    due = arrivals(room.ledger, level)
    if ebbs is not Ebbs.NONE:
        due += falls_of(room.ledger, room.ebbing, now_s, sure=ebbs is Ebbs.SURE)
    return due


def first_ends(room: Room, now_s: float) -> list[tuple[float, str]]:
    """The first ends by medians, the earliest first: as many as `has_room_by` looks at."""
    return heapq.nsmallest(FIRST_ENDS, expected_ends(room, now_s, level=0))


def expected_ends(room: Room, now_s: float, level: int) -> list[tuple[float, str]]:
    """When each gang that holds GPUs is expected to leave them; who leaves for another leaves nothing to others, nor
    does one that lost GPUs and will wait at its old place."""
    ratios = {queue: room.runs.ratios(queue)[level] for queue in room.tree.leaves.values()}
    return [
        (
            # Nearly all end as expected, and there may be twenty thousand: no call for each.
            at_s
            if run.leaving_s is None and (at_s := run.started_s + run.expected_s * ratios[run.queue]) > now_s
            else run.end_s(ratios[run.queue], now_s)
            if run.told_s is None or run.stays
            else max(now_s, run.told_s + run.gang.notice_s),
            name,
        )
        for name, run in room.runs.all.items()
        if not run.lost and (run.leaves_for is None or run.leaves_for not in room.kept_for)
    ]


def _endings(room: Room, ends: list[tuple[float, str]]) -> Iterator[Ending]:
    for at_s, name in ends:
        holding = room.ledger.holdings[name]
        back = [spot for spot in holding.spots if spot.node not in holding.lent]
        spare = tuple((spot.node, spot.cpu, spot.memory_gib) for spot in back if spot.cpu or spot.memory_gib)
        shares = tuple((spot.node, spot.device, spot.share) for spot in back if spot.share)
        yield Ending(at_s, tuple((spot.node, spot.units) for spot in back), spare, shares)


def units_for_starts(room: Room) -> list[int]:
    """Units by shape that are held for expected starts, and those that serving would lend."""
    out = [0] * len(room.params.shapes)
    for kept in room.ledger.starts.values():
        for node, units in kept.held.items():
            out[int(room.ledger.estate.shape[node])] += units
    if room.bounds:
        for node, units in room.ledger.lendable().items():
            out[int(room.ledger.estate.shape[node])] += units
    return out


def is_there(room: Room, kept: Reservation) -> bool:
    """Whether all that a reservation plans is held, and nobody who leaves has its cores or memory still."""
    return kept.whole and bool(kept.plan) and not _lacking(room, kept)


def _lacking(room: Room, kept: Reservation) -> dict[int, float]:
    """Nodes on which cores or memory for a reservation are not free, with how many."""
    nodes = dict.fromkeys(spot.node for spot in kept.spots if spot.cpu or spot.memory_gib)
    short = {node: -room.ledger.spare_for(kept, node) for node in nodes}
    return {node: lack for node, lack in short.items() if lack > NEARLY}


def is_coming(room: Room, kept: Reservation, now_s: float) -> bool:
    """Whether all that a reservation lacks is held by gangs that leave, and not for too long already.

    Who preempts on the same node and was first is served first, so what is left goes to whom it was left for and no
    third one counts on it.
    """
    if not kept.plan:
        return False
    short = _lacking(room, kept)
    for node, units in kept.plan.items():
        if kept.held.get(node, 0) >= units and node not in short:
            continue
        if not room.ledger.estate.nodes[node].usable:
            return False
        leaving = _leaving(room, node, now_s)
        coming = sum(room.ledger.on_node[node][name] for name in leaving) + closing(room.ledger, node, leaving)
        if coming < room.ledger.promised(node, kept.gang) or (node in short and not leaving):
            return False
    return True


def _leaving(room: Room, node: int, now_s: float) -> list[str]:
    """Gangs that leave a node and are expected to be gone soon."""
    runs, stuck_s = room.runs.all, room.params.stuck_s
    return [name for name in room.ledger.on_node[node] if name in runs and runs[name].is_counted_on(stuck_s, now_s)]
