"""`headroom preflight` on trace files as a person meets it: files, words, exit codes, and nothing half-written."""

import errno
import json
import os
import shlex
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from autoscaler.cli import preflight as command
from autoscaler.cli import preflighting
from autoscaler.cli.main import app

FILES = ["policies.yaml", "pools.yaml", "preflight.html", "preflight.json", "queues.yaml"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Three hours of requests with a surge of five minutes in each quarter of an hour."""
    rng = np.random.default_rng(5)
    quiet, surges = rng.uniform(0, 10_800, 10_800), [rng.uniform(450 + 900 * i, 750 + 900 * i, 3000) for i in range(12)]
    instants = np.sort(np.concatenate([quiet, *surges]))
    path = tmp_path / "in" / "trace.csv"
    path.parent.mkdir()
    rows = "".join(f"{at_s:.3f},m,,100,20\n" for at_s in instants)
    path.write_text("arrival_s,model,tenant,prompt_tokens,output_tokens\n" + rows)
    return path


def preflight(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["preflight", *(str(argument) for argument in arguments)])


def test_a_trace_becomes_a_page_a_document_and_policies(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    done = preflight("--trace", trace, "--cold-start", 60, "--profile", "built-in", "--out", out)
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in out.iterdir()) == FILES
    body = json.loads((out / "preflight.json").read_text())
    assert [one["workload"] for one in body["workloads"]] == ["m"]
    assert msgspec.yaml.decode((out / "policies.yaml").read_text())["metadata"] == {"name": "m"}
    assert "<title>Headroom preflight: m</title>" in (out / "preflight.html").read_text()


def test_four_answers_are_printed_each_with_what_stands_behind_it(trace: Path, tmp_path: Path) -> None:
    done = preflight("--trace", trace, "--cold-start", 60, "--profile", "built-in", "--out", tmp_path / "out")
    lines = done.stdout.splitlines()
    assert lines[0] == "m"
    assert [line.split(":")[0] for line in lines[1::2]] == [
        "  What is always needed", "  Burst or noise", "  GPU memory held, and used", "  What can wait",
    ]  # fmt: skip
    assert all(line.startswith("    (") for line in lines[2::2])
    assert "Bursts: 0 of 100 surges above what a reactive scaler would hold" in done.stdout
    assert "Cannot tell: how long GPU memory is held" in done.stdout


def test_the_document_can_be_printed_instead(trace: Path, tmp_path: Path) -> None:
    done = preflight("--trace", trace, "--cold-start", 60, "--out", tmp_path / "out", "--json")
    assert done.stdout == (tmp_path / "out" / "preflight.json").read_text()


def test_the_same_command_gives_the_same_document(trace: Path, tmp_path: Path) -> None:
    arguments = ("--trace", trace, "--cold-start", 60, "--profile", "built-in", "--out", tmp_path / "out", "--json")
    assert preflight(*arguments).stdout == preflight(*arguments).stdout


def test_the_command_that_is_recorded_gives_the_document_again(trace: Path, tmp_path: Path) -> None:
    given = ("--trace", trace, "--trace", f"{trace}#model=m", "--cold-start", 60, "--slots", 4, "--price", "h100=2")
    first = preflight(*given, "--out", tmp_path / "out", "--json").stdout
    again = CliRunner().invoke(app, [*shlex.split(json.loads(first)["command"])[1:], "--json"]).stdout
    same, other = json.loads(first), json.loads(again)
    assert {**same, "command": ""} == {**other, "command": ""}


def test_without_a_cold_start_the_floor_cannot_be_told_and_the_run_is_fine(trace: Path, tmp_path: Path) -> None:
    done = preflight("--trace", trace, "--profile", "built-in", "--out", tmp_path / "out")
    assert done.exit_code == 0
    assert "Needed: measured cold starts, or --cold-start SECONDS." in done.stdout


def test_a_record_of_one_request_tells_nothing_and_says_so_to_scripts(tmp_path: Path) -> None:
    trace = tmp_path / "one.csv"
    trace.write_text("arrival_s,model,tenant,prompt_tokens,output_tokens\n5.0,m,,100,20\n")
    done = preflight("--trace", trace, "--cold-start", 60, "--profile", "built-in", "--out", tmp_path / "out")
    assert done.exit_code == 1, done.output
    assert "What is always needed: Cannot tell: the record covers 30 s" in done.stdout
    assert "nothing can be told of any workload" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES


def test_what_a_person_says_of_a_replica_beats_what_the_engine_usually_takes(trace: Path, tmp_path: Path) -> None:
    given = ("--trace", trace, "--cold-start", 60, "--profile", "built-in", "--out", tmp_path / "out", "--json")
    (usual,), (said,) = (json.loads(preflight(*given, *more).stdout)["workloads"] for more in ((), ("--slots", 3)))
    assert (said["slots"]["kind"], said["slots"]["value"]) == ("given", 3.0)
    assert (usual["slots"]["kind"], usual["slots"]["value"] > 3.0) == ("measured", True)


def test_a_price_turns_hours_into_money_per_shape() -> None:
    assert command._prices(["2.5", "h100=3", "a=b=1"]) == {"": 2.5, "h100": 3.0, "a=b": 1.0}


REFUSED = {
    "nothing to read": ([], "nothing to read"),
    "a file that is not there": (["--trace", "missing.csv"], "missing.csv: cannot be read"),
    "a negative cold start": (["--trace", "TRACE", "--cold-start", "-1"], "--cold-start: -1 cannot be used"),
    "no slots": (["--trace", "TRACE", "--slots", "0"], "--slots: 0 cannot be used"),
    "a price in words": (["--trace", "TRACE", "--price", "cheap"], "--price cheap: cannot be used"),
    "a price twice": (["--trace", "TRACE", "--price", "a=1", "--price", "a=2"], "--price a=2: cannot be used"),
    "a price below nothing": (["--trace", "TRACE", "--price", "-1"], "--price -1: cannot be used"),
    "a step of a day": (["--trace", "TRACE", "--step", "86400"], "--step: 86400 s cannot be used"),
    "a workload of a trace": (["--trace", "TRACE", "--workload", "prod/chat"], "--workload: only with --prometheus"),
    "days of a trace": (["--trace", "TRACE", "--days", "3"], "--days: only with --prometheus"),
    "a login for a trace": (
        ["--trace", "TRACE", "--token-file", "t", "--ca-file", "c", "--config", "s", "--query-timeout", "9"],
        "--config, --token-file, --ca-file, --query-timeout: only with --prometheus",
    ),
    "a profile for Prometheus": (
        ["--prometheus", "http://127.0.0.1:1", "--profile", "built-in"],
        "--profile: only with --trace",
    ),
    "a trace twice": (["--trace", "TRACE", "--trace", "TRACE"], "trace.csv: given twice; its load would be counted"),
    "a part twice, in other words": (
        ["--trace", "TRACE#model=m&seed=0", "--trace", "TRACE#model=m"],
        "#model=m: given twice, it is the same as ",
    ),
    "a part that is not there": (["--trace", "TRACE#model=x"], "no model 'x'; it offers m"),
    "a fragment that is no selection": (["--trace", "TRACE#modle=m"], "'modle=m' cannot be used"),
    "a profile that is not there": (["--trace", "TRACE", "--profile", "nowhere.csv"], "nowhere.csv"),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_is_one_line_and_exit_code_2(
    trace: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = preflight(*(part.replace("TRACE", str(trace)) for part in arguments), "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_read(trace: Path) -> None:
    done = preflight("--trace", trace, "--out", trace / "below-a-file")
    assert done.exit_code == 2
    assert "cannot be made" in done.stderr


def test_on_a_full_disk_no_folder_is_left_and_the_answers_are_told(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: Path, __: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = tmp_path / "new" / "folder"
    monkeypatch.setattr(Path, "replace", full)
    done = preflight("--trace", trace, "--cold-start", 60, "--out", out)
    assert done.exit_code == 1
    assert "was not written (No space left on device); make room" in done.stderr
    assert "What is always needed" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_on_a_full_disk_a_folder_that_stood_stays(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, __: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "stood").mkdir()
    monkeypatch.setattr(Path, "replace", full)
    assert preflight("--trace", trace, "--out", tmp_path / "stood" / "new").exit_code == 1
    assert list((tmp_path / "stood").iterdir()) == []


def test_an_interrupted_run_writes_nothing(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(preflighting, "examine", interrupt)  # a person's Ctrl-C has no other form in one process
    done = preflight("--trace", trace, "--out", tmp_path / "out")
    assert done.exit_code == 130
    assert "interrupted: nothing was written" in done.stderr
    assert not (tmp_path / "out").exists()
