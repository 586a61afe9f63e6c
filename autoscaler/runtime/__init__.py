"""The live driver: it gathers readings through ports, steps the core, acts on its decisions and records both.

Enters: changes and samples from ports. Leaves: patches, audit lines, checkpoints. It decides nothing by itself: which
number is right is the core's, what a port talks to is an adapter's.
"""
