"""The JSON document and the page: complete, self-contained, and nothing from outside is markup or a number."""

import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from autoscaler.errors import InputError
from autoscaler.preflight.document import SCHEMA, document, plain
from autoscaler.preflight.examine import Source, examine
from autoscaler.preflight.given import Given
from autoscaler.preflight.history import Fact, Gap, Hole, Track
from autoscaler.preflight.page import DETAILED, page
from tests.preflight.builders import DAY, GONE, HOUR, history, track, wave

NASTY = "prod/<script>alert(1)</script>&"


def findings(*made: Any, given: Given | None = None):
    source = Source("made <by> hand", made, len(made))
    return examine([source], given or Given(slots=8.0), command="headroom preflight <x>")


@pytest.fixture(scope="module")
def found():
    holed = wave(7, low=10.0, high=50.0)
    holed[DAY : DAY + HOUR] = np.nan
    gap = Hole(86_400.0, 90_000.0, Gap.UNREACHABLE, "no answer </script> in time")
    return findings(
        history(7 * DAY, workload=NASTY, running=Track(holed, "q", (gap,)), facts={Fact.SHAPE: "<h100>"}),
        history(7 * DAY, workload="blank", running=GONE, duration=GONE, arrivals_per_s=GONE, replicas=GONE,
                waiting=GONE, queue_wait=GONE, cold_start=GONE),
    )  # fmt: skip


def test_the_document_names_its_schema_and_has_every_workload_and_sentence(found) -> None:
    body = json.loads(document(found))
    assert body["schema"] == SCHEMA == "headroom.preflight/1"
    assert [one["workload"] for one in body["workloads"]] == [NASTY, "blank"]
    for one in (body["cluster"], *body["workloads"]):
        assert [sentence["question"] for sentence in one["sentences"]] == ["floor", "bursts", "residency", "waiting"]


def test_its_fields_are_those_of_the_first_version(found) -> None:
    body = json.loads(document(found))
    assert set(body) == {
        "schema", "headroom", "command", "sources", "notes", "given", "cluster", "warm", "batch", "workloads",
    }  # fmt: skip
    assert set(body["workloads"][0]) == {
        "workload", "window", "step_s", "facts", "cold_start", "slots", "gpus", "concurrency", "rate", "bursts",
        "dispersion", "residency", "waiting", "durations", "provision", "missing", "holes", "leading", "chart",
        "sentences",
    }  # fmt: skip
    assert set(body["cluster"]) == {
        "workloads", "left_out", "cold_start", "unit", "bands", "floor", "ceiling", "bursts", "computing", "provision",
        "work", "longest_wait", "longest_wait_of", "capacity_for", "chart", "sentences",
    }  # fmt: skip
    assert set(body["workloads"][0]["concurrency"]) == {
        "unit", "width_s", "floor", "usual", "high", "highest", "peak", "hours",
    }  # fmt: skip


def test_every_answer_in_it_is_measured_or_given_or_cannot_be_told(found) -> None:
    kinds: dict[str, int] = {"measured": 0, "given": 0, "cannot_tell": 0}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if "kind" in value and "window" in value:
                assert {"value", "unit", "low", "high", "sure", "count", "counted", "how"} <= set(value)
                assert value["value"] is not None
            if "kind" in value and "why" in value:
                assert value["text"]
                assert value["needed"]
            if "kind" in value:
                kinds[value["kind"]] += 1
            for part in value.values():
                walk(part)
        elif isinstance(value, list):
            for part in value:
                walk(part)

    walk(json.loads(document(found)))
    assert kinds["measured"] > 30
    assert kinds["given"] == 2, "of both workloads what a replica carries"
    assert kinds["cannot_tell"] > 30


