"""Engines: metrics pages of serving pods, gateways and GPU exporters, turned into readings of the core.

Enters: where the pages are. Leaves: a metric sample per workload, what is wrong with whom, and which names were found.
A page is somebody else's text: whatever it holds, the worst it can do is to be missing.
"""
