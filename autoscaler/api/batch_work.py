"""What a piece of batch work says about itself in labels and annotations: its queue, its width, its time, its domain.

Enters: the labels and annotations of an object. Leaves: the words as frozen values, and a finding for each that cannot
be meant, naming field, value and remedy; nothing raises. Durations carry their unit (90s, 15m, 1h30m, 2d): a number
alone could be either. What a program writes while it runs never stops it from being admitted; the rest does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from autoscaler.api.annotations import PREFIX
from autoscaler.api.faults import shown
from autoscaler.core.batch.gangs import MAX_PODS, NODE, Topology
from autoscaler.core.batch.params import LEVELS
from autoscaler.core.batch.reasons import BatchReason

QUEUE: Final = PREFIX + "queue"
"""Label: the BatchQueue that the work waits in."""
GATE: Final = PREFIX + "admission"
"""Scheduling gate: a pod with it, and the label of a queue, is let in by its removal."""
POD_GROUP: Final = PREFIX + "pod-group"
"""Label: the pods of a namespace that carry the same one are a gang together."""
POD_GROUP_SIZE: Final = PREFIX + "pod-group-size"
MIN_WIDTH: Final = PREFIX + "min-width"
MAX_WIDTH: Final = PREFIX + "max-width"
CHECKPOINT_NOTICE: Final = PREFIX + "checkpoint-notice"
LAST_CHECKPOINT: Final = PREFIX + "last-checkpoint"
EXPECTED_DURATION: Final = PREFIX + "expected-duration"
MIN_RUNTIME: Final = PREFIX + "min-runtime"
REQUIRED_TOPOLOGY: Final = PREFIX + "required-topology"
PREFERRED_TOPOLOGY: Final = PREFIX + "preferred-topology"

ANNOTATIONS: Final = MappingProxyType(
    {
        MIN_WIDTH: "the fewest pods at once that it can work with, 1 to 16384; left out, as many as are written",
        MAX_WIDTH: "the most pods at once that it can use, 1 to 16384; left out, as many as are written",
        CHECKPOINT_NOTICE: "how long its pods take to end once told to, checkpoint included, 0s to 1h; left out, 30s. "
        "What they are given is their terminationGracePeriodSeconds",
        LAST_CHECKPOINT: "when it last wrote a checkpoint, a date and time with offset; its program writes it",
        EXPECTED_DURATION: "how long it runs with as many pods as are written, 1s to 90d; left out, what the queue's "
        "past says. Fewer pods are taken to need as much longer",
        MIN_RUNTIME: "how long it is left alone once it runs, 0s to 30d; the longer of this and its queue's holds",
        REQUIRED_TOPOLOGY: "rack, island (an NVLink domain) or node: all of its pods are in one, or it waits; "
        "left out, anywhere",
        PREFERRED_TOPOLOGY: "rack, island or node: all of its pods are in one where one has room when it starts, "
        "else in one that is coarser, else anywhere; left out, anywhere",
    }
)
"""Every annotation of batch work, with what it means and what it may be."""

OF_PODS: Final = MappingProxyType(
    {
        POD_GROUP: "label of pods behind the gate " + GATE + ": the pods of a namespace with the same one are one gang",
        POD_GROUP_SIZE: "how many pods that group has, 1 to 256, the same on each; it waits until all are there",
    }
)
"""What pods without an object above them say besides."""

ANYWHERE: Final = Topology()

MOST_AHEAD_S: Final = 300.0
"""Clocks of nodes differ; a checkpoint further in the future than this was not written by one."""

_UNITS: Final = MappingProxyType({"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0})
_DURATION: Final = re.compile(r"([0-9]{1,9}(\.[0-9]{1,3})?[dhms]){1,4}")
_QUEUE_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,61}[a-z0-9])?")
_LIMITS: Final = MappingProxyType(
    {
        CHECKPOINT_NOTICE: (0.0, 3600.0, "give 0s to 1h, such as 90s"),
        EXPECTED_DURATION: (1.0, 90 * 86_400.0, "give 1s to 90d, such as 4h"),
        MIN_RUNTIME: (0.0, 30 * 86_400.0, "give 0s to 30d, such as 30m"),
    }
)
"""Annotation -> the least and the most seconds, and the remedy."""


@dataclass(frozen=True, slots=True)
class WorkFinding:
    """One value that cannot be meant."""

    field: str
    """The label or annotation."""
    value: str
    remedy: str
    stops: bool = True
    """Whether the work is refused for it; else it counts as if it were not there."""
    code: str = BatchReason.ABSURD.name
    """For which reason it is refused."""
    waits: bool = False
    """Whether it passes by itself, so that the work waits and nobody has to mend anything."""

    @property
    def words(self) -> str:
        """The finding as a sentence."""
        return f"{self.field}: {self.value}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class WorkSays:
    """What the object says; None where it says nothing, or nothing that can be meant."""

    queue: str
    min_width: int | None = None
    """Pods."""
    max_width: int | None = None
    notice_s: float | None = None
    checkpoint_s: float | None = None
    """Epoch seconds."""
    expected_s: float | None = None
    min_runtime_s: float | None = None
    topology: Topology = ANYWHERE
    findings: tuple[WorkFinding, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether it cannot be admitted as it stands."""
        return any(finding.stops for finding in self.findings)


