"""Estimates of scripted pages, equal to what is worked out by hand; and what cannot be told."""

import json

import pytest

from autoscaler.core.params import Params, Slo
from autoscaler.core.state import Table
from autoscaler.core.types import ReplicaReading, StartingReplica
from autoscaler.hindsight.fleet import Fleet
from autoscaler.hindsight.knowledge import lend
from autoscaler.hindsight.ledger import Ledger
from autoscaler.hindsight.shadow import Shadow
from autoscaler.record.estimate import Doubt
from tests.hindsight.scripts import NAME, Script

HOUR_S = 3600.0


def growing(now_s: float) -> float:
    """Two a second come and one is served: after a second one waits."""
    return now_s


def test_of_four_replicas_that_a_human_keeps_two_are_saved_from_the_minute_they_go() -> None:
    """Two hours at one request a second: four replicas are 8 hours; ours are four for ten minutes and then two:
    4 × 600 s + 2 × 6600 s = 15,600 s = 4.333 hours. Nobody waits in any account."""
    script = Script(1.0, humans=lambda _: 4, gpus=2)
    told = script.run(2 * HOUR_S, ours=lambda now_s: 4 if now_s < 600 else 2)
    assert told.counted_s == 2 * HOUR_S
    assert told.requests == 7200.0
    assert told.observed.held_hours == pytest.approx(8.0)
    assert told.ours.held_hours == pytest.approx(15_600 / 3600)
    assert told.saved_hours == pytest.approx(8.0 - 15_600 / 3600)
    assert told.saved_gpu_hours == pytest.approx(2 * (8.0 - 15_600 / 3600))
    assert (told.observed.late, told.modelled.late, told.ours.late) == (0.0, 0.0, 0.0)
    assert told.doubt is None
    assert [round(hour.held_ours, 3) for hour in told.hours] == [round((4 * 600 + 2 * 3000) / 3600, 3), 2.0]
    assert "7.33 GPU-hours of 16 saved; 0 late requests avoided" in told.text


def test_requests_that_one_replica_made_late_are_avoided_by_two_more_after_their_warm_up() -> None:
    """Two a second and one replica for an hour: whoever comes at second t waits t, so those of seconds 10 to 3590 are
    found late: 7160. Ours order two more at second 0, which serve from 60 on: 60 wait then, and go at one a second.
    Whoever comes at second t up to 30 waits t, later ones 40 - t/3: late from 10 to 90, 160 requests. 3 × 1 h held."""
    script = Script(2.0, queue=growing)
    told = script.run(HOUR_S, ours=lambda _: 3)
    assert told.observed.late == pytest.approx(7160.0)
    assert told.modelled.late == pytest.approx(7160.0)
    assert told.ours.late == pytest.approx(160.0, abs=1.0)
    assert told.ours.held_hours == pytest.approx(3.0)
    assert told.observed.wait_s == pytest.approx(0.5 * HOUR_S**2 / 7200)
    assert told.ours.wait_s == pytest.approx((0.5 * 60 * 60 + 0.5 * 60 * 60) / 7200)
    assert (told.starts, told.warmup_assumed) == (2, True)
    assert told.avoided == pytest.approx(7000.0, abs=1.0)
    assert told.saved_hours == pytest.approx(-2.0)
    assert told.late_error_ratio == pytest.approx(0.0, abs=1e-9)
    assert "2 GPU-hours of 1 more; 7,000 late requests avoided, give or take 0" in told.text


def test_when_the_model_says_what_did_not_happen_nothing_can_be_told() -> None:
    """Two a second, one replica known to carry one, and nothing was read to wait: the capacity is wrong."""
    told = Script(2.0).run(HOUR_S, ours=lambda _: 3)
    assert told.observed.late == 0.0
    assert told.late_error_ratio == pytest.approx((7200 - 40) / 7200, rel=0.01)
    assert told.doubt == Doubt.MODEL_OFF.name
    assert (told.saved_hours, told.avoided) == (None, None)
    assert told.text.index("misplaced 99.4 %") < told.text.index("Cannot tell what would have been saved")


