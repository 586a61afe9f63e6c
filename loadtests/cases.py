"""The instances that published ratios stand for: whole days of recorded rates, built-in workloads, on/off traffic."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autoscaler.errors import InputError
from autoscaler.sim.instance import Cluster, Instance, load_traffic, make_instance

Kind = Literal["day", "named", "on-off"]
WARMUPS_S = (60.0, 180.0, 600.0)
MEAN_RPS = 200.0
"""What a recorded day is scaled to: production rates, where the shape and not the noise of few requests decides."""
_RATES = "inference/servegen_rates_week1.csv.gz"
_CODE = "inference/azure2023_code_h1.csv.gz"
_NAMED = ("spike-train", "step-x3", "step-x10", "ramp", "chat-diurnal", "idle-then-burst")


@dataclass(frozen=True, slots=True)
class Case:
    """One instance by the arguments that `headroom simulate` takes."""

    kind: Kind
    label: str
    day: int | None
    trace: str | None
    workload: str | None
    warmup_s: float
    seed: int

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of `headroom simulate` that name this instance."""
        source = ("--workload", self.workload) if self.workload is not None else ("--trace", str(self.trace))
        return (*source, "--warmup", f"{self.warmup_s:g}", "--seed", str(self.seed))

    def load(self) -> Instance:
        """The instance; InputError where its file cannot be read."""
        traffic = load_traffic(self.trace, self.workload, seed=self.seed)
        return make_instance(traffic, Cluster(warmup_s=self.warmup_s), seed=self.seed)


def all_cases(data: Path, *, models: tuple[str, ...], days: tuple[int, ...], seed: int) -> tuple[Case, ...]:
    """Days of the models at every warm-up, then the built-in workloads, then on/off traffic."""
    recorded = [
        Case("day", model, day, f"{data / _RATES}#model={model}&day={day}&rate={MEAN_RPS:g}", None, warmup_s, seed)
        for model in models
        for day in days
        for warmup_s in WARMUPS_S
    ]
    named = [Case("named", name, None, None, name, warmup_s, seed) for name in _NAMED for warmup_s in WARMUPS_S]
    code = Path(_CODE).name.removesuffix(".csv.gz")
    on_off = [
        case
        for warmup_s in WARMUPS_S
        for case in (
            Case("on-off", "code-burst", None, None, "code-burst", warmup_s, seed),
            Case("on-off", code, None, str(data / _CODE), None, warmup_s, seed),
        )
    ]
    return (*recorded, *named, *on_off)


def chosen(cases: tuple[Case, ...], only: str | None, warmups_s: tuple[float, ...] | None) -> tuple[Case, ...]:
    """The cases whose kind or label is in the comma-separated `only`, at these warm-ups. InputError if none is left."""
    words = None if only is None else {word.strip() for word in only.split(",")}
    known = {case.kind for case in cases} | {case.label for case in cases}
    if words is not None and not words <= known:
        raise InputError(
            f"--only: {', '.join(sorted(words - known))} not known; choose from {', '.join(sorted(known))}"
        )
    kept = tuple(
        case
        for case in cases
        if (words is None or case.kind in words or case.label in words)
        and (warmups_s is None or case.warmup_s in warmups_s)
    )
    if not kept:
        raise InputError(f"no case is left; warm-ups are {', '.join(f'{warmup_s:g}' for warmup_s in WARMUPS_S)}")
    return kept
