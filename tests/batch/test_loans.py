"""Idle GPUs of serving are lent within the bound, and come back whole and cheapest first."""

from typing import Any

import pytest

from autoscaler.core.batch.loans import LoanBound, worth
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.recalls import call_back
from tests.batch.builders import H100, gang, node, params, queue
from tests.batch.story import Story

WARM = [node("warm0", warm_units=8), node("warm1", warm_units=8)]
BOUND = LoanBound(units=12, reclaim_s=60.0, engine_start_s=30.0, expected_s=7200.0)


def lending(bound: LoanBound = BOUND) -> Story:
    story = Story(params(queue("a"), queue("b")), WARM, takes_s=lambda gang: 1e7)
    story.room.lend({H100: bound})
    return story


def test_only_gangs_that_offer_it_borrow_and_only_up_to_the_bound() -> None:
    story = lending()
    story.submit(gang("owned", units=4), gang("one", units=8, lendable=True), gang("two", units=8, lendable=True))
    story.settle()
    assert story.order() == ["one"]
    started = story.admitted[0][1]
    assert (started.reason, started.lent_units) == (BatchReason.LOAN, 8)
    owners = [story.room.ledger.owners(each.name, H100) for each in WARM]
    assert {"loan": 8, "free": 0} in owners
    assert {"serving": 8, "free": 0} in owners


def test_one_that_nobody_can_stop_borrows_nothing_even_where_it_offers_to() -> None:
    story = lending()
    story.submit(gang("pods", units=4, lendable=True, recallable=False), gang("job", units=4, lendable=True))
    story.settle()
    assert story.order() == ["job"]


@pytest.mark.parametrize(
    ("more", "bound", "wanted"),
    [
        pytest.param({}, BOUND, True, id="worth it"),
        pytest.param({"notice_s": 90.0}, BOUND, False, id="cannot be gone in time"),
        pytest.param({"expected_s": 60.0}, BOUND, False, id="its start costs more than it does"),
        pytest.param({"expected_s": 3600.0}, BOUND, True, id="ends before the loan"),
        pytest.param({}, LoanBound(8, expected_s=300.0), False, id="the loan is too short"),
    ],
)
def test_a_loan_is_made_only_where_both_sides_gain(more: dict[str, Any], bound: LoanBound, wanted: bool) -> None:
    assert worth(gang("g", lendable=True, **more), bound, 120.0) is wanted


def test_case_50_a_burst_takes_loans_back_whole_and_the_cheapest_first() -> None:
    story = lending(LoanBound(16, expected_s=7200.0, engine_start_s=30.0))
    story.submit(*(gang(f"g{at}", units=4, lendable=True) for at in range(4)))
    story.settle()
    story.room.checkpointed("g2", 900.0)
    story.now_s = 1000.0
    evicted, bills = call_back(story.room, H100, 3, story.now_s)
    assert [(each.gang, each.reason) for each in evicted] == [("g2", BatchReason.RECALLED)]
    assert bills[0].return_gpu_s == 4 * (60.0 + 30.0)
    assert bills[0].lost_gpu_s == 4 * (100.0 + 120.0)
    again, _ = call_back(story.room, H100, 3, story.now_s)
    assert again == (), "what leaves already counts"
    story.room.lend({H100: LoanBound(12, expected_s=7200.0)})
    story.room.left("g2", story.now_s + 30.0)
    story.settle()
    assert story.room.contradictions() == []
    assert story.order().count("g2") == 1, "the bound was lowered: it does not come back at once"


def test_case_50_a_burst_while_a_gang_holds_the_only_whole_rack_has_all_of_it_back_for_one_gpu() -> None:
    story = lending(LoanBound(16, expected_s=7200.0))
    story.submit(gang("wide", pods=2, units=8, lendable=True, required="rack"))
    story.settle()
    assert story.admitted[0][1].lent_units == 16
    evicted, bills = call_back(story.room, H100, 1, 100.0, nodes=["warm1"])
    assert [each.gang for each in evicted] == ["wide"]
    assert bills[0].lost_gpu_s == 16 * (100.0 + 120.0), "all of its work is on the bill, for one GPU that was wanted"
    story.room.lend({H100: LoanBound(0)})
    story.room.left("wide", 130.0)
    story.settle()
    owners = [story.room.ledger.owners(each.name, H100) for each in WARM]
    assert owners == [{"serving": 8, "free": 0}] * 2
    assert story.order() == ["wide"], "and it does not come back on what serving needs"


def test_case_50_a_burst_while_nodes_are_made_for_a_gang_takes_loans_back_and_leaves_the_request_as_it_is() -> None:
    story = Story(params(queue("a", 16), queue("b")), WARM, takes_s=lambda gang: 1e7)
    story.room.lend({H100: LoanBound(8, expected_s=7200.0)})
    story.submit(gang("loan", "b", units=8, lendable=True), gang("wants", "a", pods=2, units=8))
    story.settle()
    story.room.ask_for_nodes(story.room.backlog.waiting["wants"], 10.0, 310.0)
    evicted, _ = call_back(story.room, H100, 64, 20.0)
    assert [each.gang for each in evicted] == ["loan"], "what is to come is not serving's"
    story.room.lend({H100: LoanBound(0)})
    story.room.left("loan", 50.0)
    story.settle()
    assert story.room.waits_for_nodes() == ("wants",)
    assert story.order() == ["loan"], "what came back is serving's, and not of whoever waits for nodes"


