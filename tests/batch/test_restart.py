"""What outlives a restart of ours, and pods that outlive their gang."""

import json
from collections.abc import Sequence

import pytest

from autoscaler.core.batch import durable
from autoscaler.core.batch.gangs import Gang
from autoscaler.core.batch.ledger import Kind, Reservation
from autoscaler.core.batch.loans import LoanBound
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.core.batch.params import QueueSpec
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.recalls import call_back
from tests.batch.builders import H100, gang, node, params, queue, racks
from tests.batch.story import Story


def mid_eviction(*queues: QueueSpec) -> tuple[Story, Gang, Gang]:
    """A borrower on one of two nodes is leaving for `mine` when we go down; what is there 5 s later."""
    borrower, mine = gang("borrower", "b", units=8), gang("mine", "a", units=8, created_s=100.0)
    before = Story(params(*queues), [node("n0"), node("n1", cordoned=True)], takes_s=lambda gang: 1e7)
    before.submit(borrower)
    before.settle()
    before.now_s = 100.0
    before.submit(mine)
    before.settle()
    assert before.victims() == ["borrower"]
    saved = durable.pack(before.room, 104.0)
    pods = [PodSeen("n0", H100, 8, gang="borrower")]
    after = Story(before.params, racks(1, 2), pods, now_s=105.0, takes_s=lambda gang: 1e7)
    assert durable.unpack(after.room, saved, 105.0) == ()
    return after, borrower, mine


def test_case_10_an_eviction_that_a_restart_cuts_in_two_still_ends_for_the_one_it_was_for() -> None:
    story, borrower, mine = mid_eviction(queue("a", 8), queue("b"))
    story.look(racks(1, 1), [PodSeen("n0", H100, 8, gang="borrower")])
    story.submit(borrower, gang("thief", "b", units=8), mine)
    story.settle()
    assert story.order() == [], "the borrower's pods are there still"
    assert list(story.room.kept_for) == ["mine"]
    story.room.left("borrower", 120.0)
    story.settle()
    assert story.order() == ["mine"]
    assert story.victims() == [], "nobody is asked twice"
    assert sorted(story.room.backlog.waiting) == ["borrower", "thief"]
    assert story.room.contradictions() == []


def test_case_10_the_one_that_others_leave_for_keeps_its_place_in_the_quota_over_a_restart() -> None:
    story, borrower, mine = mid_eviction(queue("a", 8, quota={"limit": 8}), queue("b"))
    story.submit(borrower, gang("older", "a", units=8, created_s=1.0), mine)
    story.settle()
    assert story.order() == [], "n1 is free, but what is left of the queue's limit is taken"
    story.room.left("borrower", 120.0)
    story.settle()
    assert story.order() == ["mine", "borrower"], "the borrower left for somebody that starts"


@pytest.mark.parametrize("kind", [Kind.PREEMPTION, Kind.START])
def test_who_had_room_kept_first_has_it_first_after_a_restart_in_whatever_order_gangs_are_met(kind: Kind) -> None:
    before = Story(params(queue("a")), racks(1, 1))
    for at, name in enumerate(("z-first", "a-second")):
        before.room.ledger.reserve(Reservation(name, kind, {0: 8}, float(at), 50.0))
    after = Story(before.params, racks(1, 1), now_s=5.0)
    durable.unpack(after.room, durable.pack(before.room, 4.0), 5.0)
    for name in ("a-second", "z-first"):
        assert after.room.submit(gang(name, "a", units=8), 5.0) is None
    kept = after.room.ledger.reservations
    assert (list(kept), kept["z-first"].held, kept["a-second"].held) == (["z-first", "a-second"], {0: 8}, {0: 0})
    assert after.room.contradictions() == []


def test_the_place_of_a_gang_that_lost_gpus_comes_before_what_was_kept_for_another_one_later() -> None:
    """They are saved apart, places last."""
    after = Story(params(queue("a")), racks(1, 1), now_s=5.0)
    at = after.room.ledger.estate.nodes[0]
    plan = [[at.name, at.shape, 8]]
    saved = durable.pack(after.room, 4.0) | {
        "reservations": [["a-later", "PREEMPTION", 2.0, 50.0, plan]],
        "places": [["z-lost", "START", 1.0, 1.0, plan]],
    }
    durable.unpack(after.room, saved, 5.0)
    assert list(after.room.ledger.reservations) == ["z-lost", "a-later"]


def test_what_was_kept_for_a_gang_that_is_not_there_after_a_restart_goes_to_others_at_once() -> None:
    story, borrower, _ = mid_eviction(queue("a", 8), queue("b"))
    story.submit(borrower, gang("other", "b", pods=2, units=8, created_s=1.0))
    story.room.finish("borrower", 120.0)
    story.settle()
    assert story.order() == ["other"]


