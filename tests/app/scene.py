"""A followed cluster of plain values around `Workloads`, and a driver and a scraper that remember."""

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from autoscaler.adapters.engines.profiles import Profile
from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.discovery import Resolution
from autoscaler.adapters.kube.limits import Quota
from autoscaler.adapters.kube.membership import Membership
from autoscaler.adapters.kube.meta import Condition, Meta, Owner
from autoscaler.adapters.kube.pods import Container, Pod, PodSpec, PodStatus, Port, Resources
from autoscaler.adapters.kube.replicas import News
from autoscaler.adapters.kube.scaling import Target as Object
from autoscaler.adapters.kube.scaling import TargetMeta, TargetSpec, Template
from autoscaler.api.annotations import read_annotations
from autoscaler.api.claims import Claim, Doubt, Obstacle, TargetRef, Way
from autoscaler.api.modes import Mode
from autoscaler.app.guard import Guard
from autoscaler.app.pool_leads import NextStart
from autoscaler.app.workloads import Choices, Workloads
from autoscaler.core.types import ReplicaReading
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.target import Target
from autoscaler.settings.parts import Gateway

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
        self.doubted: Doubt | None = None
        self.template: Template | None = Template(PodSpec(containers=(ENGINE,)))

    def resolution(self, key: str) -> Resolution:
        return Resolution(self.claims.get(key))

    def target(self, ref: TargetRef) -> Object:
        return Object(TargetMeta("chat", "prod", ref.uid), TargetSpec(2, self.template))

    def reading(self, ref: TargetRef, desired: int) -> ReplicaReading:
        return self.members.reading(ref, desired)

    def limits_of(self, namespace: str) -> tuple[list[Quota], list[Any]]:
        return self.quotas, []

    def doubt(self, claim: Claim) -> Doubt | None:
        return self.doubted

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

    def unlearn(self, name: str) -> None:
        del self.profiles[name]
        assert not [target for target in self.targets.values() if target.profile == name]

    def drop(self, uid: str) -> None:
        self.targets.pop(uid, None)

    def forget(self, workload: str) -> None:
        self.targets = {uid: target for uid, target in self.targets.items() if target.workload != workload}


class Scene:
    """Workloads over all of these."""

    def __init__(self, default_mode: Mode = Mode.ACTIVE, **gateways: Gateway) -> None:
        self.cluster, self.driver, self.pages, self.news = Followed(), Driven(), Asked(), News()
        self.lead: NextStart | None = None
        self.workloads = Workloads(
            cluster=self.cluster,  # type: ignore[arg-type]  # the parts of it that are used
            driver=self.driver,
            pages=self.pages,
            clock=ScaledClock(1.0),
            choices=Choices(default_mode, ("nvidia.com/gpu",), MappingProxyType(gateways)),
            news=self.news,
            guard=Guard(ScaledClock(1.0)),
            lead=lambda _: self.lead,
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
