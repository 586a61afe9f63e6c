"""Work that is not taken in, as it is told: there is more of it than the settings let in.

Enters: what is known of such work. Leaves: it as gangs that wait, and how much there is, by queue;
which gangs are no such work whatever comes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from autoscaler.adapters.kube.batch_kinds import KINDS
from autoscaler.adapters.kube.batch_pod_groups import GROUP, POD
from autoscaler.adapters.kube.batch_taken import TakenWork
from autoscaler.adapters.kube.batch_work import gang_name
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.tree import QueueTree
from autoscaler.record.batch import GangState, GangTold
from autoscaler.record.batch_words import untaken

_KINDS: Final = {kind.lower(): kind for kind in (*KINDS, POD, GROUP)}


def untaken_named(taken: TakenWork, kind: str, namespace: str | None, name: str) -> Iterator[GangTold]:
    """Work of this kind and name that is not taken in, in one namespace or in all."""
    spelled = _KINDS.get(kind.lower())
    if spelled is None:
        return
    start, end = f"{spelled.lower()}/", f"/{name}"
    every = (each for each in taken.others if each.startswith(start) and each.endswith(end))
    for each in every if namespace is None else [gang_name(spelled, namespace, name)]:
        known = taken.others.get(each)
        if known is not None:
            yield GangTold(
                spelled, each.split("/", 2)[1], name, known.queue, GangState.WAITING, 0, (), known.created_s,
                reason=BatchReason.UNTAKEN.name, detail=untaken(taken.most),
            )  # fmt: skip


def in_any_case(room: Room, plans: Iterable[str]) -> Iterator[str]:
    """Gangs that hold something, or for which something is kept or planned: they are taken in whatever comes."""
    return chain(room.runs.all, room.kept_for, room.ledger.reservations, plans)


def untaken_of(taken: TakenWork, tree: QueueTree) -> tuple[Counter[int], int]:
    """How much work is not taken in: by queue, those below it included, and in all."""
    found, every = Counter[int](), taken.untaken()
    for queue, gangs in every.items():
        for at in tree.paths[tree.index[queue]] if queue in tree.index else ():
            found[at] += gangs
    return found, every.total()
