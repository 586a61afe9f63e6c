"""A followed cluster whose server lets us read less than everything: what is waited for, done without, and told."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pytest

from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.intake import Most
from autoscaler.adapters.kube.replicas import ClusterScale
from autoscaler.adapters.kube.scope import Hooks, Scope
from autoscaler.api.claims import Kind, Reject
from autoscaler.ports import Fault, Patch, PortError, RefusedError
from autoscaler.runtime.clock import WallClock
from tests.kube.clients import client, until
from tests.kube.fakeserver import PODS, Connection, FakeServer, Handler, Request, answer, hang_up, status

DEPLOYMENTS: Final = "/apis/apps/v1/deployments"
SETS: Final = "/apis/apps/v1/statefulsets"
FREEZES: Final = "/api/v1/namespaces/headroom-system/configmaps"
HPAS: Final = "/apis/autoscaling/v2/horizontalpodautoscalers"
SCOPE: Final = Scope(
    (Kind("apps", "v1", "deployments", "Deployment"),), (), "headroom-system", "headroom-freeze", Most(1000, 5000)
)
SCALED_OBJECTS: Final = "/apis/keda.sh/v1alpha1/scaledobjects"
US: Final = "headroom.headroom-system:6000"
POLICIES: Final = "/apis/headroom.dev/v1alpha1/scalingpolicies"
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})
ASKS: Final = {"annotations": {"headroom.dev/scale": "true"}}


class Scene:
    """A cluster that is followed. `refused` maps a path to the status of every answer there."""

    def __init__(self, server: FakeServer, cluster: Cluster, scale: ClusterScale) -> None:
        self.server, self.cluster, self.scale = server, cluster, scale
        self.refused: dict[str, int] = {}
        server.always = self._answer

    async def _answer(self, request: Request, connection: Connection) -> None:
        code = self.refused.get(request.path)
        if code is None:
            await self.server.honest(request, connection)
        else:
            words = f"User headroom cannot list resource {request.path.rpartition('/')[2]}"
            await status(code, "Forbidden" if code == 403 else "Unwell", words)(request, connection)


@asynccontextmanager
async def following(refused: Mapping[str, int] = NOTHING, scope: Scope = SCOPE) -> AsyncIterator[Scene]:
    """A cluster with one annotated Deployment; `refused` by the last word of the path."""
    clock = WallClock()
    async with FakeServer() as server, client(server.url, clock=clock) as api:
        cluster = Cluster(api, clock, scope)
        for path in (*cluster.staleness_s(), HPAS):
            server.objects[path] = {}
        (deployments, *_) = (path for path in server.objects if path.endswith("/deployments"))
        server.put("chat", path=deployments, metadata=ASKS, spec={"replicas": 2})
        scale = ClusterScale(api, cluster, clock, may_write=lambda: True, remaining_s=lambda: 10.0)
        scene = Scene(server, cluster, scale)
        scene.refused = {path: refused[name] for path in server.objects if (name := path.rpartition("/")[2]) in refused}
        hooks = Hooks(_unheard, _unheard, _unheard, lambda: None, _unheard, _unheard)
        task = asyncio.create_task(cluster.run(hooks))
        try:
            yield scene
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _unheard(_: Any) -> None: ...


async def test_what_may_not_be_read_is_done_without_and_told_until_the_right_is_there() -> None:
    async with following({"horizontalpodautoscalers": 403}) as scene:
        async with asyncio.timeout(2.0):
            await scene.cluster.wait_synced()
            await scene.cluster.relist()
        (claim,) = scene.cluster.claims
        assert claim.ref.workload == "prod/chat"
        (denial,) = scene.cluster.denials
        assert "cannot list resource horizontalpodautoscalers" in denial
        assert scene.cluster.silent(0.5) == (), "who may be done without makes nobody unready"
        scene.refused.clear()
        await until(lambda: not scene.cluster.denials, 6.0)


@pytest.mark.parametrize("only_told", ["verticalpodautoscalers", "nodes"])
async def test_what_changes_nothing_that_is_done_is_not_waited_for_while_it_fails(only_told: str) -> None:
    async with following({only_told: 500}) as scene:
        async with asyncio.timeout(2.0):
            await scene.cluster.wait_synced()
            await scene.cluster.relist()
        assert any(only_told in denial for denial in scene.cluster.denials)


async def test_nodes_that_may_not_be_read_are_no_silence_of_the_server_and_pods_are() -> None:
    """An installation of one team has no right on nodes: HeadroomApiServerUnheard would never end."""
    async with following({"nodes": 403, "pods": 403}) as scene:
        await until(lambda: any("nodes" in denial for denial in scene.cluster.denials))
        heard = scene.cluster.staleness_s()
        assert "/api/v1/nodes" not in heard
        assert heard[PODS] == float("inf")
        scene.refused.clear()
        await until(lambda: scene.cluster.staleness_s().get("/api/v1/nodes", 99.0) < 1.0, 6.0)


async def test_a_server_that_fails_for_every_list_is_told_once_and_counted() -> None:
    """Eight lists and more are not heard, all of them by the one cause."""
    async with following() as scene:
        await scene.cluster.wait_synced()
        scene.server.always = status(500, "Unwell", "etcdserver: request timed out")
        scene.server.cut()
        told = r"not heard for .*: GET \S+: 500 .*etcdserver: request timed out; and so [789] more"
        await until(lambda: [bool(re.fullmatch(told, words)) for words in scene.cluster.silent(0.0)] == [True], 9.0)


async def test_nothing_is_scaled_while_nobody_knows_whether_it_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoscaler.adapters.kube.replicas.CUT_OFF_S", 0.1)
    async with following() as scene:
        await scene.cluster.wait_synced()
        scene.refused[FREEZES] = 500
        scene.server.cut()
        (claim,) = scene.cluster.claims
        await until(lambda: scene.cluster.cut_off_s(claim.ref) > 0.1, 6.0)
        await until(lambda: len(scene.cluster.problems(claim.ref)) == 1, 6.0)
        with pytest.raises(PortError, match="headroom-system/configmaps"):
            await scene.scale.read("prod/chat")


@pytest.mark.parametrize("refused", [{"pods": 403}, {"configmaps": 403}, {"horizontalpodautoscalers": 500}], ids=str)
async def test_pods_the_freeze_and_whoever_only_fails_are_waited_for(refused: dict[str, int]) -> None:
    async with following(refused) as scene:
        waiting = asyncio.create_task(scene.cluster.wait_synced())
        await until(lambda: any("Unwell" in words or "403" in words for words in scene.cluster.silent(60.0)))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        scene.refused.clear()
        async with asyncio.timeout(6.0):
            await waiting
        assert scene.cluster.silent(60.0) == ()


async def test_a_target_whose_pods_cannot_be_followed_says_why_and_since_when() -> None:
    async with following() as scene:
        await scene.cluster.wait_synced()
        (claim,) = scene.cluster.claims
        assert scene.cluster.problems(claim.ref) == ()
        assert (await scene.scale.read("prod/chat")).replicas.desired == 2
        scene.refused[PODS] = 500
        scene.server.cut()
        told = "not heard for 0 s: GET /api/v1/pods: 500 Unwell: User headroom cannot list resource pods"
        await until(lambda: [p.words for p in scene.cluster.problems(claim.ref)] == [told])


async def test_a_count_not_followed_for_long_is_not_read_and_the_reason_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autoscaler.adapters.kube.replicas.CUT_OFF_S", 0.1)
    async with following() as scene:
        await scene.cluster.wait_synced()
        scene.refused[DEPLOYMENTS] = 500
        scene.server.cut()
        (claim,) = scene.cluster.claims
        why = "GET /apis/apps/v1/deployments: 500 Unwell"
        await until(lambda: any(why in problem.words for problem in scene.cluster.problems(claim.ref)), 6.0)
        await until(lambda: scene.cluster.cut_off_s(claim.ref) > 0.1)
        with pytest.raises(PortError, match=rf"^prod/chat: not heard for \d s: {why}") as caught:
            await scene.scale.read("prod/chat")
        assert caught.value.fault is Fault.OUTDATED


def scaled_to(count: int) -> Handler:
    return answer(200, {"kind": "Scale", "metadata": {}, "spec": {"replicas": count}})


def deployment(scene: Scene, generation: int, replicas: int) -> None:
    scene.server.put("chat", path=DEPLOYMENTS, metadata={**ASKS, "generation": generation}, spec={"replicas": replicas})


async def counted(scene: Scene) -> int:
    """The count that is read once memory has the target as the server shows it."""
    (claim,) = scene.cluster.claims
    newest = scene.server.objects[DEPLOYMENTS]["prod/chat"]["metadata"]["resourceVersion"]
    await until(lambda: (found := scene.cluster.target(claim.ref)) and found.metadata.resource_version == newest)
    return (await scene.scale.read("prod/chat")).replicas.desired


@pytest.mark.parametrize("lost", [False, True], ids=["the patch is answered", "the count is read back"])
async def test_a_count_that_the_server_told_stands_until_memory_has_caught_up(lost: bool) -> None:
    async with following() as scene:
        await scene.cluster.wait_synced()
        deployment(scene, 1, 2)
        assert await counted(scene) == 2
        if lost:
            scene.server.script += [hang_up, scaled_to(4)]
            with pytest.raises(PortError):
                await scene.scale.patch("prod/chat", 2, 4)
        else:
            scene.server.script.append(scaled_to(4))
            assert await scene.scale.patch("prod/chat", 2, 4) is Patch.APPLIED
        assert await counted(scene) == 4
        deployment(scene, 1, 2)
        assert await counted(scene) == 4, "a status that was written before the patch"
        deployment(scene, 2, 4)
        assert await counted(scene) == 4
        deployment(scene, 3, 3)
        assert await counted(scene) == 3, "somebody's edit"


async def test_an_answer_about_a_target_that_was_made_anew_meanwhile_says_nothing_of_the_new_ones_count() -> None:
    """Both are of generation 1: four replicas would have been read where two stand, and nothing ordered."""
    async with following() as scene:
        await scene.cluster.wait_synced()
        deployment(scene, 1, 2)
        assert await counted(scene) == 2

        async def made_anew_first(request: Request, connection: Connection) -> None:
            scene.server.delete("chat", path=DEPLOYMENTS)
            await until(lambda: not list(scene.cluster.claims))
            scene.scale.forget("prod/chat")
            deployment(scene, 1, 2)
            await until(lambda: list(scene.cluster.claims))
            await scaled_to(4)(request, connection)

        scene.server.script.append(made_anew_first)
        await scene.scale.patch("prod/chat", 2, 4)
        assert await counted(scene) == 2


async def test_a_kind_that_keeps_its_count_elsewhere_is_asked_by_its_scale_each_time() -> None:
    async with following() as scene:
        await scene.cluster.wait_synced()
        scene.server.put("chat", path=DEPLOYMENTS, metadata=ASKS, spec={"size": 3})
        scene.server.script += [scaled_to(3), scaled_to(5)]
        assert [await counted(scene), await counted(scene)] == [3, 5]
        asked = [request.path for request in scene.server.requests if request.path.endswith("/scale")]
        assert asked == ["/apis/apps/v1/namespaces/prod/deployments/chat/scale"] * 2


async def test_while_all_is_frozen_no_patch_leaves_whoever_asks_for_it() -> None:
    async with following() as scene:
        await scene.cluster.wait_synced()
        scene.server.put("headroom-freeze", path=FREEZES, data={"freeze": "incident 7"})
        await until(lambda: scene.cluster.frozen)
        with pytest.raises(RefusedError, match="not sent"):
            await scene.scale.patch("prod/chat", 2, 4)
    assert {request.method for request in scene.server.requests} == {"GET"}


async def test_pods_of_a_gateway_are_followed_where_only_some_namespaces_are() -> None:
    """Without it a gateway elsewhere would never be asked, and its workloads never be woken from zero."""
    scope = replace(SCOPE, namespaces=("prod",), gateway_namespaces=("edge", "prod"))
    followed = Cluster(None, WallClock(), scope).staleness_s()  # type: ignore[arg-type] # nothing is asked here
    assert {path for path in followed if path.endswith("/pods")} == {
        "/api/v1/namespaces/prod/pods",
        "/api/v1/namespaces/edge/pods",
    }
    everywhere = Cluster(None, WallClock(), replace(scope, namespaces=())).staleness_s()  # type: ignore[arg-type]
    assert {path for path in everywhere if path.endswith("/pods")} == {"/api/v1/pods"}


async def test_what_fails_in_another_namespace_is_no_problem_here() -> None:
    async with following(scope=replace(SCOPE, namespaces=("prod", "test"))) as scene:
        await scene.cluster.wait_synced()
        (claim,) = scene.cluster.claims
        scene.refused["/api/v1/namespaces/test/pods"] = 500
        scene.server.cut()
        await until(lambda: any("namespaces/test/pods: 500" in words for words in scene.cluster.silent(0.0)))
        await until(lambda: scene.cluster.problems(claim.ref) == (), 6.0)
        assert any("namespaces/test/pods" in words for words in scene.cluster.silent(0.0)), "it fails all the while"


def asks(scene: Scene, name: str, made: str, most: str = "8", path: str = DEPLOYMENTS, **more: Any) -> None:
    """An annotated Deployment, or what is at `path`, that was made at this second of a minute."""
    annotations = {**ASKS["annotations"], "headroom.dev/max-replicas": most}
    metadata = {"annotations": annotations, "creationTimestamp": f"2026-11-23T10:00:{made}Z"} | more
    scene.server.put(name, path=path, metadata=metadata, spec={"replicas": 1})


def claimed(scene: Scene) -> set[str]:
    return {claim.ref.name for claim in scene.cluster.claims}


async def until_claimed(scene: Scene, names: set[str]) -> None:
    await until(lambda: claimed(scene) == names)


FULL: Final = replace(SCOPE, most=Most(of_namespace=2, in_all=3))


async def test_a_workload_too_many_is_told_so_and_taken_up_when_another_goes() -> None:
    async with following(scope=FULL) as scene:
        await scene.cluster.wait_synced()
        asks(scene, "first", "01")
        await until(lambda: claimed(scene) == {"chat", "first"})
        asks(scene, "third", "03")
        asks(scene, "second", "02")
        await until(lambda: scene.cluster.intake.waiting == 2)
        assert claimed(scene) == {"chat", "first"}
        told = {one.name: (one.reject, one.kind, one.message) for one in scene.cluster.rejections}
        assert set(told) == {"second", "third"}
        assert told["second"][:2] == (Reject.TOO_MANY, "Deployment")
        assert "at most 2 workloads of a namespace and 3 in all" in told["second"][2]
        scene.server.delete("first", path=DEPLOYMENTS)
        await until(lambda: claimed(scene) == {"chat", "second"})
        assert [one.name for one in scene.cluster.rejections] == ["third"]


async def test_a_slip_in_an_edit_and_a_target_that_is_made_anew_give_no_place_away() -> None:
    async with following(scope=FULL) as scene:
        await scene.cluster.wait_synced()
        scene.server.delete("chat", path=DEPLOYMENTS)
        scene.server.put("code", path=DEPLOYMENTS, spec={"replicas": 1})
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "code"}
        scene.server.put("code", path=POLICIES, spec={"targetRef": target})
        asks(scene, "chat", "30")
        await until(lambda: claimed(scene) == {"chat", "code"})
        asks(scene, "waits", "01")
        asks(scene, "chat", "30", most="none")
        await until(lambda: {one.reject for one in scene.cluster.rejections} == {Reject.TOO_MANY, Reject.INVALID})
        asks(scene, "chat", "30")
        await until(lambda: claimed(scene) == {"chat", "code"})
        scene.server.put("code", path=POLICIES, spec={"targetRef": target, "maxReplicas": 0})
        await until(lambda: {one.reject for one in scene.cluster.rejections} == {Reject.TOO_MANY, Reject.INVALID})
        scene.server.put("code", path=POLICIES, spec={"targetRef": target})
        await until(lambda: claimed(scene) == {"chat", "code"})
        scene.server.delete("code", path=DEPLOYMENTS)
        await until(lambda: {one.reject for one in scene.cluster.rejections} == {Reject.TOO_MANY, Reject.NO_TARGET})
        scene.server.put("code", path=DEPLOYMENTS, spec={"replicas": 1})
        await until(lambda: claimed(scene) == {"chat", "code"})
        scene.server.delete("code", path=POLICIES)
        await until(lambda: claimed(scene) == {"chat", "waits"})


async def test_an_object_that_is_aimed_elsewhere_stands_in_line_before_the_place_that_it_leaves_is_given_away() -> None:
    async with following(scope=FULL) as scene:
        await scene.cluster.wait_synced()
        scene.server.delete("chat", path=DEPLOYMENTS)
        for number in range(8):
            scene.server.put(f"code-{number}", path=DEPLOYMENTS, spec={"replicas": 1})
        asks(scene, "young", "30")
        made = {"creationTimestamp": "2026-11-23T09:00:00Z"}
        for number in range(8):
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"code-{number}"}
            scene.server.put("code", path=POLICIES, metadata=made, spec={"targetRef": target})
            await until_claimed(scene, {"young", f"code-{number}"})
            asks(scene, "waits", "59")
            await until(lambda: scene.cluster.intake.waiting == 1)


async def test_whoever_leads_next_takes_up_what_was_decided_on_whatever_came_first_in_a_list() -> None:
    async with following(scope=FULL) as scene:
        await scene.cluster.wait_synced()
        for name, made in (("a", "30"), ("b", "10"), ("c", "20")):
            asks(scene, name, made)
        await until(lambda: scene.cluster.intake.waiting == 2)
        scene.cluster.settle({"prod/c"})
        assert claimed(scene) == {"c", "chat"}, "chat does not say when it was made, which counts as the oldest"
        scene.cluster.settle(frozenset())
        assert claimed(scene) == {"chat", "b"}


async def test_whoever_may_ask_in_a_list_that_is_refused_while_somebody_begins_to_lead_keeps_his_place() -> None:
    """Two of three places are of workloads whose Deployments may not be read yet; older ones of another kind came."""
    refused = {"deployments": 403}
    kinds = (*SCOPE.kinds, Kind("apps", "v1", "statefulsets", "StatefulSet"))
    async with following(refused, scope=replace(SCOPE, kinds=kinds, most=Most(of_namespace=3, in_all=3))) as scene:
        await scene.cluster.wait_synced()
        scene.cluster.settle({"prod/chat", "prod/gone"})
        for name, made in (("a", "10"), ("b", "20")):
            asks(scene, name, made, path=SETS)
        await until(lambda: claimed(scene) == {"a"} and scene.cluster.intake.waiting == 1)
        scene.refused.clear()
        await until(lambda: claimed(scene) == {"a", "b", "chat"})
        assert scene.cluster.intake.keeps == 0, "nothing else has to happen"


async def test_a_place_that_is_kept_for_whom_nobody_may_read_any_more_is_given_on_after_an_hour_and_said_until_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deployments may not be listed for good; the places of two, one of which is gone, were kept as long as one led."""
    monkeypatch.setattr("autoscaler.adapters.kube.cluster.KEPT_S", 0.5)
    kinds = (*SCOPE.kinds, Kind("apps", "v1", "statefulsets", "StatefulSet"))
    most = Most(of_namespace=3, in_all=3)
    async with following({"deployments": 403}, scope=replace(SCOPE, kinds=kinds, most=most)) as scene:
        await scene.cluster.wait_synced()
        for name in ("a", "b", "c", "d"):
            asks(scene, name, "10", path=SETS)
        await until(lambda: scene.cluster.intake.waiting == 1)
        scene.cluster.settle({"prod/chat", "prod/gone"})
        assert (len(claimed(scene)), scene.cluster.intake.waiting) == (1, 3)
        words = [one.message for one in scene.cluster.rejections if one.reject is Reject.TOO_MANY]
        told = "some are kept, for an hour at most, for workloads that had one and cannot be read now"
        assert [told in each for each in words] == [True] * 3
        await until(lambda: (len(claimed(scene)), scene.cluster.intake.waiting) == (3, 1))
        (left,) = (one.message for one in scene.cluster.rejections if one.reject is Reject.TOO_MANY)
        assert "are kept" not in left


