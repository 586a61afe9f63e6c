"""A decision in a few words, for a row of a list: what asked for the number, then what changed it.

Enters: a `Decision`. Leaves: "forecast 21.9 req/s; held", where the sentence takes three lines and the
first one is the same in every row. The sentence stays the one that explains; this tells rows apart.
"""

from types import MappingProxyType
from typing import Final

from autoscaler.core.reasons import Reason
from autoscaler.core.types import Decision, Step
from autoscaler.record.explain import figure

GISTS: Final = MappingProxyType(
    {
        Reason.DEMAND_NOW: ("load", " {load_rps}"),
        Reason.CONCURRENCY: ("in flight", " {in_flight}"),
        Reason.MEMORY: ("KV memory", " of {kv_used_replicas}"),
        Reason.FORECAST: ("forecast", " {forecast_rps}"),
        Reason.BACKLOG: ("queue", " {queue}"),
        Reason.QUEUE_UNCALIBRATED: ("queue", " {queue}", ", capacity unknown"),
        Reason.QUEUE_UNSEEN: ("full", " for {full_s}", ", queue untold"),
        Reason.CONCURRENCY_FLOOR: ("floor of the last hour",),
        Reason.WAKE: ("wakes up", ", queue {queue}"),
        Reason.LATE_START: ("late starts", " {late_starts}"),
        Reason.EVENT_FLOOR: ("event's floor",),
        Reason.EVENT_CEILING: ("event's ceiling",),
        Reason.IDLE: ("idle", " for {idle_s}"),
        Reason.NOISE: ("noise",),
        Reason.BURST_CEILING: ("burst ceiling",),
        Reason.RATE_UP: ("growth limited",),
        Reason.RATE_DOWN: ("shrinking limited",),
        Reason.STABILISATION: ("held",),
        Reason.DEADBAND: ("held: small change",),
        Reason.BACK_OFF: ("starts keep failing",),
        Reason.STALE: ("held: old readings",),
        Reason.LOADING: ("held: loading a model",),
        Reason.ZERO_REFUSED: ("held: nothing would wake it",),
        Reason.FLOOR: ("minimum",),
        Reason.MAX: ("maximum",),
        Reason.QUOTA: ("quota",),
        Reason.BUDGET: ("GPU budget",),
        Reason.INFEASIBLE: ("limits contradict",),
        Reason.WEDGED: ("broken pods", " {wedged_pods}"),
        Reason.STEADY: ("right as it is",),
        Reason.NO_SIGNAL: ("held: too little known",),
        Reason.QUEUE_WATCHED: ("queue", " {queue}", ", watched"),
        Reason.OUTDATED: ("old reading ignored",),
    }
)
"""Reason -> its few words, each piece left out where its figure is not known."""


def gist(decision: Decision) -> str:
    """Return the decision's steps in a few words each, in their order; never empty."""
    told = [_step(step) for step in decision.trace] or [GISTS[decision.reason][0]]
    return "; ".join(told)


def _step(step: Step) -> str:
    given = dict(step.evidence)
    words = {name: figure(name, value) for name, value in given.items()}
    known = {name: word.replace("requests/s", "req/s") for name, word in words.items() if word is not None}
    first, *others = GISTS[step.reason]
    return first + "".join(piece.format_map(known) for piece in others if _fits(piece, known))


def _fits(piece: str, known: dict[str, str]) -> bool:
    name = piece.partition("{")[2].partition("}")[0]
    return not name or name in known
