"""Answers that were paid for, kept on disk so that a run which is cut asks for none of them again.

Enters: what was asked (endpoint, query, instants) and the rows it was answered with. Leaves: the same rows. A file is
named by the hash of what was asked and carries that hash and one of its content; one that is torn, of another
question or of another version is as good as absent. Files appear whole or not at all.
"""

import hashlib
import os
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from autoscaler.core.columns import F64
from autoscaler.errors import InputError

_MAGIC: Final = b"headroom past 1\n"
_SUFFIX: Final = ".past"
_DIVIDED: Final = ".halves"
_UNFINISHED: Final = ".new-"
_FAST: Final = 1
"""zlib's level: a higher one takes longer than asking again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One question to one server: a query at `points` instants from `first_s` on."""

    url: str
    query: str
    first_s: int
    step_s: int
    points: int

    @property
    def last_s(self) -> int:
        """The last instant, which is included."""
        return self.first_s + (self.points - 1) * self.step_s

    def digest(self) -> str:
        """What no other question has."""
        text = msgspec.json.encode([self.url, self.query, self.first_s, self.step_s, self.points])
        return hashlib.sha256(text).hexdigest()


@dataclass(frozen=True, slots=True)
class Rows:
    """The answer: labels of each series, and values of shape (series, points), NaN where there was none."""

    labels: tuple[dict[str, str], ...]
    values: F64


class _Head(msgspec.Struct, frozen=True):
    asked: str
    labels: tuple[dict[str, str], ...]
    points: int


class Chunks:
    """The files of one folder. Raises InputError where the folder cannot be made or written to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._used: set[Path] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made ({error.strerror}); name a folder you may write to") from error

    def load(self, asked: Asked) -> Rows | None:
        """The kept answer; None where there is none that is whole."""
        try:
            text = self._path(asked).read_bytes()
        except OSError:
            return None
        seal, _, content = text.removeprefix(_MAGIC).partition(b"\n")
        if not text.startswith(_MAGIC) or seal != _sealed(content):
            return None
        head_text, _, packed = content.partition(b"\n")
        head = msgspec.json.decode(head_text, type=_Head)
        if head.asked != asked.digest():
            return None
        values = np.frombuffer(zlib.decompress(packed), dtype="<f8")
        self._used.add(self._path(asked))
        return Rows(head.labels, values.reshape(len(head.labels), head.points).astype(np.float64))

    def divide(self, asked: Asked) -> None:
        """Note that a question was too much and is answered in halves. Raises InputError."""
        replace_file(self._path(asked, _DIVIDED), b"")
        self._used.add(self._path(asked, _DIVIDED))

    def is_divided(self, asked: Asked) -> bool:
        """Whether it was noted."""
        path = self._path(asked, _DIVIDED)
        found = path.exists()
        if found:
            self._used.add(path)
        return found

    def save(self, asked: Asked, rows: Rows) -> None:
        """Keep an answer. Raises InputError when the disk does not take it."""
        packed = zlib.compress(np.ascontiguousarray(rows.values, dtype="<f8").tobytes(), _FAST)
        content = msgspec.json.encode(_Head(asked.digest(), rows.labels, asked.points)) + b"\n" + packed
        replace_file(self._path(asked), _MAGIC + _sealed(content) + b"\n" + content)
        self._used.add(self._path(asked))

    def forget_others(self) -> None:
        """Delete what neither was asked for nor kept since this was made: parts of windows that are over."""
        for form in (f"*{_SUFFIX}", f"*{_DIVIDED}", f"{_UNFINISHED}*"):
            for path in self._folder.glob(form):
                if path not in self._used:
                    path.unlink(missing_ok=True)

    def _path(self, asked: Asked, suffix: str = _SUFFIX) -> Path:
        return self._folder / f"{asked.digest()[:32]}{suffix}"


def _sealed(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all. Raises InputError."""
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=_UNFINISHED)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError as error:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        raise InputError(f"{path.parent}: {error.strerror}; make room, or name another folder") from error
