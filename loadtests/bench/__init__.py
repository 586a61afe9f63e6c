"""Benchmarks: each prints one JSON object with its figures, the command, the seed and the machine it ran on."""
