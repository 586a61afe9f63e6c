"""Batch work in words: why a gang waits, what would have to change, when it is expected to start; how a queue does.

Enters: what one look says. Leaves: text, the same for the same look. Codes are the names of the core's reasons and of
the reader's; renaming one is a breaking change. A duration is told from the look's own instant.
"""

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from autoscaler.core.batch.reasons import BatchReason
from autoscaler.record.batch import BatchTold, ChangeTold, GangState, GangTold, QueueTold, ShapeTold
from autoscaler.record.explain import clock, duration, number

CHANGES: Final = MappingProxyType(
    {
        "LIMIT": "{units} more units within the limit of queue {where}",
        "QUOTA": "{units} units that others give back, or a higher guarantee of queue {where}",
        "UNLENT": "{units} more units guaranteed to queue {where}, or lent by others: nobody ever lends as many",
        "ROOM": "{units} more free units of {where}",
        "FRAGMENTED": "{units} free units of {where} on one node: there are enough, in pieces too small",
        "CORES": "{units} free units of {where} on nodes with as many free cores and as much memory as it asks for",
        "TOPOLOGY": "one {where} with {units} free units",
        "LEAVING": "{units} more units of {where} than were kept for it, which is as much as the least takes",
        "TOO_LARGE": "usable nodes that hold {units} units of {where} in this form beside serving and others",
    }
)
"""Reason -> what would let a gang start."""

_STATES: Final = MappingProxyType(
    {
        GangState.REFUSED: "refused",
        GangState.WAITING: "waits",
        GangState.STARTING: "starts",
        GangState.RUNNING: "runs",
        GangState.LEAVING: "leaves",
        GangState.FOREIGN: "is managed by somebody else",
    }
)

REMEDY: Final = "Delete what is not needed, or have the administrator raise settings.limits.batch_work"

MOST_NODES: Final = 8
"""Nodes of one gang that are named."""

_BEFORE: Final = frozenset({GangState.REFUSED, GangState.WAITING})


def means(reason: str) -> str:
    """What a code of the core's means; a code of somebody else's is its own meaning."""
    return str(BatchReason[reason].value) if reason in BatchReason.__members__ else reason


def change(one: ChangeTold) -> str:
    """What would let a gang start, as a phrase."""
    form = CHANGES.get(one.reason)
    return means(one.reason) if form is None else form.format(units=number(one.units), where=one.where)


def units(gang: GangTold) -> str:
    """What a gang asks for: "16 h100 in 2 pods"."""
    if gang.reason == BatchReason.UNTAKEN.name:
        return "what is not read yet"
    asked = " + ".join(f"{number(count)} {shape}" for shape, count in gang.units) or "no GPU"
    wider = gang.state in _BEFORE and gang.most_pods is not None and gang.most_pods > gang.pods
    most = f" at least, and {gang.most_pods} pods at most" if wider else ""
    return f"{asked} in {gang.pods} {'pod' if gang.pods == 1 else 'pods'}{most}"


def start(gang: GangTold, now_s: float) -> str:
    """When a gang that waits is expected to start."""
    if gang.start_p50_s is None:
        return "nothing that is known lets it start"
    half, on = duration(max(0.0, gang.start_p50_s - now_s)), f", {_awaits(gang)}" if gang.awaits else ""
    if gang.start_p90_s is None:
        return f"expected to start in {half}{on}"
    most = duration(max(0.0, gang.start_p90_s - now_s))
    return f"expected to start in {half}, in nine of ten cases within {most}{on}"


def ebbs(unebbed_s: float | None, now_s: float) -> str:
    """That a start counts on what serving is expected to leave, and when it is without that."""
    without = "nothing else that is known lets it start"
    if unebbed_s is not None:
        without = f"else it is expected to start in {duration(max(0.0, unebbed_s - now_s))}"
    return f"that counts on GPUs which serving is expected to leave, as it did at this time of other days; {without}"