async def test_without_checkpoints_whoever_leads_next_takes_up_whose_objects_show_that_they_were() -> None:
    """Three older ones ask since: one that nobody scaled, one that only others did, one that asked in vain before."""
    async with following(scope=replace(SCOPE, most=Most(of_namespace=2, in_all=3))) as scene:
        await scene.cluster.wait_synced()
        scene.server.delete("chat", path=DEPLOYMENTS)
        ours, theirs = scaled_by("headroom", "scale"), [*scaled_by("kubectl", "scale"), *scaled_by("headroom", "")]
        asks(scene, "never", "01")
        asks(scene, "by-others", "02", managedFields=theirs)
        scene.server.put("in-vain", path=DEPLOYMENTS, spec={"replicas": 1})
        policied(scene, "in-vain", "03", status="False")
        scene.server.put("watched", path=DEPLOYMENTS, spec={"replicas": 1})
        policied(scene, "watched", "50", status="True")
        asks(scene, "scaled", "40", managedFields=[*theirs, *ours])
        await until(lambda: scene.cluster.intake.waiting == 3)
        scene.cluster.settle(frozenset())
        assert claimed(scene) == {"scaled", "watched"}
        scene.cluster.settle({"prod/by-others"})
        assert claimed(scene) == {"by-others", "scaled"}, "what checkpoints say goes before"
        asks(scene, "scaled", "40", managedFields=theirs)
        (claim,) = (each for each in scene.cluster.claims if each.ref.name == "scaled")
        await until(lambda: (now := scene.cluster.target(claim.ref)) is not None and not now.scaled_by_us)
        scene.cluster.settle(frozenset())
        assert claimed(scene) == {"watched", "never"}


