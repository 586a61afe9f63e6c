"""Request lengths of ServeGen clients, drawn from the published percentiles.

Enters: the table of token percentiles beside a rate table (per client, 6-h block and field). Leaves: prompt and
output tokens per request. A client or block without a histogram takes the mean curve of its model, block by block,
then overall; prompt and output are drawn independently, as their joint law is not published.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autoscaler.sim.traces.table import Table, checked, parse_csv, read_bytes
from autoscaler.sim.traffic import FloatArray

_PERCENTILES = (("p1", 0.01), ("p5", 0.05), ("p10", 0.10), ("p25", 0.25), ("p50", 0.50), ("p75", 0.75), ("p90", 0.90),
                ("p95", 0.95), ("p99", 0.99), ("max", 1.0))  # fmt: skip
_LEVELS = np.array([0.0, *(level for _, level in _PERCENTILES)])
_FIELDS = ("input_tokens", "output_tokens")
_BLOCK_S = 21_600.0


@dataclass(frozen=True, slots=True)
class ClientLengths:
    """Quantile curves, each of shape (11,) at levels 0, .01, …, 1, by (field, client, block); "" stands for all."""

    curves: dict[tuple[str, str, int], FloatArray]

    def draw(self, client: str, at_s: FloatArray, stream: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Prompt and output tokens of requests arriving `at_s` (seconds of the file), whole and at least 1."""
        blocks = (at_s / _BLOCK_S).astype(np.int64)
        prompt, output = (self._field(field, client, blocks, stream) for field in _FIELDS)
        return prompt, output

    def _field(self, field: str, client: str, blocks: npt.NDArray[np.int64], stream: np.random.Generator) -> FloatArray:
        levels = stream.random(blocks.size)
        tokens = np.empty(blocks.size)
        for block in np.unique(blocks):
            keys = ((field, client, int(block)), (field, "", int(block)), (field, "", -1))
            curve = next(self.curves[key] for key in keys if key in self.curves)
            here = blocks == block
            tokens[here] = np.interp(levels[here], _LEVELS, curve)
        return np.maximum(1.0, np.rint(tokens))


def client_lengths(rates_path: Path, model: str) -> ClientLengths | None:
    """The curves of one model from the token table beside `rates_path`; None where none lies there or fits."""
    for suffix in (".csv.gz", ".csv"):
        path = rates_path.with_name(rates_path.name.split(".")[0].replace("rates", "tokens") + suffix)
        if "rates" in rates_path.name and path.is_file():
            table = parse_csv(path, checked(path, read_bytes(path)))
            return _curves(table, model)
    return None


def _curves(table: Table, model: str) -> ClientLengths | None:
    names = [name for name, _ in _PERCENTILES]
    table.require(("block_s", "model", "tenant", "field", *names), ("mean",), "a ServeGen token table")
    values = np.column_stack([table.numbers(name) for name in ("block_s", "p1", *names)])
    curves: dict[tuple[str, str, int], FloatArray] = {}
    shared: dict[tuple[str, str, int], list[FloatArray]] = {}
    for row, name in enumerate(table.columns["model"]):
        if name != model:
            continue
        field, block = table.columns["field"][row], int(values[row, 0] // _BLOCK_S)
        # A histogram of few requests may report percentiles a hair out of order; a quantile curve must not fall.
        curve = np.maximum.accumulate(values[row, 1:])
        curves[field, table.columns["tenant"][row], block] = curve
        for key in ((field, "", block), (field, "", -1)):
            shared.setdefault(key, []).append(curve)
    curves.update({key: np.mean(rows, axis=0) for key, rows in shared.items()})
    return ClientLengths(curves) if all((field, "", -1) in curves for field in _FIELDS) else None
