"""Recorded traffic as requests of the plant: ServeGen's rates per tenant, and Azure's single requests.

Enters: a trace file, gzipped CSV, read by column name. Leaves: `Requests`. InputError names file, line and column.
"""

import csv
import gzip
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from autoscaler.errors import InputError
from loadtests.loop.fleet import FloatArray, Requests, lognormal
from loadtests.loop.loads import ARRIVALS, STAYS, arrivals

WINDOW_S: Final = 600.0
"""Of ServeGen's rates."""
CV_RANGE: Final = (0.3, 8.0)
"""What the publisher's fits of gaps are held to."""
PROMPT_TOKENS_PER_S: Final = 10_000.0
"""How long one of Azure's requests stays in a slot, from its tokens: guesses, of a model on one recent GPU."""
OUTPUT_TOKENS_PER_S: Final = 1000.0 / 30.0

Row = tuple[int, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Rates:
    """Hours of a model of ServeGen, scaled to a mean need; each tenant is a Gamma renewal process of its own.

    A tenant's gaps have the mean of its published coefficients of variation, weighted by its requests.
    """

    path: Path
    model: str
    from_h: float
    need: float
    """Replicas busy on average."""
    stay_s: float
    stay_cv: float = 0.5

    def requests(self, for_s: int, slots: int, seed: int) -> Requests:
        """Those of the first `for_s` seconds after `from_h`, where a replica has so many slots."""
        first, count = round(self.from_h * 3600.0 / WINDOW_S), math.ceil(for_s / WINDOW_S)
        counted: dict[str, FloatArray] = defaultdict(lambda: np.zeros(count))
        spread: dict[str, float] = defaultdict(float)
        for line, row in _rows(self.path, ("window_s", "model", "tenant", "requests", "cv")):
            if row["model"] != self.model:
                continue
            window = round(_number(self.path, line, row, "window_s") / WINDOW_S) - first
            if 0 <= window < count:
                came = _number(self.path, line, row, "requests")
                counted[row["tenant"]][window] += came
                spread[row["tenant"]] += came * _number(self.path, line, row, "cv")
        total = float(sum(each.sum() for each in counted.values()))
        if not total:
            raise InputError(f"{self.path}: no requests of model {self.model!r} from hour {self.from_h:g} on")
        scale = self.need * slots / self.stay_s * count / total
        rng = np.random.default_rng([seed, ARRIVALS])
        drawn = [
            arrivals(rng, counted[tenant] * scale, WINDOW_S, float(np.clip(spread[tenant] / came, *CV_RANGE)))
            for tenant in sorted(counted)
            if (came := float(counted[tenant].sum()))
        ]
        at_s = np.sort(np.concatenate(drawn))
        at_s = at_s[at_s < for_s]
        return Requests(at_s, lognormal(np.random.default_rng([seed, STAYS]), self.stay_s, self.stay_cv, at_s.size))


@dataclass(frozen=True, slots=True)
class Instants:
    """Azure's requests at their recorded instants, each as long in a slot as its tokens take; no seed changes them."""

    path: Path

    def requests(self, for_s: int, slots: int, seed: int) -> Requests:
        """Those of the first `for_s` seconds."""
        names = ("arrival_s", "prompt_tokens", "output_tokens")
        told = [tuple(_number(self.path, line, row, name) for name in names) for line, row in _rows(self.path, names)]
        if not told:
            raise InputError(f"{self.path}: it holds no requests")
        at_s, prompt, output = np.array(told, dtype=np.float64).T
        stay_s = prompt / PROMPT_TOKENS_PER_S + output / OUTPUT_TOKENS_PER_S
        order = np.argsort(at_s, kind="stable")
        order = order[at_s[order] < for_s]
        return Requests(at_s[order], np.maximum(stay_s[order], 1e-3))


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    try:
        with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            lacking = [name for name in columns if name not in (rows.fieldnames or ())]
            if lacking:
                raise InputError(f"{path}: no column {', '.join(lacking)}; it has {', '.join(rows.fieldnames or ())}")
            for row in rows:
                yield rows.line_num, row
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read as gzipped CSV ({error})") from error


def _number(path: Path, line: int, row: dict[str, str], column: str) -> float:
    try:
        value = float(row[column])
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0.0):
        raise InputError(f"{path}, line {line}: {column} is {row[column]!r}; it must be a number from 0 on")
    return value
