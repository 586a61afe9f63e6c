"""What was read of a cluster is believed for ten seconds after it was heard last, and what is not done after that."""

from typing import Any, Final

import pytest

from autoscaler.api.claims import Claim, Doubt
from tests.kube.clients import until
from tests.kube.fakeserver import PODS
from tests.kube.test_cluster import DEPLOYMENTS, HPAS, Scene, following

POLICIES: Final = "/apis/headroom.dev/v1alpha1/scalingpolicies"
OBJECTS: Final = "/apis/keda.sh/v1alpha1/scaledobjects"
QUOTAS: Final = "/api/v1/resourcequotas"
RANGES: Final = "/api/v1/limitranges"
VPAS: Final = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
POLICY: Final = {"targetRef": {"kind": "Deployment", "name": "chat"}, "mode": "Active"}

Cut = tuple[str, int, bool | None, bool | None]
"""What is refused with which status, and the doubt in a claim by policy and by annotation."""

STILL, KEPT, NOTHING = True, False, None
CUT: Final[dict[str, Cut]] = {
    "the policies": (POLICIES, 500, STILL, NOTHING),
    "the policies, which we may read no more": (POLICIES, 403, STILL, NOTHING),
    "the HPAs": (HPAS, 500, KEPT, KEPT),
    "the HPAs, which we may read no more": (HPAS, 403, NOTHING, NOTHING),
    "the ScaledObjects": (OBJECTS, 500, KEPT, KEPT),
    "the quotas": (QUOTAS, 500, KEPT, KEPT),
    "the limit ranges": (RANGES, 500, KEPT, KEPT),
    "the VPAs, which are only told of": (VPAS, 500, NOTHING, NOTHING),
    "the targets": (DEPLOYMENTS, 500, NOTHING, STILL),
}


async def claimed(scene: Scene, *, by_policy: bool) -> Claim:
    await scene.cluster.wait_synced()
    if by_policy:
        scene.server.put("chat-policy", path=POLICIES, metadata={"uid": "p1"}, spec=POLICY)
        await until(lambda: any(claim.policy for claim in scene.cluster.claims), 6.0)
    (claim,) = scene.cluster.claims
    return claim


@pytest.mark.parametrize("by_policy", [True, False], ids=["claimed by a policy", "claimed by annotation"])
@pytest.mark.parametrize("cut", CUT.values(), ids=CUT.keys())
async def test_lists_that_break_after_the_first_leave_what_they_told_only_for_a_while(
    cut: Cut, by_policy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoscaler.adapters.kube.followed.BELIEVED_S", 0.5)
    path, code, *expected = cut
    async with following() as scene:
        claim = await claimed(scene, by_policy=by_policy)
        assert scene.cluster.doubt(claim) is None
        scene.refused[path] = code
        scene.server.cut()
        await until(lambda: any(path in words for words in (*scene.cluster.silent(0.6), *scene.cluster.denials)), 6.0)
        degree = expected[0] if by_policy else expected[1]
        await until(lambda: settled(doubt(scene, claim), degree, path), 6.0)
        found = doubt(scene, claim)
        assert found is None or remedy(code, path) in found.remedy
        assert found is None or found.words.endswith("nothing is done" if found.still else "nothing is taken away")
        scene.refused.clear()
        await until(lambda: doubt(scene, claim) is None, 6.0)


async def test_what_the_server_never_served_leaves_no_doubt_when_an_outage_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without KEDA there are no ScaledObjects; they are looked for again only now and then."""
    monkeypatch.setattr("autoscaler.adapters.kube.followed.BELIEVED_S", 0.3)
    async with following() as scene:
        del scene.server.objects[OBJECTS]
        claim = await claimed(scene, by_policy=False)
        (objects,) = scene.cluster._followed.scaled_objects
        scene.server.cut()
        await until(lambda: objects.absent, 6.0)
        scene.refused[OBJECTS] = 500
        objects.relist()
        await until(lambda: objects.cut_off_s() > 0.3, 6.0)
        await until(lambda: doubt(scene, claim) is None, 6.0)
        assert objects.cut_off_s() > 0.3


def settled(found: Doubt | None, degree: bool | None, path: str) -> bool:
    """Whether what is doubted is only what is refused: lists cut beside it are doubted until they are heard again."""
    return degree is None if found is None else found.still is degree and path in found.cause


def remedy(code: int, path: str) -> str:
    """What the remedy for a resource that is refused with `code` must say."""
    plural = path.rsplit("/", 1)[-1]
    granted = "helm upgrade restores the chart's roles; without the chart kubectl apply -f config/rbac"
    return f"{plural}: {granted}" if code == 403 else f"kubectl get --raw '{path}?limit=1'"


def doubt(scene: Scene, claim: Claim) -> Doubt | None:
    return scene.cluster.doubt(claim)


def cannot_be_read(**metadata: Any) -> dict[str, Any]:
    """A pod whose containers are no list."""
    template = {"pod-template-hash": "7d9"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-7d9", "uid": "rs", "controller": True}
    return {
        "path": PODS, "metadata": {"labels": template, "ownerReferences": [owner], **metadata},
        "spec": {"containers": "none"},
    }  # fmt: skip


async def test_a_pod_that_cannot_be_read_is_there_and_takes_no_replica_away() -> None:
    async with following() as scene:
        claim = await claimed(scene, by_policy=False)
        assert (await scene.scale.read("prod/chat")).replicas.ready == 0
        scene.server.put("chat-1", **cannot_be_read())
        await until(lambda: doubt(scene, claim) is not None, 6.0)
        found = doubt(scene, claim)
        assert found is not None
        assert found.still is False
        assert "prod/chat-1 cannot be read" in found.cause
        assert found.remedy == "mend the object: kubectl -n prod get pods chat-1 -o yaml"
        assert (await scene.scale.read("prod/chat")).replicas.ready == 1, "its silence counts"
        scene.server.put("other-1", **cannot_be_read(ownerReferences=[]))
        await until(lambda: len(scene.cluster._followed.pods[0].unread) == 2, 6.0)
        assert (await scene.scale.read("prod/chat")).replicas.ready == 1
