"""A day of serving and batch on the same nodes: what serving leaves idle is lent, and taken back when it grows.

Enters: the nodes that serving wants over time, from its own simulation, and jobs. Leaves: what gangs made of the idle
GPUs, and the spans in which serving waited for a node to be left, which its simulation is then given as spans in which
no start finds a node. One replica has one node. Nothing else belongs to batch. Serving keeps a node more than it wants,
where there is one: that is the reclaim bound. Core/batch decides who borrows and who goes; which node is cheapest to
take back is decided here, by the work lost on it.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autoscaler.core.batch.loans import LoanBound
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.core.batch.recalls import call_back
from autoscaler.sim.batch.headroom import Headroom, Queues
from autoscaler.sim.batch.plant import Orders, Past, run
from autoscaler.sim.batch.work import Case, Job
from autoscaler.sim.plant import Span, Timeline

Need = tuple[tuple[float, int], ...]
"""(from_s, nodes) in order of time; the first stands from the begin."""


@dataclass(frozen=True, slots=True)
class Day:
    """What came of it, in GPU-hours between two instants."""

    idle_gpu_h: float
    """What serving did not want."""
    used_gpu_h: float
    """What gangs held of it."""
    lost_gpu_h: float
    """What all gangs held in vain, from the begin of the run."""
    evictions: int
    shortages: tuple[Span, ...]
    """Spans in which serving wanted a node that gangs had not left yet."""


class Lending(Headroom):
    """Our policy on the idle nodes of a serving pool."""

    lendable = True

    def __init__(self, case: Case, need: Need, *, spare_nodes: int = 1) -> None:
        super().__init__("headroom-lending", case, Queues.FAIR)
        self._need, self._spare = need, spare_nodes
        self._times = [at_s for at_s, _ in need]
        self._serving: list[int] = []
        """Nodes that serving has; the newest last."""
        self._claimed: dict[int, None] = {}
        """Nodes that gangs are leaving."""
        self.shortages: list[Span] = []
        self._short_since_s: float | None = None
        self._look()

    def left(self, job: Job, now_s: float) -> None:
        """A gang left."""
        super().left(job, now_s)
        self._arrive()

    def ended(self, job: Job, now_s: float) -> None:
        """A gang ended."""
        super().ended(job, now_s)
        self._arrive()

    def decide(self, now_s: float) -> Orders:
        """Give serving what it wants, then one cycle."""
        recalled = self._follow(now_s)
        orders = super().decide(now_s)
        at = bisect_right(self._times, now_s)
        again = [each for each in (orders.again_s, self._times[at] if at < len(self._times) else None) if each]
        return Orders(orders.starts, (*recalled, *orders.leaves), min(again, default=None))

    def _follow(self, now_s: float) -> list[str]:
        """Claim nodes or let go of them; the gangs that are told to go."""
        need = self._need[max(0, bisect_right(self._times, now_s) - 1)][1]
        target = min(len(self._case.nodes), need + self._spare)
        recalled: list[str] = []
        changed = False
        while len(self._serving) + len(self._claimed) < target:
            at = min(self._lendable(), key=lambda node: (self._cost(node, now_s), node))
            self._claimed[at] = None
            changed = True
            name = self._case.nodes[at].name
            lent = sum(self.room.ledger.on_node[at].values())
            if lent:
                evicted, _ = call_back(self.room, self._case.nodes[at].shape, lent, now_s, [name])
                recalled += [each.gang for each in evicted]
        while len(self._serving) + len(self._claimed) > target and self._serving:
            self._serving.pop()
            changed = True
        if changed:
            self._arrive(seen=True)
        if len(self._serving) < need and self._short_since_s is None:
            self._short_since_s = now_s
        elif len(self._serving) >= need and self._short_since_s is not None:
            if now_s > self._short_since_s:
                self.shortages.append((self._short_since_s, now_s))
            self._short_since_s = None
        return recalled

    def _arrive(self, *, seen: bool = False) -> None:
        """Claimed nodes that all have left are serving's."""
        for at in [at for at in self._claimed if not self.room.ledger.on_node[at]]:
            del self._claimed[at]
            self._serving.append(at)
            seen = True
        if seen:
            self._look()

    def _look(self) -> None:
        """Show the room which nodes are lent, and how much of them."""
        nodes, pods, lent = [], [], 0
        mine = set(self._serving)
        for at, node in enumerate(self._case.nodes):
            if at in mine:
                pods.append(PodSeen(node.name, node.shape, node.units, Owner.SERVING))
                nodes.append(node)
            else:
                nodes.append(replace(node, warm_units=node.units, cordoned=at in self._claimed))
                lent += 0 if at in self._claimed else node.units
        held = sum(sum(self.room.ledger.on_node[at].values()) for at in self._claimed)
        lost = self.room.see(nodes, pods, 0.0)
        assert not lost, "a node is shown as serving's only when no gang holds any of it"
        self.room.lend(dict.fromkeys(self._case.gpus, LoanBound(lent + held)))

    def _lendable(self) -> list[int]:
        mine = set(self._serving)
        return [at for at in range(len(self._case.nodes)) if at not in mine and at not in self._claimed]

    def _cost(self, node: int, now_s: float) -> float:
        """Work lost if a node is taken back; who leaves anyway costs nothing more."""
        runs = [self.room.runs.all[name] for name in self.room.ledger.on_node[node]]
        return sum(run.cost_gpu_s(now_s) + 1.0 for run in runs if run.leaving_s is None)


def need_of(timeline: Timeline, lead_s: float) -> Need:
    """The nodes that a simulated serving run wants, `lead_s` after the begin; before that, as at its start."""
    wants = timeline.ready + timeline.starting + timeline.draining
    changes = np.flatnonzero(np.diff(wants)) + 1
    rest = [(lead_s + float(step) * timeline.step_s, int(wants[step])) for step in changes.tolist()]
    return ((0.0, int(wants[0])), *rest)


def day(case: Case, need: Need, *, from_s: float, to_s: float, spare_nodes: int = 1) -> Day:
    """Run the jobs on what serving leaves idle, and look at one span of it."""
    policy = Lending(case, need, spare_nodes=spare_nodes)
    past = run(case, policy, sample_s=60.0, until_s=to_s)
    return _told(past, policy, need, from_s, to_s)


def _told(past: Past, policy: Lending, need: Need, from_s: float, to_s: float) -> Day:
    first, last = math.ceil(from_s / past.sample_s), math.ceil(to_s / past.sample_s)
    held = float(past.held[first:last].sum()) * past.sample_s
    idle = idle_gpu_s(need, past.case, from_s, to_s)
    return Day(
        idle / 3600.0,
        held / 3600.0,
        sum(fate.lost_gpu_s for fate in past.fates) / 3600.0,
        sum(fate.evictions for fate in past.fates),
        tuple((begin_s - from_s, end_s - from_s) for begin_s, end_s in policy.shortages if begin_s >= from_s),
    )


def idle_gpu_s(need: Sequence[tuple[float, int]], case: Case, from_s: float, to_s: float) -> float:
    """GPU-seconds that serving does not want between two instants."""
    edges = [*(at_s for at_s, _ in need), math.inf]
    wanted = sum(
        nodes * max(0.0, min(to_s, edges[at + 1]) - max(from_s, edges[at])) for at, (_, nodes) in enumerate(need)
    )
    per_node = case.total_gpus / len(case.nodes)
    return case.total_gpus * (to_s - from_s) - wanted * per_node
