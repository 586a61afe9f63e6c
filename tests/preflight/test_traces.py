"""Trace files as histories: what is told, what is not, and which line cannot be used."""

import re
from pathlib import Path

import numpy as np
import pytest

from autoscaler.errors import InputError
from autoscaler.preflight.history import Distribution, Missing, Signal, Spread, Track, WorkloadHistory
from autoscaler.preflight.spreads import quantile
from autoscaler.preflight.traces import check_step, histories
from autoscaler.sim.serving.profile import Profile
from tests.sim.trace_files import AZURE, BURSTGPT, MOONCAKE, NEUTRAL, SERVEGEN, edited, write

PROFILE = Profile("toy", "made by hand", ((1, 0.5), (10_000, 0.5)), ((1, 0.1), (4, 0.1)), 4, 100_000)
"""Half a second of prefill whatever the prompt, a tenth of a second per further token."""

MINUTES = """minute,model,tenant,requests
0,f1,o1,60
0,f2,o2,6
2,f1,o1,120
"""
FUNCTIONS = """model,tenant,app,trigger,day_invocations,avg_ms,p50_ms,p99_ms,app_avg_mb
f1,o1,a1,http,1000,2500,2000,8000,100
f2,o2,a2,timer,24,0,0,0,100
"""


def only(path: Path, fragment: str = "", profile: Profile | None = None, step_s: float = 1.0) -> WorkloadHistory:
    (found,) = histories(f"{path}{fragment}", profile=profile, step_s=step_s)
    return found


def values(found: Signal) -> list[float]:
    assert isinstance(found, Track), found
    return [float(value) for value in found.values]


def gap(found: Signal | Distribution) -> str:
    assert isinstance(found, Missing), found
    return found.gap.value


def test_arrivals_are_counted_and_the_last_part_of_a_step_is_left_off(tmp_path: Path) -> None:
    found = only(write(tmp_path, AZURE))
    # Requests at 0, 0.052 and 2.5 s: what else came within the third second is not known.
    assert (found.workload, found.steps, values(found.arrivals_per_s)) == ("trace", 2, [2.0, 0.0])


def test_what_a_trace_does_not_tell_is_missing_and_not_zero(tmp_path: Path) -> None:
    found = only(write(tmp_path, AZURE))
    silent = (found.running, found.waiting, found.replicas, found.busy_replicas, found.kv_usage_ratio,
              found.queue_wait, found.duration, found.cold_start)  # fmt: skip
    assert {gap(signal) for signal in silent} == {"NOT_IN_TRACE"}
    assert "without --profile a trace of requests does not tell it" in found.running.text  # type: ignore[union-attr]


def test_with_a_profile_that_tells_nothing_nobody_is_asked_for_one(tmp_path: Path) -> None:
    """A recording at another rate has the counts of its requests, and not the requests."""
    found = only(write(tmp_path, AZURE), "#rate=2", profile=PROFILE).running
    assert isinstance(found, Missing)
    assert found.text == "--profile tells it of single requests with their tokens, and there are none (trace.csv)"


def test_with_an_engine_s_profile_requests_run_for_as_long_as_it_takes(tmp_path: Path) -> None:
    rows = [f"{at_s},chat,,9,10" for at_s in (0.0, 10.0, 10.5, 30.0)]
    found = only(write(tmp_path, "\n".join([NEUTRAL.splitlines()[0], *rows]) + "\n"), profile=PROFILE)
    # Each of ten tokens takes 1.4 s: two from 10 and 10.5 s on are 1.5 request-seconds, then 1.3.
    running = values(found.running)
    assert running[10:13] == pytest.approx([1.5, 1.3, 0.0])
    assert np.flatnonzero(np.isnan(running)).tolist() == [0, 1], "what began before the record runs on into it"
    assert isinstance(found.duration, Spread)
    assert quantile(found.duration, 0.5).value_s == pytest.approx(1.4)
    assert found.facts == {"slots": "4"}
    assert "each running as long as on toy" in found.running.origin  # type: ignore[union-attr]


@pytest.mark.parametrize("text", [NEUTRAL, BURSTGPT], ids=["neutral", "BurstGPT"])
def test_every_model_of_a_log_is_a_workload_over_the_same_window(tmp_path: Path, text: str) -> None:
    found = list(histories(str(write(tmp_path, text + ("9,gpt,c,5,5\n" if text is NEUTRAL else ""))), step_s=1.0))
    assert len(found) == 2
    assert len({history.steps for history in found}) == 1


def test_a_model_that_is_named_is_the_only_one(tmp_path: Path) -> None:
    assert only(write(tmp_path, BURSTGPT), "#model=GPT-4").workload == "GPT-4"


def test_json_lines_are_read_too(tmp_path: Path) -> None:
    assert values(only(write(tmp_path, MOONCAKE, "trace.jsonl")).arrivals_per_s) == [1.0, 0.0, 0.0]


