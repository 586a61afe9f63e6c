"""What is true of a workload apart from its figures, as conditions: may Headroom act, does it see, what holds it back.

Enters: a claim, the mode in force, the freeze, the newest frame and act. Leaves: the conditions that status, page and
`headroom explain` show, each with a word for programs and a sentence for people. A gap in the metrics moves only
SignalsFresh: a policy is not broken because a scrape was lost (kedacore/keda#7914).
"""

from typing import Final

from autoscaler.api.claims import Claim, Doubt, Rejection
from autoscaler.api.modes import Mode
from autoscaler.api.status import ConditionType, Truth
from autoscaler.record.hpa import HpaPreview
from autoscaler.record.status import ActRecord, Condition, Problem
from autoscaler.record.stream import StepFrame, WorkloadFrame

LIMITING: Final = frozenset(
    {"MAX", "QUOTA", "BUDGET", "BURST_CEILING", "EVENT_CEILING", "INFEASIBLE", "BACK_OFF", "ZERO_REFUSED", "RATE_UP"}
)
"""Reasons that keep a count from what the load needs."""

LATE_START: Final = "LATE_START"
"""What keeps the pods that were ordered from serving: no count mends it, so it goes before any limit of the count."""

ZERO_REFUSED: Final = "ZERO_REFUSED"
"""The one of them that keeps a count up."""

FAILED: Final = frozenset({"REFUSED", "UNKNOWN", "UNREADABLE", "EDITED"})
"""Outcomes that a person should look at; the others are by design or pass by themselves."""

NOT_HEARD: Final = "NotHeard"
"""The word for programs where what was read may have changed unseen."""

PAUSES: Final = frozenset({Mode.PAUSED, Mode.PAUSED_SCALE_IN, Mode.PAUSED_SCALE_OUT})


def conditions(
    claim: Claim,
    mode: Mode,
    frozen: str | None,
    frame: WorkloadFrame | None,
    act: ActRecord | None,
    *,
    hpa: HpaPreview | None = None,
    doubt: Doubt | None = None,
    podless: Problem | None = None,
) -> tuple[Condition, ...]:
    """The conditions of a claimed workload, each type once.

    `hpa` is the one by which KEDA acts, where it does; `doubt` is what left no more than `mode` of the policy's own;
    `podless` is said where the target's pods cannot be told from others'.
    """
    return (
        _ready(claim),
        _active(claim, mode, frozen, act, doubt),
        _fresh(frame, podless),
        _limited(frame, hpa),
        _paused(mode, frozen, doubt),
        _made(ConditionType.SHADOW, claim.obstacle is None and mode is Mode.SHADOW, mode.value, _MODES[mode]),
    )


def rejected(rejection: Rejection) -> tuple[Condition, ...]:
    """The conditions of a ScalingPolicy that is not served: it is not ready, and so nothing else is known."""
    word = rejection.reject.value
    return (
        _made(ConditionType.READY, False, word, rejection.message),
        _made(ConditionType.ACTIVE, False, word, rejection.message),
    )


_MODES: Final = {
    Mode.SHADOW: "it decides and records, and never acts",
    Mode.ACTIVE: "it decides and acts",
    Mode.PAUSED: "the replicas are left alone",
    Mode.PAUSED_SCALE_IN: "no replica is taken away",
    Mode.PAUSED_SCALE_OUT: "no replica is added",
}


def _ready(claim: Claim) -> Condition:
    if claim.obstacle is not None:
        return _made(ConditionType.READY, False, claim.obstacle.block.value, claim.obstacle.message)
    return _made(ConditionType.READY, True, "Claimed", f"{claim.ref.kind} {claim.ref.name} is scaled by this policy")


