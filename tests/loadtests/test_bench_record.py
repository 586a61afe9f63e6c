"""The table of what was asked for: made of what is kept, and what others spoilt is not kept."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autoscaler.errors import InputError
from loadtests.__main__ import NAMES as LOADTESTS
from loadtests.bench import all as everything
from loadtests.bench import others as counted
from loadtests.bench.__main__ import NAMES, main
from loadtests.bench.others import Stretch
from loadtests.bench.record import MARKS, Measured, read_figures, read_record, spliced, table
from loadtests.bench.rows import ROWS, Figure, Row
from tests.conftest import ROOT

README = ROOT / "loadtests" / "README.md"

STEP = Row(
    "step", "one step", (
        Figure("p99", "ms", 50.0, lambda told: told["p99_ms"]),
        Figure("steps", "/s", 1000.0, lambda told: told["steps"], at_least=True),
    ), name="core_step",
)  # fmt: skip
OLD = Measured(
    "step", "2026-11-20", "EPYC, 2 cores", "python3 dev.py bench core_step", {"p99": 61.5, "steps": 4000.0}, 1
)


def test_the_readme_holds_the_table_of_what_is_kept() -> None:
    text = README.read_text(encoding="utf-8")
    assert spliced(README, table(read_record(), ROWS)) == text, "run `python3 dev.py bench all --table`"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_every_row_names_a_command_there_is_and_is_kept_under_its_figures_names(row: Row) -> None:
    assert row.name in (LOADTESTS if row.loadtest else NAMES)
    kept = read_record().get(row.key)
    assert kept is None or set(kept.figures) == {figure.name for figure in row.figures}


def test_what_misses_is_bold_and_what_was_never_measured_is_said_to_be_so() -> None:
    lines = table({"step": OLD}, [STEP]).splitlines()
    assert lines[2] == (
        "| one step | p99 | ≤ 50 ms | **61.5 ms** | 2026-11-20, EPYC, 2 cores | not noted | "
        "`python3 dev.py bench core_step`, seed 1 |"
    )
    assert lines[3] == "|  | steps | ≥ 1,000 /s | 4,000 /s |  |  |  |"
    assert "| **not measured** | – | – | `python3 dev.py bench core_step` |" in table({}, [STEP])


def test_an_output_that_lacks_a_figure_is_named() -> None:
    assert read_figures(STEP, {"p99_ms": 41, "steps": 2500}) == {"p99": 41.0, "steps": 2500.0}
    with pytest.raises(InputError, match="step: its output has no 'steps'"):
        read_figures(STEP, {"p99_ms": 41})


def test_what_others_used_is_all_but_this_process_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "_all_s", lambda: 130.0)
    monkeypatch.setattr(counted, "_own_s", lambda: 22.0)
    monkeypatch.setattr("time.monotonic", lambda: 60.0)
    assert Stretch(50.0, 100.0, 10.0).others_cores() == 1.8
    assert Stretch(50.0, None, 10.0).others_cores() is None


@dataclass
class Quiet:
    """A stretch in which others used so much."""

    cores: float

    def others_cores(self) -> float:
        return self.cores


Ran = Callable[..., tuple[int, dict[str, Measured]]]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Runs `bench all` over one row with a given output and a given use by others; the code and what is kept then."""

    def run(told: Any, others: float) -> tuple[int, dict[str, Measured]]:
        record, readme = tmp_path / "measured.json", tmp_path / "README.md"
        record.write_bytes(json.dumps([
            {"row": "step", "date": OLD.date, "machine": OLD.machine, "command": OLD.command, "figures": OLD.figures}
        ]).encode())  # fmt: skip
        readme.write_text("before\n{}\n{}\nafter\n".format(*MARKS))
        monkeypatch.setattr(everything, "ROWS", (STEP,))
        monkeypatch.setattr(everything, "_told", lambda _: told)
        monkeypatch.setattr("loadtests.bench.others.Stretch.begin", lambda: Quiet(others))
        code = main(["all", "--record", str(record), "--readme", str(readme)])
        assert readme.read_text().startswith("before\n")
        assert readme.read_text().endswith("after\n")
        return code, read_record(record)

    return run


def test_a_row_that_was_measured_is_kept_with_what_others_used(ran: Ran) -> None:
    code, kept = ran({"p99_ms": 40.0, "steps": 5000, "seed": 7}, 0.1)
    assert (code, kept["step"].figures["p99"], kept["step"].seed, kept["step"].others_cores) == (0, 40.0, 7, 0.1)
    assert kept["step"].date > OLD.date


def test_a_row_that_others_spoilt_keeps_its_date(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    code, kept = ran({"p99_ms": 90.0, "steps": 500}, 1.2)
    assert (code, kept["step"].date, kept["step"].figures) == (1, OLD.date, OLD.figures)
    assert "others used 1.20 cores, more than 0.5; run it again alone" in capsys.readouterr().err


def test_a_row_whose_command_failed_keeps_its_date(ran: Ran) -> None:
    code, kept = ran(None, 0.0)
    assert (code, kept["step"].date) == (1, OLD.date)


@pytest.mark.parametrize(
    ("judges", "code", "kept"),
    [(True, 0, True), (True, 1, True), (True, 2, False), (False, 0, True), (False, 1, False)],
)
def test_figures_that_miss_are_kept_though_their_command_ends_with_1_and_those_of_one_that_failed_are_not(
    judges: bool, code: int, kept: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`loadtests recovery` misses: its row could not be measured anew, and the table kept what it had."""

    def ended(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        Path(command[command.index("--json") + 1]).write_text('{"p99_ms": 90.0, "steps": 500}')
        return subprocess.CompletedProcess(command, code, b"")

    monkeypatch.setattr("subprocess.run", ended)
    told = everything._told(replace(STEP, name="recovery", loadtest=True, judges=judges))
    assert told == ({"p99_ms": 90.0, "steps": 500} if kept else None)
    assert (f"not kept, its command ended with {code}" in capsys.readouterr().err) is not kept
    assert next(row for row in ROWS if row.name == "recovery").judges


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "stp"], "--only: stp not known"),
        (["--table", "--readme", "pyproject.toml"], "it needs the two lines"),
    ],
    ids=["a row that is none", "a file without marks"],
)
def test_arguments_that_cannot_be_used_end_with_2(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(ROOT / word) if word.endswith(".toml") else word for word in arguments]
    assert main(["all", "--record", str(tmp_path / "measured.json"), *given]) == 2
    assert words in capsys.readouterr().err


def test_a_benchmark_of_nothing_is_refused_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traffic", "--streams", "0"]) == 2
    assert capsys.readouterr().err.startswith("error: 0 requests are expected")
