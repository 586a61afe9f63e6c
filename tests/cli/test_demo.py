"""The demo: what it plays, what it refuses, what it prints, and that it ends as it should."""

import asyncio
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler.cli.comparison import Comparison, compare_here, note
from autoscaler.cli.main import app
from autoscaler.cli.plans import SHOWN, make_plan, summary
from autoscaler.cli.playing import Outcome
from autoscaler.cli.screen import Line, print_results, progress
from autoscaler.errors import InputError
from autoscaler.record.stream import Result, Results, StartFrame
from autoscaler.sim.contest import Bounds, make_policy
from autoscaler.sim.simulate import run
from tests.web.builders import decision, workload

DEMO = (sys.executable, "-m", "autoscaler", "demo", "--no-browser")
TABLE = Results(
    "demo/chat",
    7200.0,
    0.99,
    (
        Result("bound", "optimum (D2)", "a bound", None, 90.0, 1.0, None, None),
        Result("ours", "headroom", "live", 0.9951, 99.0, 1.1, 20.0, 30.0),
        Result("rival", "hpa", "target 0.7, as configured", 0.97, 80.0, 0.889, 400.0, 500.0),
    ),
    "what to know",
)


def demo(*arguments: str, timeout_s: float = 55.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DEMO, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False)


def test_without_a_word_two_workloads_are_played_for_the_length_that_fits() -> None:
    plan = make_plan(None, None, speed=240.0, wall_s=60.0, seed=0)
    assert list(plan.instances) == [f"demo/{name}" for name in SHOWN]
    assert {instance.traffic.duration_s for instance in plan.instances.values()} == {14_400.0}
    assert plan.wall_s == 60.0


def test_traffic_that_is_shorter_ends_the_demo_sooner() -> None:
    plan = make_plan(None, "ramp", speed=3600.0, wall_s=60.0, seed=0)
    duration_s = plan.instances["demo/ramp"].traffic.duration_s
    assert plan.wall_s == duration_s / 3600.0 < 60.0


def test_cut_metrics_are_everyones_on_that_traffic() -> None:
    plan = make_plan(None, "ramp", speed=100.0, wall_s=20.0, seed=0, cut_s=90.0)
    assert plan.instances["demo/ramp"].spec.outages == ((1000.0, 1090.0),)


