"""The plant of the closed loop by hand arithmetic, and its laws: nobody is lost, work is conserved, first come first
served, starts are cancelled first, and a replica is billed from its order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtests.loop.fleet import Fleet, lognormal
from loadtests.loop.plant import Plant
from tests.loadtests.loop_builders import every, make_plant, make_requests

ONE = Fleet(1, "gateway", 1, start_s=100.0)
NOBODY = make_requests()


def test_one_slot_serves_one_after_the_other() -> None:
    """Ten seconds each, from 0 and 1 s: the second waits nine."""
    plant = make_plant(ONE, make_requests((0, 10), (1, 10), (30, 5)))
    plant.run_to(12.0)
    assert (plant.ready[0].running, plant.ready[0].done, plant.waiting) == (1, 1, 0)
    plant.run_to(40.0)
    assert plant.begun_s.tolist() == [0.0, 10.0, 30.0]
    assert plant.left_s.tolist() == [10.0, 20.0, 35.0]
    assert plant.ready[0].served_s(40.0) == 25.0


def test_a_start_lands_after_its_time_and_takes_who_waits_at_the_gateway() -> None:
    """Two wait from 2 s on for the second replica, which is ordered at 10 s and takes the first of them at 110 s."""
    plant = make_plant(ONE, make_requests((0, 300), (1, 50), (2, 50)))
    plant.run_to(10.0)
    plant.order(2)
    assert [replica.ordered_s for replica in plant.starting.values()] == [10.0]
    plant.run_to(200.0)
    assert plant.begun_s.tolist() == [0.0, 110.0, 160.0]
    assert (plant.ready[1].ready_s, plant.starting) == (110.0, {})


def test_in_pods_a_request_stands_where_the_fewest_are_and_stays_there() -> None:
    """Replica 0 has two, replica 1 one: the fourth stands in its line, though 0 is free first."""
    fleet = Fleet(1, "pods", 2)
    plant = make_plant(fleet, make_requests((0, 20), (1, 100), (2, 20), (3, 5)))
    plant.run_to(4.0)
    assert [(each.running, each.waiting) for each in plant.ready.values()] == [(1, 1), (1, 1)]
    plant.run_to(200.0)
    assert plant.begun_s.tolist() == [0.0, 1.0, 20.0, 101.0]


def test_without_a_replica_who_comes_is_held_and_the_first_pod_takes_all_of_them() -> None:
    plant = make_plant(Fleet(2, "pods", 0, start_s=50.0), make_requests((1, 10), (2, 10), (3, 10)))
    plant.order(1)
    plant.run_to(49.0)
    assert plant.waiting == 3
    plant.run_to(50.0)
    assert (plant.waiting, plant.ready[0].running, plant.ready[0].waiting) == (0, 2, 1)
    plant.run_to(100.0)
    assert plant.begun_s.tolist() == [50.0, 50.0, 60.0]


def test_starts_are_cancelled_first_and_the_newest_of_them_before_any_ready_replica_drains() -> None:
    plant = make_plant(Fleet(1, "gateway", 2, start_s=100.0), every(1.0, 30.0, 2.0))
    plant.order(4)
    plant.run_to(10.0)
    plant.order(5)
    plant.run_to(20.0)
    plant.order(3)
    assert (list(plant.ready), list(plant.starting), list(plant.draining)) == ([0, 1], [2], [])
    plant.order(1)
    assert (list(plant.ready), list(plant.starting), list(plant.draining)) == ([0], [], [1])
    plant.run_to(200.0)
    assert (plant.draining, plant.left_s.tolist()) == ({}, [30.0, 31.0]), "it served its request before it went"


def test_a_replica_that_drains_takes_nobody_from_the_gateway() -> None:
    """It has two slots, one of them free from 20 s on; who comes at 15 s waits for the one that stays, until 60 s."""
    plant = make_plant(Fleet(2, "gateway", 2), make_requests((0, 60), (0, 60), (0, 60), (0, 20), (15, 10)))
    plant.run_to(10.0)
    plant.order(1)
    plant.run_to(200.0)
    assert plant.begun_s.tolist() == [0.0, 0.0, 0.0, 0.0, 60.0]
    assert plant.replicas[1].ended_s == 60.0


def test_a_replica_is_billed_from_its_order_until_it_was_cancelled_or_had_drained() -> None:
    """One stands for 200 s; two are ordered at 10 s, one is cancelled at 50 and one drained at 150, empty at 160."""
    plant = make_plant(ONE, make_requests((0, 500), (120, 40)))
    plant.run_to(10.0)
    plant.order(3)
    plant.run_to(50.0)
    plant.order(2)
    plant.run_to(150.0)
    plant.order(1)
    plant.run_to(200.0)
    assert plant.billed_s() == 200.0 + 40.0 + 150.0
    assert plant.stood == [(0.0, 1), (10.0, 3), (50.0, 2), (150.0, 1)]


def test_a_start_that_fails_is_billed_until_then_and_another_is_ordered_in_its_place() -> None:
    plant = make_plant(Fleet(1, "gateway", 1, start_s=100.0, fails_ratio=1.0), NOBODY)
    plant.order(2)
    plant.run_to(250.0)
    assert [(each.ordered_s, each.ended_s) for each in plant.replicas[1:]] == [
        (0.0, 100.0),
        (100.0, 200.0),
        (200.0, None),
    ]
    assert plant.billed_s() == 250.0 + 250.0
    assert plant.stood == [(0.0, 1), (0.0, 2)], "one that failed leaves no gap in the count"


def test_a_share_of_the_starts_fails() -> None:
    """Of 400 starts 30 % fail: 120, of which chance takes or gives 37 at four deviations."""
    plant = make_plant(Fleet(1, "gateway", 0, start_s=10.0, fails_ratio=0.3), NOBODY)
    plant.order(400)
    plant.run_to(10.0)
    assert len(plant.ready) + len(plant.starting) == 400
    assert 83 <= len(plant.starting) <= 157


def test_from_an_instant_on_starts_take_ten_times_as_long() -> None:
    plant = make_plant(Fleet(1, "gateway", 0, start_s=100.0, slow_from_s=50.0), NOBODY)
    plant.order(1)
    plant.run_to(50.0)
    plant.order(2)
    plant.run_to(2000.0)
    assert [each.ready_s for each in plant.replicas] == [100.0, 1050.0]


@pytest.mark.parametrize("line", ["gateway", "pods"])
def test_who_waits_too_long_leaves_and_keeps_no_slot(line: str) -> None:
    """The second leaves at 1 + 5 s; the third, who came at 8, gets the slot at 10."""
    fleet = Fleet(1, "gateway" if line == "gateway" else "pods", 1, patience_s=5.0)
    plant = make_plant(fleet, make_requests((0, 10), (1, 10), (8, 10)))
    plant.run_to(7.0)
    assert (plant.waiting, plant.ready[0].waiting) == (0, 0)
    plant.run_to(50.0)
    assert plant.left_s.tolist() == [10.0, 6.0, 20.0]
    assert np.isnan(plant.begun_s).tolist() == [False, True, False]


def test_the_same_seed_starts_alike_whoever_orders_when() -> None:
    fleet = Fleet(1, "gateway", 0, start_s=100.0, start_cv=0.5)
    at_once, later = make_plant(fleet, NOBODY, 3), make_plant(fleet, NOBODY, 3)
    at_once.order(2)
    at_once.run_to(2000.0)
    later.order(1)
    later.run_to(500.0)
    later.order(2)
    later.run_to(2000.0)
    took = [[each.ready_s - each.ordered_s for each in p.replicas if each.ready_s] for p in (at_once, later)]
    assert took[0] == pytest.approx(took[1])
    assert took[0][0] != took[0][1]


def test_lognormal_times_have_the_mean_and_the_spread_that_are_asked_for() -> None:
    drawn = lognormal(np.random.default_rng(0), 60.0, 0.5, 40_000)
    assert drawn.mean() == pytest.approx(60.0, rel=0.01)
    assert drawn.std() / drawn.mean() == pytest.approx(0.5, rel=0.03)
    assert lognormal(np.random.default_rng(0), 60.0, 0.0, 3).tolist() == [60.0, 60.0, 60.0]


def check_books(plant: Plant, fleet: Fleet, stay_s: np.ndarray) -> None:
    """Nobody is lost, nobody is served twice, no slot idles while its line waits."""
    now_s, here = plant.now_s, [*plant.ready.values(), *plant.draining.values()]
    begun, left = ~np.isnan(plant.begun_s), ~np.isnan(plant.left_s)
    waiting = plant.waiting + sum(each.waiting for each in here)
    running, done = sum(each.running for each in here), sum(each.done for each in plant.replicas)
    gave_up = int((left & ~begun).sum())
    assert plant.came == done + running + waiting + gave_up
    assert (running, done) == (int((begun & ~left).sum()), int((begun & left).sum()))
    work_s = np.minimum(stay_s, now_s - plant.begun_s)[begun].sum()
    assert sum(each.served_s(now_s) for each in plant.replicas) == pytest.approx(work_s)
    assert all(0 <= each.running <= fleet.slots for each in plant.replicas)
    assert all(not each.waiting for each in here if each.running < fleet.slots)
    assert not (plant.waiting and any(each.running < fleet.slots for each in plant.ready.values()))
    assert len(plant.starting) + len(plant.ready) == plant.desired == plant.stood[-1][1]
    ends_s = [at_s for at_s, _ in plant.stood[1:]] + [now_s]
    stood_s = sum(n * (end - at_s) for (at_s, n), end in zip(plant.stood, ends_s, strict=True))
    assert plant.billed_s() >= max(stood_s, work_s / fleet.slots) - 1e-6


PATIENT_S = 1e9
FLEETS = st.builds(
    Fleet, slots=st.integers(1, 3), line=st.sampled_from(["gateway", "pods"]), opens_with=st.integers(0, 3),
    start_s=st.sampled_from([0.5, 20.0, 60.0]), start_cv=st.sampled_from([0.0, 0.8]),
    fails_ratio=st.sampled_from([0.0, 0.4]), slow_from_s=st.sampled_from([50.0, 1e9]), slow_factor=st.just(3.0),
    patience_s=st.sampled_from([15.0, PATIENT_S]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    FLEETS,
    st.lists(st.tuples(st.floats(0.0, 200.0), st.floats(0.01, 60.0)), max_size=40),
    st.lists(st.integers(0, 6), min_size=1, max_size=24),
)
def test_whatever_is_ordered_nobody_is_lost_and_work_is_conserved(
    fleet: Fleet, each: list[tuple[float, float]], orders: list[int]
) -> None:
    requests = make_requests(*sorted(each))
    plant = make_plant(fleet, requests)
    for tick, count in enumerate(orders):
        plant.run_to(10.0 * tick)
        plant.order(count)
        check_books(plant, fleet, requests.stay_s)
    plant.run_to(10_000.0)
    check_books(plant, fleet, requests.stay_s)
    if fleet.line == "gateway":
        begun_s = plant.begun_s[~np.isnan(plant.begun_s)]
        assert (np.diff(begun_s) >= 0.0).all(), "first come, first served"
    if orders[-1] and fleet.patience_s == PATIENT_S:
        assert not np.isnan(plant.left_s).any(), "a replica that stays serves all of them in the end"
