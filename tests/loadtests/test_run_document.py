"""A measured run, judged: in time, recovery, GPU-hours by state, beside the prediction, as JSON and as a page."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from autoscaler.adapters.engines.polling import Lane, phase_of
from autoscaler.adapters.engines.targets import ScrapeTarget
from loadtests.run import command, standing, verdict
from loadtests.run.course import Course, CourseError
from loadtests.run.document import Document, advised, as_json, document, reread, turn_s, turns_s
from loadtests.run.measured import figures, gpu_hours
from loadtests.run.page import page
from loadtests.run.pages import ByPages
from loadtests.run.pods import Life
from loadtests.run.predicted import Instants, Prediction, predicted
from loadtests.run.reading import read_scenario
from loadtests.run.scenario import Make, Scaling, Scenario
from loadtests.run.verdict import Cause
from loadtests.run.watched import Sample
from loadtests.run.words import lines
from loadtests.traffic.report import Run
from loadtests.traffic.sender import Ended
from loadtests.traffic.tally import Tally
from loadtests.traffic.target import Target
from tests.conftest import ROOT

DOUBLING = ROOT / "loadtests" / "scenarios" / "doubling.yaml"
START_S = 1000.0
"""When the load began, on the event loop's clock."""


def life(name: str, begun_s: float, ready_s: float | None, gone_s: float | None = None) -> Life:
    at = [None if s is None else START_S + s for s in (ready_s, gone_s, gone_s)]
    return Life(name, START_S + begun_s, ready_s=at[0], gone_s=at[1], ended_s=at[2])


def decision(at_s: float, before: int, after: int) -> dict[str, object]:
    words = f"load/chat: {before} → {after} <b>because</b> 12 wait"
    return {"now_s": 5000.0 + at_s, "workload": "load/chat", "seen_replicas": before, "replicas": after,
            "verdict": "SCALE" if before != after else "HOLD", "reason": "BACKLOG", "text": words}  # fmt: skip


def course(scenario: Scenario, *, ended: str = "done", until_s: float = 150.0, late_s: tuple[float, float]) -> Course:
    """A run of two replicas and, from 60 s on, two more; requests due within `late_s` got their token after 9 s."""
    schedule, tally = scenario.schedule(), Tally()
    rows = []
    for number, due_s in enumerate(schedule.due_s.tolist()):
        ttft_s = 9.0 if late_s[0] <= due_s < late_s[1] else 0.2
        if ended == "done" or due_s + ttft_s < until_s:
            rows.append(Ended(number, due_s, due_s + 10.0, 500, 100, ttft_s, ""))
    samples = [
        Sample(
            at_s=float(at), desired=2 if at < 40 else 4, ready=2 if at < 60 else 4, starting=2 if 40 <= at < 60 else 0,
            leaving=0, waiting=30 if 50 <= at < 80 else 0, running=20, kv_used_ratio=0.99 if at == 55 else 0.5,
            busy_s=1.5 * at, scaler_cpu_s=0.25 * at, scaler_rss_bytes=150 * 2**20, harness_cpu_s=0.1 * at,
        )
        for at in range(int(until_s) + 1)
    ]  # fmt: skip
    lives = [life("a", -5.0, -4.0), life("b", -5.0, -4.0), life("c", 40.0, 60.0), life("d", 40.0, 60.0, 140.0)]
    run = Run("loadtests run", 0, Target("http://127.32.0.1:8000"), "model", schedule, ended, until_s, (3.0,))
    decided = [decision(5.0, 2, 2), decision(40.0, 2, 4)]
    return Course(run, tally, 5000.0, samples, lives, START_S, START_S + until_s, rows, decided)


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return read_scenario(DOUBLING)


@cache
def told() -> Prediction:
    return predicted(read_scenario(DOUBLING), DOUBLING.parent, (0,))


def judged(scenario: Scenario, **given: object) -> Document:
    late_s = given.pop("late_s", (0.0, 0.0))
    return document(scenario, DOUBLING, course(scenario, late_s=late_s, **given), told())  # type: ignore[arg-type]


def test_the_page_says_whose_engine_served(scenario: Scenario) -> None:
    assert "own, vllm pages" in page([judged(scenario)], "")
    other = msgspec.structs.replace(scenario, engine=msgspec.structs.replace(scenario.engine, make=Make.DYNAMO))
    assert "Dynamo&#x27;s simulated vLLM" in page([judged(other)], "")


