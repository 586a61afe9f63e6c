"""The informers that warm pools rest on: what is followed, whether it was read, and what cannot be.

Enters: a client, where slots are, who wants to hear of which change. Leaves: the held objects of each kind. A kind that
is not served is absent and no problem: without Karpenter there are no NodePools to follow. It makes nothing of them.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.informer import Change, Informer, InformerTimes, Resource
from autoscaler.adapters.kube.pods import Node
from autoscaler.adapters.kube.pool_objects import (
    NodeClaim,
    NodePool,
    PlacedPod,
    PriorityClass,
    ToldEvent,
    WarmPoolObject,
)
from autoscaler.adapters.kube.pool_signs import NO_CAPACITY, NOMINATED, NOT_OFFERED
from autoscaler.adapters.kube.retry import BackoffBounds
from autoscaler.adapters.kube.scope import GROUP, VERSION
from autoscaler.ports import Clock

KARPENTER: Final = "/apis/karpenter.sh/v1"

LOOK_S: Final = 0.02
"""Between two looks whether everything is listed."""

BELIEVED_S: Final = 5.0
"""What was read is believed for so long after the server stopped answering."""

TIMES: Final = InformerTimes(backoff=BackoffBounds(cap_s=4.0))


@dataclass(frozen=True, slots=True)
class Hearers:
    """Who is called with a change of each kind, in the event loop, and must not wait; `changed` with any other."""

    changed: Callable[[], None]
    pod: Callable[[Change[PlacedPod]], None]
    node: Callable[[Change[Node]], None]
    claim: Callable[[Change[NodeClaim]], None]
    shortage: Callable[[Change[ToldEvent]], None]
    not_offered: Callable[[Change[ToldEvent]], None]
    nomination: Callable[[Change[ToldEvent]], None]


@dataclass(frozen=True, slots=True)
class Reread:
    """A reading that was asked for: informers, and how many lists each had completed by then."""

    wanted: tuple[tuple[Informer[Any], int], ...]


class PoolFeeds:
    """One informer for each kind. `run` once; slots and what Karpenter says of them are in `namespace`."""

    def __init__(self, api: KubeApi, clock: Clock, namespace: str, hearers: Hearers) -> None:
        self._api = api
        self._clock = clock
        news = partial(_news, hearers.changed)
        follow = self._follow
        self.pools: Informer[WarmPoolObject] = follow(f"/apis/{GROUP}/{VERSION}/warmpools", WarmPoolObject, news)
        self.pods: Informer[PlacedPod] = follow("/api/v1/pods", PlacedPod, hearers.pod)
        self.nodes: Informer[Node] = follow("/api/v1/nodes", Node, hearers.node)
        self.claims: Informer[NodeClaim] = follow(f"{KARPENTER}/nodeclaims", NodeClaim, hearers.claim)
        self.node_pools: Informer[NodePool] = follow(f"{KARPENTER}/nodepools", NodePool, news)
        self.classes: Informer[PriorityClass] = follow(
            "/apis/scheduling.k8s.io/v1/priorityclasses", PriorityClass, news
        )
        events, ours = "/api/v1/events", f"/api/v1/namespaces/{namespace}/events"
        told = (
            follow(events, ToldEvent, hearers.shortage, NO_CAPACITY),
            follow(events, ToldEvent, hearers.not_offered, NOT_OFFERED),
            follow(ours, ToldEvent, hearers.nomination, NOMINATED),
        )
        self._all: tuple[Informer[Any], ...] = (
            self.pools, self.pods, self.nodes, self.claims, self.node_pools, self.classes, *told,
        )  # fmt: skip

    async def run(self) -> None:
        """Follow everything until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._all:
                group.create_task(informer.run(), name="pool informer")

    async def wait_synced(self) -> None:
        """Return once everything was listed, or is known not to be served, or may not be read."""
        while any(not informer.synced and not informer.denied for informer in self._all):
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

    async def relist(self) -> None:
        """Read everything anew, and return when what is held is what the server had after this call."""
        wanted = {informer: informer.lists for informer in self._all if not informer.absent}
        for informer in wanted:
            informer.relist()
        while any(i.lists <= lists and not i.absent and not i.denied for i, lists in wanted.items()):
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

    def reread(self) -> Reread:
        """Ask for everything that is written for pools to be listed anew; `is_read` says when that was done."""
        written = [i for i in (self.pods, self.claims, self.node_pools) if not (i.absent or i.denied)]
        wanted = tuple((informer, informer.lists) for informer in written)
        for informer in written:
            informer.relist()
        return Reread(wanted)

    def is_read(self, asked: Reread) -> bool:
        """Whether what is held is what the server had after it was asked for."""
        return all(i.lists > lists or i.absent or i.denied for i, lists in asked.wanted)

    def problems(self) -> tuple[str, ...]:
        """What cannot be followed now, and why; what is not served is no problem."""
        return tuple(str(i.error) for i in self._all if i.error is not None)

    def _follow(self, path: str, kind: type[Any], heard: Callable[[Change[Any]], None], chosen: str = "") -> Any:
        return Informer(self._api, Resource(path, kind, field_selector=chosen), self._clock, heard, times=TIMES)


def believed(informer: Informer[Any]) -> bool:
    """Whether what an informer holds is the truth of now, as far as can be known."""
    if informer.absent or informer.denied or not informer.synced:
        return False
    return informer.cut_off_s() <= BELIEVED_S and math.isfinite(informer.staleness_s())


def _news(changed: Callable[[], None], _: Change[Any]) -> None:
    changed()