def read_work(labels: Mapping[str, str], annotations: Mapping[str, str], now_s: float) -> WorkSays | None:
    """What an object says about itself; None for one without the label of a queue."""
    queue = labels.get(QUEUE)
    if queue is None:
        return None
    found: list[WorkFinding] = []
    if not _QUEUE_NAME.fullmatch(queue):
        found.append(WorkFinding(QUEUE, shown(queue), "name a BatchQueue: at most 63 of a-z, 0-9, - and ."))
    least, most = (_width(annotations, name, found) for name in (MIN_WIDTH, MAX_WIDTH))
    if least is not None and most is not None and least > most:
        found.append(WorkFinding(MIN_WIDTH, f"{least} is above max-width {most}", "lower it, or raise max-width"))
        least = most = None
    return WorkSays(
        queue=queue,
        min_width=least,
        max_width=most,
        notice_s=_span(annotations, CHECKPOINT_NOTICE, found),
        checkpoint_s=_instant(annotations, now_s, found),
        expected_s=_span(annotations, EXPECTED_DURATION, found),
        min_runtime_s=_span(annotations, MIN_RUNTIME, found),
        topology=Topology(*(_level(annotations, name, found) for name in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY))),
        findings=tuple(found),
    )


def seconds(text: str) -> float | None:
    """A duration with its units, largest first, such as 1h30m; None where it is none."""
    if not _DURATION.fullmatch(text):
        return None
    parts = re.findall(r"([\d.]+)([dhms])", text)
    order = "".join(unit for _, unit in parts)
    if order != "".join(unit for unit in "dhms" if unit in order):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _width(annotations: Mapping[str, str], name: str, found: list[WorkFinding]) -> int | None:
    text = annotations.get(name)
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,5}", text) and 1 <= int(text) <= MAX_PODS:
        return int(text)
    found.append(WorkFinding(name, shown(text), f"give a whole number of pods, 1 to {MAX_PODS}"))
    return None


def _level(annotations: Mapping[str, str], name: str, found: list[WorkFinding]) -> str | None:
    text = annotations.get(name)
    if text is None or text in {*LEVELS, NODE}:
        return text
    remedy = f"name one of {', '.join((*LEVELS, NODE))}"
    found.append(WorkFinding(name, shown(text), remedy, code=BatchReason.UNKNOWN_LEVEL.name))
    return None


def _span(annotations: Mapping[str, str], name: str, found: list[WorkFinding]) -> float | None:
    text = annotations.get(name)
    if text is None:
        return None
    least_s, most_s, remedy = _LIMITS[name]
    value_s = seconds(text)
    if value_s is not None and least_s <= value_s <= most_s:
        return value_s
    without = " has no unit" if re.fullmatch(r"[0-9.]+", text) else ""
    found.append(WorkFinding(name, shown(text) + without, remedy))
    return None


def _instant(annotations: Mapping[str, str], now_s: float, found: list[WorkFinding]) -> float | None:
    text = annotations.get(LAST_CHECKPOINT)
    if text is None:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        remedy = "write a date and time with offset, such as 2026-11-28T08:00:00Z"
        found.append(WorkFinding(LAST_CHECKPOINT, shown(text), remedy, stops=False))
        return None
    if when.timestamp() > now_s + MOST_AHEAD_S:
        remedy = "write when it was, by a clock that is right"
        found.append(WorkFinding(LAST_CHECKPOINT, f"{shown(text)} is in the future", remedy, stops=False))
        return None
    return min(when.timestamp(), now_s)
