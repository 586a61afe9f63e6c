"""A watch that hangs shows neither a freeze nor a pause: right before a patch both are looked at again."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import pytest

from autoscaler.adapters.kube.deletion_cost import DeletionCost
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.scope import Scope
from autoscaler.api.claims import TargetRef
from autoscaler.api.modes import Mode
from autoscaler.ports import Fault, Patch, RefusedError
from tests.kube.clients import until
from tests.kube.fakeserver import Connection, Handler, Request, answer, hang, status
from tests.kube.test_cluster import ASKS, DEPLOYMENTS, FREEZES, HPAS, SCOPE, Scene, following, scaled_to
from tests.kube.test_doubts import POLICIES, POLICY, claimed

OWN_DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/prod/deployments"
OWN_POLICIES: Final = "/apis/headroom.dev/v1alpha1/namespaces/prod/scalingpolicies"
OWN_HPAS: Final = "/apis/autoscaling/v2/namespaces/prod/horizontalpodautoscalers"
SCALE: Final = f"{OWN_DEPLOYMENTS}/chat/scale"

QUIET_S: Final = 0.2


@pytest.fixture(autouse=True)
def _soon_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.adapters.kube.recheck.QUIET_S", QUIET_S)


@asynccontextmanager
async def followed(*, by_policy: bool = False, quiet: bool = True, scope: Scope = SCOPE) -> AsyncIterator[Scene]:
    """A claimed workload of two, whose watches are quiet; single objects are listed as the server has them."""
    async with following(scope=scope) as scene:
        claim = await claimed(scene, by_policy=by_policy)
        if quiet:
            held = scene.cluster._followed
            (source, *_), _ = held.read_from(claim)
            silent = (source, held.freezes[0], held.hpas[0])
            await until(lambda: min(informer.staleness_s() for informer in silent) > QUIET_S)
        scene.server.always = Answers(scene)
        yield scene


class Answers:
    """One namespace's lists and the count, besides what a server answers anyway; `instead` by path."""

    def __init__(self, scene: Scene, **instead: Handler) -> None:
        self._server, self.instead = scene.server, instead
        self.instead[SCALE] = scaled_to(4)

    async def __call__(self, request: Request, connection: Connection) -> None:
        root, _, within = request.path.partition("/namespaces/")
        namespace, _, plural = within.partition("/")
        every = f"{root}/{plural}"
        if request.path in self.instead:
            await self.instead[request.path](request, connection)
        elif every in self._server.objects and request.path not in self._server.objects:
            assert every == HPAS or request.query.keys() == {"fieldSelector"}
            name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
            own = [one for one in self._server.objects[every].values() if one["metadata"]["namespace"] == namespace]
            found = [one for one in own if name in ("", one["metadata"]["name"])]
            await answer(200, {"metadata": {"resourceVersion": "99"}, "items": found})(request, connection)
        else:
            await self._server.honest(request, connection)


def unseen(scene: Scene, path: str, key: str, **parts: Any) -> None:
    """Change or create an object of which no watch shows anything."""
    namespace, _, name = key.rpartition("/")
    held = scene.server.objects[path].get(key, {"metadata": {"namespace": namespace, "name": name, "uid": "new"}})
    metadata = held["metadata"] | {"resourceVersion": "90"} | parts.pop("metadata", {})
    scene.server.objects[path][key] = held | parts | {"metadata": metadata}


def asked(scene: Scene, path: str) -> int:
    """How often a path was listed."""
    return sum(request.path == path and not request.watches for request in scene.server.requests)


def hpa_lists(scene: Scene) -> list[str]:
    """The paths at which HPAs were listed so far."""
    found = (request.path for request in scene.server.requests if not request.watches)
    return [path for path in found if path.endswith("/horizontalpodautoscalers")]


def patched(scene: Scene) -> bool:
    return any(request.method == "PATCH" for request in scene.server.requests)


async def test_a_freeze_that_a_silent_watch_did_not_show_stops_the_patch_and_is_read_anew() -> None:
    async with followed() as scene:
        unseen(scene, FREEZES, "headroom-system/headroom-freeze", data={"freeze": "incident 7"})
        with pytest.raises(RefusedError, match=r"not sent: the freeze is not as its watch showed it, .* quiet for"):
            await scene.scale.patch("prod/chat", 2, 4)
        await until(lambda: scene.cluster.frozen == "incident 7")
        with pytest.raises(RefusedError, match="not sent"):
            await scene.scale.patch("prod/chat", 2, 4)
    assert not patched(scene)


