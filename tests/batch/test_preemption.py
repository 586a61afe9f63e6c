"""Who leaves for whom: whole gangs, few of them, only when it helps, and never in circles."""

from typing import Any

import pytest

from autoscaler.core.batch import durable, spared
from autoscaler.core.batch.owners import PodSeen
from autoscaler.core.batch.params import QueueSpec
from autoscaler.core.batch.reasons import BatchReason
from tests.batch.builders import H100, gang, node, params, queue, racks
from tests.batch.story import Story


def filled(story: Story, *gangs: object) -> Story:
    """Gangs that start at once."""
    for each in gangs:
        story.submit(each)  # type: ignore[arg-type]
    story.settle()
    return story


def test_a_guarantee_is_taken_back_from_who_borrowed_with_as_few_as_needed() -> None:
    story = Story(params(queue("a", 4), queue("b", 4)), racks(1, 1))
    filled(story, *(gang(f"b{at}", "b", units=2, created_s=float(at)) for at in range(4)))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=2, created_s=100.0))
    story.run(200.0)
    assert len(story.victims()) == 1
    assert story.evicted[0][1].reason is BatchReason.RECLAIMED
    assert story.evicted[0][1].beneficiary == "mine"
    assert (story.holds("a"), story.holds("b")) == (2, 6)


def test_one_that_nobody_can_stop_gives_way_to_nobody_and_the_next_dearer_one_does() -> None:
    story = Story(params(queue("a", 8), queue("b")), racks(1, 1))
    filled(story, gang("pods", "b", units=4, recallable=False), gang("job", "b", units=4))
    story.room.checkpointed("pods", 950.0)
    story.now_s = 1000.0
    story.submit(gang("first", "a", units=4, created_s=1000.0), gang("second", "a", units=4, created_s=1001.0))
    story.settle()
    assert story.victims() == ["job"], "the cheaper one cannot be stopped"


def test_who_wrote_a_checkpoint_last_leaves_first_and_the_cost_says_what_is_lost() -> None:
    story = Story(params(queue("a", 8), queue("b")), racks(1, 1))
    filled(story, gang("old", "b", units=4), gang("fresh", "b", units=4, restart_s=20.0))
    story.room.checkpointed("fresh", 950.0)
    story.now_s = 1000.0
    story.submit(gang("mine", "a", units=4, created_s=1000.0))
    story.settle()
    assert story.victims() == ["fresh"]
    assert story.evicted[0][1].cost_gpu_s == pytest.approx(4 * (50.0 + 20.0))


def test_an_unimportant_gang_leaves_before_an_important_one_that_loses_less() -> None:
    story = Story(params(queue("a", 8), queue("b"), queue("c")), racks(1, 1))
    filled(story, gang("scavenger", "b", units=4, importance=0.1), gang("critical", "c", units=4, importance=10.0))
    story.room.checkpointed("critical", 900.0)
    story.now_s = 1000.0
    story.submit(gang("mine", "a", units=4, created_s=1000.0))
    story.settle()
    assert story.victims() == ["scavenger"]
    assert story.evicted[0][1].cost_gpu_s == pytest.approx(4 * (1000.0 + 120.0)), "what is lost is told as it is"


def test_an_unimportant_gang_of_a_queue_leaves_before_an_important_one_of_equal_priority() -> None:
    story = Story(params(queue("a")), racks(1, 1))
    filled(story, gang("critical", units=4, importance=10.0, priority=-9), gang("other", units=4, priority=-9))
    story.room.checkpointed("critical", 900.0)
    assert [run.name for run in story.room.runs.in_order(story.room.tree.index["a"])] == ["other", "critical"]


