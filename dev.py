#!/usr/bin/env python3
"""Run, test and check Headroom from a bare machine: python3 (3.11 or newer) and pip are enough.

usage: python3 dev.py COMMAND [ARGUMENTS]

  run [ARGS]            headroom demo ARGS: the main job on an embedded cluster, no Kubernetes needed
  test                  the fast suite (Python only)
  test PATH... [ARGS]   any suite, with pytest's own arguments
  headroom ARGS         the command line tool
  loadtests NAME [ARGS] load generators, comparisons and recorded scenarios (loadtests/README.md); alone it lists them
  bench NAME [ARGS]     one benchmark, told as JSON; alone it lists them
  guards [NAME...]      take each guard against a fault away and see its test fail (an hour; needs what parts builds)
  cases [NUMBER...]     the edge cases of warm pools: the tests that show each, or why none does
  chart                 write what of charts/headroom is generated: definitions, schema, references (a test compares)
  sbom [FILE]           what the image holds of Python as a bill of materials (CycloneDX 1.5), from uv.lock
  parts [NAME...]       build the real components that tests/cluster starts (Go; minutes, once)
  check                 lint, format, types and import contracts; all of them run, the exit code tells
  format                rewrite the sources as `check` wants them

The first command installs uv into .tools and the locked dependencies into .venv (about 400 MB); outside of this folder
only the caches of pip and uv grow. Later commands start at once and need no network.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - whatever python3 the machine has; what follows is beyond an older one
    print(
        f"dev.py: error: Python 3.11 or newer is needed; {sys.executable} is {sys.version.split()[0]}. "
        "Start it with a newer one",
        file=sys.stderr,
    )
    sys.exit(2)

try:
    import fcntl
    import hashlib
    import json
    import os
    import re
    import shutil
    import subprocess
    import time
    import tomllib
    from collections.abc import Sequence
    from pathlib import Path
    from typing import NoReturn
except KeyboardInterrupt:  # Ctrl-C at once: no traceback
    sys.exit(130)

ROOT = Path(__file__).resolve().parent
TOOLS, VENV = ROOT / ".tools", ROOT / ".venv"
UV_PIN = "uv==0.13.9"
COMMANDS = frozenset((
    "run", "test", "headroom", "loadtests", "bench", "guards", "cases", "chart", "sbom", "parts", "check",
    "format",
))  # fmt: skip
# Each takes a share of the files in their order: what a file prepares once is prepared once. Three on two CPUs: of the
# time of two, a quarter passed in waiting.
FAST_SUITE = ("-q", "-n", "3", "--dist", "worksteal", "-m", "not slow and not real")
CHECKS = {
    "ruff check": ("ruff", "check", "."),
    "ruff format": ("ruff", "format", "--check", "."),
    "mypy": ("mypy",),
    "imports": ("lint-imports",),
}


def fail(message: str) -> NoReturn:
    """End with exit code 2 and a message that says what went wrong, where, and what to do."""
    print(f"dev.py: error: {message}", file=sys.stderr)
    sys.exit(2)


def say(message: str) -> None:
    """A progress line; on standard error, so that a command's own output stays clean."""
    print(f"dev.py: {message}", file=sys.stderr, flush=True)


