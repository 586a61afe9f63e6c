"""Shadow mode: every workload that is watched and not acted upon, beside what Headroom would have made of it.

Enters: the readings of each step and the core's own table. Leaves: readings of the worlds that would be, to be decided
on by the same core in rows of their own, and running estimates. Arrivals come from what was read, capacity and warm-up
from what the core learned; only the replicas are ours. A span of which arrivals, queue or capacity is not known is
left out of all accounts alike.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from autoscaler.core.observe import pods
from autoscaler.core.observe.pods import Interval, WorkloadTrack
from autoscaler.core.params import Params
from autoscaler.core.state import Table
from autoscaler.core.types import Readings, ReplicaReading
from autoscaler.hindsight.knowledge import Knowledge, begin_like, begin_whole, know, lend
from autoscaler.hindsight.ledger import Ledger, Three
from autoscaler.hindsight.served import Measured, Modelled
from autoscaler.hindsight.timeline import Span
from autoscaler.hindsight.world import World
from autoscaler.record.estimate import Estimate

MOST_SPAN_S: Final = 120.0
"""A longer silence is not bridged: what happened in it is not known. Four steps of a history kept every 30 s."""

LEAST_SPAN_S: Final = 1.0
"""Steps that follow each other faster are one span: counts of an instant say little of a rate."""


class Look(NamedTuple):
    """One step of a workload, as far as it matters here."""

    workload: str
    readings: Readings
    params: Params
    """What the world that would be is decided with."""
    gpus_per_replica: int | None = None
    learned_in: str | None = None
    """The row that learns from the readings; None for the workload's own."""

    @property
    def learner(self) -> str:
        """The row of the core's table that knows what was learned."""
        return self.learned_in or self.workload


class Ordered(Protocol):
    """What matters here of a decision."""

    @property
    def workload(self) -> str:
        """The row that it was made for."""

    @property
    def now_s(self) -> float:
        """The instant of its readings."""

    @property
    def replicas(self) -> int:
        """The count that was decided."""


@dataclass(slots=True)
class _Followed:
    look: Look
    slack_s: float
    measured: Measured
    modelled: Modelled
    track: WorkloadTrack = field(default_factory=WorkloadTrack)
    world: World | None = None
    at_s: float = math.nan
    """The end of the last span that was counted, and what waited then."""
    queue: float = math.nan
    counts: ReplicaReading | None = None
    """Replicas since then."""
    known: Knowledge | None = None
    last: Span | None = None
    """What was counted by the last look; None where it counted nothing."""
    read: tuple[Readings, Interval, Knowledge | None] | None = None
    """What was read off the last look that was not passed over."""


