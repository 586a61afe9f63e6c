"""The simulated cluster of batch work: jobs arrive, start where a policy puts them, save, leave and end.

Enters: a case and a policy. Leaves: a Past, which says what became of every job and what tenants held and wanted at
equal intervals; `score` judges it. A policy is asked at every event and when it asked to be; what it orders is checked:
no GPU twice, gangs whole, pods on one node each. It knows nothing of why.
"""

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

import numpy as np

from autoscaler.errors import HeadroomError
from autoscaler.sim.batch.work import Case, Job
from autoscaler.sim.traffic import FloatArray

Spots = tuple[tuple[int, int], ...]
"""(node, GPUs) of a whole gang; one entry for a node at most."""

MOST_TURNS = 10_000
"""Times in a row that a policy may order something at one instant; more is a policy that never rests."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a policy wants now."""

    starts: tuple[tuple[str, Spots], ...] = ()
    leaves: tuple[str, ...] = ()
    """Gangs that are told to go; after the starts, so that who started now may be among them."""
    again_s: float | None = None
    """When it wants to be asked at the latest, were there no event."""


class Policy(Protocol):
    """One policy for one case and one run."""

    @property
    def name(self) -> str:
        """The name it is asked for by and printed under."""
        ...

    def submit(self, job: Job, now_s: float) -> None:
        """A job wants to start."""
        ...

    def ended(self, job: Job, now_s: float) -> None:
        """A job is done; its GPUs are free."""
        ...

    def left(self, job: Job, now_s: float) -> None:
        """A job that was told to go has gone, and waits again."""
        ...

    def saved(self, job: Job, now_s: float) -> None:
        """A running job saved its work."""
        ...

    def decide(self, now_s: float) -> Orders:
        """What is to be done now; asked again at once after it ordered something."""
        ...


@dataclass(slots=True)
class Fate:
    """What became of a job."""

    job: Job
    end_s: float = math.nan
    """NaN: it never ended."""
    first_start_s: float = math.nan
    evictions: int = 0
    lost_gpu_s: float = 0.0
    """GPU-seconds held that did not last: work lost, notice and restart."""

    @property
    def ended(self) -> bool:
        """Whether it was done."""
        return not math.isnan(self.end_s)

    @property
    def completion_s(self) -> float:
        """From its submission to its end."""
        return self.end_s - self.job.submit_s

    @property
    def wait_s(self) -> float:
        """Of that, all but the time it works: waiting, and what evictions cost it."""
        return self.completion_s - self.job.duration_s


@dataclass(frozen=True, slots=True)
class Past:
    """A finished run."""

    policy: str
    case: Case
    fates: tuple[Fate, ...]
    sample_s: float
    held: FloatArray
    """GPUs by sample and tenant; shape (samples, tenants)."""
    wanted: FloatArray
    """The same of those that wait."""


class _What(IntEnum):
    END = 0
    LEFT = 1
    SAVED = 2
    SUBMIT = 3
    LOOK = 4


@dataclass(slots=True)
class _Run:
    fate: Fate
    spots: Spots
    started_s: float
    works_from_s: float
    done_s: float
    """Work that was saved before it started."""
    saved_s: float
    """Work that is saved."""
    leaving: bool = False


