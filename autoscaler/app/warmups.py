"""Feeds the stage clock with the lives of claimed pods, and keeps what it measured in the cluster.

Enters: changes of pods, Pulled events, pages of pods that became ready. Leaves: what a cold start's stages take, in
words, pods that are stuck, and a checkpoint, which also says what each workload's newest start was like. Both replicas
measure; the one that leads keeps, every minute and when it hands over.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog

from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.membership import condition, owner_of, serving_since_s
from autoscaler.adapters.kube.pods import Node, Pod
from autoscaler.adapters.kube.pulls import Pull
from autoscaler.adapters.kube.shapes import gpus
from autoscaler.app.stores import KEEP_EVERY_S, Saver
from autoscaler.core.capacity.laststarts import LastStarts
from autoscaler.core.capacity.podtimes import Kind, PodTimes
from autoscaler.core.capacity.stages import Row, StageClock
from autoscaler.core.pool.ahead import Started
from autoscaler.ports import Clock, MetricSample, PortError, StateStore
from autoscaler.record.explain import duration
from autoscaler.runtime.clock import breathe

TOKENS_EVERY_S: Final = 1.0

AT_ONCE: Final = 16
"""Workloads looked at for first tokens in one turn of the event loop: idle ones may wait for theirs for days."""

KEY: Final = "stages"
LAST_KEY: Final = "last-starts"

NEW_NODE_S: Final = 60.0
"""A node made up to so long before a pod was made for it: Karpenter launches for the pods of a batch window (10 s) and
nodes take longer than that to register."""

PLACED_S: Final = 5.0
"""A pod that was placed within this has waited for no node, however young the one is that it was given."""

MET_WITHIN_S: Final = 120.0
"""A pod that was not ready within this after it was made was met in its first start. Of one that is met later, after a
restart of ours say, nobody knows whether it was ready before, and hours would be taken for a start (our clock may be
off by a minute, and lists late)."""

MOST_PULLS: Final = 20_000
"""Pulls that are remembered: each list of events tells of the last hour's pods, those that are gone included."""

PRODUCT: Final = "nvidia.com/gpu.product"

LOG: Final = structlog.get_logger("headroom")


