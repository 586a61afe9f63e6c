"""The load test of recoveries: a line per step with its ratio beside what is asked, the same as JSON."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.core.pool.ahead import Lead
from autoscaler.core.spread import Spread
from autoscaler.sim.warm.serving import Recovery
from loadtests import recovery

COLD = Recovery(0, 0, Lead(Spread(880.0, 1000.0, 9), warm=False, whole=9), 1430.0)
WARM = Recovery(32, 32, Lead(Spread(290.0, 370.0, 9), warm=True, replicas=9), 518.0)
WITHIN = "takes nine of ten times at most"
UNKNOWN = Recovery(16, 0, None, 700.0)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    by_slots = {0: COLD, 16: UNKNOWN, 32: WARM}
    monkeypatch.setattr(recovery, "recovered", lambda slots, _: by_slots[slots])


def test_each_step_is_a_line_with_its_ratio_beside_what_is_asked(
    steps: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recovery.json"
    assert recovery.main(["--slots", "0,16,32", "--seeds", "3", "--json", str(path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"seed 3, no warm slot: 1430 s; a whole start {WITHIN} 1000 s (9 starts): 1.43 times, asked ≤ 1.6",
        "seed 3, 16 slots warm: 700 s; the stage clock had seen too few starts to say",
        f"seed 3, 32 slots warm: 518 s; what is left of a start {WITHIN} 370 s (9 starts): 1.40 times, asked ≤ 1.6",
    ]
    report = json.loads(path.read_text())
    assert [row["ratio"] for row in report["results"]] == [1.43, None, 1.4]
    assert [row["recovery_s"] for row in report["results"]] == [1430.0, 700.0, 518.0]
    assert report["inputs"]["engine_s"]["median_s"] == 290.0
    assert (report["seed"], report["target_ratio"]) == (3, 1.6)


def test_one_step_beyond_what_is_asked_is_told_by_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = replace(WARM, recovery_s=593.0)
    monkeypatch.setattr(recovery, "recovered", lambda _, seed: late if seed == 1 else WARM)
    path = tmp_path / "recovery.json"
    assert recovery.main(["--slots", "32", "--seeds", "0,1,2", "--json", str(path)]) == 1
    assert "1.60 times" in capsys.readouterr().out.splitlines()[1]
    assert len(json.loads(path.read_text())["results"]) == 3, "all steps are run and written all the same"
    monkeypatch.setattr(recovery, "recovered", lambda _, seed: replace(WARM, recovery_s=592.0))
    assert recovery.main(["--slots", "32", "--seeds", "0"]) == 0, "1.6 is within"
    monkeypatch.setattr(recovery, "recovered", lambda _, seed: UNKNOWN)
    assert recovery.main(["--slots", "16", "--seeds", "0"]) == 1, "what could not be judged is no success"


@pytest.mark.parametrize("arguments", [["--slots", "a"], ["--slots", "65"], ["--seeds", "-1"], ["--seeds", ""]])
def test_what_is_no_count_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert recovery.main(arguments) == 2
    assert f"error: {arguments[0]}" in capsys.readouterr().err
