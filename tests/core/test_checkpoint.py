"""Checkpoints: small, whole, refused when foreign, and enough to go on in the middle of a burst."""

import json
import math
from collections.abc import Callable

import pytest

from autoscaler.core.checkpoint import CHECKPOINT_VERSION, RECENT_BINS, checkpoint, restore
from autoscaler.core.params import NO_BIN, Params
from autoscaler.core.reasons import Reason
from autoscaler.core.state import Table
from autoscaler.core.view import view
from tests.core.toy import NAME, Story, Toy, copied, counts, steps_of

MOST_BYTES = 4096


def size(saved: dict[str, object]) -> int:
    return len(json.dumps(saved, separators=(",", ":"), allow_nan=False).encode())


def restored(story: Story) -> Table:
    """A new table with only the checkpoint of the old one, by way of JSON text."""
    table = Table.empty(1)
    table.put(NAME, story.params)
    restore(table, NAME, json.loads(json.dumps(checkpoint(story.table, NAME))))
    return table


def wavy(now_s: float) -> float:
    """A day with a wave, and a spike of a minute every half hour: figures of full length everywhere."""
    return 17.31 + 9.17 * math.sin(now_s / 13_751.0) + (31.7 if now_s % 1800.0 < 60.0 else 0.0)


def aged(hours: float, *, load: Callable[[float], float] = wavy, tick_s: float = 60.0) -> Story:
    story = Story(Toy.of(16, load, replica_rps=1.937, queue=300.0), Params(tick_s=tick_s, warmup_prior_s=150.0))
    story.run(3600.0 * hours)
    return story


@pytest.fixture(scope="module")
def morning() -> Story:
    return aged(2.0, tick_s=60.0)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_checkpoint_after_a_day_of_ten_second_ticks_is_small() -> None:
    story = aged(24.0, tick_s=10.0)
    assert size(checkpoint(story.table, NAME)) <= MOST_BYTES


def test_a_checkpoint_after_a_day_is_small_and_plain_json(morning: Story) -> None:
    """Two hours in full, then ten minutes of every hour of a day, so that every kept column is filled."""
    story = copied(morning)
    for _ in range(24):
        story.toy.now_s += 3000.0
        story.run(600.0)
    saved = checkpoint(story.table, NAME)
    assert size(saved) <= MOST_BYTES
    assert json.loads(json.dumps(saved)) == saved


def test_a_checkpoint_of_a_new_workload_is_small_and_restorable() -> None:
    table = Table.empty(1)
    table.put(NAME, Params())
    saved = checkpoint(table, NAME)
    assert size(saved) <= MOST_BYTES
    restore(table, NAME, saved)


@pytest.mark.parametrize("head", [None, -1], ids=["of this build", "of one that numbered no bin -1"])
def test_a_checkpoint_from_before_the_first_reading_restores_none(head: int | None) -> None:
    table = Table.empty(1)
    table.put(NAME, Params())
    saved = checkpoint(table, NAME)
    if head is not None:
        saved["load"]["head"] = head
    restore(table, NAME, saved)
    assert table.history.head.tolist() == [NO_BIN]


def test_a_checkpoint_from_before_nought_keeps_the_last_minutes() -> None:
    toy = Toy.of(4, 4.0, queue=60.0, now_s=-7200.0)
    story = Story(toy, Params(tick_s=10.0))
    story.run(1200.0)
    table = restored(story)
    assert table.history.head.tolist() == story.table.history.head.tolist() == [-601]
    kept = checkpoint(table, NAME)["recent"]
    assert kept == checkpoint(story.table, NAME)["recent"]
    assert len(kept["load"]) == len(kept["counts"]) == RECENT_BINS


def test_what_matters_survives_a_round_trip(morning: Story) -> None:
    table = restored(morning)
    for group, names in {
        "throughput": ("saturated_done", "saturated_pod_s", "proven_rps"),
        "budget": ("total", "late", "since_s"),
        "peaks": ("need_rps", "hour", "worked_s"),
        "forecast": ("upper_rps", "median_rps"),
    }.items():
        for name in names:
            before, after = (getattr(t.groups()[group], name)[0] for t in (morning.table, table))
            assert after == pytest.approx(before, rel=1e-5, nan_ok=True), f"{group}.{name}"
    assert table.track(0).lead.samples_s == pytest.approx(morning.table.track(0).lead.samples_s[-12:], abs=0.1)
    assert table.track(0).zero_signal


@pytest.mark.parametrize("origin_s", [0.0, 1_794_995_200.0], ids=["from nought", "since 1970"])
def test_a_workload_that_worked_a_minute_ago_is_not_idle_after_a_restart(origin_s: float) -> None:
    """Six digits of seconds since 1970 are hours: a moment without work would then have lasted since before it."""
    toy = Toy.of(2, lambda t: 3.0 if t < origin_s + 900.0 else 0.0, now_s=origin_s)
    story = Story(toy, Params(min_replicas=0, idle_after_s=600.0, tick_s=10.0))
    story.run(960.0)
    story.table = restored(story)
    assert min(counts(story.run(480.0))) >= 1
    story.run(600.0)
    assert story.replicas == 0, "and is idle ten minutes after its last work"


