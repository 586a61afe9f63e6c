"""A trace file as named columns of text, whole or not at all.

Enters: a path. Leaves: a `Table`, or an InputError naming file, line, field and value. Gzip is told by its magic
bytes, never by the file's name. It knows nothing of what a column means. Ten million rows fit in memory: text is read
line by line from the file's bytes, and columns are kept as `Texts`.
"""

import codecs
import csv
import gzip
import io
import re
import zlib
from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autoscaler.errors import InputError
from autoscaler.sim.traces.texts import Texts
from autoscaler.sim.traffic import FloatArray

GZIP_MAGIC = b"\x1f\x8b"
PARQUET_MAGIC = b"PAR1"
_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d")
_BLOCK_ROWS = 1 << 11
"""Rows that stand in memory as lists of strings at a time. They fit a processor's cache: 32 times as many take twice
the time."""
_CHECKED_BYTES = 1 << 20
"""Bytes that are decoded at a time to see whether they are text."""


def bad_field(path: Path, line: int, field: str, value: object, problem: str) -> InputError:
    """The error for one value of one line; `problem` completes the sentence and says what is expected."""
    return InputError(f"{path}: line {line}, field {field}: {value!r} {problem}")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length with the line each row stood on (1 is the header of a CSV file)."""

    path: Path
    columns: dict[str, Sequence[str]]
    lines: Sequence[int]

    def require(self, required: Collection[str], optional: Collection[str], what: str) -> None:
        """InputError unless every required column is there, each other one is known, and there is a row at least."""
        missing = sorted(set(required) - set(self.columns))
        unknown = sorted(set(self.columns) - set(required) - set(optional))
        if unknown:
            known = [*required, *optional]
            meant = [name for name in known if name.casefold() == unknown[0].strip().casefold()]
            remedy = f"write {meant[0]!r}" if meant else "rename or remove the column"
            raise InputError(
                f"{self.path}: line 1: unknown column {unknown[0]!r}; {what} has {', '.join(known)}: {remedy}"
            )
        if missing:
            present = ", ".join(self.columns)
            raise InputError(f"{self.path}: line 1: no column {missing[0]!r}, which {what} needs; it has {present}")
        if not self.lines:
            raise InputError(f"{self.path}: line 2: no row follows the header; a trace needs at least one")

    def numbers(self, field: str, *, whole: bool = False) -> FloatArray:
        """The column as float64, shape (rows,): finite and not negative, whole numbers where `whole` is set.

        Never returns NaN or infinity, and an empty cell is an error, not a zero.
        """
        texts = self.columns[field]
        try:
            values = texts.numbers() if isinstance(texts, Texts) else np.array(texts, dtype=np.float64)
        except ValueError:
            raise self._first_unparsable(field, whole) from None
        wrong = ~(np.isfinite(values) & (values >= 0))
        if whole:
            wrong |= values != np.floor(values)
        if bool(wrong.any()):
            row = int(np.argmax(wrong))
            raise bad_field(self.path, self.lines[row], field, texts[row], _expected(float(values[row]), whole))
        return values

    def ascending(self, field: str, values: FloatArray) -> None:
        """InputError at the first row whose value lies before the row above it: time may not go backwards."""
        back = np.flatnonzero(np.diff(values) < 0)
        if back.size:
            row = int(back[0]) + 1
            raise bad_field(
                self.path, self.lines[row], field, self.columns[field][row],
                f"goes backwards: the row before has {self.columns[field][row - 1]!r}; sort the file by {field}",
            )  # fmt: skip

    def _first_unparsable(self, field: str, whole: bool) -> InputError:
        kind = "a whole number" if whole else "a number"
        for line, text in zip(self.lines, self.columns[field], strict=True):
            try:
                float(text)
            except ValueError:
                problem = "is empty" if not text.strip() else "is not a number"
                remedy = "; it is a date: write the seconds since the first request" if _DATE.match(text) else ""
                return bad_field(self.path, line, field, text, f"{problem}; it must be {kind}, 0 or more{remedy}")
        return InputError(f"{self.path}: field {field} cannot be read as numbers")


def _expected(value: float, whole: bool) -> str:
    if not np.isfinite(value):
        return "is not finite; remove the row or give a number"
    if value < 0:
        return "is negative; it must be 0 or more"
    assert whole
    return "is not whole; it must be a whole number, 0 or more"


def read_bytes(path: Path) -> bytes:
    """The file's content with gzip undone. InputError where it is missing, empty, truncated or damaged."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if content.startswith(GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{path}: truncated or damaged gzip ({error}); fetch the file again") from error
    if not content.removeprefix(codecs.BOM_UTF8).strip():
        raise InputError(f"{path}: line 1: the file is empty; a trace needs a header and at least one row")
    return content


def checked(path: Path, content: bytes) -> bytes:
    """The content, which is UTF-8 text; `lines_of` reads it. InputError where it is not text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for begin in range(0, len(content), _CHECKED_BYTES):
        end = min(begin + _CHECKED_BYTES, len(content))
        try:
            decoder.decode(content[begin:end], end == len(content))
        except UnicodeDecodeError as error:
            # What the decoder was given may begin with bytes of the block before.
            line = content.count(b"\n", 0, end - len(error.object) + error.start) + 1
            raise InputError(f"{path}: line {line}: not UTF-8 text; a trace is CSV, JSON lines or Parquet") from error
    nul = content.find(b"\0")
    if nul >= 0:
        line = content.count(b"\n", 0, nul) + 1
        raise InputError(f"{path}: line {line}: a NUL byte, so not text; a trace is CSV, JSON lines or Parquet")
    return content


def lines_of(content: bytes, newline: str = "") -> io.TextIOWrapper:
    """The lines of checked content, a leading byte-order mark dropped, with their ends as they stand."""
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline=newline)


def is_json(content: bytes) -> bool:
    """Whether the first thing in checked content opens a JSON object."""
    first = next((line for line in lines_of(content) if line.strip()), "")
    return first.lstrip().startswith("{")


def parse_header(path: Path, content: bytes) -> list[str]:
    """The column names of CSV content. InputError where the first line is not CSV or names a column twice."""
    try:
        header = next(csv.reader(lines_of(content)))
    except csv.Error as error:
        raise InputError(f"{path}: line 1: not CSV ({error})") from error
    if len(set(header)) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path}: line 1: column {twice!r} stands twice; keep one")
    return header


def parse_csv(path: Path, content: bytes) -> Table:
    """Every row of CSV content under its header, blank lines left out. InputError on a ragged row, a faulty header."""
    header = parse_header(path, content)
    columns = {name: Texts() for name in header}
    lines = array("q")
    for rows in _blocks(path, content, len(header), lines):
        for column, cells in zip(columns.values(), zip(*rows, strict=True), strict=True):
            column.append(cells)
    return Table(path=path, columns=dict(columns), lines=lines)


def _blocks(path: Path, content: bytes, width: int, lines: "array[int]") -> Iterator[list[list[str]]]:
    """The rows below the header in blocks; the line that each ends on is appended to `lines`."""
    reader = csv.reader(lines_of(content))
    rows: list[list[str]] = []
    try:
        next(reader)
        for row in reader:
            if not row:
                continue
            if len(row) != width:
                raise InputError(
                    f"{path}: line {reader.line_num}: {len(row)} fields where the header has {width}; "
                    "the line is cut off or not of this file"
                )
            rows.append(row)
            lines.append(reader.line_num)
            if len(rows) == _BLOCK_ROWS:
                yield rows
                rows = []
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: not CSV ({error})") from error
    if rows:
        yield rows
