"""`loadtests loop` as a command: its list, what it refuses, its table and its JSON."""

import json
import sys
from pathlib import Path

import pytest

from loadtests.loop import cases, command
from loadtests.loop.closed import Case
from loadtests.loop.fleet import Fleet
from loadtests.loop.loads import Load, steady
from loadtests.loop.tables import best

HOLDS = (
    f"{sys.executable} -S -c 'import json, sys\n"
    'for line in sys.stdin: print(json.dumps({"replicas": json.loads(line)["replicas"]["desired"]}), flush=True)\''
)
"""A stand-in for decide that stays where it is."""

SHORT = (
    Case("calm", Load(steady(0.5), 2.0), Fleet(8, "gateway", 2), 300),
    Case("calm-full", Load(steady(3.0), 2.0), Fleet(8, "gateway", 2), 300),
)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "all_cases", lambda _: SHORT)


def test_the_cases_have_names_of_their_own_and_are_listed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command.main(["--list", "--only", "steady,untold-2s,kv-full", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [
        "steady-gateway", "steady-pods", "steady-four-slots", "steady-300s", "steady-tick-5", "kv-full",
        "untold-2s-gateway", "untold-2s-pods",
    ]  # fmt: skip
    names = [case.name for case in cases.all_cases(tmp_path)]
    assert len(names) == len(set(names)) >= 35


def test_every_case_draws_requests_within_its_time(tmp_path: Path) -> None:
    for case in cases.all_cases(tmp_path):
        if case.needs is None:
            came = case.requests(0)
            assert came.at_s.size == came.stay_s.size > 100, case.name
            assert came.at_s.min() >= 0.0, case.name
            assert came.at_s.max() <= case.for_s, case.name
            assert case.onset_s is None or case.onset_s < case.for_s, case.name


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--only", "nothing"], "--only: 'nothing' is no case; choose from steady-gateway"),
        (["--seeds", "a"], "--seeds: 'a' cannot be used"),
        (["--seeds", "-1"], "--seeds"),
        (["--json", "/nowhere/at/all.json"], "cannot be written"),
        (["--keep", "/nowhere"], "--keep: /nowhere is no folder"),
        (["--data", "/nowhere", "--only", "trace"], "/nowhere/inference/servegen_rates_week1.csv.gz: not there"),
        (["--decide", " "], "--decide: no command is named"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert told in err


def test_a_run_tells_ours_beside_the_rivals_and_writes_it(
    short: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two that stay: in time at a need of 0.5, and not at one of 3, where the best constant count is 3 or more."""
    path = tmp_path / "loop.json"
    arguments = ["--seeds", "0,1", "--decide", HOLDS, "--json", str(path), "--keep", str(tmp_path)]
    assert command.main(arguments) == 0
    out = capsys.readouterr().out
    report = json.loads(path.read_text())
    assert [(row["case"], row["seed"]) for row in report["results"]] == [
        ("calm", 0), ("calm", 1), ("calm-full", 0), ("calm-full", 1),
    ]  # fmt: skip
    calm, full = report["results"][0], report["results"][2]
    hpas = [f"hpa-{on}-{target}" for on in ("running", "all") for target in (0.5, 0.65, 0.8)]
    assert list(calm["scores"]) == ["headroom", "constant", *hpas]
    assert calm["scores"]["headroom"]["ordered_h"] == pytest.approx(2 * 300 / 3600, abs=1e-4)
    assert (calm["scores"]["headroom"]["late"], calm["constant"]) == (0.0, 1)
    assert full["scores"]["headroom"]["late"] > 0.3
    assert full["constant"] >= 3
    assert (report["loadtest"], report["seeds"], report["exit_code"]) == ("loop", [0, 1], 0)
    assert report["command"].startswith("python3 dev.py loadtests loop --seeds 0,1")
    assert {"cpu", "cores", "load_average", "python", "numpy", "system"} == set(report["machine"])
    assert out.splitlines()[0].startswith("calm, seed 0: headroom ")
    assert (
        "| case | cost, late | late after a third | stood: most, mean | turns | recovery | best constant count: cost"
        in out
    )
    assert len([line for line in out.splitlines() if line.startswith("| calm")]) == 2
    kept = (tmp_path / "calm-0.jsonl").read_text().splitlines()
    assert (len(kept), json.loads(kept[1])) == (2 * 30, {"replicas": 2})


def test_alone_measures_no_rival(short: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--alone", "--seeds", "0", "--only", "calm-full", "--decide", HOLDS]) == 0
    assert "constant" not in capsys.readouterr().out


def test_a_decide_that_ends_is_told_and_what_was_measured_until_then_is_kept(
    short: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays for one run of 30 lines; of the second it never sees the end."""
    mark = tmp_path / "ran"
    dies = (
        f"{sys.executable} -S -c 'import json, os, sys\n"
        f'if os.path.exists("{mark}"): sys.exit("worn out")\n'
        f'open("{mark}", "w").close()\n'
        'for line in sys.stdin: print(json.dumps({"replicas": 2}), flush=True)\''
    )
    path = tmp_path / "loop.json"
    assert command.main(["--seeds", "0", "--alone", "--decide", dies, "--json", str(path)]) == 1
    assert "worn out" in capsys.readouterr().err
    report = json.loads(path.read_text())
    assert ([row["case"] for row in report["results"]], report["exit_code"]) == (["calm"], 1)


def test_interrupted_it_tells_what_was_measured_until_then(
    short: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = command._measured

    def interrupt(case: Case, *rest: object) -> dict[str, object]:
        if case.name == "calm-full":
            raise KeyboardInterrupt
        return measured(case, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(command, "_measured", interrupt)
    assert command.main(["--seeds", "0", "--alone", "--decide", HOLDS]) == 130
    out, err = capsys.readouterr()
    assert "interrupted" in err
    assert "| calm |" in out


def test_an_hpa_is_told_at_its_best_target() -> None:
    """The cheapest with 99 % in time; where no target has them, the one that makes the fewest late."""
    dear, cheap, late = ({"late": late, "ordered_h": cost} for late, cost in ((0.0, 9.0), (0.01, 5.0), (0.02, 1.0)))
    assert best({"a": [dear], "b": [cheap], "c": [late]}) == "b"
    assert best({"a": [dear, dear], "b": [cheap, late], "c": [late, late]}) == "a"
    assert best({"b": [cheap, late], "c": [late, late]}) == "b"
