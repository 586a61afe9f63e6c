"""`headroom replay` and `headroom report`: exit codes, words, JSON and pages, of recorded files."""

import errno
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler.api.policy import Policy, Slo
from autoscaler.cli.main import app
from autoscaler.cli.past import page, read_answer
from autoscaler.hindsight.estimates import Past
from autoscaler.record.estimate import HourRow
from autoscaler.sim.headroom import WORKLOAD
from tests.hindsight.recorded import lines, write
from tests.web.builders import estimate

run = CliRunner().invoke


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return write(tmp_path / "audit-000000000001.jsonl", lines())


def test_a_replay_that_gives_the_same_says_so_and_ends_well(audit: Path) -> None:
    done = run(app, ["replay", str(audit)])
    assert done.exit_code == 0, done.output
    assert done.stdout == "100 decisions of 1 workload over 16.5 min: every one as recorded, byte for byte\n"


def test_one_that_differs_names_the_line_and_the_field_and_ends_with_1(tmp_path: Path) -> None:
    changed = list(lines())
    decision = json.loads(changed[10])
    decision["reason"] = "MAX"
    changed[10] = json.dumps(decision, separators=(",", ":")).encode()
    done = run(app, ["replay", str(write(tmp_path / "audit.jsonl", changed))])
    assert done.exit_code == 1
    assert "1 came out otherwise" in done.stdout
    assert "audit.jsonl: line 11: 00:00:40 sim/workload:" in done.stdout
    assert "differs in reason" in done.stdout


def test_gaps_and_bad_lines_are_told_with_the_rest(tmp_path: Path) -> None:
    write(tmp_path / "audit-000000000001.jsonl", [*lines()[:61], b"nonsense"])
    write(tmp_path / "audit-000000000003.jsonl", lines()[121:])
    done = run(app, ["replay", str(tmp_path), "--json", str(tmp_path / "out.json")])
    assert "gap: before audit-000000000003.jsonl a file is missing" in done.stdout
    assert f"gap: {WORKLOAD}: nothing for 5.17 min" in done.stdout
    assert "audit-000000000001.jsonl: line 62: " in done.stdout
    told = json.loads((tmp_path / "out.json").read_text())
    assert (told["bad_lines"], len(told["gaps"])) == (1, 2)
    assert told["different"] > len(told["differences"]) == 10


