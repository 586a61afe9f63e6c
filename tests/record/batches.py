"""One look at batch work, with something of everything, for whoever tells it on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from autoscaler.record.batch import (
    BatchCounts,
    BatchTold,
    ChangeTold,
    GangState,
    GangTold,
    OwnersTold,
    QueueTold,
    ShapeTold,
)

NOON_S: Final = 1795863600.0
"""2026-11-28T11:00:00Z."""


def gang(name: str, state: GangState = GangState.WAITING, **fields: Any) -> GangTold:
    """A Job of two pods of eight GPUs that was made ten minutes before noon, but for `fields`."""
    sound: dict[str, Any] = {
        "kind": "Job", "namespace": "lab", "queue": "vision", "pods": 2, "units": (("h100", 16),),
        "created_s": NOON_S - 600,
    }  # fmt: skip
    return GangTold(name=name, state=state, **sound | fields)


BIG: Final = gang(
    "big",
    reason="ROOM",
    position=1,
    changes=(ChangeTold("ROOM", "h100", 8),),
    start_p50_s=NOON_S + 1200,
    start_p90_s=NOON_S + 3000,
)
NEXT: Final = gang("next", reason="QUOTA", position=2, changes=(ChangeTold("QUOTA", "vision", 16),))
RUNS: Final = gang(
    "runs", GangState.RUNNING, reason="LOAN", started_s=NOON_S - 300, lent_units=8, nodes=("n1", "n2"), evictions=1
)
WRONG: Final = gang(
    "wrong", GangState.REFUSED, reason="ABSURD", detail="headroom.dev/min-width: '0'; give a whole number of pods"
)
ALIEN: Final = gang("alien", GangState.FOREIGN, detail="Kueue manages it (kueue.x-k8s.io/queue-name)")

TOP: Final = QueueTold(
    "research", None, 1.0, 0.25, waiting=2, running=1, namespaces=("lab",),
    shapes=(ShapeTold("h100", 32, None, 16, 32),),
)  # fmt: skip
VISION: Final = QueueTold(
    "vision", "research", 2.0, 0.125, waiting=2, running=1, shapes=(ShapeTold("h100", 16, 64, 16, 32),),
    head_age_s=600.0, head_late_s=0.0,
)  # fmt: skip
BROKEN: Final = QueueTold(
    "broken", "nobody", 1.0, None, waiting=0, running=0, shapes=(), served=False,
    findings=(("UnknownParent", "spec.parent: there is no BatchQueue 'nobody'; make it, or leave the parent out"),),
)  # fmt: skip

TOLD: Final = BatchTold(
    now_s=NOON_S,
    acting=True,
    queues=(TOP, VISION, BROKEN),
    gangs=(BIG, NEXT, RUNS, WRONG, ALIEN),
    waiting=(("ROOM", 1), ("QUOTA", 1)),
    refused=(("ABSURD", 1),),
    owners=(
        OwnersTold("h100", serving=24, batch=8, loan=8, reserved=8, foreign=4, unavailable=4, free=8, whole_free=2),
    ),
    counts=BatchCounts((("FITS", 3), ("LOAN", 1)), (("RECALLED", 1),), 7200.0, 2),
    cycle_s=0.0125,
)


@dataclass(slots=True)
class Book:
    """Batch admission as whoever asks knows it: one look, and gangs that may be found in it."""

    look: BatchTold | None = TOLD

    def told(self) -> BatchTold | None:
        """The look."""
        return self.look

    def find(self, kind: str, namespace: str | None, name: str) -> Sequence[GangTold]:
        """Gangs of the look."""
        gangs = () if self.look is None else self.look.gangs
        return [
            gang
            for gang in gangs
            if (gang.kind.lower(), gang.name) == (kind, name) and namespace in {None, gang.namespace}
        ]
