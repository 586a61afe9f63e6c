"""Which part of a trace file is wanted, as a value and as the text of a command line.

Enters: `PATH#model=m-small&day=2&rate=200`. Leaves: a path and a `TraceSelection`. It never opens the file.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoscaler.errors import InputError
from autoscaler.sim.choices import TRACE_FORM

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class TraceSelection:
    """Part of a trace and how to scale it; None takes what the file has where that leaves no choice."""

    model: str | None = None
    tenant: str | None = None
    day: int | None = None
    """First day wanted, 0 is the file's first."""
    days: int = 1
    """How many consecutive days from `day` on; meaningless without `day`."""
    rate_rps: float | None = None
    """Mean of the selected part in requests/s after scaling; None leaves the published rate."""
    seed: int = 0
    """Seed of what is drawn; recordings draw nothing."""

    def __post_init__(self) -> None:
        if self.rate_rps is not None and not (math.isfinite(self.rate_rps) and self.rate_rps > 0):
            raise InputError(f"trace selection: rate is {self.rate_rps}; it must be a positive number of requests/s")
        if self.day is not None and self.day < 0:
            raise InputError(f"trace selection: day is {self.day}; it must be 0 or more")
        if self.days < 1:
            raise InputError(f"trace selection: days is {self.days}; it must be 1 or more")
        if self.seed < 0:
            raise InputError(f"trace selection: seed is {self.seed}; it must be 0 or more")

    def describe(self) -> str:
        """The selection as the fragment that `split_trace` reads back; empty when everything is taken."""
        parts = [
            f"{key}={value}"
            for key, value in (
                ("model", self.model),
                ("tenant", self.tenant),
                ("day", self.day),
                ("days", self.days if self.days > 1 else None),
                ("rate", None if self.rate_rps is None else str(self.rate_rps).removesuffix(".0")),
            )
            if value is not None
        ]
        return "#" + "&".join(parts) if parts else ""


def split_trace(argument: str, *, seed: int = 0) -> tuple[Path, TraceSelection]:
    """The file and the selection of a command-line argument of the form `TRACE_FORM`; a `seed=` in it beats `seed`.

    Raises InputError naming the part of the argument that cannot be read.
    """
    name, _, fragment = argument.partition("#")
    given: dict[str, str] = {}
    for part in filter(None, fragment.split("&")):
        key, _, value = part.partition("=")
        if key not in {"model", "tenant", "day", "days", "rate", "seed"} or not value or key in given:
            raise InputError(f"--trace {argument}: {part!r} cannot be used; the form is {TRACE_FORM}")
        given[key] = value
    try:
        selection = TraceSelection(
            model=given.get("model"),
            tenant=given.get("tenant"),
            day=int(given["day"]) if "day" in given else None,
            days=int(given.get("days", "1")),
            rate_rps=float(given["rate"]) if "rate" in given else None,
            seed=int(given.get("seed", str(seed))),
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"--trace {argument}: {error}; the form is {TRACE_FORM}") from error
    return Path(name), selection


def listed(names: Sequence[str]) -> str:
    """The names as a person reads them in an error: the first dozen, then how many more."""
    shown = 12
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")