def test_one_that_is_told_to_leave_and_never_goes_keeps_the_others_no_longer_than_its_notice_and_two_minutes() -> None:
    story = lending(LoanBound(16, expected_s=7200.0))
    story.submit(*(gang(f"g{at}", units=4, lendable=True, notice_s=45.0) for at in range(3)))
    story.settle()
    story.room.checkpointed("g1", 900.0)
    assert [each.gang for each in call_back(story.room, H100, 4, 1000.0)[0]] == ["g1"]
    last_s = 1000.0 + 45.0 + story.room.params.stuck_s
    assert call_back(story.room, H100, 4, last_s)[0] == (), "it is on its way as far as anybody can tell"
    assert len(call_back(story.room, H100, 4, last_s + 1.0)[0]) == 1, "another one goes in its place"
    assert call_back(story.room, H100, 4, last_s + 2.0)[0] == (), "and that one is on its way"
    assert sorted(story.room.runs.all) == ["g0", "g1", "g2"]
    assert story.room.contradictions() == []


def test_for_one_whose_stop_nobody_takes_no_other_is_called_back_and_it_has_its_time_once_it_is_taken() -> None:
    """A webhook refuses all stops for ten minutes."""
    story = lending(LoanBound(16, expected_s=7200.0))
    story.submit(*(gang(f"g{at}", units=4, lendable=True, notice_s=45.0) for at in range(4)))
    story.settle()
    (first,) = call_back(story.room, H100, 4, 1000.0)[0]
    for at in range(120):
        story.room.runs.unwritten(first.gang, 1000.0 + 5.0 * at)
        assert call_back(story.room, H100, 4, 1000.0 + 5.0 * at)[0] == ()
    assert story.room.is_overdue(story.room.runs.all[first.gang], 1595.0), "the pool counts on it no more"
    last_s = 1595.0 + 45.0 + story.room.params.stuck_s
    assert call_back(story.room, H100, 4, last_s)[0] == ()
    assert len(call_back(story.room, H100, 4, last_s + 1.0)[0]) == 1
    assert len(call_back(story.room, H100, 8, last_s + 1.0)[0]) == 1, "who wants two slots calls two"


FIVEFOLD = LoanBound(64, reclaim_s=60.0, engine_start_s=30.0, expected_s=7200.0)
"""Of ten nodes serving is forecast to need two for two hours; it needs all ten."""


def lent_out() -> Story:
    """Eight gangs that need 10 to 60 s to leave have a node each; one that needs 61 s waits, and so does one without a
    loan."""
    nodes = [node(f"warm{at}", warm_units=8) for at in range(10)]
    story = Story(params(queue("a", 80)), nodes, takes_s=lambda gang: 1e7)
    story.room.lend({H100: FIVEFOLD})
    notices_s = (10.0, 20.0, 30.0, 30.0, 45.0, 60.0, 60.0, 60.0)
    story.submit(gang("slow", units=8, lendable=True, notice_s=61.0, priority=-1), gang("owned", units=8, priority=-1))
    story.submit(*(gang(f"g{at}", units=8, lendable=True, notice_s=notice_s) for at, notice_s in enumerate(notices_s)))
    story.settle()
    assert sorted(story.order()) == [f"g{at}" for at in range(8)]
    return story


def serving_has(story: Story) -> int:
    """Nodes that nobody but serving has any part of."""
    owners = [story.room.ledger.owners(each.name, H100) for each in story.nodes]
    return owners.count({"serving": 8, "free": 0})


def gone(story: Story, told_s: dict[str, float], until_s: float) -> list[tuple[float, int]]:
    """Gangs leave at the end of their notice; after each the nodes that serving has, with the instant."""
    has = []
    for name in sorted(told_s, key=lambda name: told_s[name] + story.room.runs.all[name].gang.notice_s):
        story.now_s = told_s[name] + story.room.runs.all[name].gang.notice_s
        assert story.now_s <= until_s
        story.room.left(name, story.now_s)
        story.settle()
        has.append((story.now_s, serving_has(story)))
    return has


def test_case_52_a_forecast_wrong_by_five_times_has_all_that_is_lent_back_within_the_stated_bound() -> None:
    story = lent_out()
    assert serving_has(story) == 2
    evicted, bills = call_back(story.room, H100, 64, 100.0)
    assert len(evicted) == 8
    assert {each.reason for each in evicted} == {BatchReason.RECALLED}
    assert sum(each.return_gpu_s for each in bills) == 64 * (60.0 + 30.0)
    story.room.lend({H100: LoanBound(0)})
    story.settle()
    has = gone(story, {each.gang: 100.0 for each in evicted}, 100.0 + FIVEFOLD.reclaim_s)
    assert has[0] == (110.0, 3), "each node is serving's as soon as it is left"
    assert has[-1] == (100.0 + FIVEFOLD.reclaim_s, 10)
    assert len(story.admitted) == 8, "nobody starts on any of them, however long serving waits for the others"


