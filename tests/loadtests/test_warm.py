"""The load test of warm pools: cases are chosen by name, figures state losses, a static pool is sized in hindsight."""

import json
from pathlib import Path

import numpy as np
import pytest

from autoscaler.errors import InputError
from autoscaler.sim.warm.demand import ReplicaDemand
from loadtests import warm

DAY = np.concatenate([np.full(30, 1), np.full(20, 3), np.full(30, 1)])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """One case of 80 minutes that needs no file."""
    case = warm.Case("short", ("m",), 600.0)
    monkeypatch.setattr(warm, "MOST_SLOTS", 4)
    monkeypatch.setattr(warm, "CASES", (case,))
    demand = ReplicaDemand(("m",), 60.0, np.array([DAY]))
    monkeypatch.setattr(warm, "demand_of", lambda *_: demand)


def test_a_run_prints_and_writes_what_it_measured(
    short: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "warm.json"
    assert warm.main(["--step", "60", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    (result,) = report["results"]
    assert json.loads(capsys.readouterr().out) == result
    assert (report["seed"], report["targets"]["hit_ratio"]) == (0, 0.99)
    assert report["command"] == f"python3 dev.py loadtests warm --step 60 --json {path}"
    assert result["ours"]["demanded"] == result["static"]["as_often_as_asked"]["demanded"] == 2
    assert result["static"]["as_often_as_asked"]["hit_ratio"] == 1.0
    assert result["static"]["as_often_as_asked"]["size"] == 2
    known = result["known_in_hindsight"]
    assert known["every_rise"]["hit_ratio"] == 1.0
    assert [row["parts"] for row in result["foreseen"]] == list(warm.PARTS)
    assert result["foreseen"][0]["tuned_on_these"]["hit_ratio"] == 1.0
    depths = result["stood_for"]["by_depth"]
    assert [(row["slot"], row["rises"]) for row in depths][:2] == [(1, 1), (2, 1)]
    assert sum(row["idle_warm_h"] for row in depths) == pytest.approx(result["ours"]["idle_warm_h"], rel=0.1)
    assert known["every_rise"]["idle_warm_h"] < 0.25 * result["static"]["as_often_as_asked"]["idle_warm_h"]


def test_the_same_is_printed_as_tables_for_people(short: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert warm.main(["--step", "60", "--tables"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "### short, 1.2 h"
    assert any(line.startswith("| static as often as asked: 2 slots | 100.0% |") for line in told)
    assert any(line.startswith("| 1 | ") and line.count("|") == 6 for line in told)
    assert any(line.startswith("| 0 | ") and line.endswith("| 1 | 2 | 1 |") for line in told), "the rise, in hour 0"


def test_a_case_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert warm.main(["--only", "m-huge"]) == 2
    assert "m-huge not known; choose from m-small" in capsys.readouterr().err


def test_a_file_that_is_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert warm.main(["--only", "functions", "--data", str(tmp_path)]) == 2
    assert "azurefunc2019_dev_minutes.csv.gz" in capsys.readouterr().err


def test_functions_wake_from_nothing_and_stay_for_ten_minutes(tmp_path: Path) -> None:
    folder = tmp_path / "inference"
    folder.mkdir()
    (folder / "azurefunc2019_dev_minutes.csv.gz").write_text(
        "minute,model,tenant,requests\n0,a,x,5\n3,b,y,1\n29,b,y,2\n"
    )
    demand = warm.demand_of(warm.Case("functions", (), 0.0), tmp_path, 0)
    assert demand.models == ("a", "b")
    assert demand.replicas[0].tolist() == [1] * 10 + [0] * 20
    assert demand.replicas[1].tolist() == [0] * 3 + [1] * 10 + [0] * 16 + [1]


def test_a_demand_without_a_row_per_model_is_refused() -> None:
    with pytest.raises(InputError, match="one row per model"):
        ReplicaDemand(("a", "b"), 60.0, np.array([[1, 2]]))
    with pytest.raises(InputError, match="a count is negative"):
        ReplicaDemand(("a",), 60.0, np.array([[1, -2]]))