@pytest.mark.parametrize(("importance", "victims"), [(1.0, []), (20.0, ["borrower"])], ids=str)
def test_an_important_gang_waits_at_a_higher_cost(importance: float, victims: list[str]) -> None:
    story = Story(params(queue("a", 8, grace_s=600.0), queue("b")), racks(1, 1))
    filled(story, gang("borrower", "b", units=8, expected_s=1060.0))
    story.now_s = 1000.0
    story.submit(gang("mine", "a", units=8, created_s=1000.0, importance=importance))
    story.settle()
    assert story.victims() == victims, "60 s of waiting against 1,120 s of work"


def test_case_36_whole_gangs_leave_and_only_those_that_are_needed() -> None:
    story = Story(params(queue("a", 8), queue("b")), racks(1, 3))
    filled(story, gang("wide", "b", pods=2, units=8), *(gang(f"s{at}", "b", units=1) for at in range(8)))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.run(200.0)
    assert story.order()[-1] == "mine"
    assert set(story.victims()) in ({"wide"}, {f"s{at}" for at in range(8)})
    assert story.room.contradictions() == []


def test_case_36_who_was_chosen_for_the_quota_stays_where_others_have_to_leave_for_the_room() -> None:
    """Eight small gangs are the cheapest eight GPUs, and are not on one node; the node that is cheapest is enough."""
    held = {f"s{at}": (f"n{at % 2}", 1) for at in range(8)} | {"d0": ("n0", 4), "d1": ("n1", 4), "middle": ("n2", 8)}
    pods = [PodSeen(at, H100, units, gang=name) for name, (at, units) in held.items()]
    story = Story(params(queue("a", 8), queue("b")), racks(1, 3), pods)
    for name, (_, units) in held.items():
        costs: dict[str, Any] = {"d": {"importance": 9.0}, "s": {"checkpoint_s": 990.0}}.get(name[0], {})
        assert story.room.adopt(gang(name, "b", units=units, **costs), 0.0, 1000.0) is None
    story.now_s = 1000.0
    story.submit(gang("mine", "a", units=8, created_s=900.0))
    story.settle()
    assert story.victims() == ["middle"]


def test_case_37_nobody_leaves_for_a_gang_whose_rack_would_not_be_free_all_the_same() -> None:
    """In either rack one node may be taken back, and who is on the other one is left alone for an hour."""
    nodes = [node(name, rack=name[0]) for name in ("a0", "a1", "b0", "b1")]
    story = Story(params(queue("a", 16), queue("b")), nodes)
    filled(story, *(gang(f"x{at}", "b", units=8, min_runtime_s=3600.0 * (at % 2)) for at in range(4)))
    story.now_s = 100.0
    story.submit(gang("mine", "a", pods=2, units=8, required="rack", created_s=100.0))
    story.settle()
    assert story.why("mine").reason is not BatchReason.TOO_LARGE
    assert story.victims() == []
    story.to(3700.0)
    assert len(story.victims()) == 2


def test_case_37_nobody_leaves_where_the_placement_would_fail_all_the_same() -> None:
    nodes = [node("a0", rack="r0"), node("a1", rack="r0"), node("b0", rack="r1")]
    story = Story(params(queue("a", 24), queue("b")), nodes)
    filled(story, gang("x", "b", units=8), gang("y", "b", units=8), gang("z", "b", units=8))
    story.now_s = 100.0
    story.submit(gang("mine", "a", pods=3, units=8, required="rack", created_s=100.0))
    story.settle()
    assert story.victims() == []
    assert story.cycles.cycle(story.now_s).evicted == ()


