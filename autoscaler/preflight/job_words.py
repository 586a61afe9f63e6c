"""The answers about GPU Jobs as sentences, for the terminal, the page and the drafts.

Enters: studies of namespaces. Leaves: text. A measurement that is missing is called so, with what would be needed.
"""

from typing import Final

from autoscaler.adapters.prometheus.jobs import RESOURCES
from autoscaler.preflight.answers import Answer, CannotTell, Measured
from autoscaler.preflight.job_study import Queues, QueueStudy
from autoscaler.preflight.phrases import behind, lasting, value_text
from autoscaler.record.explain import number

_UNSEEN: Final = "a Job that is suspended has no pods and is not in it"


def batch_lines(found: Queues, shown: int) -> list[str]:
    """What is told of batch work, as lines: a namespace, and below it each answer with what stands behind it.

    Of more than `shown` namespaces the first are told.
    """
    if found.untold is not None:
        return [untold_text(found.untold)]
    if not found.queues:
        return [none_text(found)]
    lines = []
    for study in found.queues[:shown]:
        lines.append(f"GPU Jobs of namespace {study.namespace}")
        for text, origin in spoken(study):
            lines += [f"  {text}"] + ([f"    ({origin})"] if origin else [])
    if len(found.queues) > shown:
        lines.append(f"and {len(found.queues) - shown} more with GPU Jobs, in the files")
    return lines


def spoken(study: QueueStudy) -> tuple[tuple[str, str], ...]:
    """Each answer, and what stands behind it."""
    return (
        ("GPUs at once: " + _at_once(study), _behind(study.usual)),
        ("What waits: " + _waiting(study), _behind(study.waiting)),
        (lasted_text(study), _behind(study.lasted[0])),
    )


def none_text(found: Queues) -> str:
    """That no Job asked for a GPU, as far as it was looked."""
    where, there = (" in the namespaces that were looked at", " there") if found.namespaces else ("", "")
    return f"GPU Jobs: none{where}: no pod of a Job{there} asked for {' or '.join(RESOURCES.values())}."


def untold_text(refusal: CannotTell) -> str:
    """That nothing is known of any Job, why, and what would be needed."""
    return f"GPU Jobs: not measured: {refusal.text} (needed: {refusal.needed})"


def lasted_text(study: QueueStudy) -> str:
    """How long Jobs that completed had run."""
    p50, p90, p99 = study.lasted
    if isinstance(p50, CannotTell):
        return f"How long they stay: {_not_measured(p50)}"
    parts = [f"half of them {lasting(p50.value)} or less"]
    parts += [f"p{level} {lasting(each.value)}" for level, each in ((90, p90), (99, p99)) if isinstance(each, Measured)]
    return f"How long they stay: {', '.join(parts)}; those that failed or were deleted are not in it."


def _at_once(study: QueueStudy) -> str:
    usual, high, most = study.usual, study.high, study.most
    if isinstance(usual, CannotTell) or isinstance(high, CannotTell) or isinstance(most, CannotTell):
        return _not_measured(usual)
    half = f"{value_text(usual.value, usual.unit)} or more half of the time" if usual.value else "none half of the time"
    return f"{half}, {number(high.value)} or more a twentieth of it, {number(most.value)} at most."


def _waiting(study: QueueStudy) -> str:
    waiting, wanted = study.waiting, study.wanted
    if isinstance(waiting, CannotTell) or isinstance(wanted, CannotTell):
        return _not_measured(waiting)
    asked = f"for {value_text(waiting.value, waiting.unit)} or more a twentieth of the time"
    return (
        f"pending pods asked {asked if waiting.value else 'for none nineteen twentieths of the time'}; held and waited "
        f"for together at most {number(wanted.value)}. Pods that pull an image count as well; {_UNSEEN}."
    )


def _not_measured(found: Answer) -> str:
    assert isinstance(found, CannotTell)
    return f"not measured: {found.text} (needed: {found.needed})"


def _behind(found: Answer) -> str:
    return behind(found) if isinstance(found, Measured) else ""
