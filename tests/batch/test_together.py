"""Gangs that came together: those start that leave least idle, and nobody is passed who came before."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoscaler.core.batch import together
from autoscaler.core.batch.gangs import Gang
from autoscaler.core.batch.params import BatchParams, Order
from tests.batch.builders import gang, node, params, queue
from tests.batch.story import Story
from tests.batch.test_laws import keeps_the_peace

law = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def three(**more: Any) -> tuple[Gang, Gang, Gang]:
    """Twelve GPUs anywhere, eight in one rack, eight anywhere: for two racks of eight the first, or both others."""
    asked: dict[str, dict[str, Any]] = {
        "first": {"pods": 6},
        "second": {"pods": 4, "required": "rack"},
        "third": {"pods": 4},
    }
    first, second, third = (gang(name, **{"units": 2, **each, **more.get(name, {})}) for name, each in asked.items())
    return first, second, third


def started(gangs: tuple[Gang, ...], setup: BatchParams | None = None, cpu: float = float("inf")) -> list[str]:
    story = Story(setup or params(), [node(f"n{at}", rack=f"r{at}", cpu=cpu) for at in range(2)])
    story.submit(*gangs)
    story.settle()
    assert sorted(story.room.runs.all) == sorted(story.order()), "whoever was told of runs"
    return story.order()


def test_two_gangs_that_fill_both_racks_start_instead_of_the_first_that_leaves_four_gpus_idle() -> None:
    assert sorted(started(three())) == ["second", "third"]


@pytest.mark.parametrize(
    ("gangs", "setup"),
    [
        pytest.param(three(third={"created_s": 1.0}), params(), id="one of them came a second later"),
        pytest.param(three(third={"expected_s": 3 * 86_400.0}), params(), id="one of them runs for days"),
        pytest.param(three(first={"priority": 1}), params(serving_priority=9), id="the first has a higher priority"),
        pytest.param(three(first={"importance": 2.0}), params(), id="twelve count as twenty-four"),
        pytest.param(three(), params(queue("a", 12, quota={"limit": 12})), id="the queue's limit is twelve"),
        pytest.param(three(third={"cpu": 9.0}), params(), id="cores for one of them are short"),
        pytest.param(three(second={"required": "node"}), params(), id="one of them needs a whole node"),
    ],
)
def test_the_first_keeps_its_start(gangs: tuple[Gang, ...], setup: BatchParams) -> None:
    assert started(gangs, setup, cpu=32.0) == ["first"]


def test_gangs_whose_turns_lie_within_half_a_minute_came_together() -> None:
    later = three(second={"created_s": 29.0}, third={"created_s": 30.0})
    assert sorted(started(later, params(reserve_after_s=30.0))) == ["second", "third"]
    assert started(later, params(reserve_after_s=29.0)) == ["first"]


def test_in_a_strict_queue_the_first_goes_first_whatever_is_left_idle() -> None:
    assert started(three(), params(queue("a", order=Order.STRICT))) == ["first"]


def test_a_small_gang_of_lower_priority_gives_its_place_of_this_instant_to_a_higher_one() -> None:
    big = gang("big", pods=8, units=1, required="rack", priority=-1)
    wide = gang("wide", pods=12, units=1, priority=-1, created_s=1.0)
    small = gang("small", pods=1, units=4, priority=-2)
    more = gang("more", pods=8, units=1, priority=-1, created_s=1.0)
    assert sorted(started((wide, small, big, more))) == ["big", "more"]


def test_what_one_queue_started_is_no_other_queues_to_give() -> None:
    setup = params(queue("a"), queue("b"))
    first, second, third = three()
    other = gang("other", "b", pods=6, units=2)
    assert started((other, gang("mine", pods=8, units=2)), setup) == ["other"]
    assert "other" in started((other, first, second, third), setup)


def test_a_gang_for_which_room_was_kept_starts_when_it_has_room_whoever_came_with_it() -> None:
    nodes = [node(f"n{at}", rack=f"r{at}") for at in range(4)]
    story = Story(params(), nodes[:2])
    story.submit(gang("runs", pods=2, units=8, expected_s=60.0))
    story.settle()
    first, second, third = three()
    story.submit(first)
    story.settle()
    assert list(story.room.ledger.reservations) == ["first"], "where the one that runs is expected to end"
    story.look(nodes)
    story.submit(second, third)
    story.settle()
    assert story.order() == ["runs", "first"]


def test_what_one_left_where_kept_room_is_lent_would_go_back_to_that_and_is_not_given_to_another() -> None:
    """Six of eight GPUs are kept for a wide gang; two go to the first, and the six to a short one, in one cycle."""
    story = Story(params(reserve_after_s=30.0), [node(f"n{at}", rack=f"r{at}") for at in range(2)])
    story.submit(gang("runs", units=8, expected_s=1000.0))
    story.settle()
    story.submit(gang("wide", pods=2, units=6))
    story.to(40.0)
    assert story.room.ledger.estate.free.tolist() == [0, 2]
    for name, units, created_s, importance in (
        ("first", 2, 40.0, 1.0),
        ("short", 6, 42.0, 1.0),
        ("dear", 2, 43.0, 4.0),
    ):
        story.submit(gang(name, units=units, created_s=created_s, importance=importance, expected_s=100.0))
    story.settle()
    assert story.order() == ["runs", "first", "short"]
    assert story.room.ledger.estate.free.tolist() == [0, 0]


def test_a_queue_with_more_than_can_be_gone_through_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "MOST_LOOKED_AT", 3)
    assert started(three()) == ["first"]


def test_gangs_with_several_pod_sets_and_odd_sizes_are_whole_wherever_they_go() -> None:
    story = story_of(4, cycles=True)
    assert len(story.order()) > 3


def story_of(seed: int, *, cycles: bool, nodes: int = 9) -> Story:
    """Gangs of one instant on racks of three nodes, on which others hold some GPUs and cores."""
    rng = np.random.default_rng(seed)
    seen = [
        node(f"n{at}", int(rng.integers(2, 9)), f"r{at // 3}", cpu=float(rng.integers(4, 60))) for at in range(nodes)
    ]
    story = Story(params(), seen)
    for at in range(30):
        pods, units = int(rng.choice((1, 2, 4, 8))), int(rng.choice((1, 2, 3, 4, 8)))
        story.submit(
            gang(
                f"g{at}", pods=pods, units=units, priority=-1 - int(rng.integers(2)), cpu=float(rng.integers(3)),
                required=(None, "rack", "node")[int(rng.integers(3))] if pods * units <= 8 else None,
                importance=float(rng.choice((1.0, 1.0, 4.0))),
            )
        )  # fmt: skip
    if cycles:
        story.settle()
    return story


@given(seed=st.integers(0, 10_000))
@law
def test_law_what_starts_is_worth_no_less_than_one_after_the_other_and_is_told_once(seed: int) -> None:
    def worth(story: Story) -> tuple[float, ...]:
        story.settle()
        assert sorted(story.order()) == sorted(story.room.runs.all), "each told once, none of those that start not"
        assert not set(story.order()) & set(story.room.backlog.waiting)
        cores = story.room.ledger.estate.spare[:, 0]
        assert cores.min() >= 0.0, "no core twice"
        runs = story.room.runs.all.values()
        by_priority = {-1: 0.0, -2: 0.0}
        for run in runs:
            by_priority[run.gang.priority] += run.gang.importance * sum(units for _, units in run.load.units)
        return tuple(by_priority.values())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "improve", lambda attempts, since, now_s: False)
        one_by_one = worth(story_of(seed, cycles=False))
    assert worth(story_of(seed, cycles=False)) >= one_by_one


def two_queues(seed: int) -> Story:
    """Waves of gangs of one instant, of which neither queue has room for all; each may claim its fair share."""
    rng = np.random.default_rng(seed)
    nodes = [node(f"n{at}", rack=f"r{at // 3}") for at in range(9)]
    story = Story(params(queue("a", 12), queue("b", weight=2.0)), nodes, takes_s=lambda gang: 1e9)
    for wave in range(3):
        for at in range(20):
            pods, units = int(rng.choice((1, 2, 4, 8))), int(rng.choice((1, 2, 4, 8)))
            rack = "rack" if rng.random() < 0.5 and pods * units <= 24 else None
            name = "ab"[int(rng.integers(2))]
            story.submit(gang(f"{wave}-{at}", name, pods, units, created_s=story.now_s, required=rack))
        story.settle()
        for _ in range(4):
            story.to(story.now_s + 60.0)
    return story


@pytest.mark.parametrize("story", [lambda seed: story_of(seed, cycles=True), two_queues], ids=["one queue", "two"])
def test_the_laws_are_about_something(story: Callable[[int], Story]) -> None:
    chosen = [sorted(story(seed).order()) for seed in range(12)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(together, "improve", lambda attempts, since, now_s: False)
        one_by_one = [sorted(story(seed).order()) for seed in range(12)]
    assert sum(mine != theirs for mine, theirs in zip(chosen, one_by_one, strict=True)) >= 3


@given(seed=st.integers(0, 10_000))
@law
def test_law_two_queues_that_take_from_each_other_come_to_rest_and_no_exchange_is_undone(seed: int) -> None:
    keeps_the_peace(two_queues(seed))
