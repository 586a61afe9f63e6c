"""From claims to what the driver steps: one workload at a time, as news of it comes.

Enters: news from a followed cluster. Leaves: targets for the driver, and word to whoever asks their pages. What a
policy says is translated here and nowhere else; what is right is the core's.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.replicas import News
from autoscaler.api.claims import Claim, Doubt, Way
from autoscaler.api.modes import Mode
from autoscaler.api.policy import compile_params
from autoscaler.app.asking import Asking, Pages
from autoscaler.app.guard import Guard
from autoscaler.app.pool_leads import NextStart, Priors
from autoscaler.app.room import Room
from autoscaler.core.types import Limits
from autoscaler.ports import Clock
from autoscaler.runtime.target import Target
from autoscaler.settings.parts import Gateway

MODES_EVERY_S: Final = 1.0
"""How late a mode may end, and how late a doubt in what was read of one is acted upon."""

GATHER_S: Final = 0.02
"""Changes of pods are gathered for this long: a thousand pods of one workload are then a few passes over them."""

LIMITS_EVERY_S: Final = 1.0
"""Changes of quotas are gathered for this long after one was passed on: a quota's count changes with every pod that
comes or goes, and each would be a step of every workload of its namespace."""


class Driver(Protocol):
    """What is told of targets."""

    def put(self, target: Target) -> None:
        """Add a workload or change it."""
        ...

    def remove(self, name: str) -> None:
        """Forget a workload."""
        ...


@dataclass(frozen=True, slots=True)
class Choices:
    """What the administrator set that concerns single workloads."""

    default_mode: Mode
    gpu_resources: tuple[str, ...]
    gateways: Mapping[str, Gateway]


class Workloads:
    """Keeps driver and pages in step with the claims. Its `on_` methods are the cluster's hooks."""

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
        lead: Callable[[str], NextStart | None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._driver = driver
        self._asking = Asking(cluster, pages, choices.gateways)
        self._room = Room(cluster, choices.gpu_resources)
        self._clock = clock
        self._choices = choices
        self._news = news
        self._guard = guard
        self._priors = Priors(lead)
        self._driven: dict[str, Claim] = {}
        self._quotas: dict[str, int | None] = {}
        """Workload -> the replicas that its namespace had room for when that was looked at last."""
        self._doubts: dict[str, Doubt] = {}
        """Workload -> what of its claim may have changed unseen."""
        self._met_in_doubt: set[str] = set()
        self._within: dict[str, set[str]] = {}
        """Namespace -> its workloads."""
        self._moved: dict[str, None] = {}
        self._bell = asyncio.Event()
        self._limited: dict[str, None] = {}
        self._limits_bell = asyncio.Event()

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
        met, self._driven[key] = key not in self._driven, claim
        self._within.setdefault(claim.ref.namespace, set()).add(key)
        self._quotas[key] = self._room.quota(claim)
        self._doubt(key, claim, met=met)
        self._aim(key, claim)
        self._asking.take(key, claim)

    def on_pods(self, key: str) -> None:
        """Pods or the count of a workload changed; a rollout's many changes are looked at together."""
        self._moved[key] = None
        self._bell.set()

    def on_limits(self, namespace: str) -> None:
        """What a namespace leaves room for changed."""
        self._limited[namespace] = None
        self._limits_bell.set()

    def on_lead(self, key: str) -> None:
        """How long a workload's next start takes is known otherwise."""
        claim = self._driven.get(key)
        if claim is not None:
            self._guard.run(key, partial(self._aim, key, claim))

    def on_gateway(self, change: Change[Pod]) -> None:
        """A pod changed that may be a gateway's."""
        self._asking.on_gateway(change)

    async def run(self) -> None:
        """Pass on what changed of pods and limits, and end modes at their time; until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._move(), name="pods")
            group.create_task(self._limit(), name="limits")
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
        if claim is None:
            return
        self._asking.look(key, claim)
        self._aim(key, claim)
        if self._quotas[key] is not None:
            self.on_limits(claim.ref.namespace)  # how many pods there are is a part of how many fit
        self._news.tell(key)

    async def _limit(self) -> None:
        while True:
            await self._limits_bell.wait()
            self._limits_bell.clear()
            limited, self._limited = self._limited, {}
            for namespace in limited:
                for key in self._within.get(namespace, ()):
                    self._guard.run(key, partial(self._measure, key))
            await self._clock.sleep_until(self._clock.monotonic() + LIMITS_EVERY_S)

    def _measure(self, key: str) -> None:
        claim = self._driven[key]
        self._quotas[key] = self._room.quota(claim)
        self._aim(key, claim)

    async def _end_modes(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + MODES_EVERY_S)
            for key, claim in self._driven.items():
                self._guard.run(key, partial(self._mind, key, claim))

    def _mind(self, key: str, claim: Claim) -> None:
        if self._doubt(key, claim) or claim.spec.mode_until_s is not None:
            self._aim(key, claim)

    def _doubt(self, key: str, claim: Claim, *, met: bool = False) -> bool:
        """See whether what was read of a claim may be believed; whether that changed what may be done.

        One that is `met` in doubt is left alone until there is none: who else scales its target was never looked for.
        KEDA's thread reads doubts meanwhile, so that one which lasts is replaced and never away.
        """
        before, found = self._doubts.get(key), self._cluster.doubt(claim)
        if found is None:
            self._doubts.pop(key, None)
            self._met_in_doubt.discard(key)
            return before is not None
        if met:
            self._met_in_doubt.add(key)
        self._doubts[key] = replace(found, still=found.still or key in self._met_in_doubt)
        return before is None or before.still != self._doubts[key].still

    def mode(self, claim: Claim) -> Mode:
        """What may be done to a claimed target now: never more than its obstacle and what is known of it leave."""
        if claim.obstacle is not None:
            return Mode.SHADOW
        mode, doubt = self.chosen(claim), self._doubts.get(claim.ref.workload)
        return mode if doubt is None else doubt.within(mode)

    def chosen(self, claim: Claim) -> Mode:
        """What was last read that may be done to a target, whatever may have changed unseen."""
        return claim.spec.mode_at(self._clock.now(), self._choices.default_mode)

    def grace_s(self, claim: Claim) -> int | None:
        """Seconds that a pod has to end by itself once it is told to; None where its specification does not say."""
        return self._room.grace_s(claim)

    def doubt(self, claim: Claim) -> Doubt | None:
        """What of a claim may have changed unseen."""
        return self._doubts.get(claim.ref.workload)

    def _aim(self, key: str, claim: Claim) -> None:
        """Tell the driver; it takes an unchanged target for what it is."""
        params = compile_params(claim.spec)
        self._driver.put(
            Target(
                key,
                params,
                self.mode(claim),
                Limits(quota_replicas=self._quota(key, claim)),
                tier=claim.spec.tier,
                gpus_per_replica=self._room.gpus(claim),
                told=claim.way is Way.SCALED_OBJECT,
                prior_s=self._priors.settle(key, params.warmup_prior_s, partial(self._room.starting, claim)),
            )
        )

    def _quota(self, key: str, claim: Claim) -> int | None:
        """What a quota leaves room for, and never less than what is asked for already.

        Pods and a quota's count of them come by two watches, and one of them being late would else order replicas away.
        """
        most, asked = self._quotas[key], self._room.asked(claim)
        return most if most is None or asked is None else max(most, asked)

    def _forget(self, key: str, claim: Claim) -> None:
        self._driven.pop(key)
        self._quotas.pop(key, None)
        self._doubts.pop(key, None)
        self._met_in_doubt.discard(key)
        self._priors.forget(key)
        there = self._within[claim.ref.namespace]
        there.discard(key)
        if not there:  # names come and go for ever
            del self._within[claim.ref.namespace]
        self._asking.forget(key)
        self._driver.remove(key)
