"""Decisions in words: every reason has a sentence with its numbers, and no number is made up."""

import re

import pytest

from autoscaler.core.reasons import Reason
from autoscaler.core.types import Step
from autoscaler.record.catalog import SENTENCES
from autoscaler.record.explain import clock, duration, figure, line, number, page, sentence, step_sentence
from tests.record.decisions import AGES, CAPPED, FORECAST, MOST, PER_REASON, make_decision

REASONS = [pytest.param(reason, id=reason.name) for reason in Reason]


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_a_sentence_with_its_figures(reason: Reason) -> None:
    step, words = PER_REASON[reason]
    assert step.reason is reason
    assert step_sentence(step) == words


@pytest.mark.parametrize(
    ("age_s", "words"),
    [(0.0, ", 0 waiting"), (20.0, ", 0 waiting"), (60.0, ", at least 0 waiting"), (None, ", at least 0 waiting")],
)
def test_a_queue_that_is_told_of_in_part_is_no_whole_one(age_s: float | None, words: str) -> None:
    """A gateway is silent, and its line is nobody's: pods with none of it said "0 waiting" beside full replicas."""
    step = Step("demand", 3, 4, Reason.DEMAND_NOW, (("load_rps", 11.8), ("queue", 0.0), ("queue_age_s", age_s)))
    assert words in step_sentence(step)


@pytest.mark.parametrize("reason", REASONS)
def test_without_evidence_a_sentence_still_stands_and_has_no_gap(reason: Reason) -> None:
    words = step_sentence(Step("demand", 6, 9, reason))
    assert words == SENTENCES[reason][0].format(before=6, after=9)
    assert not re.search(r"None|nan|[{}]|  ", words)


@pytest.mark.parametrize("reason", REASONS)
def test_a_figure_that_is_not_known_is_left_out(reason: Reason) -> None:
    step, _ = PER_REASON[reason]
    blind = Step(step.stage, step.before, step.after, reason, tuple((name, None) for name, _ in step.evidence))
    assert not re.search(r"None|nan|[{}]", step_sentence(blind))


def test_the_line_has_the_time_the_workload_the_change_and_every_step() -> None:
    assert line(make_decision(FORECAST, CAPPED, MOST)) == (
        "02:14:30 prod/chat-7b 6→9: "
        "14 needed by the time a replica ordered now can serve, 3 min from now: the forecast reaches 19.3 requests/s "
        "(boosted trees, held in 97 % of cases), the load is 12 requests/s; one replica carries 1.4 requests/s, "
        "limited by the time per output token; "
        "12, not 14: capped near the highest demand of the last 24 h, at 16.9 requests/s (130 % of it); "
        "9, not 12: the policy's maximum is 9"
    )


def test_a_steady_decision_says_so_before_its_evidence() -> None:
    step = Step("demand", 6, 6, Reason.MEMORY, (("kv_used_replicas", 5.5),))
    assert sentence(make_decision(step, reason=Reason.STEADY)) == (
        "stays at 6: 6 is right: capacity and need agree; 6 needed for KV memory: the requests in flight fill "
        "5.5 replicas' caches"
    )


def test_the_page_shows_each_step_with_its_counts_and_figures_and_the_ages_once() -> None:
    rows = page(make_decision(FORECAST, CAPPED, MOST)).splitlines()
    assert rows[0] == "02:14:30  prod/chat-7b  6 → 9  SCALE  MAX"
    assert [row.split(":")[0].split() for row in rows if "→" in row][1:] == [
        ["demand", "6", "→", "14", "FORECAST"],
        ["bound", "14", "→", "12", "BURST_CEILING"],
        ["bound", "12", "→", "9", "MAX"],
    ]
    figures = [row.strip() for row in rows]
    assert "forecast, middle: 15 requests/s" in figures
    assert "objective's budget in use: 40 %" in figures
    assert "measured warm-ups: 4" in figures
    assert rows[-1] == "  readings: arrivals 0 s ago, queue 5 s ago, in flight 45 s ago"
    assert not any("age" in row for row in figures)


def test_the_page_says_which_figures_are_not_known() -> None:
    step = Step("demand", 2, 4, Reason.QUEUE_UNCALIBRATED, (("replica_rps", None), ("replica_limit", "unknown"), *AGES))
    rows = [row.strip() for row in page(make_decision(step)).splitlines()]
    assert "one replica carries: not known" in rows
    assert "what limits a replica: not measured yet" in rows


@pytest.mark.parametrize(
    ("now_s", "shown"),
    [
        (0.0, "00:00:00"),
        (8070.9, "02:14:30"),
        (86400.0 + 8070.0, "1d 02:14:30"),
        (-10.0, "-00:00:10"),
        (1738289670.0, "2025-01-31 02:14:30Z"),
    ],
)
def test_a_time_is_a_date_only_when_it_counts_from_1970(now_s: float, shown: str) -> None:
    assert clock(now_s) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (0.25, "0.25 s"), (119, "119 s"), (180, "3 min"), (5400, "90 min"), (9000, "2.5 h"), (-5, "-5 s")],
)
def test_a_duration_is_in_the_unit_a_person_would_use(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "0"), (0.01234, "0.0123"), (12.345, "12.3"), (1234.5, "1,234"), (7.0, "7"), (99.96, "100")]
)
def test_a_number_has_three_digits_that_count(value: float, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("load_rps", 2.5, "2.5 requests/s"),
        ("outlives_ratio", 0.041, "4.1 %"),
        ("warmup_s", 600.0, "10 min"),
        ("starting", 3, "3"),
        ("model", "holt", "damped trend"),
        ("replica_limit", "memory", "its KV memory"),
        ("queue", None, None),
    ],
)
def test_a_figure_has_the_unit_of_its_name(name: str, value: float | str | None, shown: str | None) -> None:
    assert figure(name, value) == shown
