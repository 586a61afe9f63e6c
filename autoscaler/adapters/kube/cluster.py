"""Everything of a cluster that decisions rest on, followed by informers and told as news about workloads.

Enters: a client and what to follow. Leaves: claims, pods, limits and the freeze, each with a call when it changed. It
decides nothing and writes nothing. While a resource cannot be read it says for how long; what was read stays.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from functools import partial
from typing import Any, Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.discovery import Discovery, Resolution
from autoscaler.adapters.kube.followed import Followed, remedy, silence, within
from autoscaler.adapters.kube.hpas import Hpas, is_told
from autoscaler.adapters.kube.informer import Change, Informer, InformerTimes, Resource
from autoscaler.adapters.kube.intake import KEPT_S, Intake
from autoscaler.adapters.kube.limits import LimitRange, Quota
from autoscaler.adapters.kube.membership import Membership, owner_of
from autoscaler.adapters.kube.objects import ConfigMap
from autoscaler.adapters.kube.pods import Node, Pod
from autoscaler.adapters.kube.pulls import SELECTOR, PulledEvent, pull_of
from autoscaler.adapters.kube.recheck import Recheck
from autoscaler.adapters.kube.retry import BackoffBounds
from autoscaler.adapters.kube.scaling import Hpa, ScaledObject, ScalingPolicyObject, Target, Vpa
from autoscaler.adapters.kube.scope import GROUP, VERSION, Hooks, Scope, root_of
from autoscaler.api.claims import Claim, Doubt, Kind, Reject, Rejection, TargetRef
from autoscaler.core.types import ReplicaReading
from autoscaler.ports import Clock
from autoscaler.record.status import Problem

LOOK_S: Final = 0.02
"""Between two looks whether everything is listed."""

TIMES: Final = InformerTimes(backoff=BackoffBounds(cap_s=4.0))
"""A tick after the server answers again everything is followed again. There is one of us per cluster: a dozen watches
that dial every few seconds are no herd, and a server that is overloaded says for how long to stay away."""


class Cluster:
    """The informers and what follows from them. `run` once; read at any time."""

    def __init__(self, api: KubeApi, clock: Clock, scope: Scope) -> None:
        self._api = api
        self._clock = clock
        self._scope = scope
        self._discovery = Discovery(scope.kinds, scope.keda_addresses)
        self._resolutions: dict[str, Resolution] = {}
        self.intake = Intake(scope.most)
        self.members = Membership()
        self.hpas = Hpas()
        freeze = Resource(
            f"/api/v1/namespaces/{scope.own_namespace}/configmaps",
            ConfigMap,
            field_selector=f"metadata.name={scope.freeze_config_map}",
        )
        self._followed = Followed(
            pods=self._follow("/api/v1", "pods", Pod, self._on_pod, also=scope.gateway_namespaces),
            targets={
                kind: self._follow(root_of(kind), kind.resource, Target, partial(self._on_target, kind))
                for kind in scope.kinds
            },
            policies=self._follow(f"/apis/{GROUP}/{VERSION}", "scalingpolicies", ScalingPolicyObject, self._on_policy),
            hpas=self._follow("/apis/autoscaling/v2", "horizontalpodautoscalers", Hpa, self._on_hpa),
            scaled_objects=self._follow(
                "/apis/keda.sh/v1alpha1", "scaledobjects", ScaledObject, self._on_scaled_object
            ),
            vpas=self._follow("/apis/autoscaling.k8s.io/v1", "verticalpodautoscalers", Vpa, self._on_vpa),
            quotas=self._follow("/api/v1", "resourcequotas", Quota, self._on_limits),
            ranges=self._follow("/api/v1", "limitranges", LimitRange, self._on_limits),
            freezes=[Informer(api, freeze, clock, lambda _: self._told().freeze(), times=TIMES)],
            nodes=[Informer(api, Resource("/api/v1/nodes", Node), clock, _unheard, times=TIMES)],
            pulls=self._follow("/api/v1", "events", PulledEvent, self._on_pulled, selector=SELECTOR),
        )
        self._recheck = Recheck(api, clock, self._followed)
        self._hooks: Hooks | None = None
        self._keeps = asyncio.Event()
        """Places are kept, and nobody watches yet for how long."""

    async def run(self, hooks: Hooks) -> None:
        """Follow everything and tell `hooks`, until cancelled."""
        self._hooks = hooks
        async with asyncio.TaskGroup() as group:
            for informer in self._followed.all():
                group.create_task(informer.run(), name="informer")
            group.create_task(self._release(), name="kept places")
            group.create_task(self._lapse(), name="kept places for long")

    async def wait_synced(self) -> None:
        """Return once every resource was listed, or is known not to be served, or may be done without."""
        while any(not informer.synced and not self._followed.spared(informer) for informer in self._followed.all()):
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

    async def relist(self) -> None:
        """Read everything anew, and return when what is held is what the server had after this call.

        What may be done without is not waited for.
        """
        wanted = {informer: informer.lists for informer in self._followed.all() if not informer.absent}
        for informer in wanted:
            informer.relist()
        while any(
            informer.lists <= lists and not informer.absent and not self._followed.spared(informer)
            for informer, lists in wanted.items()
        ):
            await self._clock.sleep_until(self._clock.monotonic() + LOOK_S)

    @property
    def claims(self) -> Iterator[Claim]:
        """Every claim there is."""
        return (r.claim for r in self._resolutions.values() if r.claim is not None)

    @property
    def workloads(self) -> Iterator[str]:
        """Every workload that anybody asks for, in vain or not."""
        return iter(self._resolutions)

    @property
    def rejections(self) -> Iterator[Rejection]:
        """Every object that asks in vain."""
        return (rejection for r in self._resolutions.values() for rejection in r.rejections)

    def settle(self, before: Set[str]) -> None:
        """Begin to lead: where not all can be taken up, those of `before` are, then those whose objects say that they
        were, then the oldest. Who may ask in a list that could not be read yet keeps his place until it can, an hour at
        most."""
        unread = [informer for informer in self._followed.asking() if not informer.synced]
        self.intake.keep(key for key in before if within(key.partition("/")[0], unread))
        for key in self.intake.settle(before, self._marked()) if self.intake.waiting else ():
            found = self._discovery.resolve(key)
            if found.claim is None and not self.intake.takes(key):
                self.intake.leave(key)  # it had kept its place while it was asked for in vain, and is in no line
            self._place(key, found)
        if self.intake.keeps:
            self._keeps.set()
            self._tell_line()

    def _marked(self) -> set[str]:
        """The workloads that an earlier leader took up, by what it left on their objects: a count that it wrote, its
        word in the status of their policy, or by KEDA's way a number that HPA was told. Who may write to all of that
        can forge it, and wins places of its own namespace's share."""
        claims = {key: self._discovery.resolve(key).claim for key in self.intake.asking}
        return {key for key, claim in claims.items() if claim is not None and self._marks(claim)}

    def _marks(self, claim: Claim) -> bool:
        if claim.scaled_object is not None:
            hpa = self.hpas.of(claim.ref.namespace, claim.scaled_object)
            return hpa is not None and is_told(hpa)
        target = self.target(claim.ref)
        policy = None if claim.policy is None else self.policy(claim.ref.namespace, claim.policy)
        return (target is not None and target.scaled_by_us) or (policy is not None and policy.told_ready)

    def resolution(self, workload: str) -> Resolution:
        """What became of all that asks for one workload."""
        return self._resolutions.get(workload, Resolution())

    def target(self, ref: TargetRef) -> Target | None:
        """The target as it was last seen, None when it is gone or was made anew."""
        return self._followed.target(ref)

    def policy(self, namespace: str, name: str) -> ScalingPolicyObject | None:
        """A ScalingPolicy as it was last seen."""
        return self._followed.policy(namespace, name)

    def cut_off_s(self, ref: TargetRef) -> float:
        """For how long the target or its pods could not be followed; 0 while they are."""
        return max(informer.cut_off_s() for informer in self._followed.behind(ref))

    def problems(self, ref: TargetRef) -> tuple[Problem, ...]:
        """Why the target or its pods cannot be followed now; nothing while they are."""
        behind = (informer for informer in self._followed.behind(ref) if informer.cut_off_s() > 0)
        return tuple(Problem(silence(informer), remedy(informer)) for informer in behind)

    def large(self, ref: TargetRef) -> Iterator[Problem]:
        """Objects of the target's namespace whose newest event was far larger than such objects are."""
        return self._followed.large(ref.namespace)

    def doubt(self, claim: Claim) -> Doubt | None:
        """What of a claim may be otherwise by now, and what is not done therefore; None while all is believed."""
        return self._followed.doubt(claim)

    async def recheck(self, claim: Claim, *, grows: bool) -> None:
        """Look again at what may forbid a patch and was quiet for a while. Raises RefusedError."""
        await self._recheck.look(claim, grows=grows)

    def reading(self, ref: TargetRef, desired: int, failed: Callable[[str], bool] = lambda _: False) -> ReplicaReading:
        """The target's replicas (`Membership.reading`); pods that cannot be read count as ready, and stay silent.

        Left out, they would make what the others serve look like all there is.
        """
        read = self.members.reading(ref, desired, failed)
        unread = self._followed.unread_pods(ref)
        return replace(read, ready=read.ready + unread) if unread else read

    @property
    def denials(self) -> tuple[str, ...]:
        """What we may not read and go on without, and what would help; it might change what is decided."""
        spared = (informer for informer in self._followed.all() if self._followed.spared(informer))
        return tuple(f"{informer.error}; {remedy(informer)}" for informer in spared)

    def workload_of(self, pod: str) -> str | None:
        """The claimed workload that ``namespace/name`` is a replica of."""
        for informer in self._followed.pods:
            found = informer.items.get(pod)
            owned = None if found is None else owner_of(found)
            if owned is not None and owned.workload in self._resolutions:
                return owned.workload
        return None

    def limits_of(self, namespace: str) -> tuple[list[Quota], list[LimitRange]]:
        """The quotas and limit ranges of a namespace."""
        return self._followed.limits_of(namespace)

    def node(self, name: str) -> Node | None:
        """A node by name."""
        return self._followed.nodes[0].items.get(name)

    def pods(self) -> Iterator[Pod]:
        """Every pod that is followed."""
        return (pod for informer in self._followed.pods for pod in informer.items.values())

    @property
    def frozen(self) -> str | None:
        """Why everything is frozen, None while it is not."""
        return self._followed.frozen

    def staleness_s(self) -> dict[str, float]:
        """By resource, the seconds since it was last heard; without what only fails to be told or measured, such as the
        nodes that an installation of one team may not read."""
        heard = (informer for informer in self._followed.all() if not self._followed.missed(informer))
        return {informer.path: informer.staleness_s() for informer in heard}

    def silent(self, beyond_s: float) -> tuple[str, ...]:
        """Resources that were not heard for longer and cannot be done without, with why."""
        return self._followed.silent(beyond_s)

    def _follow(
        self,
        root: str,
        plural: str,
        kind: type[Any],
        heard: Callable[[Change[Any]], None],
        *,
        also: Iterable[str] = (),
        selector: str = "",
    ) -> list[Informer[Any]]:
        paths = self._scope.paths(root, plural, also)
        resources = [Resource(path, kind, field_selector=selector) for path in paths]
        return [Informer(self._api, resource, self._clock, heard, times=TIMES) for resource in resources]

    def _on_pod(self, change: Change[Pod]) -> None:
        for owned in self.members.note(change):
            if owned.workload in self._resolutions:
                self._told().pods(owned.workload)
        self._told().pod(change)

    def _on_target(self, kind: Kind, change: Change[Target]) -> None:
        self._resolve({self._discovery.target(kind, change.key, change.new)})
        if change.key in self._resolutions:
            self._told().pods(change.key)

    def _on_policy(self, change: Change[ScalingPolicyObject]) -> None:
        self._resolve(self._discovery.policy(change.key, change.new))

    def _on_scaled_object(self, change: Change[ScaledObject]) -> None:
        self._resolve(self._discovery.scaled_object(change.key, change.new))

    def _on_hpa(self, change: Change[Hpa]) -> None:
        self.hpas.note(change.key, change.new)
        self._resolve(self._discovery.other(change.key, change.new, "HPA"))

    def _on_vpa(self, change: Change[Vpa]) -> None:
        self._resolve(self._discovery.other(change.key, change.new, "Vpa"))

    def _on_pulled(self, change: Change[PulledEvent]) -> None:
        pull = None if change.new is None else pull_of(change.new)
        if pull is not None:
            self._told().pull(pull)

    def _on_limits(self, change: Change[Any]) -> None:
        self._told().limits(change.key.partition("/")[0])

    def _told(self) -> Hooks:
        assert self._hooks is not None, "informers tell nothing before `run`"
        return self._hooks

    async def _release(self) -> None:
        """Give up the places that are kept once each list was read: a list without anything new tells of no change."""
        for informer in self._followed.asking():
            await informer.wait_synced()
        self._keep_no_more()

    async def _lapse(self) -> None:
        """Give them up, too, when a list could not be read for long, as where the right to it is gone for good."""
        while True:
            await self._keeps.wait()
            self._keeps.clear()
            await self._clock.sleep_until(self._clock.monotonic() + KEPT_S)
            self._keep_no_more()

    def _keep_no_more(self) -> None:
        for key in self.intake.release() if self.intake.keeps else ():
            self._place(key, self._discovery.resolve(key))
        self._tell_line()

    def _tell_line(self) -> None:
        """Tell whoever waits why, which is another reason while places are kept."""
        for key in self.intake.line:
            self._place(key, self._discovery.resolve(key))

    def _resolve(self, keys: Iterable[str]) -> None:
        found = {key: self._discovery.resolve(key) for key in keys}
        # Who asks is in line before a place falls free: an object that is aimed elsewhere may be the first there.
        asking = sorted(found, key=lambda key: found[key].claim is None)
        following = [next_one for key in asking if (next_one := self._admit(key, found[key])) is not None]
        for key, now in found.items():
            self._place(key, now)
        for key in following:
            self._place(key, self._discovery.resolve(key))

    def _admit(self, key: str, found: Resolution) -> str | None:
        """Ask for a workload's place, or give it up; who has it then.

        It is kept for as long as anybody asks: a slip in an edit, or a target that is made anew, gives no place away.
        """
        if found.claim is not None:
            self.intake.ask(key, self._discovery.age(found.claim))
        elif not (found.rejections and self.intake.takes(key)):
            return self.intake.leave(key)
        return None

    def _place(self, key: str, now: Resolution) -> None:
        """Tell of a workload if what became of those who ask for it, `now`, is not what it was."""
        before = self._resolutions.get(key, Resolution())
        if now.claim is not None and not self.intake.takes(key):
            too_many = self._discovery.refused(now.claim, Reject.TOO_MANY, self.intake.words)
            now = Resolution(None, (*now.rejections, too_many))
        if now == before:
            return
        if now == Resolution():
            del self._resolutions[key]
        else:
            self._resolutions[key] = now
        self._told().claim(key)


def _unheard(_: Change[Any]) -> None:
    """Nodes are looked up when a pod is measured; their changes are no news by themselves."""
