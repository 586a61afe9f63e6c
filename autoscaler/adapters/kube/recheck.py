"""A second look, right before a patch, at what may forbid it: a watch that hangs shows as little as one with no news.

Enters: a claim that is about to be patched. Leaves: nothing, or a refusal that says what is otherwise by now, or that
it cannot be seen. Asked of the server, all at once, is what was not heard for ten seconds: of the freeze, of the object
that the claim was read from, and of who else scales the target. A watch that is known to be broken is not asked about:
`followed` says how long it is believed.

A freeze and a pause are somebody's word, so that where the server does not answer nothing is sent, growth neither: a
patch would be answered no sooner, and its target could not be touched before it was read back. Growth waits for as long
as the server is that slow, and is decided anew a second or two later. A rival is no one's word: where only that cannot
be seen growth goes on, as it does while the watch of HPAs is broken.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.asked import own_annotations
from autoscaler.adapters.kube.followed import Followed, freeze_of, within
from autoscaler.adapters.kube.informer import Informer
from autoscaler.adapters.kube.scaling import Hpa, ScalingPolicyObject, Target
from autoscaler.adapters.kube.wire import PAGE, HasMeta, Page, Resource, Wire
from autoscaler.api.claims import Claim, TargetRef
from autoscaler.ports import Clock, Fault, RefusedError

QUIET_S: Final = 10.0
"""As long as what a broken watch told is believed; one that hangs is known as broken only after 75 s."""

KNOWN_S: Final = QUIET_S
"""So long stands what the server said of the freeze, and of HPAs."""

ASK_S: Final = 2.0
"""For all questions, waiting for their turn included: it leaves the patch itself as long as most answers take."""

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
        self._asking_hpas: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By path, while somebody asks for it or waits for who does."""
        self._all_known_s: dict[str, float] = {}
        """By path: when the server said, within `KNOWN_S`, that there are no HPAs but those that are known."""
        self._listed: dict[Informer[Any], int] = {}
        """How many lists an informer had completed when it was asked for one more. While that one is on its way none is
        asked for: each would end the one before, and of a crowd that differs no list would ever be whole."""

    async def look(self, claim: Claim, *, grows: bool) -> None:
        """Return when nothing speaks against a patch. Raises RefusedError; what was seen to differ is listed anew."""
        questions = (self._freeze(), self._source(claim), self._rivals(claim.ref, grows))
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(self._asked(question, claim), name="recheck") for question in questions]
        *own, rivals = [each.result() for each in asked]
        if rivals is not None and grows and rivals.fault is not Fault.OUTDATED:
            rivals = None
        for refusal in (*own, rivals):
            if refusal is not None:
                raise refusal

    async def _asked(self, question: Coroutine[Any, Any, None], claim: Claim) -> RefusedError | None:
        """Why a patch must not be sent by one question; None where it may."""
        workload = claim.ref.workload
        try:
            async with asyncio.timeout(ASK_S):
                await question
        except TimeoutError:
            words = f"not sent: no answer within {ASK_S:g} s whether it still may be; its watch was quiet"
            return RefusedError(Fault.TIMEOUT, f"{workload}: {words}")
        except RefusedError as refusal:
            return refusal
        except KubeError as error:
            words = f"not sent: cannot see whether it still may be: {error}"
            return RefusedError(error.fault, f"{workload}: {words}")
        return None

    async def _freeze(self) -> None:
        (informer,) = self._followed.freezes
        async with self._freezing:
            now_s = self._clock.monotonic()
            if not _quiet(informer) or now_s < self._frozen_not_s + KNOWN_S:
                return
            page = await self._page(informer.resource)
            if page.unread or freeze_of(page.objects) != self._followed.frozen:
                self._differs(informer, "the freeze")
            self._frozen_not_s = now_s

    async def _source(self, claim: Claim) -> None:
        informers, key = self._followed.read_from(claim)
        namespace, _, name = key.partition("/")
        async with self._turns:
            for informer in within(namespace, informers):
                held = informer.items.get(key)
                if held is None or not _quiet(informer):
                    continue
                path = _path_within(namespace, informer)
                page = await self._page(Resource(path, informer.resource.kind, field_selector=f"metadata.name={name}"))
                if [_said(one) for one in page.objects] != [_said(held)]:
                    self._differs(informer, f"{path.rpartition('/')[2]} {key}")

    async def _rivals(self, target: TargetRef, grows: bool) -> None:
        """Look for an HPA that no watch has shown. KEDA makes one for every ScaledObject, within seconds.

        One beside the target that cannot be read may be on it: growth goes on, and nothing is taken away, here until
        the watch has told of it and by `Followed.doubt` from then on.

        All that an informer follows is asked for at once: of a crowd in many namespaces a list for each would go ahead
        of the patches. It costs a list of a page at most (500 HPAs: 2 MB, 3 ms to read) every ten seconds. Where more
        are held, which are seldom all quiet, each namespace that is patched is asked for by itself.
        """
        for informer in within(target.namespace, self._followed.hpas):
            held = len(informer.items) + len(informer.unread)
            path = informer.path if held <= PAGE else _path_within(target.namespace, informer)
            async with self._asking_hpas.setdefault(path, asyncio.Lock()):
                now_s = self._clock.monotonic()
                known_s = self._all_known_s.get(path, float("-inf"))
                if informer.absent or informer.denied or not _quiet(informer) or now_s < known_s + KNOWN_S:
                    continue
                page = await self._page(Resource(path, Hpa))
                unknown = [one for one in page.objects if _new(one, informer)]
                unread = [one.key for one in page.unread if one.key not in informer.unread]
                if not unknown and not unread:
                    stands = {one: at_s for one, at_s in self._all_known_s.items() if now_s < at_s + KNOWN_S}
                    self._all_known_s = {**stands, path: now_s}
                    continue
                self._relist(informer, *within(target.namespace, self._followed.scaled_objects))
                hidden = not grows and any(key.startswith(f"{target.namespace}/") for key in unread)
                if hidden or any(_scales(one, target) for one in unknown):
                    self._differs(informer, f"who else scales {target.workload}")

    async def _page(self, resource: Resource[T]) -> Page[T]:
        """A list, even of one object: who may list a resource need not be allowed to get."""
        wire = Wire(resource)
        answer = await self._api.request("GET", wire.path, query=wire.list_query(0, ""), timeout_s=ASK_S)
        return wire.page(answer.body)

    def _relist(self, *informers: Informer[Any]) -> None:
        for informer in informers:
            if not informer.absent and self._listed.get(informer, -1) < informer.lists:
                self._listed[informer] = informer.lists
                informer.relist()

    def _differs(self, informer: Informer[Any], what: str) -> None:
        """List anew what a watch did not show. Raises RefusedError."""
        self._relist(informer)
        quiet_s = informer.staleness_s()
        words = f"not sent: {what} is not as its watch showed it, which was quiet for {quiet_s:.0f} s: it is read anew"
        raise RefusedError(Fault.OUTDATED, words)


