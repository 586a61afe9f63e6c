"""Lines in rotated files of one folder: a record sink that leaves whole lines, whatever happens to disk or process.

Enters: lines. Leaves: `NAME-000000000042.jsonl`, the file being written, and older ones as `.jsonl.gz`; the number only
grows, so that names sort by age whatever the clock does. Two processes need two names or two folders.
A write is one step: where the disk is full or the folder gone, what was written of it is cut off again and a PortError
raised, for the writer to retry. A crash of the process loses nothing that was written and may tear the last line, which
is cut off at the next start. Only finished files are synced: a power cut may take the newest file's last half minute.
Size, measured on four hours of the simulator's workloads: at ten pods a step takes 3.9 kB (0.9 the decision, 2.9 its
inputs), 290 bytes a pod more; at 5 s per step that is 67 MB per workload and day, 3 MB once compressed. Memory lines
are 0.5 to 1.1 MB of a day more, and are packed already: 0.4 to 0.8 MB of them stay.
"""

import asyncio
import contextlib
import errno
import gzip
import os
import re
import shutil
import threading
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import Final, Self

from autoscaler.ports import Fault, PortError

MAX_BYTES: Final = 64_000_000
"""One file; ten workloads of ten pods fill it in two hours and a half."""

KEEP: Final = 64
"""Files, the one being written included: some 230 MB of disk, 280 with memory lines; six days of ten workloads of ten
pods."""

_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_TAIL_BYTES: Final = 65_536


class RotatedFiles:
    """A `RecordSink` and an asynchronous context manager; leaving it syncs the newest file.

    A batch of lines is never split: one that does not fit into `max_bytes` begins a file, and may fill more than that.
    The oldest of more than `keep` files are deleted. Disk work is done in a thread, one batch at a time. Raises
    ValueError unless both figures are positive.
    """

    def __init__(self, folder: Path, name: str, *, max_bytes: int = MAX_BYTES, keep: int = KEEP) -> None:
        if max_bytes < 1 or keep < 1:
            raise ValueError(f"max_bytes is {max_bytes} and keep {keep}; both must be positive")
        self._folder = folder
        self._name = name
        self._max_bytes = max_bytes
        self._keep = keep
        self._form = re.compile(rf"{re.escape(name)}-(\d{{12}})\.jsonl(\.gz)?")
        self._lock = threading.Lock()
        self._file: FileIO | None = None
        self._path = folder
        self._sound: tuple[Path, int] | None = None
        """The file whose last write failed, and how much of it stands."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._close)

    async def write(self, lines: Sequence[bytes]) -> None:
        """Append lines, in order. Raises PortError having written none of them: DENIED for rights, else UNAVAILABLE."""
        if lines:
            await asyncio.to_thread(self._append, b"\n".join(lines) + b"\n")

    def _append(self, text: bytes) -> None:
        with self._lock:
            try:
                file = self._open()
                if 0 < file.tell() > self._max_bytes - len(text):
                    file = self._rotate(file)
                _put(file, text)
            except OSError as error:
                self._give_up()
                fault = Fault.DENIED if error.errno in _DENIED else Fault.UNAVAILABLE
                raise PortError(fault, f"{self._folder}: {error.strerror}") from error

    def _open(self) -> FileIO:
        """The file to write to, at its end; a new one where the last was taken away."""
        if self._file is not None and _is_there(self._file, self._path):
            return self._file
        self._drop()
        files = self._files()
        if not files or files[-1].suffix == ".gz":
            return self._begin()
        self._path = files[-1]
        file = self._path.open("r+b", buffering=0)
        self._file = file
        _cut(file, self._sound[1] if self._sound is not None and self._sound[0] == self._path else None)
        self._sound = None
        return file

    def _begin(self) -> FileIO:
        files = self._files()
        number = 1 + (self._number(files[-1]) if files else 0)
        self._path = self._folder / f"{self._name}-{number:012d}.jsonl"
        self._file = self._path.open("xb", buffering=0)
        return self._file

    def _rotate(self, file: FileIO) -> FileIO:
        os.fsync(file.fileno())
        self._drop()
        begun = self._begin()
        for path in self._files()[: -self._keep]:
            path.unlink()
        for path in self._files()[:-1]:
            if path.suffix != ".gz":
                _compress(path)
        return begun

    def _files(self) -> list[Path]:
        """Our files, oldest first; of a file that stands there twice, plain and compressed, the compressed one last."""
        return sorted(path for path in self._folder.iterdir() if self._form.fullmatch(path.name))

    def _number(self, path: Path) -> int:
        found = self._form.fullmatch(path.name)
        assert found is not None
        return int(found[1])

    def _give_up(self) -> None:
        """Close what could not be written to; the next write looks at the folder afresh."""
        file = self._file
        if file is not None:
            self._sound = self._path, file.tell()
        with contextlib.suppress(OSError):
            self._drop()

    def _drop(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _close(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._file is not None:
                os.fsync(self._file.fileno())
            self._drop()


def _put(file: FileIO, text: bytes) -> None:
    """Write all of `text` or leave the file, and its position, as it was."""
    start, left = file.tell(), memoryview(text)
    try:
        while left:
            left = left[file.write(left) :]
    except OSError:
        file.seek(start)
        with contextlib.suppress(OSError):
            file.truncate()
        raise


def _is_there(file: FileIO, path: Path) -> bool:
    """Whether `path` still names the open file: what is written to a deleted one is lost."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _cut(file: FileIO, sound: int | None) -> None:
    """Cut the file to `sound` bytes, where that many stand, and to its last whole line; leave it at its end."""
    end = file.seek(0, os.SEEK_END)
    if sound is not None:
        end = min(end, sound)
    while end > 0:
        start = max(0, end - _TAIL_BYTES)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        end = start + newline + 1 if newline >= 0 else start
        if newline >= 0:
            break
    file.truncate(end)
    file.seek(end)


def _compress(path: Path) -> None:
    """Put `path.gz` in the place of `path`; where that fails the plain file stays, and is tried again in its turn."""
    part, done = path.with_suffix(".part"), path.with_suffix(".jsonl.gz")
    try:
        with path.open("rb") as plain, part.open("wb") as raw:
            with gzip.GzipFile(path.name, "wb", 6, raw, mtime=0) as packed:
                shutil.copyfileobj(plain, packed, 1 << 20)
            os.fsync(raw.fileno())
        part.replace(done)
        path.unlink()
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