@dataclass
class Plant:
    """One run of one policy over one case."""

    case: Case
    policy: Policy
    sample_s: float
    now_s: float = 0.0
    fates: dict[str, Fate] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    """By name: the work that is saved."""
    runs: dict[str, _Run] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._free = [node.units for node in self.case.nodes]
        self._events: list[tuple[float, int, int, str, float]] = []
        self._number = self._ended = 0
        self._looks: set[float] = set()
        self._tenant = {tenant.name: at for at, tenant in enumerate(self.case.tenants)}
        self._held = np.zeros(len(self._tenant))
        self._wanted = np.zeros(len(self._tenant))
        self._samples: list[tuple[FloatArray, FloatArray]] = []
        for job in self.case.jobs:
            self.fates[job.name] = Fate(job)
            self._later(job.submit_s, _What.SUBMIT, job.name)

    def run(self, progress: Callable[[float], None] | None = None, until_s: float = math.inf) -> Past:
        """Go from event to event until nothing is to come; `progress` gets the share of jobs that are done."""
        while self._events and self._events[0][0] <= until_s:
            at_s = self._events[0][0]
            self._sample(at_s)
            self.now_s = at_s
            real = False
            while self._events and self._events[0][0] == at_s:
                _, what, _, name, mark = heapq.heappop(self._events)
                real |= self._happen(_What(what), name, mark)
            if real:
                self._settle()
            if progress is not None:
                progress(self._ended / len(self.fates))
        self._sample(math.nextafter(self.now_s, math.inf))
        held, wanted = (np.array([pair[at] for pair in self._samples]) for at in (0, 1))
        return Past(self.policy.name, self.case, tuple(self.fates.values()), self.sample_s, held, wanted)

    def _happen(self, what: _What, name: str, mark: float) -> bool:
        """One event; whether the policy is to be asked."""
        match what:
            case _What.SUBMIT:
                self.waiting[name] = 0.0
                self._count(self._wanted, name, 1)
                self.policy.submit(self.fates[name].job, self.now_s)
            case _What.END:
                run = self.runs.get(name)
                if run is None or run.started_s != mark or run.leaving:
                    return False
                self._release(run)
                run.fate.end_s = self.now_s
                self._ended += 1
                run.fate.lost_gpu_s += run.fate.job.total_gpus * (run.works_from_s - run.started_s)
                self.policy.ended(run.fate.job, self.now_s)
            case _What.LEFT:
                self._leave(self.runs[name])
            case _What.SAVED:
                run = self.runs.get(name)
                if run is not None and run.started_s == mark and not run.leaving:
                    self._save(run)
                return False
            case _What.LOOK:
                self._looks.discard(self.now_s)
        return True

    def _settle(self) -> None:
        """Ask the policy until it wants nothing more."""
        for _ in range(MOST_TURNS):
            orders = self.policy.decide(self.now_s)
            for name, spots in orders.starts:
                self._start(name, spots)
            for name in orders.leaves:
                self._tell(name)
            if not orders.starts and not orders.leaves:
                if orders.again_s is not None and orders.again_s > self.now_s and orders.again_s not in self._looks:
                    self._looks.add(orders.again_s)
                    self._later(orders.again_s, _What.LOOK, "")
                return
        raise HeadroomError(f"{self.policy.name} finds no rest at {self.now_s} s")

    def _start(self, name: str, spots: Spots) -> None:
        job = self.fates[name].job
        if name not in self.waiting:
            raise HeadroomError(f"{self.policy.name} starts {name}, which does not wait")
        pods = sum(gpus // job.gpus for _, gpus in spots)
        fits = all(
            gpus % job.gpus == 0 and gpus <= self._free[node] and self.case.nodes[node].shape == job.shape
            for node, gpus in spots
        )
        if not fits or pods != job.pods or len({node for node, _ in spots}) != len(spots):
            raise HeadroomError(f"{self.policy.name} cannot start {name} on {spots}")
        for node, gpus in spots:
            self._free[node] -= gpus
        done_s = self.waiting.pop(name)
        fate, recovery = self.fates[name], self.case.recovery
        works_from_s = self.now_s + (recovery.restart_s if fate.evictions else 0.0)
        if math.isnan(fate.first_start_s):
            fate.first_start_s = self.now_s
        run = _Run(fate, spots, self.now_s, works_from_s, done_s, done_s)
        self.runs[name] = run
        self._count(self._wanted, name, -1)
        self._count(self._held, name, 1)
        self._later(works_from_s + job.duration_s - done_s, _What.END, name, self.now_s)
        if recovery.checkpoint_every_s is not None:
            self._later(works_from_s + recovery.checkpoint_every_s, _What.SAVED, name, self.now_s)

    def _tell(self, name: str) -> None:
        """A gang is told to go."""
        run = self.runs.get(name)
        if run is None or run.leaving:
            raise HeadroomError(f"{self.policy.name} tells {name} to go, which does not run")
        recovery = self.case.recovery
        if recovery.checkpoint_every_s is not None:
            run.saved_s = run.done_s + max(0.0, self.now_s - run.works_from_s)
        run.leaving = True
        self._later(self.now_s + recovery.notice_s, _What.LEFT, name)

    def _leave(self, run: _Run) -> None:
        name, fate = run.fate.job.name, run.fate
        self._release(run)
        fate.evictions += 1
        kept_s = run.saved_s - run.done_s
        fate.lost_gpu_s += fate.job.total_gpus * (self.now_s - run.started_s - kept_s)
        self.waiting[name] = run.saved_s
        self._count(self._wanted, name, 1)
        self.policy.left(fate.job, self.now_s)

    def _save(self, run: _Run) -> None:
        run.saved_s = run.done_s + max(0.0, self.now_s - run.works_from_s)
        self.policy.saved(run.fate.job, self.now_s)
        every_s = self.case.recovery.checkpoint_every_s
        assert every_s is not None
        self._later(self.now_s + every_s, _What.SAVED, run.fate.job.name, run.started_s)

    def _release(self, run: _Run) -> None:
        del self.runs[run.fate.job.name]
        for node, gpus in run.spots:
            self._free[node] += gpus
        self._count(self._held, run.fate.job.name, -1)

    def _count(self, column: FloatArray, name: str, sign: int) -> None:
        job = self.fates[name].job
        column[self._tenant[job.tenant]] += sign * job.total_gpus

    def _sample(self, upto_s: float) -> None:
        """What is held and wanted at the instants before the next event."""
        for _ in self._due(upto_s):
            self._samples.append((self._held.copy(), self._wanted.copy()))

    def _due(self, upto_s: float) -> Iterator[int]:
        while len(self._samples) * self.sample_s < upto_s:
            yield len(self._samples)

    def _later(self, at_s: float, what: _What, name: str, mark: float = 0.0) -> None:
        self._number += 1
        heapq.heappush(self._events, (at_s, int(what), self._number, name, mark))


def run(
    case: Case,
    policy: Policy,
    *,
    sample_s: float = 300.0,
    progress: Callable[[float], None] | None = None,
    until_s: float = math.inf,
) -> Past:
    """Run a policy over a case to the end of all that ever ends, or up to an instant."""
    return Plant(case, policy, sample_s).run(progress, until_s)
