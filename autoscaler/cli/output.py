"""Files that appear whole or not at all: a reader never sees half of one, and a failed run leaves nothing behind.

A pipe or a device is written to as it is: a file in its place would cut off whoever reads there. A link stays, and what
it names is written; a file keeps its rights.
"""

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import typer

from autoscaler.cli.stdout import STDOUT
from autoscaler.errors import HeadroomError, InputError

INTERRUPTED: Final = 130
"""What a shell's own commands end with after Ctrl-C."""


def check_writable(paths: Sequence[Path], *, read: Iterable[Path | str | None] = ()) -> None:
    """InputError for a path that is a folder, write-protected, given twice, where standard output goes, or `-`, for one
    whose folder is missing or cannot be written to, and for one of the files `read`, which it would replace.

    What is read may be written with a part after `#`, as traces are.
    """
    inputs = {os.path.realpath(str(name).partition("#")[0]) for name in read if name is not None}
    real = [os.path.realpath(path) for path in paths]
    for index, path in enumerate(paths):
        if str(path) == "-":
            raise InputError("-: this output cannot go to standard output; give the name of a file")
        if real[index] in real[:index]:
            raise InputError(f"{path}: asked for twice; give every output a file of its own")
        if real[index] in inputs:
            raise InputError(f"{path}: it is read and would be replaced; give every output a file of its own")
        folder = path.parent
        try:
            folder = _written(path).parent
            if path.is_dir():
                raise InputError(f"{path}: it is a folder; give the name of a file")
            if path.exists() and not os.access(path, os.W_OK, effective_ids=True):
                raise InputError(f"{path}: it is write-protected; give another file, or allow writing to it")
            if _is_special(path):
                continue
            if _is_stdout(path):
                raise InputError(f"{path}: standard output goes there; give a file of its own")
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise InputError(
                f"{path}: cannot be written ({error.strerror}: {folder}); give a file in a folder you may write to"
            ) from error


def check_folder(folder: Path, names: Iterable[str]) -> None:
    """InputError where `folder` is none, cannot be made or cannot hold files of these names; nothing is made yet."""
    standing = folder
    try:
        if folder.is_dir():
            check_writable([folder / name for name in names])
            return
        standing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=standing):
            pass
    except OSError as error:
        raise InputError(
            f"--out {folder}: cannot be made ({error.strerror}: {standing}); give a folder you may write to"
        ) from error


@contextmanager
def folder_for(folder: Path) -> Iterator[None]:
    """The folder, made with its parents; those made that are empty in the end are gone again, as on a full disk."""
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        with suppress(OSError):  # one that holds something stays, and so do those around it
            for path in made:
                path.rmdir()


@contextmanager
def interruptible() -> Iterator[None]:
    """Work before anything is written: Ctrl-C ends the command with a line that says so, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its name once the block ends without an error; a pipe or a device itself.

    Raises HeadroomError where the system refuses to write it, as on a full disk.
    """
    name = None
    try:
        if _is_special(path):
            with path.open("wb") as file:
                yield file
            return
        target = _written(path)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        Path(name).replace(target)
    except OSError as error:
        raise HeadroomError(
            f"{path}: was not written ({error.strerror}); make room, or give a file elsewhere"
        ) from error
    finally:
        if name is not None:
            Path(name).unlink(missing_ok=True)


def write_together(files: Mapping[Path, str]) -> None:
    """Write all, then give all their names: an error in the writing of one leaves none behind."""
    if not files:
        return
    (path, text), rest = next(iter(files.items())), dict(list(files.items())[1:])
    with write_atomically(path) as file:
        file.write(text.encode())
        write_together(rest)


def _written(path: Path) -> Path:
    """What is replaced: where `path` is a link, the file that it names, there or not."""
    return path.resolve() if path.is_symlink() else path


def _is_special(path: Path) -> bool:
    """It is there and neither a file nor a folder: a pipe, a terminal, a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _is_stdout(path: Path) -> bool:
    """Replacing it would lose what is printed: standard output was sent into this very file."""
    if sys.stdout is None or not path.exists():
        return False
    return os.path.samestat(path.stat(), os.fstat(STDOUT))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
