"""`headroom decide --jsonl`: stories of a few lines, and what a bad line may and may not do."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.cli.stream import DecideStream
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import FitRequest
from autoscaler.fitting.fit import fit
from tests.api.test_lines import BAD
from tests.cli.lines import POLICY, answers, busy, encode, make_line, make_pod, make_stream


def test_a_quiet_workload_is_held_and_the_answer_is_the_contract_s() -> None:
    (answer,) = answers(make_line(0))
    assert list(answer) == ["now_s", "workload", "replicas", "verdict", "reason", "text", "trace"]
    assert (answer["now_s"], answer["workload"], answer["replicas"]) == (0, "ns/chat", 2)
    assert (answer["verdict"], answer["reason"]) == ("HOLD", "NO_SIGNAL")
    assert list(answer["trace"][0]) == ["stage", "before", "after", "reason", "evidence"]
    assert answer["trace"][0]["evidence"]["queue_age_s"] == 0.0


def test_a_first_queue_grows_by_half_and_one_and_says_why() -> None:
    *_, answer = answers(busy(0), busy(5), busy(10, queued=40))
    assert (answer["verdict"], answer["replicas"], answer["reason"]) == ("SCALE", 4, "QUEUE_UNCALIBRATED")
    assert answer["text"].startswith("2→4: 4 asked for: requests wait and what one replica carries is not known yet")
    assert "40 waiting" in answer["text"]


@pytest.mark.parametrize("every_s", [1, 5, 10])
def test_one_request_a_minute_of_four_seconds_asks_for_no_second_replica(every_s: int) -> None:
    """The replica is idle for 56 s of each minute. At looks of 5 s and more no request is seen in service at all."""
    told = []
    for now_s in range(0, 600, every_s):
        begun, done = (now_s + 59) // 60, (now_s + 55) // 60
        pod = make_pod("a", running=begun - done, requests_total=done, kv_cache_usage=0.01)
        gateway = {"queued": 0, "requests_total": begun}
        told.append(make_line(now_s, pods=[pod], gateway=gateway, replicas={"desired": 1, "ready": 1, "starting": []}))
    assert {answer["replicas"] for answer in answers(*told)} == {1}


@pytest.mark.parametrize("now", ["5", "5.0", "5.25", "-7", "1700000000"])
def test_the_time_is_echoed_as_it_was_given(now: str) -> None:
    line = json.dumps(make_line(0)).replace('"now_s": 0', f'"now_s": {now}')
    assert make_stream().answer(line.encode()).startswith(f'{{"now_s":{now},'.encode())


def test_the_first_line_of_a_workload_needs_a_policy() -> None:
    first, second = answers(make_line(0, policy=...), make_line(5, policy=None))
    assert first == {
        "error": "policy: missing; the first line of a workload carries one",
        "line": 1,
        "workload": "ns/chat",
    }
    assert second["line"] == 2


def test_later_lines_go_without_a_policy_or_repeat_it() -> None:
    said = answers(busy(0), busy(5), busy(10, queued=40))
    silent = answers(busy(0), busy(5) | {"policy": None}, busy(10, queued=40) | {"policy": None})
    assert silent == said


def test_a_raised_minimum_is_met_at_once() -> None:
    _, answer = answers(make_line(0), make_line(5, policy={"min_replicas": 6}))
    assert (answer["replicas"], answer["reason"]) == (6, "FLOOR")
    assert answer["text"].endswith("6, not 2: the policy's minimum is 6")


def test_a_lowered_maximum_is_reached_step_by_step() -> None:
    replicas = {"desired": 9, "ready": 9}
    _, answer = answers(make_line(0, replicas=replicas), make_line(5, replicas=replicas, policy={"max_replicas": 3}))
    assert (answer["replicas"], answer["reason"]) == (5, "MAX")  # half of 9 a minute, rounded down, may go
    assert answer["text"].endswith("5, not 9: the policy's maximum is 3, reached step by step")


def test_a_changed_policy_keeps_what_it_does_not_name() -> None:
    *_, answer = answers(
        make_line(0, policy=POLICY | {"max_replicas": 5}),
        make_line(5, policy={"min_replicas": 3}),
        make_line(10, policy={"min_replicas": 4, "slo": {"ttft_s": 1}}, replicas={"desired": 12, "ready": 12}),
    )
    assert answer["trace"][-1] == {
        "stage": "bound", "before": 12, "after": 6, "reason": "MAX", "evidence": {"max_replicas": 5},
    }  # fmt: skip


def test_a_faulty_change_of_policy_leaves_the_old_one_in_force() -> None:
    _, bad, good = answers(
        make_line(0),
        make_line(5, policy={"min_replicas": 30}),
        make_line(5, policy=None, replicas={"desired": 25, "ready": 25}),
    )
    assert bad["error"].startswith("policy.min_replicas: 30 is above policy.max_replicas: 20")
    assert good["reason"] == "MAX"


def test_time_that_goes_backwards_is_refused_and_the_same_instant_is_not() -> None:
    _, back, same = answers(busy(10), busy(5), busy(10))
    assert back["error"] == (
        "now_s: 5 is before 10, the workload's last line; time never goes backwards: send lines in their order, "
        "from 10 on"
    )
    assert same["now_s"] == 10


@pytest.mark.parametrize("ahead_s", [70.0, 600.0, 3500.0])
def test_one_line_up_to_an_hour_ahead_costs_one_line_and_is_forgotten(ahead_s: float) -> None:
    """A clock that was wrong for one line, at 500 s, silences nobody until the hour that it told has come."""
    told = [busy(5.0 * i, queued=30.0 * (i % 40 > 36)) for i in range(160)]
    straight = answers(*told[:100], *told[101:])
    jumped = answers(*told[:100], busy(500.0 + ahead_s), *told[100:])
    ahead, refused = jumped[100:102]
    assert ahead["now_s"] == 500.0 + ahead_s
    assert refused["error"] == (
        f"now_s: 500 is before {500 + ahead_s:g}, the workload's last line, which came {ahead_s + 5:g} s after the one "
        "before it; if its clock was wrong, go on: the next line will be used, and that one forgotten"
    )
    assert jumped[:100] + jumped[102:] == straight


def test_a_late_line_after_a_gap_is_refused_and_time_goes_on() -> None:
    """Readings were lost for two minutes; one of them comes late, and is no witness against the clock."""
    told = [busy(0), busy(5), busy(125), busy(65), busy(130), busy(70), busy(135)]
    assert [answer.get("now_s") for answer in answers(*told)] == [0, 5, 125, None, 130, None, 135]


def test_a_faulty_line_that_goes_on_from_before_a_jump_takes_nothing_back() -> None:
    faulty = busy(15) | {"policy": {"max_replicas": 0}}
    told = [busy(0), busy(5), busy(605), busy(10), faulty, busy(610)]
    assert [answer.get("now_s") for answer in answers(*told)] == [0, 5, 605, None, None, 610]


def test_a_lone_jump_of_the_clock_is_dropped() -> None:
    jumped = answers(busy(0), busy(5), busy(1e9), busy(10, queued=40))
    straight = answers(busy(0), busy(5), busy(10, queued=40))
    assert jumped[2]["error"].startswith(
        "now_s: 1000000000 is 999999995 s after 5, the workload's last line: the clock"
    )
    assert jumped[3] == straight[2]


def test_after_an_hour_without_readings_one_line_is_refused_and_the_next_is_used() -> None:
    _, gap, after = answers(busy(0), busy(3700), busy(3705))
    assert "an hour of readings is missing" in gap["error"]
    assert (after["verdict"], after["replicas"]) == ("HOLD", 2)


def test_workloads_do_not_see_each_other() -> None:
    alone = answers(busy(0), busy(5), busy(10, queued=40))
    mixed = answers(
        busy(0),
        busy(900) | {"workload": "ns/other"},
        busy(5),
        busy(905) | {"workload": "ns/other"},
        busy(10, queued=40),
    )
    assert [mixed[0], mixed[2], mixed[4]] == alone
    assert mixed[3]["workload"] == "ns/other"


# what a line leaves out


@pytest.mark.parametrize("part", ["replicas", "pods", "gateway", "latency"])
@pytest.mark.parametrize("absent", [None, ...], ids=["null", "missing"])
def test_any_part_may_be_absent_on_any_line(part: str, absent: Any) -> None:
    lines = [make_line(5.0 * i, **({part: absent} if i % 2 == 0 else {})) for i in range(6)]
    assert [a["replicas"] for a in answers(*lines)] == [2] * 6


def test_a_workload_of_which_nothing_is_known_is_held_at_its_minimum() -> None:
    (answer,) = answers({"now_s": 0, "workload": "ns/chat", "policy": POLICY | {"min_replicas": 3}})
    assert (answer["verdict"], answer["replicas"], answer["reason"]) == ("HOLD", 3, "NO_SIGNAL")


def test_without_replicas_the_pods_that_are_seen_count() -> None:
    (answer,) = answers(make_line(0, replicas=None, pods=[make_pod(f"p{i}") for i in range(7)]))
    assert (answer["verdict"], answer["replicas"]) == ("HOLD", 7)


def test_a_line_without_replicas_repeats_what_was_last_answered() -> None:
    *_, order, silent = answers(busy(0), busy(5), busy(10, queued=40), busy(15, queued=40) | {"replicas": None})
    assert (order["replicas"], order["verdict"]) == (4, "SCALE")
    assert (silent["replicas"], silent["verdict"]) == (4, "HOLD")


def test_a_start_that_one_line_does_not_mention_has_not_failed() -> None:
    starts = {"starting": [{"since_s": 0, "name": "c"}]}
    told = [make_line(5.0 * i, replicas={"desired": 3, "ready": 2} | starts) for i in range(8)]
    lines = [line if i % 2 == 0 else line | {"replicas": {"desired": 3, "ready": 2}} for i, line in enumerate(told)]
    stream = make_stream()
    answers(*lines, stream=stream)
    assert [s.name for s in stream.followed["ns/chat"].replicas.starting] == ["c"]
    assert stream.table.bounds.failures[stream.table.rows["ns/chat"]] == 0


def test_a_start_that_became_a_pod_is_over_even_when_the_line_does_not_say_so() -> None:
    starts = [{"since_s": 0, "name": "c"}, {"since_s": 3, "name": "d"}]
    stream = make_stream()
    answers(
        make_line(5, replicas={"desired": 4, "ready": 2, "starting": starts}),
        make_line(10, replicas=None, pods=[make_pod(name) for name in "abc"]),
        stream=stream,
    )
    held = stream.followed["ns/chat"].replicas
    assert (held.desired, held.ready, [s.name for s in held.starting]) == (4, 3, ["d"])


def test_a_client_that_omits_an_empty_list_of_starts_has_none() -> None:
    stream = make_stream()
    starting = [{"since_s": 0, "name": "c"}]
    answers(
        make_line(5, replicas={"desired": 3, "ready": 2, "starting": starting}),
        make_line(10, replicas={"desired": 3, "ready": 3}),
        stream=stream,
    )
    assert stream.followed["ns/chat"].replicas.starting == ()


# bad lines

GOOD = [busy(5.0 * i, queued=40.0 * (i > 3), desired=2 + 2 * (i > 4)) for i in range(8)]
UNDISTURBED = answers(*GOOD)


@pytest.mark.parametrize("text", [text for text, _ in BAD], ids=[message[:40] for _, message in BAD])
def test_a_bad_line_is_answered_by_its_number_and_changes_nothing(text: str) -> None:
    for at_ten, here in (('"now_s": 10', '"now_s": 12'), ('"since_s": 11', '"since_s": 13'), ('"w"', '"ns/chat"')):
        text = text.replace(at_ten, here)
    mixed = answers(*GOOD[:3], text, *GOOD[3:])
    error = mixed.pop(3)
    assert error["line"] == 4
    assert set(error) <= {"error", "line", "workload"}
    assert mixed == UNDISTURBED


NOISE = ["nonsense", "", "{}", '{"now_s": 1e99, "workload": "ns/chat"}',
         json.dumps(make_line(-1)), json.dumps(make_line(12, policy={"max_replicas": 0})),
         json.dumps(make_line(12, pods=[make_pod("a"), make_pod("a")]))]  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(1, len(GOOD)), st.sampled_from(NOISE)), max_size=6))
def test_good_lines_are_answered_the_same_whatever_stands_between(noise: Sequence[tuple[int, str]]) -> None:
    lines: list[Any] = list(GOOD)
    for place, text in sorted(noise, reverse=True):
        lines.insert(place, text)
    assert [a for a in answers(*lines) if "error" not in a] == UNDISTURBED


# models


def test_a_model_is_made_after_the_answer_that_asked_for_it() -> None:
    made: list[FitRequest] = []

    def noted(request: FitRequest) -> FittedModel:
        made.append(request)
        return fit(request)

    stream = DecideStream(noted)
    asked_s = 0.0
    for i in range(540):  # two hours and more in steps of fifteen seconds
        stream.answer(encode(busy(15.0 * i)))
        asked_s = asked_s or (15.0 * i if stream.wanted_fits else 0.0)
        assert made == [] or asked_s < 15.0 * i
        stream.catch_up()
    assert made[0].workload == "ns/chat"
    assert made[0].in_force_at_s == asked_s + 60.0
    assert stream.table.fitted[0].in_force_at_s == made[0].in_force_at_s
    assert stream.wanted_fits == []
