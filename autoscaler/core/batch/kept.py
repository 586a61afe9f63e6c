"""Room that is kept: when it is expected to be whole, and whether it can still become so.

Enters: a room and a gang that waits, or its reservation. Leaves: expected starts and verdicts on reservations; nothing
is changed. What gangs hold on loan is not counted on: it goes back to serving.
"""

from autoscaler.core.batch.backlog import Waiting
from autoscaler.core.batch.ledger import Kind, Reservation
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.starts import Ending, Start, arrivals, first_start


def expected_start(room: Room, waiting: Waiting, now_s: float, *, level: int) -> Start | None:
    """When a gang has room if all ends as expected; level 0 takes medians, level 1 ninth deciles."""
    kept = room.ledger.reservations.get(waiting.gang.name)
    own = {} if kept is None else kept.held
    wanted = room.ask(waiting.brand)
    return first_start(room.ledger, room.placer, wanted, endings=endings(room, now_s, level), now_s=now_s, own=own)


def endings(room: Room, now_s: float, level: int) -> list[Ending]:
    """When gangs are expected to leave what they hold, and nodes to come."""
    out = arrivals(room.ledger.estate)
    ratios = {queue: room.runs.ratios(queue)[level] for queue in room.tree.leaves.values()}
    for run in room.runs.all.values():
        holding = room.ledger.holdings[run.name]
        if run.leaving_s is None:
            at_s = run.end_s(ratios[run.queue], now_s)
        else:
            at_s = max(now_s, run.leaving_s + run.gang.notice_s)
        units = tuple((spot.node, spot.units) for spot in holding.spots if spot.node not in holding.lent)
        out.append(Ending(at_s, units))
    return out


def units_for_starts(room: Room) -> list[int]:
    """Units by shape that are held for expected starts, and those that serving would lend."""
    out = [0] * len(room.params.shapes)
    for kept in room.ledger.reservations.values():
        if kept.kind is Kind.START:
            for node, units in kept.held.items():
                out[int(room.ledger.estate.shape[node])] += units
    if room.bounds:
        for node, units in room.ledger.lendable().items():
            out[int(room.ledger.estate.shape[node])] += units
    return out


def is_coming(room: Room, kept: Reservation, now_s: float) -> bool:
    """Whether all that a reservation lacks is held by gangs that leave, and not for too long already."""
    if not kept.plan:
        return False
    for node, units in kept.plan.items():
        held = kept.held.get(node, 0)
        if held >= units:
            continue
        if not room.ledger.estate.nodes[node].usable:
            return False
        for name, number in room.ledger.on_node[node].items():
            run = room.runs.all.get(name)
            if run is not None and run.leaving_s is not None and now_s - run.leaving_s <= room.params.stuck_s:
                held += number
        if held < units:
            return False
    return True
