"""Pods whose GPU has failed count as serving nobody, whatever their probes say.

Enters: changes of pods, the pages of the DCGM exporter. Leaves: a veto per pod, a word to the workload when one fails,
and what its GPUs do, for people. Without an exporter in the settings nothing is vetoed and nothing is known.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from autoscaler.adapters.engines.dcgm import GpuHealth, GpuWatch
from autoscaler.adapters.engines.targets import GpuTarget
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.membership import serving_since_s
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.selectors import matches
from autoscaler.ports import Clock
from autoscaler.record.gpu_metrics import GpuUse
from autoscaler.settings.parts import GpuExporter


class GpuVeto:
    """What the exporters say of serving pods; `on_failed` is told a pod, ``namespace/name``, once its GPU fails."""

    def __init__(
        self, exporter: GpuExporter | None, clock: Clock, on_failed: Callable[[str], None], *, allow_loopback: bool
    ) -> None:
        if exporter is not None:
            matches(exporter.selector, {})  # a selector that cannot be read must not wait for the first pod to say so
        self._exporter = exporter
        self._watch = GpuWatch(clock=clock, on_failed=on_failed, allow_loopback=allow_loopback)

    async def run(self) -> None:
        """Ask the exporters until cancelled."""
        await self._watch.run()

    def on_pod(self, change: Change[Pod]) -> None:
        """A pod changed that may be an exporter's."""
        pod, exporter = change.new or change.old, self._exporter
        assert pod is not None
        if exporter is None or pod.metadata.namespace != exporter.namespace:
            return
        if not matches(exporter.selector, pod.metadata.labels):
            return
        meta, ip = pod.metadata, pod.status.pod_ip
        if change.new is None or serving_since_s(pod) is None or not ip:
            self._watch.drop(meta.uid)
        else:
            target = GpuTarget(pod.spec.node_name, meta.name, meta.uid, ip, exporter.port, exporter.path)
            self._watch.put(target)

    def failure(self, pod: str) -> GpuHealth | None:
        """What is known of the failed GPU of ``namespace/name``; None while none of its GPUs has failed."""
        health = self._watch.health(pod)
        return health if health is not None and health.failed else None

    def failed(self, pod: str) -> bool:
        """Whether a GPU of ``namespace/name`` has failed."""
        return self.failure(pod) is not None

    def uses(self, workload_of: Callable[[str], str | None]) -> dict[str, GpuUse]:
        """What the GPUs of each workload do; `workload_of` is asked by ``namespace/name`` of a pod."""
        found: defaultdict[str, list[GpuHealth]] = defaultdict(list)
        for health in self._watch.known():
            workload = workload_of(health.pod)
            if workload is not None:
                found[workload].append(health)
        return {workload: _use(pods) for workload, pods in found.items()}


def _use(pods: list[GpuHealth]) -> GpuUse:
    busy = _sum(None if pod.utilisation_ratio is None else pod.utilisation_ratio * pod.gpus for pod in pods)
    return GpuUse(
        memory_used_bytes=_sum(pod.memory_used_bytes for pod in pods),
        memory_free_bytes=_sum(pod.memory_free_bytes for pod in pods),
        utilisation_ratio=None if busy is None else busy / sum(pod.gpus for pod in pods),
    )


def _sum(figures: Iterable[float | None]) -> float | None:
    """None as soon as one of them is not known."""
    total = 0.0
    for figure in figures:
        if figure is None:
            return None
        total += figure
    return total
