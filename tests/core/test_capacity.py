"""What one replica can carry, from what replicas did: the four terms, each alone, on hand-made intervals."""

import numpy as np
import pytest

from autoscaler.core.capacity import throughput
from autoscaler.core.capacity.throughput import Served, Term, Throughput, ThroughputColumns
from tests.core.toy import Story, Toy

ROW = np.array([0])
NO_SLO = np.array([np.nan])
ROOM = 1.25
"""What a fleet without a queue is believed to carry at once, over what it did."""


def served(now_s: float, **fields: float) -> Served:
    """Ten seconds of one workload with two pods that did nothing but what is given."""
    quiet = {
        "now_s": now_s, "dt_s": 10.0, "completions": 0.0, "running": 0.0, "pods": 2.0, "kv_used": 0.0,
        "saturated_done": 0.0, "saturated_pod_s": 0.0, "saturated_running": 0.0, "free_done": 0.0, "free_pod_s": 0.0,
        "tpot_s": np.nan,
    }  # fmt: skip
    return Served(**{name: np.array([value]) for name, value in (quiet | fields).items()})


def saturated(now_s: float, rate_rps: float, *, running: float = 8.0) -> Served:
    """Two pods with a standing queue."""
    return served(
        now_s, completions=20.0 * rate_rps, running=2.0 * running, saturated_done=20.0 * rate_rps, saturated_pod_s=20.0,
        saturated_running=20.0 * running,
    )  # fmt: skip


def unsaturated(now_s: float, rate_rps: float, *, kv: float = 0.0, **fields: float) -> Served:
    """Two pods that keep up."""
    return served(
        now_s, completions=20.0 * rate_rps, free_done=20.0 * rate_rps, free_pod_s=20.0, kv_used=2.0 * kv, **fields
    )  # fmt: skip


def learned(
    intervals: list[Served], tpot_slo_s: float | None = None, columns: ThroughputColumns | None = None
) -> Throughput:
    columns = ThroughputColumns.allocate(1) if columns is None else columns
    slo = NO_SLO if tpot_slo_s is None else np.array([tpot_slo_s])
    for interval in intervals:
        result = throughput.learn(columns, ROW, interval, slo)
    return result


def test_nothing_is_known_before_anything_was_served() -> None:
    result = learned([served(10.0 * i) for i in range(60)])
    assert np.isnan(result.rps[0])
    assert result.term[0] == Term.UNKNOWN


def test_what_replicas_complete_while_requests_wait_is_their_capacity() -> None:
    result = learned([saturated(10.0 * i, 3.0) for i in range(6)])
    assert result.rps[0] == pytest.approx(3.0)
    assert result.slots[0] == pytest.approx(8.0)
    assert result.term[0] == Term.THROUGHPUT


def test_a_moment_of_saturation_is_not_believed() -> None:
    half = served(10.0, saturated_done=30.0, saturated_pod_s=10.0, saturated_running=80.0)
    assert np.isnan(learned([half]).rps[0])


@pytest.mark.parametrize(("looks", "every_s"), [(20, 1.0), (10, 2.0), (4, 5.0), (2, 10.0)])
def test_twenty_saturated_seconds_of_one_pod_are_believed_at_the_look_that_ends_them(
    looks: int, every_s: float
) -> None:
    """What was forgotten of them meanwhile, 0.04 s of four looks, cost a whole look."""

    def look(i: int) -> Served:
        return served(
            every_s * i, pods=1.0, dt_s=every_s, saturated_done=every_s, saturated_pod_s=every_s,
            saturated_running=4.0 * every_s,
        )  # fmt: skip

    assert np.isnan(learned([look(i) for i in range(looks - 1)]).rps[0])
    assert learned([look(i) for i in range(looks)]).rps[0] == pytest.approx(1.0)


def test_a_moment_of_saturation_raises_what_little_load_proved() -> None:
    """Two pods proved 1 request/s each; in ten seconds of one pod under a queue 36 were done: 3.6, less a sixth."""
    minute = [unsaturated(10.0 * i, 1.0) for i in range(7)]
    brief = served(65.0, saturated_done=36.0, saturated_pod_s=10.0, saturated_running=80.0)
    result = learned([*minute, brief])
    assert result.rps[0] == pytest.approx(3.0, rel=0.02)
    assert result.term[0] == Term.PROVEN


