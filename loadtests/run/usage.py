"""What processes use, as the kernel tells it: processor time and memory of one and of its children.

Enters: a process id. Leaves: seconds and bytes; zero of a process that is gone. Linux only, as are the addresses that
the pods have.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """Of a process and the children that live."""

    cpu_s: float
    """From its start; of children that have ended too, once they were waited for."""
    rss_bytes: int


def usage(pid: int) -> Usage:
    """What the process and its children use now."""
    folder = Path("/proc") / str(pid)
    try:
        told = (folder / "stat").read_text().rpartition(")")[2].split()
        pages = int((folder / "statm").read_text().split()[1])
        children = [usage(int(child)) for child in (folder / f"task/{pid}/children").read_text().split()]
    except (OSError, IndexError):
        return Usage(0.0, 0)
    own_s = sum(int(told[at]) for at in (11, 12, 13, 14)) * _TICKS_S
    return Usage(
        own_s + sum(child.cpu_s for child in children), pages * _PAGE_BYTES + sum(c.rss_bytes for c in children)
    )