def test_gpu_hours_are_what_pods_held_within_the_loads_time_by_state(scenario: Scenario) -> None:
    hours = judged(scenario).measured.gpu_hours
    assert hours.warming * 3600 == pytest.approx(2 * 20)
    assert hours.serving * 3600 == pytest.approx(1.5 * 150)
    assert hours.total * 3600 == pytest.approx(2 * 150 + 110 + 100)


def test_recovery_runs_from_the_onset_to_the_last_late_request(scenario: Scenario) -> None:
    assert scenario.onset_s is not None
    found = judged(scenario, late_s=(50.0, 70.0))
    late = [due for due in scenario.schedule().due_s if 50.0 <= due < 70.0]
    assert found.measured.recovery_s == pytest.approx(late[-1] - scenario.onset_s)
    assert found.measured.attainment_ratio == pytest.approx(1.0 - len(late) / len(scenario.schedule()))
    assert judged(scenario).measured.recovery_s == 0.0


def test_what_late_requests_waited_for_is_named_second_by_second(scenario: Scenario) -> None:
    found = judged(scenario, late_s=(50.0, 70.0))
    causes = dict(found.causes)
    assert causes.pop(Cause.MEMORY) == 1, "the second in which the cache was full"
    assert causes.pop(Cause.WARM_UP) in {8, 9}, "from the first late request to 60 s, but for that second"
    assert 15 <= causes.pop(Cause.UNORDERED) <= 19, "four of six replicas were ready and requests waited"
    assert causes == {}
    assert any("warm-up: replicas were ordered and could not serve yet (" in line for line in lines(found))
    assert judged(scenario).causes == {}
    assert any(line.endswith("nobody was late") for line in lines(judged(scenario)) if "bottleneck" in line)


@pytest.mark.slow
def test_what_would_have_helped_is_told_where_too_many_were_late(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "RUNS", range(1))
    assert advised(judged(scenario), DOUBLING.parent).what_ifs == ()
    found = advised(judged(scenario, late_s=(50.0, 70.0)), DOUBLING.parent)
    as_it_was, pool, floor, forecast = found.what_ifs
    assert sum(line.startswith("what if") for line in lines(found)) == 4
    assert "What would have helped" in page([found], "")
    assert as_it_was.change == "as it was, by fewer readings than the prediction"
    assert pool.change == "a warm pool of 2, as many as were starting at once: a start is only graphs, 5 s"
    assert floor.change.startswith("a floor of ")
    assert floor.figures.attainment_ratio >= 0.99
    assert pool.kept_gpu_hours == pytest.approx(2 * 150 / 3600)
    assert forecast.change == f"a forecast that asks for {forecast.change.split()[5]} replicas 21 s before the rise"
    assert forecast.figures.attainment_ratio >= 0.99
    assert pool.figures.gpu_hours.warming < as_it_was.figures.gpu_hours.warming


def test_a_failed_request_is_late_though_its_first_token_was_not() -> None:
    made = figures(
        due_s=np.array([0.0, 1.0, 2.0, 3.0]), ttft_s=np.array([0.1, np.nan, 5.0, 5.1]), objective_s=5.0, onset_s=1.0,
        hours=gpu_hours(0.0, 7200.0, 3600.0, 2), desired=np.array([2, 4, 3]),
    )  # fmt: skip
    assert (made.attainment_ratio, made.recovery_s, made.most_replicas, made.last_replicas) == (0.5, 2.0, 4, 3)
    assert (made.gpu_hours.serving, made.gpu_hours.idle) == (2.0, 2.0)


def test_what_the_simulator_misses_is_said_with_how_much(scenario: Scenario) -> None:
    found = judged(scenario, late_s=(50.0, 70.0))
    rows = {row.name: row for row in found.fidelity}
    assert found.prediction is not None
    told, measured = found.prediction.figures, found.measured
    assert rows["GPU-hours"].apart == pytest.approx(100 * (told.gpu_hours.total / measured.gpu_hours.total - 1))
    assert rows["in time, %"].apart == pytest.approx(100 * (told.attainment_ratio - measured.attainment_ratio))
    for row in found.fidelity:
        assert row.apart is not None
        assert row.held is (abs(row.apart) <= row.allowed)
        assert any(("held" if row.held else "MISSED") in line and row.name in line for line in lines(found))


