"""Scenario files: what is accepted, and where a typo is said to be."""

import json
from functools import partial
from pathlib import Path

import pytest

from autoscaler.errors import InputError
from loadtests.__main__ import main
from loadtests.run import predicted as of_scenarios
from loadtests.run.reading import read_scenario
from tests.conftest import ROOT

SCENARIOS = ROOT / "loadtests" / "scenarios"

GOOD = """\
title: Traffic doubles
duration: 60s
traffic:
  shape: step
  rate: 4
  at: 20s
engine:
  slots: 8
  warm-up: {weights: 10s, graphs: 5s}
policy:
  ttft: 5s
  max-replicas: 6
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "x.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_scenario_is_sound_and_lasts_four_minutes_at_most(path: Path) -> None:
    scenario = read_scenario(path)
    assert scenario.duration <= 240
    assert 10 <= scenario.engine.warm_up_s <= 30
    assert len(scenario.schedule()) > 100


def test_what_is_left_out_is_the_default(tmp_path: Path) -> None:
    scenario = read_scenario(written(tmp_path, GOOD))
    assert (scenario.shape.to, scenario.onset_s, scenario.engine.warm_up_s) == (8.0, 20.0, 15.0)
    assert (scenario.policy.min_replicas, scenario.policy.replicas, scenario.engine.gpus) == (1, 1, 1)


@pytest.mark.parametrize(
    ("shape", "onset_s"),
    [
        ("shape: step\n  rate: 4\n  at: 20s", 20.0),
        ("shape: step\n  rate: 4\n  to: 2\n  at: 20s", None),
        ("shape: bursts\n  rate: 4\n  period: 30s", 25.0),
        ("shape: bursts\n  rate: 4\n  period: 30s\n  to: 2", None),
        ("shape: bursts\n  rate: 4\n  period: 2m", None),
        ("shape: ramp\n  rate: 4", None),
    ],
    ids=["a step up", "a step down", "bursts", "lulls", "a burst after the end", "a ramp"],
)
def test_an_onset_is_an_instant_of_the_run_at_which_the_load_rises(
    tmp_path: Path, shape: str, onset_s: float | None
) -> None:
    changed = GOOD.replace("shape: step\n  rate: 4\n  at: 20s", shape)
    assert read_scenario(written(tmp_path, changed)).onset_s == onset_s


def test_the_same_file_asks_the_same_and_another_seed_something_else(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    digest = read_scenario(path).schedule().digest()
    assert read_scenario(path).schedule().digest() == digest
    assert read_scenario(written(tmp_path, GOOD + "seed: 1\n")).schedule().digest() != digest


@pytest.mark.parametrize(
    ("change", "line", "field", "words"),
    [
        (("  rate: 4", "  ratee: 4"), 5, "traffic.ratee", "unknown field"),
        (("  rate: 4", "  rate: fast"), 5, "traffic.rate", "Expected `float`, got `str`"),
        (("  rate: 4\n", ""), 3, "traffic.rate", "missing required field"),
        (("duration: 60s", "duration: 60"), 2, "duration", "60 is no time; write 20s or 2m"),
        (("duration: 60s", "duration: 5m"), 2, "duration", "300 s is longer than 240 s"),
        (("shape: step", "shape: stp"), 4, "traffic.shape", "choose from constant"),
        (("max-replicas: 6", "max-replicas: 0"), 12, "policy.max-replicas", ">= 1"),
        (("at: 20s", "at: 60s"), 6, "traffic.at", "60 s is not before the end, 60 s"),
        (("at: 20s", "at: 20s\n  ramp: 50s"), 7, "traffic.ramp", "it ends at 70 s, after the scenario, 60 s"),
        (("shape: step\n  rate: 4", "rate: 4\n  ramp: 5s"), 5, "traffic.ramp", "only a step takes a time"),
        (("  shape: step\n  rate: 4\n  at: 20s", "  rate: 4\n  to: 8"), 5, "traffic.to", "shape constant; leave"),
        (("shape: step", "shape: ramp"), 6, "traffic.at", "nothing of the shape ramp; leave it out, or choose step"),
        (("at: 20s", "at: 20s\n  burst: 5s"), 7, "traffic.burst", "leave it out, or choose bursts"),
        (("shape: step\n  rate: 4\n  at: 20s", "shape: sine\n  rate: 4\n  burst: 5s"), 6, "traffic.burst", "sine"),
        (("ttft: 5s", "ttft: 2m"), 11, "policy.ttft", "120 s is longer than a request may take, 60 s"),
        (("ttft: 5s", "ttft: 5s\n  min-replicas: 9"), 12, "policy.min-replicas", "9 is above max-replicas, 6"),
        (("ttft: 5s", "ttft: 5s\n  replicas: 7"), 12, "policy.replicas", "7 is not between"),
        (("rate: 4", "rate: 4\n  rate: 5"), 6, "traffic.rate", "given twice"),
        (("weights: 10s", "weights: 10"), 9, "engine.warm-up", "10 is no time"),
        (("{weights: 10s, graphs: 5s}", "{}"), 9, "engine.warm-up", "no stage"),
        (("{weights: 10s, graphs: 5s}", "{graphs: 5s}\n  warm-slots: 2"), 10, "engine.warm-slots", "nothing to keep"),
        (("  slots: 8", "  warm-slots: 31"), 8, "engine.warm-slots", "<= 30"),
        (("  rate: 4", "  rate: 4\n  output-tokens: few"), 3, "traffic", "output-tokens 'few'"),
        (("  slots: 8", "  profile: none.csv"), 7, "engine", "none.csv: cannot be read"),
    ],
)
def test_a_typo_is_named_with_file_line_and_field(
    tmp_path: Path, change: tuple[str, str], line: int, field: str, words: str
) -> None:
    path = written(tmp_path, GOOD.replace(*change))
    with pytest.raises(InputError) as raised:
        read_scenario(path)
    assert str(raised.value).startswith(f"{path}: line {line}, field {field}: ")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "line 1: no YAML"),
        ("title: 2020-13-45", "no YAML (month must be"),
        ("", "line 1, field (the whole)"),
        ("- 1", "line 1, field (the whole)"),
        ("about: " + "[" * 5000, "too deep for a scenario"),
        ("&a\ntitle: *a\n", "a part holds itself"),
    ],
    ids=["half", "a date that is none", "empty", "a list", "deep", "itself"],
)
def test_what_is_no_scenario_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(").replace(")", r"\)")):
        read_scenario(written(tmp_path, text))


def test_the_command_ends_with_2_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(written(tmp_path, GOOD.replace("rate", "rat")))]) == 2
    assert "line 5, field traffic.rat: " in capsys.readouterr().err
    assert main(["run", str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml: cannot be read" in capsys.readouterr().err


def test_no_prediction_is_made_of_what_the_simulator_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(written(tmp_path, GOOD + "scaling: keda-queue\n")), "--predict-only"]) == 2
    assert "scaling is keda-queue; the simulator has no KEDA" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--predict-only", "--turns", "0.5,x"], "--turns: 'x' is no number of seconds"),
        (["--predict-only", "--turns", "1"], "--turns: '1' is no number of seconds"),
        (["--predict-only", "--turns", "nan"], "--turns: 'nan' is no number of seconds"),
        (["--turns", "0.5"], "--turns goes with --predict-only"),
        (["--predict-only", "--began", "10"], "--began: '10' is no number of seconds from 0 up to, but not, 10;"),
        (["--began", "0.5"], "--began goes with --predict-only"),
        (["--predict-only", "--html", "x.html"], "--html goes without --predict-only"),
        (["--predict-only", "--json", "/none/x.json"], "/none/x.json: cannot be written"),
    ],
    ids=["no number", "a whole second", "not a number", "turns of a run", "whole ten seconds", "a run that began",
         "a page of nothing", "a file nowhere"],
)  # fmt: skip
def test_instants_that_say_nothing_are_refused(
    tmp_path: Path, given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(written(tmp_path, GOOD)), *given]) == 2
    assert words in capsys.readouterr().err


def test_a_prediction_alone_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_scenarios, "predicted", partial(of_scenarios.predicted, numbers=(0,)))
    assert main(["run", str(written(tmp_path, GOOD.replace("60s", "30s"))), "--predict-only"]) == 0
    said = capsys.readouterr().out
    assert "in time" in said
    assert "GPU-hours" in said


def test_a_prediction_alone_is_written_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_scenarios, "predicted", partial(of_scenarios.predicted, numbers=(0,)))
    path, file = written(tmp_path, GOOD.replace("60s", "30s")), tmp_path / "out.json"
    assert main(["run", str(path), "--predict-only", "--json", str(file)]) == 0
    record = json.loads(file.read_text())
    share = record["predicted"]["attainment_ratio"]
    assert f"in time   {100 * share:.1f} % of {record['predicted']['requests']} requests" in capsys.readouterr().out
    assert record["spans"]["attainment_ratio"] == [share, share]
    assert (record["loadtest"], record["scenario"]["file"]) == ("prediction", "x.yaml")
    assert "--predict-only" in record["command"]


def test_an_engine_whose_name_has_a_slash_is_simulated(tmp_path: Path) -> None:
    header = "model,gpu_model,tp,prompt_tokens,batch,output_tokens,prefill_ms,tpot_ms\n"
    (tmp_path / "p.csv").write_text(f"{header}b/L3,H100,4,512,1,64,40,10\nc,H100,4,512,1,64,9,9\n")
    engine = "slots: 8\n  kv-tokens: 9000\n  profile: p.csv\n  only: b/L3/H100/4"
    scenario = read_scenario(written(tmp_path, GOOD.replace("slots: 8", engine)))
    assert of_scenarios.simulated_profile(scenario, tmp_path).tpot_s(1) == pytest.approx(0.010)