def sentence(gang: GangTold, now_s: float) -> str:
    """How a gang does, in one sentence."""
    match gang.state:
        case GangState.REFUSED:
            return f"refused: {gang.detail or means(gang.reason)}"
        case GangState.FOREIGN:
            return f"left alone: {gang.detail or 'somebody else manages it'}"
        case GangState.WAITING if gang.detail:
            return f"waits: {gang.detail}"
        case GangState.WAITING:
            place = "" if gang.position is None else f", place {gang.position} in queue {gang.queue}"
            needs = "; ".join(map(change, gang.changes))
            return f"waits{place}: {means(gang.reason)}{f' ({needs})' if needs else ''}; {start(gang, now_s)}"
        case GangState.LEAVING:
            lent = f"; {_loan(gang)}" if gang.lent_units else ""
            return f"leaves: {means(gang.reason)}{f'; {gang.detail}' if gang.detail else ''}{lent}"
        case _:
            since = "" if gang.started_s is None else f" since {duration(max(0.0, now_s - gang.started_s))}"
            verb = "runs" if gang.state is GangState.RUNNING else "starts"
            wide = "" if gang.most_pods is None else f" {gang.pods} of {gang.most_pods} wide"
            more = "" if gang.narrow is None else f"; one more pod would have taken {change(gang.narrow)}"
            lent = f", {_loan(gang)}" if gang.lent_units else ""
            again = f"; it gave way {_times(gang.evictions)} before" if gang.evictions else ""
            return f"{verb}{wide}{since}: {gang.detail or means(gang.reason)}{more}{lent}{again}"


def told_to_leave(since_s: float, notice_s: float, now_s: float) -> str:
    """For how long a gang has been leaving, and how long it says to need."""
    ago = duration(max(0.0, now_s - since_s))
    return f"told {ago} ago, it has {duration(notice_s)} to write its checkpoint and end"


def asks_for_nodes(pool: str, placed: int, pods: int, since_s: float | None, now_s: float) -> str:
    """How far the nodes of a gang are that were asked for."""
    ago = "" if since_s is None else f", asked for {duration(max(0.0, now_s - since_s))} ago"
    return f"WarmPool {pool} has nodes made for it{ago}: places for {placed} of {pods} pods are held"


def keeps_places(pool: str, *, on_nodes: bool) -> str:
    """What becomes of places that a pool holds which makes none more and gives none back."""
    words = f"WarmPool {pool} holds places for it and makes no more of them, see its condition Acting"
    until = "these have ended" if on_nodes else "spec.gangs.timeoutS has passed without one of them on a node"
    return f"{words}; no other one is asked until {until}"


def refused_nodes(pool: str, why: str, until_s: float | None, now_s: float) -> str:
    """Why no nodes are made for a gang that lacks nothing else."""
    again = "" if until_s is None or until_s <= now_s else f"; asked again in {duration(until_s - now_s)}"
    who = f"WarmPool {pool} has no nodes" if pool else "no nodes are"
    return f"{who} made for it: {why}{again}"


def asks_later(until_s: float, now_s: float) -> str:
    """Why no nodes are asked for a gang yet."""
    return f"nodes are asked for again no sooner than in {duration(until_s - now_s)}: an earlier request has ended"


def stuck(namespace: str) -> str:
    """What is to be done about a gang that does not leave."""
    return (
        "nobody counts on what it holds any more: see why its pods stay, by their finalizers and their nodes "
        f"(kubectl -n {namespace} get pods -o wide)"
    )


def untaken(most: int) -> str:
    """Why a gang is not looked at, and what would help."""
    return (
        f"not looked at: {number(most)} gangs are taken in at most, and its queue has more than its part of them; its "
        f"turn comes as others of the queue end. {REMEDY}"
    )


def queue_untaken(queue: QueueTold) -> str:
    """How many of a queue are not looked at, and what would help."""
    return f"{number(queue.untaken)} more are not looked at, for {number(queue.taken_most)} of all are. {REMEDY}"


def gang_page(gang: GangTold, now_s: float) -> str:
    """All that is known of a gang, a line each."""
    return "\n".join(_gang_lines(gang, now_s))


