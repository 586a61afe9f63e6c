"""Warm pools simulated: demand for replicas, a plant of nodes and slots with staged starts, rivals, the score.

It shares no formula with the core's pool room: only the values that cross its boundary, as a cluster would give them.
"""