def environment() -> dict[str, str]:
    """The environment of every child: no downloads of interpreters, the system's certificates, one thread of BLAS."""
    # Without its bytecode every process compiles all that it imports again: a third of the fast suite's time. What is
    # written lies in this folder, where git does not see it.
    strange = {"VIRTUAL_ENV", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE"}
    env = {name: value for name, value in os.environ.items() if name not in strange}
    env.update(UV_PYTHON_DOWNLOADS="never", UV_PYTHON=sys.executable, UV_LINK_MODE="copy", UV_SYSTEM_CERTS="true")
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    env["PATH"] = os.pathsep.join([str(VENV / "bin"), env.get("PATH", os.defpath)])
    env.setdefault("OMP_NUM_THREADS", "1")
    return env


def stamp() -> str:
    """What the environment in .venv was built from: dependencies, lock and interpreter."""
    digest = hashlib.sha256("\n".join((sys.version, sys.base_prefix, str(ROOT))).encode())
    for name in ("pyproject.toml", "uv.lock"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def bootstrapped_uv() -> str | None:
    """The pinned uv, installed below .tools by pip (which PEP 668 allows), else a uv on PATH, else None."""
    target = TOOLS / UV_PIN
    uv = target / "bin" / "uv"
    if not uv.exists():
        say(f"installing {UV_PIN} into {target}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--root-user-action=ignore"]
        done = subprocess.run([*pip, "--target", str(target), UV_PIN], env=environment(), check=False)
        if done.returncode != 0:
            return shutil.which("uv")
    return str(uv)


def install_with_pip() -> bool:
    """Without uv: a venv filled by pip, held to the versions of uv.lock (pip reads its own index settings)."""
    locked = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    pins = TOOLS / "constraints.txt"
    lines = []
    for row in locked:
        if "registry" in row["source"]:  # a package locked per Python version states which in its markers
            marker = " or ".join(f"({part})" for part in row.get("resolution-markers", ()))
            lines.append(f"{row['name']}=={row['version']}" + (f" ; {marker}" if marker else ""))
    pins.write_text("\n".join(lines) + "\n")
    steps = (
        (sys.executable, "-m", "venv", "--clear", str(VENV)),
        (str(VENV / "bin/python"), "-m", "pip", "install", "-q", "-c", str(pins), "-e", str(ROOT), *dev),
    )
    return all(subprocess.run(step, env=environment(), check=False).returncode == 0 for step in steps)


def prepare() -> None:
    """Bring .venv in line with the lock; does nothing when it already is. Safe when several commands start at once."""
    mark, wanted = VENV / "headroom.stamp", stamp()
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if mark.exists() and mark.read_text() == wanted:
            return
        mark.unlink(missing_ok=True)
        uv = bootstrapped_uv()
        if uv:
            say("installing the locked dependencies into .venv")
            sync = subprocess.run([uv, "sync", "--locked", "--quiet"], cwd=ROOT, env=environment(), check=False)
        if not uv or sync.returncode != 0:
            say("uv could not install the lock; trying a plain venv with pip")
            if not install_with_pip():
                fail(
                    f"the dependencies could not be installed into {VENV}; the lines above say why. It takes a "
                    "package index that answers and either pip (Debian: apt install python3-pip python3-venv) or uv. "
                    "Behind a proxy or a mirror set HTTPS_PROXY or PIP_INDEX_URL, then run the command again."
                )
        mark.write_text(wanted)


def replace_by(*command: str, cwd: Path | None = None) -> NoReturn:
    """Become the command: its exit code, its signals and its terminal are then this process's own."""
    os.chdir(cwd or Path.cwd())
    sys.stdout.flush()
    program = str(VENV / "bin" / command[0])
    os.execve(program, [program, *command[1:]], environment())  # noqa: S606 - no shell is what we want


def check() -> int:
    """Run every check, each timed, and return 1 when any failed."""
    failed = []
    for name, command in CHECKS.items():
        begin = time.perf_counter()
        tool = str(VENV / "bin" / command[0])
        passed = subprocess.run([tool, *command[1:]], cwd=ROOT, env=environment(), check=False).returncode == 0
        say(f"{name}: {'ok' if passed else 'FAILED'} in {time.perf_counter() - begin:.1f} s")
        failed += [] if passed else [name]
    say(f"check failed: {', '.join(failed)}" if failed else "check passed")
    return 1 if failed else 0


def sbom(arguments: Sequence[str]) -> int:
    """Write the bill of materials of what runs, tools of development left out, into a file or to standard output."""
    if len(arguments) > 1 or any(one.startswith("-") for one in arguments):
        fail("sbom takes at most the name of a file")
    uv = bootstrapped_uv()
    if not uv:
        fail("a bill of materials takes uv, which could not be installed; the lines above say why")
    export = ("export", "--frozen", "--no-dev", "--preview-features", "sbom-export", "--format", "cyclonedx1.5")
    done = subprocess.run([uv, *export], cwd=ROOT, env=environment(), check=False, stdout=subprocess.PIPE)
    if done.returncode != 0:
        return done.returncode
    bill = json.loads(done.stdout)
    found = re.search(r'^__version__ = "(.*)"$', (ROOT / "autoscaler/__init__.py").read_text(), re.MULTILINE)
    bill["metadata"]["component"]["version"] = found[1] if found else fail("autoscaler/__init__.py has no version")
    text = json.dumps(bill, indent=2) + "\n"
    if arguments:
        try:
            Path(arguments[0]).write_text(text)
        except OSError as error:
            fail(f"{arguments[0]}: cannot be written ({error.strerror}); name a file in a folder that is there")
    else:
        sys.stdout.write(text)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Dispatch one command; help needs nothing installed."""
    name, rest = (arguments[0], tuple(arguments[1:])) if arguments else ("--help", ())
    if name in {"-h", "--help", "help"}:
        print(__doc__.strip())
        return 0
    if name not in COMMANDS:
        fail(f"unknown command {name!r}; `python3 dev.py --help` lists them")
    prepare()
    if name == "check":
        return check()
    if name == "sbom":
        return sbom(rest)
    if name == "format":
        subprocess.run([str(VENV / "bin/ruff"), "check", "--fix-only", "--quiet", "."], cwd=ROOT, check=False)
        replace_by("ruff", "format", ".", cwd=ROOT)
    if name == "test":
        replace_by("python", "-m", "pytest", *(rest or FAST_SUITE), cwd=ROOT)
    if name == "chart":
        replace_by("python", "-m", "tests.chart.generate", *rest, cwd=ROOT)
    if name == "guards":
        replace_by("python", "-m", "tests.cluster.guards", *rest, cwd=ROOT)
    if name == "cases":
        replace_by("python", "-m", "tests.capacity.cases", *rest, cwd=ROOT)
    if name == "parts":
        replace_by("python", str(ROOT / "tests/real/parts.py"), *rest)
    if name in {"run", "headroom"}:
        replace_by("headroom", *(["demo"] if name == "run" else []), *rest)
    replace_by("python", "-m", "loadtests" if name == "loadtests" else "loadtests.bench", *rest)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