def test_a_queue_that_is_over_raises_nothing_any_more() -> None:
    """36 requests that began together ended in one look under a queue; the load that goes on is as it was."""
    minute = [unsaturated(10.0 * i, 1.0) for i in range(7)]
    brief = served(65.0, saturated_done=36.0, saturated_pod_s=6.0, saturated_running=80.0)
    assert learned([*minute, brief, unsaturated(75.0, 1.0)]).rps[0] == pytest.approx(1.0 * ROOM, rel=0.01)


def test_a_moment_of_saturation_in_which_little_ends_lowers_nothing() -> None:
    minute = [unsaturated(10.0 * i, 1.0) for i in range(7)]
    brief = served(65.0, saturated_done=2.0, saturated_pod_s=10.0, saturated_running=80.0)
    assert learned([*minute, brief]).rps[0] >= 1.0 * ROOM


@pytest.mark.parametrize("load_rps", [2.0, 3.0])
def test_a_step_of_ten_times_does_not_order_what_the_little_load_before_it_would_need(load_rps: float) -> None:
    """Two replicas of 8 requests/s each, hardly used. By what each of them did before it would be thirty."""
    story = Story(Toy.of(2, lambda now_s: load_rps * (10.0 if now_s >= 2400.0 else 1.0), replica_rps=8.0))
    assert max(decision.replicas for decision in story.run(3000.0)) <= 12


def test_a_slower_engine_is_noticed_within_an_hour_of_saturated_pods() -> None:
    hour = [saturated(10.0 * i, 3.0) for i in range(180)]
    slower = [saturated(1800.0 + 10.0 * i, 2.0) for i in range(360)]
    assert 2.0 < learned(hour + slower[:90]).rps[0] < 3.0
    assert learned(hour + slower).rps[0] == pytest.approx(2.13, abs=0.1)


def test_before_saturation_the_best_minute_is_proven_and_may_grow_slowly() -> None:
    minute = [unsaturated(10.0 * i, 1.5) for i in range(7)]
    first = learned(minute)
    later = learned([*minute, served(660.0)])
    assert first.term[0] == Term.PROVEN
    assert first.rps[0] == pytest.approx(1.5 * ROOM, rel=0.01)
    assert first.rps[0] < later.rps[0] <= 1.2 * first.rps[0]


def test_a_higher_proof_never_lowers_what_the_last_one_has_grown_to() -> None:
    """Two pods that prove 1.0 requests/s each pass for 1.2 after twenty minutes, with room for a quarter more; then a
    minute at 1.05 is seen."""
    proven = [unsaturated(10.0 * i, 1.0) for i in range(7)]
    quiet = [*proven, served(1260.0)]
    better = [*quiet, *(unsaturated(1270.0 + 10.0 * i, 1.05) for i in range(7))]
    assert learned(quiet).rps[0] == pytest.approx(1.2 * ROOM, rel=0.01)
    assert learned(better).rps[0] == pytest.approx(1.212 * ROOM, rel=0.002)
    assert learned([*better, served(1930.0)]).rps[0] == pytest.approx((1.212 + 0.105) * ROOM, rel=0.005)


def test_a_proof_above_what_the_last_one_has_grown_to_counts_from_now() -> None:
    proven = [unsaturated(10.0 * i, 1.0) for i in range(7)]
    better = [*proven, served(1260.0), *(unsaturated(1270.0 + 10.0 * i, 1.5) for i in range(12))]
    assert learned(better).rps[0] == pytest.approx(1.5 * ROOM, rel=0.01)


@pytest.mark.parametrize(("replicas", "load_rps", "most"), [(4, 5.0, 5), (10, 12.0, 11)])
def test_a_calm_fleet_that_was_never_full_hardly_grows(replicas: int, load_rps: float, most: int) -> None:
    """Three fifths full and without a queue for half an hour. Taken for full, four become six, and ten fourteen."""
    story = Story(Toy.of(replicas, load_rps, replica_rps=2.0))
    assert max(decision.replicas for decision in story.run(1800.0)) <= most


def test_an_idle_fleet_is_not_taken_for_full() -> None:
    """0.5 requests/s on two pods that hold 0.2 requests each: one by one, a pod would do 0.5 / 0.2 = 2.5 a second."""
    result = learned([unsaturated(10.0 * i, 0.5, running=0.4) for i in range(12)])
    assert result.term[0] == Term.PROVEN
    assert result.rps[0] == pytest.approx(2.5, rel=0.05)


def rare(now_s: float, dt_s: float, *, running: float = 0.0, done: float = 0.0) -> Served:
    """One pod, looked at every `dt_s`."""
    return served(
        now_s, dt_s=dt_s, pods=1.0, running=running, completions=done, free_done=done, free_pod_s=dt_s,
    )  # fmt: skip


