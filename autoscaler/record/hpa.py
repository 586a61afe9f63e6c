"""What an HPA makes of the number that KEDA is told, in words, and the settings with which it would follow.

Enters: an HPA's settings, one evaluation, the evaluations ahead. Leaves: a preview for people and programs, remarks on
settings that would swallow a decision, and the `behavior` to write into the ScaledObject. It computes no count itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from autoscaler.core.hpa.counts import Seen
from autoscaler.core.hpa.limits import Limit
from autoscaler.core.hpa.memory import Memory
from autoscaler.core.hpa.preview import Outcome, ahead, evaluate
from autoscaler.core.hpa.spec import Autoscaler, Select, tolerances, windows_s
from autoscaler.record.explain import duration, number

WHERE: Final = "spec.advanced.horizontalPodAutoscalerConfig.behavior"
"""Of a ScaledObject: KEDA writes it into the HPA."""

_AT_ONCE: Final[dict[str, Any]] = {
    "stabilizationWindowSeconds": 0,
    "policies": [
        {"type": "Percent", "value": 900, "periodSeconds": 15},
        {"type": "Pods", "value": 100, "periodSeconds": 15},
    ],
}

_WHY: Final = {
    Limit.AT_ZERO: "at zero it rests, and KEDA wakes the target",
    Limit.NO_METRIC: "it has no number",
    Limit.OTHER_METRIC: "another metric asks for more",
    Limit.TOLERANCE: "the change is within its tolerance",
    Limit.UP_WINDOW: "less was asked for within its scaleUp window",
    Limit.DOWN_WINDOW: "more was asked for within its scaleDown window",
    Limit.UP_DISABLED: "its scaleUp is disabled",
    Limit.DOWN_DISABLED: "its scaleDown is disabled",
    Limit.UP_POLICIES: "its scaleUp policies allow no more at a time",
    Limit.DOWN_POLICIES: "its scaleDown policies take no more away at a time",
    Limit.MAX: "its maxReplicas",
    Limit.MIN: "its minReplicas",
}


@dataclass(frozen=True, slots=True)
class HpaPreview:
    """What one HPA makes of what KEDA was told last."""

    name: str
    told: int
    """Replicas that the number comes to."""
    current: int
    replicas: int
    """What it sets at its next evaluation; as `current` where it leaves the count alone."""
    follows_s: float | None
    """Until it stands at `told` while that is told, on the pace of its default evaluations; 0: at the next one. None:
    never."""
    limits: tuple[str, ...]
    """Codes of what keeps it from `told` now."""
    text: str
    remarks: tuple[str, ...] = ()
    """Settings that would swallow decisions, a sentence each."""
    behavior: str | None = None
    """The `behavior` with which it would follow, as JSON; None where it follows already."""


def preview_text(
    name: str, told: int, outcome: Outcome, steps: Sequence[tuple[float, Outcome]], *, others: int, unknown_s: float
) -> str:
    """One sentence: "HPA h: told 40, it sets 10 now: its scaleUp policies …; 40 in 45 s while that is told"."""
    does = f"it sets {outcome.replicas}" if outcome.replicas != outcome.current else f"it keeps {outcome.current}"
    if outcome.replicas == told:
        words = f"HPA {name}: told {told}, {does}" + ("" if outcome.current == told else " at its next evaluation")
    else:
        why = "; ".join(dict.fromkeys(_WHY[bound.limit] for bound in outcome.bounds))
        later = follows_s(told, outcome, steps)
        end = f"{told} in about {duration(later)}" if later is not None else _ending(outcome, steps)
        words = f"HPA {name}: told {told}, {does} now: {why}; {end} while that is told"
    if others:
        words += f"; {others} more {'metric asks' if others == 1 else 'metrics ask'} it too, and the largest count wins"
    if unknown_s > 0:
        words += f"; what it remembers from before is not known for {duration(round(unknown_s))} more"
    return words


def hpa_lines(hpa: HpaPreview) -> list[str]:
    """The preview as lines of an explanation: the sentence, the remarks, the settings that would do."""
    lines = [f"  {hpa.text}", *(f"    {remark}" for remark in hpa.remarks)]
    if hpa.behavior is not None:
        lines.append(f"    recommended, in the ScaledObject's {WHERE}: {hpa.behavior}")
    return lines


def follows_s(told: int, outcome: Outcome, steps: Sequence[tuple[float, Outcome]]) -> float | None:
    """Seconds until it stands at `told`, None where it never does."""
    if outcome.replicas == told:
        return 0.0
    return next((at_s for at_s, step in steps if step.replicas == told), None)


def _ending(outcome: Outcome, steps: Sequence[tuple[float, Outcome]]) -> str:
    return f"it stays at {steps[-1][1].replicas if steps else outcome.current}"


def recommended(*, tolerance: bool) -> dict[str, Any]:
    """The `behavior` that follows every count at once; Headroom has stabilised and paced it already.

    `tolerance` is whether the cluster knows one per direction (HPAConfigurableTolerance, on from Kubernetes 1.35).
    """
    one = _AT_ONCE | ({"tolerance": "0"} if tolerance else {})
    return {"scaleUp": one, "scaleDown": one}


def recommended_json(autoscaler: Autoscaler, *, tolerance: bool) -> str | None:
    """The same on one line; None where the HPA follows as well already."""
    within = _swallowed(autoscaler) if tolerance else 0
    if within == 0 and _pace_s(autoscaler, up=True) == 0 and _pace_s(autoscaler, up=False) == 0:
        return None
    return msgspec.json.encode(recommended(tolerance=tolerance)).decode()


def swallows(autoscaler: Autoscaler, *, least: int, most: int, lead_s: float) -> Iterator[str]:
    """Settings that keep decisions between `least` and `most` from being followed in the time that a start takes."""
    within = _swallowed(autoscaler)
    if within:
        share = number(100 * max(tolerances(autoscaler)))
        yield (
            f"HPA's tolerance of {share} %: at {autoscaler.maximum} replicas it ignores a change of up to {within}; "
            "set tolerance 0 in both directions (Kubernetes 1.35 and newer), or the controller manager's flag"
        )
    if autoscaler.maximum < most:
        yield f"HPA's maxReplicas is {autoscaler.maximum}, below the policy's {most}: more is never set"
    if autoscaler.minimum > max(least, 1):
        yield f"HPA's minReplicas is {autoscaler.minimum}, above the policy's {least}: fewer are never set"
    behavior = autoscaler.behavior
    if behavior is not None:
        for way, rules, what in (("scaleUp", behavior.up, "more"), ("scaleDown", behavior.down, "fewer")):
            if rules.select is Select.DISABLED:
                yield f"HPA's {way} is disabled: {what} replicas are decided on and never set"
    pace_s = _pace_s(autoscaler, up=True)
    if pace_s is not None and pace_s > lead_s:
        window = f", with its window of {windows_s(autoscaler)[0]} s," if windows_s(autoscaler)[0] else ""
        yield (
            f"HPA needs {duration(pace_s)} from {autoscaler.minimum} to {autoscaler.maximum} replicas{window} and a "
            f"start takes {duration(round(lead_s))}: its scaleUp is slower than the pods"
        )
    kept_s = _pace_s(autoscaler, up=False)
    if kept_s:
        window = f", with its window of {windows_s(autoscaler)[1]} s" if windows_s(autoscaler)[1] else ""
        yield f"HPA keeps replicas for up to {duration(kept_s)} after fewer are decided on{window}: they are paid for"


def _swallowed(autoscaler: Autoscaler) -> int:
    """The largest change from its maximum, or to it, that stays within tolerance."""
    down, up = tolerances(autoscaler)
    most = autoscaler.maximum
    about = int(most * max(down, up / (1.0 + up))) + 1
    for change in range(min(about, most - 1), 0, -1):
        if 1.0 - down <= (most - change) / most or most / (most - change) <= 1.0 + up:
            return change
    return 0


@lru_cache(maxsize=1024)
def _pace_s(autoscaler: Autoscaler, *, up: bool) -> float | None:
    """Seconds from its minimum to its maximum or back, when the other was asked for until just now; None: never."""
    start, end = autoscaler.minimum, autoscaler.maximum
    if not up:
        start, end = end, start
    if start == end:
        return 0.0
    start = max(start, 1)
    seen = Seen(start, start, start)
    _, memory = evaluate(autoscaler, seen, [_value(autoscaler, start)], Memory(), 0.0)
    first_s = autoscaler.controller.sync_s
    for at_s, step in ahead(autoscaler, seen, [_value(autoscaler, end)], memory, first_s):
        if step.replicas == end:
            return at_s
    return None


def _value(autoscaler: Autoscaler, replicas: int) -> int:
    metric = autoscaler.metrics[0]
    assert metric is not None, "the first metric is the one that is told"
    return replicas * metric.target_milli


def limit_codes(outcome: Outcome, told: int) -> tuple[str, ...]:
    """What keeps the count from what was told, as codes; nothing where it is followed."""
    if outcome.replicas == told:
        return ()
    return tuple(dict.fromkeys(bound.limit.name for bound in outcome.bounds))
