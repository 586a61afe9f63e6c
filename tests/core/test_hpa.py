"""What an HPA makes of a number: its traps as stories in time, and the laws that hold for every setting."""

from dataclasses import replace

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from autoscaler.core.hpa.counts import Seen, proposal
from autoscaler.core.hpa.limits import Limit
from autoscaler.core.hpa.memory import Memory, scaled
from autoscaler.core.hpa.preview import Outcome, ahead, evaluate
from autoscaler.core.hpa.spec import (
    DEFAULT_DOWN,
    DEFAULT_UP,
    Autoscaler,
    Basis,
    Behavior,
    Controller,
    Metric,
    Policy,
    Rules,
    Select,
    Unit,
)
from tests.core.hpas import DEFAULT, EXACT, OURS, hpa


def stands(replicas: int, status: int | None = None) -> Seen:
    return Seen(replicas, replicas if status is None else status, replicas)


def sets(autoscaler: Autoscaler, told: int | None, seen: Seen, memory: Memory | None = None) -> Outcome:
    """What HPA sets when it is told a count of replicas and remembers nothing else."""
    value = None if told is None else told * 1000
    outcome, _ = evaluate(autoscaler, seen, [value], memory or Memory(()), 0.0)
    return outcome


def run(autoscaler: Autoscaler, told: list[int], start: int, every_s: float = 15.0) -> list[int]:
    """The counts after each evaluation when one number after the other is told, pods being there at once."""
    memory, count, counts = Memory(), start, []
    for turn, number in enumerate(told):
        outcome, memory = evaluate(autoscaler, stands(count), [number * 1000], memory, turn * every_s)
        memory = scaled(memory, autoscaler.behavior, count, outcome.replicas, turn * every_s)
        count = outcome.replicas
        counts.append(count)
    return counts


def limits(outcome: Outcome) -> list[Limit]:
    return [bound.limit for bound in outcome.bounds]


def test_one_more_than_twenty_is_within_the_default_tolerance_and_never_set() -> None:
    outcome = sets(hpa(), 21, stands(20))
    assert (outcome.replicas, limits(outcome)) == (20, [Limit.TOLERANCE])
    assert list(ahead(hpa(), stands(20), [21_000], Memory(), 0.0)) == []


@pytest.mark.parametrize(
    ("stood", "told", "set_"), [(9, 10, 10), (10, 11, 10), (20, 22, 20), (20, 23, 23), (20, 18, 20), (20, 17, 17)]
)
def test_the_tolerance_includes_its_edge(stood: int, told: int, set_: int) -> None:
    swift = Behavior(down=replace(DEFAULT_DOWN, window_s=0))
    assert sets(hpa(swift), told, stands(stood)).replicas == set_


def test_with_a_tolerance_of_zero_every_count_is_set_as_it_is_told() -> None:
    assert run(hpa(EXACT), [5, 19, 20, 21, 20, 3, 4], 5) == [5, 19, 20, 21, 20, 3, 4]


def test_tolerance_compares_with_the_pods_that_there_are_and_may_take_back_those_on_order() -> None:
    swift = Behavior(down=replace(DEFAULT_DOWN, window_s=0))
    outcome = sets(hpa(swift), 20, stands(20, status=19))
    assert (outcome.replicas, limits(outcome)) == (19, [Limit.TOLERANCE])


def test_from_one_to_forty_the_default_policies_need_five_evaluations() -> None:
    assert run(hpa(), [40] * 6, 1) == [5, 10, 20, 40, 40, 40]
    told = [(at_s, one.replicas) for at_s, one in ahead(hpa(), stands(1), [40_000], Memory(), 0.0)]
    assert told == [(0.0, 5), (15.0, 10), (30.0, 20), (45.0, 40)]


def test_a_policy_of_one_pod_per_minute_is_slower_than_any_start() -> None:
    slow = Behavior(up=replace(DEFAULT_UP, policies=(Policy(Unit.PODS, 1, 60),), select=Select.MIN))
    assert [at_s for at_s, _ in ahead(hpa(slow), stands(2), [6_000], Memory(), 0.0)] == [0, 60, 120, 180]
    assert limits(sets(hpa(slow), 6, stands(2))) == [Limit.UP_POLICIES]


