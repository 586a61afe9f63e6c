"""`headroom decide --jsonl` in closed loop with a plant of single requests, scored beside plain rivals.

It is an outsider: it starts the command as a child process and speaks the published lines. The plant imports nothing of
the simulator or of the core, and shares no formula with them.
"""

from loadtests.loop.command import main

__all__ = ["main"]
