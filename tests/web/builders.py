"""Frames with defaults, so that a test states only what it is about."""

from dataclasses import replace
from typing import Any

from autoscaler.record.estimate import Account, Estimate, sentence
from autoscaler.record.quality import ModelScore, Quality
from autoscaler.record.stream import DecisionFrame, Frame, SignalFrame, StartFrame, StepFrame, WorkloadFrame

SIGNALS = ("arrivals", "queue", "in_flight", "tokens", "kv", "latency")


def signals(state: str = "fresh", age_s: float | None = 0.0) -> tuple[SignalFrame, ...]:
    return tuple(SignalFrame(signal, state, age_s, blocking=signal != "latency") for signal in SIGNALS)


def decision(
    now_s: float = 0.0, before: int = 4, after: int = 4, reason: str = "STEADY", **given: Any
) -> DecisionFrame:
    verdict = "HOLD" if before == after else "SCALE"
    step = StepFrame("demand", before, after, reason, f"{after} needed", (("present load", "12 requests/s"),))
    made = DecisionFrame(
        now_s, before, after, verdict, reason, f"{before}→{after}: {after} needed", "load 12 req/s", (step,)
    )
    return replace(made, **given)


def workload(now_s: float = 0.0, **given: Any) -> WorkloadFrame:
    made = WorkloadFrame(
        workload="demo/chat", now_s=now_s, load_rps=12.0, queue=3.0, wait_s=0.2, slo_wait_s=10.0, desired=5, ready=4,
        starting=(StartFrame("chat-5", 31.0),), needs=5, min_replicas=1, max_replicas=40, replica_rps=4.0,
        replica_limit="its KV memory", capacity_rps=16.0, warmup_p50_s=60.0, warmup_p90_s=90.0, warmup_samples=7,
        forecast_rps=19.0, median_rps=15.0, forecast_ahead_s=95.0, forecast_model="last value", switched_off=(),
        coverage_ratio=0.97, level_ratio=0.96, budget_burn_ratio=0.1, late_ratio=0.0, signals=signals(), overload=None,
        decision=decision(now_s),
    )  # fmt: skip
    return replace(made, **given)


def estimate(**given: Any) -> Estimate:
    """Two replicas saved of five over two hours, and ninety late requests of a hundred avoided."""
    made = Estimate(
        workload="demo/chat", from_s=0.0, to_s=7200.0, counted_s=7200.0, missing_s=0.0, requests=20_000.0, slack_s=10.0,
        observed=Account(10.0, 100.0, 0.4), modelled=Account(10.0, 110.0, 0.5), ours=Account(6.0, 10.0, 0.1),
        scored_s=7200.0, late_error_ratio=0.002, wait_error_s=0.1, starts=3, least=False, warmup_assumed=False,
        gpus_per_replica=2, doubt=None, text="", saved_hours=4.0, avoided=90.0,
    )  # fmt: skip
    made = replace(made, **given)
    return replace(made, text=sentence(made))


def quality(**given: Any) -> Quality:
    """A level that leads, a ridge that is off, and bounds that hold as they should."""
    models = (
        ModelScore("last", "last value", 1.0, "tried"), ModelScore("level", "smoothed level", 0.91, "leads"),
        ModelScore("ridge", "ridge regression", 1.07, "off"), ModelScore("trees", "boosted trees", None, "untried"),
    )  # fmt: skip
    made = Quality(models, "level", 0.95, 0.96, 120.0, (0.9, 1.0), None, "Smoothed level leads: its loss is 0.91")
    return replace(made, **given)


def frame(now_s: float = 0.0, *workloads: WorkloadFrame, speed: float = 60.0) -> Frame:
    return Frame(now_s, speed, workloads or (workload(now_s),))
