"""How requests of gangs for nodes stand, as whoever asked is told, and as the trace says.

Enters: the view of a pool that carries nothing out, or how each request stands. Leaves: which requests stand there all
the same, and a step for each. It makes nothing and gives nothing back.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autoscaler.core.pool.gang_pods import names_of, pods_of
from autoscaler.core.pool.intents import PoolStep
from autoscaler.core.pool.params import GangTerms
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.view import View


@dataclass(frozen=True, slots=True)
class Standing:
    """How the request for one gang stands."""

    gang: str
    uid: str
    pods: int
    placed: int = 0
    """Pods whose places are held on a node."""
    since_s: float | None = None
    """When the request was made; None where there is none."""
    refused: PoolReason | None = None
    """Why there is none; None while it stands."""
    until_s: float | None = None
    """Of a refusal: when it may be made again."""


def begun(view: View) -> Iterator[Standing]:
    """Requests that stand at a pool which carries nothing out: what holds their places has nodes made all the same, so
    that nobody else shall. One without a place on a node has come to nothing once its time is up."""
    timeout_s = (view.params.gangs or GangTerms(0.0)).timeout_s
    for ask in view.world.asks or ():
        names = frozenset(names_of(view.params.name, ask))
        mine = [each for each in view.world.holders if each.name in names and not each.over]
        mine = [each for each in mine if not each.deleting or not each.uid]  # one without a uid is not seen yet
        placed = sum(each.node is not None for each in mine)
        since_s = min((each.created_s for each in mine), default=-math.inf)
        if not ask.starts and (placed or view.now_s < since_s + timeout_s):
            yield Standing(ask.gang, ask.uid, pods_of(ask), placed, since_s)


def steps_of(standings: Iterable[Standing]) -> Iterator[PoolStep]:
    """One step for each gang that waits."""
    for each in standings:
        reason = PoolReason.GANG if each.refused is None else each.refused
        yield PoolStep("gangs", each.pods, each.placed, reason, (("gang", each.gang),))
