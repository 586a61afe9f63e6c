"""The image without a container engine: the Dockerfile's own steps in a folder, and its result run as a pod would be.

What stands in for a container is a mount namespace whose root is read-only, a user without a name and without any
capability, and an empty environment. What is not like one: the base image's Python and libraries are this machine's.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.conftest import ROOT

UID: Final = 65532
FOLDER: Final = "/opt/headroom"
DOCKERFILE: Final = ROOT / "Dockerfile"

ENTER: Final = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
if [ -n "$HIDDEN" ]; then
  mkdir /mnt/base && mount --rbind "$BASE" /mnt/base
  mount -t tmpfs -o mode=755 tmpfs "$HIDDEN" && mkdir -p "$BASE" && mount --move /mnt/base "$BASE"
fi
mkdir -m 1777 /mnt/scratch
mount -o remount,bind,ro /
exec setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \\
  env -i "$@"
"""
"""Enters what stands for the container. Where the interpreter lies in a folder that is closed, it is shown alone."""


def why_not() -> str | None:
    """Why this machine cannot stand in for a container; None where it can."""
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in ("unshare", "setpriv", "mount")):
        return "needs root, unshare and setpriv (Debian: util-linux) to stand in for a container"
    made = subprocess.run(["unshare", "--mount", "mount", "--make-rprivate", "/"], capture_output=True, check=False)
    return None if made.returncode == 0 else "mount namespaces are not allowed here"


def uv() -> Path:
    """The uv that dev.py has installed, else one on PATH."""
    found = sorted((ROOT / ".tools").glob("uv==*/bin/uv")) or [Path(name) for name in [shutil.which("uv")] if name]
    assert found, "dev.py installs uv"
    return found[-1]


def built(folder: Path) -> Path:
    """The first stage of the Dockerfile, done in `folder`; where its result is."""
    first, *_ = DOCKERFILE.read_text().partition("\nFROM python:${PYTHON}-slim\n")
    source, result = folder / "src", folder / "headroom"
    source.mkdir()
    env = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONHOME"}}
    env |= {"PATH": f"{uv().parent}{os.pathsep}{env['PATH']}", "UV_PYTHON": sys.executable, "UV_SYSTEM_CERTS": "true"}
    for step, words in re.findall(r"^(ENV|COPY|RUN) (.*)$", first, re.MULTILINE):
        if step == "ENV":
            env |= dict(pair.replace(FOLDER, str(result)).split("=", 1) for pair in words.split())
            env["UV_LINK_MODE"] = "hardlink"  # out of uv's cache on this machine: the same files, sooner
        elif step == "COPY":
            *names, _ = words.split()
            for name in names:
                _copy(ROOT / name, source / name)
        elif not words.startswith("pip install"):
            command = words.replace(FOLDER, str(result))
            done = subprocess.run(command, shell=True, cwd=source, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}: {done.stderr}"
    return result


def inside(image: Path, *command: str, env: Mapping[str, str] | None = None) -> list[str]:
    """The command that runs `command` in what stands for a container of `image`."""
    given = {"PATH": f"{image / 'bin'}:/usr/bin:/bin", "TMPDIR": "/mnt/scratch", **_second_stage(), **(env or {})}
    base = Path(sys.base_prefix)
    hidden = next((str(one) for one in reversed(base.parents) if not one.stat().st_mode & stat.S_IXOTH), "")
    outer = {"BASE": str(base), "HIDDEN": hidden, "USER_ID": str(UID), "PATH": os.environ["PATH"]}
    variables = [f"{name}={value}" for name, value in given.items()]
    before = [f"{name}={value}" for name, value in outer.items()]
    return ["env", "-i", *before, "unshare", "--mount", "sh", "-c", ENTER, "sh", *variables, *command]


def _second_stage() -> dict[str, str]:
    """The variables that the image sets, without its PATH."""
    _, _, second = DOCKERFILE.read_text().partition("\nFROM python:${PYTHON}-slim\n")
    (words,) = re.findall(r"^ENV (.*)$", second, re.MULTILINE)
    return {name: value for name, _, value in (pair.partition("=") for pair in words.split()) if name != "PATH"}


def _copy(what: Path, where: Path) -> None:
    if what.is_dir():
        shutil.copytree(what, where, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(what, where)
