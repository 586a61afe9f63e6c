"""Health of the GPUs under serving pods, from the pages of NVIDIA's DCGM exporter.

Enters: pages of the exporter, one per node. Leaves: what is known of the GPUs of a pod, and a veto on pods whose GPU
failed in a way that only a reset or a reboot ends. Free memory here is no headroom: engines take all of it at start.

The exporter shows the last error a GPU ever had, so that one seen on the first page may be long repaired: it is
reported and no veto. One that appears while we watch is one, until the exporter shows that GPU without an error; a GPU
that is off the bus may not be shown at all.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autoscaler.adapters.engines.fetch import Trouble, fetching
from autoscaler.adapters.engines.lines import LineFilter, Sample
from autoscaler.adapters.engines.polling import Poller
from autoscaler.adapters.engines.targets import GpuTarget
from autoscaler.ports import Clock

FATAL_XIDS = frozenset({46, 48, 62, 64, 79, 95, 119, 120, 140})
"""Errors after which a GPU serves nobody until it is reset: stopped (46), uncorrectable memory (48, 64, 95, 140), its
own controller halted (62) or silent (119, 120), off the bus (79).

Sources: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors) and health checks, which drain and reset on them.
Left out are those that end a process and not the GPU (13, 31, 43, 45, 68, 94, 109: NVIDIA/k8s-device-plugin,
internal/rm/health.go, ignores them too) and 74, an NVLink error that is often corrected.
"""

INTERVAL_S = 10.0
"""The exporter itself reads most fields every 30 s."""

STALE_S = 60.0
_MIB = 1 << 20
_BLANK = 0x7FFFFFF0
"""DCGM writes numbers from here on for a field it could not read."""

_USED, _FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
_BUSY, _SLICE_BUSY = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_XID = "DCGM_FI_DEV_XID_ERRORS"
_LINES = LineFilter([_USED, _FREE, _BUSY, _SLICE_BUSY, _XID])

Gpu = tuple[str, str]
"""UUID, and the instance where a GPU is sliced (MIG)."""


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """What is known of all GPUs of one pod. A None number was not on the page."""

    pod: str
    """``namespace/name``."""
    node: str
    at_s: float
    gpus: int
    memory_used_bytes: float | None
    memory_free_bytes: float | None
    utilisation_ratio: float | None
    """Mean over its GPUs, 0..1."""
    xid: int | None
    """The last error of one of its GPUs, a fatal one if there is any; None when there was none."""
    failed_since_s: float | None
    """When a fatal error was first seen; None while there is no veto."""

    @property
    def failed(self) -> bool:
        """Whether the pod cannot serve, whatever its page says."""
        return self.failed_since_s is not None


@dataclass(slots=True)
class _Node:
    """What an exporter showed last."""

    page_s: float = -math.inf
    seen: dict[Gpu, int] = field(default_factory=dict)
    """GPU -> its last error, 0 for none."""
    failed_s: dict[Gpu, float] = field(default_factory=dict)
    owner: dict[Gpu, str] = field(default_factory=dict)
    """GPU -> the pod that had it when it was shown last."""
    health: dict[str, GpuHealth] = field(default_factory=dict)

    def absorb(self, node: str, page: bytes, now_s: float, mono_s: float) -> list[str]:
        """Take a page; return the pods that have failed since the one before."""
        by_gpu: defaultdict[Gpu, list[Sample]] = defaultdict(list)
        for sample in _LINES.samples(page):
            by_gpu[sample[1].get("UUID", sample[1].get("gpu", "")), sample[1].get("GPU_I_ID", "")].append(sample)
        self._note_errors(by_gpu, now_s)
        before, self.page_s = self.health, mono_s
        of_pods: defaultdict[str, dict[Gpu, list[Sample]]] = defaultdict(dict)
        for gpu, samples in by_gpu.items():
            for pod in {_pod(sample) for sample in samples} - {""}:
                of_pods[pod][gpu] = samples
                self.owner[gpu] = pod
        for gpu in self.failed_s.keys() - by_gpu.keys() & self.owner.keys():
            of_pods[self.owner[gpu]][gpu] = []
        self.health = {pod: self._of_pod(pod, node, gpus, now_s) for pod, gpus in of_pods.items()}
        return [pod for pod, now in self.health.items() if now.failed and not (pod in before and before[pod].failed)]

    def _note_errors(self, by_gpu: dict[Gpu, list[Sample]], now_s: float) -> None:
        first_page = self.page_s == -math.inf
        for gpu, samples in by_gpu.items():
            xid = int(max((value for name, _, value in samples if name == _XID and _readable(value)), default=0.0))
            appeared = not first_page and xid != self.seen.get(gpu, 0)
            if xid == 0:
                self.failed_s.pop(gpu, None)
            elif xid in FATAL_XIDS and appeared:
                self.failed_s.setdefault(gpu, now_s)
            self.seen[gpu] = xid

    def _of_pod(self, pod: str, node: str, gpus: dict[Gpu, list[Sample]], now_s: float) -> GpuHealth:
        samples = [sample for of_gpu in gpus.values() for sample in of_gpu]
        busy = _ratios(samples, _BUSY, 0.01) or _ratios(samples, _SLICE_BUSY, 1.0)
        xids = sorted({self.seen[gpu] for gpu in gpus} - {0}, key=lambda xid: (xid not in FATAL_XIDS, xid))
        failed = [self.failed_s[gpu] for gpu in gpus if gpu in self.failed_s]
        return GpuHealth(
            pod=pod,
            node=node,
            at_s=now_s,
            gpus=len(gpus),
            memory_used_bytes=_bytes(samples, _USED),
            memory_free_bytes=_bytes(samples, _FREE),
            utilisation_ratio=sum(busy) / len(busy) if busy else None,
            xid=xids[0] if xids else None,
            failed_since_s=min(failed, default=None),
        )


class GpuWatch:
    """Asks the exporters until cancelled. `on_failed` is told a pod, ``namespace/name``, once when its GPU fails."""

    def __init__(
        self,
        *,
        clock: Clock,
        on_failed: Callable[[str], None],
        interval_s: float = INTERVAL_S,
        allow_loopback: bool = False,
    ) -> None:
        self._clock = clock
        self._on_failed = on_failed
        self._allow_loopback = allow_loopback
        self._nodes: dict[str, _Node] = {}
        self._poller: Poller[GpuTarget] = Poller(clock, interval_s, self._absorb)

    async def run(self) -> None:
        """Ask until cancelled."""
        async with fetching(allow_loopback=self._allow_loopback) as fetcher:
            await self._poller.run(fetcher.get)

    def put(self, target: GpuTarget) -> None:
        """Ask this exporter from now on."""
        self._nodes.setdefault(target.uid, _Node())
        self._poller.put(target)

    def drop(self, uid: str) -> None:
        """Ask this exporter no more."""
        self._poller.drop(uid)
        self._nodes.pop(uid, None)

    def health(self, pod: str) -> GpuHealth | None:
        """What is known of the GPUs of ``namespace/name``; None when no exporter spoke of it in the last minute."""
        mono_s = self._clock.monotonic()
        for node in self._nodes.values():
            if pod in node.health and mono_s - node.page_s <= STALE_S:
                return node.health[pod]
        return None

    def known(self) -> Iterator[GpuHealth]:
        """What the exporters said of every pod in the last minute."""
        mono_s = self._clock.monotonic()
        for node in self._nodes.values():
            if mono_s - node.page_s <= STALE_S:
                yield from node.health.values()

    def _absorb(self, target: GpuTarget, answer: bytes | Trouble) -> bool:
        if isinstance(answer, Trouble):
            return False
        node = self._nodes[target.uid]
        for pod in node.absorb(target.node, answer, self._clock.now(), self._clock.monotonic()):
            self._on_failed(pod)
        return True


def _pod(sample: Sample) -> str:
    """Whose GPU it is, empty when that is not known; older exporters write ``pod_namespace`` and ``pod_name``."""
    get = sample[1].get
    namespace, name = get("namespace") or get("pod_namespace"), get("pod") or get("pod_name")
    return f"{namespace}/{name}" if namespace and name else ""


def _readable(value: float) -> bool:
    return 0.0 <= value < _BLANK


def _bytes(samples: list[Sample], name: str) -> float | None:
    found = [value for own, _, value in samples if own == name]
    return sum(found) * _MIB if found and all(map(_readable, found)) else None


def _ratios(samples: list[Sample], name: str, scale: float) -> list[float]:
    """The values of a share; those that cannot be one are left out."""
    return [value * scale for own, _, value in samples if own == name and 0.0 <= value * scale <= 1.0]