@pytest.mark.parametrize("by_policy", [True, False], ids=["claimed by a policy", "claimed by annotation"])
async def test_a_pause_that_a_silent_watch_did_not_show_stops_the_patch_and_is_read_anew(by_policy: bool) -> None:
    async with followed(by_policy=by_policy) as scene:
        if by_policy:
            unseen(scene, POLICIES, "prod/chat-policy", metadata={"generation": 2}, spec=POLICY | {"mode": "Paused"})
        else:
            paused = ASKS["annotations"] | {"headroom.dev/mode": "Paused"}
            unseen(scene, DEPLOYMENTS, "prod/chat", metadata={"annotations": paused})
        with pytest.raises(RefusedError, match=r"prod/chat.* is not as its watch showed it"):
            await scene.scale.patch("prod/chat", 2, 4)
        await until(lambda: next(scene.cluster.claims).spec.mode is Mode.PAUSED)
    assert not patched(scene)


async def test_a_list_that_is_on_its_way_is_not_begun_again_by_the_next_that_differs() -> None:
    async with followed() as scene:
        paused = ASKS["annotations"] | {"headroom.dev/mode": "Paused"}
        unseen(scene, DEPLOYMENTS, "prod/chat", metadata={"annotations": paused})
        held = asyncio.Event()

        async def late(request: Request, connection: Connection) -> None:
            if not request.watches:
                await held.wait()
            await scene.server.honest(request, connection)

        scene.server.always = Answers(scene, **{DEPLOYMENTS: late})
        before = asked(scene, DEPLOYMENTS)
        for _ in range(3):
            with pytest.raises(RefusedError, match="is not as its watch showed it"):
                await scene.scale.patch("prod/chat", 2, 4)
            await until(lambda: asked(scene, DEPLOYMENTS) > before)
        held.set()
        await until(lambda: next(scene.cluster.claims).spec.mode is Mode.PAUSED)
        assert asked(scene, DEPLOYMENTS) == before + 1


@pytest.mark.parametrize("by_policy", [True, False], ids=["claimed by a policy", "claimed by annotation"])
async def test_what_is_as_it_was_is_patched_and_the_freeze_is_asked_for_once_in_a_while(by_policy: bool) -> None:
    async with followed(by_policy=by_policy) as scene:
        unseen(scene, DEPLOYMENTS, "prod/chat", status={"replicas": 2})
        freezes = asked(scene, FREEZES)
        crowd = [scene.scale.patch("prod/chat", 2, 4) for _ in range(20)]
        assert set(await asyncio.gather(*crowd)) == {Patch.APPLIED}
        assert asked(scene, FREEZES) == freezes + 1
        assert asked(scene, OWN_POLICIES if by_policy else OWN_DEPLOYMENTS) == len(crowd)


async def test_what_was_heard_lately_is_not_asked_for() -> None:
    async with followed(quiet=False) as scene:
        for path in (FREEZES, DEPLOYMENTS, HPAS):
            scene.server.bookmark(path)
        before, hpas = asked(scene, FREEZES), asked(scene, HPAS)
        assert await scene.scale.patch("prod/chat", 2, 4) is Patch.APPLIED
        assert (asked(scene, FREEZES), asked(scene, OWN_DEPLOYMENTS), asked(scene, HPAS)) == (before, 0, hpas)


def aims_at(name: str) -> dict[str, Any]:
    return {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "maxReplicas": 9}


async def test_an_hpa_that_a_silent_watch_did_not_show_stops_the_patch_and_is_read_anew() -> None:
    async with followed() as scene:
        unseen(scene, HPAS, "prod/other-hand", spec=aims_at("chat"))
        with pytest.raises(RefusedError, match=r"not sent: who else scales prod/chat is not as its watch showed it"):
            await scene.scale.patch("prod/chat", 2, 4)
        await until(lambda: next(scene.cluster.claims).obstacle is not None)
    assert not patched(scene)


@pytest.mark.parametrize(
    ("namespace", "name"), [("prod", "code"), ("team", "chat")], ids=["another name", "another namespace"]
)
async def test_an_hpa_on_something_else_keeps_nobody_from_growing_and_is_read_anew(namespace: str, name: str) -> None:
    async with followed() as scene:
        unseen(scene, HPAS, f"{namespace}/others", spec=aims_at(name))
        (informer,) = scene.cluster._followed.hpas
        assert await scene.scale.patch("prod/chat", 2, 4) is Patch.APPLIED
        await until(lambda: f"{namespace}/others" in informer.items)


async def test_who_else_scales_is_asked_for_once_in_a_while_however_many_patches_there_are() -> None:
    async with followed() as scene:
        listed = asked(scene, HPAS)
        crowd = [scene.scale.patch("prod/chat", 2, 4) for _ in range(20)]
        assert set(await asyncio.gather(*crowd)) == {Patch.APPLIED}
        assert asked(scene, HPAS) == listed + 1


