"""Gangs that may be wider or narrower start as wide as quota and room allow at their turn, and delay nobody by it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.batch.gangs import Elastic, Gang
from autoscaler.core.batch.loans import LoanBound
from autoscaler.core.batch.nodes import wanting
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.reasons import BatchReason, Change
from tests.batch.builders import H100, form, gang, node, params, queue, racks
from tests.batch.story import Story
from tests.batch.test_laws import SEEDS, law, story_of

PLAIN_SIZES = (1, 2, 4, 8)


def wide(name: str, least: int, most: int, units: int = 8, written: int | None = None, **more: Any) -> Gang:
    """A gang of `least` to `most` equal pods."""
    elastic = Elastic(0, least, most, most if written is None else written)
    return gang(name, pods=least, units=units, elastic=elastic, **more)


def width(story: Story, name: str) -> int:
    """Pods that a gang runs with, by where it was put."""
    return sum(spot.pods for spot in story.room.ledger.holdings[name].spots)


def narrow(story: Story, name: str) -> Change | None:
    """What one more pod would have taken when a gang started last."""
    return [each.narrow for _, each in story.admitted if each.gang == name][-1]


def test_a_gang_starts_as_wide_as_it_may_be_where_there_is_room() -> None:
    story = Story(params(), racks(1, 4))
    story.submit(wide("g", 1, 3))
    story.settle()
    assert (width(story, "g"), narrow(story, "g")) == (3, None)
    assert story.holds("a") == 24


def test_it_starts_with_six_of_eight_pods_where_two_nodes_are_taken_and_says_what_one_more_takes() -> None:
    story = Story(params(), racks(2, 4), [PodSeen("n0", H100, 8), PodSeen("n1", H100, 1)])
    story.submit(wide("g", 2, 8))
    story.settle()
    assert (width(story, "g"), narrow(story, "g")) == (6, Change(BatchReason.ROOM, H100, 1))


def test_pieces_too_small_for_one_more_are_told_as_such() -> None:
    story = Story(params(), racks(1, 3), [PodSeen("n0", H100, 4), PodSeen("n1", H100, 4)])
    story.submit(wide("g", 1, 3))
    story.settle()
    assert (width(story, "g"), narrow(story, "g")) == (1, Change(BatchReason.FRAGMENTED, H100, 8))


def test_cores_that_are_short_for_one_more_are_told_as_such() -> None:
    story = Story(params(), [node("n0", cpu=9.0), node("n1", cpu=64.0)])
    story.submit(wide("g", 1, 4, units=4, cpu=10.0))
    story.settle()
    assert (width(story, "g"), narrow(story, "g")) == (2, Change(BatchReason.CORES, H100, 4))


def test_a_limit_makes_it_narrower_and_is_named() -> None:
    story = Story(params(queue("a", quota={"limit": 20})), racks(1, 4))
    story.submit(wide("g", 1, 8, units=4))
    story.settle()
    assert (width(story, "g"), narrow(story, "g")) == (5, Change(BatchReason.LIMIT, "a", 4))


def test_below_its_least_it_waits_whole_and_is_told_what_the_least_takes() -> None:
    story = Story(params(), racks(1, 4))
    story.submit(gang("before", pods=3, units=8))
    story.settle()
    story.submit(wide("g", 2, 4))
    story.settle()
    assert story.order() == ["before"]
    assert story.why("g").changes == (Change(BatchReason.ROOM, H100, 8),)


def test_one_required_domain_bounds_the_width() -> None:
    story = Story(params(), racks(2, 3), [PodSeen("n0", H100, 8)])
    story.submit(wide("g", 1, 6, required="rack"))
    story.settle()
    assert (width(story, "g"), narrow(story, "g")) == (3, Change(BatchReason.TOPOLOGY, "rack", 32))


def test_of_several_sets_only_the_elastic_one_is_wider() -> None:
    sets = (*form(1, 4).pod_sets, *form(2, 8).pod_sets)
    story = Story(params(), racks(1, 4))
    story.submit(gang("g", form=replace(form(), pod_sets=sets), elastic=Elastic(1, 2, 9, 9)))
    story.settle()
    assert [each.pods for each in story.room.runs.all["g"].gang.form.pod_sets] == [1, 3]
    assert width(story, "g") == 4


def test_cores_bound_the_width_too() -> None:
    story = Story(params(), [node("n0", cpu=20.0), node("n1", cpu=7.0)])
    story.submit(wide("g", 1, 16, units=1, cpu=3.0))
    story.settle()
    assert width(story, "g") == 6 + 2


def test_whoever_goes_before_a_gang_of_the_widest_size_goes_first() -> None:
    """Within its guarantee the least goes before the other queue, as wide as it may be it comes after."""
    story = Story(params(queue("a", 8), queue("b", 16)), racks(1, 3))
    story.submit(wide("g", 1, 3), gang("other", "b", pods=2, units=8, created_s=1.0))
    story.settle()
    assert story.order() == ["other", "g"]
    assert width(story, "g") == 1


def test_nobody_is_made_to_leave_for_more_than_the_least() -> None:
    story = Story(params(queue("a", 24), queue("b")), racks(1, 4), takes_s=lambda each: 1e9)
    story.submit(*(gang(f"lent{at}", "b", units=8) for at in range(4)))
    story.settle()
    story.submit(wide("g", 1, 3, created_s=1.0))
    story.to(100.0)
    assert (len(story.victims()), width(story, "g")) == (1, 1)
    assert narrow(story, "g") == Change(BatchReason.LEAVING, H100, 8)
    assert story.room.contradictions() == []


def test_nodes_are_made_for_the_least_and_it_starts_so_on_what_is_held_for_it() -> None:
    story = Story(params(queue("a", 32)), [], takes_s=lambda each: 1e9)
    story.submit(wide("g", 2, 4))
    story.settle()
    (waiting,) = wanting(story.cycles, {H100: 300.0}, lambda _: True, story.now_s)
    assert waiting.gang.width == 2
    story.room.ask_for_nodes(waiting, story.now_s, story.now_s + 300.0)
    story.look([node("n0"), node("n1"), node("n2")])
    index = story.room.ledger.estate.index
    story.room.hold_nodes("g", {index[at, H100]: 8 for at in ("n0", "n1")})
    story.settle()
    assert (width(story, "g"), narrow(story, "g")) == (2, Change(BatchReason.LEAVING, H100, 8))
    assert story.room.contradictions() == []


def test_what_others_gave_up_for_a_guarantee_makes_nobody_wider() -> None:
    """A gang beyond its guarantee keeps two nodes for its start; the other queue's one within its own gets one."""
    story = Story(params(queue("a", 8), queue("b", 8)), racks(1, 3), takes_s=lambda each: each.expected_s or 1e9)
    story.submit(gang("first", "b", pods=1, units=8, expected_s=500.0))
    story.settle()
    story.submit(gang("large", "b", pods=3, units=8, created_s=0.0, expected_s=500.0))
    story.settle()
    assert story.room.ledger.reservations["large"].held == {0: 0, 1: 8, 2: 8}
    story.submit(wide("g", 1, 2, expected_s=1e6))
    story.settle()
    assert (width(story, "g"), narrow(story, "g")) == (1, Change(BatchReason.LEAVING, H100, 8))


