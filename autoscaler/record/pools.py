"""Decisions about warm pools in words: the sentence of every reason, one line, the whole trace.

Enters: a `PoolDecision`. Leaves: text, from the evidence alone and the same every time. Codes and names of figures are
read by dashboards: renaming one is a breaking change. `before` and `after` are the step's own counts.
"""

import re
from types import MappingProxyType
from typing import Final

from autoscaler.core.pool.intents import PoolDecision, PoolStep
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.record.explain import clock, figure

FIGURES: Final = MappingProxyType(
    {
        "demand_slots": "present demand",
        "refill_s": "a refill takes, in nine of ten cases",
        "level_ratio": "share of past growth that is covered",
        "samples": "minutes of the past behind it",
        "seen_at": "which past",
        "hours": "past hours behind it",
        "more_slots": "slots on top for what no clock starts",
        "reach_s": "by how much clocks and starts may differ",
        "forecast_slots": "forecast growth",
        "rise_slots": "demand has risen by",
        "further_slots": "after such rises it grew by at most",
        "rises": "such rises seen",
        "begins_in_s": "event begins in",
        "ends_in_s": "event ends in",
        "min_slots": "pool's minimum",
        "zones": "zones with a minimum",
        "known_s": "demand known for",
        "max_slots": "pool's maximum",
        "max_gpus": "pool's GPU budget",
        "slot_gpus": "GPUs of a slot",
        "idle_hot_s": "slots stay warm unneeded for",
        "kept_slots": "slots kept",
        "ordered_slots": "slots ordered",
        "starting_slots": "slots under way",
        "deleted_slots": "slots deleted",
        "idle_slots": "slots idle, or about to be",
        "waiting_slots": "slots that replicas wait for",
        "need_slots": "idle slots that demand may soon need",
        "reclaim_s": "a borrower is gone within",
        "lent_slots": "slots lent already",
        "gang": "gang",
        "gang_gpus": "GPUs held for gangs",
    }
)
"""Name in the evidence -> what a person calls it."""

_REFILL = " within the {refill_s} that a refill takes"
_DEMAND = ", demand is {demand_slots}"
_GONE = "{deleted_slots} deleted: "