def test_case_52_a_forecast_that_is_wrong_again_while_loans_come_back_has_each_of_them_back_in_time_and_once() -> None:
    """Twice as much as was forecast at 100 s, five times as much 20 s later."""
    story = lent_out()
    first = [each.gang for each in call_back(story.room, H100, 16, 100.0)[0]]
    assert len(first) == 2
    story.room.lend({H100: LoanBound(0)})
    second = [each.gang for each in call_back(story.room, H100, 64, 120.0)[0]]
    assert sorted([*first, *second]) == [f"g{at}" for at in range(8)], "those that leave already are told once"
    told_s = dict.fromkeys(first, 100.0) | dict.fromkeys(second, 120.0)
    has = dict(gone(story, told_s, 120.0 + FIVEFOLD.reclaim_s))
    assert max(number for at_s, number in has.items() if at_s <= 100.0 + FIVEFOLD.reclaim_s) >= 4
    assert has[120.0 + FIVEFOLD.reclaim_s] == 10


def test_units_are_recalled_where_serving_needs_them() -> None:
    story = lending(LoanBound(16, expected_s=7200.0))
    story.submit(*(gang(f"g{at}", units=8, lendable=True) for at in range(2)))
    story.settle()
    where = {each.gang: each.spots[0].node for _, each in story.admitted}
    evicted, _ = call_back(story.room, H100, 1, 100.0, nodes=["warm1"])
    assert [where[each.gang] for each in evicted] == ["warm1"]


def test_a_loan_is_no_victim_of_other_gangs_because_its_gpus_go_to_serving() -> None:
    story = Story(params(queue("a", 8), queue("b")), [node("warm0", warm_units=8)], takes_s=lambda gang: 1e7)
    story.room.lend({H100: LoanBound(8, expected_s=7200.0)})
    story.submit(gang("loan", "b", units=8, lendable=True))
    story.settle()
    story.submit(gang("mine", "a", units=8))
    story.now_s = 100.0
    story.settle()
    assert story.order() == ["loan"]
    assert story.victims() == []


def test_a_loan_that_the_others_make_needless_is_not_recalled() -> None:
    story = lending(LoanBound(16, expected_s=7200.0))
    story.submit(gang("small", units=2, lendable=True), gang("large", units=8, lendable=True))
    story.settle()
    story.room.checkpointed("small", 100.0)
    evicted, _ = call_back(story.room, H100, 5, 100.0)
    assert [each.gang for each in evicted] == ["large"]


def test_unimportant_gangs_are_recalled_first_and_the_bill_says_what_is_lost() -> None:
    story = lending(LoanBound(16, expected_s=7200.0))
    story.submit(gang("dear", units=8, lendable=True), gang("cheap", units=8, lendable=True, importance=0.5))
    story.settle()
    story.room.checkpointed("dear", 30.0)
    evicted, bills = call_back(story.room, H100, 8, 100.0)
    assert [each.gang for each in evicted] == ["cheap"]
    assert bills[0].lost_gpu_s == 8 * (100.0 + 120.0)


def test_pods_that_claim_a_loan_that_nobody_made_leave_serving_nothing_below_zero() -> None:
    nodes = [node("a"), node("b")]
    pods = [PodSeen("a", H100, 4, Owner.LOAN, "g"), PodSeen("b", H100, 2, Owner.LOAN, "g")]
    story = Story(params(), nodes, pods)
    assert story.room.adopt(gang("g", pods=2, units=4, lendable=True), 0.0, 0.0) is None
    grown = [PodSeen("a", H100, 4, Owner.LOAN, "g"), PodSeen("b", H100, 6, Owner.LOAN, "g")]
    story.look(nodes, [*grown, PodSeen("a", H100, 8, Owner.SERVING)])
    assert [words for words in story.room.contradictions() if " holds " not in words] == []
    story.look(nodes, [PodSeen("a", H100, 8, Owner.SERVING)])
    story.room.left("g", 10.0)
    assert story.room.contradictions() == []


def test_what_a_gang_has_on_loan_is_its_own_once_nobody_calls_it_back() -> None:
    story = lending()
    story.submit(gang("one", units=8, lendable=True))
    story.settle()
    story.room.own("one")
    where = story.admitted[0][1].spots[0].node
    assert story.room.ledger.owners(where, H100) == {"batch": 8, "free": 0}
    assert call_back(story.room, H100, 8, 10.0) == ((), ())
    assert story.room.contradictions() == []


def test_a_gang_that_needs_too_long_to_leave_keeps_no_equal_one_from_borrowing() -> None:
    story = lending()
    story.submit(gang("slow", units=8, lendable=True, notice_s=90.0), gang("quick", units=8, lendable=True))
    story.settle()
    assert story.order() == ["quick"]