def test_what_the_simulator_says_of_the_runs_own_instants_stands_beside_and_is_not_judged(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    def again(*_: object, instants: Instants) -> Prediction:
        asked.append(instants)
        return replace(told(), figures=replace(told().figures, attainment_ratio=0.5, recovery_s=77.0))

    monkeypatch.setattr("loadtests.run.document.predicted", again)
    plain = judged(scenario, late_s=(50.0, 70.0))
    plain.course.began_at_s = 1_795_433_814.125
    assert reread(plain, DOUBLING.parent) is plain, "nobody knows the uids of its pods"
    plain.course.lives[0].uid = "b"
    found = reread(plain, DOUBLING.parent)
    assert asked == [Instants((turn_s("b", START_S) or 0.0,), 4.125)]
    assert [row.turned for row in plain.fidelity] == [None, None, None]
    assert [row.turned for row in found.fidelity] == [told().figures.gpu_hours.total, 50.0, 77.0]
    assert [(row.apart, row.held) for row in found.fidelity] == [(row.apart, row.held) for row in plain.fidelity]
    assert sum(line.endswith("; at this run's own instants: 77") for line in lines(found)) == 1
    assert as_json(found)["fidelity"][2]["turned"] == 77.0  # type: ignore[index]
    assert as_json(found)["began_s"] == 4.125
    assert "at this run&#x27;s own instants: 50" in page([found], "")
    cut = judged(scenario, ended="interrupted", until_s=70.0)
    cut.course.lives[0].uid = "b"
    assert reread(cut, DOUBLING.parent) is cut


def test_only_pods_that_served_when_the_load_began_tell_its_instants(scenario: Scenario) -> None:
    whole = judged(scenario).course
    for life, uid in zip(whole.lives, ("3f1c0f5e-9a51-4f60-8a39-5a1f2f8a3d11", "b", "c", "d"), strict=True):
        life.uid = uid
    first = [turn_s(uid, START_S) for uid in ("3f1c0f5e-9a51-4f60-8a39-5a1f2f8a3d11", "b")]
    assert turns_s(whole) == first
    whole.lives[0].ready_s, whole.lives[1].uid = START_S - 3.0, ""
    assert turns_s(whole) == first[:1]


def test_a_run_that_was_cut_keeps_what_was_known_and_compares_nothing(scenario: Scenario) -> None:
    found = judged(scenario, ended="interrupted", until_s=70.0)
    assert found.fidelity == ()
    assert found.measured.attainment_ratio == 1.0, "who was not late when it was cut is not counted as late"
    assert found.measured.requests == np.count_nonzero(scenario.schedule().due_s < 65.0)
    assert found.measured.gpu_hours.total * 3600 == pytest.approx(2 * 70 + 2 * 30)
    said = page([found], "loadtests run x.yaml")
    assert "Partial report" in said
    assert "Headroom: cut after 70 s of 150 s (interrupted)" in said
    assert any("nothing is compared" in line for line in lines(found))


def test_of_a_run_that_was_cut_before_anybody_could_be_late_no_share_is_told(scenario: Scenario) -> None:
    found = judged(scenario, ended="errors", until_s=4.0)
    assert scenario.policy.ttft >= 4.0
    assert "in time   not known of 0 requests" in lines(found)
    told_of = json.loads(json.dumps(as_json(found), allow_nan=False))["measured"]
    assert (told_of["requests"], told_of["attainment_ratio"], told_of["recovery_s"]) == (0, None, None)
    assert "<td>not known</td>" in page([found], "")
    assert advised(found, DOUBLING.parent).what_ifs == ()


@pytest.mark.parametrize(
    ("until_s", "late_s", "recovered_s"),
    [(40.0, (0.0, 0.0), None), (75.0, (50.0, 75.0), None), (90.0, (50.0, 70.0), 25.0), (75.0, (0.0, 0.0), 0.0)],
    ids=["cut before the rise", "cut while they were late", "cut once all were in time", "nobody was late"],
)
def test_of_a_run_that_was_cut_a_recovery_is_told_only_where_it_came(
    scenario: Scenario, until_s: float, late_s: tuple[float, float], recovered_s: float | None
) -> None:
    found = judged(scenario, ended="interrupted", until_s=until_s, late_s=late_s).measured.recovery_s
    assert found is None if recovered_s is None else found == pytest.approx(recovered_s, abs=1.0)


def test_a_way_that_does_not_come_up_takes_nothing_from_the_one_before(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_: Scenario, way: Scaling, *__: object, **___: object) -> Document:
        if way is Scaling.DIRECT:
            return judged(scenario)
        raise CourseError("what scales does not come up")

    monkeypatch.setattr(command, "_document", run)
    monkeypatch.setattr(standing, "check_parts", lambda *_: None)
    data, html = tmp_path / "out.json", tmp_path / "out.html"
    assert command.main([str(DOUBLING), "--json", str(data), "--html", str(html)], name="compare") == 1
    assert "what scales does not come up" in capsys.readouterr().err
    assert json.loads(data.read_text())["measured"]["attainment_ratio"] == 1.0
    assert "Headroom" in html.read_text()


def test_an_interruption_after_the_load_takes_nothing_of_what_was_measured(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> Document:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_document", lambda *_, **__: judged(scenario, late_s=(50.0, 70.0)))
    monkeypatch.setattr(standing, "check_parts", lambda *_: None)
    monkeypatch.setattr("loadtests.run.document.advised", interrupted)
    data, html = tmp_path / "out.json", tmp_path / "out.html"
    assert command.main([str(DOUBLING), "--json", str(data), "--html", str(html)]) == 130
    assert json.loads(data.read_text())["measured"]["attainment_ratio"] < 1.0


def runs_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, runs: list[Document], *arguments: str
) -> tuple[int, dict[str, Any], str]:
    """Exit code, record and page of `loadtests run` whose runs, one after the other, are these."""
    left = [replace(run, number=number) for number, run in enumerate(runs, start=1)]
    monkeypatch.setattr(command, "_document", lambda *_, **__: left.pop(0))
    monkeypatch.setattr(standing, "check_parts", lambda *_: None)
    monkeypatch.setattr("loadtests.run.document.advised", lambda document, _: document)
    data, html = tmp_path / "out.json", tmp_path / "out.html"
    code = command.main([str(DOUBLING), *arguments, "--json", str(data), "--html", str(html)])
    return code, json.loads(data.read_text()), html.read_text()


def test_of_several_runs_the_middle_of_each_figure_is_judged_and_each_run_is_told(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [judged(scenario, late_s=(50.0, to_s)) for to_s in (80.0, 60.0, 70.0)]
    for run in runs:
        run.course.tally.completed = run.measured.requests
    in_time = sorted(run.measured.attainment_ratio for run in runs)
    code, record, text = runs_told(monkeypatch, tmp_path, runs, "--times", "3")
    said = capsys.readouterr().out
    assert (code, record["loadtest"], len(record["runs"])) == (0, "runs", 3)
    assert [run["measured"]["attainment_ratio"] for run in record["runs"]] == [
        run.measured.attainment_ratio for run in runs
    ]
    assert in_time[0] < in_time[1] < in_time[2]
    assert record["middle"]["runs"] == 3
    assert record["middle"]["measured"]["attainment_ratio"] == in_time[1]
    row = record["middle"]["fidelity"][1]
    assert row["measured"] == pytest.approx(100 * in_time[1])
    assert row["apart"] == pytest.approx(100 * (told().figures.attainment_ratio - in_time[1]))
    assert "The middle of each figure of 3 runs" in said
    assert said.count("predicted in time, %") == 4, "of each run, and of the middle"
    assert "How near the simulator was: The middle of each figure of 3 runs" in text
    assert "Headroom, run 2" in text
    assert text.count('<th scope="col">the simulator, Headroom</th>') == 1, "they have one prediction"


def test_a_run_that_is_cut_ends_those_to_come_and_is_not_in_the_middle(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = judged(scenario), judged(scenario, ended="interrupted", until_s=70.0)
    assert cut.cut
    code, record, _ = runs_told(monkeypatch, tmp_path, [whole, whole, cut, whole], "--times", "4")
    assert (len(record["runs"]), record["middle"]["runs"]) == (3, 2)
    assert code == 130
    _, record, _ = runs_told(monkeypatch, tmp_path, [whole, cut, whole], "--times", "3")
    assert record["middle"] is None, "one run is no middle"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--times", "0"], "--times: 0 is not from 1 to 9"),
        (["--times", "10"], "--times: 10 is not from 1 to 9"),
        (["--times", "3", "--predict-only"], "--times goes without --predict-only"),
    ],
)
def test_a_number_of_runs_that_cannot_be_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([str(DOUBLING), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_record_and_the_page_hold_everything_and_need_nothing(scenario: Scenario) -> None:
    found = judged(scenario, late_s=(50.0, 70.0))
    record = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert record["scope"] == "control loop, not GPU"
    assert record["scenario"]["engine"]["warm-up"] == {"weights": 15.0, "graphs": 5.0}
    assert (len(record["samples"]), record["decisions"][1]["at_s"]) == (151, 40.0)
    assert record["scaler"] == {"cores": 0.25, "most_rss_mib": 150.0}
    text = page([found], "loadtests run x.yaml --json <y>")
    assert "control loop, not GPU" in text
    assert "2 → 4 &lt;b&gt;because" in text
    assert "<b>because" not in text
    assert "http://" not in text.split("<script>")[0]
    assert record["shedding"]["told"] is False
    assert [each["what"] for each in record["moments"]][:2] == ["2 → 4 asked for: BACKLOG", "the load rises"]


def test_the_page_of_a_comparison_names_all_that_scaled_and_how_far_each_came(scenario: Scenario) -> None:
    whole, cut = judged(scenario), judged(scenario, ended="errors", until_s=70.0)
    other = replace(cut, scenario=msgspec.structs.replace(scenario, scaling=Scaling.KEDA_QUEUE))
    text = page([whole, other], "")
    assert "Headroom | KEDA and HPA on the queue" in text
    assert "the whole 150 s | cut after 70 s of 150 s (errors)" in text


def test_a_prediction_is_the_middle_of_each_figure_and_tells_how_far_the_others_lie(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "{title: x, duration: 40s, traffic: {rate: 8, output-tokens: 96}, engine: {slots: 8, warm-up: {graphs: 10s}}, "
        "policy: {ttft: 5s}}"
    )
    made = [predicted(read_scenario(path), tmp_path, (number,)).figures for number in range(4)]
    hours = sorted((figures.gpu_hours for figures in made), key=lambda each: each.total)
    in_time = sorted(figures.attainment_ratio for figures in made)
    whole = predicted(read_scenario(path), tmp_path, range(4))
    assert len(set(in_time)) > 1, "chance makes a difference here"
    assert whole.figures.attainment_ratio == pytest.approx((in_time[1] + in_time[2]) / 2)
    assert whole.figures.gpu_hours == hours[1], "those of a run, whose parts add up, and nothing between two runs"
    assert whole.hours == (hours[0].total, hours[-1].total)


def test_a_simulated_controller_that_is_woken_by_news_decides_as_one_that_looks_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "{title: x, duration: 40s, traffic: {rate: 8, output-tokens: 96}, engine: {slots: 8, warm-up: {graphs: 10s}}, "
        "policy: {ttft: 5s}}"
    )
    monkeypatch.setattr("loadtests.run.predicted.STEP_S", 0.1)
    woken = predicted(read_scenario(path), tmp_path, (0,))
    monkeypatch.setattr(ByPages, "wakes", lambda *_: True)
    always = predicted(read_scenario(path), tmp_path, (0,))
    assert woken.figures == always.figures
    assert woken.ready.tolist() == always.ready.tolist()
    assert len(set(woken.ready.tolist())) > 1


@pytest.mark.parametrize("uid", ["3f1c0f5e-9a51-4f60-8a39-5a1f2f8a3d11", "b", "c"])
def test_a_pod_is_told_with_the_instant_at_which_the_controller_asks_it(scenario: Scenario, uid: str) -> None:
    whole = judged(scenario)
    whole.course.lives[0].uid = uid
    told, unknown, *_ = json.loads(json.dumps(as_json(whole)))["pods"]
    asked_s = (
        Lane(ScrapeTarget("load/chat", "a", uid, "127.32.0.1", 80), phase_of(uid)).next_s(START_S + 3.0, 1.0) - START_S
    )
    assert told["turn_s"] == pytest.approx(asked_s % 1.0, abs=1e-3)
    assert unknown["turn_s"] is None
