"""Recorded audit files as what a replay needs: beginnings, memories and looks, in order, and every line amiss.

Enters: files or folders, plain or compressed. Leaves: entries as they are asked for; what could not be used is kept in
words with file and line, and never raises. Files that were rotated are put in order by their numbers, and a number that
is missing is named.
"""

import gzip
import os
import re
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from autoscaler.api.lines import Line, read_again, read_head
from autoscaler.core import recall
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.reasons import Reason
from autoscaler.core.recall import Memory
from autoscaler.core.state import Table
from autoscaler.errors import InputError
from autoscaler.hindsight.files import is_audit, missing_numbers, ordered
from autoscaler.record import fits, inputs, memories, starts
from autoscaler.record.fits import Fit
from autoscaler.record.memories import Kept
from autoscaler.record.starts import Start
from autoscaler.runtime.fit_wire import unpack_answer

MOST_TOLD: Final = 20
"""Bad lines told in full; of those beyond it the number is told."""

AHEAD_S: Final = float("inf")
"""How far a start may be ahead of its look: a look is of the instant of its metrics, and replicas are heard of after
that. Without a limit, as the live core has none: what it decided on is replayed, whatever it was."""

_START: Final = msgspec.json.Decoder(Start)
_FIT: Final = msgspec.json.Decoder(Fit)
_KEPT: Final = msgspec.json.Decoder(Kept)
_READINGS: Final = re.compile(rb'\s*\{.*"replicas"\s*:\s*(\{|null)', re.DOTALL)
_OF_DECIDE: Final = (
    "readings, as `headroom decide` reads them; give the audit files of `headroom run` (settings: audit.directory), "
    'whose inputs begin {"kind":"inputs". To decide on this file: headroom decide --jsonl < FILE'
)
_ROWS: Final = Table.empty(1)
"""What columns a memory must have."""


class Said(msgspec.Struct, frozen=True, gc=False):
    """What a recorded decision came to, for whoever compares."""

    now_s: float
    workload: str
    replicas: int
    reason: str
    seen_replicas: int | None = None
    verdict: str = "HOLD"


_SAID: Final = msgspec.json.Decoder(Said)


@dataclass(frozen=True, slots=True)
class Begun:
    """A workload's memory as a driver took it up."""

    start: Start
    where: str

    @property
    def workload(self) -> str:
        """Whose it is."""
        return self.start.workload


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model that a workload got here."""

    workload: str
    model: FittedModel


@dataclass(frozen=True, slots=True)
class Marked:
    """All that a workload's row held right after the look before it."""

    workload: str
    now_s: float
    memory: Memory
    fitted: FittedModel | None
    coming: FittedModel | None
    where: str


class Looked(msgspec.Struct, frozen=True):
    """One step: its inputs, and the decision that followed, None where the record ends before it."""

    line: Line
    said: Said | None
    decision: bytes
    """The decision's line as it was written, empty where there is none."""
    where: str

    @property
    def workload(self) -> str:
        """Whose it is."""
        return self.line.workload


class Written(msgspec.Struct, frozen=True, gc=False):
    """A look that was checked and waits for its turn as it was written, to be read by the process that steps it."""

    now_s: float
    workload: str
    policy_json: bytes | None
    """The policy as written; None where it, or the count of replicas, is missing, so that nothing can be decided."""
    text: bytes
    """The inputs' line."""
    where: str
    said: Said | None = None
    decision: bytes = b""

    def looked(self) -> Looked:
        """The look, read."""
        return Looked(read_again(self.text, ahead_s=AHEAD_S), self.said, self.decision, self.where)


Entry = Begun | Fitted | Marked | Looked
Unread = Begun | Fitted | Marked | Written
_Part = Unread | tuple[Said, bytes, str]


