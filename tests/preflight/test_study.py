"""One workload's study: what each answer rests on, and the reasons for which there is none."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.preflight.answers import Answer, CannotTell, Measured
from autoscaler.preflight.bands import Bands
from autoscaler.preflight.bursts import REACTIVE, STANDING, Bursts
from autoscaler.preflight.given import Given
from autoscaler.preflight.history import Fact
from autoscaler.preflight.rows import inputs, plan
from autoscaler.preflight.study import WorkloadStudy, recommended_replicas, study
from autoscaler.preflight.sustained import ByHour
from autoscaler.preflight.waiting import capacity_for, longest_wait_s
from tests.preflight.builders import DAY, GONE, HOUR, STEP_S, history, spread, track, value, wave, why


def told(given: Given | None = None, **made: Any) -> WorkloadStudy:
    return study(history(**made), given or Given())[0]


def levels(found: Bands | CannotTell) -> Bands:
    assert isinstance(found, Bands), found
    return found


def surges(found: Bursts | CannotTell) -> Bursts:
    assert isinstance(found, Bursts), found
    return found


def test_a_steady_load_has_one_level_and_nothing_above_it() -> None:
    found = told()
    bands = levels(found.concurrency)
    answers = (bands.floor, bands.usual, bands.high, bands.highest, bands.peak)
    assert [value(level) for level in answers] == [16.0] * 5
    assert why(surges(found.bursts).over_before) == "TOO_FEW"
    assert found.missing == {}


def test_a_day_s_wave_has_its_floor_at_night_and_its_bands_by_the_hour() -> None:
    found = levels(told(steps=7 * DAY, running=track(wave(7, low=10.0, high=50.0))).concurrency)
    # Of a cosine, 5 % of the time lies below low + (high - low) * (1 - cos(pi * 0.05)) / 2 = 10.25.
    assert value(found.floor) == pytest.approx(10.25, abs=0.02)
    assert value(found.usual) == pytest.approx(30.0, abs=0.1)
    assert value(found.high) == pytest.approx(49.75, abs=0.02)
    assert isinstance(found.hours, ByHour)
    assert int(np.argmin(found.hours.usual)) in {0, 23}
    assert int(np.argmax(found.hours.usual)) in {11, 12}


def test_a_workload_that_nobody_asks_anything_needs_nothing_and_wastes_all_it_holds() -> None:
    silent = track(np.zeros(3 * DAY))
    found = told(Given(slots=8.0), running=silent, busy_replicas=silent, arrivals_per_s=silent)
    assert value(levels(found.concurrency).floor) == value(levels(found.concurrency).peak) == 0.0
    assert value(found.provision.wasted) == value(found.provision.held) == 3 * 192.0
    assert value(found.residency.computing) == 0.0
    assert value(found.residency.longest_idle) == 3 * 86_400.0
    assert set(dict(found.waiting.capacity_for).values()) == {0.0}


def test_a_spike_is_the_peak_and_not_the_level_that_was_sustained() -> None:
    running = np.full(DAY, 16.0)
    running[1000] = 112.0
    found = levels(told(steps=DAY, running=track(running)).concurrency)
    # A step of 30 s in a window of 180 s: (5 * 16 + 112) / 6 = 32.
    assert (value(found.highest), value(found.peak), value(found.floor)) == (32.0, 112.0, 16.0)


def test_the_cold_start_that_was_measured_beats_the_one_given_and_its_ninetieth_percentile_counts() -> None:
    starts = spread([60.0, 120.0, 600.0], [5, 4, 1], exact=True)
    assert value(told(Given(cold_start_s=30.0), cold_start=starts).cold_start) == 120.0


def test_four_cold_starts_are_too_few_to_beat_what_was_given() -> None:
    found = told(Given(cold_start_s=30.0), cold_start=spread([60.0], [4], exact=True)).cold_start
    assert value(found) == 30.0
    assert found.how == "given, not measured"  # type: ignore[union-attr]


def test_what_a_replica_carries_is_what_it_ran_while_others_waited() -> None:
    running, waiting = np.full(DAY, 16.0), np.zeros(DAY)
    running[:100], waiting[:100] = 48.0, 10.0
    found = told(Given(slots=99.0), steps=DAY, running=track(running), waiting=track(waiting))
    assert value(found.slots) == 12.0, "48 on 4 replicas; a measurement beats what was given"


def test_one_replica_s_queue_says_nothing_about_all_of_them() -> None:
    found = told(steps=DAY, waiting=track(np.full(DAY, 3.0)))
    assert why(found.slots) == "NO_CAPACITY", "3 wait, 4 replicas: some of them may be idle"


def test_what_was_given_beats_a_usual_setting_of_the_engine_which_counts_where_it_is_a_number() -> None:
    assert value(told(Given(slots=4.0), facts={Fact.SLOTS: "256"}).slots) == 4.0
    assert value(told(Given(), facts={Fact.SLOTS: "256"}).slots) == 256.0
    assert why(told(Given(), facts={Fact.SLOTS: "many"}).slots) == "NO_CAPACITY"


def test_surges_are_measured_above_what_stood_or_above_a_reactive_scaler_where_that_was_hardly_ever_exceeded() -> None:
    spiky = track(np.where(np.arange(3 * DAY) % 60 < 2, 60.0, 16.0))
    # Four replicas carry 32, or 64, at once.
    exceeded = surges(told(Given(slots=8.0), running=spiky).bursts)
    assert (exceeded.level, exceeded.above_stood) == (STANDING, 144)
    roomy = surges(told(Given(slots=16.0), running=spiky).bursts)
    assert (roomy.level, roomy.above_stood) == (REACTIVE, 0)
    assert value(roomy.over_before) == 1.0
    unknown = surges(told(Given(slots=16.0), running=spiky, replicas=GONE).bursts)
    assert (unknown.level, unknown.above_stood) == (REACTIVE, None)


CANNOT: dict[str, tuple[dict[str, Any], str, str]] = {
    "no gauge and no durations": ({"running": GONE, "duration": GONE}, "concurrency", "NOT_RECORDED"),
    "no counter of requests": ({"arrivals_per_s": GONE}, "rate", "NOT_RECORDED"),
    "clumping without a counter": ({"arrivals_per_s": GONE}, "dispersion", "NOT_RECORDED"),
    "no cold start for the floor": ({"cold_start": GONE}, "concurrency", "NO_COLD_START"),
    "no cold start for surges": ({"cold_start": GONE}, "bursts", "NO_COLD_START"),
    "no cold start at all": ({"cold_start": GONE}, "cold_start", "NO_COLD_START"),
    "nine cold starts of record": ({"steps": 59}, "concurrency.floor", "TOO_SHORT"),
    "clumping in an hour": ({"steps": HOUR}, "dispersion", "TOO_SHORT"),
    "a day and a half by the hour": ({"steps": 36 * HOUR}, "concurrency.hours", "TOO_SHORT"),
    "six of ten steps unknown": (
        {"steps": 1000, "running": track([np.nan] * 600 + [1.0] * 400)}, "concurrency", "TOO_MANY_HOLES",
    ),
    "a hole in every window": (
        {"steps": 1000, "running": track(np.where(np.arange(1000) % 6 == 0, np.nan, 1.0))},
        "concurrency.floor", "TOO_MANY_HOLES",
    ),
    "a hole in most windows": (
        {"steps": 1000, "running": track(np.where((np.arange(1000) > 400) & (np.arange(1000) % 6 == 0), np.nan, 1.0))},
        "concurrency.floor", "TOO_MANY_HOLES",
    ),
    "clumping of nothing": ({"arrivals_per_s": track(np.zeros(3 * DAY))}, "dispersion", "NO_LOAD"),
    "never saturated": ({}, "slots", "NO_CAPACITY"),
    "GPUs not named": ({"gpus_per_replica": None}, "gpus", "NO_GPUS"),
    "no queue waits": ({"queue_wait": GONE}, "waiting.waits.2", "NOT_RECORDED"),
    "no queue": ({"waiting": GONE}, "waiting.queued", "NOT_RECORDED"),
    "no deadline": ({}, "waiting.allowed", "NOT_NAMED"),
    "no priority": ({}, "waiting.work", "NOT_NAMED"),
    "durations above the last bucket": ({"duration": spread([1.0, np.inf], [1, 99])}, "durations.1", "NOT_RECORDED"),
    "no KV gauge": ({"kv_usage_ratio": GONE}, "residency.kv_used", "NOT_RECORDED"),
    "a KV gauge that never answered": (
        {"steps": 100, "kv_usage_ratio": track(np.full(100, np.nan))}, "residency.kv_peak", "TOO_MANY_HOLES",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "path", "reason"), CANNOT.values(), ids=CANNOT)
def test_what_cannot_be_told_has_a_reason_words_and_a_remedy(made: dict[str, Any], path: str, reason: str) -> None:
    found: Any = told(**made)
    for part in path.split("."):
        found = found[int(part)] if part.isdigit() else getattr(found, part)
    assert why(found) == reason
    assert len(found.text) > 15
    assert found.needed


def test_a_deadline_that_somebody_wrote_down_is_what_requests_may_wait() -> None:
    assert value(told(facts={Fact.DEADLINE_S: "30"}).waiting.allowed) == 30.0


@pytest.mark.parametrize(
    ("facts", "work"),
    [
        ({Fact.PRIORITY_CLASS: "team-a-batch-low"}, "batch"),
        ({Fact.PRIORITY_CLASS: "production"}, "inference"),
        ({Fact.PRIORITY_CLASS: "production", Fact.WORK: "batch"}, "batch"),
    ],
    ids=["by the class's name", "another class", "what the source says beats the name"],
)
def test_batch_work_is_told_by_its_priority(facts: dict[str, str], work: str) -> None:
    assert told(facts=facts).waiting.work == work


def test_a_burst_of_a_minute_spread_over_the_allowed_wait_needs_that_much_less() -> None:
    # 60 requests/s for 60 s on top of nothing. Served within 60 s after: 3,600 requests in 60 + 60 s, 30 a second.
    work = np.zeros(HOUR)
    work[10:12] = 60.0
    found = dict(capacity_for(work, STEP_S))
    assert found[0.0] == 60.0
    assert found[60.0] == pytest.approx(30.0, rel=0.01)
    assert list(found) == [0.0, 60.0, 300.0], "half an hour of an hour's record says nothing about waits"
    assert longest_wait_s(work, 30.0, STEP_S) == pytest.approx(60.0)


def test_waits_shorter_than_a_step_are_not_spoken_of() -> None:
    assert [wait for wait, _ in capacity_for(np.ones(300), 120.0)] == [0.0, 300.0, 1800.0, 7200.0]


loads = st.lists(st.floats(0.1, 100.0), min_size=30, max_size=120).map(np.array)


@settings(deadline=None)
@given(loads)
def test_who_may_wait_longer_never_needs_more_and_none_needs_less_than_the_mean(work: np.ndarray) -> None:
    found = [capacity for _, capacity in capacity_for(work, STEP_S)]
    assert found == sorted(found, reverse=True)
    assert found[0] == work.max()
    assert found[-1] >= work.mean() - 1e-9


@settings(deadline=None, max_examples=30)
@given(loads, st.floats(0.1, 20.0))
def test_a_load_times_k_needs_k_times_the_capacity_and_has_k_times_the_bands(work: np.ndarray, k: float) -> None:
    made: dict[str, Any] = {"steps": work.size, "cold_start": spread([60.0], [20], exact=True), "replicas": GONE}
    one, other = (
        told(**made, running=track(work * factor), waiting=track(np.zeros(work.size)), arrivals_per_s=GONE,
             tokens_per_s=GONE, busy_replicas=GONE, kv_usage_ratio=GONE)
        for factor in (1.0, k)
    )  # fmt: skip
    for name in ("floor", "usual", "high", "highest", "peak"):
        mine, theirs = getattr(levels(one.concurrency), name), getattr(levels(other.concurrency), name)
        assert value(theirs) == pytest.approx(k * value(mine), rel=1e-6)
    for (_, mine), (_, theirs) in zip(one.waiting.capacity_for, other.waiting.capacity_for, strict=True):
        assert theirs == pytest.approx(k * mine, rel=1e-6)


def test_replicas_are_rounded_up_and_never_below_zero() -> None:
    eight = told(Given(slots=8.0)).slots

    def replicas(level: float, factor: float = 1.0) -> Answer:
        found = levels(told().concurrency).floor
        assert isinstance(found, Measured)
        return recommended_replicas(
            Measured(level, found.unit, found.window, 1, "windows", "made", level, level), eight, factor=factor
        )

    assert [value(replicas(level)) for level in (0.0, 0.1, 8.0, 8.1)] == [0.0, 1.0, 1.0, 2.0]
    assert str(value(replicas(0.0))) == "0.0", "not -0"
    assert value(replicas(8.0, factor=1.3)) == 2.0


def test_the_same_record_gives_the_same_study() -> None:
    made: dict[str, Any] = {"steps": 7 * DAY, "running": track(wave(7, low=1.0, high=9.0))}
    one, other = levels(told(**made).concurrency), levels(told(**made).concurrency)
    assert (one.floor, one.usual, one.high) == (other.floor, other.usual, other.high)


@pytest.mark.parametrize(
    ("given", "cost"),
    [({"h100": 3.0, "": 1.0}, 3.0 * 96), ({"": 1.0}, 96.0), ({"h100": 0.0}, 0.0)],
    ids=["its own shape's price", "the price of all others", "nothing at all is a price"],
)
def test_the_price_is_that_of_the_shape(given: dict[str, float], cost: float) -> None:
    found = told(Given(slots=8.0, price_per_gpu_hour=given), steps=DAY, facts={Fact.SHAPE: "h100"})
    assert value(found.provision.cost) == pytest.approx(cost)


def test_clumped_arrivals_are_told_from_chance_and_a_day_s_wave_is_no_clumping() -> None:
    rng = np.random.default_rng(2)
    wavy = rng.poisson(wave(7, low=1.0, high=9.0) * STEP_S) / STEP_S
    clumped = rng.poisson(4.0 * STEP_S / 20, 7 * DAY) * 20 / STEP_S
    chance, bursty = (value(told(steps=7 * DAY, arrivals_per_s=track(rate)).dispersion) for rate in (wavy, clumped))
    assert chance == pytest.approx(1.0, abs=0.15)
    assert bursty == pytest.approx(20.0, rel=0.15)


def test_all_seven_inputs_have_rows_whether_or_not_they_can_be_told() -> None:
    blank = {"running": GONE, "duration": GONE, "arrivals_per_s": GONE, "replicas": GONE, "waiting": GONE}
    variants: list[dict[str, Any]] = [{}, blank, {"facts": {Fact.WORK: "batch"}}]
    for made in variants:
        assert {name[0] for name, _ in inputs(told(**made))} == set("1234567")
    assert ("5 Demand that is batch", 1.0) in [
        (name, found.value) for name, found in inputs(told(facts={Fact.WORK: "batch"})) if isinstance(found, Measured)
    ]


def test_the_plan_speaks_of_bands_ceiling_window_tolerance_and_waste() -> None:
    found = dict(plan(told(Given(slots=8.0, price_per_gpu_hour={"": 2.0}))))
    assert value(found["Floor in replicas"]) == 2.0
    assert value(found["1.3 times that in replicas"]) == 3.0
    assert value(found["Sustained window: one cold start"]) == 180.0
    assert value(found["What the excess costs"]) == pytest.approx(576.0)
    assert why(found["Queue tolerance: wait that is allowed"]) == "NOT_NAMED"
    rates = dict(plan(told(running=GONE, duration=GONE)))
    assert value(rates["Floor of arrivals"]) == 4.0
    assert why(rates["Concurrency bands"]) == "NOT_RECORDED"
