"""Files that appear whole or not at all: a reader never sees half of one, and a failed run leaves nothing behind."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import typer

from autoscaler.errors import HeadroomError, InputError

INTERRUPTED: Final = 130
"""What a shell's own commands end with after Ctrl-C."""


def check_writable(paths: Sequence[Path]) -> None:
    """InputError for a path whose folder is missing or cannot be written to, that is a folder, given twice, or `-`."""
    for index, path in enumerate(paths):
        if str(path) == "-":
            raise InputError("-: this output cannot go to standard output; give the name of a file")
        if path in paths[:index]:
            raise InputError(f"{path}: asked for twice; give every output a file of its own")
        try:
            if path.is_dir():
                raise InputError(f"{path}: it is a folder; give the name of a file")
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise InputError(
                f"{path}: cannot be written ({error.strerror}: {path.parent}); give a file in a folder you may write to"
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
def interruptible() -> Iterator[None]:
    """Work before anything is written: Ctrl-C ends the command with a line that says so, and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its name once the block ends without an error.

    Raises HeadroomError where the system refuses to write it, as on a full disk.
    """
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