def test_one_request_a_minute_that_no_look_finds_in_service_does_not_prove_a_pod_full() -> None:
    """It takes less than a look of 5 s: one by one a pod does at least one in 5 s, and not one in a minute."""
    result = learned([rare(5.0 * i, 5.0, done=float(i % 12 == 3)) for i in range(25)])
    assert result.term[0] == Term.PROVEN
    assert result.rps[0] == pytest.approx(1 / 5, rel=0.01)


def test_one_request_a_minute_seen_in_service_at_four_looks_and_then_done_takes_four_seconds() -> None:
    """No look finds one in service and another one done."""
    looks = [rare(float(i), 1.0, running=float(i % 60 in range(20, 24)), done=float(i % 60 == 24)) for i in range(125)]
    assert learned(looks).rps[0] == pytest.approx(1 / 4, rel=0.05)


def test_looks_that_find_one_done_and_four_in_service_say_no_less_than_all_looks_do() -> None:
    """Eight pods that hold one request of 40 s each, of which one comes in ten seconds: every other look finds one done
    and four in service, which would be 20 s each, and eight pods would pass for what sixteen can do."""
    looks = [
        served(
            5.0 * i, dt_s=5.0, pods=8.0, running=4.0, completions=float(i % 2), free_done=float(i % 2), free_pod_s=40.0,
        )
        for i in range(240)
    ]  # fmt: skip
    assert learned(looks).rps[0] == pytest.approx(1 / 40, rel=0.03)


def test_a_look_just_after_another_one_makes_rare_requests_no_shorter() -> None:
    looks = [rare(5.0 * i, 5.0, done=float(i % 12 == 3)) for i in range(25)]
    anew = [rare(120.0, 0.0), rare(120.2, 0.2)]
    assert learned(looks + anew).rps[0] == pytest.approx(learned(looks).rps[0])


def test_after_a_restart_rare_requests_prove_no_pod_full_either() -> None:
    """The proven minute is in the checkpoint, and by itself it calls a pod full that does one request of 4 s in it."""
    before, after = ThroughputColumns.allocate(1), ThroughputColumns.allocate(1)
    for i in range(25):
        was = throughput.learn(before, ROW, rare(5.0 * i, 5.0, done=float(i % 12 == 3)), NO_SLO)
    after.unpack(0, before.pack(0))
    back = throughput.learn(after, ROW, rare(130.0, np.nan), NO_SLO)
    assert back.rps[0] == pytest.approx(was.rps[0], rel=1e-5)


def test_rare_requests_of_a_minute_each_say_little_more_than_was_done() -> None:
    """One is in service at each look, and one is done in a minute: the pod is never idle, and it was never full."""
    looks = [rare(5.0 * i, 5.0, running=float(i % 12 != 11), done=float(i % 12 == 11)) for i in range(60)]
    assert learned(looks).rps[0] == pytest.approx(ROOM / 60, rel=0.15)


def test_one_look_without_a_count_of_what_is_in_service_takes_nothing_from_the_others() -> None:
    looks = [rare(5.0 * i, 5.0, done=float(i % 12 == 3)) for i in range(25)]
    blind = [rare(125.0, 5.0, running=np.nan)]
    assert learned(looks + blind).rps[0] == pytest.approx(1 / 5, rel=0.01)


def test_rare_requests_that_take_twenty_seconds_now_and_four_an_hour_ago_take_twenty() -> None:
    """What was summed up is forgotten over ten minutes."""
    short = [rare(float(i), 1.0, running=float(i % 60 in range(20, 24)), done=float(i % 60 == 24)) for i in range(3600)]
    long = [
        rare(3600.0 + i, 1.0, running=float(i % 60 in range(20, 40)), done=float(i % 60 == 40)) for i in range(1800)
    ]
    columns = ThroughputColumns.allocate(1)
    assert learned(short, columns=columns).rps[0] == pytest.approx(1 / 4, rel=0.05)
    learned(long, columns=columns)
    taken_s = columns.service_s[0] / columns.service_done[0]
    assert taken_s == pytest.approx(20.0, rel=0.1)


def test_rare_requests_without_a_count_of_what_is_in_service_say_what_was_done() -> None:
    looks = [rare(5.0 * i, 5.0, running=np.nan, done=float(i % 12 == 3)) for i in range(25)]
    assert learned(looks).rps[0] == pytest.approx(ROOM / 60, rel=0.05)