def queue_sentence(queue: QueueTold) -> str:
    """How a queue does, in a sentence: what is wrong with it first."""
    if not queue.served:
        return f"not served: {queue.findings[0][1] if queue.findings else 'it cannot be part of the tree'}"
    held = "served as before its last change; " if queue.held else ""
    more = f", {number(queue.untaken)} more not looked at" if queue.untaken else ""
    counts = f"{queue.running} running, {queue.waiting} waiting{more}"
    shapes = "; ".join(map(_shape, queue.shapes)) or "no units in use"
    return f"{held}{counts}; {shapes}"


def queue_page(queue: QueueTold, told: BatchTold) -> str:
    """All that is known of a queue and of the gangs in it that are told of."""
    where = f"below {queue.parent}" if queue.parent else "at the top"
    share = "not known" if queue.share_ratio is None else f"{number(100 * queue.share_ratio)} % by weight"
    rows = [
        f"{clock(told.now_s)}  {queue.name}  {queue_sentence(queue)}",
        f"  {where}, weight {number(queue.weight)}, share {share}",
        f"  used: {number(round(queue.used_gpu_s / 3600, 1))} GPU-hours, those of a day ago counting half",
        f"  namespaces: {', '.join(queue.namespaces) or 'those of the queues above it'}",
        *(f"  {code}: {words}" for code, words in queue.findings),
        *([f"  {BatchReason.UNTAKEN.name}: {queue_untaken(queue)}"] if queue.untaken else []),
    ]
    mine = [gang for gang in told.gangs if gang.queue == queue.name]
    rows += [f"  {gang.key}: {units(gang)}: {sentence(gang, told.now_s)}" for gang in mine]
    return "\n".join(rows)


def _awaits(gang: GangTold) -> str:
    """On which nodes that are on their way an expected start counts."""
    first, total = gang.awaits[0], number(sum(each.units for each in gang.awaits))
    if len(gang.awaits) == 1:
        return f"counting on {total} {first.shape} of node {first.node}, which is on its way"
    return f"counting on {total} units of {len(gang.awaits)} nodes that are on their way, such as {first.node}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _loan(gang: GangTold) -> str:
    whose = f"WarmPool {', '.join(gang.lenders)}" if gang.lenders else "serving"
    return f"{number(gang.lent_units)} of its units lent by {whose}"


def _gang_lines(gang: GangTold, now_s: float) -> Iterator[str]:
    yield f"{clock(now_s)}  {gang.key}  {_STATES[gang.state]}  {gang.reason or gang.state.value}"
    yield f"  {sentence(gang, now_s)}"
    yield f"  asks for {units(gang)}, in queue {gang.queue}, since {duration(max(0.0, now_s - gang.created_s))}"
    if gang.state is GangState.WAITING:
        for one in gang.changes:
            yield f"  would start with: {change(one)}"
        if gang.start_p50_s is not None:
            yield f"  start: {clock(gang.start_p50_s)} as often as not"
        if gang.start_p90_s is not None:
            yield f"  start: by {clock(gang.start_p90_s)} in nine of ten cases"
        for each in gang.awaits[:MOST_NODES]:
            yield f"  counts on: {number(each.units)} {each.shape} of node {each.node}, expected {clock(each.due_s)}"
    if gang.end_p50_s is not None:
        yield f"  end: {clock(gang.end_p50_s)} as often as not"
    if gang.nodes:
        more = len(gang.nodes) - MOST_NODES
        yield f"  nodes: {', '.join(gang.nodes[:MOST_NODES])}{f' and {more} more' if more > 0 else ''}"
    if gang.evictions:
        yield f"  gave way {_times(gang.evictions)} so far"
    yield from (f"  note: {words}" for words in gang.remarks)


def _shape(shape: ShapeTold) -> str:
    most = "" if shape.limit is None else f", {number(shape.limit)} at most"
    return f"{number(shape.used)} {shape.shape} in use, {number(shape.guaranteed)} guaranteed{most}"
