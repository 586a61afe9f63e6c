"""What the recorded runs on a real control plane share: how one is begun, how its failures end, and what is kept.

Enters: a check of the arguments and the run itself. Leaves: the run's record or an exit code, and the record as JSON.
It knows nothing of what is recorded.
"""

import argparse
import json
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from autoscaler.cli.output import check_writable, write_together
from autoscaler.errors import HeadroomError, InputError
from loadtests.bench.machine import machine
from tests.real import parts

Say = Callable[[str], None]
"""Takes a line of progress."""

T = TypeVar("T")


def parser(name: str, words: str | None) -> argparse.ArgumentParser:
    """The arguments of `loadtests NAME` that every such run has."""
    made = argparse.ArgumentParser(prog=f"loadtests {name}", allow_abbrev=False, description=words)
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    return made


def check(given: argparse.Namespace, needed: tuple[str, ...]) -> None:
    """InputError where the record cannot be written, or one of the `needed` parts is not built."""
    check_writable([given.json] if given.json is not None else [])
    lacking = parts.missing(needed)
    if lacking is not None:
        raise InputError(lacking)


def recorded(name: str, checked: Callable[[], None], run: Callable[[Path, Say], T]) -> T | int:
    """What `run` made of a folder of its own, or the exit code where it came to nothing.

    2 where the arguments or this machine do not allow it, 1 where what should have come did not.
    """
    try:
        checked()
        with tempfile.TemporaryDirectory(prefix=f"headroom-{name}-") as folder:
            return run(Path(folder), lambda words: print(words, file=sys.stderr, flush=True))
    except HeadroomError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except AssertionError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def keep(path: Path | None, name: str, arguments: list[str], told: dict[str, Any]) -> None:
    """Write `told` as JSON beside the command and the machine; nothing without a path."""
    if path is None:
        return
    command = shlex.join(["python3", "dev.py", "loadtests", name, *arguments])
    whole = {"loadtest": name, "command": command, "machine": machine(), **told}
    write_together({path: json.dumps(whole, indent=1, allow_nan=False) + "\n"})
