"""A scripted page: a gateway's counter and queue, replicas set by a human, decisions written by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field

from autoscaler.core import engine
from autoscaler.core.params import Params
from autoscaler.core.reasons import Reason
from autoscaler.core.state import Table
from autoscaler.core.types import Decision, GatewayReading, Readings, ReplicaReading, Verdict
from autoscaler.hindsight.shadow import Look, Shadow
from autoscaler.record.estimate import Estimate

NAME = "prod/chat"
TICK_S = 5.0
PARAMS = Params(warmup_prior_s=60.0)


@dataclass
class Script:
    """One workload at one request a second per replica, and a warm-up of a minute that is assumed."""

    load_rps: float
    queue: Callable[[float], float] = lambda _: 0.0
    """What is read to wait at a second."""
    humans: Callable[[float], int] = lambda _: 1
    full_s: float = 100.0
    """Replica-seconds in which replicas were seen full; 0: never."""
    params: Params = PARAMS
    gpus: int | None = 1
    now_s: float = 0.0
    table: Table = field(default_factory=Table.empty)
    shadow: Shadow = field(default_factory=lambda: Shadow(Table.empty()))
    silent: Callable[[float], bool] = lambda _: False

    def __post_init__(self) -> None:
        row = self.table.put(NAME, self.params)
        columns = self.table.throughput
        columns.saturated_done[row] = columns.saturated_pod_s[row] = self.full_s
        columns.proven_rps[row], columns.proven_at_s[row] = 1.0, 0.0

    def readings(self) -> Readings:
        count = self.humans(self.now_s)
        replicas = ReplicaReading(count, count)
        if self.silent(self.now_s):
            return Readings(self.now_s, replicas)
        return Readings(
            self.now_s, replicas, gateway=GatewayReading(self.queue(self.now_s), self.load_rps * self.now_s)
        )

    def run(self, until_s: float, ours: Callable[[float], int]) -> Estimate:
        """Look every five seconds; `ours` is what is decided at a second, without the core."""
        while self.now_s <= until_s:
            readings = self.readings()
            if self.table.track(self.table.rows[NAME]).seen is None:
                engine.step(self.table, [(NAME, readings)])  # what it knows does not change from here on
            self.shadow.before(self.table, [Look(NAME, readings, self.params, self.gpus)])
            self.shadow.after([self.decision(ours(self.now_s))])
            self.now_s += TICK_S
        return self.estimate()

    def estimate(self) -> Estimate:
        told = self.shadow.estimate(NAME)
        assert told is not None
        return told

    def decision(self, replicas: int) -> Decision:
        return Decision(NAME, self.now_s, 1, replicas, Verdict.SCALE, Reason.FORECAST, (), self.now_s + TICK_S)
