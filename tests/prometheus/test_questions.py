"""What a workload's past is asked for: few aggregates, the engine's own names, nothing from outside as PromQL."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.adapters.engines.catalogue import LLM_D_EPP, PROFILES, SGLANG, TRITON, VLLM
from autoscaler.adapters.engines.profiles import Profile, custom
from autoscaler.adapters.prometheus.promql import written
from autoscaler.adapters.prometheus.questions import (
    MOST_PER_WORKLOAD,
    Subject,
    Window,
    questions,
    settle_s,
)
from autoscaler.adapters.prometheus.search import DURATIONS
from tests.prometheus.test_promql import NASTY, around

FORTNIGHT = Window(1_700_000_010, 30, 40_320)
ENGINES = [name for name, one in PROFILES.items() if one is not LLM_D_EPP]


def subject(profile: Profile, **how) -> Subject:
    return Subject("team/chat", 'namespace="team",pod=~"chat-.*"', profile, DURATIONS.get(profile.name, ()), **how)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("gateway", [None, 'namespace="edge"'], ids=["alone", "behind a gateway"])
def test_a_workload_costs_at_most_six_aggregates(name: str, gateway: str | None) -> None:
    asked = questions(subject(PROFILES[name], gateway=gateway, gateway_profile=LLM_D_EPP), FORTNIGHT)
    assert len(asked) <= MOST_PER_WORKLOAD == 6
    assert len({one.name for one in asked}) == len(asked)
    assert [one.name for one in asked if one.name == "gateway"] == (["gateway"] if gateway else [])
    selectors = re.findall(r"\{([^}]*)\}", " ".join(around(one.query) for one in asked))
    assert all("namespace=S" in one for one in selectors), "no query without a namespace"


def test_what_an_engine_has_no_name_for_is_not_asked() -> None:
    own = custom("own", {"running": "my_running"})
    assert [one.name for one in questions(subject(own), FORTNIGHT)] == ["load", "presence"]
    (load, _) = questions(subject(own), FORTNIGHT)
    assert re.findall(r'headroom_signal","(\w+)"', load.query) == ["running", "replicas", "busy_replicas"]


def test_grids_cover_the_window_and_nothing_but_the_window() -> None:
    for one in questions(subject(VLLM, gateway='namespace="e"', gateway_profile=LLM_D_EPP), FORTNIGHT):
        end_s = one.start_s + one.points * one.step_s
        if one.name in {"load", "flow", "gateway"}:
            assert (one.start_s, end_s, one.step_s) == (FORTNIGHT.start_s, FORTNIGHT.end_s, 30)
        elif one.name == "presence":
            assert one.start_s == FORTNIGHT.start_s
            assert 0 <= end_s - FORTNIGHT.end_s < one.step_s
        else:
            assert end_s == FORTNIGHT.end_s
            assert 0 <= FORTNIGHT.start_s - one.start_s < one.step_s <= 3600


@pytest.mark.parametrize(("step_s", "scrape_s"), [(30, 30), (30, 15), (30, 5), (30, 60), (10, 30), (300, 15), (1, 1)])
def test_a_window_has_its_steps_middle_and_enough_samples(step_s: int, scrape_s: int) -> None:
    load, flow, *_ = questions(subject(VLLM, scrape_s=scrape_s), Window(1_700_000_100, step_s, 10))
    middle_s = 1_700_000_100 + step_s / 2
    rate_s = int(re.findall(r"\[(\d+)s\] offset 1ms", flow.query)[0])
    assert rate_s >= 3 * scrape_s, "one scrape may be missed"
    assert abs(flow.first_s - rate_s / 2 - middle_s) <= 0.5
    gauge_s, back_ms = map(int, re.findall(r"\[(\d+)s\] offset (\d+)ms", load.query)[0])
    assert gauge_s >= scrape_s
    assert abs(load.first_s - (back_ms - 1) / 1000 - gauge_s / 2 - middle_s) <= 1.0
    assert load.first_s == flow.first_s == 1_700_000_100 + step_s + settle_s(step_s, scrape_s)


def test_of_two_names_each_replica_is_read_by_the_newer_that_it_has() -> None:
    load = questions(subject(VLLM), FORTNIGHT)[0].query
    newer, older = load.index("vllm:kv_cache_usage_perc"), load.index("vllm:gpu_cache_usage_perc")
    assert re.fullmatch(r".*\) or avg by\(pod\)\(avg_over_time\($", around(load[newer:older])[len("vllm:") :])


def test_ranks_of_one_replica_are_not_summed_and_what_is_in_milliseconds_or_blocks_is_scaled() -> None:
    load = questions(subject(SGLANG), FORTNIGHT)[0].query
    assert "max without(tp_rank,pp_rank,moe_ep_rank)(avg_over_time(sglang:num_running_reqs{" in load
    waiting = questions(subject(TRITON), FORTNIGHT)[0].query
    assert 'nv_trt_llm_request_metrics{namespace="team",pod=~"chat-.*",request_type="waiting"}' in waiting
    percent = custom("own", {"running": "r", "kv_cache_usage": "used"}, kv_percent=True)
    assert "[30s] offset 30001ms)) * 0.01" in questions(subject(percent), FORTNIGHT)[0].query


@settings(deadline=None, max_examples=50)
@given(st.one_of(st.text(max_size=20), st.sampled_from(NASTY)))
def test_whatever_a_labels_value_it_stays_within_its_quotes(value: str) -> None:
    plain = Subject("team/x", written([("namespace", "=", "team"), ("app", "=", "a")]), VLLM)
    nasty = Subject("team/x", written([("namespace", "=", "team"), ("app", "=", value)]), VLLM)
    for one, other in zip(questions(plain, FORTNIGHT), questions(nasty, FORTNIGHT), strict=True):
        assert around(one.query) == around(other.query)
