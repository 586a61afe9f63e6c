"""The load test of clocks: who goes by one where there is none, and what it saves where there is one."""

import json
from pathlib import Path

import numpy as np
import pytest

from autoscaler.sim.warm.demand import ReplicaDemand
from loadtests import clocks

CRON = np.array([22] * 10 + [2, 3] * 25)
"""Twenty replicas start on the hour and stay for ten minutes, and one every other minute of the rest for a minute."""


def test_stretches_of_a_clock_choose_it_and_find_what_it_starts_warm() -> None:
    """From any minute on: 200 minutes hold three jumps, and the hour after them one more."""
    found = clocks.without(np.tile(CRON, 6), 200, count=4, seed=0)
    assert (found.stretches, found.chose) == (4, 4)
    assert found.new >= 4 * 40
    assert found.missed <= 0.01 * found.new


def test_stretches_that_know_no_clock_do_not_choose_one() -> None:
    rng = np.random.default_rng(3)
    levels = np.full(20 * 60, 2)
    for at in rng.choice(levels.size - 10, size=60, replace=False):
        levels[at : at + 10] += 20
    found = clocks.without(levels, 200, count=20, seed=0)
    assert (found.stretches, found.chose, found.new, found.missed) == (20, 0, 0, 0)


def test_what_a_clock_saves_stands_beside_the_static_pool_of_as_many_hits() -> None:
    """Three hours and the first minutes of a fourth; the clock is known in the third, of which the last half counts."""
    found = clocks.saved(ReplicaDemand(("m",), 60.0, np.tile(CRON, 4)[None, :190]), seed=0, learns_s=150 * 60.0)
    assert found["hits"] == found["static_hits"] == found["demanded"]
    assert int(str(found["demanded"])) >= 20
    assert float(str(found["fewer_idle_ratio"])) > 0.0


def test_where_nothing_comes_nothing_can_be_saved() -> None:
    found = clocks.saved(ReplicaDemand(("m",), 60.0, np.full((1, 20), 2)), seed=0, learns_s=600.0)
    assert (found["demanded"], found["static_slots"], found["fewer_idle_ratio"]) == (0, 0, None)


def test_stretches_of_functions_are_later_hours_and_each_half() -> None:
    demand = ReplicaDemand(("a", "b", "c"), 60.0, np.arange(3 * 240).reshape(3, 240))
    parts = {label: part for label, part, _ in clocks.functions(demand)}
    assert parts["all, from hour 3"].replicas[:, 0].tolist() == [180, 420, 660]
    assert [parts[f"half {half} of the functions"].models for half in (1, 2)] == [("a", "c"), ("b",)]


def test_a_run_prints_and_writes_what_it_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clocks, "replicas_at", lambda *_: np.tile(CRON, 6))
    monkeypatch.setattr(clocks, "demand_of", lambda *_: ReplicaDemand(("m",), 60.0, CRON[None, :]))
    monkeypatch.setattr(clocks, "functions", lambda demand: [("all", demand, 0)])
    monkeypatch.setattr(clocks, "LEARNS_S", 600.0)
    monkeypatch.setattr(clocks, "STRETCHES", 2)
    monkeypatch.setattr(clocks, "MINUTES", (140,))
    path = tmp_path / "clocks.json"
    assert clocks.main(["--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        *report["without_a_clock"], *report["with_a_clock"],
    ]  # fmt: skip
    assert report["command"] == f"python3 dev.py loadtests clocks --json {path}"
    assert len(report["without_a_clock"]) == (len(clocks.WITHOUT) * len(clocks.TIMES) + 1) * len(clocks.MINUTES)


def test_a_file_that_is_missing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clocks.main(["--data", str(tmp_path)]) == 2
    assert "servegen_rates_week1.csv.gz" in capsys.readouterr().err
