"""BatchQueues to begin with: what Jobs were measured to use as guarantees and limits, each number with its origin.

Enters: the studies of namespaces. Leaves: YAML that the API server takes, a queue per namespace. What Prometheus cannot
know (the name of the shape, how the queues stand to each other) is named as such; what was not measured is left out,
which keeps the field's default. Every document is read back by the model before it leaves.
"""

import json
import math
from typing import Final

import msgspec

from autoscaler import __version__
from autoscaler.api.batch_queue import MOST_UNITS, read_batch_queue
from autoscaler.api.crd import BATCH_QUEUE, GROUP, VERSION
from autoscaler.core.demand.peaks import CEILING
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Window
from autoscaler.preflight.job_study import Queues, QueueStudy
from autoscaler.preflight.job_words import lasted_text, none_text, untold_text
from autoscaler.preflight.manifests import comment, commented, scalar, slug
from autoscaler.preflight.phrases import behind, lasting, value_text, window_text
from autoscaler.preflight.sustained import DAY_S, LEAST_DAYS

_NAME: Final = 63
_SHAPE_ORIGIN: Final = (
    "cannot tell the shape: kube-state-metrics does not name it; write its name from your settings, and a quota "
    "for each where there are several"
)
_DEFAULTS: Final = (
    "lendable, borrowable: cannot tell: no record says who may wait for whom; the defaults stay: what is idle is lent "
    "whole, and others' may be borrowed up to the limit"
)


def batch_queues(found: Queues | None, *, command: str) -> str:
    """One BatchQueue per namespace as a YAML stream; comments alone where there is none."""
    head = comment(
        f"Written by headroom preflight {__version__}: {command}",
        "A queue acts on Jobs that name it and are made suspended, and only where batch.enabled is set and the mode is "
        "Active. Compare the guarantees with what the cluster has: each was measured by itself.",
    )
    if found is None:
        return head + comment(
            "GPU Jobs: not measured: nothing that was read tells of them (needed: --prometheus URL of a cluster with "
            "kube-state-metrics, and no --workload)"
        )
    if found.untold is not None:
        return head + comment(untold_text(found.untold))
    return head + ("---\n".join(drafts(found)) if found.queues else comment(none_text(found)))


def drafts(found: Queues) -> list[str]:
    """Each namespace's document; two that are spelled alike have names apart."""
    used: set[str] = set()
    return [batch_queue(study, used) for study in found.queues]


def batch_queue(study: QueueStudy, used: set[str]) -> str:
    """The queue of one namespace; its name is added to `used`, and differs from those already in there."""
    namespace = slug(study.namespace, _NAME, dots=False) or "namespace"
    name, again = namespace, 1
    while name in used:
        again += 1
        name = f"{namespace[: _NAME - 5]}-{again}"
    used.add(name)
    record = f"GPU Jobs of namespace {study.namespace}"
    record += f": {window_text(study.usual.window)}" if isinstance(study.usual, Measured) else ""
    lines = [
        f"apiVersion: {GROUP}/{VERSION}", f"kind: {BATCH_QUEUE.kind}",
        "metadata:", f"  name: {scalar(name)}", "spec:",
        *commented("  ", record), *commented("  ", lasted_text(study)),
        *commented("  ", "cannot tell how queues stand to each other: no parent, and the same weight for all"),
        f"  namespaces: [{scalar(namespace)}]",
        "  quotas:", *commented("    ", _SHAPE_ORIGIN), "    - shape: gpu",
    ]  # fmt: skip
    for field, value, origin in _bounds(study):
        lines += commented("      ", origin if value is not None else f"{field}: {origin}")
        lines += [] if value is None else [f"      {field}: {value}"]
    lines += commented("      ", _DEFAULTS)
    text = "\n".join(lines) + "\n"
    read_batch_queue(json.dumps(msgspec.yaml.decode(text)["spec"]).encode())
    return text


def _bounds(study: QueueStudy) -> tuple[tuple[str, int | None, str], ...]:
    """Field, value and origin; a value of None leaves the field out."""
    usual, wanted = study.usual, study.wanted
    if isinstance(usual, CannotTell) or isinstance(wanted, CannotTell):
        return _left("guaranteed", usual), _left("limit", wanted)
    if usual.window.known_s < LEAST_DAYS * DAY_S:
        short = _short(usual.window)
        return ("guaranteed", None, short), ("limit", None, short)
    guaranteed = min(MOST_UNITS, math.ceil(usual.value - 1e-9))
    limit = min(MOST_UNITS, max(guaranteed, math.ceil(CEILING * wanted.value - 1e-9)))
    least = ("guaranteed", guaranteed, f"{value_text(usual.value, usual.unit)}, {usual.how} [{behind(usual)}]")
    if not limit:
        return least, ("limit", None, "cannot tell: Jobs ran between two instants only; the default stays")
    told = f"{CEILING:g} times {value_text(wanted.value, wanted.unit)}, {wanted.how} [{behind(wanted)}]"
    return least, ("limit", limit, told)


def _left(field: str, refusal: Answer) -> tuple[str, None, str]:
    if isinstance(refusal, Measured):
        return field, None, "it goes with the other, which cannot be told; the default stays"
    return field, None, f"cannot tell: {refusal.text} (needed: {refusal.needed}); the default stays"


def _short(window: Window) -> str:
    text = f"{lasting(window.known_s)} of known history say nothing about the hours that were not seen"
    return f"cannot tell: {text} (needed: {LEAST_DAYS:.0f} days, better two weeks); the default stays"
