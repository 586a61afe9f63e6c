"""A workload as it would be: observed arrivals, our replicas, a queue that is computed, and pages that would show it.

Enters: spans of time with what arrived in them and what one replica carries; counts that were decided. Leaves: readings
in the place of those that were read, and the account of what was held and late. Gauges that the model does not have
(tokens, latency) are absent from its readings; KV memory follows the requests in service.
"""

from dataclasses import dataclass, field

from autoscaler.core.types import Alike, GatewayReading, Readings, ReplicaReading, Roster
from autoscaler.hindsight.fleet import Fleet
from autoscaler.hindsight.served import Modelled


@dataclass(slots=True)
class World:
    """One workload under one policy."""

    account: Modelled
    fleet: Fleet
    warmup_s: float
    _arrived: float = 0.0
    _per_pod: float = 0.0
    """Requests served by a pod that was there from the beginning."""
    _roster: Roster = field(default_factory=lambda: Roster((), (), ()))
    """The pods that serve."""
    _rate_rps: float = 0.0
    _shown: ReplicaReading | None = None
    """The replicas that `_roster` is of."""

    @classmethod
    def like(cls, seen: Readings, waiting: float, slack_s: float, warmup_s: float) -> "World":
        """A world that begins as the real one is, with what waits there."""
        world = cls(Modelled(slack_s), Fleet.like(seen.replicas, seen.now_s, warmup_s), warmup_s)
        world.account.begin(seen.now_s, waiting)
        return world

    def live(self, now_s: float, dt_s: float, arrivals: float, capacity_rps: float) -> None:
        """Let the span that ends at `now_s` pass."""
        at_s, served = now_s - dt_s, 0.0
        held = self.fleet.held
        for end_s, ready in self.fleet.spans(at_s, now_s):
            part_s = end_s - at_s
            if part_s > 0:
                done = self.account.serve(end_s, part_s, arrivals * part_s / dt_s, ready * capacity_rps)
                self.account.sums.held_s += held * part_s
                self._per_pod += done / ready if ready else 0.0
                served += done
            at_s = end_s
        self._arrived += arrivals
        self._rate_rps = served / dt_s

    def skip(self, now_s: float, span_s: float, waiting: float) -> None:
        """Let a span pass of which it is not known what arrived; `waiting` wait at its end."""
        self.fleet.spans(now_s - span_s, now_s)
        self.account.begin(now_s, waiting)

    def order(self, now_s: float, replicas: int) -> int:
        """Set the count that was decided; how many starts that orders."""
        before = self.fleet.starts
        if replicas != self.fleet.desired:
            self.fleet.order(now_s, replicas, self.warmup_s)
        return self.fleet.starts - before

    def readings(self, seen: Readings, residence_s: float | None, kv_per_request: float | None) -> Readings:
        """What would have been read at the instant of `seen`; how long a request is served, and its KV, as measured."""
        shown = self.fleet.reading()
        if shown is not self._shown:
            self._roster, self._shown = self._enrolled(), shown
        waiting, count = self.account.queue.waiting, shown.ready
        queued = None if seen.gateway is None else seen.gateway.queued
        gateway = GatewayReading(None if queued is None else 0.0 if count else waiting, self._arrived)
        if not count:
            return Readings(seen.now_s, shown, (), gateway, None, seen.limits)
        running = None if residence_s is None else self._rate_rps * residence_s / count
        kv = None if running is None or kv_per_request is None else min(1.0, running * kv_per_request)
        pods = Alike(self._roster, self._per_pod, waiting / count, running, kv)
        return Readings(seen.now_s, shown, pods, gateway, None, seen.limits)

    def _enrolled(self) -> Roster:
        """The pods that serve, where some came or went; one that comes has completed nothing."""
        begun = dict(zip(self._roster.names, self._roster.begun, strict=True))
        names, since_s = tuple([name for name, _ in self.fleet.ready]), tuple([at_s for _, at_s in self.fleet.ready])
        if names == self._roster.names:
            return self._roster
        return Roster(names, since_s, tuple([begun.get(name, self._per_pod) for name in names]))