def test_less_than_an_hour_of_what_happened_is_too_little() -> None:
    told = Script(1.0, humans=lambda _: 2).run(1800.0, ours=lambda _: 1)
    assert told.doubt == Doubt.TOO_SHORT.name
    assert "(30 min of 60 min)" in told.text


def test_where_no_replica_was_ever_full_savings_are_at_least_so_much() -> None:
    told = Script(1.0, humans=lambda _: 4, full_s=0.0).run(HOUR_S, ours=lambda _: 2)
    assert told.least
    assert "at least 2 GPU-hours of 4 saved" in told.text


def test_where_no_replica_was_ever_full_and_nothing_would_be_saved_it_cannot_be_told() -> None:
    told = Script(1.0, humans=lambda _: 4, full_s=0.0).run(HOUR_S, ours=lambda _: 5)
    assert told.doubt == Doubt.NEVER_FULL.name


def test_an_objective_of_token_times_is_not_told_by_a_queue() -> None:
    script = Script(1.0, params=Params(slo=Slo(tpot_s=0.05), warmup_prior_s=60.0))
    assert script.run(HOUR_S, ours=lambda _: 1).doubt == Doubt.NO_WAIT.name


def test_nothing_is_counted_before_it_is_known_what_a_replica_carries() -> None:
    script = Script(1.0)
    row = script.table.rows[NAME]
    script.table.throughput.saturated_pod_s[row] = script.table.throughput.saturated_done[row] = 0.0
    script.table.throughput.proven_rps[row] = float("nan")
    told = script.run(600.0, ours=lambda _: 1)
    assert (told.counted_s, told.doubt) == (0.0, Doubt.UNCALIBRATED.name)


def test_a_silence_of_ten_minutes_is_left_out_of_all_accounts_alike() -> None:
    """From 1200 to 1795 nothing is read: the span from 1195 to 1800 is not known. Ours keeps its replicas in it."""
    script = Script(1.0, humans=lambda _: 4, silent=lambda now_s: 1200 <= now_s < 1800)
    told = script.run(2 * HOUR_S, ours=lambda _: 2)
    assert told.missing_s == 605.0
    assert told.counted_s == 2 * HOUR_S - 605.0
    assert told.requests == told.counted_s
    assert told.observed.held_hours == pytest.approx(4 * told.counted_s / 3600)
    assert told.ours.held_hours == pytest.approx(2 * told.counted_s / 3600)


def test_a_short_silence_is_bridged_because_the_counter_went_on() -> None:
    script = Script(1.0, humans=lambda _: 4, silent=lambda now_s: 1200 <= now_s < 1260)
    told = script.run(2 * HOUR_S, ours=lambda _: 2)
    assert (told.missing_s, told.counted_s, told.requests) == (0.0, 2 * HOUR_S, 7200.0)


def test_the_sums_go_on_after_a_restart() -> None:
    first = Script(1.0, humans=lambda _: 4)
    first.run(HOUR_S, ours=lambda _: 2)
    kept = json.loads(json.dumps(first.shadow.ledgers()[NAME].pack()))
    second = Script(1.0, humans=lambda _: 4, now_s=first.now_s)
    second.shadow.resume(NAME, Ledger.unpack(kept))
    told = second.run(2 * HOUR_S, ours=lambda _: 2)
    assert told.from_s == 5.0
    assert told.counted_s == pytest.approx(2 * HOUR_S - 5.0)  # from the last look of the first to the next
    assert told.saved_hours == pytest.approx(2 * told.counted_s / 3600, abs=0.01)


