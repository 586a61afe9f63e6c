"""A case that did not run is a row of the table, in one process and in several."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SUITE = """
import pytest

def test_runs(): assert True

@pytest.mark.needs("go")
def test_wants_a_compiler(): assert False, "no compiler here, so this must not run"

@pytest.mark.needs("flux-capacitor")
def test_wants_what_nobody_knows(): assert True

@pytest.mark.slow
def test_slow_one(): assert True

@pytest.mark.slow
def test_slow_two(): assert True

@pytest.mark.skip(reason="on purpose")
def test_skipped_by_hand(): assert True
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_every_case_left_out_is_counted_with_its_reason(tmp_path: Path, processes: str) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "real").mkdir()
    for name in ("conftest.py", "real/environments.py", "real/parts.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests" / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "test_sample.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", processes, "-m", "not slow"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True, check=False)
    table = done.stdout.partition("did not execute")[2]
    rows = {tuple(re.split(r"\s{2,}", line.strip(), maxsplit=2)) for line in table.splitlines()[1:4]}
    assert rows == {
        ("1", "tests", "no Go toolchain on PATH (https://go.dev/dl)"),
        ("1", "tests", "on purpose"),
        ("2", "tests", "left out by -m: marked slow"),
    }, done.stdout
    assert "unknown part 'flux-capacitor'" in done.stdout
    assert re.search(r"^1 passed, 2 skipped,.* 1 error", done.stdout, re.MULTILINE), done.stdout
