"""How near a prediction came to what was measured, figure by figure.

Enters: figures that were measured and predicted. Leaves: rows with what is allowed. What a prediction with a run's own
instants says stands beside it and is not judged: at which instants pages are read and the load begins is chance, and
it tells how much of what lies between the two is that.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from loadtests.run.measured import Figures, middle
from loadtests.run.predicted import Prediction

HOURS_RATIO: Final = 0.05
ATTAINMENT_POINTS: Final = 2.0
RECOVERY_RATIO: Final = 0.10


@dataclass(frozen=True, slots=True)
class Fidelity:
    """One figure measured and predicted."""

    name: str
    measured: float | None
    predicted: float | None
    span: tuple[float, float]
    """Between which the simulator's runs lie, by chance."""
    apart: float | None
    """In the words of `unit`; None where one of the two is not there."""
    unit: str
    allowed: float
    turned: float | None = None
    """Predicted at the instants of the run; None where that was not simulated."""

    @property
    def held(self) -> bool | None:
        """Whether the prediction is as near as is asked; None where it cannot be told."""
        return None if self.apart is None else abs(self.apart) <= self.allowed

    @property
    def within(self) -> bool:
        """Whether what was measured lies among the simulator's runs."""
        return self.measured is not None and self.span[0] <= self.measured <= self.span[1]

    def as_json(self) -> dict[str, object]:
        """For a record, with what it comes to."""
        return {**asdict(self), "held": self.held, "within": self.within}


@dataclass(frozen=True, slots=True)
class Middle:
    """Several runs of one scenario as one."""

    runs: int
    measured: Figures
    fidelity: tuple[Fidelity, ...]

    def as_json(self) -> dict[str, object]:
        """For a record."""
        return {"runs": self.runs, "measured": self.measured.as_json(),
                "fidelity": [row.as_json() for row in self.fidelity]}  # fmt: skip


def in_the_middle(runs: Sequence[Figures], prediction: Prediction) -> Middle:
    """What several whole runs measured, the middle of each figure, beside the middle of the simulated ones. One run and
    the middle of many are apart by the chance of that run also where the simulator is right; two middles less so."""
    measured = middle(runs)
    return Middle(len(runs), measured, compared(measured, prediction))


def compared(measured: Figures, prediction: Prediction) -> tuple[Fidelity, ...]:
    """A row for each figure; recovery has none where the load has no onset."""
    told = prediction.figures
    low, high = prediction.attainment
    hours, other = measured.gpu_hours.total, told.gpu_hours.total
    points = 100.0 * (told.attainment_ratio - measured.attainment_ratio)
    rows = [
        Fidelity("GPU-hours", hours, other, prediction.hours, 100.0 * (other / hours - 1.0), "%", 100.0 * HOURS_RATIO),
        Fidelity(
            "in time, %", 100.0 * measured.attainment_ratio, 100.0 * told.attainment_ratio,
            (100.0 * low, 100.0 * high), points, "points",
            ATTAINMENT_POINTS,
        ),
    ]  # fmt: skip
    if measured.recovery_s is not None:
        apart = None
        if told.recovery_s is not None and measured.recovery_s > 0.0:
            apart = 100.0 * (told.recovery_s / measured.recovery_s - 1.0)
        elif told.recovery_s == 0.0:
            apart = 0.0
        rows.append(
            Fidelity(
                "recovery, s", measured.recovery_s, told.recovery_s, prediction.recovery_s, apart, "%",
                100.0 * RECOVERY_RATIO,
            )
        )  # fmt: skip
    return tuple(rows)


def with_turned(rows: Sequence[Fidelity], again: Figures) -> tuple[Fidelity, ...]:
    """The rows of `compared` with what was predicted at the instants of the run."""
    told = (again.gpu_hours.total, 100.0 * again.attainment_ratio, again.recovery_s)
    return tuple(replace(row, turned=value) for row, value in zip(rows, told, strict=False))