async def test_who_else_scales_is_asked_for_once_in_a_while_in_however_many_namespaces() -> None:
    async with followed() as scene:
        for i in range(20):
            metadata = ASKS | {"namespace": f"team-{i}"}
            scene.server.put(f"chat-{i}", path=DEPLOYMENTS, metadata=metadata, spec={"replicas": 2})
        await until(lambda: len(list(scene.cluster.claims)) == 21)
        before = len(hpa_lists(scene))
        await asyncio.gather(*(scene.cluster.recheck(claim, grows=True) for claim in scene.cluster.claims))
        assert hpa_lists(scene)[before:] == [HPAS]


@pytest.mark.parametrize("odd", [{}, {"minReplicas": "x"}], ids=["readable", "not readable"])
async def test_where_hpas_fill_more_than_a_page_only_those_beside_the_target_are_asked_for(
    odd: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.adapters.kube.recheck.PAGE", 0)
    async with followed() as scene:
        scene.server.put("others", path=HPAS, metadata={"namespace": "team"}, spec=aims_at("chat") | odd)
        (informer,) = scene.cluster._followed.hpas
        await until(lambda: (informer.items or informer.unread) and informer.staleness_s() > QUIET_S)
        unseen(scene, HPAS, "prod/other-hand", spec=aims_at("chat"))
        before = len(hpa_lists(scene))
        with pytest.raises(RefusedError, match="who else scales prod/chat is not as its watch showed it"):
            await scene.scale.patch("prod/chat", 2, 4)
        assert hpa_lists(scene)[before] == OWN_HPAS


async def test_of_namespaces_that_were_asked_for_nothing_is_kept_when_the_answer_stands_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autoscaler.adapters.kube.recheck.PAGE", 0)
    monkeypatch.setattr("autoscaler.adapters.kube.recheck.KNOWN_S", 0.0)
    async with followed() as scene:
        for i in range(20):
            metadata = ASKS | {"namespace": f"team-{i}"}
            scene.server.put(f"chat-{i}", path=DEPLOYMENTS, metadata=metadata, spec={"replicas": 2})
        scene.server.put("others", path=HPAS, metadata={"namespace": "team"}, spec=aims_at("chat"))
        (informer,) = scene.cluster._followed.hpas
        await until(lambda: len(list(scene.cluster.claims)) == 21 and informer.items)
        await until(lambda: informer.staleness_s() > QUIET_S)
        before = len(hpa_lists(scene))
        for claim in scene.cluster.claims:
            await scene.cluster.recheck(claim, grows=True)
        assert len(set(hpa_lists(scene)[before:])) == 21
        recheck = scene.cluster._recheck
        assert (len(recheck._asking_hpas), len(recheck._all_known_s)) == (0, 1)


async def test_where_only_some_namespaces_are_followed_their_own_hpas_are_asked_for() -> None:
    async with followed(scope=replace(SCOPE, namespaces=("prod", "team"))) as scene:
        unseen(scene, OWN_HPAS, "prod/other-hand", spec=aims_at("chat"))
        before = len(hpa_lists(scene))
        with pytest.raises(RefusedError, match="who else scales prod/chat is not as its watch showed it"):
            await scene.scale.patch("prod/chat", 2, 4)
        assert set(hpa_lists(scene)[before:]) == {OWN_HPAS}


async def test_an_hpa_that_no_watch_has_shown_and_that_cannot_be_read_takes_nothing_away() -> None:
    async with followed() as scene:
        (claim,) = scene.cluster.claims
        unseen(scene, HPAS, "prod/odd", spec=aims_at("chat") | {"minReplicas": "x"})
        held = asyncio.Event()

        async def late(request: Request, connection: Connection) -> None:
            if "limit" in request.query:
                await held.wait()
            await scene.server.honest(request, connection)

        scene.server.always = Answers(scene, **{HPAS: late})
        assert await scene.scale.patch("prod/chat", 2, 4) is Patch.APPLIED
        with pytest.raises(RefusedError, match="who else scales prod/chat is not as its watch showed it") as refused:
            await scene.scale.patch("prod/chat", 4, 2)
        assert refused.value.fault is Fault.OUTDATED
        held.set()
        await until(lambda: (doubt := scene.cluster.doubt(claim)) and "prod/odd cannot be read" in doubt.cause)


async def test_an_hpa_elsewhere_that_cannot_be_read_is_read_anew_once_and_keeps_nobody_from_shrinking() -> None:
    async with followed() as scene:
        (claim,) = scene.cluster.claims
        unseen(scene, HPAS, "team/odd", spec=aims_at("chat") | {"minReplicas": "x"})
        await scene.cluster.recheck(claim, grows=False)
        (informer,) = scene.cluster._followed.hpas
        await until(lambda: informer.unread and informer.staleness_s() > QUIET_S)
        listed = asked(scene, HPAS)
        for _ in range(3):
            await scene.cluster.recheck(claim, grows=False)
        assert asked(scene, HPAS) == listed + 1


async def test_while_only_rivals_cannot_be_seen_growth_goes_on_and_nothing_is_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autoscaler.adapters.kube.recheck.ASK_S", 0.3)
    async with followed() as scene:
        scene.server.always = Answers(scene, **{HPAS: status(503, "ServiceUnavailable", "no leader")})
        with pytest.raises(RefusedError, match=r"prod/chat: not sent: cannot see .*503"):
            await scene.scale.patch("prod/chat", 2, 1)
        assert not patched(scene)
        assert await scene.scale.patch("prod/chat", 2, 4) is Patch.APPLIED


async def test_all_questions_are_on_their_way_at_the_same_time() -> None:
    async with followed() as scene:
        honest, together = Answers(scene), asyncio.Event()
        waiting: set[str] = set()

        async def held(request: Request, connection: Connection) -> None:
            waiting.add(request.path)
            if len(waiting) == 3:
                together.set()
            await together.wait()
            await honest(request, connection)

        scene.server.always = Answers(scene, **dict.fromkeys((FREEZES, OWN_DEPLOYMENTS, HPAS), held))
        assert await scene.scale.patch("prod/chat", 2, 4) is Patch.APPLIED
        assert waiting == {FREEZES, OWN_DEPLOYMENTS, HPAS}


@pytest.mark.parametrize(
    ("handler", "words"),
    [(status(500, "InternalError", "no leader"), "500 InternalError"), (hang, "no answer within 0.3 s")],
    ids=["refused", "never answered"],
)
async def test_nothing_is_patched_while_a_quiet_freeze_cannot_be_looked_at(
    handler: Handler, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.adapters.kube.recheck.ASK_S", 0.3)
    async with followed() as scene:
        scene.server.always = Answers(scene, **{FREEZES: handler})
        with pytest.raises(RefusedError, match=f"prod/chat: not sent: .*{words}"):
            await scene.scale.patch("prod/chat", 2, 4)
        assert not patched(scene)
        scene.server.always = Answers(scene)
        assert await scene.scale.patch("prod/chat", 2, 4) is Patch.APPLIED, "it is known not to have left"


async def test_a_server_that_takes_its_time_over_each_question_is_patched_all_the_same() -> None:
    async with followed() as scene:
        honest = Answers(scene)

        async def slowly(request: Request, connection: Connection) -> None:
            await asyncio.sleep(0.6)
            await honest(request, connection)

        scene.server.always = Answers(scene, **{FREEZES: slowly, OWN_DEPLOYMENTS: slowly})
        freezes = asked(scene, FREEZES)
        assert await scene.scale.patch("prod/chat", 2, 4) is Patch.APPLIED
        assert (asked(scene, FREEZES), asked(scene, OWN_DEPLOYMENTS)) == (freezes + 1, 1)


class Marks(DeletionCost):
    """Pods that should go first, as many as were asked for."""

    def __init__(self) -> None:
        self.away: list[int] = []

    async def before(self, ref: TargetRef, pods: Mapping[str, Pod], away: int) -> None:
        self.away.append(away)


async def test_a_pause_that_comes_while_a_patch_waits_for_its_turn_stops_it_and_what_is_done_before() -> None:
    async with followed() as scene:
        held, marks = asyncio.Event(), Marks()
        scene.scale._cost = marks

        async def late(request: Request, connection: Connection) -> None:
            await held.wait()
            await scene.server.honest(request, connection)

        scene.server.always = Answers(scene, **{FREEZES: late})
        patch = asyncio.create_task(scene.scale.patch("prod/chat", 2, 1))
        before = asked(scene, FREEZES)
        await until(lambda: asked(scene, FREEZES) > before)
        paused = ASKS["annotations"] | {"headroom.dev/mode": "Paused"}
        scene.server.put("chat", path=DEPLOYMENTS, metadata={"annotations": paused}, spec={"replicas": 2})
        await until(lambda: next(scene.cluster.claims).spec.mode is not None)
        held.set()
        with pytest.raises(RefusedError, match=r"not sent: .* what asked for it has changed"):
            await patch
    assert not patched(scene)
    assert marks.away == []
