"""Which names of a workload's series were there when: renames, replicas that are scraped twice, and how many series.

Enters: the answer to the question about presence, if it was asked. Leaves: names, and holes that say what cannot be
trusted while they last. It reads no value of any signal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np

from autoscaler.adapters.prometheus.archive import Past
from autoscaler.adapters.prometheus.questions import SIGNAL, Question, Window
from autoscaler.core.columns import F64
from autoscaler.preflight.history import Gap, Hole
from autoscaler.preflight.holes import of_loss, runs


@dataclass(frozen=True, slots=True)
class Presence:
    """What is known of one workload's names; `names` holds those of each signal, `told` is None where nobody asked."""

    names: Mapping[str, Sequence[str]]
    window: Window
    told: tuple[Question, Past] | None

    def seen(self, name: str) -> tuple[str, ...]:
        """The names under which a signal was there at any time."""
        times = self._instants()
        return tuple(one for one in self.names.get(name, ()) if one in times)

    def _instants(self) -> dict[str, F64]:
        """Name -> the instants at which it was seen."""
        if self.told is None:
            return {}
        put, past = self.told
        instants = put.first_s + put.step_s * np.arange(put.points, dtype=np.float64)
        rows = zip(past.labels, past.values, strict=True)
        seen = {one["__name__"]: instants[np.nan_to_num(row) > 0] for one, row in rows if "__name__" in one}
        return {name: at for name, at in seen.items() if at.size}

    def renames(self, name: str) -> tuple[Hole, ...]:
        """Where one name of a signal ends and another begins."""
        times = self._instants()
        seen = sorted((times[one][0], times[one][-1], one) for one in self.names.get(name, ()) if one in times)
        return tuple(
            Hole(
                float(min(old_last_s, new_first_s)), float(max(old_last_s, new_first_s)), Gap.RENAMED,
                f"{old} until {_instant(old_last_s)}, {new} from {_instant(new_first_s)}: read as one signal",
            )
            for (old_first_s, old_last_s, old), (new_first_s, new_last_s, new) in pairwise(seen)
            if old_first_s < new_first_s and old_last_s < new_last_s
        )  # fmt: skip

    def scraped_twice(self) -> tuple[Hole, ...]:
        """When some replica's series were there under several scrapers, so that sums count it more than once."""
        if self.told is None:
            return ()
        put, past = self.told
        rows = zip(past.labels, past.values, strict=True)
        scrapers = next((row for one, row in rows if one.get(SIGNAL) == "scrapers"), None)
        if scrapers is None or not (np.nan_to_num(scrapers) > 1).any():
            return ()
        text = (
            f"up to {np.nanmax(scrapers):.0f} jobs scrape the same replica, and sums count it as often; name the one "
            "that counts, as in --selector 'job=\"…\"'"
        )
        window = Window(put.start_s, put.step_s, put.points)
        return tuple(
            Hole(from_s, min(until_s, float(self.window.end_s)), Gap.AMBIGUOUS, text)
            for from_s, until_s in runs(np.nan_to_num(scrapers) > 1, window)
        )

    def most_series(self, name: str) -> int:
        """How many series of a signal's names there were at once, as far as that was answered."""
        if self.told is None:
            return 0
        _, past = self.told
        own = [one.get("__name__") in self.names.get(name, ()) for one in past.labels]
        counted = np.nan_to_num(past.values[np.array(own, dtype=bool)])
        return int(counted.sum(axis=0).max()) if counted.size else 0

    def unwatched(self) -> tuple[Hole, ...]:
        """When it is not known whether some replica is scraped twice; the values are as they were answered."""
        if self.told is None:
            return ()
        _, past = self.told
        lost = (of_loss(loss, self.window) for loss in past.losses)
        return tuple(replace(one, text=f"whether a replica is counted twice was not told: {one.text}") for one in lost)


def _instant(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M} UTC"