def test_a_fleet_with_many_requests_in_flight_is_worth_what_it_was_seen_to_do() -> None:
    """Ten in flight at 0.5 requests/s is 20 s each: one by one says less than what was proven."""
    result = learned([unsaturated(10.0 * i, 0.5, running=20.0) for i in range(12)])
    assert result.rps[0] == pytest.approx(0.5 * ROOM, rel=0.05)


def test_a_minute_in_which_requests_of_a_minute_only_begin_proves_nothing() -> None:
    """0.4 requests/s of 60 s each begin on two idle pods: 24 are in service after a minute, and two are done.

    The next minute as many end as begin, and proves 0.2 requests/s for each of two pods, not 0.017.
    """
    begin = [unsaturated(10.0 * i, 0.1 / 6.0, running=4.0 + 4.0 * i) for i in range(6)]
    go_on = [unsaturated(60.0 + 10.0 * i, 0.2, running=24.0) for i in range(6)]
    assert np.isnan(learned(begin).rps[0])
    assert learned(begin + go_on).rps[0] == pytest.approx(0.2 * ROOM, rel=0.01)


def test_a_minute_in_which_requests_only_end_proves_nothing() -> None:
    """Nothing comes any more, and 24 requests that came in other minutes end in this one."""
    end = [unsaturated(10.0 * i, 0.2, running=24.0 - 4.0 * i) for i in range(7)]
    assert np.isnan(learned(end).rps[0])


def test_a_minute_without_a_count_of_what_is_in_service_proves_what_was_done() -> None:
    result = learned([unsaturated(10.0 * i, 1.5, running=np.nan) for i in range(7)])
    assert result.rps[0] == pytest.approx(1.5 * ROOM, rel=0.01)


def test_a_queue_voids_the_minute_that_would_have_proven_a_rate() -> None:
    minute = [unsaturated(10.0 * i, 1.5) for i in range(5)]
    brief = served(50.0, saturated_done=5.0, saturated_pod_s=5.0)
    assert np.isnan(learned([*minute, brief, unsaturated(60.0, 1.5)]).rps[0])


def test_a_filling_cache_bounds_what_an_unsaturated_replica_may_be_believed_to_carry() -> None:
    """At 1.5 requests/s the cache is 80 % full, so 1.8 fill it however long nobody tried."""
    filling = [unsaturated(10.0 * i, 1.5, kv=0.8) for i in range(400)]
    result = learned(filling)
    assert result.term[0] == Term.MEMORY
    assert result.rps[0] == pytest.approx(1.5 * 0.95 / 0.8, rel=0.01)


def cached(own: float, fixed: float) -> list[Served]:
    """Ten minutes in which what is in service rises and falls: a request takes `own` of a pod's cache, `fixed` is
    taken all the time."""
    return [
        unsaturated(10.0 * i, 1.0, running=2.0 * (4 + i % 7), kv=fixed + own * (4 + i % 7)) for i in range(60)
    ]  # fmt: skip


@pytest.mark.parametrize(("own", "fixed", "tells"), [(0.09, 0.0, True), (0.05, 0.2, True), (0.0, 0.97, False)])
def test_a_cache_that_is_as_full_whatever_is_in_service_says_nothing(own: float, fixed: float, tells: bool) -> None:
    """Engines that count the blocks they keep for reuse are full for good, and so is every replica more."""
    result = learned(cached(own, fixed))
    assert (result.kv_used[0] > 0) == tells


def test_a_few_requests_that_ended_under_a_queue_are_not_believed() -> None:
    """Ten looks at two pods with a line in which one request of a minute ends: 0.005 requests/s each, by chance."""
    looks = [served(10.0 * i, completions=0.0, running=2.0, saturated_pod_s=20.0) for i in range(9)]
    result = learned([*looks, served(90.0, completions=1.0, running=2.0, saturated_pod_s=20.0, saturated_done=1.0)])
    assert result.term[0] == Term.UNKNOWN


def long_ones(now_s: float, done: float) -> Served:
    """Two pods of one slot each, both with a line, and requests of a minute each."""
    return served(
        now_s, completions=10.0 / 30.0, running=2.0, saturated_done=done, saturated_pod_s=20.0, saturated_running=20.0
    )


@pytest.mark.parametrize("done", [20.0 / 40.0, 20.0 / 150.0])
def test_of_long_requests_what_is_held_and_for_how_long_tells_more_than_what_ends_under_a_line(done: float) -> None:
    """Lines begin in the middle of requests and end with one: by them alone a pod does 1 in 40 s, or in 150."""
    result = learned([long_ones(10.0 * i, done) for i in range(90)])
    assert result.rps[0] == pytest.approx(1.0 / 60.0, rel=0.02)


