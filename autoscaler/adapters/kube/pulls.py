"""The kubelet's word that an image is on the node: Events of reason Pulled, which pods themselves do not tell.

Enters: an Event. Leaves: which pod, when, and whether the image was there before.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from autoscaler.adapters.kube.meta import Meta

SELECTOR: Final = "reason=Pulled,involvedObject.kind=Pod"

PRESENT: Final = "already present on machine"
"""The kubelet's words (kubernetes/kubernetes:pkg/kubelet/images/image_manager.go)."""


class Involved(msgspec.Struct, frozen=True):
    """The object that an event is about."""

    uid: str = ""
    name: str = ""


class PulledEvent(msgspec.Struct, frozen=True, rename="camel"):
    """One Event; a newer API writes `event_time`, the kubelet the older ones."""

    metadata: Meta = Meta()
    involved_object: Involved = Involved()
    message: str = ""
    event_time: datetime | None = None
    first_timestamp: datetime | None = None


@dataclass(frozen=True, slots=True)
class Pull:
    """When a pod's image was there, in seconds since 1970."""

    uid: str
    at_s: float
    was_present: bool


def pull_of(event: PulledEvent) -> Pull | None:
    """What an event says; None where it does not say when."""
    at = event.event_time or event.first_timestamp
    if at is None or not event.involved_object.uid:
        return None
    return Pull(event.involved_object.uid, at.timestamp(), PRESENT in event.message)
