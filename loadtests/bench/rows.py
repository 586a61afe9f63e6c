"""The figures that the product promises, each with the benchmark that gives it and where it stands in its output.

Leaves: `ROWS`. A row is one command; its figures have a target and are read off the JSON that the command prints or, of
a load test, writes. It measures nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

DAY_TARGET: Final = 1.30
"""GPU-hours over the clairvoyant bound."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a row."""

    name: str
    unit: str
    target: float
    read: Callable[[Any], float]
    """Out of the command's JSON. LookupError, TypeError or ValueError where it does not have it."""
    at_least: bool = False
    """Whether the target is the least that is wanted; else it is the most."""

    def met(self, value: float) -> bool:
        """Whether this value is good enough."""
        return value >= self.target if self.at_least else value <= self.target


@dataclass(frozen=True, slots=True)
class Row:
    """One command, and what it tells."""

    key: str
    what: str
    figures: tuple[Figure, ...]
    name: str
    """Of the benchmark or, for what writes its JSON into a file, of the load test."""
    loadtest: bool = False
    judges: bool = False
    """Whether its command ends with 1 where it has told its figures and one of them misses."""
    arguments: tuple[str, ...] = ()
    alone: bool = True
    """Whether others' use of the processor spoils it."""
    minutes: float = 1.0
    """About how long it takes."""


def _all(key: str, *path: str) -> Callable[[Any], list[float]]:
    """One number of every result that has it."""

    def read(told: Any) -> list[float]:
        found = []
        for result in told["results"]:
            value = result[key]
            for name in path:
                value = value[name]
            if value is not None:
                found.append(float(value))
        return found

    return read


def _flips(told: Any) -> float:
    """How many times fewer direction changes than Knative's algorithm, in the worst case."""
    ours, theirs = _all("compared", "flips_per_day")(told), _all("compared", "kpa_flips_per_day")(told)
    return min(their / max(our, 1.0) for our, their in zip(ours, theirs, strict=True))


def _recovery(told: Any) -> float:
    """The longest recovery, in warm-ups."""
    return max(
        float(result["settled"]["recovery_s"]) / float(result["warmup_s"])
        for result in told["results"]
        if result["settled"]["recovery_s"] is not None
    )


def _over_foretold(slots: int) -> Callable[[Any], float]:
    """The longest recovery with so many warm slots, over what the stage clock foretold."""

    def read(told: Any) -> float:
        return max(float(result["ratio"]) for result in told["results"] if result["slots"] == slots)

    return read


ROWS: Final = (
    Row(
        "days", "whole recorded days at one default, 12 of them, the worst", (
            Figure("GPU-hours over the bound", "times", DAY_TARGET, lambda t: max(_all("headroom", "ratio_d2")(t))),
            Figure("gap to a perfect forecast closed", "%", 50.0,
                   lambda t: 100 * min(_all("compared", "gap_closed")(t)), at_least=True),
            Figure("requests in time", "%", 99.0,
                   lambda t: 100 * min(_all("headroom", "attainment")(t)), at_least=True),
            Figure("fewer turns than Knative's", "times", 10.0, _flips, at_least=True),
        ), name="ratios", loadtest=True, arguments=("--only", "day"), alone=False, minutes=120.0,
    ),
    Row(
        "spikes", "spikes of 20 s, the worst of three warm-ups", (
            Figure("GPU-hours over the bound", "times", 1.25, lambda t: max(_all("headroom", "ratio_d2")(t))),
        ), name="ratios", loadtest=True, arguments=("--only", "spike-train"), alone=False, minutes=60.0,
    ),
    Row(
        "onsets", "onsets nobody could foresee, the worst", (
            Figure("recovery", "warm-ups", 1.6, _recovery),
        ), name="ratios", loadtest=True, arguments=("--only", "step-x3,step-x10,idle-then-burst"), alone=False,
        minutes=60.0,
    ),
    Row(
        "recovery", "a step of three times nobody foresaw, starts on nodes of published stages; the worst of 5 seeds", (
            Figure("no slot warm: recovery over nine of ten starts", "times", 1.6, _over_foretold(0)),
            Figure("16 slots warm, what the step asks for: over what is left of one", "times", 1.6, _over_foretold(16)),
            Figure("32 slots warm, twice the step: over what is left of one", "times", 1.6, _over_foretold(32)),
        ), name="recovery", loadtest=True, judges=True, alone=False, minutes=12.0,
    ),
    Row(
        "reaction", "a pod's page changes → `/scale` patched; 1,000 pods of 100 workloads, one core", (
            Figure("p99", "s", 1.2, lambda t: t["delay_s"]["p99"]),
            Figure("cores", "", 1.0, lambda t: t["controller_cores"]),
            Figure("memory", "MiB", 333.8, lambda t: t["controller_rss_mib"]),
        ), name="reaction", minutes=10.0,
    ),
    Row(
        "memory", "the controller with 1,000 policies and 1,000 pods in all", (
            Figure("memory", "MiB", 333.8, lambda t: t["controller_rss_mib"]),
        ), name="reaction", arguments=("--workloads", "1000", "--pods", "1", "--trials", "20"), alone=False,
        minutes=20.0,
    ),
    Row(
        "core_step", "one core step over 10,000 workloads, 1 % of them changing", (
            Figure("p99", "ms", 50.0, lambda t: t["results"][0]["p99_ms"]),
        ), name="core_step", arguments=("--all-steps", "0"), minutes=2.0,
    ),
    Row(
        "keda", "KEDA's calls, 1,000 push streams open and 1,000 workloads stepped", (
            Figure("calls over a bare echo's", "times", 0.6, lambda t: t["throughput"]["ratio"], at_least=True),
            Figure("p99 at 200 calls/s", "ms", 10.0, lambda t: t["latency"]["p99_ms"]),
        ), name="keda", arguments=("--seconds", "60"), minutes=6.0,
    ),
    Row(
        "batch_drain", "50,000 gangs of 1,000 queues drained with fair share, the middle of 5 runs", (
            Figure("admissions", "/s", 20_000.0, lambda t: t["middle"]["admissions_per_s"], at_least=True),
            Figure("p99 of a cycle", "ms", 50.0, lambda t: t["middle"]["cycle"]["p99_ms"]),
        ), name="batch_drain", minutes=3.0,
    ),
    Row(
        "failover", "a leader ends → the other replica's first decision, the slowest", (
            Figure("stopped", "s", 2.0, lambda t: t["until_first_decision"]["graceful"]["max_s"]),
            Figure("killed", "s", 15.0, lambda t: t["until_first_decision"]["killed"]["max_s"]),
            Figure("frozen", "s", 15.0, lambda t: t["until_first_decision"]["frozen"]["max_s"]),
        ), name="failover", arguments=("--rounds", "4"), minutes=6.0,
    ),
    Row(
        "traffic", "one worker of the load generator, and 200 idle engine servers", (
            Figure("stream events", "/s", 15_000.0, lambda t: t["load"]["events_per_s"], at_least=True),
            Figure("open streams", "", 5_000.0, lambda t: t["load"]["open_most"], at_least=True),
            Figure("servers", "MiB", 1_907.0, lambda t: t["servers"]["rss_mib"]),
        ), name="traffic",
    ),
)  # fmt: skip
"""350 MB and 2 GB are given as 333.8 and 1,907 MiB."""
