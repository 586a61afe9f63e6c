"""One scenario on a real control plane with real traffic, and what the simulator says of the same.

Pods are fake and so is every delay of a start, which the scenario sets; what decides, asks and answers is real. It
measures the control loop, never a GPU.
"""

from loadtests.run.command import main

__all__ = ["main"]
