"""The files of a recording: which belong to an audit, in which order, and which are missing between them.

Enters: paths. Leaves: the same paths in the order of what they hold, and words for numbers that are missing. Nothing
of a file is read but its first instant.
"""

import gzip
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_ROTATED: Final = re.compile(r"(?P<name>.+)-(?P<number>\d{12})\.jsonl(\.gz)?")
_INSTANT: Final = re.compile(rb'"now_s":(-?[0-9.]+(?:[eE][-+]?[0-9]+)?)')


def is_audit(path: Path) -> bool:
    """Whether this is a file of an audit folder by its name."""
    found = _ROTATED.fullmatch(path.name)
    return found is not None and found["name"] == "audit"


def ordered(paths: Sequence[Path]) -> list[Path]:
    """Rotated files of one folder and name by their numbers; folders, as of two replicas, by their first instant."""
    groups: dict[tuple[Path, str], list[tuple[int, Path]]] = {}
    for path in dict.fromkeys(paths):
        found = _ROTATED.fullmatch(path.name)
        key = (path.parent, found["name"]) if found is not None else (path, "")
        groups.setdefault(key, []).append((int(found["number"]) if found is not None else 0, path))
    in_time = sorted((sorted(group) for group in groups.values()), key=lambda group: _first_s(group[0][1]))
    return [path for group in in_time for _, path in group]


def _first_s(path: Path) -> float:
    """The first instant in a file; where there is none to be read, the file stands first, and is told of there.

    Of a pipe nothing is read here: it would be missing where all of it is read.
    """
    if not path.is_file():
        return -math.inf
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            found = _INSTANT.search(lines.readline())
    except (OSError, EOFError, zlib.error):
        return -math.inf
    return -math.inf if found is None else float(found[1])


def missing_numbers(paths: Sequence[Path]) -> Iterator[str]:
    """Words for every gap in the numbers of files that follow each other."""
    last: tuple[Path, str, int] | None = None
    for path in paths:
        found = _ROTATED.fullmatch(path.name)
        if found is None:
            continue
        number = int(found["number"])
        if last is not None and last[:2] == (path.parent, found["name"]) and number > last[2] + 1:
            lost = number - last[2] - 1
            yield f"before {path.name} {'a file is' if lost == 1 else f'{lost} files are'} missing"
        last = (path.parent, found["name"], number)
