"""`headroom simulate` as a person meets it: the files it promises, the errors it gives, and nothing half-written."""

import json
import resource
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from autoscaler.cli import simulating
from autoscaler.cli.main import app
from autoscaler.cli.output import write_atomically, write_together
from autoscaler.cli.progress import Meter, amount, announce
from autoscaler.errors import HeadroomError
from autoscaler.sim.contest import ABLATIONS, parse_policies
from autoscaler.sim.rivals import RIVALS

KEYS = {
    "attainment", "gpu_hours", "ratio_d1", "ratio_d2", "direction_changes_per_day", "starts_per_day", "recovery_s",
    "coverage", "seed", "command", "settled",
}  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Fifteen minutes of requests, twice as many from the tenth minute on."""
    rng = np.random.default_rng(5)
    instants = np.sort(np.concatenate((rng.uniform(0, 900, 2700), rng.uniform(600, 900, 900))))
    path = tmp_path / "in" / "trace.csv"
    path.parent.mkdir()
    rows = "".join(f"{at_s:.3f},m,,100,20\n" for at_s in instants)
    path.write_text("arrival_s,model,tenant,prompt_tokens,output_tokens\n" + rows)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An empty folder for what is written."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def simulate(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["simulate", *(str(argument) for argument in arguments)])


def scores(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    decoded: dict[str, Any] = json.loads(result.stdout)
    return decoded


def test_every_policy_gets_the_figures_of_the_contract(trace: Path):
    found = scores(simulate("--trace", trace, "--warmup", 60, "--policy", "headroom,kpa,static", "--json", "-"))
    assert list(found) == ["headroom", "kpa", "static"]
    for record in found.values():
        assert record.keys() >= KEYS
        assert record["gpu_hours"].keys() == {"serving", "warming", "idle"}
        assert 0 <= record["attainment"] <= 1
    assert found["headroom"]["instance"]["requests"] == 3600
    assert found["static"]["knob"] == list(RIVALS["static"].DEFAULT)


def test_a_persons_table_names_policies_bounds_and_seed(trace: Path):
    result = simulate("--trace", trace, "--warmup", 60, "--policy", "hpa", "--seed", 7)
    assert result.exit_code == 0
    assert "seed 7" in result.stdout
    assert all(word in result.stdout for word in ("hpa", "D1", "D2", "GPU-hours", "in time"))


def test_json_on_stdout_stands_alone(trace: Path):
    result = simulate("--trace", trace, "--warmup", 60, "--policy", "hpa", "--json", "-")
    assert scores(result).keys() == {"hpa"}
    assert "GPU-hours" in result.stderr


def test_a_timeline_has_one_row_per_second(trace: Path, out: Path):
    assert simulate("--trace", trace, "--warmup", 60, "--policy", "kpa", "--timeline", out / "t.csv").exit_code == 0
    header, *rows = (out / "t.csv").read_text().splitlines()
    assert header == "now_s,workload,desired,ready,starting,arrivals,waiting"
    assert [row.split(",")[0] for row in rows[:3]] == ["0", "1", "2"]
    assert len(rows) == 900
    assert sum(float(row.split(",")[5]) for row in rows) == 3600


def test_several_policies_get_a_timeline_each(trace: Path, out: Path):
    result = simulate("--trace", trace, "--warmup", 60, "--policy", "kpa,hpa", "--timeline", out / "t.csv")
    assert {path.name for path in out.iterdir()} == {"t-kpa.csv", "t-hpa.csv"}
    assert "t-kpa.csv" in result.stderr


def test_the_report_is_one_file_with_every_policys_figures_and_our_reasons(trace: Path, out: Path):
    result = simulate("--trace", trace, "--warmup", 60, "--policy", "headroom,hpa", "--report", out / "r.html")
    assert result.exit_code == 0, result.output
    assert [path.name for path in out.iterdir()] == ["r.html"]
    page = (out / "r.html").read_text()
    assert all(name in page for name in ("headroom", "hpa", "target slots ratio 0.7", "optimum (D2)"))
    assert "decisions changed the count" in page
    content = json.loads(page.split('id="content">')[1].split("</script>", maxsplit=1)[0])
    ours, rival = (run["forecast"] for run in content["runs"])
    assert rival is None, "it forecasts nothing"
    assert 1.0 < max(value for value in ours["high"] if value is not None) < 20.0, "3 requests/s, then 6"
    assert "<span>--policy</span> <span>headroom,hpa</span>" in page
    assert "src=" not in page
    assert "href=" not in page


def test_the_same_command_gives_the_same_bytes(trace: Path, out: Path):
    arguments = ["--trace", trace, "--warmup", 60, "--warmup-p90", 90, "--failed-starts", 0.2, "--seed", 3]
    for name in ("a.json", "b.json"):
        assert simulate(*arguments, "--policy", "headroom,hpa", "--json", out / name).exit_code == 0
    assert (out / "a.json").read_bytes() == (out / "b.json").read_bytes()


def test_another_seed_draws_other_starts(trace: Path):
    arguments = ["--trace", trace, "--warmup", 60, "--failed-starts", 0.5, "--policy", "kpa", "--json", "-", "--seed"]
    first, second = (scores(simulate(*arguments, seed))["kpa"] for seed in (1, 2))
    assert first["gpu_hours"] != second["gpu_hours"]
    assert (first["seed"], second["seed"]) == (1, 2)


def test_the_command_in_the_file_gives_the_figures_again(trace: Path):
    first = scores(
        simulate("--trace", trace, "--warmup", 45.5, "--policy", "hpa,kpa", "--slo-wait", 5, "--sweep", "--json", "-")
    )
    for name, record in first.items():
        program, sub_command, *rest = shlex.split(record["command"])
        assert (program, sub_command) == ("headroom", "simulate")
        assert scores(simulate(*rest))[name] == record


def test_a_figure_of_many_digits_stands_in_the_command_whole(trace: Path):
    given = ["--trace", trace, "--warmup", 61.23456789, "--capacity-rps", 0.123456789, "--policy", "static"]
    record = scores(simulate(*given, "--json", "-"))["static"]
    again = scores(simulate(*shlex.split(record["command"])[2:]))["static"]
    assert record["instance"]["capacity_rps"] == again["instance"]["capacity_rps"] == 0.123456789
    assert again == record


def test_a_sweep_reports_the_cheapest_setting_and_the_cost_at_the_goal(trace: Path):
    record = scores(simulate("--trace", trace, "--warmup", 60, "--policy", "static", "--sweep", "--json", "-"))[
        "static"
    ]
    swept = record["swept"]
    assert swept["settings"] == len(RIVALS["static"].KNOBS)
    assert swept["cheapest"]["knob"] == record["knob"]
    assert swept["cheapest"]["attainment"] == record["attainment"] >= 0.99
    assert swept["at_goal"]["gpu_hours"] <= swept["cheapest"]["gpu_hours"] == sum(record["gpu_hours"].values())


def test_requests_followed_one_by_one_have_latencies(trace: Path):
    result = simulate(
        "--trace",
        trace,
        "--warmup",
        60,
        "--policy",
        "static",
        "--model",
        "requests",
        "--capacity-rps",
        1,
        "--json",
        "-",
    )
    latency = scores(result)["static"]["latency"]
    assert latency["requests"] == 3600
    assert 0 < latency["ttft_s"]["p50"] <= latency["ttft_s"]["p90"] <= latency["ttft_s"]["p99"]
    assert latency["e2e_s"]["p50"] > latency["ttft_s"]["p50"] > latency["tpot_s"]["p50"] > 0
    assert "references, not laws" in scores(result)["static"]["instance"]["bounds"]


PROFILE_ROWS = """model,gpu_model,tp,prompt_tokens,batch,output_tokens,prefill_ms,tpot_ms
slow,h100-80gb,1,128,1,10,500,200
fast,h100-80gb,1,128,1,10,50,20
fast,h100-80gb,1,128,8,10,60,25
"""


def test_a_profile_is_chosen_from_a_file_that_holds_several(trace: Path, out: Path):
    (out / "p.csv").write_text(PROFILE_ROWS)
    run = ("--trace", trace, "--warmup", 60, "--policy", "static", "--model", "requests", "--capacity-rps", 1)
    several = simulate(*run, "--profile", out / "p.csv")
    assert several.exit_code == 2
    assert "fast h100-80gb tp=1; slow h100-80gb tp=1" in several.stderr
    chosen = f"{out / 'p.csv'}#model=fast&gpu=h100-80gb&tp=1&kv-tokens=100000&slots=4"
    latency = scores(simulate(*run, "--profile", chosen, "--json", "-"))["static"]["latency"]
    assert latency["tpot_s"]["p50"] == pytest.approx(0.02, rel=0.2)


def test_without_a_given_capacity_the_engine_is_measured(trace: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("autoscaler.sim.requestlevel.measure_capacity_rps", lambda *_: 2.5)
    result = simulate("--trace", trace, "--warmup", 9, "--policy", "static", "--model", "requests", "--json", "-")
    instance = scores(result)["static"]["instance"]
    assert instance["capacity_rps"] == 2.5
    assert instance["capacity_source"].startswith("measured on llama2-70b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--policy kpa", "either --trace FILE or --workload NAME"),
        ("--policy kpa --workload ramp --trace x.csv", "either --trace FILE or --workload NAME"),
        ("--policy kpa --workload nope", "code-burst, chat-diurnal"),
        ("--policy vpa --workload ramp", "'vpa' is not known; choose from headroom, headroom-forecast"),
        ("--policy , --workload ramp", "'' is not known"),
        ("--policy kpa --trace nowhere.csv", "nowhere.csv: cannot be read"),
        ("--policy kpa --workload ramp --day 1", "only a trace has days"),
        ("--policy kpa --trace nowhere.csv --day 3-1", "'3-1' cannot be used"),
        ("--policy kpa --trace nowhere.csv#day=1 --day 2", "'day=2' cannot be used"),
        ("--policy kpa --workload ramp --json nowhere/x.json", "nowhere/x.json: cannot be written"),
        ("--policy kpa --workload ramp --json x.json --timeline x.json", "x.json: asked for twice"),
        ("--policy kpa --workload ramp --json x.json --report sub/../x.json", "x.json: asked for twice"),
        ("--policy kpa --workload ramp --json .", "it is a folder"),
        ("--policy kpa --workload ramp --report nowhere/x.html", "nowhere/x.html: cannot be written"),
        ("--policy kpa --workload ramp --profile p.csv", "add --model requests"),
        ("--policy kpa --workload ramp --model requests --profile p.csv#gpus=4", "'gpus=4' cannot be used"),
        ("--policy kpa --workload ramp --model requests --sweep", "swept on the fluid model"),
        ("--policy kpa --workload ramp --sweep --min-replicas 2", "leave out --min-replicas"),
        (
            "--policy kpa --workload ramp --sweep --processes 0",
            "--processes: 0 cannot be used; it must be a number above 0",
        ),
        ("--policy kpa --workload ramp --min-replicas -1", "--min-replicas: -1 cannot be used; it must be 0 or more"),
        (
            "--policy kpa --workload ramp --min-replicas 9 --max-replicas 8",
            "--min-replicas: 9 is above --max-replicas 8",
        ),
        (
            "--policy headroom --workload ramp --min-replicas 9 --max-replicas 8",
            "--min-replicas: 9 is above --max-replicas 8",
        ),
        (
            "--policy kpa --workload ramp --max-replicas 0",
            "--max-replicas: 0 cannot be used; it must be a number above",
        ),
        ("--policy headroom --workload ramp --tick 0", "policy.tick_s: 0.0 is out of range"),
        ("--policy kpa --workload ramp --slo-wait 0", "--slo-wait: 0 cannot be used; it must be a number above 0"),
        ("--policy kpa --workload ramp --capacity-rps nan", "--capacity-rps: nan cannot be used"),
        ("--policy kpa --workload ramp --capacity-rps 0", "--capacity-rps: 0 cannot be used"),
        (
            "--policy kpa --workload ramp --failed-starts 1.5",
            "--failed-starts: 1.5 cannot be used; it must be a share of 0 or",
        ),
        ("--policy kpa --workload ramp --replicas-at-peak nan", "--replicas-at-peak: nan cannot be used"),
        ("--policy kpa --workload step-x3 --replicas-at-peak inf", "--replicas-at-peak: inf cannot be used"),
        ("--policy kpa --workload ramp --warmup-p90 1", "--warmup-p90: 1 is below --warmup 60, which half of the"),
        ("--policy kpa --workload ramp --seed -1", "--seed: -1 cannot be used"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    arguments: str, message: str, out: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(out)
    result = simulate("--warmup", 60, *arguments.split())
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("output", ["--report", "--json", "--timeline"])
def test_no_output_replaces_what_is_read(output: str, trace: Path):
    """Also under another name of the same file, and with a part of it chosen."""
    before = trace.read_bytes()
    other = trace.with_name("other.csv")
    other.symlink_to(trace)
    result = simulate("--trace", f"{trace}#rate=2", "--policy", "kpa", "--warmup", 60, output, other)
    assert result.exit_code == 2
    assert f"{other}: it is read and would be replaced" in result.stderr
    assert trace.read_bytes() == before


@pytest.mark.parametrize("warmup", ["nan", "inf", "-1"])
def test_an_absurd_warm_up_is_refused(warmup: str):
    result = simulate("--workload", "ramp", "--policy", "kpa", "--warmup", warmup)
    assert result.exit_code == 2
    assert f"error: --warmup: {warmup} cannot be used; it must be 0 or more" in result.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "trace.csv"),
        (b"when,what\n1,2\n", "line 1: another format"),
        (b"arrival_s,model,tenant,prompt_tokens,output_tokens\n1,m,,5,nan\n", "line 2"),
        (b"arrival_s,model,tenant,prompt_tokens,output_tokens\n5,m,,5,5\n1,m,,5,5\n", "line 3"),
        (b"\x89PNG\r\n\x1a\n\x00", "trace.csv"),
    ],
    ids=["empty", "unknown columns", "a NaN", "time going backwards", "a picture"],
)
def test_a_bad_trace_is_refused_by_file_and_line(trace: Path, out: Path, content: bytes, message: str):
    trace.write_bytes(content)
    result = simulate("--trace", trace, "--warmup", 60, "--policy", "kpa", "--json", out / "s.json")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {trace}")
    assert message in result.stderr
    assert list(out.iterdir()) == []


def test_ctrl_c_ends_with_130_and_leaves_old_files_as_they_were(
    trace: Path, out: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    (out / "s.json").write_text("old")
    monkeypatch.setattr(simulating, "enter", interrupted)
    result = simulate("--trace", trace, "--warmup", 60, "--policy", "kpa", "--json", out / "s.json")
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("s.json", "old")]


def test_a_file_that_fails_half_way_keeps_its_old_content(out: Path):
    (out / "a").write_text("old")
    with write_atomically(out / "a") as file:
        file.write(b"half")
        assert (out / "a").read_text() == "old"
    assert (out / "a").read_text() == "half"
    with pytest.raises(TypeError), write_atomically(out / "a") as file:
        file.write("no bytes")  # type: ignore[call-overload]  # the error is what is tested
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("a", "half")]


def test_files_written_together_appear_together_or_not_at_all(out: Path):
    with pytest.raises(HeadroomError, match=r"gone/b: was not written \(No such file or directory\); make"):
        write_together({out / "a": "1", out / "gone" / "b": "2"})
    assert list(out.iterdir()) == []
    write_together({out / "a": "1", out / "b": "2"})
    assert {path.name: path.read_text() for path in out.iterdir()} == {"a": "1", "b": "2"}


def test_what_does_not_fit_is_named_and_leaves_nothing_behind(out: Path):
    (out / "b").write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(HeadroomError, match=r"b: was not written \(File too large\); make room, or give"):
            write_together({out / "a": "short", out / "b": "x" * 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name: path.read_text() for path in out.iterdir()} == {"b": "old"}


def test_a_bar_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def drawn() -> str:
        with Meter(2) as meter:
            meter.begin("kpa")
            meter.move(0.5)
        return capsys.readouterr().err

    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert drawn() == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "kpa" in drawn()


def test_work_that_has_no_bar_is_announced_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], out: Path
):
    (out / "a").write_bytes(bytes(1_500_000))
    announce(f"replaying {amount([out / 'a', out / 'gone'])}")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    announce(f"replaying {amount([out / 'a', out / 'gone'])}")
    assert capsys.readouterr().err == "replaying 2 files, 1.5 MB …\n"


def test_groups_of_policies_are_spelled_out_once_each():
    assert parse_policies("kpa, all,kpa") == ("kpa", "headroom", "static", "hpa", "kpa-credit", "llm-d", "perfect")
    assert parse_policies("ablations") == tuple(ABLATIONS)


def test_an_ablation_runs_under_its_own_name(trace: Path):
    found = scores(simulate("--trace", trace, "--warmup", 60, "--policy", "headroom-backlog", "--json", "-"))
    assert found["headroom-backlog"]["command"].endswith("--policy headroom-backlog --json -")


def test_a_floor_holds_for_rivals_too(trace: Path, out: Path):
    simulate("--trace", trace, "--warmup", 60, "--policy", "kpa", "--min-replicas", 70, "--timeline", out / "t.csv")
    rows = (out / "t.csv").read_text().splitlines()[1:]
    assert min(int(row.split(",")[2]) for row in rows) >= 70


def test_a_maximum_below_the_busiest_minute_is_said(trace: Path):
    result = simulate("--trace", trace, "--warmup", 60, "--policy", "kpa", "--max-replicas", 10)
    assert "the busiest minute alone needs 37 replicas, --max-replicas is 10" in result.stderr
