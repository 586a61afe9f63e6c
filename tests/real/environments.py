"""Python programs of others that suites and load tests start on loopback, each with an environment of its own.

Enters: the name of a folder here with requirements.txt, where versions and sums are pinned, and programs of ours that
run in it. Leaves: a Python that has them, in $XDG_CACHE_HOME/headroom-tests/<name>-<hash>. Nothing of it gets into the
project's own environment. `dev.py parts NAME` builds it.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
DYNAMO: Final = "dynamo"
ENVIRONMENTS: Final = (DYNAMO,)


def folder(name: str) -> Path:
    """Where the environment is, or will be once it is built."""
    digest = hashlib.sha256(sys.version.encode() + (HERE / name / "requirements.txt").read_bytes())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "headroom-tests" / f"{name}-{digest.hexdigest()[:16]}"


def python(name: str) -> Path | None:
    """Its interpreter, None while it is not built."""
    found = folder(name) / "bin" / "python"
    return found if (folder(name) / "done").is_file() else None


def missing(name: str) -> str | None:
    """That it is not built, in one line with the remedy; None when it is."""
    return None if python(name) is not None else f"not built: {name} (python3 dev.py parts {name})"


def build(name: str) -> None:
    """Build it. Raises CalledProcessError when pip fails; what is half built is not taken for whole."""
    target = folder(name)
    if python(name) is not None:
        print(f"{name}: already built in {target}")
        return
    begin = time.monotonic()
    print(f"{name}: installing {HERE / name / 'requirements.txt'}", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", target], check=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as place:  # not in reach of a package of the same name
        pip = [str(target / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"]
        wanted = ["--require-hashes", "--only-binary", ":all:", "-r", str(HERE / name / "requirements.txt")]
        subprocess.run([*pip, *wanted], cwd=place, check=True)
    (target / "done").touch()
    print(f"{name}: built in {(time.monotonic() - begin) / 60:.1f} min", flush=True)