def test_a_second_checkpoint_says_what_the_first_said(morning: Story) -> None:
    first = checkpoint(morning.table, NAME)
    second = checkpoint(restored(morning), NAME)
    assert second["columns"] == first["columns"]
    assert second["load"] == first["load"]
    assert second["lead_samples_s"] == first["lead_samples_s"]


def test_the_forecast_of_a_wave_survives_roughly() -> None:
    story = aged(2.0, load=lambda t: 17.0 + 9.0 * math.sin(t / 3_751.0))
    other = copied(story)
    other.table = restored(story)
    for each in (story, other):
        each.run(180.0)
    before, after = (each.table.forecaster.out.upper_rps[0] for each in (story, other))
    assert after == pytest.approx(before, rel=0.2)


@pytest.mark.parametrize("version", [0, CHECKPOINT_VERSION + 1, None, "1"])
def test_a_checkpoint_of_another_version_is_refused(version: object) -> None:
    table = Table.empty(1)
    table.put(NAME, Params())
    saved = checkpoint(table, NAME) | {"version": version}
    with pytest.raises(ValueError, match="version"):
        restore(table, NAME, saved)


def test_a_checkpoint_of_another_shape_is_refused(morning: Story) -> None:
    saved = checkpoint(morning.table, NAME)
    saved["columns"]["peaks"]["hour"] = [1.0, 2.0]
    table = Table.empty(1)
    table.put(NAME, Params())
    with pytest.raises(ValueError, match="hour"):
        restore(table, NAME, saved)


def test_what_a_step_was_spared_is_kept_and_none_in_a_checkpoint_of_a_build_that_spared_nothing(morning: Story) -> None:
    story = copied(morning)
    story.table.forecaster.out.spared[0] = 31.0
    assert restored(story).forecaster.out.spared[0] == 31.0
    saved = checkpoint(story.table, NAME)
    del saved["columns"]["forecast"]["spared"]
    table = Table.empty(1)
    table.put(NAME, Params())
    restore(table, NAME, saved)
    assert table.forecaster.out.spared[0] == 0.0


def test_an_unknown_workload_has_no_checkpoint() -> None:
    with pytest.raises(KeyError):
        checkpoint(Table.empty(1), "nobody")


# a restart in the middle of a burst
def mid_burst(*, after_s: float) -> tuple[Story, Story]:
    """Two copies of one story: six times the load since `after_s`, new replicas need three minutes; one restarts."""
    toy = Toy.of(4, lambda t: 4.0 if t < 1000.0 else 24.0, queue=60.0, warmup_s=180.0)
    story = Story(toy, Params(tick_s=10.0, warmup_prior_s=180.0))
    story.run(1000.0 + after_s)
    other = copied(story)
    other.table = restored(story)
    return story, other


@pytest.mark.parametrize("after_s", [30.0, 90.0, 170.0])
def test_a_restart_in_mid_burst_does_not_shrink(after_s: float) -> None:
    _, other = mid_burst(after_s=after_s)
    stood = other.replicas
    assert min(counts(other.run(190.0 - after_s))) >= stood >= 12


@pytest.mark.parametrize("after_s", [30.0, 90.0, 170.0])
def test_a_restart_in_mid_burst_does_not_order_twice(after_s: float) -> None:
    story, other = mid_burst(after_s=after_s)
    whole, restart = counts(story.run(250.0)), counts(other.run(250.0))
    assert max(restart) <= 1.2 * max(whole)


def test_a_restart_in_mid_burst_does_not_see_a_lower_load() -> None:
    story, other = mid_burst(after_s=60.0)
    other.tick()
    story.tick()
    before, after = view(story.table, NAME), view(other.table, NAME)
    assert before is not None
    assert after is not None
    assert after.load_rps == pytest.approx(before.load_rps, rel=0.1)


def test_the_first_decision_after_a_restart_has_a_reason_and_no_step_to_nought() -> None:
    _, other = mid_burst(after_s=60.0)
    told = other.run(60.0)
    assert min(counts(told)) > 4
    assert Reason.IDLE not in {step.reason for step in steps_of(told)}


def test_a_fleet_that_was_never_full_knows_after_a_restart_what_one_replica_was_seen_to_carry() -> None:
    """Ten replicas at half of their rate: no queue ever, so all that is known of one is what it was seen to serve."""
    story = Story(Toy.of(10, lambda _: 10.0, replica_rps=2.0), Params(tick_s=10.0, warmup_prior_s=150.0))
    story.run(900.0)
    before = view(story.table, NAME)
    story.table = restored(story)
    story.run(30.0)
    after = view(story.table, NAME)
    assert before is not None
    assert after is not None
    assert before.replica_limit == after.replica_limit == "proven"
    assert after.replica_rps == pytest.approx(before.replica_rps, rel=0.2)
