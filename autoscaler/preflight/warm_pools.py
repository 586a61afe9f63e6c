"""WarmPools to begin with: what the measurements say should be kept warm, each number with its origin.

Enters: the growth of workloads by shape. Leaves: YAML that the API server takes, with a backend that only decides and
tells. What no record of load can know (the NodePool, the images) is named as such: it is to be written before anything
is warmed. Every document is read back by the model before it leaves.
"""

import json
import math
from typing import Final

import msgspec

from autoscaler import __version__
from autoscaler.api.crd import GROUP, VERSION, WARM_POOL
from autoscaler.api.warm_pool import read_warm_pool
from autoscaler.api.warm_pool_parts import MOST_SLOTS, Backend
from autoscaler.core.demand.peaks import CEILING
from autoscaler.core.pool.ahead import RECOVERED, enough_for
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Window
from autoscaler.preflight.growth import Pools, PoolStudy
from autoscaler.preflight.manifests import comment, commented, scalar, slug
from autoscaler.preflight.phrases import behind, value_text, window_text

LEAD_S: Final = (10.0, 7200.0)
MOST_MODELS: Final = 16
MOST_NAMED: Final = 8
"""Workloads that are named in a comment."""
_NAME: Final = 40


def warm_pools(found: Pools, *, command: str) -> str:
    """One WarmPool per shape and size of replica as a YAML stream; comments alone where there is none."""
    head = comment(
        f"Written by headroom preflight {__version__}: {command}",
        f"Every pool only decides and tells (backend {Backend.OBSERVE.value}) until you write "
        f"{Backend.SLOTS.value}. NodePools and images are in no record of load: write them first.",
    )
    reasons: dict[str, list[str]] = {}
    for name, why in found.left_out.items():
        reasons.setdefault(why, []).append(name)
    head += (
        comment(*(f"In no pool: {_named(tuple(names))}: {why}" for why, names in reasons.items())) if reasons else ""
    )
    if not found.pools:
        return head + comment("Cannot tell what to keep warm: of no workload is it known how its replicas grow.")
    return head + "---\n".join(documents(found))


def documents(found: Pools) -> list[str]:
    """Each pool's document; two shapes that are spelled alike have names apart."""
    used: set[str] = set()
    return [warm_pool(pool, used) for pool in found.pools]


def warm_pool(study: PoolStudy, used: set[str]) -> str:
    """The pool of one shape and size; its name is added to `used`, and differs from those already in there."""
    shape = slug(study.shape, _NAME, dots=False)
    kind = shape or "gpu"
    name, again = f"warm-{kind}-{study.gpus}", 1
    while name in used:
        again += 1
        name = f"warm-{kind}-{study.gpus}-{again}"
    used.add(name)
    lines = [
        f"apiVersion: {GROUP}/{VERSION}", f"kind: {WARM_POOL.kind}",
        "metadata:", f"  name: {scalar(name)}", "spec:",
        *commented("  ", f"{_named(study.workloads)}: {window_text(_window(study))}"),
        *commented("  ", f"decides and tells, and makes nothing, until you write {Backend.SLOTS.value}"),
        f"  backend: {Backend.OBSERVE.value}",
        "  tiers:", *commented("    ", _tier_origin(study.shape)),
        f"    - name: {scalar(kind)}", f"      shape: {scalar(kind)}", f"      nodePoolRef: {scalar(kind)}",
        "  slot:", *commented("    ", "GPUs that one replica holds, as the source or the command names them"),
        f"    count: {study.gpus}",
        "  models:",
        *commented("    ", "cannot tell the images: they are not recorded. Nothing is pulled before you write them"),
        *_too_many(study.workloads),
        *_models(study.workloads),
    ]  # fmt: skip
    for field, value, origin in _numbers(study):
        lines += commented("  ", origin if value is not None else f"{field}: {origin}")
        lines += [] if value is None else [f"  {field}: {value}"]
    text = "\n".join(lines) + "\n"
    read_warm_pool(json.dumps(msgspec.yaml.decode(text)["spec"]).encode())
    return text


def _numbers(study: PoolStudy) -> tuple[tuple[str, str | None, str], ...]:
    """Field, value and origin; a value of None leaves the field out."""
    return (*_slots(study), _lead(study.lead))


def _slots(study: PoolStudy) -> tuple[tuple[str, str | None, str], ...]:
    if isinstance(study.quiet, CannotTell) or isinstance(study.most, CannotTell):
        refusal = study.quiet if isinstance(study.quiet, CannotTell) else study.most
        return _left("minSlots", refusal), _left("maxSlots", refusal)
    least = min(MOST_SLOTS, math.ceil(study.quiet.value - 1e-9))
    most = min(MOST_SLOTS, max(1, least, math.ceil(CEILING * study.most.value - 1e-9)))
    busy = ""
    if isinstance(study.busy, Measured):
        busy = f"; in the hour that grows most {value_text(study.busy.value, study.busy.unit)} [{behind(study.busy)}]"
    grown, jump = study.most, math.ceil(study.most.value - 1e-9)
    cleared = (
        f"; where all of it comes at once {jump} warm slots serve it, and it wants {enough_for(jump)} for its queue "
        f"to be gone within {RECOVERED:g} times a start on a warm slot"
        if jump
        else ""
    )
    return (
        ("minSlots", f"{least}", f"{_value(study.quiet)}, {study.quiet.how} [{behind(study.quiet)}]{busy}"),
        ("maxSlots", f"{most}", f"{CEILING:g} times {_value(grown)}, {grown.how} [{behind(grown)}]{cleared}"),
    )


def _lead(found: Answer) -> tuple[str, str | None, str]:
    if isinstance(found, CannotTell):
        return _left("leadPriorS", found)
    value = min(max(found.value, LEAD_S[0]), LEAD_S[1])
    count = f" [{behind(found)}]" if found.count else ""
    return "leadPriorS", f"{value:.6g}", f"the longest cold start of its workloads, {found.how}{count}"


def _left(field: str, refusal: Answer) -> tuple[str, str | None, str]:
    assert isinstance(refusal, CannotTell)
    return field, None, f"cannot tell: {refusal.text} (needed: {refusal.needed}); the default stays"


def _tier_origin(shape: str) -> str:
    named = f"the shape is {shape!r}, as the source names it" if shape else "cannot tell the shape: it is not recorded"
    return f"{named}; write the names of a shape in your settings, and of the NodePool that has its nodes"


def _models(workloads: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    used: set[str] = set()
    for workload in workloads:
        name = slug(workload.rpartition("/")[2], _NAME, dots=False) or "model"
        if name in used or len(used) == MOST_MODELS:
            continue
        used.add(name)
        lines += [f"    - name: {scalar(name)}", f"      image: {scalar(f'not-recorded/{name}')}"]
    return lines


def _too_many(workloads: tuple[str, ...]) -> list[str]:
    """That a pool warms so many models at most, where there are more."""
    more = len(workloads) > MOST_MODELS
    text = f"the first {MOST_MODELS} of {len(workloads)}: a pool warms no more. Keep those that grow at once"
    return list(commented("    ", text)) if more else []


def _named(workloads: tuple[str, ...]) -> str:
    more = f" and {len(workloads) - MOST_NAMED} more" if len(workloads) > MOST_NAMED else ""
    return ", ".join(workloads[:MOST_NAMED]) + more


def _window(study: PoolStudy) -> Window:
    told = study.most if isinstance(study.most, Measured) else study.lead
    assert isinstance(told, Measured)
    return told.window


def _value(found: Measured) -> str:
    return value_text(found.value, found.unit)