def test_one_that_was_stopped_waits_as_narrow_as_it_may_be_and_chooses_anew() -> None:
    story = Story(params(queue("a"), queue("b", 16)), racks(1, 4), takes_s=lambda each: 300.0)
    story.submit(wide("g", 2, 4, restart_s=0.0))
    story.settle()
    assert width(story, "g") == 4
    story.submit(gang("mine", "b", pods=2, units=8, created_s=1.0))
    story.to(60.0)
    assert [each.gang for _, each in story.evicted] == ["g"]
    assert width(story, "g") == 2, "what is left beside the other one"
    assert story.room.runs.all["g"].gang.elastic == Elastic(0, 2, 4, 4)


def test_fewer_pods_are_expected_to_take_as_much_longer_and_more_not_to_be_quicker() -> None:
    story = Story(params(), racks(1, 4), [PodSeen("n0", H100, 8)])
    story.submit(wide("g", 1, 6, written=6, expected_s=600.0))
    story.settle()
    assert story.room.runs.all["g"].expected_s == 1200.0, "three of six"
    ample = Story(params(), racks(1, 8))
    ample.submit(wide("g", 1, 6, written=3, expected_s=600.0))
    ample.settle()
    assert (width(ample, "g"), ample.room.runs.all["g"].expected_s) == (6, 600.0)


def test_a_loan_is_as_wide_as_what_serving_lends() -> None:
    story = Story(params(), [node(f"n{at}", warm_units=8) for at in range(3)])
    story.room.lend({H100: LoanBound(16, expected_s=7200.0, slot_units=8)})
    story.submit(wide("g", 1, 3, lendable=True))
    story.settle()
    assert width(story, "g") == 2
    assert [each.lent_units for _, each in story.admitted] == [16]


