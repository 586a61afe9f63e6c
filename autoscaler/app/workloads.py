"""From claims to what the driver steps and the scraper asks: one workload at a time, as news of it comes.

Enters: news from a followed cluster. Leaves: targets for the driver, pods and gateways for the scraper. What a policy
says is translated here and nowhere else; what is right is the core's.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from autoscaler.adapters.engines.profiles import Profile, custom
from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.membership import ended, serving_since_s
from autoscaler.adapters.kube.pods import Pod, PodSpec
from autoscaler.adapters.kube.replicas import News
from autoscaler.adapters.kube.selectors import matches
from autoscaler.adapters.kube.shapes import gpus, metrics_port, quota_replicas
from autoscaler.api.claims import Claim, Way
from autoscaler.api.modes import Mode
from autoscaler.api.policy import compile_params
from autoscaler.app.guard import Guard
from autoscaler.core.types import Limits
from autoscaler.ports import Clock
from autoscaler.runtime.target import Target
from autoscaler.settings.parts import Gateway

MODES_EVERY_S: Final = 1.0
"""How late a mode may end."""

GATHER_S: Final = 0.02
"""Changes of pods are gathered for this long: a thousand pods of one workload are then a few passes over them."""


class Driver(Protocol):
    """What is told of targets."""

    def put(self, target: Target) -> None:
        """Add a workload or change it."""
        ...

    def remove(self, name: str) -> None:
        """Forget a workload."""
        ...


class Pages(Protocol):
    """What is told whose metrics to ask."""

    def put(self, target: ScrapeTarget | GatewayTarget) -> None:
        """Ask this target from now on."""
        ...

    def learn(self, profile: Profile) -> None:
        """Know a profile from now on."""
        ...

    def stand_behind(self, workload: str, endpoint: str | None) -> None:
        """Ask this Prometheus, if the settings name it, when the workload's pods cannot be asked."""
        ...

    def drop(self, uid: str) -> None:
        """Ask it no more."""
        ...

    def forget(self, workload: str) -> None:
        """Ask nobody of this workload any more."""
        ...


@dataclass(frozen=True, slots=True)
class Choices:
    """What the administrator set that concerns single workloads."""

    default_mode: Mode
    gpu_resources: tuple[str, ...]
    gateways: Mapping[str, Gateway]


