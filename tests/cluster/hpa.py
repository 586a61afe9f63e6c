"""Our preview beside the real HPA: what it would set is noted at each pull, what HPA set is read off the audit log."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.hpas import Hpas
from autoscaler.adapters.kube.informer import Change, Informer, Resource
from autoscaler.adapters.kube.scaling import Hpa, Target
from autoscaler.api.claims import Claim, TargetRef, Way
from autoscaler.api.scaling_policy import ScalingPolicySpec
from autoscaler.app.guard import Guard
from autoscaler.app.hpa import HpaPreviews
from autoscaler.runtime.clock import WallClock
from tests.cluster.plane import Plane
from tests.cluster.processes import wait_for
from tests.keda.book import Book

USER: Final = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"


@dataclass(frozen=True)
class Previewed:
    """A number that was told, and what the preview makes of it."""

    now_s: float
    value: int
    replicas: int
    limits: tuple[str, ...]


@dataclass(frozen=True)
class Evaluated:
    """One evaluation of the real HPA: when it read the count, which it was, and what it left."""

    now_s: float
    current: int
    replicas: int


class Sight:
    """One namespace's HPAs and Deployments, followed as the controller follows them."""

    def __init__(self) -> None:
        self.hpas = Hpas()
        self.targets: Informer[Target] | None = None

    async def follow(self, plane: Plane, namespace: str) -> None:
        clock = WallClock()
        async with AsyncExitStack() as stack:
            connect = KubeApi.connect(
                kubeconfig=plane.folder / "admin.kubeconfig", context=None, clock=clock, qps=50, burst=50
            )
            api = await stack.enter_async_context(connect)
            hpas = Resource(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers", Hpa)
            targets = Resource(f"/apis/apps/v1/namespaces/{namespace}/deployments", Target)
            self.targets = Informer(api, targets, clock, lambda _: None)
            group = await stack.enter_async_context(asyncio.TaskGroup())
            group.create_task(self.targets.run())
            group.create_task(Informer(api, hpas, clock, self._heard).run())

    def _heard(self, change: Change[Hpa]) -> None:
        self.hpas.note(change.key, change.new)

    def hpa(self, claim: Claim) -> Hpa | None:
        return self.hpas.of(claim.ref.namespace, claim.scaled_object or "")

    def target(self, ref: TargetRef) -> Target | None:
        return None if self.targets is None else self.targets.items.get(ref.workload)

    def knows_tolerance(self) -> bool:
        return True


class Watching(Book):
    """Answers of the test's own; each one that is told is previewed at once."""

    def __init__(self, plane: Plane, namespace: str, name: str) -> None:
        super().__init__()
        ref = TargetRef("apps", "v1", "deployments", "Deployment", namespace, name, "")
        self._claim = Claim(ref, ScalingPolicySpec(), Way.SCALED_OBJECT, None, 1, scaled_object=name)
        self._plane = plane
        self.sight = Sight()
        self.noted: list[Previewed] = []
        clock = WallClock()
        self._clock = clock
        self._previews = HpaPreviews(self.sight, clock, Guard(clock), lambda _claim, _words: None)

    def told(self, namespace: str, name: str, metric: str, value: int) -> None:
        super().told(namespace, name, metric, value)
        self._previews.told(self._claim, metric, value)
        found = self._previews.figures().get(self._claim.ref.workload)
        if found is not None:
            self.noted.append(Previewed(self._clock.now(), value, *found))

    def evaluations(self) -> list[Evaluated]:
        """What the real HPA did, evaluation by evaluation, of this target."""
        place = (self._claim.ref.namespace, self._claim.ref.name)

        def of(verb: str) -> list[dict[str, Any]]:
            found = self._plane.audited(verb=verb, resource="deployments/scale", user=USER)
            return [e for e in found if (e["objectRef"]["namespace"], e["objectRef"]["name"]) == place]

        made = [Evaluated(_at_s(e), *[e["responseObject"]["spec"].get("replicas", 0)] * 2) for e in of("get")]
        for entry in of("update"):
            index = max(i for i, one in enumerate(made) if one.now_s <= _at_s(entry))
            made[index] = replace(made[index], replicas=entry["requestObject"]["spec"].get("replicas", 0))
        return made

    def pairs(self, since_s: float, until_s: float) -> list[tuple[Evaluated, Previewed | None]]:
        """Every evaluation that began between two instants, with what was previewed at its pull."""
        evaluations = self.evaluations()
        ends = [one.now_s for one in evaluations[1:]] + [float("inf")]
        return [
            (one, next((p for p in self.noted if one.now_s <= p.now_s < end), None))
            for one, end in zip(evaluations, ends, strict=True)
            if since_s <= one.now_s < until_s
        ]

    def wait_followed(self) -> None:
        """Return once the target's HPA and the target are seen."""
        ref = self._claim.ref
        wait_for(lambda: self.sight.hpa(self._claim) and self.sight.target(ref), 40, "the HPA of KEDA's to be seen")


def _at_s(entry: dict[str, Any]) -> float:
    return datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()