def test_what_an_option_said_is_given_and_what_the_record_says_instead_is_measured() -> None:
    options = Given(slots=8.0, cold_start_s=90.0)
    told = json.loads(document(findings(history(HOUR), history(HOUR, workload="b", cold_start=GONE), given=options)))
    assert [one["cold_start"]["kind"] for one in told["workloads"]] == ["measured", "given"]
    assert [one["slots"]["kind"] for one in told["workloads"]] == ["given", "given"]
    assert {"value", "unit", "window", "how"} < set(told["workloads"][1]["cold_start"])


def test_what_is_not_a_number_is_null_and_never_nan(found) -> None:
    json.loads(document(found), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert plain(float("nan")) is None
    assert plain(np.float64(2.5)) == 2.5
    assert type(plain(np.float64(2.5))) is float


def test_a_line_is_a_workload(found) -> None:
    lines = document(found).splitlines()
    assert sum(line.startswith('{"workload":') for line in lines) == 2


def test_an_unknown_hour_is_null_in_the_bands_of_the_day() -> None:
    values = np.tile(np.arange(24.0).repeat(HOUR), 3)
    values[np.tile(np.arange(DAY), 3) >= 23 * HOUR] = np.nan
    body = json.loads(document(findings(history(3 * DAY, running=track(values)))))
    assert body["workloads"][0]["concurrency"]["hours"]["floor"][23] is None


def test_without_a_workload_there_are_no_findings() -> None:
    with pytest.raises(InputError, match="made <by> hand: no workload in it"):
        findings()


def test_a_name_that_comes_twice_gets_a_number() -> None:
    found = findings(history(HOUR), history(HOUR))
    assert [one.workload for one in found.workloads] == ["prod/chat", "prod/chat-2"]


def test_the_page_needs_nothing_from_elsewhere(found) -> None:
    text = page(found)
    addresses = set(re.findall(r"(?:https?|wss?)://[^\s\"')]*", text))
    assert addresses <= {"https://github.com/leeoniya/uPlot"}
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", text)
    assert "default-src 'none'" in text
    assert "{{" not in text


def test_the_markup_is_balanced_and_what_comes_from_outside_is_text(found) -> None:
    text, open_tags = page(found), []

    class Balance(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag not in {"meta", "line", "rect", "path", "polyline"}:
                open_tags.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if tag not in {"line", "rect", "path", "polyline"}:
                assert open_tags.pop() == tag

    Balance().feed(text)
    assert open_tags == []
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in text
    assert text.count("</script>") == 2
    assert "made &lt;by&gt; hand" in text


def test_each_question_is_answered_in_words_and_what_cannot_be_told_is_marked(found) -> None:
    text = page(found)
    assert text.count('<ol class="answers">') == 3, "all together, and each of the two"
    assert text.count('<li class="untold">') >= 4
    assert "Cannot tell: " in text
    assert "running: unknown for 60 min in all" in text


def test_of_very_many_workloads_the_largest_have_a_section_and_all_a_row() -> None:
    many = [
        history(HOUR, workload=f"w{i}", running=track(np.full(HOUR, i + 1.0)), gpus_per_replica=None)
        for i in range(DETAILED + 3)
    ]
    text = page(findings(*many))
    assert text.count('<section class="run"') == DETAILED
    assert text.count('<th scope="row"><a href="#w') == DETAILED
    assert "3 smaller workloads have a row and no section" in text
    assert f'id="w0"><h2>w{DETAILED + 2}<' in text, "the largest first"


def test_one_workload_alone_has_no_section_for_all_together() -> None:
    assert 'id="together"' not in page(findings(history(HOUR)))


def test_the_charts_have_holes_where_nothing_is_known(found) -> None:
    text = page(found).split('<script type="application/json" id="content">')[1].split("</script>", maxsplit=1)[0]
    charts = json.loads(text)
    assert set(charts) == {"all", "w0"}, "what was never known is not drawn"
    drawn = charts["w0"]
    assert None in drawn["mean"]
    assert drawn["floor"] == pytest.approx(10.2, abs=0.2)
    assert {len(drawn[key]) for key in ("x", "mean", "most")} == {700}
