"""Parquet files as the same text table that CSV gives, so that every check and message is the same.

Needs pyarrow, which Headroom does not depend on: without it the reader refuses and says what to do. The line of a row
is its number, from 1.
"""

import importlib
import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path

from autoscaler.errors import InputError
from autoscaler.sim.traces.table import Table


def parse_parquet(path: Path, content: bytes) -> Table:
    """Every row of a Parquet file; an absent value is an empty text. InputError without pyarrow or if damaged."""
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError(f"{path}: a Parquet file needs pyarrow: install it (pip install pyarrow) or convert to CSV")
    reader, trouble = importlib.import_module("pyarrow.parquet"), importlib.import_module("pyarrow").ArrowException
    try:
        stored = reader.read_table(io.BytesIO(content))
        columns: dict[str, Sequence[str]] = {
            name: ["" if text is None else text for text in stored.column(name).cast("string").to_pylist()]
            for name in stored.column_names
        }
    except (trouble, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({error}); write it again") from error
    return Table(path=path, columns=columns, lines=range(1, stored.num_rows + 1))
