"""Which gangs make room for another: a small set, of whole gangs, at the least work lost.

Enters: who waits and the books. Leaves: a plan whose placement was tried out with the victims gone, or None. Nothing is
changed. Three rights, and no other: a queue's own gangs of lower priority; what others hold beyond their guarantee, for
a gang within its queue's; and what lies above a fair split, for one whose queue stays at or below the victim's share
after the exchange, never below the victim's guarantee, never from those that run at the gang's own expense, and, unless
the gang has waited for two days, never from one that waited longer for its place than it has. But for guarantees, who
was evicted often is left alone. Near relatives in the tree give first. A victim is left out again where the others are
enough.
"""

import heapq
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final

from autoscaler.core.batch.placement import Ask
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.tree import Load, QueueTree
from autoscaler.core.batch.trial import Books, Candidates, Plan, Ranked, Trial
from autoscaler.core.batch.waiting import Waiting

FIRST_LOOK: Final = 64
"""Candidates of the first try; each further try looks at four times as many."""

SHARE_WITHIN_S: Final = 172_800.0
"""A gang that has waited so long claims its fair share of anybody who is above his.

When a gang began to wait is known from when it was made, so that who ran for days, was stopped and started again counts
those days as waited; without an end new tenants would wait for as long.
"""


_Source = tuple[int, BatchReason, int, int]
"""A queue that may have to give, by which right, and the sides below where the paths meet, as in `Candidate`. A plain
tuple: made by the hundred for each search."""


def plan(books: Books, waiting: Waiting, load: Load, wanted: Ask, now_s: float) -> Plan | None:
    """The victims for one gang; None where no set of them lets it start."""
    sources: list[_Source] = []
    fair = False
    for more in _sources(books.tree, waiting, load):
        if not more:
            continue
        sources += more
        fair = fair or more[0][1] is BatchReason.FAIR_SHARE
        number = FIRST_LOOK
        while True:
            streams = [_of_queue(books, source, waiting, load, now_s) for source in sources[: max(16, number // 4)]]
            few = Candidates(heapq.merge(*streams), number)
            if fair:
                few.draw_all()  # shares decide who is one, and a trial changes them
            if _enough(books, few, wanted):
                found = Trial(books, waiting, load, wanted, few).run()
                if found is not None:
                    return found
            if few.are_all and number >= 4 * len(sources):
                break
            number *= 4
    return None


def _enough(books: Books, few: Candidates, wanted: Ask) -> bool:
    """Whether free units and all that the candidates hold could be enough at all."""
    estate, grains = books.ledger.estate, books.tree.grains
    need = sum(grains[shape] * (units - estate.free_units(shape)) for shape, units in wanted.units.items())
    if wanted.scored:
        need -= sum(estate.rests_of(shape) for shape in wanted.units)
    return few.have(need)


def _sources(tree: QueueTree, waiting: Waiting, load: Load) -> Iterator[list[_Source]]:
    """Queues that may have to give, nearest relatives first."""
    spec = tree.spec(waiting.queue)
    if spec.preempts_own:
        yield [(waiting.queue, BatchReason.OUTRANKED, 0, 0)]
    if not spec.reclaims:
        return
    for own in tree.paths[waiting.queue]:
        reason = BatchReason.RECLAIMED if tree.within(own, load) else BatchReason.FAIR_SHARE
        parent = tree.parent[own]
        siblings = dict.fromkeys(at for shape, _ in load.units for at in tree.over[shape][parent] if at != own)
        if reason is BatchReason.FAIR_SHARE:
            mine = tree.share(own, load)
            siblings = {at: None for at in siblings if tree.share(at) > mine}
        over = [(_excess(tree, at, load), at, other) for other in siblings for at in _leaves_over(tree, other, load)]
        over.sort(key=itemgetter(0), reverse=True)
        yield [(leaf, reason, own, other) for _, leaf, other in over]


def _excess(tree: QueueTree, at: int, load: Load) -> int:
    """Units that a queue holds beyond its guarantee, of the shapes that the load wants."""
    used, guaranteed = tree.used[at], tree.quotas[at].guaranteed
    if len(load.units) == 1:  # nearly always, and asked for of all queues above their guarantee at every search
        shape = load.units[0][0]
        return used[shape] - guaranteed[shape]
    return sum([used[shape] - guaranteed[shape] for shape, _ in load.units])


def _leaves_over(tree: QueueTree, at: int, load: Load) -> Iterable[int]:
    """Queues of a subtree that hold more than they are guaranteed, at every level."""
    if not tree.children[at]:
        return (at,)
    over = dict.fromkeys(child for shape, _ in load.units for child in tree.over[shape][at])
    return [leaf for child in over for leaf in _leaves_over(tree, child, load)]


def _common(held: Load, wanted: Load) -> int:
    """What a load holds of shapes that another one wants, as quotas count it."""
    return sum([number for shape, number in held.counted for other, _ in wanted.units if other == shape])


def _of_queue(books: Books, source: _Source, waiting: Waiting, load: Load, now_s: float) -> Iterator[Ranked]:
    """The candidates of a queue."""
    leaf, reason, own, other = source
    tree = books.tree
    fair, owed, outranks = (
        reason is each for each in (BatchReason.FAIR_SHARE, BatchReason.RECLAIMED, BatchReason.OUTRANKED)
    )
    mine = tree.share(own, load) if fair else 0.0
    ahead = books.exchanges.ahead_of(waiting.gang.name) if fair else frozenset()
    waited_s = max(0.0, now_s - waiting.gang.created_s)
    units_of: dict[int, int] = {}
    """By brand: the wanted units that one of it leaves; 0 where the exchange would not be fair."""
    for run in books.runs.in_order(leaf):
        gang = run.gang
        if outranks and gang.priority >= waiting.gang.priority:
            return
        if run.lease_until_s > now_s or run.on_loan or not gang.recallable or gang.name in ahead:
            continue
        if fair and run.started_s - gang.created_s > waited_s and waited_s < SHARE_WITHIN_S:
            # Its wait would begin again, and it has little work to lose as long as it is new: large gangs never got on.
            continue
        if not owed and run.evictions >= books.max_evictions:
            continue
        units = units_of.get(run.brand)
        if units is None:
            below = mine and tree.share(other, run.load, -1) < mine
            units = 0 if below else _common(run.load, load)
            units_of[run.brand] = units
        if units:
            cost_gpu_s = run.cost_gpu_s(now_s)
            yield cost_gpu_s / units, gang.name, (run, reason, own, other, cost_gpu_s, units)