@dataclass(slots=True)
class Recording:
    """The entries of some files. `faults`, `gaps` and `outdated` are complete once all entries were read."""

    paths: tuple[Path, ...]
    faults: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    lines: int = 0
    bad: int = 0
    outdated: int = 0
    """Decisions on readings that were too old to use: they have no inputs and changed nothing."""
    alone: int = 0
    """Decisions whose inputs are not in the record."""
    _policies: dict[bytes, bytes] = field(default_factory=dict)
    """Each once: they come with every look."""
    _size_bytes: int = 0
    """Of all files, as they lie on the disk."""
    _passed_bytes: int = 0
    """Of files that were read to their end."""
    _reading: BinaryIO | None = None
    """The file that is read at present, as it lies on the disk; None where it cannot say how far it was read."""

    @classmethod
    def of(cls, given: Sequence[Path]) -> "Recording":
        """The recording in files, and in all audit files of folders. Raises InputError where there is none."""
        found: list[Path] = []
        for path in given:
            try:
                inside = sorted(p for p in path.iterdir() if is_audit(p)) if path.is_dir() else [path]
            except OSError as error:
                raise InputError(f"{path}: {error.strerror}; give audit files that can be read") from error
            if not inside:
                raise InputError(f"{path}: no audit file (audit-000000000001.jsonl, .gz) in this folder")
            found += inside
        recording = cls(tuple(ordered(found)))
        recording._size_bytes = sum(path.stat().st_size for path in recording.paths if path.exists())
        recording.gaps += missing_numbers(recording.paths)
        return recording

    def entries(self) -> Iterator[Entry]:
        """Beginnings, models, memories and looks in order. Raises InputError for a file that cannot be opened."""
        for entry in self.unread():
            yield entry.looked() if isinstance(entry, Written) else entry

    def unread(self) -> Iterator[Unread]:
        """The same, with looks that are checked and not read."""
        waiting: Written | None = None
        for read in self._parts():
            if isinstance(read, Written):
                if waiting is not None:
                    yield waiting
                waiting = read
                continue
            if isinstance(read, Begun | Fitted | Marked):
                if waiting is not None:
                    yield waiting
                waiting = None
                yield read
                continue
            said, text, where = read
            if waiting is not None and (said.workload, said.now_s) == (waiting.workload, waiting.now_s):
                yield Written(waiting.now_s, waiting.workload, waiting.policy_json, waiting.text, where, said, text)
                waiting = None
            elif said.reason == Reason.OUTDATED.name:
                self.outdated += 1
            else:
                self.alone += 1
        if waiting is not None:
            yield waiting

    @property
    def read_ratio(self) -> float:
        """Share (0..1) of the files' bytes that was read so far; 0 where their size is not known."""
        read_bytes = self._passed_bytes + (0 if self._reading is None else self._reading.tell())
        return min(1.0, read_bytes / self._size_bytes) if self._size_bytes else 0.0

    def _parts(self) -> Iterator[_Part]:
        for path in self.paths:
            number, name = 0, path.name
            try:
                with path.open("rb") as stored, gzip.open(stored) if path.suffix == ".gz" else stored as lines:
                    self._reading = stored if stored.seekable() else None
                    size_bytes = os.fstat(stored.fileno()).st_size
                    for number, text in enumerate(lines, 1):
                        self.lines += 1
                        try:
                            yield self._part(text, f"{name}: line {number}")
                        except (InputError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                            if text.endswith(b"\n"):
                                self.bad_line(f"{path}: line {number}: {error}")
                            else:
                                self.gaps.append(f"{path.name} ends in the middle of line {number}")
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                self.bad_line(f"{path}: after line {number}: not a whole gzip file: {error}")
            except OSError as error:
                raise InputError(f"{path}: {error.strerror}; give audit files that can be read") from error
            self._reading, self._passed_bytes = None, self._passed_bytes + size_bytes

    def _part(self, text: bytes, where: str) -> _Part:
        if text.startswith(inputs.PREFIX):
            return self._written(text, where)
        if text.startswith(starts.PREFIX):
            start = _START.decode(text)
            if start.version != starts.VERSION:
                raise InputError(f"version: {start.version} is not known; this build reads {starts.VERSION}")
            return Begun(start, where)
        if text.startswith(fits.PREFIX):
            return _fitted(_FIT.decode(text))
        if text.startswith(memories.PREFIX):
            return _marked(_KEPT.decode(text), where)
        try:
            return _SAID.decode(text), text.rstrip(b"\n"), where
        except msgspec.ValidationError:
            if _READINGS.match(text):
                raise InputError(_OF_DECIDE) from None
            raise

    def _written(self, text: bytes, where: str) -> Written:
        head = read_head(text, ahead_s=AHEAD_S)
        policy = head.policy_json if head.counted else None
        if policy is not None:
            policy = self._policies.setdefault(policy, policy)
        return Written(float(head.now_s), sys.intern(head.workload), policy, text, where)

    def bad_line(self, words: str) -> None:
        """Note a line that cannot be used, in words that name it."""
        self.bad += 1
        if self.bad <= MOST_TOLD:
            self.faults.append(words)


def _fitted(fit: Fit) -> Fitted:
    if fit.version != fits.VERSION:
        raise InputError(f"version: {fit.version} is not known; this build reads {fits.VERSION}")
    return Fitted(fit.workload, _model(fit.model))


def _marked(kept: Kept, where: str) -> Marked:
    if kept.version != memories.VERSION:
        raise InputError(f"version: {kept.version} is not known; this build reads {memories.VERSION}")
    try:
        memory = recall.completed(_ROWS, memories.unpacked(kept.memory))
        recall.check(_ROWS, memory)
    except ValueError as error:
        raise InputError(f"memory: {error}") from error
    fitted, coming = (None if packed is None else _model(packed) for packed in (kept.fitted, kept.coming))
    return Marked(kept.workload, kept.now_s, memory, fitted, coming, where)


def _model(packed: bytes) -> FittedModel:
    try:
        model = unpack_answer(packed)
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"model: {type(error).__name__}: {error}") from error
    if isinstance(model, str):
        raise InputError(f"model: it holds an error in place of one: {model}")
    return model