class Shadow:
    """All such workloads. `twins` holds the rows of the worlds that would be; it may be the core's own table."""

    def __init__(self, twins: Table, suffix: str = "", *, whole: bool = False, beside: "Shadow | None" = None) -> None:
        """`whole`: a twin begins with all that is remembered and not with what a checkpoint keeps of it.

        `beside` is asked before each time, about the same looks: what it read off one is not read again, and it alone
        keeps the accounts of what happened and of the model of that.
        """
        self.twins = twins
        self._whole = whole
        self._beside = beside
        self._suffix = suffix
        self._followed: dict[str, _Followed] = {}
        self._ledgers: dict[str, Ledger] = {}
        self.told: dict[str, Interval] = {}
        """By row of the core's table, what the last looks told of pods, where that row remembers what we do."""

    def before(self, table: Table, looks: Iterable[Look]) -> list[tuple[str, Readings]]:
        """Count the spans that these steps end; what the core is to decide on, in the rows of `twins`.

        A workload may occur once and must have a row in `table`; before its first step there nothing is counted.
        """
        batch: list[tuple[str, Readings]] = []
        learned: list[tuple[str, str]] = []
        self.told.clear()
        for look in looks:
            readings = self._see(table, look)
            if readings is not None:
                twin = look.workload + self._suffix
                batch.append((twin, readings))
                learned.append((twin, look.learner))
        lend(self.twins, table, learned)
        return batch

    def after(self, decisions: Sequence[Ordered]) -> None:
        """Let the worlds that would be have what was decided for them."""
        for decision in decisions:
            workload = decision.workload.removesuffix(self._suffix)
            world = self._followed[workload].world
            if world is not None:
                self._ledgers[workload].starts += world.order(decision.now_s, decision.replicas)

    def ours(self, workload: str) -> ReplicaReading | None:
        """The replicas that ours would have now; None while no world runs."""
        followed = self._followed.get(workload)
        return None if followed is None or followed.world is None else followed.world.fleet.reading()

    def waiting(self, workload: str) -> float:
        """Requests that wait where ours serve; NaN while no world runs."""
        followed = self._followed.get(workload)
        return math.nan if followed is None or followed.world is None else followed.world.account.queue.waiting

    def span(self, workload: str) -> Span | None:
        """What the last look at a workload counted; None where it counted nothing."""
        followed = self._followed.get(workload)
        return None if followed is None else followed.last

    def since_s(self, workload: str) -> float:
        """When the sums of a workload began; NaN before."""
        return self._ledgers[workload].from_s

    def warmup_s(self, workload: str) -> float | None:
        """The warm-up that ours take now; None before it is known."""
        followed = self._followed.get(workload)
        return None if followed is None or followed.known is None else followed.known.warmup_s

    def known(self, workload: str) -> Knowledge | None:
        """What the world of a workload runs by; None while none runs."""
        followed = self._followed.get(workload)
        return None if followed is None or followed.world is None else followed.known

    def estimate(self, workload: str) -> Estimate | None:
        """What can be said of a workload; None for one that is not followed."""
        followed = self._followed.get(workload)
        if followed is None:
            return None
        slo, known = followed.look.params.slo, followed.known
        return self._ledgers[workload].estimate(
            workload,
            slack_s=followed.slack_s,
            token_time=slo.wait_s is None and slo.ttft_s is None,
            calibrated=known is not None,
            least=known is not None and known.least,
            warmup_assumed=known is None or known.warmup_samples == 0,
            gpus_per_replica=followed.look.gpus_per_replica,
        )

    def rest(self, workload: str) -> None:
        """Stop following a workload for now, because somebody acts; its sums are kept."""
        if self._followed.pop(workload, None) is not None and workload + self._suffix in self.twins.rows:
            self.twins.remove(workload + self._suffix)

    def forget(self, workload: str) -> None:
        """Stop following a workload and drop its sums; an unknown one is no error."""
        self.rest(workload)
        self._ledgers.pop(workload, None)

    def resume(self, workload: str, ledger: Ledger) -> None:
        """Go on from sums that were kept; those of a workload that is counted already are added to no others."""
        self._ledgers.setdefault(workload, ledger)

    def sums(self, workload: str) -> Three:
        """The sums of a workload so far; they do not move with it."""
        ledger = self._ledgers.get(workload)
        return Three() if ledger is None else ledger.total

    def take(self, workload: str) -> Ledger:
        """The sums of a workload so far; counting begins anew, with the queue and the replicas that there are."""
        taken = self._ledgers.get(workload)
        if taken is None:
            return Ledger()
        self._ledgers[workload] = Ledger(slack_s=taken.slack_s)
        return taken

    def give(self, workload: str, ledger: Ledger) -> None:
        """Let `ledger` be the sums of a workload."""
        self._ledgers[workload] = ledger

    def ledgers(self) -> dict[str, Ledger]:
        """The sums of every workload, those at rest included."""
        return self._ledgers

    def _see(self, table: Table, look: Look) -> Readings | None:
        followed, now_s = self._follow(look), look.readings.now_s
        followed.last = None
        if followed.world is not None and now_s - followed.at_s < LEAST_SPAN_S:
            self._part(table, followed)
            return None
        interval, known = self._read(table, followed)
        if not math.isfinite(interval.queue) or known is None:
            return None
        ledger = self._ledgers[look.workload]
        if known.least and ledger.measured:
            return None  # the core forgot what it had measured: sums that rest on it take no others
        if ledger.least and not known.least:
            # What was summed up rests on a lower bound of the capacity: it is known from here on.
            self._ledgers[look.workload] = Ledger(slack_s=followed.slack_s)
            followed.world = None
        followed.known = known
        if followed.world is None:
            self._begin(followed, table, interval.queue, known)
            return None
        if not math.isfinite(interval.arrivals):
            return None
        span_s = now_s - followed.at_s
        if span_s > MOST_SPAN_S or span_s - interval.arrivals_s > LEAST_SPAN_S:
            self._resume(followed, span_s, interval.queue)
        else:
            self._count(followed, interval.arrivals_s, interval.arrivals, interval.queue, known)
        return followed.world.readings(look.readings, known.residence_s, known.kv_per_request)

    def _read(self, table: Table, followed: _Followed) -> tuple[Interval, Knowledge | None]:
        look, other = followed.look, None
        if self._beside is not None:
            other = self._beside.at(look.workload)
        if other is not None and other.track is followed.track and other.read and other.read[0] is look.readings:
            followed.read = other.read
        else:
            shared = self._share(table, followed)
            interval = pods.difference(followed.track, look.readings)
            if shared:
                self.told[look.learner] = interval
            followed.read = look.readings, interval, know(table, look.learner)
        return followed.read[1:]

    def _share(self, table: Table, followed: _Followed) -> bool:
        """Let the row that is to be stepped on the same look go by our track, if it remembers the same of its pods."""
        look = followed.look
        if look.learned_in is None or not look.readings.now_s >= followed.track.at_s:
            return False
        row = table.track(table.rows[look.learned_in])
        if row.pods is not followed.track and pods.alike(row.pods, followed.track):
            row.pods = followed.track
        return row.pods is followed.track

    def _part(self, table: Table, followed: _Followed) -> None:
        """Let that row go by a track of its own, for a look that we pass over."""
        look = followed.look
        if look.learned_in is not None:
            row = table.track(table.rows[look.learned_in])
            row.pods = replace(row.pods)

    def at(self, workload: str) -> _Followed | None:
        """Where a workload stands; None for one that is not followed."""
        return self._followed.get(workload)

    def _follow(self, look: Look) -> _Followed:
        followed = self._followed.get(look.workload)
        if followed is not None and followed.look.params is look.params:  # nearly always
            followed.look = look
            return followed
        slack_s = look.params.slo.queue_slack_s()
        if followed is None or followed.slack_s != slack_s:
            self.rest(look.workload)
            followed = _Followed(look, slack_s, Measured(slack_s), Modelled(slack_s))
            other = None if self._beside is None else self._beside.at(look.workload)
            if other is not None:
                followed.track = other.track
            self._followed[look.workload] = followed
            kept = self._ledgers.get(look.workload)
            if kept is None or kept.slack_s != slack_s:
                self._ledgers[look.workload] = Ledger(slack_s=slack_s)
        if followed.look.params != look.params and followed.world is not None:
            given = self.twins.track(self.twins.rows[look.workload + self._suffix]).params
            self.twins.put(look.workload + self._suffix, replace(look.params, without=given.without))
        followed.look = look
        return followed

    def _begin(self, followed: _Followed, table: Table, queue: float, known: Knowledge) -> None:
        """Start all three accounts from what is there."""
        look, readings = followed.look, followed.look.readings
        begin = begin_whole if self._whole else begin_like
        begin(self.twins, look.workload + self._suffix, table, look.workload, look.params)
        followed.world = World.like(readings, queue, followed.slack_s, known.warmup_s)
        followed.measured.begin(readings.now_s, queue)
        followed.modelled.begin(readings.now_s, queue)
        followed.at_s, followed.queue, followed.counts = readings.now_s, queue, readings.replicas

    def _resume(self, followed: _Followed, span_s: float, queue: float) -> None:
        """Go on after a span of which not all is known: ours kept its replicas, and the same waits in all accounts."""
        world, now_s = followed.world, followed.look.readings.now_s
        assert world is not None
        self._ledgers[followed.look.workload].miss(now_s, span_s)
        world.skip(now_s, span_s, queue)
        followed.measured.begin(now_s, queue)
        followed.modelled.begin(now_s, queue)
        followed.at_s, followed.queue, followed.counts = now_s, queue, followed.look.readings.replicas

    def _count(self, followed: _Followed, span_s: float, arrivals: float, queue: float, known: Knowledge) -> None:
        world, counts, now_s = followed.world, followed.counts, followed.look.readings.now_s
        assert world is not None
        assert counts is not None
        replicas = followed.look.readings.replicas
        ready = 0.5 * (counts.ready + replicas.ready)  # when within the span a replica became ready is not known
        capacity_rps = known.capacity_rps
        if known.least and ready > 0:
            # A lower bound that the replicas exceed in this very span is no bound of it.
            served = arrivals + followed.queue - queue
            capacity_rps = max(capacity_rps, served / (span_s * ready))
        measured, modelled, ours = followed.measured.sums, followed.modelled.sums, world.account.sums
        if self._beside is None:
            held_s = held(counts) * span_s
            followed.measured.see(now_s, span_s, arrivals, queue)
            measured.held_s += held_s
            followed.modelled.serve(now_s, span_s, arrivals, ready * capacity_rps)
            modelled.held_s += held_s
        world.warmup_s = known.warmup_s
        world.live(now_s, span_s, arrivals, capacity_rps)
        ledger = self._ledgers[followed.look.workload]
        ledger.count(now_s, Three(measured, modelled, ours, span_s, arrivals), least=known.least)
        for sums in (measured, modelled, ours):
            sums.clear()
        followed.last = Span(span_s, arrivals, queue, capacity_rps)
        followed.at_s, followed.queue, followed.counts = now_s, queue, replicas


def held(replicas: ReplicaReading) -> int:
    """Replicas that hold their GPUs: those that serve and those that start on a node."""
    if not replicas.starting:
        return replicas.ready
    return replicas.ready + sum([not start.unschedulable for start in replicas.starting])
