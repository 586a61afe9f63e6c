"""The life of a starting pod: what happened when, and the stages between.

Enters: instants that came from several machines' clocks. Leaves: durations of stages, or the word that they cannot be
used. Nothing here remembers anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

LONGEST_S: Final = 6 * 3600.0
"""No stage takes longer: bare metal takes half an hour, and a clock that was set takes years."""


class Stage(Enum):
    """A part of a start, from the instant before it to its own."""

    SCHEDULED = "scheduled"
    """From the order to a node: waiting for room, or for a node to come."""
    PULLED = "pulled"
    """From the node to the image being there."""
    STARTED = "started"
    """From the image to the engine's process."""
    READY = "ready"
    """From the process to readiness: weights, compilation, graphs."""
    SERVING = "serving"
    """From readiness to the first served token."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What starts are alike in. Before a pod has a node, the two last are not known and false."""

    model: str
    """The image's digest and the model that it serves: most images of engines serve any."""
    shape: str
    """The GPUs of a replica, such as 8xH100."""
    node_is_new: bool
    image_was_present: bool


@dataclass(frozen=True, slots=True)
class PodTimes:
    """A pod's life as far as it is known: instants in seconds of one origin, None for what has not happened."""

    uid: str
    kind: Kind
    created_s: float
    scheduled_s: float | None = None
    pulled_s: float | None = None
    started_s: float | None = None
    ready_s: float | None = None
    first_token_s: float | None = None

    def instants(self) -> tuple[float | None, ...]:
        """All instants, the creation first, then those that end the stages in their order."""
        return self.created_s, self.scheduled_s, self.pulled_s, self.started_s, self.ready_s, self.first_token_s


def usable(pod: PodTimes) -> bool:
    """Whether the instants of a pod that is ready are in order and near enough to each other; no NaN or infinity is."""
    known = [at_s for at_s in pod.instants()[:-1] if at_s is not None]
    return all(0.0 <= later_s - earlier_s <= LONGEST_S for earlier_s, later_s in pairwise(known))


def durations(pod: PodTimes) -> Iterator[tuple[Stage, float]]:
    """The stages of which both ends are known."""
    for stage, (begun_s, ended_s) in zip(Stage, pairwise(pod.instants()), strict=True):
        if begun_s is not None and ended_s is not None:
            yield stage, ended_s - begun_s


def under_way(pod: PodTimes) -> tuple[Stage, float]:
    """The stage a pod is in, and since when: what follows the last instant that is known."""
    stage, since_s = Stage.SCHEDULED, pod.created_s
    following = (*tuple(Stage)[1:], Stage.SERVING)
    for after, at_s in zip(following, pod.instants()[1:], strict=True):
        if at_s is not None:
            stage, since_s = after, at_s
    return stage, since_s
