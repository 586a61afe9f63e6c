"""Parquet files as the same text table that CSV gives, so that every check and message is the same.

Needs pyarrow, which Headroom does not depend on: without it the reader refuses and says what to do. The line of a row
is its number, from 1. What it says fits where it runs: `dev.py` makes an environment without pip, by a uv of its own.
"""

import importlib
import importlib.util
import io
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from autoscaler.errors import InputError
from autoscaler.sim.traces.table import Table


def parse_parquet(path: Path, content: bytes) -> Table:
    """Every row of a Parquet file; an absent value is an empty text. InputError without pyarrow or if damaged."""
    if importlib.util.find_spec("pyarrow") is None:
        raise InputError(
            f"{path}: a Parquet file needs pyarrow: install it ({_install()}) or convert to CSV{_convert(path)}"
        )
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


def _install() -> str:
    """The command that adds pyarrow to this interpreter's environment."""
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is not None:
        return f"{python} -m pip install pyarrow"
    return f"{shlex.quote(_uv() or 'uv')} pip install --python {python} pyarrow"


def _convert(path: Path) -> str:
    """The command that writes the file as CSV without adding anything; empty where there is no uv."""
    uv = _uv()
    if uv is None:
        return ""
    code = f"import pyarrow.csv as c, pyarrow.parquet as p; c.write_csv(p.read_table({str(path)!r}), {f'{path}.csv'!r})"
    return f": {shlex.quote(uv)} run --no-project --with pyarrow python -c {shlex.quote(code)}"


def _uv() -> str | None:
    """The uv that dev.py keeps beside its environment, else one on the path."""
    own = sorted((Path(sys.prefix).parent / ".tools").glob("uv==*/bin/uv"))
    return str(own[-1]) if own else shutil.which("uv")