def test_sums_that_are_kept_stay_small_after_three_days() -> None:
    script = Script(1.234567, humans=lambda _: 4)
    for hour in range(72):
        script.now_s = hour * HOUR_S
        script.run(hour * HOUR_S + 300.0, ours=lambda _: 2)
    packed = script.shadow.ledgers()[NAME].pack()
    assert len(packed["hours"]) == 48
    assert len(json.dumps(packed, separators=(",", ":"))) <= 4096


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"version": 2},
        {"version": 1, "total": [1.0], "error": [], "hours": []},
        {**Ledger().pack(), "missing_s": 10**400},
    ],
    ids=["nothing", "another version", "too few sums", "a sum that no float holds"],
)
def test_sums_of_another_shape_are_refused(broken: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the words are for the log
        Ledger.unpack(broken)


def test_while_headroom_acts_nothing_is_told_and_the_sums_wait() -> None:
    script = Script(1.0, humans=lambda _: 4)
    script.run(HOUR_S, ours=lambda _: 2)
    script.shadow.rest(NAME)
    assert script.shadow.estimate(NAME) is None
    assert NAME not in script.shadow.twins.rows
    assert script.shadow.ledgers()[NAME].total.counted_s == HOUR_S
    script.shadow.forget(NAME)
    assert script.shadow.ledgers() == {}


def test_once_a_replica_was_seen_full_counting_begins_anew() -> None:
    """What was counted before rests on a lower bound."""
    script = Script(1.0, humans=lambda _: 4, full_s=0.0)
    script.run(1800.0, ours=lambda _: 2)
    row = script.table.rows[NAME]
    script.table.throughput.saturated_done[row] = script.table.throughput.saturated_pod_s[row] = 100.0
    told = script.run(HOUR_S, ours=lambda _: 2)
    assert told.from_s == pytest.approx(1810.0)
    assert not told.least


def test_under_another_objective_late_requests_are_counted_anew() -> None:
    script = Script(1.0, humans=lambda _: 4)
    script.run(1800.0, ours=lambda _: 2)
    script.params = Params(slo=Slo(wait_s=5.0), warmup_prior_s=60.0)
    told = script.run(HOUR_S, ours=lambda _: 2)
    assert (told.slack_s, told.counted_s) == (5.0, HOUR_S - 1805.0)


def test_starts_go_before_replicas_that_serve_and_the_youngest_first() -> None:
    fleet = Fleet.like(ReplicaReading(3, 2, (StartingReplica(90.0),)), 100.0, 60.0)
    fleet.order(100.0, 5, 60.0)
    assert (fleet.held, fleet.starts) == (5, 2)
    assert [(end_s, ready) for end_s, ready in fleet.spans(100.0, 155.0)] == [(150.0, 2), (155.0, 3)]
    fleet.order(155.0, 3, 60.0)
    assert (fleet.held, len(fleet.ready)) == (3, 3)
    fleet.order(155.0, 1, 60.0)
    assert fleet.reading() == ReplicaReading(1, 1, ())


def test_a_workload_that_is_not_known_is_no_error() -> None:
    shadow = Shadow(Script(1.0).table)
    shadow.forget("prod/unknown")
    assert shadow.estimate("prod/unknown") is None
    assert shadow.ours("prod/unknown") is None
    assert shadow.span("prod/unknown") is None


@pytest.mark.parametrize(
    ("learned", "lent"),
    [
        pytest.param({"saturated_pod_s": 30.0, "saturated_done": 60.0}, 60.0, id="measured"),
        pytest.param({"saturated_pod_s": 10.0, "saturated_done": 60.0}, 7.0, id="too little to believe"),
        pytest.param({"proven_rps": 3.0, "proven_at_s": 5.0}, 3.0, id="proven, and more than the twin has"),
        pytest.param({"proven_rps": 1.0, "proven_at_s": 5.0}, 2.0, id="proven, and less"),
    ],
)
def test_a_twin_learns_what_its_own_workload_did_whoever_learns_beside_it(
    learned: dict[str, float], lent: float
) -> None:
    """The twins have served 7 requests when full, and 2 requests/s without being full; two others learn otherwise."""
    table, twins = Table.empty(), Table.empty()
    rows = {"full": {"saturated_pod_s": 99.0}, "ours": learned, "proven": {"proven_rps": 9.0}}
    for name, values in rows.items():
        row, twin = table.put(name, Params()), twins.put(f"{name} twin", Params())
        for column, value in values.items():
            getattr(table.throughput, column)[row] = value
        twins.throughput.saturated_done[twin], twins.throughput.proven_rps[twin] = 7.0, 2.0
        table.track(row).lead.samples_s = [float(row)]
    lend(twins, table, [(f"{name} twin", name) for name in rows])
    column = "proven_rps" if "proven_rps" in learned else "saturated_done"
    assert getattr(twins.throughput, column)[twins.rows["ours twin"]] == lent
    assert [twins.track(row).lead.samples_s for row in range(3)] == [[0.0], [1.0], [2.0]]