SENTENCES: Final = MappingProxyType(
    {
        PoolReason.GROWTH: (
            "{after} to be warm: demand grew by no more",
            _REFILL,
            " in {level_ratio} of cases at {seen_at}",
            _DEMAND,
        ),
        PoolReason.RHYTHM: (
            "{after} to be warm: demand grew by no more",
            _REFILL,
            " at this minute of the hour, give or take {reach_s}, less what came of it (hours seen: {hours})",
            ", and {more_slots} on top",
            _DEMAND,
        ),
        PoolReason.FORECAST: ("{after}, not {before}: the forecast grows by {forecast_slots}", _REFILL, _DEMAND),
        PoolReason.EVENT: (
            "{after}, not {before}: a known event asks for at least {after}",
            ", it begins in {begins_in_s}",
        ),
        PoolReason.MINIMUM: ("{after}, not {before}: the pool's minimum",),
        PoolReason.ZONE_MINIMUM: ("{after}, not {before}: the minima of {zones} zones",),
        PoolReason.NOISE: (
            "{after}, not {before}: demand rose by {rise_slots} and then, as a rule, grew by {further_slots} at most",
            _REFILL,
            " ({rises} seen): a refill would come too late for it",
        ),
        PoolReason.EVENT_CEILING: ("{after}, not {before}: a known event allows no more",),
        PoolReason.MAXIMUM: ("{after}, not {before}: the pool's maximum",),
        PoolReason.BUDGET: ("{after}, not {before}: the GPU budget is {max_gpus}", ", a slot holds {slot_gpus}"),
        PoolReason.UNUSED: ("none to be warm: nothing is expected to need one", _REFILL, _DEMAND),
        PoolReason.STALE: ("{after} held, not {before}: demand is not known, nothing shrinks",),
        PoolReason.YOUNG: (
            "{after} held, not {before}: demand is known for too short a time, nothing shrinks",
            "; {known_s} so far",
        ),
        PoolReason.IDLE_HOT: ("{after} kept, not {before}: slots stay warm for {idle_hot_s} after they were needed",),
        PoolReason.STARTS_LIMITED: ("{after} of {before} ordered: {starting_slots} are under way",),
        PoolReason.NO_ROOM: ("{after} of {before} ordered: a tier has reached its limits",),
        PoolReason.SPOT_SHARE: ("{after} of {before} ordered: the share of spot is used up",),
        PoolReason.NO_CAPACITY: ("{after} of {before} ordered: a tier is without capacity, one slot asks at a time",),
        PoolReason.PRIORITY: ("none of {before} ordered: the slots' PriorityClass cannot be used",),
        PoolReason.CONTENT_FAILING: ("none of {before} ordered: images or weights keep failing",),
        PoolReason.ZONE_OUT: ("{after} of {before} ordered: no tier has capacity in a zone with a minimum",),
        PoolReason.GANGS_HOLD: (
            "{after} of {before} ordered: {gang_gpus} GPUs of the pool's {max_gpus} are for gangs until they start",
        ),
        PoolReason.LOANS_UNKNOWN: ("none of {before} ordered: it is not known yet what gangs have on loan",),
        PoolReason.LENDS: (
            "{after} of {before} idle may be lent", ", demand may need {need_slots}", ", {lent_slots} are on loan"
        ),
        PoolReason.LENDS_NOT: ("no idle slot is lent: what demand may soon need is not known", ", {known_s} so far"),
        PoolReason.RECALLS: (
            "{before} on loan, {after} stay",
            ": demand may need {need_slots} within the {reclaim_s} in which a borrower is gone",
            ", {idle_slots} are idle or about to be",
            ", replicas that wait take {waiting_slots}",
        ),
        PoolReason.RECALLS_ALL: ("{before} on loan are called back: the pool lends no more",),
        PoolReason.GANG: ("{after} of {before} pods have places on nodes", " for {gang}"),
        PoolReason.GANG_OVER: ("{before} places given back: their gangs have started, or want no nodes any more",),
        PoolReason.GANG_LATE: ("{before} places given back: it could not start in time", ", {gang}"),
        PoolReason.GANG_UNSURE: (
            "none of {before} places made: batch admission has not said for a minute who wants nodes", ", for {gang}"
        ),
        PoolReason.GANG_LIMIT: ("none of {before} places made: the pool's GPUs for gangs are in use", ", for {gang}"),
        PoolReason.REFILL: ("{ordered_slots} of {before} ordered",),
        PoolReason.PROBE: ("one ordered to ask whether capacity is back", ", then comes the rest of {gang}"),
        PoolReason.ROTATED: (_GONE + "their own end is near, they are made again on their nodes",),
        PoolReason.SURPLUS: (_GONE + "more than needed",),
        PoolReason.MOVED: (_GONE + "capacity is missing where they wait, the deficit moves down the tiers",),
        PoolReason.LATE_LAUNCH: (_GONE + "no node was launched in time",),
        PoolReason.LATE_REGISTRATION: (_GONE + "the node did not join in time",),
        PoolReason.LATE_GPU: (_GONE + "the node's GPUs did not become usable in time",),
        PoolReason.LATE_IMAGE: (_GONE + "the images were not there in time",),
        PoolReason.LATE_WEIGHTS: (_GONE + "the weights were not there in time",),
        PoolReason.FAILED: (_GONE + "the slot failed",),
        PoolReason.EXPIRED: (_GONE + "the slot's own deadline has passed",),
        PoolReason.OUTDATED: (_GONE + "made for other images or weights",),
        PoolReason.RETIRED: (_GONE + "the node has reached its age or its end",),
        PoolReason.INTERRUPTED: (_GONE + "the provider takes the node",),
        PoolReason.NODE_LOST: (_GONE + "the node is gone",),
        PoolReason.NODE_UNUSABLE: (_GONE + "the node cannot be used any more",),
        PoolReason.DISK_FULL: (_GONE + "the node is short of disk, and images that nobody runs are deleted there",),
        PoolReason.UNKNOWN_TIER: (_GONE + "made for a tier that is no more",),
        PoolReason.HANDED_OVER: (_GONE + "a replica takes the place",),
        PoolReason.LEASED: ("marked for a replica that waits",),
        PoolReason.LEASE_ENDED: ("no longer marked: the replica does not wait any more",),
        PoolReason.NODE_POOL_MISSING: ("the NodePool of a tier is made",),
        PoolReason.LIMITS: ("the NodePool's limits are set to the tier's",),
        PoolReason.DRIFT: ("the NodePool's budget for drift is set to 0",),
        PoolReason.STEADY: ("slots and need agree",),
        PoolReason.UNREAD: ("{after} held: the cluster was not read, nothing is changed",),
    }
)  # fmt: skip
"""Reason -> the pieces of its sentence; each after the first is left out when a figure in its braces is not known."""


def step_sentence(step: PoolStep) -> str:
    """One step in words, with every figure of its evidence that its reason's sentence speaks of."""
    words = {"before": str(step.before), "after": str(step.after)}
    words |= {name: shown for name, value in step.evidence if (shown := figure(name, value)) is not None}
    first, *rest = SENTENCES[step.reason]
    return first.format_map(words) + "".join(p.format_map(words) for p in rest if _fields(p) <= words.keys())


def sentence(decision: PoolDecision) -> str:
    """The whole decision in one sentence: "3 warm, 4 wanted: 4 to be warm …; 1 of 1 ordered"."""
    told = [step_sentence(step) for step in decision.trace] or [SENTENCES[PoolReason.STEADY][0]]
    return f"{decision.warm} warm, {decision.target} wanted: {'; '.join(told)}"


def line(decision: PoolDecision) -> str:
    """The sentence with its time and pool, as a log shows it."""
    return f"{clock(decision.now_s)} {decision.pool} {sentence(decision)}"


def page(decision: PoolDecision) -> str:
    """The decision with its trace: every step's counts, sentence and figures, then the slots by stage."""
    head = f"{decision.supply} of {decision.target} slots, {decision.warm} warm"
    rows = [f"{clock(decision.now_s)}  {decision.pool}  {head}  {decision.reason.name}"]
    for step in decision.trace:
        counts = f"{step.before} → {step.after}"
        rows.append(f"  {step.stage:<8} {counts:>9}  {step.reason.name}: {step_sentence(step)}")
        rows += [
            f"  {'':<8} {'':>9}    {FIGURES.get(name, name)}: {figure(name, value) or 'not known'}"
            for name, value in step.evidence
        ]
    stages = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in decision.by_stage if count)
    return "\n".join([*rows, f"  slots: {stages or 'none'}"])


def _fields(piece: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", piece))