def test_a_rate_table_is_drawn_whole_and_says_so(tmp_path: Path) -> None:
    found = only(write(tmp_path, SERVEGEN), step_s=30.0)
    assert (found.steps, found.step_s) == (40, 30.0)
    assert np.mean(values(found.arrivals_per_s)[:20]) == pytest.approx(3.0, rel=0.3)
    assert "drawn from published rates" in found.arrivals_per_s.origin  # type: ignore[union-attr]


def test_days_of_a_rate_table_follow_each_other_and_keep_the_model_s_name(tmp_path: Path) -> None:
    rows = "".join(f"{day * 86_400 + 600 * i},m,c0,60,{0.1 * (day + 1):.1f},1.0,Gamma,1.0,1.0\n"
                   for day in range(2) for i in range(144))  # fmt: skip
    path = write(tmp_path, SERVEGEN.splitlines()[0] + "\n" + rows)
    found = only(path, "#model=m&day=0&days=2", step_s=600.0)
    assert (found.workload, found.steps, found.start_s) == ("m", 288, 0.0)
    rates = values(found.arrivals_per_s)
    assert np.mean(rates[144:]) == pytest.approx(2 * np.mean(rates[:144]), rel=0.1)
    assert only(path, "#model=m&day=1", step_s=600.0).start_s == 86_400.0


def test_a_rate_table_too_large_to_follow_request_by_request_is_refused_before_it_is_drawn(tmp_path: Path) -> None:
    path = write(tmp_path, SERVEGEN.replace("600,1.0,", "600,40000.0,"))
    with pytest.raises(InputError, match=r"a day of 24,002,400 requests is too much .* &rate=20"):
        list(histories(f"{path}#model=m&day=0", profile=PROFILE))
    assert only(path, "#model=m&day=0&rate=2", PROFILE).steps == 1200


def test_calls_per_minute_are_rates_with_the_run_times_that_lie_beside(tmp_path: Path) -> None:
    write(tmp_path, FUNCTIONS, "x_functions.csv")
    one, two = histories(str(write(tmp_path, MINUTES, "x_minutes.csv.gz")))
    assert (one.workload, one.step_s, values(one.arrivals_per_s)) == ("f1", 60.0, [1.0, 0.0, 2.0])
    assert isinstance(one.duration, Spread)
    assert [quantile(one.duration, level).value_s for level in (0.5, 0.99)] == pytest.approx([2.0, 8.0])
    assert (values(two.arrivals_per_s), gap(two.duration)) == ([0.1, 0.0, 0.0], "NOT_IN_TRACE")


def test_calls_without_a_table_of_run_times_have_no_durations(tmp_path: Path) -> None:
    assert gap(only(write(tmp_path, MINUTES), "#model=f1").duration) == "NOT_IN_TRACE"


FAULTS = {
    "a count that is no number": (edited(MINUTES, 2, "60", "many"), "", "line 2, field requests: 'many'"),
    "half a minute": (edited(MINUTES, 4, "2,", "2.5,"), "", "line 4, field minute: '2.5' is not whole"),
    "epoch minutes": (edited(MINUTES, 4, "2,", "29000000,"), "", "more than a year"),
    "a function that is not there": (MINUTES, "#model=f9", "no model 'f9'; it offers f1, f2"),
    "an owner that is not there": (MINUTES, "#tenant=o9", "no tenant 'o9'; it offers o1, o2"),
    "a day that is not there": (MINUTES, "#day=3", "no day 3; it offers days 0 to 0"),
    "a rate for counts": (MINUTES, "#rate=5", "leave it out"),
    "a request log's faulty count": (edited(AZURE, 3, "3180", "-1"), "", "line 3, field ContextTokens: '-1'"),
    "a rate table's faulty rate": (edited(SERVEGEN, 3, "2.0", "fast"), "", "line 3, field rate_rps: 'fast'"),
    "a rate table without a model's day": (SERVEGEN, "#model=m&day=4", "no day 4 of m"),
    "nothing": ("", "", "line 1: the file is empty"),
    "another format": ("a,b\n1,2\n", "", "line 1: another format"),
}


@pytest.mark.parametrize(("text", "fragment", "words"), FAULTS.values(), ids=FAULTS)
def test_a_trace_that_cannot_be_used_is_refused_by_file_line_and_field(
    tmp_path: Path, text: str, fragment: str, words: str
) -> None:
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        list(histories(f"{write(tmp_path, text)}{fragment}"))
    assert "trace.csv" in str(caught.value)


@pytest.mark.parametrize("step_s", [0.0, 0.5, 3601.0, float("nan")])
def test_a_step_that_no_history_can_have_is_refused(step_s: float) -> None:
    with pytest.raises(InputError, match="--step"):
        check_step(step_s)


def test_a_run_time_table_with_a_faulty_line_is_refused_by_its_own_name(tmp_path: Path) -> None:
    write(tmp_path, edited(FUNCTIONS, 2, "8000", "slow"), "x_functions.csv")
    with pytest.raises(InputError, match=r"x_functions.csv: line 2, field p99_ms: 'slow'"):
        list(histories(str(write(tmp_path, MINUTES, "x_minutes.csv"))))
