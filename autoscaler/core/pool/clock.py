"""The stage clock of slots: how long each part of a slot's start takes, by what the start was alike in.

Enters: the instants of slots that became warm. Leaves: distributions of the whole start and of what is left from any
stage, the patience that each stage deserves, and a checkpoint. A start gives its samples once, when it is warm; one
whose instants are out of order or absurdly far apart gives nothing and is counted: they come from several machines'
clocks. What follows on a warm slot (engine, first token) is measured of serving pods, not here.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any, Final

from autoscaler.core.spread import Spread, spread


class Stage(IntEnum):
    """How far a slot is; the first six in order, the rest whatever came before."""

    REQUESTED = 0
    NODE_LAUNCHED = 1
    REGISTERED = 2
    GPU_READY = 3
    IMAGE_PRESENT = 4
    WEIGHTS_WARM = 5
    LEASED = 6
    DRAINING = 7
    FAILED = 8
    EXPIRED = 9
    QUARANTINED = 10


KEEP: Final = 32
"""Starts kept of each kind: enough for a 90th percentile, few enough to follow a change."""

KEEP_KINDS: Final = 128
LEAST_SAMPLES: Final = 5
"""With fewer starts of a kind, the next coarser kind speaks for it."""

LONGEST_S: Final = 6 * 3600.0
"""No stage takes longer: bare metal takes half an hour, and a clock that was set takes years."""

UNMEASURED_S: Final = (420.0, 960.0, 900.0, 1800.0, 2700.0)
"""Patience with a stage that was never measured: Karpenter gives up a launch after 5 and a registration after 15
minutes, and never an initialization; images and weights are guesses, several times what is published."""

LEAST_S: Final = (300.0, 300.0, 180.0, 120.0, 120.0)
"""No stage is given up sooner (guesses)."""

PATIENCE: Final = 3.0
"""A stage is given up after this many times its 90th percentile (a guess)."""

Walk = tuple[float, ...]
"""One start: the seconds of its five stages."""


@dataclass(frozen=True, slots=True)
class StartKind:
    """What starts are alike in."""

    sku: str
    zone: str
    capacity_type: str
    content: str
    """Images and weights that were asked for, and after an @ the digests that the images had, where they are known."""
    new_node: bool


@dataclass(frozen=True, slots=True)
class SlotClock:
    """What is remembered of starts."""

    walks: Mapping[StartKind, tuple[Walk, ...]] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    """The uids of slots that are there and were taken."""
    newest_s: float = 0.0
    restored_s: float = 0.0
    """What was warm by then is in a restored checkpoint already."""
    dropped: int = 0
    outcomes: tuple[bool, ...] = ()
    """Whether the last starts became warm."""

    @property
    def failing_ratio(self) -> float:
        """The share of starts that fail, 0..0.5; four starts that went well stand before the first."""
        return min(0.5, self.outcomes.count(False) / (len(self.outcomes) + 4))


@dataclass(frozen=True, slots=True)
class Start:
    """One slot that became warm."""

    uid: str
    kind: StartKind
    instants: Sequence[float]
    """Its creation and the ends of its five stages (s)."""
    fetched_s: float = math.inf
    """When its weights were there. A pod that was warm may be ready anew, after its node was cut off for a moment."""


def noted(clock: SlotClock, starts: Iterable[Start]) -> SlotClock:
    """The clock after slots became warm."""
    told, newest_s, dropped, went_well = set(clock.told), clock.newest_s, clock.dropped, 0
    walks = {kind: list(kept) for kind, kept in clock.walks.items()}
    for start in starts:
        told.add(start.uid)
        ended_s = start.instants[-1]
        if min(ended_s, start.fetched_s) <= clock.restored_s:
            continue
        walk = tuple(round(after - before, 1) for before, after in pairwise(start.instants))
        if not all(0.0 <= took_s <= LONGEST_S for took_s in walk):
            dropped += 1
            continue
        kept = walks.pop(start.kind, [])
        kept.append(walk)
        walks[start.kind] = kept
        newest_s, went_well = max(newest_s, ended_s), went_well + 1
    newest = list(walks.items())[-KEEP_KINDS:]
    return replace(
        clock,
        told=frozenset(told),
        walks={kind: tuple(kept[-KEEP:]) for kind, kept in newest},
        newest_s=newest_s,
        dropped=dropped,
        outcomes=(*clock.outcomes, *(True,) * went_well)[-KEEP:],
    )


def failed(clock: SlotClock, starts: int) -> SlotClock:
    """The clock after starts that did not become warm by their own fault."""
    return replace(clock, outcomes=(*clock.outcomes, *(False,) * starts)[-KEEP:])


def remaining(clock: SlotClock, kind: StartKind, stage: Stage, prior_s: float) -> Spread:
    """The seconds from the beginning of a stage to warm weights; the prior, with no sample, where none was seen."""
    walks = _alike(clock, kind)
    if not walks:
        return Spread(prior_s, prior_s, 0)
    return spread([sum(walk[stage:]) for walk in walks])


def whole_s(clock: SlotClock, kind: StartKind) -> tuple[float, ...]:
    """The seconds from order to warm weights of the starts that are nearest to a kind; empty where none was seen."""
    return tuple(sum(walk) for walk in _alike(clock, kind))


def patience_s(clock: SlotClock, kind: StartKind, stage: Stage) -> float:
    """How long a slot may stay in one of the five stages of a start before it is given up."""
    walks = _alike(clock, kind)
    if len(walks) < LEAST_SAMPLES:
        return UNMEASURED_S[stage]
    return min(LONGEST_S, max(LEAST_S[stage], PATIENCE * spread([walk[stage] for walk in walks]).p90_s))


def pack(clock: SlotClock) -> dict[str, Any]:
    """The clock as plain JSON values; slots that were told are told again after a restart and taken once."""
    rows = [
        [kind.sku, kind.zone, kind.capacity_type, kind.content, kind.new_node, [list(walk) for walk in walks]]
        for kind, walks in clock.walks.items()
    ]
    return {
        "walks": rows,
        "newest_s": clock.newest_s,
        "dropped": clock.dropped,
        "outcomes": [int(well) for well in clock.outcomes],
    }


def unpack(saved: Mapping[str, Any]) -> SlotClock:
    """The clock behind a checkpoint. Raises KeyError, OverflowError, TypeError or ValueError for another shape."""
    walks = {
        StartKind(str(sku), str(zone), str(capacity_type), str(content), bool(new_node)): tuple(
            tuple(float(took_s) for took_s in walk) for walk in kept
        )
        for sku, zone, capacity_type, content, new_node, kept in saved["walks"]
    }
    if any(len(walk) != len(UNMEASURED_S) for kept in walks.values() for walk in kept):
        raise ValueError(f"a start has {len(UNMEASURED_S)} stages")
    newest_s = float(saved["newest_s"])
    outcomes = tuple(bool(well) for well in saved["outcomes"])
    return SlotClock(walks, newest_s=newest_s, restored_s=newest_s, dropped=int(saved["dropped"]), outcomes=outcomes)


def _alike(clock: SlotClock, kind: StartKind) -> tuple[Walk, ...]:
    """The starts that are nearest to a kind: its own, those of any zone, of any content, of any SKU."""
    coarser = (
        lambda other: other == kind,
        lambda other: replace(other, zone=kind.zone) == kind,
        lambda other: (other.sku, other.new_node) == (kind.sku, kind.new_node),
        lambda other: other.new_node == kind.new_node,
    )
    found: tuple[Walk, ...] = ()
    for alike in coarser:
        found = tuple(walk for other, kept in clock.walks.items() if alike(other) for walk in kept)
        if len(found) >= LEAST_SAMPLES:
            return found
    return found
