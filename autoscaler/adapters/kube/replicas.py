"""The ``/scale`` of claimed targets behind the driver's ports: counts from what is followed, patches on the server.

Enters: a followed cluster, the lead. Leaves: replica samples, patches, and names of workloads with news. After a
patch nobody knows the outcome of, a count is read from the server and not from memory until it answered. What the
server told of a count stands until memory has caught up with it: a count that jumps back would pass for somebody's
edit. A freeze and the claim count until the moment in which a patch leaves, and are looked at again before where their
watches are quiet.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.deletion_cost import DeletionCost
from autoscaler.adapters.kube.scale import patch_scale, read_scale
from autoscaler.adapters.kube.scaling import Target
from autoscaler.api.claims import Claim, TargetRef
from autoscaler.ports import Clock, Fault, Patch, PortError, RefusedError, ReplicaSample

CUT_OFF_S: Final = 10.0
"""A count that could not be followed for longer is not of now. Shorter gaps are every watch's that is opened again, and
a patch is conditional anyway."""

READ_S: Final = 2.0
"""For one read of ``/scale``; a target that cannot be read costs a step, not the others' turns."""

PATCH_S: Final = 3.5
"""The second look before it included. With the second in which pods are marked less than the driver waits for a patch:
what became of it is told by who knows, above all that it never left."""

Version = tuple[str, int | str]


class ClusterScale:
    """A ScaleClient over a followed cluster. `may_write` and `remaining_s` are the lead's; a pod that has `failed`
    (asked by ``namespace/name``) is no replica that serves; `cost` says which pods should go first."""

    def __init__(
        self,
        api: KubeApi,
        cluster: Cluster,
        clock: Clock,
        *,
        may_write: Callable[[], bool],
        remaining_s: Callable[[], float],
        failed: Callable[[str], bool] = lambda _: False,
        cost: DeletionCost | None = None,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._clock = clock
        self._may_write = may_write
        self._remaining_s = remaining_s
        self._failed = failed
        self._cost = cost
        self._unsure: set[str] = set()
        self._told: dict[str, tuple[Version, int]] = {}
        """Workload -> the version in memory when the server told or took a count, and the count."""

    async def read(self, workload: str) -> ReplicaSample:
        """The target's replicas now. Raises PortError."""
        ref = self._claim(workload).ref
        if workload in self._unsure:
            before = self._cluster.target(ref)
            seen = await read_scale(self._api, ref, READ_S)
            self._unsure.discard(workload)
            self._note(workload, before, seen.replicas)
            return self._sample(ref, seen.replicas)
        gone_s = self._cluster.cut_off_s(ref)
        if gone_s > CUT_OFF_S:
            raise PortError(Fault.OUTDATED, f"{workload}: {'; '.join(p.words for p in self._cluster.problems(ref))}")
        target = self._cluster.target(ref)
        if target is None:
            raise PortError(Fault.UNAVAILABLE, f"there is no {ref.kind} {workload} any more")
        version, count = self._told.get(workload, (None, 0))
        if version == _version(target):
            return self._sample(ref, count)
        self._told.pop(workload, None)
        if target.spec.replicas is None:
            # A kind that keeps its count elsewhere: only its /scale knows.
            return self._sample(ref, (await read_scale(self._api, ref, READ_S)).replicas)
        return self._sample(ref, target.spec.replicas)

    async def patch(self, workload: str, seen_replicas: int, replicas: int) -> Patch:
        """Write `replicas` if the target still has `seen_replicas`. Raises PortError as the port says."""
        claim = self._claim(workload)
        ref, begun_s = claim.ref, self._clock.monotonic()

        def asked() -> bool:
            return self._may_act() and self._cluster.resolution(workload).claim == claim

        await self._cluster.recheck(claim, grows=replicas > seen_replicas)
        left_s = begun_s + PATCH_S - self._clock.monotonic()
        if self._cost is not None and replicas < seen_replicas and asked():
            await self._cost.before(ref, self._cluster.members.pods(ref), seen_replicas - replicas)
        before = self._cluster.target(ref)
        self._unsure.add(workload)
        try:
            outcome = await patch_scale(
                self._api, ref, seen_replicas=seen_replicas, replicas=replicas,
                may_write=asked, remaining_s=self._remaining_s, timeout_s=left_s,
            )  # fmt: skip
        except RefusedError:
            self._unsure.discard(workload)
            raise
        if outcome is Patch.APPLIED:
            self._unsure.discard(workload)
            self._note(workload, before, replicas)
        # After a conflict memory is behind the server, so the next read asks it.
        return outcome

    def forget(self, workload: str) -> None:
        """A workload that is claimed no more."""
        self._unsure.discard(workload)
        self._told.pop(workload, None)

    def _may_act(self) -> bool:
        return self._may_write() and self._cluster.frozen is None

    def _note(self, workload: str, before: Target | None, count: int) -> None:
        if before is not None:
            self._told[workload] = (_version(before), count)

    def _claim(self, workload: str) -> Claim:
        claim = self._cluster.resolution(workload).claim
        if claim is None:
            raise PortError(Fault.INVALID, f"{workload} is not claimed")
        return claim

    def _sample(self, ref: TargetRef, desired: int) -> ReplicaSample:
        return ReplicaSample(self._clock.now(), self._cluster.reading(ref, desired, self._failed))


def _version(target: Target) -> Version:
    """What changes with the count and not with every status: the generation, where the kind has one, of this object:
    each begins at 1, and an answer may come when the target was made anew."""
    meta = target.metadata
    return meta.uid, meta.generation or meta.resource_version


class News:
    """Names of workloads with news, each once however often it is told before it is taken; a driver's Watch."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._bell = asyncio.Event()

    def tell(self, workload: str) -> None:
        """There is something new about a workload."""
        self._names[workload] = None
        self._bell.set()

    async def changes(self) -> AsyncIterator[str]:
        """Names in the order in which they were told first."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            while self._names:
                name = next(iter(self._names))
                del self._names[name]
                yield name