def test_a_trace_is_played_with_a_replicas_capacity_taken_from_the_whole_of_it(tmp_path: Path) -> None:
    trace = tmp_path / "mine.csv"
    rows = [f"{second},m,t,10,10" for second in range(2000)] + [f"{2000 + n / 10},m,t,10,10" for n in range(1000)]
    trace.write_text("arrival_s,model,tenant,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    plan = make_plan(str(trace), None, speed=100.0, wall_s=10.0, seed=0)
    (instance,) = plan.instances.values()
    assert instance.traffic.duration_s == 1000.0
    assert instance.spec.capacity_rps == pytest.approx(10.0 / 37.0, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--speed", "0"), "--speed 0: give a positive number"),
        (("--for", "nan"), "--for nan: give a positive number"),
        (("--for", "1", "--speed", "2"), "at least 600 s are played"),
        (("--cut-metrics", "-1"), "--cut-metrics -1: give seconds of data"),
        (("--workload", "nope"), "nope"),
        (("--workload", "ramp", "--trace", "x.csv"), "either --trace FILE or --workload NAME, and not both"),
        (("--trace", "/nowhere/x.csv"), "/nowhere/x.csv"),
        (("--json", "/nowhere/x.json"), "/nowhere/x.json: cannot be written"),
        (("--port", "70000"), "from 1 to 65535"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_played_is_refused_with_a_remedy(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(app, ["demo", "--no-browser", *arguments])
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert done.output.count("\n") == 1


def test_the_line_tells_what_each_service_needs_has_and_is_getting() -> None:
    starting = (StartFrame("chat-5", 31.0), StartFrame("chat-6", 2.0))
    frames = {
        "demo/chat": workload(60.0, starting=starting, needs=6),
        "demo/dark": workload(60.0, workload="demo/dark", load_rps=None, needs=None),
    }
    text = progress(frames, 3661.0, 12.4, 240.0)
    assert text.startswith("01:01:01 ×240, 12 s left")
    assert "chat: 12 req/s, needs 6, has 4, getting 2" in text
    assert "dark: load unknown, needs ?, has 4" in text


class Screen(io.StringIO):
    """A terminal, as far as a program can tell."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_of_80_columns_no_service_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    frames = {name: workload(60.0, workload=f"demo/{name}", needs=6) for name in ("chat-diurnal", "spike-train")}
    screen = Screen()
    with Line(screen) as line:
        line.tell(progress(frames, 3661.0, 12.4, 240.0), 0.5, 0.0)
    for name in ("chat-diurnal", "spike-train"):
        assert f" {name}: 12 req/s, needs 6, has 4, getting 1" in screen.getvalue()


def test_outside_of_a_terminal_plain_lines_come_now_and_then() -> None:
    stream = io.StringIO()
    with Line(stream) as line:
        for second in range(25):
            line.tell(f"at {second} [s]\nchat", second / 25, float(second))
    assert stream.getvalue().splitlines() == ["at 0 [s]  chat", "at 10 [s]  chat", "at 20 [s]  chat"]


def test_the_table_holds_every_row_and_marks_who_missed_the_objective(capsys: pytest.CaptureFixture[str]) -> None:
    print_results([TABLE], warnings=["the machine was slow"])
    text = capsys.readouterr().out
    assert "demo/chat: us, the peers and the optimum on the same 2 h of traffic" in text
    assert re.search(r"headroom\s+live\s+99\.51 %\s+99\.0\s+× 1\.100\s+20\s+30", text)
    assert re.search(r"hpa\s+target 0\.7, as configured\s+97\.00 % !", text)
    assert re.search(r"optimum \(D2\)\s+a bound\s+–\s+90\.0\s+× 1\.000\s+–\s+–", text)
    assert "what to know" in text
    assert "note: the machine was slow" in text


def test_what_to_know_of_all_tables_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_results([TABLE, replace(TABLE, workload="demo/other"), replace(TABLE, note="something else")])
    text = capsys.readouterr().out
    assert text.count("the optimum on the same 2 h") == 3
    told = ["demo/other", "what to know", "something else"]
    assert re.findall("|".join(told), text) == told


def test_a_note_is_broken_between_words(capsys: pytest.CaptureFixture[str]) -> None:
    words = "so many words that do not fit "
    print_results([], warnings=[words * 9])
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 132
    assert set(told.split()) == {"note:", *words.split()}


def test_the_outcome_counts_decisions_moves_and_those_that_came_late() -> None:
    plan, outcome = make_plan(None, "ramp", speed=240.0, wall_s=60.0, seed=0), Outcome()
    for tick in range(10):
        after = 5 if tick == 3 else 4
        outcome.take(workload(5.0 * tick, decision=decision(5.0 * tick, 4, after)), 5.0 * tick + 1.0, 5.0)
    assert (outcome.decisions["demo/chat"], outcome.moves["demo/chat"], outcome.warnings(plan)) == (10, 1, [])
    outcome.take(workload(50.0), 61.0, 5.0)
    assert "9% of the decisions came more than 2 ticks after their readings" in outcome.warnings(plan)[0]
    assert "a lower --speed than 240" in outcome.warnings(plan)[0]


@pytest.mark.parametrize(("made", "told"), [(0, "0 decisions"), (3400, "3,400 decisions"), (3419, ""), (3600, "")])
def test_figures_of_a_run_that_skipped_its_decisions_are_told_to_be_about_nothing(made: int, told: str) -> None:
    """Five hours at a tick of 5 s have 3,600 decisions; at a speed of 1e9 they are over before the first one."""
    plan = make_plan(None, "ramp", speed=1e9, wall_s=60.0, seed=0)
    played = Results("demo/ramp", 18000.0, 0.99, TABLE.rows, TABLE.note)
    outcome = Outcome(results=[played], decisions=Counter({"demo/ramp": made}))
    assert bool(told) == bool(outcome.warnings(plan))
    for text in outcome.warnings(plan):
        assert f"could not keep up: {told} were made where 3,600 were due" in text
        assert "a lower --speed than 1e+09" in text


def test_the_json_holds_the_table_and_what_was_seen() -> None:
    plan = make_plan(None, "ramp", speed=240.0, wall_s=60.0, seed=0)
    table = Results("demo/ramp", TABLE.duration_s, 0.99, TABLE.rows, TABLE.note)
    outcome = Outcome(True, [table], {"demo/ramp": workload(9.0)}, Counter({"demo/ramp": 7}), Counter({"demo/ramp": 2}))
    record = json.loads(summary(plan, outcome, "headroom demo --workload ramp"))
    shown = record["workloads"]["demo/ramp"]
    assert (record["command"], record["interrupted"]) == ("headroom demo --workload ramp", True)
    assert [row["policy"] for row in shown["rows"]] == ["optimum (D2)", "headroom", "hpa"]
    assert (shown["decisions"], shown["decisions_that_scaled"], shown["last_frame"]["now_s"]) == (7, 2, 9.0)


def test_the_json_of_a_demo_in_which_nothing_was_decided_yet_has_no_frame() -> None:
    plan = make_plan(None, "ramp", speed=240.0, wall_s=60.0, seed=0)
    table = Results("demo/ramp", TABLE.duration_s, 0.99, TABLE.rows, TABLE.note)
    shown = json.loads(summary(plan, Outcome(True, [table]), "headroom demo"))["workloads"]["demo/ramp"]
    assert (shown["decisions"], shown["last_frame"]) == (0, None)


def test_an_interrupt_before_the_page_is_served_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_: object) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr("autoscaler.cli.playing.play", stopped)
    done = CliRunner().invoke(app, ["demo", "--workload", "ramp", "--for", "10", "--no-browser"])
    assert done.exit_code == 130
    assert "interrupted: nothing was compared" in done.output


def test_the_note_says_how_rivals_were_set() -> None:
    (instance,) = make_plan(None, "ramp", speed=240.0, wall_s=60.0, seed=0).instances.values()
    assert "only hindsight can pick" in note(instance, swept=True)
    assert "not swept" in note(instance, swept=False)
    assert "120 s, nine in ten within 160 s" in note(instance, swept=True)


@pytest.mark.slow
def test_rivals_are_judged_in_child_processes_at_their_setting_and_at_the_best_in_hindsight() -> None:
    plan = make_plan(None, "step-x3", speed=120.0, wall_s=10.0, seed=0)
    ((name, instance),) = plan.instances.items()
    with Comparison(plan.instances) as comparison:
        ours = run(instance.traffic, instance.spec, make_policy("headroom", instance, Bounds()))
        asyncio.run(comparison.finish())
        results = comparison.results(name, ours)
    rows = {(row.policy, row.kind): row for row in results.rows}
    assert results.duration_s == 1200.0
    assert [row.kind for row in results.rows[:2]] == ["bound", "ours"]
    assert {policy for policy, kind in rows if kind == "rival"} == {"static", "hpa", "kpa", "kpa-credit", "llm-d"}
    for (policy, kind), row in rows.items():
        if kind == "swept" and "hindsight" in row.knob and policy != "perfect":
            assert row.attainment_ratio is not None
            assert row.attainment_ratio >= 0.99
            configured = rows[policy, "rival"]
            assert row.gpu_hours <= configured.gpu_hours or (configured.attainment_ratio or 0) < 0.99
        if row.attainment_ratio is not None and row.attainment_ratio >= 0.99:
            assert row.ratio_d2 is not None
            assert row.ratio_d2 >= 1.0, "the bound is below whoever serves the objective"


def test_what_ran_until_an_interrupt_is_compared_at_once_with_the_rivals_as_configured() -> None:
    plan = make_plan(None, "step-x3", speed=120.0, wall_s=10.0, seed=0)
    ((name, instance),) = plan.instances.items()
    ours = run(instance.traffic, instance.spec, make_policy("llm-d", instance, Bounds()))
    results = compare_here(name, instance, ours)
    assert [row.kind for row in results.rows] == ["bound", "ours", *["rival"] * 6]
    assert all("as configured" in row.knob for row in results.rows[2:])
    assert "not swept" in results.note


@pytest.mark.slow
def test_a_comparison_that_is_left_early_leaves_no_process_behind() -> None:
    plan = make_plan(None, "chat-diurnal", speed=3600.0, wall_s=20.0, seed=0)
    with Comparison(plan.instances) as comparison:
        workers = list(comparison._pool._processes or {})
        assert workers
        assert comparison.done[0] < comparison.done[1]
    # Asked of the system: the pool's own thread may have taken the exit status that `is_alive` still waits for.
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.slow
def test_the_whole_demo_ends_by_itself_with_a_table_and_its_json(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    done = demo("--workload", "step-x3", "--for", "8", "--speed", "100", "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Headroom demo: http://127.0.0.1:")
    for word in ("headroom", "optimum (D2)", "best in hindsight", "as configured", "perfect"):
        assert word in done.stdout
    record = json.loads(path.read_text())
    shown = record["workloads"]["demo/step-x3"]
    assert record["command"].startswith("headroom demo") or "demo" in record["command"]
    assert shown["decisions"] >= 100
    assert shown["last_frame"]["now_s"] == pytest.approx(800.0, abs=30.0)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=lambda end: end.name)
def test_an_interrupt_prints_the_table_of_what_ran_and_exits_130(end: signal.Signals) -> None:
    command = [*DEMO, "--workload", "step-x3", "--for", "50", "--speed", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{address}events", timeout=20) as events:
            while not events.readline().startswith(b"event: update"):
                pass
        process.send_signal(end)
        out, err = process.communicate(timeout=45)
    assert process.returncode == 130, err
    assert re.search(r"headroom\s+live, at its defaults", out)
    assert "as configured" in out
    assert "interrupted: the tables are of what ran until then" in out
    assert "Traceback" not in err


def test_a_port_in_use_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = demo("--port", str(port))
    assert done.returncode == 2
    assert done.stderr == (
        f"error: --port {port}: another program listens there; give another port, or leave --port out to take a free "
        "one\n"
    )


def test_a_plan_without_data_time_is_refused() -> None:
    with pytest.raises(InputError, match="at least 600 s"):
        make_plan(None, None, speed=1.0, wall_s=60.0, seed=0)