class Workloads:
    """Keeps driver and scraper in step with the claims. Its `on_` methods are the cluster's hooks."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        driver: Driver,
        pages: Pages,
        clock: Clock,
        choices: Choices,
        news: News,
        guard: Guard,
    ) -> None:
        for gateway in choices.gateways.values():
            matches(gateway.selector, {})  # a selector that cannot be read must not wait for the first pod to say so
        self._cluster = cluster
        self._driver = driver
        self._pages = pages
        self._clock = clock
        self._choices = choices
        self._news = news
        self._guard = guard
        self._driven: dict[str, Claim] = {}
        self._asked: dict[str, set[str]] = {}
        """Workload -> UIDs of the pods whose pages are asked."""
        self._fronted: dict[str, set[str]] = {}
        """Gateway name -> the workloads behind it."""
        self._limited: dict[str, set[str]] = {}
        """Namespace -> its workloads."""
        self._moved: dict[str, None] = {}
        self._bell = asyncio.Event()

    @property
    def driven(self) -> Mapping[str, Claim]:
        """The claims in force, by workload."""
        return self._driven

    def on_claim(self, key: str) -> None:
        """A claim came, changed or went. One that cannot be taken is not acted upon, not even as it was before."""
        if not self._guard.run(key, partial(self._take, key)) and key in self._driven:
            with suppress(KeyError):  # it may never have come as far as the driver
                self._forget(key, self._driven[key])

    def _take(self, key: str) -> None:
        claim = self._cluster.resolution(key).claim
        before = self._driven.get(key)
        if before is not None and (claim is None or claim.ref.uid != before.ref.uid):
            self._forget(key, before)
        if claim is None:
            return
        self._driven[key] = claim
        self._limited.setdefault(claim.ref.namespace, set()).add(key)
        if before is not None and before.spec.gateway and before.spec.gateway != claim.spec.gateway:
            self._leave(key, before.spec.gateway)
        if claim.spec.gateway is not None and claim.spec.gateway in self._choices.gateways:
            self._front(key, claim.spec.gateway)
        self._pages.stand_behind(key, claim.spec.prometheus)
        self._aim(key, claim)
        self._ask(key, claim)

    def on_pods(self, key: str) -> None:
        """Pods or the count of a workload changed; a rollout's many changes are looked at together."""
        self._moved[key] = None
        self._bell.set()

    async def run(self) -> None:
        """Pass on what changed of pods, and end modes at their time; until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._move(), name="pods")
            group.create_task(self._end_modes(), name="modes")

    async def _move(self) -> None:
        while True:
            await self._bell.wait()
            self._bell.clear()
            moved, self._moved = self._moved, {}
            for key in moved:
                self._guard.run(key, partial(self._look, key))
            await self._clock.sleep_until(self._clock.monotonic() + GATHER_S)

    def _look(self, key: str) -> None:
        claim = self._driven.get(key)
        if claim is not None:
            self._ask(key, claim)
            self._aim(key, claim)
            self._news.tell(key)

    def on_limits(self, namespace: str) -> None:
        """What a namespace leaves room for changed."""
        for key in self._limited.get(namespace, ()):
            self._guard.run(key, partial(self._aim, key, self._driven[key]))

    def on_gateway(self, change: Change[Pod]) -> None:
        """A pod changed that may be a gateway's."""
        pod = change.new or change.old
        assert pod is not None
        for name, keys in self._fronted.items():
            gateway = self._choices.gateways[name]
            if pod.metadata.namespace == gateway.namespace and matches(gateway.selector, pod.metadata.labels):
                for key in keys:
                    self._ask_gateway(key, gateway, pod, gone=change.new is None)

    async def _end_modes(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + MODES_EVERY_S)
            for key, claim in self._driven.items():
                if claim.spec.mode_until_s is not None:
                    self._guard.run(key, partial(self._aim, key, claim))

    def mode(self, claim: Claim) -> Mode:
        """What may be done to a claimed target now: never more than its obstacle leaves."""
        if claim.obstacle is not None:
            return Mode.SHADOW
        return claim.spec.mode_at(self._clock.now(), self._choices.default_mode)

    def _aim(self, key: str, claim: Claim) -> None:
        """Tell the driver; it takes an unchanged target for what it is."""
        shape = self._shape(claim)
        held = claim.spec.gpus_per_replica
        if held is None and shape is not None:
            held = gpus(shape, self._choices.gpu_resources)
        self._driver.put(
            Target(
                key,
                compile_params(claim.spec),
                self.mode(claim),
                Limits(quota_replicas=self._quota(claim, shape)),
                tier=claim.spec.tier,
                gpus_per_replica=held if held is not None else 1,
                told=claim.way is Way.SCALED_OBJECT,
            )
        )

    def _shape(self, claim: Claim) -> PodSpec | None:
        """The specification of one replica's pod: the template's, else that of a pod that is there."""
        target = self._cluster.target(claim.ref)
        if target is not None and target.spec.template is not None:
            return target.spec.template.spec
        return next((pod.spec for pod in self._cluster.members.pods(claim.ref).values()), None)

    def _quota(self, claim: Claim, shape: PodSpec | None) -> int | None:
        quotas, ranges = self._cluster.limits_of(claim.ref.namespace)
        if shape is None or not (quotas or ranges):
            return None
        most = quota_replicas(shape, len(self._cluster.members.pods(claim.ref)), quotas, ranges)
        target = self._cluster.target(claim.ref)
        asked = None if target is None else target.spec.replicas
        # What is asked for already is never too much: pods and a quota's count of them come by two watches, and one of
        # them being late would else order replicas away.
        return most if most is None or asked is None else max(most, asked)

    def _ask(self, key: str, claim: Claim) -> None:
        """Ask the serving pods of a workload for their metrics, and those that served and are not ready any more.

        These are not left out: when a network splits, every pod behind it is soon not ready, and no pods at all would
        read as no load at all. Where their pages cannot be had either, nothing is known.
        """
        before, asked = self._asked.get(key, set()), set[str]()
        profile = self._profile(key, claim)
        for pod in self._cluster.members.pods(claim.ref).values():
            since_s = serving_since_s(pod)
            port = claim.spec.metrics_port or metrics_port(pod.spec)
            meta = pod.metadata
            if ended(pod) or (since_s is None and meta.uid not in before) or port is None or not pod.status.pod_ip:
                continue
            asked.add(meta.uid)
            self._pages.put(
                ScrapeTarget(
                    key, meta.name, meta.uid, pod.status.pod_ip, port, claim.spec.metrics_path,
                    profile, since_s,
                )
            )  # fmt: skip
        for uid in before - asked:
            self._pages.drop(uid)
        self._asked[key] = asked

    def _profile(self, key: str, claim: Claim) -> str:
        """The name of the profile by which the pods' pages are read; names of the policy's own are a profile too."""
        spec = claim.spec
        if spec.metrics is None:
            return spec.engine.value
        own = custom(f"custom of {key}", spec.metrics.named(), kv_percent=spec.metrics.kv_percent)
        self._pages.learn(own)
        return own.name

    def _front(self, key: str, name: str) -> None:
        gateway = self._choices.gateways[name]
        self._fronted.setdefault(name, set()).add(key)
        for pod in self._cluster.pods():
            if pod.metadata.namespace == gateway.namespace and matches(gateway.selector, pod.metadata.labels):
                self._ask_gateway(key, gateway, pod, gone=False)

    def _ask_gateway(self, key: str, gateway: Gateway, pod: Pod, *, gone: bool) -> None:
        uid = f"{pod.metadata.uid}/{key}"
        if gone or serving_since_s(pod) is None or not pod.status.pod_ip:
            self._pages.drop(uid)
            return
        namespace, _, name = key.partition("/")
        self._pages.put(
            GatewayTarget(
                key, pod.metadata.name, uid, pod.status.pod_ip, gateway.port, namespace, gateway.pool or name,
                gateway.path, gateway.profile.value,
            )
        )  # fmt: skip

    def _leave(self, key: str, name: str) -> None:
        self._fronted.get(name, set()).discard(key)
        for pod in self._cluster.pods():
            self._pages.drop(f"{pod.metadata.uid}/{key}")

    def _forget(self, key: str, claim: Claim) -> None:
        if claim.spec.gateway:
            self._leave(key, claim.spec.gateway)
        self._driven.pop(key)
        self._asked.pop(key, None)
        self._limited[claim.ref.namespace].discard(key)
        self._pages.forget(key)
        self._driver.remove(key)