def _active(claim: Claim, mode: Mode, frozen: str | None, act: ActRecord | None, doubt: Doubt | None) -> Condition:
    if claim.obstacle is not None:
        return _made(ConditionType.ACTIVE, False, claim.obstacle.block.value, claim.obstacle.message)
    if frozen is not None:
        return _made(ConditionType.ACTIVE, False, "Frozen", f"the whole cluster is frozen: {frozen}")
    if doubt is not None and mode is not Mode.SHADOW:
        return _made(ConditionType.ACTIVE, not doubt.still, NOT_HEARD, doubt.words)
    if mode in {Mode.SHADOW, Mode.PAUSED}:
        return _made(ConditionType.ACTIVE, False, mode.value, _MODES[mode])
    if claim.scaled_object is not None:
        return _made(ConditionType.ACTIVE, True, "Told", f"KEDA is told what is decided, and acts ({mode.value})")
    if act is not None and act.outcome in FAILED:
        said = f": {act.message}" if act.message else ""
        return _made(ConditionType.ACTIVE, False, _camel(act.outcome), f"{act.words}{said}")
    return _made(ConditionType.ACTIVE, True, mode.value, _MODES[mode])


def _fresh(frame: WorkloadFrame | None, podless: Problem | None) -> Condition:
    signals = () if frame is None else frame.signals
    expected = [signal for signal in signals if signal.blocking and signal.state != "absent"]
    if podless is not None and not expected:
        words = f"{podless.words}; {podless.remedy}"
        return _told(ConditionType.SIGNALS_FRESH, Truth.UNKNOWN, "NoPods", words)
    if frame is None:
        return _told(ConditionType.SIGNALS_FRESH, Truth.UNKNOWN, "NothingRead", "nothing was read yet")
    old = [signal for signal in expected if signal.state != "fresh"]
    if not expected:
        words = "no pod and no gateway gave a figure yet; `headroom doctor` says what is missing"
        return _told(ConditionType.SIGNALS_FRESH, Truth.UNKNOWN, "NoSignal", words)
    if not old:
        names = ", ".join(signal.signal.replace("_", " ") for signal in expected)
        return _made(ConditionType.SIGNALS_FRESH, True, "Fresh", f"{names} are read")
    worst = "Unknown" if any(signal.state == "unknown" for signal in old) else "Held"
    names = ", ".join(signal.signal.replace("_", " ") for signal in old)
    words = f"{names}: no reading of now, so nothing shrinks"
    return _made(ConditionType.SIGNALS_FRESH, False, worst, words)


def _limited(frame: WorkloadFrame | None, hpa: HpaPreview | None) -> Condition:
    if frame is None:
        return _told(ConditionType.SCALING_LIMITED, Truth.UNKNOWN, "NothingDecided", "nothing was decided yet")
    binding: StepFrame | None = None
    late: StepFrame | None = None
    for step in frame.decision.trace:
        if step.reason == LATE_START:
            late = step
        elif step.reason in LIMITING and (step.after < step.before or step.reason == ZERO_REFUSED):
            binding = step
    if late is not None:
        words = late.text if binding is None else f"{late.text}; {binding.text}"
        return _made(ConditionType.SCALING_LIMITED, True, _camel(late.reason), words)
    if binding is None and hpa is not None and hpa.limits:
        return _made(ConditionType.SCALING_LIMITED, True, f"Hpa{_camel(hpa.limits[-1])}", hpa.text)
    if binding is None:
        return _made(ConditionType.SCALING_LIMITED, False, "Free", "no limit keeps it from what the load needs")
    return _made(ConditionType.SCALING_LIMITED, True, _camel(binding.reason), binding.text)


def _paused(mode: Mode, frozen: str | None, doubt: Doubt | None) -> Condition:
    if frozen is not None:
        return _made(ConditionType.PAUSED, True, "Frozen", f"the whole cluster is frozen: {frozen}")
    if doubt is not None and mode in PAUSES:
        return _made(ConditionType.PAUSED, True, NOT_HEARD, doubt.words)
    return _made(ConditionType.PAUSED, mode in PAUSES, mode.value, _MODES[mode])


def _made(kind: ConditionType, holds: bool, reason: str, message: str) -> Condition:
    return _told(kind, Truth.TRUE if holds else Truth.FALSE, reason, message)


def _told(kind: ConditionType, truth: Truth, reason: str, message: str) -> Condition:
    return Condition(kind.value, truth.value, reason, message)


def _camel(code: str) -> str:
    return "".join(part.capitalize() for part in code.split("_"))
