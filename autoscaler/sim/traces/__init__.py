"""Readers of public request traces and rate tables: a file and a selection in, a `Traffic` out."""

from autoscaler.sim.traces.reader import read_selection, read_traffic, read_workloads
from autoscaler.sim.traces.selection import TraceSelection, split_trace

__all__ = ["TraceSelection", "read_selection", "read_traffic", "read_workloads", "split_trace"]
