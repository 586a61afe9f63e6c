"""How many pods a piece of work has where that is chosen when it starts: what its author wrote, what was chosen.

Enters: what the work says, the number that stands in the object, where it stands. Leaves: `WorkWidth`, or None for work
that is as wide as it is written. What was chosen stands in an annotation beside what was written, until a stop writes
that back; where somebody else changed the number since, it is theirs, and is what is written from then on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from autoscaler.api.annotations import PREFIX
from autoscaler.api.batch_work import MAX_WIDTH, MIN_WIDTH, WorkFinding, WorkSays

WIDTH: Final = PREFIX + "width"
"""Annotation: how many pods the gang was let in with, and how many its author wrote, as JSON."""


class Chosen(msgspec.Struct, frozen=True, gc=False):
    """What a start wrote, and in place of what."""

    pods: int
    written: int


@dataclass(frozen=True, slots=True)
class WorkWidth:
    """How many pods one set of a piece of work may have; pods that run at once."""

    pod_set: int
    """The set, by number."""
    paths: tuple[str, ...]
    """Where the number stands in the object."""
    stands: int
    """What is there."""
    written: int
    """What its author wrote there."""
    least: int
    most: int


_chosen: Final = msgspec.json.Decoder(Chosen)


def read_width(
    says: WorkSays | None,
    annotations: Mapping[str, str],
    stands: int,
    paths: tuple[str, ...],
    *,
    pod_set: int = 0,
    left: int | None = None,
) -> WorkWidth | None:
    """How wide a piece of work may be; None where that cannot be chosen.

    `left` are pods that are still to end well, where no more are made.
    """
    chosen = _read(annotations.get(WIDTH, ""))
    ours = chosen is not None and chosen.pods == stands
    written = chosen.written if chosen is not None and ours else stands
    says_so = says is not None and (says.min_width is not None or says.max_width is not None)
    if says is None or written < 1 or not (ours or says_so):
        return None
    least = written if says.min_width is None else says.min_width
    most = written if says.max_width is None else says.max_width
    if left is not None:
        least, most = min(least, left), min(most, left)
    return WorkWidth(pod_set, paths, stands, written, least, most)


def with_width(says: WorkSays, width: WorkWidth | None) -> WorkSays:
    """What the work says, with a finding where the one bound that is given leaves out what is written."""
    if width is None or width.least <= width.most:
        return says
    return replace(says, findings=(*says.findings, *_contradictions(says, width)))


def _contradictions(says: WorkSays, width: WorkWidth) -> Iterator[WorkFinding]:
    where = width.paths[0].strip("/").replace("/", ".")
    if says.max_width is None:
        value = f"{says.min_width} is above the {width.written} of {where}"
        yield WorkFinding(MIN_WIDTH, value, "lower it, or give max-width besides")
    elif says.min_width is None:
        value = f"{says.max_width} is below the {width.written} of {where}"
        yield WorkFinding(MAX_WIDTH, value, "raise it, or give min-width besides")


def fixed(says: WorkSays, why: str) -> WorkSays:
    """What work says whose width nobody chooses: that its bounds have no effect stops nobody."""
    given = {MIN_WIDTH: says.min_width, MAX_WIDTH: says.max_width}
    found = (
        WorkFinding(name, f"{pods} has no effect: {why}", "leave it out", stops=False)
        for name, pods in given.items()
        if pods is not None
    )
    return replace(says, findings=(*says.findings, *found))


def note(width: WorkWidth, pods: int) -> str | None:
    """What the annotation says of a start with so many pods; None where that is what its author wrote."""
    return None if pods == width.written else msgspec.json.encode(Chosen(pods, width.written)).decode()


def _read(text: str) -> Chosen | None:
    """What we wrote; nothing where somebody else edited it beyond meaning."""
    try:
        found = _chosen.decode(text) if text else None
    except (RecursionError, msgspec.DecodeError):
        return None
    return found if found is not None and found.pods >= 1 and found.written >= 1 else None
