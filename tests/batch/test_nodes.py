"""Nodes are asked for gangs that quota admits and that lack nothing but room, and are theirs alone until they start."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.batch.ledger import Kind
from autoscaler.core.batch.nodes import MOST_ASKING, MOST_LOOKED_AT, wanting
from autoscaler.core.batch.outlook import outlook
from autoscaler.core.batch.params import Order
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.batch.tree import ROOT
from autoscaler.core.batch.waiting import Waiting
from tests.batch.builders import H100, gang, node, params, queue, racks
from tests.batch.story import Story

TAKES_S = {H100: 300.0}


def anybody(_: Waiting) -> bool:
    return True


def asked(story: Story, **takes_s: float) -> list[str]:
    """Ask nodes for whoever lacks them now; their names."""
    chosen = wanting(story.cycles, takes_s or TAKES_S, anybody, story.now_s)
    for waiting in chosen:
        story.room.ask_for_nodes(waiting, story.now_s, story.now_s + 300.0)
    assert story.room.contradictions() == []
    return [waiting.gang.name for waiting in chosen]


def scene(*queues: str, nodes: int = 1, guaranteed: int = 16) -> Story:
    specs = [queue(name, guaranteed) for name in queues or ("a",)]
    return Story(params(*specs), racks(1, 8)[:nodes], takes_s=lambda each: each.expected_s or 1e7)


def holds(story: Story, name: str, **units: int) -> None:
    """Placeholders of a gang stand on these nodes."""
    index = story.room.ledger.estate.index
    story.room.hold_nodes(name, {index[at, H100]: number for at, number in units.items()})


def test_case_45_a_gang_without_room_asks_for_its_whole_form_and_starts_once_all_of_it_is_held() -> None:
    story = scene(nodes=0)
    story.submit(gang("g", pods=2, units=8))
    story.settle()
    assert story.order() == []
    assert asked(story) == ["g"]
    told = outlook(story.cycles, "g", 10.0)
    assert told is not None
    assert (told.reason, told.p50_s) == (BatchReason.NODES, 300.0)
    story.look([node("n0")])
    holds(story, "g", n0=8)
    story.settle()
    assert (story.order(), story.room.ledger.owners("n0", H100)) == ([], {"reserved": 8, "free": 0})
    story.look([node("n0"), node("n1")])
    holds(story, "g", n0=8, n1=8)
    story.settle()
    assert [(each.gang, each.reason) for _, each in story.admitted] == [("g", BatchReason.RESERVED)]
    assert {spot.node for spot in story.admitted[0][1].spots} == {"n0", "n1"}
    assert story.room.ledger.reservations == {}


@pytest.mark.parametrize("how", ["refused", "deleted", "started on other nodes"])
def test_nodes_that_were_to_come_for_a_gang_are_nobodys_quota_once_they_are_not(how: str) -> None:
    story = scene(nodes=0)
    story.submit(gang("g", pods=2, units=8))
    story.settle()
    asked(story)
    assert story.room.tree.quotas[ROOT].total == [16]
    if how == "refused":
        story.room.keep_no_more("g", story.now_s)
    elif how == "deleted":
        story.room.cancel("g", story.now_s)
    else:
        story.look([node("n0"), node("n1")])
        story.settle()
        assert story.order() == ["g"]
    assert story.room.tree.quotas[ROOT].total == [16 if how == "started on other nodes" else 0]


def test_what_is_held_for_one_gang_is_nobody_elses_however_long_the_others_have_waited() -> None:
    story = scene(nodes=0, guaranteed=32)
    story.submit(gang("old", pods=4, units=8))
    story.settle()
    asked(story)
    story.submit(gang("thief", units=8, created_s=-1e6))
    story.look([node("n0"), node("n1")])
    holds(story, "old", n0=8)
    story.settle()
    assert story.order() == ["thief"], "the other node is anybody's"
    assert story.room.ledger.owners("n0", H100) == {"reserved": 8, "free": 0}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        pytest.param({"units": 24}, "beyond what is guaranteed", id="beyond every guarantee"),
        pytest.param({"queue": "b", "units": 8}, "its limit", id="at its queue's limit"),
    ],
)
def test_case_42_quota_blocked_work_asks_for_no_node(more: dict[str, object], why: str) -> None:
    specs = (queue("a", 16), queue("b", quota={"limit": 4}))
    story = Story(params(*specs), racks(1, 1))
    given_more = {"queue": "a", **more}
    story.submit(gang("g", str(given_more["queue"]), units=int(str(given_more["units"]))))
    story.settle()
    assert asked(story) == [], why


def test_what_others_are_guaranteed_and_do_not_use_counts_as_quota_though_it_is_not_there() -> None:
    story = scene("a", "b", nodes=0, guaranteed=8)
    story.submit(gang("borrows", "a", pods=2, units=8))
    story.settle()
    assert asked(story) == ["borrows"]
    story.submit(gang("next", "b", units=8))
    story.settle()
    assert asked(story) == [], "both guarantees are spoken for"


def test_gangs_are_judged_together_so_that_no_more_is_asked_for_than_quota_admits_at_once() -> None:
    story = scene("a", "b", nodes=0, guaranteed=8)
    story.submit(gang("one", "a", units=8), gang("two", "b", pods=2, units=8, created_s=1.0))
    story.settle()
    assert asked(story) == ["one"]


def test_nodes_are_not_asked_for_where_room_is_expected_before_they_could_be_there() -> None:
    story = scene(nodes=1)
    story.submit(gang("runs", units=8, expected_s=200.0))
    story.settle()
    story.submit(gang("waits", units=8, created_s=1.0))
    story.now_s = 10.0
    story.settle()
    assert asked(story, **{H100: 400.0}) == []
    assert asked(story, **{H100: 60.0}) == ["waits"]


def test_case_48_a_gang_that_nodes_are_asked_for_starts_on_room_that_others_leave_first() -> None:
    story = scene(nodes=1)
    story.submit(gang("runs", units=8, expected_s=5000.0))
    story.settle()
    story.submit(gang("waits", units=8, created_s=1.0))
    story.settle()
    assert asked(story) == ["waits"]
    story.room.finish("runs", 100.0)
    story.now_s = 100.0
    story.settle()
    assert story.order() == ["runs", "waits"]
    assert (story.room.waits_for_nodes(), story.room.tree.quotas[ROOT].total) == ((), [8]), "the surplus is cancelled"
    assert asked(story) == []


def test_case_43_who_waits_for_others_to_leave_asks_for_no_node_and_does_once_one_does_not_go() -> None:
    specs = (queue("a", 8), queue("b"))
    story = Story(params(*specs, stuck_s=120.0), racks(1, 1), takes_s=lambda each: 1e7)
    story.submit(gang("stuck", "b", units=8, notice_s=1e6))
    story.settle()
    story.now_s = 100.0
    story.submit(gang("mine", "a", units=8, created_s=100.0))
    story.settle()
    assert story.victims() == ["stuck"]
    for at_s in (101.0, 160.0, 219.0):
        story.to(at_s)
        assert asked(story) == [], "its place is being freed: a node besides would be one too many"
    story.to(230.0)
    assert story.victims() == ["stuck"]
    assert asked(story) == ["mine"]


def test_a_request_that_is_given_up_leaves_the_gang_at_its_old_place_and_its_quota_to_others() -> None:
    story = scene(nodes=0)
    story.submit(gang("g", pods=2, units=8))
    story.settle()
    asked(story)
    assert story.holds("a") == 16
    story.room.keep_no_more("g", 50.0)
    assert (story.holds("a"), list(story.room.backlog.waiting)) == (0, ["g"])
    story.room.cancel("g", 60.0)
    assert story.room.contradictions() == []


def test_case_46_nodes_that_come_after_a_request_was_given_up_are_anybodys() -> None:
    story = scene(nodes=0)
    story.submit(gang("g", pods=2, units=8))
    story.settle()
    asked(story)
    story.room.keep_no_more("g", 50.0)
    story.submit(gang("small", units=8, created_s=9.0))
    story.look([node("n0")])
    story.now_s = 60.0
    story.settle()
    assert story.order() == ["small"]


def test_a_gang_that_goes_while_nodes_come_leaves_nothing_reserved() -> None:
    story = scene(nodes=1)
    story.submit(gang("g", pods=2, units=8))
    story.settle()
    asked(story)
    holds(story, "g", n0=8)
    story.room.cancel("g", 20.0)
    assert (story.room.ledger.reservations, story.holds("a")) == ({}, 0)
    assert story.room.ledger.owners("n0", H100) == {"free": 8}


def test_others_may_use_what_is_there_while_one_waits_for_nodes_of_its_own() -> None:
    story = scene("a", "b", nodes=1, guaranteed=16)
    story.submit(gang("big", "a", pods=3, units=8))
    story.settle()
    assert asked(story) == ["big"]
    story.submit(gang("small", "b", units=4, created_s=5.0))
    story.settle()
    assert story.order() == ["small"], "what is on its way to the other takes nothing of what is here"


def test_a_gang_that_quota_blocks_keeps_none_behind_it_from_asking() -> None:
    story = Story(params(queue("a", 16, quota={"limit": 16}), queue("b", 8)), ())
    story.submit(gang("large", "a", pods=5, units=8), gang("small", "a", pods=2, units=8, created_s=1.0))
    story.settle()
    assert asked(story) == ["small"]


def test_however_many_that_quota_blocks_have_waited_for_longer_the_one_that_it_admits_asks() -> None:
    blocked = [queue(f"q{at}", quota={"limit": 1}) for at in range(2 * MOST_LOOKED_AT)]
    story = Story(params(queue("a", 8), *blocked), ())
    story.submit(*(gang(f"b{at}", f"q{at}", units=8) for at in range(len(blocked))), gang("small", created_s=9.0))
    story.settle()
    assert asked(story) == ["small"]


def test_in_a_strict_queue_the_next_one_asks_for_none_before_the_first_has_its_own() -> None:
    story = Story(params(queue("a", 64, order=Order.STRICT)), ())
    story.submit(gang("first", units=8), gang("second", units=8, created_s=1.0))
    story.settle()
    assert asked(story) == ["first"]
    story.settle()
    assert asked(story) == []
    fair = scene(nodes=0)
    fair.submit(gang("first", units=8), gang("second", units=8, created_s=1.0))
    fair.settle()
    assert asked(fair) + asked(fair) == ["first", "second"]


@settings(max_examples=150, deadline=None)
@given(
    wants=st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.sampled_from([1, 2, 4, 8])), max_size=12),
    here=st.integers(0, 3),
    guaranteed=st.tuples(st.integers(0, 24), st.integers(0, 24)),
    looks=st.lists(st.sampled_from(["ask", "arrive", "give up", "end", "step"]), max_size=14),
)
def test_whatever_happens_no_gpu_is_twice_and_no_more_is_asked_for_than_all_guarantees(
    wants: list[tuple[str, int, int]], here: int, guaranteed: tuple[int, int], looks: list[str]
) -> None:
    story = Story(params(queue("a", guaranteed[0]), queue("b", guaranteed[1])), racks(1, 8)[:here])
    for at, (name, pods, units) in enumerate(wants):
        story.submit(gang(f"g{at}", name, pods=pods, units=units, created_s=float(at)))
    for look in looks:
        room = story.room
        waits = room.waits_for_nodes()
        match look:
            case "ask":
                asked(story)
            case "arrive":
                nodes = [*story.nodes, node(f"n{len(story.nodes)}")]
                story.look(nodes)
                if waits:
                    kept = room.ledger.reservations[waits[0]]
                    load = room.backlog.loads[room.kept_for[waits[0]].brand]
                    left = load.units[0][1] - sum(kept.plan.values())
                    if left > 0:
                        room.hold_nodes(waits[0], {**kept.plan, len(nodes) - 1: min(8, left)})
            case "give up" if waits:
                room.keep_no_more(waits[0], story.now_s)
            case "end" if story.admitted:
                room.finish(story.admitted[-1][1].gang, story.now_s)
            case _:
                story.now_s += 1.0
                story.settle()
        assert room.contradictions() == []
        waits = room.waits_for_nodes()
        assert len(waits) <= MOST_ASKING
        units = sum(n for name in waits for _, n in room.backlog.loads[room.kept_for[name].brand].units)
        assert units <= sum(guaranteed)
        assert all(
            kept.kind is not Kind.NODES or name in room.kept_for for name, kept in room.ledger.reservations.items()
        )
