"""The named workloads are what their docstrings say, from any seed."""

from functools import cache

import numpy as np
import pytest

from autoscaler.errors import InputError
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.workloads import NAMED, named_workload

drawn = cache(named_workload)
"""A load is frozen, and a day of requests takes a third of a second to be drawn."""


def rate(load: Traffic, start_s: float, end_s: float) -> float:
    return float(load.arrivals[int(start_s) : int(end_s)].mean())


@pytest.mark.parametrize("name", NAMED)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(name):
    first, again, other = drawn(name, 1), named_workload(name, 1), drawn(name, 2)
    for field in ("arrivals", "arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(first, field).tobytes() == getattr(again, field).tobytes()
        assert getattr(first, field).tobytes() != getattr(other, field).tobytes()
    assert (first.seed, first.name, first.onsets_s) == (1, name, again.onsets_s)


@pytest.mark.parametrize("name", NAMED)
def test_a_replica_has_a_capacity_and_the_busiest_minute_needs_at_most_40(name):
    load = drawn(name, 2)
    assert load.capacity_rps is not None
    assert load.peak_minute_rps <= 40 * load.capacity_rps
    assert 3600 <= load.duration_s <= 86_400


@pytest.mark.parametrize("name", NAMED)
def test_counts_instants_and_lengths_agree(name):
    load = drawn(name, 1)
    assert load.arrival_s is not None
    assert load.prompt_tokens is not None
    assert load.output_tokens is not None
    assert load.total == load.arrival_s.size == load.prompt_tokens.size
    assert load.prompt_tokens.min() >= 1
    assert load.output_tokens.min() >= 1


@pytest.mark.parametrize(("name", "low", "high"), [("step-x3", 8.0, 24.0), ("step-x10", 3.0, 30.0)])
def test_a_step_rises_at_its_stated_onset(name, low, high):
    load = drawn(name, 1)
    (onset,) = load.onsets_s
    assert rate(load, 0, onset) == pytest.approx(low, rel=0.05)
    assert rate(load, onset, onset + 7200) == pytest.approx(high, rel=0.05)
    assert rate(load, onset + 7200, load.duration_s) == pytest.approx(low, rel=0.05)


def test_the_onset_of_a_step_differs_between_seeds():
    assert len({drawn("step-x3", seed).onsets_s for seed in range(5)}) > 1


def test_the_ramp_climbs_for_an_hour_and_names_no_onset():
    load = drawn("ramp", 1)
    assert load.onsets_s == ()
    assert rate(load, 0, 3600) == pytest.approx(4, rel=0.05)
    assert rate(load, 5100, 5700) == pytest.approx(18, rel=0.1)
    assert rate(load, 7200, 10_800) == pytest.approx(32, rel=0.05)


def test_idle_then_burst_is_silent_but_for_its_bursts():
    load = drawn("idle-then-burst", 1)
    first, second = load.onsets_s
    assert load.arrivals[: int(first)].sum() == 0
    assert rate(load, first, first + 2700) == pytest.approx(12, rel=0.1)
    assert rate(load, first + 2640, first + 2700) == pytest.approx(12, rel=0.25)
    assert load.arrivals[int(first) + 2700 : int(second)].sum() == 0
    assert rate(load, second, second + 1800) == pytest.approx(24, rel=0.1)


def test_spikes_are_many_and_can_be_ridden_out_by_a_fifth_more_replicas():
    load = drawn("spike-train", 1)
    twenty_s = load.arrivals[: 20 * (load.arrivals.size // 20)].reshape(-1, 20).mean(axis=1)
    assert 100 < (twenty_s > 27).sum() < 600
    backlog, late = 0.0, 0.0
    for arriving in load.arrivals:
        late += arriving if backlog > 10 * 24 else 0.0
        backlog = max(0.0, backlog + arriving - 24)
    assert late / load.total < 0.01
    assert 1.25 * load.mean_rps > 24


def test_code_bursts_are_on_about_half_of_the_time_for_under_a_minute():
    on = drawn("code-burst", 1).arrivals.reshape(-1, 10).sum(axis=1) > 0
    assert on.mean() == pytest.approx(0.5, abs=0.1)
    edges = np.diff(on.astype(int))
    assert 10 * on.sum() / (edges == 1).sum() == pytest.approx(55, abs=20)


def test_chat_has_its_quiet_hours_before_dawn_and_its_busiest_in_the_evening():
    load = drawn("chat-diurnal", 1)
    hours = load.arrivals.reshape(24, 3600).mean(axis=1)
    assert hours.mean() == pytest.approx(20, rel=0.05)
    assert hours.argmax() in (20, 21)
    assert hours.min() == pytest.approx(12.3, rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_the_long_tail_is_sparse_and_idle_for_hours(seed):
    load = drawn("long-tail", seed)
    assert load.arrival_s is not None
    assert 0 < load.mean_rps < 0.3
    gaps_s = np.diff(np.concatenate(([0.0], load.arrival_s, [load.duration_s])))
    assert gaps_s.max() > 7200


@pytest.mark.parametrize(
    ("name", "prompt", "output"), [("code-burst", 1465, 13), ("chat-diurnal", 1020, 129), ("spike-train", 1020, 129)]
)
def test_lengths_have_the_published_medians(name, prompt, output):
    load = drawn(name, 1)
    assert load.prompt_tokens is not None
    assert load.output_tokens is not None
    assert np.median(load.prompt_tokens) == pytest.approx(prompt, rel=0.03)
    assert np.median(load.output_tokens) == pytest.approx(output, rel=0.05)


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"no workload 'stepx3'; choose one of code-burst, .*idle-then-burst"):
        drawn("stepx3", 1)


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="seed is -1"):
        drawn("ramp", -1)