def test_an_eviction_that_costs_more_than_waiting_waits_until_the_grace_is_over() -> None:
    story = Story(params(queue("a", 8, grace_s=600.0), queue("b")), racks(1, 1))
    filled(story, gang("borrower", "b", units=8, expected_s=1050.0))
    story.now_s = 1000.0
    story.submit(gang("mine", "a", units=8, created_s=1000.0))
    story.settle()
    assert story.victims() == [], "in 50 s it is over; 1,120 s of work would be lost"
    story.run(1100.0)
    assert story.order()[-1] == "mine"
    late = Story(params(queue("a", 8, grace_s=600.0), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(late, gang("borrower", "b", units=8, expected_s=1050.0))
    late.now_s = 1000.0
    late.submit(gang("mine", "a", units=8, created_s=1000.0))
    late.settle()
    late.to(1700.0)
    assert late.victims() == ["borrower"]


@pytest.mark.parametrize(
    ("claimant", "guaranteed", "victims"),
    [
        pytest.param("a", 0, [], id="a fair share is not"),
        pytest.param("a", 4, ["b1"], id="a guarantee is"),
        pytest.param("b", 0, ["b1"], id="a priority is"),
    ],
)
def test_once_the_grace_is_over_only_some_rights_are_worth_any_cost(
    claimant: str, guaranteed: int, victims: list[str]
) -> None:
    story = Story(params(queue("a", guaranteed), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(story, *(gang(f"b{at}", "b", units=4, priority=-9, restart_s=30.0 * (2 - at)) for at in range(2)))
    story.now_s = 40_000.0
    story.submit(gang("mine", claimant, units=4, created_s=40_000.0, priority=-5))
    story.to(40_100.0)
    assert story.victims() == victims, "11 h of work on 4 GPUs against 1.2 h of waiting"


@pytest.mark.parametrize(
    ("due_s", "late_s", "victims"),
    [
        pytest.param(20.0, 25.0, [], id="it is there before the victim would be gone"),
        pytest.param(20.0, 45.0, ["borrower"], id="in one of ten cases it is not"),
        pytest.param(40.0, 40.0, ["borrower"], id="it comes later"),
    ],
)
def test_a_guarantee_is_not_taken_back_by_force_where_a_node_comes_sooner(
    due_s: float, late_s: float, victims: list[str]
) -> None:
    """The borrower has 30 s to go. A second node is on its way; the grace is over."""
    story = Story(params(queue("a", 8), queue("b")), [node("n0")], takes_s=lambda gang: 1e7)
    story.submit(gang("borrower", "b", units=8, notice_s=30.0))
    story.settle()
    story.look([node("n0"), node("n1", due_s=due_s, late_s=late_s)])
    story.submit(gang("mine", "a", units=8))
    story.settle()
    assert story.victims() == victims
    if not victims:
        story.now_s = due_s
        story.look([node("n0"), node("n1")])
        story.settle()
        assert story.order() == ["borrower", "mine"]


def test_a_gang_is_left_alone_until_its_lease_ends() -> None:
    story = Story(params(queue("a", 8), queue("b", min_runtime_s=300.0)), racks(1, 1))
    filled(story, gang("borrower", "b", units=8))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    assert story.victims() == []
    story.to(310.0)
    assert story.victims() == ["borrower"]


def test_priority_counts_within_a_queue_and_not_between_queues() -> None:
    story = Story(params(queue("a"), queue("b")), racks(1, 1))
    filled(story, gang("low", "a", units=4, priority=-9), gang("other", "b", units=4, priority=-9))
    story.now_s = 100.0
    story.submit(gang("high", "a", units=4, priority=-1, created_s=100.0))
    story.settle()
    assert story.victims() == ["low"]
    assert story.evicted[0][1].reason is BatchReason.OUTRANKED


@pytest.mark.parametrize("more", [{"reclaims": False}, {"preempts_own": False}], ids=str)
def test_a_queue_may_renounce_its_rights(more: dict[str, bool]) -> None:
    spec = QueueSpec("a", grace_s=0.0, **more)  # type: ignore[arg-type]
    story = Story(params(spec, queue("b")), racks(1, 1))
    first = "b" if "reclaims" in more else "a"
    filled(story, *(gang(f"{first}{at}", first, units=1, priority=-9) for at in range(8)))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=1, created_s=100.0))
    story.settle()
    assert story.victims() == []


def test_case_05_a_fair_split_is_reached_and_goes_no_further() -> None:
    story = Story(params(queue("a"), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(story, *(gang(f"b{at}", "b", units=1) for at in range(8)))
    story.submit(*(gang(f"a{at}", "a", units=1, created_s=1.0) for at in range(8)))
    story.run(1000.0)
    assert (story.holds("a"), story.holds("b")) == (4, 4)
    assert len(story.victims()) == 4


def test_case_01_freed_units_wait_for_the_one_they_were_freed_for_though_victims_leave_apart() -> None:
    story = Story(params(queue("a", 16), queue("b"), queue("c")), racks(1, 2), takes_s=lambda gang: 1e7)
    filled(story, gang("quick", "b", units=8, notice_s=5.0), gang("slow", "b", units=8, notice_s=60.0))
    story.now_s = 100.0
    story.submit(gang("mine", "a", pods=2, units=8, created_s=100.0))
    story.settle()
    story.submit(gang("thief", "c", units=1, created_s=90.0))
    story.run(110.0)
    assert (
        story.room.ledger.owners("n0", "h100").get("reserved", 0)
        + story.room.ledger.owners("n1", "h100").get("reserved", 0)
        == 8
    )
    assert "quick" in story.room.backlog.waiting
    story.run(300.0)
    assert story.order()[-1] == "mine"
    assert story.order().count("quick") == 1


def test_case_09_a_preemptor_that_is_deleted_frees_what_was_kept_for_it() -> None:
    story = Story(params(queue("a", 8), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(story, gang("borrower", "b", units=8))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    assert "mine" in story.room.kept_for
    story.room.cancel("mine", story.now_s)
    assert story.room.ledger.reservations == {}
    assert story.holds("a") == 0
    story.run(200.0)
    assert story.order() == ["borrower", "borrower"]


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        pytest.param({}, True, id="seen again"),
        pytest.param({"restart_s": 5.0, "checkpoint_s": 101.0}, True, id="what it tells of itself changed"),
        pytest.param({"priority": -9}, False, id="its rank changed"),
        pytest.param({"pods": 2, "units": 4}, False, id="its form changed"),
    ],
)
def test_case_09_a_preemptor_that_is_seen_again_keeps_what_is_kept_for_it_unless_its_place_changed(
    more: dict[str, Any], kept: bool
) -> None:
    story = Story(params(queue("a", 8), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(story, gang("borrower", "b", units=8))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    assert story.submit(gang("mine", "a", created_s=100.0, **{"units": 8, **more})) is None
    assert (list(story.room.kept_for) == ["mine"]) is kept
    assert (list(story.room.backlog.waiting) == ["mine"]) is not kept
    assert story.room.contradictions() == []


def test_case_10_what_was_freed_before_a_restart_is_still_kept_after_it() -> None:
    story = Story(params(queue("a", 8), queue("b")), racks(1, 2), takes_s=lambda gang: 1e7)
    filled(story, gang("borrower", "b", pods=2, units=8))
    story.now_s = 100.0
    mine = gang("mine", "a", units=8, created_s=100.0)
    story.submit(mine)
    story.settle()
    saved = durable.pack(story.room, 105.0)
    again = Story(story.params, racks(1, 2), now_s=105.0)
    assert durable.unpack(again.room, saved, 105.0) == ()
    again.submit(gang("thief", "b", pods=2, units=8, created_s=0.0), mine)
    again.settle()
    assert again.order() == ["mine"]
    assert again.room.contradictions() == []


def test_case_40_a_victim_that_does_not_leave_is_counted_on_no_longer() -> None:
    story = Story(params(queue("a", 8), queue("b"), stuck_s=120.0), racks(1, 2), takes_s=lambda gang: 1e7)
    filled(story, gang("stuck", "b", units=8, notice_s=1e6), gang("other", "b", units=8, restart_s=500.0))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    assert story.victims() == ["stuck"]
    story.to(230.0)
    assert story.victims() == ["stuck", "other"]
    story.to(300.0)
    assert story.order()[-1] == "mine"


def test_a_victim_whose_stop_could_not_be_written_for_ten_minutes_has_its_two_minutes_from_then_on() -> None:
    story = Story(params(queue("a", 8), queue("b"), stuck_s=120.0), racks(1, 2), takes_s=lambda gang: 1e7)
    filled(story, gang("first", "b", units=8, notice_s=1e6), gang("other", "b", units=8, restart_s=500.0))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    for at_s in range(105, 705, 5):
        story.room.runs.unwritten("first", float(at_s))
        story.to(float(at_s))
    assert story.victims() == ["first"]
    story.to(820.0)
    assert story.victims() == ["first"], "it was told at 700 s"
    story.to(821.0)
    assert story.victims() == ["first", "other"]


def test_a_gang_that_lost_a_gpu_leaves_whole_and_waits_at_its_old_rank() -> None:
    story = Story(params(), racks(1, 3))
    filled(story, gang("g", pods=2, units=8))
    lost = story.admitted[0][1].spots[0].node
    story.look([each for each in racks(1, 3) if each.name != lost])
    assert [(each.gang, each.reason) for _, each in story.evicted] == [("g", BatchReason.LOST)]
    story.settle()
    assert story.order() == ["g", "g"]


def test_who_was_chosen_for_quota_and_is_not_needed_for_room_stays() -> None:
    story = Story(params(queue("a", 8), queue("b"), queue("c", 1)), racks(1, 2), takes_s=lambda gang: 1e7)
    filled(story, gang("big", "b", units=8))
    filled(story, gang("keep", "c", units=1), *(gang(f"s{at}", "b", units=1, restart_s=0.0) for at in range(7)))
    for at in range(7):
        story.room.checkpointed(f"s{at}", 100.0)
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    assert story.victims() == ["big"], "the small ones cost nothing and help nobody"


def test_nobody_is_taken_below_a_guarantee_though_its_gangs_are_the_cheapest() -> None:
    story = Story(params(queue("a", 4), queue("b", 4), queue("c")), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(story, *(gang(f"b{at}", "b", units=2, restart_s=0.0) for at in range(3)), gang("c0", "c", units=2))
    for at in range(3):
        story.room.checkpointed(f"b{at}", 100.0)
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=4, created_s=100.0))
    story.run(200.0)
    assert (story.holds("a"), story.holds("b"), story.holds("c")) == (4, 4, 0)
    assert len(story.victims()) == 2, "one of the cheap ones, then the dear one"


def test_a_gang_that_would_end_above_its_victims_share_takes_nothing() -> None:
    story = Story(params(queue("a"), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(story, *(gang(f"b{at}", "b", units=1) for at in range(8)))
    story.submit(gang("five", "a", pods=5, units=1, created_s=1.0))
    story.to(500.0)
    assert story.victims() == []
    story.submit(gang("four", "a", pods=4, units=1, created_s=1.0))
    story.room.cancel("five", 500.0)
    story.to(1000.0)
    assert len(story.victims()) == 4


def test_a_fair_share_is_never_claimed_from_those_that_run_at_the_gangs_own_expense() -> None:
    story = Story(params(queue("a"), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(story, *(gang(f"b{at}", "b", units=2) for at in range(4)))
    room = story.room
    room.exchanges.note("mine", "b0")
    room.exchanges.note("mine", "third")
    room.exchanges.note("third", "b1")
    story.submit(gang("mine", "a", units=2, created_s=1.0), gang("more", "a", units=2, created_s=2.0))
    story.to(500.0)
    assert sorted(story.victims()) == ["b0", "b2"], "one of the two that are free to mine; then any to the other"
    assert story.evicted[0][1].beneficiary == "mine"
    room.cancel("third", 500.0)
    assert room.exchanges.ahead_of("mine") == {"b0", "more"}, "who left for another, and whoever that one left for"


def test_a_fair_share_is_never_claimed_from_a_gang_that_waited_longer_for_its_place() -> None:
    story = Story(
        params(queue("a"), queue("b")), racks(1, 1), takes_s=lambda gang: 400.0 if gang.name == "first" else 1e7
    )
    filled(story, gang("first", "b", pods=4, units=2))
    story.submit(*(gang(f"b{at}", "b", units=2, created_s=1.0) for at in range(4)))
    story.to(450.0)
    story.submit(gang("mine", "a", units=2, created_s=450.0))
    story.to(840.0)
    assert story.victims() == [], "each of b waited 399 s, mine not yet"
    story.to(1000.0)
    assert len(story.victims()) == 1


def test_who_has_waited_for_two_days_claims_a_fair_share_of_those_that_waited_longer_too() -> None:
    """Gangs that had run for three days were stopped with their node, and let in again when the new tenant came."""
    day_s = 86_400.0
    story = Story(params(queue("a"), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    story.now_s = 3.0 * day_s
    filled(story, *(gang(f"b{at}", "b", units=2, created_s=0.0) for at in range(4)))
    story.submit(gang("mine", "a", units=2, created_s=3.0 * day_s))
    gone = []
    for days in (4.9, 5.1):
        story.run(days * day_s)
        for at in range(4):
            story.room.checkpointed(f"b{at}", days * day_s)
        story.to(days * day_s)
        gone.append(len(story.victims()))
    assert gone == [0, 1]


def test_a_guarantee_is_claimed_even_from_those_that_run_at_the_gangs_own_expense() -> None:
    story = Story(params(queue("a", 8), queue("b")), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(story, gang("borrower", "b", units=8))
    story.room.exchanges.note("mine", "borrower")
    story.submit(gang("mine", "a", units=8, created_s=1.0))
    story.to(500.0)
    assert story.victims() == ["borrower"]


@pytest.mark.parametrize(
    ("queue_name", "guaranteed", "victims"),
    [
        pytest.param("a", 0, [], id="not to a fair share"),
        pytest.param("b", 0, [], id="not to a higher priority"),
        pytest.param("a", 8, ["tired"], id="but to a guarantee"),
    ],
)
def test_who_was_evicted_often_gives_way_to_guarantees_only(
    queue_name: str, guaranteed: int, victims: list[str]
) -> None:
    tree = (queue("a", guaranteed), queue("b", preempts_own=True))
    story = Story(params(*tree, max_evictions=3), racks(1, 1), takes_s=lambda gang: 1e7)
    for _ in range(3):
        filled(story, gang("tired", "b", units=4, priority=-9))
        story.look([])
        story.look(racks(1, 1))
    filled(story, gang("other", "b", units=4, min_runtime_s=1e9))
    assert story.order() == ["tired", "tired", "tired", "other", "tired"]
    story.evicted.clear()
    story.submit(gang("mine", queue_name, units=4, created_s=1.0))
    story.to(500.0)
    assert story.victims() == victims


def test_what_runs_keeps_its_gpus_though_an_edit_of_it_is_refused() -> None:
    story = Story(params(), racks(1, 1), takes_s=lambda gang: 1e7)
    filled(story, gang("g", units=8))
    refused = story.submit(gang("g", units=8, notice_s=-1.0))
    assert refused is not None
    story.submit(gang("next", units=8, created_s=1.0))
    story.settle()
    assert story.order() == ["g"]
    assert story.room.contradictions() == []


def test_cores_that_are_kept_for_one_are_not_promised_to_the_next() -> None:
    story = Story(params(queue("a", 16), queue("b")), [node("n", 16, cpu=64.0)], takes_s=lambda gang: 1e7)
    filled(story, *(gang(f"b{at}", "b", units=8) for at in range(2)))
    story.now_s = 100.0
    story.submit(*(gang(f"a{at}", "a", units=8, cpu=40.0, created_s=100.0 + at) for at in range(2)))
    story.to(500.0)
    assert story.order()[2:] == ["a0"], "two of 40 cores do not fit onto 64"
    assert len(story.victims()) == 1
    assert story.room.ledger.estate.spare[0].tolist()[0] == 24.0
    story.look()
    assert story.room.ledger.estate.spare[0].tolist()[0] == 24.0
    story.room.finish("a0", 501.0)
    assert story.room.ledger.estate.spare[0].tolist()[0] == 64.0
    story.to(600.0)
    story.run(1000.0)
    assert "a1" in story.order()


def test_cores_that_victims_hold_count_as_room_to_be_made() -> None:
    story = Story(params(queue("a", 8), queue("b")), [node("n", cpu=64.0, memory_gib=512.0)], takes_s=lambda gang: 1e7)
    filled(story, gang("borrower", "b", pods=8, cpu=8.0, memory_gib=64.0))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, cpu=60.0, memory_gib=400.0, created_s=100.0))
    story.run(200.0)
    assert story.order() == ["borrower", "mine"]


@pytest.mark.parametrize("more", [{"cpu": 30.0}, {"memory_gib": 300.0}], ids=str)
def test_who_holds_the_cores_or_the_memory_leaves_though_its_gpus_are_not_missed(more: dict[str, Any]) -> None:
    story = Story(params(queue("a", 8), queue("b")), [node("n", cpu=64.0, memory_gib=512.0)], takes_s=lambda gang: 1e7)
    filled(story, gang("hog", "b", cpu=60.0, memory_gib=500.0), gang("small", "b", cpu=0.5, memory_gib=1.0))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=6, created_s=100.0, **more))
    story.run(200.0)
    assert story.victims() == ["hog"]
    assert story.order()[-1] == "mine"


@pytest.mark.parametrize(("notice_s", "started"), [(60.0, True), (1e6, False)], ids=["leaves", "never leaves"])
def test_who_has_its_gpus_waits_for_the_cores_as_well_but_not_for_ever(notice_s: float, started: bool) -> None:
    story = Story(params(queue("a", 8), queue("b")), [node("n", 16, cpu=64.0)], takes_s=lambda gang: 1e7)
    filled(story, gang("hog", "b", units=8, cpu=60.0, notice_s=notice_s), gang("w", "b", units=8))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, cpu=40.0, created_s=100.0))
    story.settle()
    assert story.victims() == ["hog"]
    story.now_s = 110.0
    story.room.finish("w", 110.0)
    story.settle()
    assert story.room.ledger.reservations["mine"].whole
    assert "mine" not in story.order(), "its GPUs are there, its cores are not"
    story.to(300.0)
    assert ("mine" in story.order()) is started
    assert ("mine" in story.room.kept_for) is False


def test_cores_that_another_waits_for_hold_up_nobody_whose_own_are_there() -> None:
    story = Story(params(queue("a", 16), queue("b")), [node("n", 16, cpu=120.0)], takes_s=lambda gang: 1e7)
    filled(story, gang("b0", "b", units=8, cpu=20.0, notice_s=5.0), gang("b1", "b", units=8, cpu=100.0, notice_s=90.0))
    story.now_s = 100.0
    story.submit(
        gang("a0", "a", units=8, cpu=20.0, created_s=100.0), gang("a1", "a", units=8, cpu=60.0, created_s=101.0)
    )
    story.settle()
    assert story.victims() == ["b0", "b1"]
    story.run(110.0)
    assert story.order()[2:] == ["a0"]
    story.run(200.0)
    assert story.order()[2:] == ["a0", "a1"]


def test_cores_kept_for_one_that_is_deleted_are_free_again() -> None:
    story = Story(params(queue("a", 8), queue("b")), [node("n", cpu=64.0)], takes_s=lambda gang: 1e7)
    filled(story, gang("borrower", "b", units=8, cpu=60.0))
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, cpu=40.0, created_s=100.0))
    story.settle()
    assert story.room.ledger.estate.spare[0].tolist()[0] == 64.0 - 60.0 - 40.0
    story.look()
    assert story.room.ledger.estate.spare[0].tolist()[0] == 64.0 - 60.0 - 40.0
    story.room.cancel("mine", 101.0)
    assert story.room.ledger.estate.spare[0].tolist()[0] == 4.0


def test_a_gang_that_was_asked_to_leave_and_need_not_counts_again_and_is_left_alone_for_as_long_as_is_said() -> None:
    story = Story(params(queue("a", 16), queue("b")), racks(1, 2), takes_s=lambda gang: 1e7)
    story.submit(*(gang(f"b{at}", "b", units=8) for at in range(2)))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    (first,) = story.victims()
    run, other = story.room.runs.all[first], {"b0", "b1"} - {first}
    assert not spared.is_done_without(story.room, run, 100.0)
    story.room.cancel("mine", 101.0)
    assert spared.is_done_without(story.room, run, 101.0)
    spared.go_on(story.room, run, 700.0, 101.0)
    assert story.room.contradictions() == []
    assert (story.holds("b"), story.room.evictions) == (16, {})
    story.now_s = 200.0
    story.submit(gang("next", "a", units=8, created_s=200.0))
    story.settle()
    assert {story.victims()[-1]} == other
    story.now_s = 700.0
    story.submit(gang("last", "a", units=8, created_s=700.0))
    story.settle()
    assert story.victims()[-1] == first


def test_a_gang_that_runs_on_gave_way_to_nobody_and_the_one_that_left_in_its_place_did() -> None:
    story = Story(params(queue("a", 16), queue("b")), racks(1, 2), takes_s=lambda gang: 1e7)
    story.submit(*(gang(f"b{at}", "b", units=8) for at in range(2)))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    (first,) = story.victims()
    (other,) = {"b0", "b1"} - {first}
    run, gave_to = story.room.runs.all[first], story.room.exchanges.ahead_of
    assert gave_to(first) == {"mine"}
    run.stays = True
    story.room.news += 1
    story.now_s = 110.0
    story.settle()
    assert story.victims() == [first, other]
    story.room.left(other, 120.0)
    story.settle()
    assert "mine" in story.order()
    spared.go_on(story.room, run, 700.0, 121.0)
    assert (gave_to(first), gave_to(other)) == (frozenset(), frozenset({"mine"}))
    story.room.evict(run, BatchReason.FAIR_SHARE, "mine", 800.0)
    assert gave_to(first) == {"mine"}
    story.room.exchanges.forget("mine")
    assert gave_to(first) == frozenset()


def test_a_gang_that_runs_on_this_time_gave_way_before_all_the_same() -> None:
    story = Story(params(queue("a", 16), queue("b")), racks(1, 2), takes_s=lambda gang: 1e7)
    story.submit(gang("b0", "b", units=8))
    story.settle()
    run = story.room.runs.all["b0"]
    story.room.exchanges.note("b0", "mine")
    story.room.evict(run, BatchReason.FAIR_SHARE, "mine", 100.0)
    spared.go_on(story.room, run, 700.0, 121.0)
    assert story.room.exchanges.ahead_of("b0") == {"mine"}


def test_who_wants_nothing_any_more_may_be_forgotten_after_one_ran_on_that_was_to_leave_for_it() -> None:
    story = Story(params(queue("a", 16), queue("b")), racks(1, 2), takes_s=lambda gang: 1e7)
    story.submit(gang("b0", "b", units=8))
    story.settle()
    run = story.room.runs.all["b0"]
    story.room.exchanges.note("b0", "other")
    story.room.evict(run, BatchReason.FAIR_SHARE, "mine", 100.0)
    spared.go_on(story.room, run, 700.0, 121.0)
    story.room.cancel("mine", 130.0)
    assert story.room.exchanges.ahead_of("b0") == {"other"}
