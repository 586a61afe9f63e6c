"""The report: one file that needs nothing else, with every figure of every run, written whole or not at all."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoscaler.cli.simulation_report import BINS, ReportRun, report_html, write_report
from autoscaler.core.reasons import Reason
from autoscaler.core.types import Decision, Step, Verdict
from autoscaler.errors import InputError
from autoscaler.sim.bounds import reference
from autoscaler.sim.headroom import Foreseen
from autoscaler.sim.plant import PlantSpec
from autoscaler.sim.rivals import make_rival, view_of
from autoscaler.sim.score import Reference, score
from autoscaler.sim.simulate import run
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup

SPEC = PlantSpec(capacity_rps=1.0, warmup=Warmup(60.0))


def played(name: str, bounds: Reference | None = None, *, seconds: int = 3600, **given: Any) -> ReportRun:
    arrivals = 3.0 + 2.0 * np.sin(np.arange(seconds) / 300.0)
    traffic = Traffic(name="wave", step_s=1.0, arrivals=arrivals, source="made by hand")
    done = run(traffic, SPEC, make_rival(name, view_of(traffic, SPEC)))
    return ReportRun(name, done, score(done, bounds), **given)


def decisions() -> list[Decision]:
    grow = Step("demand", 3, 5, Reason.DEMAND_NOW, (("load_rps", 4.2),))
    stay = Step("demand", 5, 5, Reason.DEMAND_NOW, (("load_rps", 4.1),))
    return [
        Decision("sim/wave", 65.0, 3, 5, Verdict.SCALE, Reason.DEMAND_NOW, (grow,), 70.0),
        Decision("sim/wave", 70.0, 5, 5, Verdict.HOLD, Reason.STEADY, (stay,), 75.0),
    ]


@pytest.fixture(scope="module")
def bounds() -> Reference:
    shown = played("hpa")
    return reference(shown.run.traffic, SPEC)


@pytest.fixture(scope="module")
def page(bounds: Reference) -> str:
    ours = played("llm-d", bounds, note="stands in for ours", ours=True, decisions=decisions())
    runs = [replace(ours, label="headroom"), played("hpa", bounds, note="swept in hindsight")]
    return report_html("wave & <co>", runs, reference=bounds, command="headroom simulate", notes=("A note.",))


def content_of(page: str) -> dict[str, Any]:
    text = page.split('<script type="application/json" id="content">')[1].split("</script>", maxsplit=1)[0]
    return dict(json.loads(text))


def test_the_file_needs_nothing_from_elsewhere(page: str) -> None:
    addresses = set(re.findall(r"(?:https?|wss?)://[^\s\"')]*", page))
    assert addresses <= {"https://github.com/leeoniya/uPlot"}, "only the licence comment of the chart library"
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", page)
    assert "default-src 'none'" in page
    assert "Copyright (c) 2022 Leon Sorokin" in page, "the licence goes with every copy of the chart library"
    assert "{{" not in page


def test_the_markup_is_balanced_and_names_from_outside_are_text(page: str) -> None:
    open_tags: list[str] = []

    class Balance(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in {"meta", "link", "br"}:
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    Balance().feed(page)
    assert open_tags == []
    assert "<co>" not in page
    assert "wave &amp; &lt;co&gt;" in page


def test_every_score_stands_in_the_table(page: str, bounds: Reference) -> None:
    result = played("hpa", bounds).score
    table = page.split('<table class="scores">')[1].split("</table>", maxsplit=1)[0]
    assert f"{100 * result.attainment:.2f} %" in table
    assert f"{result.gpu_hours.total:.2f}" in table
    assert f"× {result.ratio_d2:.3f}" in table
    assert f"× {result.ratio_d1:.3f}" in table
    assert "swept in hindsight" in table
    assert f"{(bounds.d2_s or 0) / 3600:.2f}" in table, "the optimum has its own line"
    assert 'class="ours"' in table


def test_a_run_below_the_goal_is_marked(bounds: Reference) -> None:
    shown = played("hpa", bounds)
    late = replace(shown, score=replace(shown.score, attainment=0.97))
    assert '<td class="num short">97.00 %</td>' in report_html("late", [late])


def test_the_split_of_gpu_hours_is_told_in_words_too(page: str, bounds: Reference) -> None:
    hours = played("hpa", bounds).score.gpu_hours
    assert f"serving {hours.serving:.2f}, warming {hours.warming:.2f}, idle {hours.idle:.2f} GPU-hours" in page


def test_the_charts_hold_the_runs_means_and_the_worst_waits(page: str) -> None:
    content, shown = content_of(page), played("hpa")
    assert content["runs"][1]["label"] == "hpa"
    assert len(content["x"]) == BINS == len(content["load"]) == len(content["runs"][1]["wait"])
    assert content["x"][-1] == 3600.0
    assert np.mean(content["load"]) == pytest.approx(shown.run.traffic.mean_rps, rel=1e-3)
    assert np.mean(content["runs"][1]["ready"]) == pytest.approx(shown.run.timeline.ready.mean(), rel=1e-3)
    worst = max(shown.run.waits.wait_from_s.max(), shown.run.waits.wait_to_s.max())
    assert max(content["runs"][1]["wait"]) == pytest.approx(worst, rel=1e-3)
    assert max(content["runs"][1]["waiting"]) == pytest.approx(shown.run.timeline.waiting.max(), rel=1e-3)


def test_a_forecast_is_drawn_at_the_time_it_was_made_for() -> None:
    """Half the minutes were forecast, one with a middle above its bound; the last was for a time after the run."""
    made = [Foreseen(60.0 * i + 65.0, 4.0, 5.0 if i else 3.0) for i in range(30)]
    made += [Foreseen(30.5, float("nan"), float("nan")), Foreseen(3700.0, 9.0, 9.0)]
    shown = replace(played("hpa"), forecasts=made)
    ours, other = content_of(report_html("wave", [shown, played("kpa")]))["runs"]
    band = ours["forecast"]
    assert band["x"][:3] == [32.0, 66.0, 126.0]
    assert len(band["x"]) == 31
    assert (band["low"][:3], band["high"][:3]) == ([None, 3.0, 4.0], [None, 3.0, 5.0])
    assert max(value for value in band["high"] if value is not None) == 5.0
    assert other["forecast"] is None


def test_the_optimums_schedule_costs_what_the_bound_says(page: str, bounds: Reference) -> None:
    assert np.mean(content_of(page)["optimum"]) * 3600.0 == pytest.approx(bounds.d2_s or 0.0, rel=0.01)


def test_decisions_that_scale_are_listed_with_their_reasons(page: str) -> None:
    assert "1 of 2 decisions changed the count" in page
    row = page.split('<div class="decisions"')[1].split("</table>", maxsplit=1)[0]
    assert "00:01:05" in row
    assert "3 → 5" in row
    assert "DEMAND_NOW" in row
    assert "4.2 requests/s" in row


def test_a_run_shorter_than_the_chart_is_drawn_step_by_step() -> None:
    content = content_of(report_html("short", [played("hpa", seconds=120)]))
    assert content["x"] == [float(second) for second in range(1, 121)]
    assert content["optimum"] is None


def test_no_run_and_runs_of_different_length_are_refused() -> None:
    with pytest.raises(InputError, match="no run"):
        report_html("none", [])
    with pytest.raises(InputError, match="differ in length"):
        report_html("two", [played("hpa", seconds=120), played("hpa", seconds=121)])


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    path.write_text("before")
    with pytest.raises(InputError):
        write_report(path, "none", [])
    assert path.read_text() == "before"
    write_report(path, "short", [played("hpa", seconds=120)])
    assert path.read_text().startswith("<!doctype html>")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.html"]
