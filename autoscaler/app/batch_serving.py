"""What tenants' serving uses, for the books of batch admission: it counts where shares are equal, as gangs' use does.

Enters: pods that serve, as they are seen, and which queue a namespace is of. Leaves: word to the room of what they
hold, and now and then of what all queues used by then. It counts for no quota and no share: what serving holds is its
own.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from autoscaler.adapters.kube.batch_scope import Seen
from autoscaler.core.batch.room import Room

AGAIN_S: Final = 60.0
"""How old what is known of a queue's use may be when nodes and pods are seen: who holds much and does not change has
used more since."""


class Serving:
    """The use of one room's tenants; `namespaces` says of which queue each is."""

    def __init__(self, room: Room, namespaces: Mapping[str, str]) -> None:
        self._room, self._namespaces = room, namespaces
        self._weights = {shape.name: shape.weight for shape in room.params.shapes}
        self._gpus: dict[str, float] = {}
        """Reference GPUs by queue, as the room was told last."""
        self._again_s = -math.inf

    def follow(self, seen: Seen, now_s: float) -> None:
        """From now on serving uses what is seen."""
        gpus = defaultdict[str, float](float)
        for (namespace, shape), units in sorted(seen.serving.items()):
            if namespace in self._namespaces:
                gpus[self._namespaces[namespace]] += units * self._weights[shape]
        for queue in sorted(self._gpus.keys() | gpus.keys()):
            more = gpus.get(queue, 0.0) - self._gpus.get(queue, 0.0)
            if more:
                self._room.serving_uses(queue, more, now_s)
        self._gpus = dict(gpus)
        if now_s >= self._again_s:
            self._again_s = now_s + AGAIN_S
            for queue in self._room.tree.index:
                self._room.serving_uses(queue, 0.0, now_s)
            self._room.backlog.touch_all()