def _quiet(informer: Informer[Any]) -> bool:
    return informer.cut_off_s() == 0.0 and informer.staleness_s() > QUIET_S


def _path_within(namespace: str, informer: Informer[Any]) -> str:
    """The path of one namespace of what an informer follows."""
    plural = informer.path.rpartition("/")[2]
    root = informer.path.partition("/namespaces/")[0].removesuffix(f"/{plural}")
    return f"{root}/namespaces/{namespace}/{plural}"


def _new(found: Hpa, informer: Informer[Hpa]) -> bool:
    """Whether an HPA is another than is held under its name, or aims at something else by now."""
    meta = found.metadata
    held = informer.items.get(f"{meta.namespace}/{meta.name}")
    return held is None or (held.metadata.uid, held.spec.scale_target_ref) != (meta.uid, found.spec.scale_target_ref)


def _scales(found: Hpa, target: TargetRef) -> bool:
    aimed = found.spec.scale_target_ref
    return (found.metadata.namespace, aimed.kind, aimed.name) == (target.namespace, target.kind, target.name)


def _said(found: Target | ScalingPolicyObject) -> tuple[object, ...]:
    """What a claim is read from; a status that changed is no other policy."""
    meta = found.metadata
    if isinstance(found, ScalingPolicyObject):
        return meta.uid, meta.generation
    return meta.uid, own_annotations(meta), meta.owner_references
