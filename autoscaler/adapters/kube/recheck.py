"""A second look, right before a patch, at what may forbid it: a watch that hangs shows as little as one with no news.

Enters: a claim that is about to be patched. Leaves: nothing, or a refusal that says what is otherwise by now, or that
it cannot be seen. Asked of the server is what was not heard for ten seconds of the freeze and of the object that the
claim was read from. A watch that is known to be broken is not asked about: `followed` says how long it is believed.
"""

import asyncio
from typing import Any, Final, TypeVar

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.asked import own_annotations
from autoscaler.adapters.kube.followed import Followed, freeze_of, within
from autoscaler.adapters.kube.informer import Informer
from autoscaler.adapters.kube.scaling import ScalingPolicyObject, Target
from autoscaler.adapters.kube.wire import HasMeta, Page, Resource, Wire
from autoscaler.api.claims import Claim
from autoscaler.ports import Clock, Fault, RefusedError

QUIET_S: Final = 10.0
"""As long as what a broken watch told is believed; one that hangs is known as broken only after 75 s."""

ASK_S: Final = 1.0
"""For each of the two questions, waiting for its turn included; a patch that is not sent now is decided anew within a
tick. Within one second for both, a server that takes 0.6 s for a list would never be patched at ticks of 10 s."""

AT_ONCE: Final = 8
"""Claims that are asked about at a time. Once the first of a crowd is patched the others' watch is heard."""

T = TypeVar("T", bound=HasMeta)


class Recheck:
    """Looks again at what `followed` holds."""

    def __init__(self, api: KubeApi, clock: Clock, followed: Followed) -> None:
        self._api = api
        self._clock = clock
        self._followed = followed
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._freezing = asyncio.Lock()
        self._frozen_not_s = float("-inf")
        """When the server said last that nothing is frozen."""
        self._listed: dict[Informer[Any], int] = {}
        """How many lists an informer had completed when it was asked for one more. While that one is on its way none is
        asked for: each would end the one before, and of a crowd that differs no list would ever be whole."""

    async def look(self, claim: Claim) -> None:
        """Return when nothing speaks against a patch. Raises RefusedError; what was seen to differ is listed anew."""
        try:
            async with asyncio.timeout(ASK_S), self._freezing:
                await self._freeze()
            async with asyncio.timeout(ASK_S), self._turns:
                await self._source(claim)
        except TimeoutError as error:
            words = f"not sent: no answer within {ASK_S:g} s whether it still may be; its watch was quiet"
            raise RefusedError(Fault.TIMEOUT, f"{claim.ref.workload}: {words}") from error
        except KubeError as error:
            words = f"not sent: cannot see whether it still may be: {error}"
            raise RefusedError(error.fault, f"{claim.ref.workload}: {words}") from error

    async def _freeze(self) -> None:
        (informer,) = self._followed.freezes
        now_s = self._clock.monotonic()
        if not _quiet(informer) or now_s < self._frozen_not_s + QUIET_S:
            return
        page = await self._page(informer.resource)
        if page.unread or freeze_of(page.objects) != self._followed.frozen:
            self._differs(informer, "the freeze")
        self._frozen_not_s = now_s

    async def _source(self, claim: Claim) -> None:
        informers, key = self._followed.read_from(claim)
        namespace, _, name = key.partition("/")
        for informer in within(namespace, informers):
            held = informer.items.get(key)
            if held is None or not _quiet(informer):
                continue
            plural = informer.path.rpartition("/")[2]
            root = informer.path.partition("/namespaces/")[0].removesuffix(f"/{plural}")
            path = f"{root}/namespaces/{namespace}/{plural}"
            page = await self._page(Resource(path, informer.resource.kind, field_selector=f"metadata.name={name}"))
            if [_said(one) for one in page.objects] != [_said(held)]:
                self._differs(informer, f"{plural} {key}")

    async def _page(self, resource: Resource[T]) -> Page[T]:
        """A list of one object at most: who may list a resource need not be allowed to get."""
        wire = Wire(resource)
        answer = await self._api.request("GET", wire.path, query=wire.list_query(0, ""), timeout_s=ASK_S)
        return wire.page(answer.body)

    def _differs(self, informer: Informer[Any], what: str) -> None:
        """List anew what a watch did not show. Raises RefusedError."""
        if self._listed.get(informer, -1) < informer.lists:
            self._listed[informer] = informer.lists
            informer.relist()
        quiet_s = informer.staleness_s()
        words = f"not sent: {what} is not as its watch showed it, which was quiet for {quiet_s:.0f} s: it is read anew"
        raise RefusedError(Fault.OUTDATED, words)


def _quiet(informer: Informer[Any]) -> bool:
    return informer.cut_off_s() == 0.0 and informer.staleness_s() > QUIET_S


def _said(found: Target | ScalingPolicyObject) -> tuple[object, ...]:
    """What a claim is read from; a status that changed is no other policy."""
    meta = found.metadata
    if isinstance(found, ScalingPolicyObject):
        return meta.uid, meta.generation
    return meta.uid, own_annotations(meta), meta.owner_references
