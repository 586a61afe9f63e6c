"""How much of this machine's processors others used while something was measured.

Leaves: cores, from what the kernel counts of all and of this process with the children it has waited for. Linux only:
None elsewhere. Children that nobody waited for count as others.
"""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS_S = 1.0 / os.sysconf("SC_CLK_TCK")
_BUSY = (0, 1, 2, 5, 6, 7)
"""User, nice, system, interrupts and what a hypervisor took; not idle, not waiting."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """An instant to count from."""

    began_s: float
    all_s: float | None
    own_s: float

    @classmethod
    def begin(cls) -> "Stretch":
        """Now."""
        return cls(time.monotonic(), _all_s(), _own_s())

    def others_cores(self) -> float | None:
        """Cores that others used since then; None where the kernel does not tell."""
        all_s = _all_s()
        if all_s is None or self.all_s is None:
            return None
        passed_s = max(time.monotonic() - self.began_s, 1e-3)
        return round(max(0.0, (all_s - self.all_s) - (_own_s() - self.own_s)) / passed_s, 2)


def _all_s() -> float | None:
    listed = Path("/proc/stat")
    if not listed.exists():
        return None
    ticks = [int(word) for word in listed.read_text().splitlines()[0].split()[1:]]
    return sum(ticks[at] for at in _BUSY) * _TICKS_S


def _own_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