def test_what_was_added_within_a_period_leaves_that_much_less_to_add() -> None:
    slow = Behavior(up=Rules((Policy(Unit.PODS, 4, 60),), window_s=0))
    memory = scaled(Memory(()), slow, 2, 5, -30.0)
    assert sets(hpa(slow), 20, stands(5), memory).replicas == 6
    assert sets(hpa(slow), 20, stands(5), Memory(())).replicas == 9


def test_the_way_down_waits_five_minutes_for_the_highest_count_to_grow_old() -> None:
    counts = run(hpa(), [20] + [4] * 25, 20)
    assert counts.index(4) * 15 == 300
    assert set(counts) == {20, 4}


def test_a_window_on_the_way_up_sets_the_lowest_of_what_was_asked_for_meanwhile() -> None:
    wary = Behavior(up=replace(DEFAULT_UP, window_s=60))
    assert run(hpa(wary), [2, 8, 8, 8, 8, 8], 2) == [2, 2, 2, 2, 6, 8]


def test_a_direction_that_is_disabled_is_never_taken() -> None:
    stuck = Behavior(down=replace(DEFAULT_DOWN, select=Select.DISABLED, window_s=0))
    outcome = sets(hpa(stuck), 2, stands(9))
    assert (outcome.replicas, limits(outcome)) == (9, [Limit.DOWN_DISABLED])
    assert list(ahead(hpa(stuck), stands(9), [2_000], Memory(), 0.0)) == []


@pytest.mark.parametrize(
    ("told", "stood", "count", "limit"),
    [(12, 6, 8, Limit.MAX), (1, 6, 3, Limit.MIN), (5, 12, 8, Limit.MAX), (5, 1, 3, Limit.MIN)],
    ids=["told-more", "told-less", "stands-above", "stands-below"],
)
def test_the_hpas_own_bounds_count_whatever_ours_are(told: int, stood: int, count: int, limit: Limit) -> None:
    outcome = sets(hpa(EXACT, least=3, most=8), told, stands(stood))
    assert (outcome.replicas, limits(outcome)[-1]) == (count, limit)


def test_at_zero_hpa_rests_unless_it_scaled_to_zero_itself() -> None:
    assert limits(sets(hpa(EXACT), 5, Seen(0, 0))) == [Limit.AT_ZERO]
    assert sets(hpa(EXACT, least=0), 5, Seen(0, 0, scaled_to_zero=True)).replicas == 5
    assert sets(hpa(EXACT, least=3), 1, Seen(0, 0, scaled_to_zero=True)).replicas == 3


def test_a_number_that_is_refused_moves_nothing() -> None:
    outcome = sets(hpa(EXACT), None, stands(6))
    assert (outcome.replicas, limits(outcome)) == (6, [Limit.NO_METRIC])


def test_another_metric_that_asks_for_more_decides_and_one_that_fails_forbids_to_shrink() -> None:
    other = Metric("s1-cron", Basis.AVERAGE_VALUE, 1000)
    both = Autoscaler(1, 100, (OURS, other), EXACT)
    more, _ = evaluate(both, stands(6), [4_000, 9_000], Memory(()), 0.0)
    assert (more.replicas, limits(more)) == (9, [Limit.OTHER_METRIC])
    down, _ = evaluate(both, stands(6), [4_000, None], Memory(()), 0.0)
    assert (down.replicas, limits(down)) == (6, [Limit.NO_METRIC])
    up, _ = evaluate(both, stands(6), [8_000, None], Memory(()), 0.0)
    assert up.replicas == 8


def test_a_value_over_ready_pods_cannot_grow_while_none_is_ready() -> None:
    of_value = Metric("queue", Basis.VALUE, 10_000)
    dead = Autoscaler(1, 100, (of_value,), EXACT)
    none_ready, _ = evaluate(dead, Seen(4, 4, 0), [400_000], Memory(()), 0.0)
    assert none_ready.replicas == 1
    assert proposal(of_value, 400_000, Seen(4, 4, None), (0.1, 0.1)) is None


