"""What a person may choose of the simulator, as it is typed, and what is taken where nothing is said.

Enters: nothing. Leaves: names, forms and defaults. It imports nothing, because every `--help` and every Tab of
completion reads it. What a name stands for is made where it is used; a test holds the two together.
"""

from typing import Final

_TRACE_PARTS: Final = ("model=NAME", "tenant=NAME", "day=N", "days=N", "rate=REQUESTS_PER_S", "seed=N")
_PROFILE_PARTS: Final = ("model=NAME", "gpu=NAME", "tp=N", "slots=N", "kv-tokens=N")
TRACE_FORM: Final = f"FILE#{'&'.join(_TRACE_PARTS)}"
PROFILE_FORM: Final = f"FILE#{'&'.join(_PROFILE_PARTS)}"
TRACE_PARTS: Final = f"FILE#PART&PART…, parts: {', '.join(_TRACE_PARTS)}"
PROFILE_PARTS: Final = f"FILE#PART&PART…, parts: {', '.join(_PROFILE_PARTS)}"
"""The same in words that a help of 80 columns can break: it cuts off a word that is longer than its column."""

WORKLOADS: Final = (
    "code-burst", "chat-diurnal", "long-tail", "step-x3", "step-x10", "ramp", "spike-train", "idle-then-burst",
)  # fmt: skip
"""Built-in workloads: the keys of `workloads.NAMED`."""
RIVALS: Final = ("static", "hpa", "kpa", "kpa-credit", "llm-d", "perfect")
"""The keys of `rivals.RIVALS`."""
GROUPS: Final = ("all", "ablations")
"""Names that stand for several policies: the keys of `contest.GROUPS`."""

REPLICAS_AT_PEAK: Final = 37.0
"""Replicas that the busiest minute keeps busy where nobody states the capacity of one: a mid-sized fleet (guess)."""
MAX_REPLICAS: Final = 100
"""The default of a policy's maximum: out of the way of 37 at the peak."""
