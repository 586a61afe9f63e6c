"""Gangs that run or leave: what their eviction costs, in which order they give way, and when they are expected to end.

Enters: admissions, ends, checkpoints. Leaves: costs in GPU-seconds of the reference GPU, the one currency in which
evictions, waiting and replicas are compared; and ends at two levels of confidence, from what a gang says times how the
gangs of its queue kept to what they said.
"""

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from autoscaler.core.batch.gangs import Gang
from autoscaler.core.batch.params import BatchParams
from autoscaler.core.batch.tree import MILLIONTHS, Load, QueueTree
from autoscaler.core.spread import spread

KEPT_RATIOS: Final = 32
"""Of run time over expected run time, for each queue."""

PRIOR: Final = (1.0, 1.5)
"""Median and ninth decile of that ratio before a queue has eight of its own (a guess)."""


@dataclass(slots=True)
class Running:
    """One gang that was admitted."""

    gang: Gang
    queue: int
    brand: int
    load: Load
    started_s: float
    rank: tuple[int, float, int]
    """Its rank while it waited, which it gets back when it is evicted."""
    expected_s: float
    lease_until_s: float
    checkpoint_s: float
    restart_s: float
    on_loan: bool = False
    leaving_s: float | None = None
    """Since when it was asked to leave; it holds its GPUs still and counts for no quota."""
    unwritten_s: float | None = None
    """When it was last seen that its object does not say so yet; None where it has said so from the beginning."""
    stays: bool = False
    """It was asked to leave, and its stop is refused as such: nobody counts on its going."""
    lost: bool = False
    """It leaves because it lost GPUs: what it leaves it will want again, at its old place."""
    leaves_for: str | None = None
    """The gang that gets its place, while it leaves for one."""
    exchanges: bool = False
    """Whether it had not left for that one before."""
    evictions: int = 0
    order: tuple[int, float, float, str] = (0, 0.0, 0.0, "")
    """Its place among those of its queue that give way, as of when it began or wrote its last checkpoint."""

    @property
    def name(self) -> str:
        """The gang's name."""
        return self.gang.name

    def lost_gpu_s(self, now_s: float) -> float:
        """Work that is lost when it leaves now: since the last checkpoint, and until it works again."""
        lost_s = max(0.0, now_s - self.checkpoint_s) + self.restart_s
        return self.load.amounts[0] / MILLIONTHS * lost_s

    def cost_gpu_s(self, now_s: float) -> float:
        """The same, weighed by its importance."""
        return self.gang.importance * self.lost_gpu_s(now_s)

    def key(self) -> tuple[int, float, float, str]:
        """Order in which gangs of a queue give way: by priority, by importance, then who loses the least time."""
        return self.gang.priority, self.gang.importance, self.restart_s - self.checkpoint_s, self.gang.name

    def is_overdue(self, stuck_s: float, now_s: float) -> bool:
        """Whether it was told to leave, and holds its GPUs still `stuck_s` after its notice, or nobody may tell it."""
        late = self.leaving_s is not None and now_s > self.leaving_s + self.gang.notice_s + stuck_s
        return late or (self.leaving_s is not None and self.stays)

    @property
    def told_s(self) -> float | None:
        """Since when it leaves, as its object says: what refuses or freezes its stop takes none of its time."""
        return self.leaving_s if self.leaving_s is None or self.unwritten_s is None else self.unwritten_s

    def is_counted_on(self, stuck_s: float, now_s: float) -> bool:
        """Whether it leaves and is expected to be gone soon: up to `stuck_s` after its object said so.

        What keeps the stop of one from being written does so for the next one as well: nobody else is asked in its
        place.
        """
        return not self.stays and self.told_s is not None and now_s - self.told_s <= stuck_s

    def is_going(self, stuck_s: float, now_s: float) -> bool:
        """Whether it leaves, and nobody else is called back in its place: up to `stuck_s` after its notice.

        It has both from when its stop was written. What refuses or freezes the stop of one does so for the next one as
        well, and all of them would go at once when that is over.
        """
        return not self.stays and self.told_s is not None and now_s <= self.told_s + self.gang.notice_s + stuck_s

    def end_s(self, ratio: float, now_s: float) -> float:
        """When it is expected to end; one that is over its time is taken to need another tenth of it."""
        expected = self.started_s + self.expected_s * ratio
        return expected if expected > now_s else now_s + 0.1 * (now_s - self.started_s) + 1.0


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of a queue."""

    used_gpu_s: float
    """Decayed GPU-seconds."""
    ratios: tuple[float, ...]
    """Of run time over expected run time, of the last gangs that ended by themselves."""


@dataclass(slots=True)
class _Past:
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_RATIOS))
    quantiles: tuple[float, float] | None = None
    """Of the ratios; found when somebody asks."""
    gpu_s: float = 0.0
    """Decayed use up to `at_s`."""
    rate: float = 0.0
    at_s: float = 0.0


class Runs:
    """All gangs that hold GPUs, by name and by queue in order of giving way."""

    def __init__(self, params: BatchParams, tree: QueueTree) -> None:
        self._params, self._tree = params, tree
        self.all: dict[str, Running] = {}
        self.lost: dict[str, Running] = {}
        """Those that leave because they lost GPUs."""
        self._in_order: list[list[tuple[int, float, float, str]]] = [[] for _ in tree.specs]
        self._past = [_Past() for _ in tree.specs]

    def start(self, run: Running) -> None:
        """A gang holds GPUs and counts."""
        self.all[run.gang.name] = run
        run.order = run.key()
        insort(self._in_order[run.queue], run.order)

    def leave(self, run: Running, now_s: float) -> None:
        """A gang was asked to leave: it gives way no more."""
        run.leaving_s = now_s
        self._out_of_order(run)

    def lose(self, run: Running) -> None:
        """A gang that was asked to leave lost GPUs: it will wait at its old place."""
        run.lost = True
        self.lost[run.name] = run

    def go_on(self, run: Running, lease_until_s: float) -> None:
        """A gang that was asked to leave, and was never told, runs on; it is asked again after an instant at the
        earliest."""
        run.leaving_s = run.unwritten_s = run.leaves_for = None
        run.stays = False
        run.lease_until_s = max(run.lease_until_s, lease_until_s)
        self.start(run)

    def remain(self, run: Running, now_s: float) -> None:
        """A gang holds GPUs that it is leaving already: it never counts, nor gives way."""
        run.leaving_s = now_s
        self.all[run.name] = run

    def unseen(self, lasted_s: float) -> None:
        """For so long nobody could see who had left: it does not count for how long gangs have been leaving."""
        for run in self.all.values():
            if run.leaving_s is not None:
                run.leaving_s += lasted_s
            if run.unwritten_s is not None:
                run.unwritten_s += lasted_s

    def unwritten(self, name: str, now_s: float) -> None:
        """The object of a gang that was asked to leave does not say so yet."""
        self.all[name].unwritten_s = now_s

    def end(self, name: str) -> Running | None:
        """A gang holds nothing any more."""
        run = self.all.pop(name, None)
        self.lost.pop(name, None)
        if run is not None and run.leaving_s is None:
            self._out_of_order(run)
        return run

    def checkpointed(self, name: str, at_s: float) -> None:
        """A gang wrote a checkpoint."""
        run = self.all.get(name)
        if run is not None and run.leaving_s is None:
            self._out_of_order(run)
            run.checkpoint_s = max(run.checkpoint_s, at_s)
            run.order = run.key()
            insort(self._in_order[run.queue], run.order)

    def in_order(self, queue: int) -> Iterator[Running]:
        """The gangs of a queue that may be asked to leave, the first to give way first."""
        for _, _, _, name in self._in_order[queue]:
            yield self.all[name]

    def count(self, queue: int) -> int:
        """Gangs of a queue that hold GPUs and were not asked to leave."""
        return len(self._in_order[queue])

    def ran(self, run: Running, now_s: float) -> None:
        """A gang ended by itself: how long it ran beside what was expected is learnt."""
        if run.expected_s > 0:
            past = self._past[run.queue]
            past.ratios.append(max(0.0, now_s - run.started_s) / run.expected_s)
            past.quantiles = None

    def ratios(self, queue: int) -> tuple[float, float]:
        """Run time over expected run time of the queue's gangs, median and ninth decile."""
        past = self._past[queue]
        if past.quantiles is None:
            found = spread(past.ratios) if len(past.ratios) >= 8 else None
            past.quantiles = PRIOR if found is None else (max(found.p50_s, 0.01), max(found.p90_s, 0.01))
        return past.quantiles

    def use(self, path: Iterable[int], gpus: float, now_s: float) -> list[tuple[int, float]]:
        """Change what queues use, serving's use of the tenant included.

        Returns their decayed GPU-seconds up to now, but for those of which they were asked for at this very instant
        before: nearly all, which is why the whole path goes in one call.
        """
        moved = []
        for queue in path:
            past = self._past[queue]
            if now_s != past.at_s:
                past.gpu_s, past.at_s = self._used(past, now_s), max(now_s, past.at_s)
                moved.append((queue, past.gpu_s))
            past.rate = max(0.0, past.rate + gpus)
        return moved

    def past(self, queue: int, now_s: float) -> Past:
        """What is remembered of a queue now."""
        past = self._past[queue]
        return Past(self._used(past, now_s), tuple(past.ratios))

    def remember(self, queue: int, past: Past, at_s: float, now_s: float) -> None:
        """What was remembered of a queue at an instant is so again; what it holds now it uses from now on."""
        rate = self._past[queue].rate
        self._past[queue] = _Past(deque(past.ratios, KEPT_RATIOS), None, past.used_gpu_s, 0.0, at_s)
        self.use((queue,), rate, now_s)

    def _used(self, past: _Past, now_s: float) -> float:
        half_life_s = self._params.half_life_s
        left: float = 0.5 ** (max(0.0, now_s - past.at_s) / half_life_s)
        return past.gpu_s * left + past.rate * half_life_s / math.log(2) * (1 - left)

    def _out_of_order(self, run: Running) -> None:
        mine = self._in_order[run.queue]
        at = bisect_left(mine, run.order)
        del mine[at]
