"""Counts that somebody else set: a person, a rollout tool, another controller. They are left alone for a while.

Pure: instants and counts in, words or None out. Within the hold nothing is done against the edit: a raised count is not
lowered, a lowered one not raised. Each further edit within the hour doubles the hold, so that two writers that disagree
end up far apart instead of fighting (vllm-project/production-stack#903).
"""

from dataclasses import dataclass, field
from typing import Final

from autoscaler.core.doubling import doubled
from autoscaler.record.explain import duration

FIRST_S: Final = 120.0
"""One hold of the shortest stabilisation: time to see what the edit was for (a guess)."""

MOST_S: Final = 1800.0
"""Half an hour: a forgotten tool must not keep a service down for longer without being told again (a guess)."""

MEMORY_S: Final = 3600.0

SAME_S: Final = 1.0
"""Two looks may see one edit before a step has taken it in."""


@dataclass(slots=True)
class Edits:
    """The edits of one target by others. Instants are monotonic seconds."""

    _at_s: list[float] = field(default_factory=list)
    _before: int = 0
    _after: int = 0

    def note(self, now_s: float, before: int, after: int) -> bool:
        """Somebody else took the count from `before` to `after`; False where that is the edit noted a moment ago."""
        if self._at_s and now_s < self._at_s[-1] + SAME_S and (before, after) == (self._before, self._after):
            return False
        self._at_s = [at_s for at_s in self._at_s if at_s > now_s - MEMORY_S] + [now_s]
        self._before, self._after = before, after
        return True

    @property
    def hold_s(self) -> float:
        """How long the newest edit is respected."""
        return doubled(FIRST_S, len(self._at_s) - 1, MOST_S) if self._at_s else 0.0

    def objection(self, now_s: float, seen: int, replicas: int) -> str | None:
        """Why the count must not go from `seen` to `replicas` now, in words; None where no edit stands against it."""
        if not self._at_s or now_s >= self._at_s[-1] + self.hold_s:
            return None
        raised = self._after > self._before
        if (replicas > seen) == raised:
            return None
        ago_s = now_s - self._at_s[-1]
        times = f", for the {len(self._at_s)}th time within an hour" if len(self._at_s) > 1 else ""
        return (
            f"somebody else set {self._before}→{self._after} {duration(ago_s)} ago{times}; "
            f"left alone for {duration(self.hold_s - ago_s)} more"
        )