def test_other_settings_are_compared_in_words_in_json_and_on_a_page(audit: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "out.json", tmp_path / "out.html"
    given = ["replay", str(audit), "--set", "max_replicas=8", "--json", str(out), "--report", str(page)]
    done = run(app, given)
    assert done.exit_code == 0, done.output
    assert done.stderr == f"wrote {out}\nwrote {page}\n"
    assert f"{WORKLOAD} with max_replicas=8:" in done.stdout
    for words in ("decisions differ", "what happened", "as recorded", "otherwise", "optimum (D2)", "× 1.00"):
        assert words in done.stdout
    (told,) = json.loads(out.read_text())["comparisons"]
    assert told["workload"] == WORKLOAD
    assert told["other"]["account"]["held_hours"] < told["as_is"]["account"]["held_hours"]
    html = page.read_text()
    assert "What max_replicas=8 would have changed" in html
    assert "src=" not in html
    assert "href=" not in html


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["replay"], "replaying 1 file, 0.4 MB"),
        (["replay", "--set", "max_replicas=8"], "replaying 1 file, 0.4 MB"),
        (["report"], "counting 1 file, 0.4 MB again"),
    ],
    ids=["replay", "replay under other settings", "report"],
)
def test_how_far_it_is_is_drawn_on_a_terminal_only(
    audit: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    plain = run(app, [*arguments, str(audit)])
    assert (plain.exit_code, plain.stderr) == (0, "")
    monkeypatch.setenv("FORCE_COLOR", "1")
    drawn = run(app, [*arguments, str(audit)], env={"COLUMNS": "100"})
    assert words in drawn.stderr
    assert "%" in drawn.stderr
    assert drawn.stdout == plain.stdout


@pytest.mark.parametrize("command", ["replay", "report"])
def test_what_was_found_is_told_even_where_it_cannot_be_kept(
    audit: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def full(_: Path, __: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = audit.parent / "out.json"
    monkeypatch.setattr(Path, "replace", full)
    done = run(app, [command, str(audit), "--json", str(out)])
    assert done.exit_code == 1
    told = f"error: {out}: was not written (No space left on device); make room, or give a file elsewhere\n"
    assert done.stderr == told
    assert done.stdout == run(app, [command, str(audit)]).stdout != ""
    assert [path.name for path in audit.parent.iterdir()] == [audit.name]


@pytest.mark.parametrize("command", ["replay", "report"])
def test_ctrl_c_writes_nothing_and_ends_with_130(audit: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("autoscaler.hindsight.rerun.Rerun.step_rows", interrupted)
    monkeypatch.setattr("autoscaler.hindsight.rerun.Rerun.step", interrupted)
    out = audit.parent / "out.json"
    done = run(app, [command, str(audit), "--json", str(out)])
    assert (done.exit_code, done.stderr, done.stdout) == (130, "interrupted: nothing was written\n", "")
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--report", "x.html"], "nothing to plot without --set"),
        (["--exact"], "--exact: only with audit files and --set KEY=VALUE"),
        (["--set", "nonsense=1"], "nonsense"),
        (["--set", "max_replicas=3", "--set", "max_replicas=4"], "--set max_replicas: given twice"),
        (["--set", "min_replicas=50", "--set", "max_replicas=2"], "--set min_replicas: 50 is above max_replicas: 2"),
        (["--set", "min_replicas=101"], "--set min_replicas: 101 is above max_replicas: 40"),
        (["--days", "7", "--token-file", "t"], "--days, --token-file: only with --prometheus"),
        (["--selector", 'job="a"', "--metric", "running=r"], "--selector, --metric: only with --prometheus"),
        (["--ca-file", "c", "--config", "s", "--query-timeout", "5"], "--config, --ca-file, --query-timeout: only"),
        (["--prometheus", "http://127.0.0.1:1", "--workload", "a/b"], "--prometheus: give --workload NS/NAME with it"),
        (["--set", "slo=3", "--set", "slo.wait_s=5"], "--set slo.wait_s: given twice"),
        (["--set", "slo.wait_s=5", "--set", "slo={}"], "--set slo: given twice"),
        (["--workload", "prod/other"], "audit-000000000001.jsonl; left out, all that are there are told"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(audit: Path, arguments: list[str], words: str) -> None:
    done = run(app, ["replay", str(audit), *arguments])
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_report_on_a_file_says_what_cannot_be_told_and_writes_json_and_a_page(tmp_path: Path) -> None:
    audit = write(tmp_path / "audit.jsonl", lines(active=False))
    out, page = tmp_path / "out.json", tmp_path / "out.html"
    done = run(app, ["report", str(audit), "--json", str(out), "--html", str(page)])
    assert done.stderr == f"wrote {out}\nwrote {page}\n"
    assert done.exit_code == 0, done.output
    assert "Cannot tell what would have been saved: too little of what happened" in done.stdout
    assert "as it happened" in done.stdout
    assert "forecast: " in done.stdout
    (told,) = json.loads(out.read_text())
    assert (told["workload"], told["estimate"]["doubt"]) == (WORKLOAD, "TOO_SHORT")
    assert "Beside what happened" in page.read_text()


def test_a_report_on_files_asks_no_controller(audit: Path) -> None:
    asked = ["--server", "http://127.0.0.1:1", "--namespace", "prod"]
    done = run(app, ["report", str(audit), *asked])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --server, --namespace: only to ask the running controller")
    kept = run(app, ["report", str(audit)], env={"HEADROOM_SERVER": "http://127.0.0.1:1"})
    assert kept.exit_code == 0, kept.output


def test_the_keys_that_can_be_set_are_all_in_the_help() -> None:
    told = run(app, ["replay", "--help"], env={"COLUMNS": "200"}).stdout
    objectives = {f"slo.{name}" for name in Slo.model_fields}
    assert {key for key in {*Policy.model_fields, *objectives} - {"slo"} if key not in told} == set()


def test_a_floor_for_a_while_can_be_tried(audit: Path) -> None:
    event = 'events=[{"from_s": 0, "to_s": 600, "floor": 9}]'
    done = run(app, ["replay", str(audit), "--set", event])
    assert done.exit_code == 0, done.output
    assert "(NO_SIGNAL) → 9 (EVENT_FLOOR)" in done.stdout
    assert " → EVENT_FLOOR: a known event asks for at least this" in done.stdout


def test_a_past_out_of_prometheus_is_asked_for_as_preflight_asks(audit: Path, tmp_path: Path) -> None:
    given = ["replay", "--prometheus", "http://127.0.0.1:1", "--workload", "a/b"]
    refused = {
        "--selector": ('x="1"} or up{', "no matcher"),
        "--metric": ("speed=x", "'speed' is no signal"),
        "--ca-file": (str(tmp_path / "none"), "no certificates in"),
        "--days": ("0", "--days: 0"),
    }
    for option, (value, words) in refused.items():
        done = run(app, [*given, option, value])
        assert (done.exit_code, words in done.stderr) == (2, True), done.output
    named = run(app, ["replay", "--prometheus", "main", "--workload", "a/b", "--token-file", str(audit)])
    assert "--prometheus main: the settings name no such endpoint" in named.stderr


def test_a_report_on_a_workload_that_is_not_there_is_refused(tmp_path: Path) -> None:
    audit = write(tmp_path / "audit.jsonl", lines())
    done = run(app, ["report", str(audit), "--workload", "prod/other"])
    assert done.exit_code == 2
    assert "--workload prod/other: not in" in done.stderr
    assert "; left out, all that are there are told" in done.stderr


def test_an_hour_that_was_counted_in_part_is_drawn_where_it_was_and_by_what_was_held_in_it() -> None:
    """Eleven replicas from 00:50 on: 1.8 replica-hours in the first hour, which are eleven all the same."""
    first = HourRow(3600.0, 600.0, 60.0, 11 / 6, 0.5, 0.0, 0.0, 0.0)
    second = HourRow(7200.0, 3600.0, 360.0, 11.0, 3.0, 0.0, 0.0, 0.0)
    told = estimate(from_s=3000.0, to_s=7200.0, hours=(first, second))
    html = page([Past("prod/chat", told, None)])
    (drawn,) = json.loads(html.split('id="content">')[1].split("</script>")[0])
    assert drawn["x"] == [3000.0, 3600.0, 7200.0]
    assert [series["values"][0] for series in drawn["plots"][0]["series"]] == [11.0, 3.0]


def test_a_workload_of_which_nothing_was_counted_yet_is_told_with_the_reason(tmp_path: Path) -> None:
    audit, out = write(tmp_path / "audit.jsonl", lines()[:3]), tmp_path / "out.json"
    done = run(app, ["report", str(audit), "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert "Cannot tell what would have been saved: what one replica carries was not measured yet." in done.stdout
    assert "counted" not in done.stdout
    (told,) = read_answer(out.read_bytes(), "/api/past")  # as the running controller answers
    assert told.estimate is not None
    assert (told.estimate.from_s, told.estimate.doubt) == (None, "UNCALIBRATED")
