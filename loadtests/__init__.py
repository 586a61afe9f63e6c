"""Load tests and benchmarks of Headroom: they measure real time and start real processes; tests assert behaviour."""