async def test_without_checkpoints_whoever_leads_next_takes_up_those_whose_hpa_was_told_a_number_through_keda() -> None:
    """Older ones ask since: one without an HPA yet, one whose HPA never got an answer. One got its answers long ago."""
    scope = replace(SCOPE, most=Most(of_namespace=2, in_all=2), keda_addresses=frozenset({US}))
    async with following(scope=scope) as scene:
        await scene.cluster.wait_synced()
        scene.server.delete("chat", path=DEPLOYMENTS)
        through_keda(scene, "young", "01")
        through_keda(scene, "unanswered", "02", active="False")
        through_keda(scene, "served", "50", active="True")
        through_keda(scene, "before-an-outage", "40", active="False", lastScaleTime="2026-11-22T10:00:00Z")
        await until(lambda: scene.cluster.intake.waiting == 2)
        await until(
            lambda: all(scene.cluster.hpas.of("prod", name) for name in ("unanswered", "served", "before-an-outage"))
        )
        scene.cluster.settle(frozenset())
        assert claimed(scene) == {"served", "before-an-outage"}


def through_keda(scene: Scene, name: str, made: str, active: str = "", **status: Any) -> None:
    """A Deployment that a ScaledObject asks for, and KEDA's HPA where `active` says whether it has a number."""
    scene.server.put(name, path=DEPLOYMENTS, spec={"replicas": 1})
    created = {"creationTimestamp": f"2026-11-23T10:00:{made}Z"}
    trigger = {"type": "external", "metadata": {"scalerAddress": US}}
    spec = {"scaleTargetRef": {"name": name}, "triggers": [trigger], "minReplicaCount": 1}
    scene.server.put(name, path=SCALED_OBJECTS, metadata=created, spec=spec)
    if active:
        scene.server.put(
            f"keda-hpa-{name}", path=HPAS, metadata={"ownerReferences": [{"kind": "ScaledObject", "name": name}]},
            spec={"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
            status={"conditions": [{"type": "ScalingActive", "status": active}], **status},
        )  # fmt: skip


def scaled_by(manager: str, subresource: str) -> list[dict[str, Any]]:
    """The managedFields of an object whose count somebody wrote, as the API server shows them."""
    fields = {"apiVersion": "apps/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    return [{"manager": manager, "subresource": subresource, "operation": "Update", **fields}]


def policied(scene: Scene, name: str, made: str, *, status: str) -> None:
    """A ScalingPolicy for a Deployment, with the word of an earlier leader in its status."""
    told = [{"type": "Active", "status": "False"}, {"type": "Ready", "status": status, "reason": "Claimed"}]
    scene.server.put(
        name, path=POLICIES, metadata={"creationTimestamp": f"2026-11-23T10:00:{made}Z"},
        spec={"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
        status={"conditions": told},
    )  # fmt: skip


async def test_what_is_asked_for_in_vain_when_somebody_begins_to_lead_stands_in_no_line() -> None:
    async with following(scope=FULL) as scene:
        await scene.cluster.wait_synced()
        asks(scene, "slip", "30")
        await until(lambda: claimed(scene) == {"chat", "slip"})
        asks(scene, "slip", "30", most="none")
        asks(scene, "waits", "40")
        await until(lambda: claimed(scene) == {"chat"} and scene.cluster.intake.waiting == 1)
        scene.cluster.settle({"prod/chat", "prod/waits"})
        assert claimed(scene) == {"chat", "waits"}
        assert scene.cluster.intake.waiting == 0
        scene.server.delete("waits", path=DEPLOYMENTS)
        asks(scene, "late", "50")
        await until(lambda: claimed(scene) == {"chat", "late"})
