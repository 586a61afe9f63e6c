"""Servers that behave like engines: OpenAI-compatible streams out of a batching state machine, and no GPU.

What they know of speed is measured elsewhere and read from a profile. They import nothing of the simulator and share no
formula with it, so that each can be held against the other.
"""

from loadtests.engines.command import main

__all__ = ["main"]
