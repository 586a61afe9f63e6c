"""What an outsider can read of the plant, as a line of `headroom decide --jsonl`, and how readings go missing.

Enters: the plant at an instant, a policy, faults. Leaves: one object of the published contract. Pods that drain are in
no list any more, as in Kubernetes; nobody tells latencies.
"""

from dataclasses import dataclass
from typing import Any, Final

from loadtests.loop.fleet import NEVER, Replica
from loadtests.loop.plant import Plant

WORKLOAD: Final = "loop/plant"
PROMPT_TOKENS: Final = 400
"""Of each request, and how many it generates in a second in its slot: guesses, the same for all."""
TOKENS_PER_S: Final = 30.0
KV_WHEN_BUSY: Final = 0.95
"""Share of its KV cache that a replica uses with all slots busy; in proportion with fewer."""
KV_FULL: Final = 0.99
DAY_S: Final = 86_400.0

Span = tuple[float, float]
"""From a second until before another."""
NOT_AT_ALL: Final[Span] = (NEVER, NEVER)


@dataclass(frozen=True, slots=True)
class Faults:
    """What readings lack or tell wrongly, and when the budget is 0 replicas."""

    gateway_silent: Span = NOT_AT_ALL
    pods_silent: Span = NOT_AT_ALL
    untold_completions: bool = False
    counters_reset_s: float = NEVER
    """From then on all counters count from what they had then."""
    kv_full: bool = False
    no_budget: Span = NOT_AT_ALL


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the policy, as the first line tells it."""

    wait_s: float = 10.0
    tick_s: float = 10.0
    most: int = 200
    least: int = 1


class Reader:
    """Reads a plant tick by tick: a counter that was reset keeps what it had in mind."""

    def __init__(self, asked: Asked, faults: Faults) -> None:
        self._asked, self._faults = asked, faults
        self._before: dict[int, tuple[int, float, int]] | None = None
        self._came_before = 0

    def line(self, plant: Plant) -> dict[str, Any]:
        """The reading of now."""
        now_s, faults = plant.now_s, self._faults
        if self._before is None and now_s >= faults.counters_reset_s:
            self._before = {r.number: _counters(r, now_s) for r in plant.ready.values()}
            self._came_before = plant.came
        read: dict[str, Any] = {
            "now_s": now_s, "workload": WORKLOAD, "policy": self._policy(),
            "replicas": {
                "desired": plant.desired, "ready": len(plant.ready),
                "starting": [{"since_s": r.ordered_s, "name": r.name} for r in plant.starting.values()],
            },
            "pods": [self._pod(replica, plant.fleet.slots, now_s) for replica in plant.ready.values()],
            "gateway": None if _within(now_s, faults.gateway_silent)
            else {"queued": plant.waiting, "requests_total": plant.came - self._came_before},
        }  # fmt: skip
        if _within(now_s, faults.no_budget):
            read["limits"] = {"budget_replicas": 0}
        return read

    def _policy(self) -> dict[str, object]:
        asked = self._asked
        return {
            "min_replicas": asked.least, "max_replicas": asked.most,
            "slo": {"wait_s": asked.wait_s}, "tick_s": asked.tick_s,
        }  # fmt: skip

    def _pod(self, replica: Replica, slots: int, now_s: float) -> dict[str, object]:
        known: dict[str, object] = {"name": replica.name, "ready_since_s": replica.ready_s}
        if _within(now_s, self._faults.pods_silent):
            return known
        done, tokens, begun = _counters(replica, now_s)
        less_done, less_tokens, less_begun = (self._before or {}).get(replica.number, (0, 0.0, 0))
        used = KV_FULL if self._faults.kv_full else KV_WHEN_BUSY * replica.running / slots
        return {
            **known, "waiting": replica.waiting, "running": replica.running,
            "requests_total": None if self._faults.untold_completions else done - less_done,
            "prompt_tokens_total": PROMPT_TOKENS * (begun - less_begun),
            "generation_tokens_total": round(tokens - less_tokens, 3), "kv_cache_usage": round(used, 4),
        }  # fmt: skip


def _counters(replica: Replica, now_s: float) -> tuple[int, float, int]:
    return replica.done, TOKENS_PER_S * replica.served_s(now_s), replica.begun


def _within(now_s: float, span: Span) -> bool:
    return span[0] <= now_s < span[1]
