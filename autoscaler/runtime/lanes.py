"""One workload's place in the loop, and when it is due: what separates workloads that would otherwise move in step.

Instants are on the clock's monotonic time. Few workloads are due one tick after their last step. In a crowd each has a
grid of its own, shifted by its name: a thousand policies that start, or are edited, in one instant fall due spread over
the tick, and stay so.
"""

import math
import zlib
from dataclasses import dataclass, field

from autoscaler.ports import Fault
from autoscaler.runtime.edits import Edits
from autoscaler.runtime.gather import Known
from autoscaler.runtime.target import Target
from autoscaler.runtime.triggers import Assumed, Cause

MIN_GAP_S = 0.2
"""Between two looks at one workload, so that a storm of events costs at most five steps a second."""

CROWD = 64
"""From this many workloads on, what would fall into one instant for all of them is spread."""

SLICE = 8
"""Most looks begun, and most workloads stepped, in one turn of the event loop. Between turns scrapes, watches and
answers have theirs. A turn with 8 takes 2 ms, with their forecasts 3 to 4; half of that is the batch's own, so that
fewer at once would cost more in all (`loadtests/bench/loop_lag.py`)."""

MEMORY_S = 7200.0
"""Between two memory lines of a workload: 40 KB, or 90 with both its models, beside 1,440 decisions with their inputs,
3 to 6 MB. A week has 84, which a replay steps side by side."""

NEVER_S = float("-inf")


@dataclass(slots=True)
class Lane:
    """What the loop keeps of one workload beside the core's row."""

    target: Target
    due_s: float
    looked_s: float = NEVER_S
    looking: bool = False
    again: bool = False
    """A change came while its readings were being gathered."""
    held_back: bool = False
    """A decision was not acted upon because a patch was on its way."""
    frozen: bool = False
    """The last decision was not acted upon because everything is frozen."""
    broken_until_s: float = NEVER_S
    """It raised; it is left alone until then."""
    forced: Cause | None = None
    known: Known = field(default_factory=Known)
    assumed: Assumed | None = None
    faults: dict[str, Fault] = field(default_factory=dict)
    edits: Edits = field(default_factory=Edits)
    memory_slot: int | None = None
    """The stretch of time whose memory line is in the audit, or the one in which the workload began."""
    ordered: int | None = None
    """The count of the last patch that was sent."""
    refusals: int = 0
    """Patches in a row that were refused or ran into a conflict, or of which nobody knows what became."""
    applied: tuple[float, int] | None = None
    """When the last patch was applied and its count, until a look that began later has come back."""

    def earliest_s(self, now_s: float) -> float:
        """When it may be looked at next."""
        return max(now_s, self.looked_s + MIN_GAP_S, self.broken_until_s)


def phase_ratio(name: str) -> float:
    """Where in a period `name` belongs, 0 up to 1; the same in every process."""
    return zlib.crc32(name.encode()) / 2**32


def memory_slot(name: str, now_s: float) -> int:
    """Which stretch of `MEMORY_S` an instant lies in: those of a thousand workloads end at different times."""
    return math.floor(now_s / MEMORY_S + phase_ratio(name))


def on_grid_s(name: str, now_s: float, tick_s: float) -> float:
    """The last instant of the grid of `name`, one per `tick_s`, that lies no later than one tick from now.

    Grids are shifted by whole gaps: those that share an instant are one batch of the core, which costs it a tenth of
    single ones. Half a gap is allowed for a step that comes a little before its own instant; it would be due again at
    once.
    """
    offset_s = math.floor(phase_ratio(name) * tick_s / MIN_GAP_S) * MIN_GAP_S
    last_s = now_s + tick_s + 0.5 * MIN_GAP_S - offset_s
    return max(last_s - last_s % tick_s + offset_s, now_s + MIN_GAP_S)
