"""A step of the core as figures: what was decided for each workload, and its words for whoever asks in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from autoscaler.core import traces
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.traces import Stepped
from autoscaler.core.types import Decision, Readings


class Count(NamedTuple):
    """A decision's figures without its words."""

    workload: str
    now_s: float
    seen_replicas: int
    replicas: int


@dataclass(frozen=True, slots=True)
class Advanced:
    """A step that was made and is not put in words yet; only until the table's next step can it be."""

    counts: tuple[Count, ...]
    """In the order of the batch."""
    fits: tuple[FitRequest, ...]
    stepped: Stepped | None
    """None where all readings were outdated."""
    outdated: Mapping[str, Readings]

    @classmethod
    def of(
        cls,
        batch: Sequence[tuple[str, Readings]],
        fits: tuple[FitRequest, ...],
        stepped: Stepped | None,
        outdated: Mapping[str, Readings],
    ) -> "Advanced":
        """The step of a batch, of which `stepped` has all rows but the outdated ones, in the same order."""
        decided = iter([] if stepped is None else stepped.outcome.replicas.tolist())
        counts = decided if not outdated else [r.replicas.desired if n in outdated else next(decided) for n, r in batch]
        figures = [(name, r.now_s, r.replicas.desired, count) for (name, r), count in zip(batch, counts, strict=True)]
        return cls(tuple(map(Count._make, figures)), fits, stepped, outdated)

    def decision(self, workload: str) -> Decision:
        """The decision of one workload. Raises KeyError for one that was not in the batch."""
        if workload in self.outdated:
            return traces.outdated(workload, self.outdated[workload])
        stepped = self.stepped
        places = [] if stepped is None else np.flatnonzero(stepped.rows == stepped.table.rows[workload]).tolist()
        if stepped is None or not places:
            raise KeyError(workload)
        return traces.decision(stepped, places[0])
