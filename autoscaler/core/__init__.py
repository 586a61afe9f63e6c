"""The decision core: a pure, synchronous, deterministic map from (state, readings, now) to (state, decisions).

Nothing in here awaits, logs, reads a clock, draws a random number or touches the environment; it imports numpy and
itself only. Two drivers call it: the live asyncio runtime and the simulator.
"""