@pytest.mark.parametrize(
    ("elastic", "what"),
    [
        (Elastic(1, 1, 2, 2), "elastic pod set 1"),
        (Elastic(0, 3, 2, 2), "a width of 3 to 2 pods"),
        (Elastic(0, 0, 2, 2), "a width of 0 to 2 pods"),
        (Elastic(0, 1, 20_000, 2), "pods 20000"),
    ],
    ids=["no such set", "least above most", "none", "more than a gang may have"],
)
def test_a_width_that_cannot_be_meant_is_refused(elastic: Elastic, what: str) -> None:
    refused = Story(params(), racks(1, 1)).submit(gang("g", elastic=elastic))
    assert refused is not None
    assert what in refused.what


@given(seed=SEEDS, size=st.sampled_from(PLAIN_SIZES), least=st.integers(1, 4), more=st.integers(0, 12))
@law
def test_law_it_starts_as_wide_as_the_widest_fixed_gang_would_start_in_its_place(
    seed: int, size: int, least: int, more: int
) -> None:
    """The same story told again with a gang of each fixed width; what is kept for others is theirs in all of them."""

    def starts(elastic: Elastic | None, pods: int) -> Story:
        story = story_of(seed, steps=6)
        story.settle()
        late = replace(gang("g999", "l0", pods, size, story.now_s), expected_s=1e6, elastic=elastic)
        story.submit(late)
        story.step()
        return story

    told = starts(Elastic(0, least, least + more, least + more), least)
    started = {each.gang for _, each in told.admitted}
    fixed = (pods for pods in range(least + more, least - 1, -1) if _has(starts(None, pods)))
    most = next(fixed, None)
    assert ("g999" in started) == (most is not None)
    if most is not None:
        assert width(told, "g999") == most
        assert (narrow(told, "g999") is None) == (most == least + more)
    assert told.room.contradictions() == []


def _has(story: Story) -> bool:
    return any(each.gang == "g999" for _, each in story.admitted)


@given(seed=SEEDS)
@law
def test_law_the_oldest_gang_starts_by_the_time_that_was_foretold_beside_gangs_that_widen(seed: int) -> None:
    rng = np.random.default_rng(seed)
    story = Story(
        params(queue("a", reclaims=False), queue("b", reclaims=False)),
        [node(f"n{at}", rack=f"r{at // 3}") for at in range(4)],
        takes_s=lambda each: each.lasts_s or 1e9,
    )
    for number in range(8):
        story.submit(gang(f"first{number}", "b", units=4, expected_s=float(rng.integers(50, 400))))
    story.settle()
    story.submit(gang("head", pods=4, units=8, expected_s=100.0))
    story.settle()
    foretold_s = story.room.ledger.reservations["head"].start_s
    for number in range(40):
        least = int(rng.integers(1, 4))
        late = wide(
            f"late{number}", least, least + int(rng.integers(0, 12)), int(rng.choice(PLAIN_SIZES)), queue="b",
            created_s=story.now_s, expected_s=float(rng.integers(5, 300)),
        )  # fmt: skip
        story.submit(late)
        story.to(story.now_s + 5.0)
    story.run(foretold_s + 1.0)
    assert {each.gang: at_s for at_s, each in story.admitted}["head"] <= foretold_s


@given(seed=SEEDS)
@law
def test_law_no_gang_is_ever_wider_or_narrower_than_it_may_be_and_no_unit_has_two(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = [node(f"n{at}", rack=f"r{at // 3}", cpu=40.0) for at in range(6)]
    story = Story(params(queue("a", 16), queue("b", 16), queue("c")), nodes, takes_s=lambda each: each.lasts_s or 1e9)
    for number in range(40):
        least = int(rng.integers(1, 4))
        most, size = least + int(rng.integers(0, 6)), int(rng.integers(1, 9))
        mine = wide(
            f"g{number}", least, most, size, int(rng.integers(least, most + 1)), queue=str(rng.choice(["a", "b", "c"])),
            created_s=story.now_s, expected_s=float(rng.integers(20, 400)), cpu=(0.0, 3.0)[number % 2],
        )  # fmt: skip
        story.submit(mine)
        if rng.random() < 0.2:
            story.look([each for each in nodes if each.name != f"n{rng.integers(6)}"])
        story.to(story.now_s + float(rng.integers(1, 40)))
        assert story.room.contradictions() == []
        for name, run in story.room.runs.all.items():
            elastic = run.gang.elastic
            assert elastic is not None
            assert elastic.least <= run.gang.width <= elastic.most
            if run.leaving_s is None:
                assert width(story, name) == run.gang.width
    for waiting in story.room.backlog.waiting.values():
        assert waiting.gang == waiting.gang.narrowest()