def test_without_a_behavior_the_old_rules_double_at_most_and_keep_no_events() -> None:
    assert run(hpa(None), [40] * 5, 1) == [4, 8, 16, 32, 40]
    assert scaled(Memory(()), None, 1, 9, 0.0) == Memory(())


rules = st.builds(
    Rules,
    st.lists(
        st.builds(Policy, st.sampled_from(Unit), st.integers(1, 200), st.integers(1, 600)), min_size=1, max_size=3
    ).map(tuple),
    st.sampled_from(Select),
    st.integers(0, 600),
    st.none() | st.floats(0, 0.5),
)
settings = st.builds(
    lambda least, room, behavior, window: Autoscaler(
        least, least + room, (OURS,), behavior, Controller(down_window_s=window)
    ),
    st.integers(1, 20),
    st.integers(0, 80),
    st.none() | st.builds(Behavior, rules, rules),
    st.integers(0, 600),
)
numbers = st.lists(st.integers(0, 200), min_size=1, max_size=12)


@given(settings, numbers, st.integers(1, 150))
def test_law_what_is_set_is_within_the_hpas_bounds(autoscaler: Autoscaler, told: list[int], start: int) -> None:
    for count in run(autoscaler, told, start):
        assert autoscaler.minimum <= count <= autoscaler.maximum


@given(settings, numbers, st.integers(0, 200))
def test_law_it_never_moves_away_from_what_it_was_told(autoscaler: Autoscaler, told: list[int], number: int) -> None:
    count = min(max(told[0], autoscaler.minimum), autoscaler.maximum)
    after = sets(autoscaler, number, stands(count)).replicas
    low, high = sorted((count, min(max(number, autoscaler.minimum), autoscaler.maximum)))
    assert low <= after <= high


@given(settings, st.integers(1, 100), st.integers(0, 150), st.integers(0, 50))
def test_law_a_larger_number_never_sets_fewer(autoscaler: Autoscaler, start: int, number: int, more: int) -> None:
    tight = Behavior(replace(DEFAULT_UP, tolerance_ratio=0.0), replace(DEFAULT_DOWN, tolerance_ratio=0.0))
    exact = replace(autoscaler, behavior=tight)
    assert sets(exact, number, stands(start)).replicas <= sets(exact, number + more, stands(start)).replicas


@given(settings, st.integers(0, 150))
def test_law_a_count_that_is_followed_at_once_is_what_the_recommended_behavior_gives(
    autoscaler: Autoscaler, number: int
) -> None:
    open_ = replace(autoscaler, behavior=EXACT)
    stood = autoscaler.minimum
    assert sets(open_, number, stands(stood)).replicas == min(max(number, autoscaler.minimum), autoscaler.maximum)


@given(settings, st.integers(1, 100), st.integers(0, 150))
def test_law_looking_ahead_ends_and_counts_only_changes(autoscaler: Autoscaler, start: int, number: int) -> None:
    steps = list(ahead(autoscaler, stands(start), [number * 1000], Memory(), 0.0))
    assert all(one.replicas != one.current for _, one in steps)
    assert [one.current for _, one in steps[1:]] == [one.replicas for _, one in steps[:-1]]


@example(Autoscaler(1, 100, (OURS,), DEFAULT), 20, 4)
@given(settings, st.integers(1, 40), st.integers(0, 60))
def test_law_where_looking_ahead_ends_hpa_stays(autoscaler: Autoscaler, start: int, number: int) -> None:
    steps = list(ahead(autoscaler, stands(start), [number * 1000], Memory(), 0.0))
    last_s, end = (steps[-1][0], steps[-1][1].replicas) if steps else (0.0, start)
    assume(last_s < 600)
    turn = int(last_s / 15)
    assert run(autoscaler, [number] * (turn + 61), start)[turn:] == [end] * 61


@given(settings, numbers, st.integers(1, 100))
def test_law_the_memory_stays_bounded(autoscaler: Autoscaler, told: list[int], start: int) -> None:
    memory = Memory()
    for turn in range(200):
        _, memory = evaluate(autoscaler, stands(start), [told[turn % len(told)] * 1000], memory, turn * 15.0)
    assert len(memory.recommendations or ()) <= 600 / 15 + 3