def test_units_that_fail_meanwhile_are_missed_by_who_came_last_and_no_third_one_takes_its_victims() -> None:
    story = Story(params(queue("a", 24), queue("b")), [node("n", 24)], takes_s=lambda gang: 1e7)
    story.submit(*(gang(f"b{at}", "b", units=8, notice_s=90.0) for at in range(3)))
    story.settle()
    story.now_s = 100.0
    for at in range(2):
        story.submit(gang(f"a{at}", "a", units=8, created_s=100.0 + at))
        story.settle()
    story.look([node("n", 24, failing_units=8)])
    story.room.left("b0", story.now_s)
    story.submit(gang("a2", "a", units=8, created_s=102.0))
    story.settle()
    assert [(each.gang, each.beneficiary) for _, each in story.evicted] == [("b0", "a0"), ("b1", "a1"), ("b2", "a1")]
    story.run(1000.0)
    assert story.order()[3:] == ["a0", "a1"], "each for whom somebody left"


def restarted(before: Story, pods: Sequence[PodSeen], now_s: float) -> Story:
    """Another process that sees the same nodes and these pods, and knows what the one before had written down."""
    saved = json.loads(json.dumps(durable.pack(before.room, now_s)))
    after = Story(before.params, before.nodes, pods, now_s=now_s, takes_s=before.takes_s)
    assert durable.unpack(after.room, saved, now_s) == ()
    return after


@pytest.mark.parametrize("mended_first", [True, False], ids=["mended before the restart", "mended after it"])
def test_the_place_of_a_gang_that_lost_a_node_and_leaves_is_its_own_over_a_restart(*, mended_first: bool) -> None:
    """Its node is mended while its other pod is still leaving: who came after it takes neither of the two."""
    before = Story(params(), racks(1, 2), takes_s=lambda gang: 1e7)
    large, thief = gang("large", pods=2, units=8), gang("thief", units=8, created_s=1.0)
    before.submit(large)
    before.settle()
    lost, stays = (spot.node for spot in before.admitted[0][1].spots)
    pods = [PodSeen(stays, H100, 8, gang="large")]
    before.look([each for each in racks(1, 2) if each.name != lost], pods)
    if mended_first:
        before.look(racks(1, 2), pods)
    before.settle()

    after = restarted(before, pods, 10.0)
    after.submit(large, thief)
    after.look(racks(1, 2), pods)
    after.settle()
    assert after.order() == [], "the mended node is kept for who lost it"
    assert after.room.ledger.owners(lost, H100) == {"reserved": 8, "free": 0}
    after.room.left("large", 30.0)
    after.settle()
    assert after.order() == ["large"]
    assert after.room.contradictions() == []


def test_gangs_that_lost_a_node_and_had_no_place_wait_like_others_if_they_are_gone_after_a_restart() -> None:
    """Three of two nodes lost one each: what is left is enough for one, and room is kept for one of the others."""
    nodes = racks(1, 6)
    before = Story(params(), nodes, takes_s=lambda gang: 1e7)
    gangs = [gang(f"g{at}", pods=2, units=8) for at in range(3)]
    before.submit(*gangs)
    before.settle()
    lost = {admitted.spots[0].node for _, admitted in before.admitted}
    before.look([each for each in nodes if each.name not in lost], [
        PodSeen(admitted.spots[1].node, H100, 8, gang=admitted.gang) for _, admitted in before.admitted
    ])  # fmt: skip
    before.settle()
    after = restarted(before, (), 10.0)
    after.submit(*gangs)
    after.settle()
    assert after.order() == ["g0"]
    assert len(after.room.ledger.starts) == 1


def test_what_an_expected_start_holds_is_kept_over_a_restart() -> None:
    """The oldest waits for two nodes, of which one is free: nobody who would still run by then gets that one."""
    before = Story(params(), racks(1, 2), takes_s=lambda gang: 1e7)
    runs, head = gang("runs", units=8, expected_s=600.0), gang("head", pods=2, units=8, created_s=1.0)
    late = gang("late", units=8, created_s=2.0, expected_s=900.0)
    before.submit(runs)
    before.settle()
    for each in (head, late):
        before.submit(each)
        before.settle()
    assert before.order() == ["runs"]

    pods = [PodSeen(before.admitted[0][1].spots[0].node, H100, 8, gang="runs")]
    after = restarted(before, pods, 10.0)
    assert after.room.adopt(runs, 0.0, 10.0) is None
    after.submit(head, late)
    after.settle()
    assert after.order() == [], "free for who comes first, it would be gone for 15 minutes"
    after.room.finish("runs", 600.0)
    after.settle()
    assert after.order() == ["head"]


def test_a_gang_that_was_stopped_for_another_has_no_place_kept_after_a_restart() -> None:
    story, borrower, mine = mid_eviction(queue("a", 8), queue("b"))
    story.submit(borrower, mine)
    story.settle()
    assert list(story.room.ledger.reservations) == ["mine"]
    assert not story.room.runs.lost


