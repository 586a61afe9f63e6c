"""What was measured of each row, kept beside the code, and the table made of it.

Enters: a record's file, and new measurements. Leaves: the file, and Markdown between two marks of another. A row that
was not measured today keeps its date; what others spoilt is not kept.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from autoscaler.cli.output import write_together
from autoscaler.errors import InputError
from loadtests.bench.rows import Figure, Row

MARKS: Final = ("<!-- figures: written by `python3 dev.py bench all` -->", "<!-- figures: end -->")
RECORD: Final = Path(__file__).with_name("measured.json")
HEAD: Final = "| what | figure | target | measured | on | others used | command, seed |\n" + 7 * "|---" + "|\n"


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row as it was measured."""

    row: str
    date: str
    """Of the day, as 2026-11-22."""
    machine: str
    command: str
    figures: dict[str, float]
    """By the figures' names."""
    seed: int | None = None
    """The first one; None where nothing is drawn."""
    others_cores: float | None = None
    """Cores that others used meanwhile; None where that was not noted."""
    load_average: str | None = None
    """Where others' use was not noted."""


def read_record(path: Path = RECORD) -> dict[str, Measured]:
    """What was measured, by row. InputError where the file cannot be used; nothing where there is none."""
    if not path.exists():
        return {}
    try:
        rows = msgspec.json.decode(path.read_bytes(), type=list[Measured])
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{path}: no record of measurements ({error}); mend it or give another --record") from error
    return {each.row: each for each in rows}


def write_record(found: Mapping[str, Measured], rows: Sequence[Row], readme: Path | None, path: Path = RECORD) -> None:
    """Keep it, and put its table between the marks of `readme`; both or neither."""
    kept = [found[row.key] for row in rows if row.key in found]
    files = {path: msgspec.json.format(msgspec.json.encode(kept), indent=1).decode() + "\n"}
    if readme is not None:
        files[readme] = spliced(readme, table(found, rows))
    write_together(files)


def table(found: Mapping[str, Measured], rows: Sequence[Row]) -> str:
    """The table, one line for each figure; what is the same for all of a row stands in its first."""
    lines = [HEAD]
    for row in rows:
        measured = found.get(row.key)
        about = ["–", "–", f"`{asked(row)}`"] if measured is None else _about(measured)
        for number, figure in enumerate(row.figures):
            told = [figure.name, *_judged(figure, measured)]
            cells = [row.what, *told, *about] if number == 0 else ["", *told, "", "", ""]
            lines.append(f"| {' | '.join(cells)} |\n")
    return "".join(lines)


def spliced(path: Path, text: str) -> str:
    """The file with `text` between its marks. InputError where it lacks them."""
    begin, end = MARKS
    content = path.read_text(encoding="utf-8") if path.is_file() else ""
    if content.count(begin) != 1 or content.count(end) != 1:
        raise InputError(f"{path}: it needs the two lines {begin} and {end}, once each and in this order")
    head, rest = content.split(begin)
    return f"{head}{begin}\n{text}{end}{rest.split(end)[1]}"


def read_figures(row: Row, told: Any) -> dict[str, float]:
    """A row's figures out of its command's JSON. InputError naming the figure that is not there."""
    found = {}
    for figure in row.figures:
        try:
            found[figure.name] = round(float(figure.read(told)), 4)
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(f"{row.key}: its output has no {figure.name!r} ({error!r})") from error
    return found


def _judged(figure: Figure, measured: Measured | None) -> tuple[str, str]:
    """Target and value, bold where it misses or is not there."""
    target = f"{'≥' if figure.at_least else '≤'} {_short(figure.target, figure.unit)}"
    value = None if measured is None else measured.figures.get(figure.name)
    if value is None:
        return target, "**not measured**"
    text = _short(value, figure.unit)
    return target, text if figure.met(value) else f"**{text}**"


def _about(measured: Measured) -> list[str]:
    seed = "" if measured.seed is None else f", seed {measured.seed}"
    return [f"{measured.date}, {measured.machine}", _others(measured), f"`{measured.command}`{seed}"]


def asked(row: Row) -> str:
    """The command line of a row."""
    return " ".join(["python3 dev.py", "loadtests" if row.loadtest else "bench", row.name, *row.arguments])


def _others(measured: Measured) -> str:
    if measured.others_cores is not None:
        return f"{measured.others_cores:.2f} cores"
    if measured.load_average is not None:
        return f"not noted; load average {measured.load_average}"
    return "not noted"


def _short(value: float, unit: str) -> str:
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.4g}" if size >= 1 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()
