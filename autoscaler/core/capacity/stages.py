"""The stage clock: how long each part of a cold start takes, per image, shape and state of the node.

Enters: the life of pods as far as it is known, told again as it goes on. Leaves: distributions per stage, which pods
are stuck in which stage since when, and a small checkpoint. A start gives its samples when its pod becomes ready, all
of them at once; one that never does gives none. Instants come from several machines' clocks: a pod whose instants are
out of order, not finite or absurdly far apart gives nothing and is counted. It knows no Kubernetes and no time of its
own. Pods are to be told from their beginning: one that is first seen ready may have become so for the second time.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from autoscaler.core.capacity.podtimes import LONGEST_S, Kind, PodTimes, Stage, durations, under_way, usable
from autoscaler.core.spread import Spread, spread

VERSION: Final = 2
"""Raised when a key changes its meaning or goes: in the first, the model of a kind was its image alone."""

KEEP: Final = 32
"""Samples kept of each stage, as of whole warm-ups: enough for a 90th percentile, few enough to follow a change."""

KEEP_KINDS: Final = 128
"""Kinds of start kept, the most recent ones: images change with every rollout."""

STUCK_TIMES: Final = 3.0
"""A pod is stuck when it is in a stage for this many times the stage's 90th percentile (a guess)."""

STUCK_FROM: Final = 5
"""Samples behind that percentile; with fewer a pod is stuck after `STUCK_S`."""

STUCK_S: Final = 900.0
"""Longer than published stages of GPU nodes and engines but bare metal's (a guess)."""

STUCK_LEAST_S: Final = 60.0
"""No pod is stuck sooner: a stage of one second may take ten without anybody having to know."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of start: each stage that was measured, and the whole from order to readiness."""

    kind: Kind
    stages: Mapping[Stage, Spread]
    """Without those that were never measured."""
    total: Spread


@dataclass(frozen=True, slots=True)
class Stuck:
    """A pod that has been in a stage for longer than such starts take."""

    uid: str
    kind: Kind
    stage: Stage
    since_s: float


@dataclass(slots=True)
class _Samples:
    """The windows of one kind."""

    stages: dict[Stage, list[float]] = field(default_factory=dict)
    total: list[float] = field(default_factory=list)
    newest_s: float = -math.inf
    """When the newest start that was taken became ready."""
    restored_s: float = -math.inf
    """The same as a checkpoint had it: what became ready until then is in these windows already."""