def test_a_loan_is_known_as_one_after_a_restart_and_can_be_recalled() -> None:
    pods = [PodSeen("warm", H100, 8, Owner.LOAN, "g")]
    story = Story(params(), [node("warm", warm_units=8)], pods)
    story.room.lend({H100: LoanBound(8)})
    assert story.room.adopt(gang("g", units=8, lendable=True), 0.0, 10.0) is None
    assert story.room.ledger.owners("warm", H100) == {"loan": 8, "free": 0}
    evicted, _ = call_back(story.room, H100, 1, 20.0)
    assert [each.gang for each in evicted] == ["g"]
    story.room.left("g", 50.0)
    assert story.room.ledger.owners("warm", H100) == {"serving": 8, "free": 0}
    assert story.room.contradictions() == []


def test_cores_that_gangs_hold_are_known_after_a_restart() -> None:
    pods = [PodSeen("n", H100, 4, gang="g", cpu=60.0, memory_gib=100.0)]
    story = Story(params(), [node("n", cpu=64.0, memory_gib=512.0)], pods)
    assert story.room.adopt(gang("g", units=4, cpu=60.0, memory_gib=100.0), 0.0, 10.0) is None
    for _ in range(2):
        assert story.room.ledger.estate.spare[0].tolist() == [4.0, 412.0]
        story.look(pods=pods)
    story.submit(gang("next", units=4, cpu=30.0))
    story.settle()
    assert story.order() == []
    story.room.finish("g", 20.0)
    story.settle()
    assert story.order() == ["next"]
    assert story.room.ledger.estate.spare[0].tolist() == [34.0, 512.0]


def test_a_loan_that_was_recalled_before_a_restart_is_not_recalled_twice() -> None:
    pods = [PodSeen(f"w{at}", H100, 8, Owner.LOAN, f"g{at}") for at in range(2)]
    story = Story(params(), [node("w0", warm_units=8), node("w1", warm_units=8)], pods)
    assert story.room.adopt(gang("g0", units=8, lendable=True), 0.0, 10.0) is None
    story.submit(gang("g1", units=8, lendable=True))
    assert call_back(story.room, H100, 8, 20.0) == ((), ()), "g1 is on its way out"
    evicted, _ = call_back(story.room, H100, 9, 20.0)
    assert [each.gang for each in evicted] == ["g0"]


def test_a_gang_that_lost_a_node_holds_what_its_other_pods_occupy_until_they_have_left() -> None:
    story = Story(params(), racks(1, 3), takes_s=lambda gang: 1e7)
    story.submit(gang("g", pods=2, units=8))
    story.settle()
    lost, stays = (spot.node for spot in story.admitted[0][1].spots)
    rest = [each for each in racks(1, 3) if each.name != lost]
    pods = [PodSeen(stays, H100, 8, gang="g")]
    story.look(rest, pods)
    story.submit(gang("next", units=8, created_s=1.0))
    story.settle()
    story.look(racks(1, 3), pods)
    story.settle()
    assert [(each.gang, each.reason) for _, each in story.evicted] == [("g", BatchReason.LOST)]
    assert story.room.ledger.owners(stays, H100) == {"batch": 8, "free": 0}
    assert story.order() == ["g", "next"], "told to leave, it does not start beside its own pods"
    story.look(racks(1, 3))
    story.room.left("g", 30.0)
    story.settle()
    assert story.order() == ["g", "next", "g"]


def test_an_object_made_anew_under_its_name_waits_for_the_pods_of_the_one_before() -> None:
    story = Story(params(), racks(1, 2), takes_s=lambda gang: 1e7)
    story.submit(gang("g", units=8))
    story.settle()
    story.room.cancel("g", 1.0)
    story.submit(gang("g", units=4, created_s=2.0))
    story.look(pods=[PodSeen(story.admitted[0][1].spots[0].node, H100, 8, gang="g")])
    story.settle()
    assert story.order() == ["g"]
    story.look()
    story.room.left("g", 30.0)
    story.settle()
    assert story.order() == ["g", "g"]
    assert story.holds("a") == 4


def test_who_others_leave_for_is_kept_for_no_more_once_pods_of_its_name_turn_up() -> None:
    story = Story(params(queue("a", 8), queue("b")), racks(1, 2), takes_s=lambda gang: 1e7)
    story.submit(*(gang(f"b{at}", "b", units=8) for at in range(2)))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    assert list(story.room.kept_for) == ["mine"]
    story.room.finish("b1", 101.0)
    story.look(pods=[PodSeen("n1", H100, 1, gang="mine")])
    story.settle()
    assert story.room.kept_for == {}
    assert story.room.contradictions() == []
    story.look()
    story.room.left("mine", 140.0)
    story.run(200.0)
    assert story.order()[-1] in {"mine", "b0"}
    assert "mine" in story.order()
