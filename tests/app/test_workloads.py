"""From a claim to what is stepped and whose pages are asked, on a followed cluster of plain values."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest

from autoscaler.adapters.engines.profiles import Profile
from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.discovery import Resolution
from autoscaler.adapters.kube.limits import Quota, QuotaStatus
from autoscaler.adapters.kube.membership import Membership
from autoscaler.adapters.kube.meta import Condition, Meta, Owner
from autoscaler.adapters.kube.pods import Container, Pod, PodSpec, PodStatus, Port, Resources
from autoscaler.adapters.kube.replicas import News
from autoscaler.adapters.kube.scaling import Target as Object
from autoscaler.adapters.kube.scaling import TargetSpec, Template
from autoscaler.api.annotations import read_annotations
from autoscaler.api.claims import Block, Claim, Obstacle, TargetRef, Way
from autoscaler.api.modes import Mode, Tier
from autoscaler.app.guard import Guard
from autoscaler.app.workloads import Choices, Workloads
from autoscaler.errors import InputError
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.target import Target
from autoscaler.settings.parts import Gateway

pytestmark = pytest.mark.looptime(noop_cycles=1)

KEY = "prod/chat"
REF = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "t1")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ENGINE = Container("engine", (Port("metrics", 8000),), Resources({"nvidia.com/gpu": "2"}))
GATEWAY = Gateway(namespace="edge", selector="app=epp", port=9090)


def claim(obstacle: Obstacle | None = None, **settings: str) -> Claim:
    given = {f"headroom.dev/{name.replace('_', '-')}": value for name, value in settings.items()}
    spec = read_annotations(given | {"headroom.dev/scale": "true"})
    assert spec is not None
    return Claim(REF, spec, Way.ANNOTATION, None, 1, obstacle)


def pod(name: str, ip: str = "127.0.0.5", *, ready: bool = True, namespace: str = "prod", **labels: str) -> Pod:
    owner = Owner("apps/v1", "ReplicaSet", "chat-7d9", "rs", controller=True)
    meta = Meta(
        name, namespace, f"uid-{name}", creation_timestamp=NOON, labels={"pod-template-hash": "7d9", **labels},
        owner_references=(owner,),
    )  # fmt: skip
    conditions = (Condition("Ready", "True" if ready else "False", last_transition_time=NOON),)
    return Pod(meta, PodSpec(containers=(ENGINE,)), PodStatus("Running", ip, conditions))


class Followed:
    """What a followed cluster says."""

    def __init__(self) -> None:
        self.members = Membership()
        self.claims: dict[str, Claim] = {}
        self.quotas: list[Quota] = []
        self.everything: list[Pod] = []
        self.template: Template | None = Template(PodSpec(containers=(ENGINE,)))

    def resolution(self, key: str) -> Resolution:
        return Resolution(self.claims.get(key))

    def target(self, ref: TargetRef) -> Object:
        return Object(Meta("chat", "prod", ref.uid), TargetSpec(2, None, self.template))

    def limits_of(self, namespace: str) -> tuple[list[Quota], list[Any]]:
        return self.quotas, []

    def pods(self) -> list[Pod]:
        return self.everything

    def add(self, *pods: Pod) -> None:
        for found in pods:
            self.members.note(Change(found.metadata.key, None, found))


class Driven:
    """A driver that remembers."""

    def __init__(self) -> None:
        self.targets: dict[str, Target] = {}
        self.removed: list[str] = []

    def put(self, target: Target) -> None:
        self.targets[target.name] = target

    def remove(self, name: str) -> None:
        del self.targets[name]
        self.removed.append(name)


class Asked:
    """A scraper that remembers."""

    def __init__(self) -> None:
        self.targets: dict[str, ScrapeTarget | GatewayTarget] = {}
        self.profiles: dict[str, Profile] = {}
        self.endpoints: dict[str, str | None] = {}

    def put(self, target: ScrapeTarget | GatewayTarget) -> None:
        self.targets[target.uid] = target

    def stand_behind(self, workload: str, endpoint: str | None) -> None:
        self.endpoints[workload] = endpoint

    def learn(self, profile: Profile) -> None:
        self.profiles[profile.name] = profile

    def drop(self, uid: str) -> None:
        self.targets.pop(uid, None)

    def forget(self, workload: str) -> None:
        self.targets = {uid: target for uid, target in self.targets.items() if target.workload != workload}


class Scene:
    """Workloads over all of these."""

    def __init__(self, default_mode: Mode = Mode.ACTIVE, **gateways: Gateway) -> None:
        self.cluster, self.driver, self.pages, self.news = Followed(), Driven(), Asked(), News()
        self.workloads = Workloads(
            cluster=self.cluster,  # type: ignore[arg-type]  # the parts of it that are used
            driver=self.driver,
            pages=self.pages,
            clock=ScaledClock(1.0),
            choices=Choices(default_mode, ("nvidia.com/gpu",), MappingProxyType(gateways)),
            news=self.news,
            guard=Guard(ScaledClock(1.0)),
        )

    def claimed(self, made: Claim | None) -> None:
        if made is None:
            self.cluster.claims.pop(KEY, None)
        else:
            self.cluster.claims[KEY] = made
        self.workloads.on_claim(KEY)

    @property
    def target(self) -> Target:
        return self.driver.targets[KEY]


async def test_a_claim_becomes_a_target_with_its_policy_tier_gpus_and_mode() -> None:
    scene = Scene()
    scene.claimed(claim(max_replicas="7", tier="critical"))
    found = scene.target
    assert (found.params.max_replicas, found.tier, found.gpus_per_replica, found.mode) == (
        7,
        Tier.CRITICAL,
        2,
        Mode.ACTIVE,
    )


async def test_a_claim_that_meets_a_bug_is_driven_no_more_and_takes_nobody_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = Scene()
    scene.claimed(claim())
    with monkeypatch.context() as patch:
        patch.setattr("autoscaler.app.workloads.gpus", lambda *_: 1 // 0)
        scene.claimed(claim(mode="Paused"))
        scene.claimed(claim(mode="Paused"))
    assert scene.driver.targets == {}, "as it was before its edit it would still be acted upon"
    assert capsys.readouterr().out.count("ZeroDivisionError") == 1
    scene.claimed(claim(mode="Paused"))
    assert scene.target.mode is Mode.PAUSED


async def test_a_policys_own_gpu_count_is_believed_over_the_template() -> None:
    scene = Scene()
    scene.claimed(claim(gpus_per_replica="8"))
    assert scene.target.gpus_per_replica == 8


async def test_an_obstacle_leaves_nothing_but_watching() -> None:
    scene = Scene()
    scene.claimed(claim(Obstacle(Block.HPA, "an HPA sets it too"), mode="Active"))
    assert scene.target.mode is Mode.SHADOW


async def test_what_keda_asks_for_is_driven_in_its_mode_and_never_patched() -> None:
    scene = Scene()
    scene.claimed(claim(mode="Active"))
    assert not scene.target.told
    scene.claimed(replace(claim(mode="Active"), way=Way.SCALED_OBJECT, scaled_object="chat"))
    assert (scene.target.told, scene.target.mode) == (True, Mode.ACTIVE)


async def test_the_default_mode_holds_where_the_policy_gives_none() -> None:
    scene = Scene(Mode.SHADOW)
    scene.claimed(claim())
    assert scene.target.mode is Mode.SHADOW


async def test_a_mode_ends_at_its_time_without_any_event() -> None:
    scene = Scene()
    scene.claimed(claim(mode="Paused", mode_until="1970-01-01T00:00:30Z", mode_after="Active"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        clock = ScaledClock(1.0)
        seen = []
        for at_s in (29.0, 31.5):
            await clock.sleep_until(at_s)
            seen.append(scene.target.mode)
        running.cancel()
    assert seen == [Mode.PAUSED, Mode.ACTIVE]


async def test_only_ready_pods_of_the_target_are_asked_and_those_that_go_no_more() -> None:
    scene = Scene()
    scene.cluster.add(pod("a", "127.0.0.5"), pod("b", "127.0.0.6", ready=False))
    scene.claimed(claim(engine="sglang", metrics_path="/m"))
    (asked,) = scene.pages.targets.values()
    assert isinstance(asked, ScrapeTarget)
    assert (asked.ip, asked.port, asked.path, asked.profile) == ("127.0.0.5", 8000, "/m", "sglang")
    scene.cluster.members.note(Change("prod/a", pod("a"), None))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        scene.workloads.on_pods(KEY)
        await asyncio.sleep(0.1)
        running.cancel()
    assert scene.pages.targets == {}


async def test_a_pod_that_served_is_asked_for_as_long_as_it_runs() -> None:
    scene = Scene()
    scene.cluster.add(pod("a", "127.0.0.5"), pod("b", "127.0.0.6", ready=False))
    scene.claimed(claim())
    scene.cluster.members.note(Change("prod/a", pod("a"), pod("a", "127.0.0.5", ready=False)))
    scene.claimed(claim())
    assert [(t.pod, t.ready_since_s) for t in scene.pages.targets.values() if isinstance(t, ScrapeTarget)] == [
        ("a", None)
    ], "b never served"
    left = pod("a", ready=False)
    over = Pod(left.metadata, left.spec, PodStatus("Failed", "127.0.0.5"))
    scene.cluster.members.note(Change("prod/a", pod("a"), over))
    scene.claimed(claim())
    assert scene.pages.targets == {}


async def test_a_thousand_changes_of_pods_are_one_look() -> None:
    scene = Scene()
    scene.claimed(claim())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scene.workloads.run())
        for index in range(1000):
            scene.cluster.add(pod(f"p{index}", f"127.1.{index // 250}.{index % 250 + 1}"))
            scene.workloads.on_pods(KEY)
        await asyncio.sleep(0.1)
        running.cancel()
    assert len(scene.pages.targets) == 1000
    assert [await anext(scene.news.changes())] == [KEY]


async def test_a_quota_becomes_a_limit_and_goes_with_it() -> None:
    scene, seen = Scene(), []
    scene.cluster.add(pod("a"))
    scene.claimed(claim())
    hard, used = {"requests.nvidia.com/gpu": "8"}, {"requests.nvidia.com/gpu": "2"}
    quota = Quota(Meta("q", "prod"), status=QuotaStatus(dict(hard), dict(used)))
    for quotas in ([], [quota], []):
        scene.cluster.quotas = quotas
        scene.workloads.on_limits("prod")
        seen.append(scene.target.limits.quota_replicas)
    assert seen == [None, 4, None]


async def test_a_quota_whose_count_is_ahead_of_the_pods_orders_no_replica_away() -> None:
    scene = Scene()
    scene.cluster.add(pod("a"))
    hard = {"requests.nvidia.com/gpu": "4"}
    scene.cluster.quotas = [Quota(Meta("q", "prod"), status=QuotaStatus(dict(hard), dict(hard)))]
    scene.claimed(claim())
    assert scene.target.limits.quota_replicas == 2, "both that are asked for, though one pod has not been seen yet"


async def test_the_gateways_pods_are_asked_for_every_workload_behind_it() -> None:
    scene = Scene(edge=GATEWAY)
    scene.cluster.everything = [pod("g", "127.0.0.9", namespace="edge", app="epp"), pod("x", namespace="edge", app="y")]
    scene.claimed(claim(gateway="edge"))
    fronting = [t for t in scene.pages.targets.values() if isinstance(t, GatewayTarget)]
    assert [(t.ip, t.port, t.namespace, t.pool) for t in fronting] == [("127.0.0.9", 9090, "prod", "chat")]
    gone = scene.cluster.everything[0]
    scene.workloads.on_gateway(Change(gone.metadata.key, gone, None))
    assert not [t for t in scene.pages.targets.values() if isinstance(t, GatewayTarget)]


async def test_a_claim_that_goes_takes_its_target_and_its_pages_with_it() -> None:
    scene = Scene(edge=GATEWAY)
    scene.cluster.add(pod("a"))
    scene.cluster.everything = [pod("g", "127.0.0.9", namespace="edge", app="epp")]
    scene.claimed(claim(gateway="edge"))
    scene.claimed(None)
    assert (scene.driver.targets, scene.pages.targets, dict(scene.workloads.driven)) == ({}, {}, {})


async def test_a_target_made_anew_begins_afresh() -> None:
    scene = Scene()
    scene.claimed(claim())
    scene.claimed(replace(claim(), ref=replace(REF, uid="t2")))
    assert scene.driver.removed == [KEY]
    assert KEY in scene.driver.targets


async def test_a_gateway_whose_selector_cannot_be_read_is_refused_at_the_start() -> None:
    with pytest.raises(InputError, match="label selector"):
        Scene(edge=Gateway(namespace="edge", selector="app in (a)", port=1))


async def test_the_prometheus_that_a_policy_names_stands_behind_its_pods_and_follows_its_edits() -> None:
    scene = Scene()
    scene.claimed(claim(prometheus="main"))
    assert scene.pages.endpoints == {KEY: "main"}
    scene.claimed(claim())
    assert scene.pages.endpoints == {KEY: None}