class StageClock:
    """Takes pods' lives as they go on and keeps how long their stages took."""

    def __init__(self) -> None:
        self.dropped = 0
        """Pods whose instants could not be used."""
        self._kinds: dict[Kind, _Samples] = {}
        self._open: dict[str, PodTimes] = {}
        self._done: dict[str, bool] = {}
        """Pods that are ready -> whether their first token is still to come."""

    def note(self, pod: PodTimes) -> None:
        """Take what is known of a pod now; telling the same again changes nothing."""
        if pod.ready_s is None and pod.uid not in self._done:
            self._open[pod.uid] = pod
            return
        if pod.uid not in self._done:
            self._open.pop(pod.uid, None)
            self._done[pod.uid] = self._take(pod)
        if self._done[pod.uid] and pod.first_token_s is not None:
            self._done[pod.uid] = False
            self._take_token(pod)

    def gone(self, uid: str) -> None:
        """Forget a pod that is no more; a start that did not end gives nothing."""
        self._open.pop(uid, None)
        self._done.pop(uid, None)

    def table(self) -> tuple[Row, ...]:
        """What was measured, one row per kind of start, the kind that was seen last at the end."""
        return tuple(
            Row(
                kind,
                {stage: spread(window) for stage in Stage if (window := samples.stages.get(stage))},
                spread(samples.total),
            )
            for kind, samples in self._kinds.items()
        )

    def whole_s(self, kind: Kind) -> tuple[float, ...]:
        """The seconds from order to readiness of the starts of a kind, oldest first; empty where none was measured."""
        samples = self._kinds.get(kind)
        return () if samples is None else tuple(samples.total)

    def stuck(self, now_s: float) -> tuple[Stuck, ...]:
        """Pods that are in a stage for much longer than such starts were, longest first."""
        found = [Stuck(pod.uid, pod.kind, *under_way(pod)) for pod in self._open.values()]
        late = [each for each in found if now_s - each.since_s > self._patience_s(each.kind, each.stage)]
        return tuple(sorted(late, key=lambda each: (each.since_s, each.uid)))

    def pack(self) -> dict[str, Any]:
        """The windows as plain JSON values, about 1 KiB per kind; pods under way are not in it."""
        return {"version": VERSION, "dropped": self.dropped, "kinds": list(self._packed())}

    @classmethod
    def unpack(cls, saved: Mapping[str, Any]) -> "StageClock":
        """The clock behind a checkpoint. Raises ValueError when it is of another version or shape."""
        if saved.get("version") != VERSION:
            raise ValueError(f"stages: version {saved.get('version')!r}, this build reads {VERSION}")
        clock = cls()
        try:
            clock.dropped = int(saved["dropped"])
            for entry in saved["kinds"]:
                clock._restore(entry)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"stages: {type(error).__name__}: {error}") from error
        return clock

    def _restore(self, entry: Mapping[str, Any]) -> None:
        total, newest_s = _samples(entry["total"]), float(entry["newest_s"])
        if not total:
            raise ValueError("a kind without a start")
        stages = {Stage(name): _samples(values) for name, values in entry["stages"].items() if values}
        self._kinds[Kind(*(entry[name] for name in _KIND))] = _Samples(stages, total, newest_s, restored_s=newest_s)

    def _take(self, pod: PodTimes) -> bool:
        """Take a pod that became ready; whether its first token is waited for."""
        if not usable(pod):
            self.dropped += 1
            return False
        assert pod.ready_s is not None
        samples = self._of(pod.kind)
        if pod.ready_s <= samples.restored_s:
            return False
        samples.newest_s = max(samples.newest_s, pod.ready_s)
        _keep(samples.total, pod.ready_s - pod.created_s)
        for stage, took_s in durations(pod):
            if stage is not Stage.SERVING:
                _keep(samples.stages.setdefault(stage, []), took_s)
        return True

    def _take_token(self, pod: PodTimes) -> None:
        """Take the time to the first token of a pod that was taken before."""
        samples = self._kinds.get(pod.kind)
        took_s = dict(durations(pod)).get(Stage.SERVING)
        if samples is None or took_s is None:
            return
        if 0.0 <= took_s <= LONGEST_S:
            _keep(samples.stages.setdefault(Stage.SERVING, []), took_s)
        else:
            self.dropped += 1

    def _of(self, kind: Kind) -> _Samples:
        """The windows of a kind, which is the last one seen from now on; beyond the bound the first is forgotten."""
        samples = self._kinds.pop(kind, None) or _Samples()
        self._kinds[kind] = samples
        if len(self._kinds) > KEEP_KINDS:
            del self._kinds[next(iter(self._kinds))]
        return samples

    def _patience_s(self, kind: Kind, stage: Stage) -> float:
        samples = self._kinds.get(kind)
        measured = [] if samples is None else samples.stages.get(stage, [])
        if len(measured) < STUCK_FROM:
            return STUCK_S
        return max(STUCK_LEAST_S, STUCK_TIMES * spread(measured).p90_s)

    def _packed(self) -> Iterator[dict[str, Any]]:
        for kind, samples in self._kinds.items():
            yield {
                **{name: getattr(kind, name) for name in _KIND},
                "newest_s": samples.newest_s,
                "total": samples.total,
                "stages": {stage.value: values for stage, values in samples.stages.items()},
            }


_KIND: Final = tuple(spec.name for spec in fields(Kind))


def _keep(window: list[float], took_s: float) -> None:
    """Add a sample in tenths of a second, which is finer than Kubernetes tells, and drop the oldest."""
    window.append(round(took_s, 1))
    del window[:-KEEP]


def _samples(values: Iterable[Any]) -> list[float]:
    return [float(value) for value in values][-KEEP:]