class WarmUps:
    """The stage clock behind a followed cluster."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        clock: Clock,
        store: StateStore,
        gpu_resources: tuple[str, ...],
        claimed: Callable[[str], bool],
        model: Callable[[str], str],
        sample: Callable[[str], MetricSample],
        leading: Callable[[], bool],
    ) -> None:
        self._stages = StageClock()
        self._cluster = cluster
        self._clock = clock
        self._store = store
        self._gpu_resources = gpu_resources
        self._claimed = claimed
        self._model = model
        self._sample = sample
        self._leading = leading
        self._pulls: dict[str, Pull] = {}
        self._waiting: dict[str, tuple[str, PodTimes]] = {}
        """Workload/pod -> the workload and the life of a pod that is ready and served no token yet."""
        self._names: dict[str, str] = {}
        """UID -> pod."""
        self._met: set[str] = set()
        """UIDs of pods that were met in their first start."""
        self._last = LastStarts()
        self._saver = Saver(store, "measured warm-ups not kept")

    async def run(self) -> None:
        """Restore what was kept, then look for first tokens and keep, until cancelled."""
        await self._restore()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tokens(), name="first tokens")
            group.create_task(self._keep(), name="keep stages")

    def on_pull(self, pull: Pull) -> None:
        """An image is there. It is forgotten with its pod, or as the oldest of too many."""
        self._pulls.setdefault(pull.uid, pull)
        if len(self._pulls) > MOST_PULLS:
            del self._pulls[next(iter(self._pulls))]

    def on_pod(self, change: Change[Pod]) -> None:
        """A pod changed that may be a claimed one."""
        pod = change.new
        if pod is None:
            assert change.old is not None
            uid = change.old.metadata.uid
            self._stages.gone(uid)
            self._met.discard(uid)
            self._pulls.pop(uid, None)
            self._names.pop(uid, None)
            self._waiting.pop(change.key, None)
            return
        owned = owner_of(pod)
        times = None if owned is None or not self._claimed(owned.workload) else self._times(pod)
        if owned is None or times is None:
            return
        self._names[times.uid] = change.key
        self._remember(owned.workload, pod, times)
        if times.ready_s is None and self._clock.now() - times.created_s <= MET_WITHIN_S:
            self._met.add(times.uid)
        if times.ready_s is not None and times.uid not in self._met:
            self._stages.gone(times.uid)
            return
        first = change.old is None or serving_since_s(change.old) is None
        self._stages.note(times)
        if times.ready_s is not None and first:
            self._waiting[change.key] = (owned.workload, times)

    def measured(self, pods: Mapping[str, Pod]) -> tuple[str, ...]:
        """What starts like those of `pods` took, a sentence per kind of start."""
        kinds = {times.kind for pod in pods.values() if (times := self._times(pod)) is not None}
        return tuple(_sentence(row) for row in self._stages.table() if row.kind in kinds)

    def started(self, workload: str) -> Started | None:
        """What starts like that of its newest pod took, by the state of the node; None before one was ready."""
        kind = self._last.kind(workload)
        return None if kind is None else self._took(kind)

    def _took(self, kind: Kind) -> Started:
        warm = replace(kind, node_is_new=False, image_was_present=True)
        cold = replace(kind, node_is_new=True, image_was_present=False)
        return Started(self._stages.whole_s(warm), self._stages.whole_s(cold))

    def _measured(self, kind: Kind) -> bool:
        return self._took(kind) != Started((), ())

    def stuck(self, pods: Mapping[str, Pod]) -> tuple[str, ...]:
        """Which of `pods` are in a stage for much longer than such starts were."""
        now_s = self._clock.now()
        return tuple(
            f"{key} is not {found.stage.value} for {duration(now_s - found.since_s)}, much longer than such starts take"
            for found in self._stages.stuck(now_s)
            if (key := self._names.get(found.uid)) in pods
        )

    def _times(self, pod: Pod) -> PodTimes | None:
        created = _epoch_s(pod.metadata.creation_timestamp)
        if created is None:
            return None
        uid = pod.metadata.uid
        pull, node = self._pulls.get(uid), self._cluster.node(pod.spec.node_name)
        placed, _, placed_at = condition(pod, "PodScheduled")
        placed_s = _epoch_s(placed_at) if placed else None
        started = [c.state.running.started_at for c in pod.status.container_statuses if c.state.running is not None]
        begun = [at.timestamp() for at in started if at is not None]
        all_run = len(begun) == len(pod.spec.containers) > 0
        return PodTimes(
            uid=uid,
            kind=Kind(
                self._content(pod),
                self._shape(pod, node),
                _is_new(node, created, placed_s),
                pull is not None and pull.was_present,
            ),
            created_s=created,
            scheduled_s=placed_s,
            pulled_s=None if pull is None else pull.at_s,
            started_s=max(begun) if all_run else None,
            ready_s=serving_since_s(pod),
        )

    def _content(self, pod: Pod) -> str:
        owned = owner_of(pod)
        return _image(pod) if owned is None else f"{_image(pod)} {self._model(owned.workload)}"

    def _shape(self, pod: Pod, node: Node | None) -> str:
        product = "" if node is None else node.metadata.labels.get(PRODUCT, "")
        return f"{gpus((pod.spec,), self._gpu_resources)}x{product or 'GPU'}"

    def _remember(self, workload: str, pod: Pod, times: PodTimes) -> None:
        """Take a pod that is ready; where its node was not read yet, as right after a start of ours, its GPUs have no
        product, and what is known of the workload is better."""
        placed = self._cluster.node(pod.spec.node_name) is not None
        if times.ready_s is not None and (placed or self._last.kind(workload) is None):
            self._last.note(workload, times.created_s, times.kind)

    async def _tokens(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + TOKENS_EVERY_S)
            waiting: dict[str, list[str]] = {}
            for key, (workload, _) in self._waiting.items():
                waiting.setdefault(workload, []).append(key)
            for turn, (workload, keys) in enumerate(waiting.items(), start=1):
                self._look(workload, keys)
                if turn % AT_ONCE == 0:
                    await breathe(self._clock)

    def _look(self, workload: str, keys: list[str]) -> None:
        """Note which of a workload's pods have served a token by now."""
        try:
            sample = self._sample(workload)
        except PortError:
            return
        served = {pod.name for pod in sample.pods or () if pod.generation_tokens_total}
        for key in keys:
            if key.partition("/")[2] in served and key in self._waiting:
                _, times = self._waiting.pop(key)
                self._stages.note(_with_token(times, sample.at_s))

    async def keep(self) -> None:
        """Save what was measured since it was last kept, as far as the store lets this replica."""
        await self._saver.save({KEY: self._stages.pack(), LAST_KEY: self._last.pack(self._measured)})

    async def _keep(self) -> None:
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + KEEP_EVERY_S)
            if self._leading():
                await self.keep()

    async def _restore(self) -> None:
        try:
            saved = await self._store.load()
            if KEY in saved:
                self._stages = StageClock.unpack(saved[KEY])
            if LAST_KEY in saved:
                self._last.restore(saved[LAST_KEY])
        except (PortError, ValueError) as error:
            LOG.warning("measured warm-ups not restored", why=str(error))


def _sentence(row: Row) -> str:
    kind = row.kind
    state = " on a new node" if kind.node_is_new else ""
    state += ", image already there" if kind.image_was_present else ""
    stages = ", ".join(f"{stage.value} {duration(spread.p50_s)}" for stage, spread in row.stages.items())
    total = row.total
    return (
        f"a replica, {kind.shape}{state} ({_digest(kind)}): ready after {duration(total.p50_s)}, "
        f"9 of 10 within {duration(total.p90_s)}, {total.samples} starts; medians: {stages}"
    )


def _digest(kind: Kind) -> str:
    """Enough of the image's digest to tell two apart."""
    return kind.model.partition(" ")[0][:19]


def _with_token(times: PodTimes, at_s: float) -> PodTimes:
    return PodTimes(
        times.uid, times.kind, times.created_s, times.scheduled_s, times.pulled_s, times.started_s, times.ready_s, at_s
    )


def _image(pod: Pod) -> str:
    """The digest of the first container's image: two names of one image warm up alike."""
    for status in pod.status.container_statuses:
        if status.image_id:
            return status.image_id.rpartition("@")[2]
    return "unknown"


def _is_new(node: Node | None, created_s: float, placed_s: float | None) -> bool:
    made_s = None if node is None else _epoch_s(node.metadata.creation_timestamp)
    if made_s is None or placed_s is None:
        return False
    waited = placed_s - created_s > PLACED_S
    return made_s > created_s or (waited and made_s > created_s - NEW_NODE_S)


def _epoch_s(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
