"""What preflight takes where nothing is said. It imports nothing, because `--help` reads it."""

from typing import Final

STEP_S: Final = 30.0
"""Steps of a history from a trace: what Prometheus scrapes by default every 15 to 30 s."""
