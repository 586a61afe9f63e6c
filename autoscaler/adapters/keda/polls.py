"""One snapshot for a whole poll: what IsActive says never contradicts the value that went before it.

KEDA asks for the value and then for the activity, in two calls, and acts on both (kedacore/keda,
pkg/scalers/external_scaler.go). Between the two another decision may fall; both calls are answered from the first.
"""

from typing import Final

from autoscaler.adapters.keda.answers import Answers, Refused, Served
from autoscaler.ports import Clock

SAME_POLL_S: Final = 0.5
"""Values asked for within this time are the same one: HPA's pull and KEDA's own poll interleave."""

POLL_LASTS_S: Final = 5.0
"""An activity that is asked for later belongs to no value."""


class Polls:
    """The snapshots of polls under way, by ScaledObject; those that are over are forgotten."""

    def __init__(self, answers: Answers, clock: Clock) -> None:
        self._answers = answers
        self._clock = clock
        self._taken: dict[tuple[str, str], tuple[float, Served]] = {}
        """Oldest first."""

    def value(self, namespace: str, name: str) -> Served | Refused:
        """What the value is told from; it begins a poll, or joins one that has just begun."""
        key, now_s = (namespace, name), self._clock.monotonic()
        found = self._taken.get(key)
        if found is not None and now_s - found[0] < SAME_POLL_S:
            return found[1]
        self._taken.pop(key, None)
        answer = self._answers.served(namespace, name)
        if isinstance(answer, Served):
            self._taken[key] = (now_s, answer)
        self._forget(now_s)
        return answer

    def activity(self, namespace: str, name: str) -> Served | Refused:
        """What the activity is told from: the poll's value, or the newest outside of a poll."""
        found = self._taken.get((namespace, name))
        if found is not None and self._clock.monotonic() - found[0] < POLL_LASTS_S:
            return found[1]
        return self._answers.served(namespace, name)

    def _forget(self, now_s: float) -> None:
        while self._taken:
            oldest = next(iter(self._taken))
            if now_s - self._taken[oldest][0] < POLL_LASTS_S:
                return
            del self._taken[oldest]
