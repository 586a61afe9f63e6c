"""Frames with defaults, so that a test states only what it is about."""

from dataclasses import replace
from typing import Any

from autoscaler.record.stream import DecisionFrame, Frame, SignalFrame, StartFrame, StepFrame, WorkloadFrame

SIGNALS = ("arrivals", "queue", "in_flight", "tokens", "kv", "latency")


def signals(state: str = "fresh", age_s: float | None = 0.0) -> tuple[SignalFrame, ...]:
    return tuple(SignalFrame(signal, state, age_s, blocking=signal != "latency") for signal in SIGNALS)


def decision(
    now_s: float = 0.0, before: int = 4, after: int = 4, reason: str = "STEADY", **given: Any
) -> DecisionFrame:
    verdict = "HOLD" if before == after else "SCALE"
    step = StepFrame("demand", before, after, reason, f"{after} needed", (("present load", "12 requests/s"),))
    made = DecisionFrame(now_s, before, after, verdict, reason, f"{before}→{after}: {after} needed", (step,))
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


def frame(now_s: float = 0.0, *workloads: WorkloadFrame, speed: float = 60.0) -> Frame:
    return Frame(now_s, speed, workloads or (workload(now_s),))
