"""GPUs that pods of nobody's claim hold: what a budget has left for those that are scaled is less by as much.

Warm slots are none of them: they give way to whatever is scaled.

Enters: changes of pods, the claims in force. Leaves: GPUs per namespace, told to the driver when they change. A pod
holds its GPUs from when it is bound to a node until it has ended; one that waits for a node holds none. Where only some
namespaces are followed, only what is there is seen.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.membership import OVER, Owned, group_of
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.pool_slots import is_ours
from autoscaler.adapters.kube.shapes import gpus
from autoscaler.api.claims import Claim
from autoscaler.ports import Clock

EVERY_S: Final = 1.0


class _Held(NamedTuple):
    gpus: int
    namespace: str
    by: Owned | None


class Foreign:
    """The tally; `run` tells it. `driven` are the claims in force, by workload; `slots` is where warm slots are."""

    def __init__(
        self,
        *,
        gpu_resources: Collection[str],
        driven: Callable[[], Mapping[str, Claim]],
        tell: Callable[[Mapping[str, int]], None],
        clock: Clock,
        slots: str,
    ) -> None:
        self._gpu_resources = gpu_resources
        self._driven = driven
        self._tell = tell
        self._clock = clock
        self._slots = slots
        self._held: dict[str, _Held] = {}

    def on_pod(self, change: Change[Pod]) -> None:
        """A pod changed, whoever's it is."""
        self._held.pop(change.key, None)
        pod = change.new
        if pod is None or not pod.spec.node_name or pod.status.phase in OVER or is_ours(pod.metadata, self._slots):
            return
        amount = gpus((pod.spec,), self._gpu_resources)
        if amount:
            self._held[change.key] = _Held(amount, pod.metadata.namespace, group_of(pod))

    async def run(self) -> None:
        """Tell what is foreign, whenever that changed, until cancelled."""
        told: Mapping[str, int] = {}
        while True:
            found = self.gpus()
            if found != told:
                told = found
                self._tell(found)
            await self._clock.sleep_until(self._clock.monotonic() + EVERY_S)

    def gpus(self) -> Mapping[str, int]:
        """GPUs that pods of no claim hold, per namespace."""
        driven, foreign = self._driven(), Counter[str]()
        for held in self._held.values():
            claim = None if held.by is None else driven.get(held.by.workload)
            if claim is None or held.by is None or claim.ref.kind != held.by.kind:
                foreign[held.namespace] += held.gpus
        return foreign
