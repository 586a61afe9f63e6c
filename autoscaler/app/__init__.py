"""The composition roots: they wire rooms that must not know each other, and decide nothing."""