def test_a_replica_that_holds_less_than_one_request_under_a_line_is_not_taken_for_one_that_serves_one_by_one() -> None:
    """Two seconds each and 0.65 in service while others wait, as a fluid shows a replica of 0.325 requests/s. Taken for
    0.5, on/off traffic found a third too few replicas: 83 % in time for 96."""
    result = learned([saturated(10.0 * i, 0.325, running=0.65) for i in range(6)])
    assert result.rps[0] == pytest.approx(0.325, rel=0.01)


def test_the_best_of_many_minutes_in_which_few_end_is_chance() -> None:
    """A minute in which 12 requests ended where two pods do 7.2, and then half an hour under a queue."""
    lucky = [unsaturated(10.0 * i, 0.1, running=2.0) for i in range(7)]
    result = learned([*lucky, *(saturated(70.0 + 10.0 * i, 0.06, running=1.0) for i in range(180))])
    assert result.rps[0] == pytest.approx(0.06, rel=0.05)


def test_measured_throughput_is_not_capped_by_a_lower_rate_that_was_proven_before() -> None:
    proven = [unsaturated(10.0 * i, 1.0) for i in range(7)]
    result = learned([*proven, *(saturated(70.0 + 10.0 * i, 2.0) for i in range(10))])
    assert result.rps[0] == pytest.approx(2.0)
    assert result.term[0] == Term.THROUGHPUT


def test_a_measured_throughput_below_a_proven_rate_does_not_lower_it() -> None:
    proven = [unsaturated(10.0 * i, 2.0) for i in range(7)]
    result = learned([*proven, *(saturated(70.0 + 10.0 * i, 1.5) for i in range(3))])
    assert result.rps[0] == pytest.approx(2.0, rel=0.02)


def test_the_batch_size_at_which_token_time_meets_its_objective_binds() -> None:
    """Token time is 10 ms + 1 ms per request in flight and a request takes 100 tokens: at 30 ms a replica holds 20
    requests of 3 s each, or 6.7 requests/s, while saturated it would do 8."""
    intervals = []
    for i in range(60):
        running = 4.0 + i % 9
        tpot_s = 0.010 + 0.001 * running
        rate = running / (100.0 * tpot_s)
        intervals.append(unsaturated(10.0 * i, rate, running=2.0 * running, tpot_s=tpot_s))
    intervals += [saturated(600.0 + 10.0 * i, 8.0, running=40.0) for i in range(3)]
    result = learned(intervals, 0.030)
    assert result.term[0] == Term.TOKEN_TIME
    assert result.rps[0] == pytest.approx(20.0 / 3.0, rel=0.15)
    assert learned(intervals).term[0] == Term.THROUGHPUT, "without the objective it does not bind"


@pytest.mark.parametrize("replica_rps", [0.5, 2.0, 7.0])
def test_a_service_with_a_line_is_measured_within_two_per_cent(replica_rps: float) -> None:
    story = Story(Toy.of(3, 3.0 * replica_rps, replica_rps=replica_rps, queue=30.0 * replica_rps))
    story.run(60.0)
    shown = [dict(step.evidence).get("replica_rps") for step in story.told[-1].trace]
    assert shown[0] == pytest.approx(replica_rps, rel=0.02)


def test_a_cache_that_longer_prompts_fill_still_tells() -> None:
    """As many requests as before take four times as much: the share follows them no more, and stands still no more."""
    longer = [unsaturated(600.0 + 10.0 * i, 0.5, running=14.0, kv=0.98) for i in range(30)]
    assert learned([*cached(0.025, 0.0), *longer]).kv_used[0] > 1.5


def test_what_was_done_under_a_line_outlives_a_quiet_night() -> None:
    """Requests of a minute, one at a time: twenty minutes with a line, and then one every five minutes. How long they
    are is told by few then, and what a replica was seen to do was forgotten with it."""
    busy = [
        served(10.0 * i, completions=i % 3 > 0, running=2.0, saturated_pod_s=20.0, saturated_running=20.0,
               saturated_done=float(i % 3 > 0))
        for i in range(120)
    ]  # fmt: skip
    quiet = [
        served(10.0 * i, completions=float(i % 30 == 0), running=float(i % 30 >= 24), free_pod_s=20.0)
        for i in range(120, 300)
    ]
    columns = ThroughputColumns.allocate(1)
    told = [throughput.learn(columns, ROW, look, NO_SLO).term[0] for look in (*busy, *quiet)]
    assert set(told[120:]) == {Term.THROUGHPUT}
