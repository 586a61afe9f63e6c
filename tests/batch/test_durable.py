"""What is written down for a restart comes back, within its size."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.batch import durable
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.ledger import Kind, Reservation
from autoscaler.core.batch.owners import Owner, PodSeen
from autoscaler.core.batch.room import Room
from autoscaler.core.batch.running import Past
from tests.batch.builders import H100, gang, node, params, queue, racks
from tests.batch.story import Story


def room_of(nodes: list[NodeSeen]) -> Room:
    room = Room(params(queue("team"), queue("a", parent="team"), queue("b")))
    room.see(nodes, (), 0.0)
    return room


def test_a_reservation_outlives_a_restart_and_a_node_that_moves_in_the_list() -> None:
    room = room_of(racks(1, 3))
    room.ledger.reserve(Reservation("head", Kind.START, {1: 8, 2: 4}, 7.0, 60.0))
    saved = json.loads(json.dumps(durable.pack(room, 8.0)))
    fresh = room_of(list(reversed(racks(1, 3)))[:2])
    assert durable.unpack(fresh, saved, 9.0) == ()
    assert fresh.ledger.owners("n1", H100) == {"reserved": 8, "free": 0}
    assert fresh.ledger.owners("n2", H100) == {"reserved": 4, "free": 4}
    assert (fresh.ledger.reservations["head"].kind, fresh.ledger.reservations["head"].start_s) == (Kind.START, 60.0)
    assert durable.unpack(room_of([node("other")]), saved, 9.0) == ("head",)


def test_what_queues_used_and_how_their_gangs_keep_time_outlive_a_restart() -> None:
    story = Story(params(queue("team"), queue("a", parent="team"), queue("b")), racks(1, 4), takes_s=lambda gang: 90.0)
    for at in range(20):
        story.submit(gang(f"g{at}", "a", units=8, expected_s=10.0 + 5 * at))
    story.run(1000.0)
    runs, tree = story.room.runs, story.room.tree
    saved = json.loads(json.dumps(durable.pack(story.room, story.now_s)))
    again = room_of(racks(1, 4))
    durable.unpack(again, saved, story.now_s + 24 * 3600.0)
    for name in ("team", "a"):
        at = tree.index[name]
        used_gpu_s = runs.past(at, story.now_s).used_gpu_s
        assert used_gpu_s > 1000.0
        assert again.runs.past(at, story.now_s + 24 * 3600.0).used_gpu_s == pytest.approx(used_gpu_s / 2, abs=0.1)
    assert again.runs.ratios(tree.index["a"]) == pytest.approx(runs.ratios(tree.index["a"]), abs=0.001)
    assert again.runs.ratios(tree.index["b"]) == runs.ratios(tree.index["b"]), "what is not known is not made up"
    again.submit(gang("one", "a", units=8), 1e6)
    again.submit(gang("two", "b", units=8), 1e6)
    best = again.backlog.best()
    assert best is not None
    assert best.gang.name == "two", "who used less goes first after the restart as well"


def test_a_gang_that_was_met_running_before_the_past_is_read_goes_on_to_use_what_it_holds() -> None:
    """Eight GPUs for an hour before a restart that takes a minute, of which nothing is known, and for an hour after."""
    story = Story(params(), racks(1, 1), takes_s=lambda gang: 1e9)
    story.submit(gang("g", units=8))
    story.to(3600.0)
    saved = json.loads(json.dumps(durable.pack(story.room, 3600.0)))
    again = Room(params())
    again.see(racks(1, 1), [PodSeen("n0", H100, 8, Owner.BATCH, "g")], 3660.0)
    assert again.adopt(gang("g", units=8), 0.0, 3660.0) is None
    durable.unpack(again, saved, 3660.0)
    assert again.runs.past(1, 3660.0).used_gpu_s / 3600 == pytest.approx(7.9, abs=0.05)
    assert again.runs.past(1, 7260.0).used_gpu_s / 3600 == pytest.approx(15.5, abs=0.05)


def test_use_is_counted_again_at_once_though_the_clock_was_set_back_over_the_restart() -> None:
    room = room_of(racks(1, 1))
    room.remember("b", Past(500.0, ()), 9000.0, 9000.0)
    again = room_of(racks(1, 1))
    durable.unpack(again, durable.pack(room, 9000.0), 1000.0)
    again.serving_uses("b", 4.0, 1000.0)
    assert again.runs.past(again.tree.index["b"], 1100.0).used_gpu_s == pytest.approx(900.0, rel=0.01)


def test_how_often_a_gang_was_evicted_outlives_a_restart_if_the_gang_does() -> None:
    room = room_of(racks(1, 1))
    room.evictions.update({"tired": 3, "gone": 2})
    again = Story(room.params, racks(1, 1))
    durable.unpack(again.room, durable.pack(room, 1.0), 2.0)
    again.submit(gang("tired", "b", units=8))
    again.settle()
    assert again.room.runs.all["tired"].evictions == 3
    assert again.room.evictions == {"tired": 3}


@given(
    reservations=st.integers(0, 60), queues=st.integers(1, 80), evicted=st.integers(0, 60), size=st.integers(300, 9000)
)
@settings(max_examples=40, deadline=None)
def test_law_what_is_packed_has_a_bound_says_what_it_left_out_and_keeps_reservations_first(
    reservations: int, queues: int, evicted: int, size: int
) -> None:
    room = Room(params(*(queue(f"queue-{at}") for at in range(queues))))
    room.see(racks(6, 10), (), 0.0)
    for at in range(reservations):
        room.ledger.reserve(Reservation(f"gang-{at:03}", Kind.PREEMPTION, {at: 8}, float(at), 0.0))
    for at in range(queues):
        room.remember(f"queue-{at}", Past(1000.0 + at, tuple(0.1 * n for n in range(1, 33))), 50.0, 50.0)
    room.evictions.update({f"gang-{at:03}": at for at in range(evicted)})
    saved = durable.pack(room, 50.0, max_bytes=size)
    assert len(json.dumps(saved)) <= size
    wanted = {"reservations": reservations, "queues": queues, "evictions": evicted}
    assert {part: len(saved[part]) + saved["left_out"][part] for part in wanted} == wanted
    assert [row[0] for row in saved["reservations"]] == [f"gang-{at:03}" for at in range(len(saved["reservations"]))]
    assert [row[1] for row in saved["queues"]] == [1000.0 + queues - 1 - at for at in range(len(saved["queues"]))]
    if saved["left_out"]["reservations"]:
        assert not saved["queues"]
    again = Room(room.params)
    again.see(racks(6, 10), (), 0.0)
    assert durable.unpack(again, saved, 50.0) == ()
    assert durable.pack(again, 50.0)["reservations"] == saved["reservations"]


def test_what_is_kept_for_gangs_that_lost_a_node_takes_no_others_place_until_they_have_left() -> None:
    """Eight of them at once, as where a zone fails: they stand behind all else that is written down."""
    story = Story(params(queue("a")), racks(8, 2))
    story.submit(*(gang(f"g{at}", pods=2, units=8) for at in range(8)))
    story.settle()
    names = [each.name for each in story.nodes]
    places = {name: [names[spot.node] for spot in held.spots] for name, held in story.room.ledger.holdings.items()}
    rest = [PodSeen(there, H100, 8, Owner.BATCH, name) for name, (_, there) in places.items()]
    lost = {gone for gone, _ in places.values()}
    story.look([each for each in story.nodes if each.name not in lost], rest)
    story.look(racks(8, 2), rest)
    story.settle()
    assert len(story.room.ledger.starts) == 8
    story.room.evictions.update({f"g{at}": 1 for at in range(8)})
    story.room.remember("a", Past(1000.0, (1.0,)), 0.0, 0.0)
    saved = durable.pack(story.room, 0.0)
    assert (saved["reservations"], [row[0] for row in saved["places"]]) == ([], [f"g{at}" for at in range(8)])
    small = durable.pack(story.room, 0.0, max_bytes=len(json.dumps(saved)) - 100)
    assert (len(small["queues"]), len(small["evictions"])) == (1, 8)
    assert len(small["places"]) + small["left_out"]["places"] == 8
    assert small["left_out"]["places"] > 0
    story.room.left("g3", 1.0)
    (kept,) = durable.pack(story.room, 1.0)["reservations"]
    assert kept[0] == "g3"


def test_that_a_gang_lost_a_node_is_written_down_before_it_has_room_anywhere_and_no_longer_than_it_is_counted_on() -> (
    None
):
    story = Story(params(), racks(1, 2))
    story.submit(gang("g", pods=2, units=8))
    story.settle()
    lost, stays = (spot.node for spot in story.admitted[0][1].spots)
    story.look([each for each in racks(1, 2) if each.name != lost], [PodSeen(stays, H100, 8, Owner.BATCH, "g")])
    story.settle()
    assert durable.pack(story.room, 5.0)["places"] == [["g", "START", 0.0, 0.0, []]]
    late_s = story.room.params.stuck_s + story.room.runs.all["g"].gang.notice_s + 1.0
    assert durable.pack(story.room, late_s)["places"] == []


def test_500_queues_with_full_memory_fit_beside_100_reservations() -> None:
    room = Room(params(*(queue(f"team-{at}-training") for at in range(500))))
    room.see(racks(1, 100), (), 0.0)
    for at in range(100):
        room.ledger.reserve(Reservation(f"namespace-{at}/gang-{at}", Kind.PREEMPTION, {at: 8}, float(at), 0.0))
    for at in range(500):
        room.remember(f"team-{at}-training", Past(1e7 + at, tuple(0.1 * n for n in range(1, 33))), 50.0, 50.0)
    saved = durable.pack(room, 1.76e9)
    assert sum(saved["left_out"].values()) == 0
    assert len(json.dumps(saved)) <= durable.MAX_BYTES


GOOD: dict[str, object] = {
    "version": durable.VERSION, "at_s": 1.0, "reservations": [], "queues": [], "evictions": [], "places": [],
}  # fmt: skip


@pytest.mark.parametrize(
    "saved",
    [
        pytest.param({}, id="nothing"),
        pytest.param({**GOOD, "version": 1}, id="another version"),
        pytest.param({**GOOD, "at_s": None}, id="no instant"),
        pytest.param({**GOOD, "at_s": 10**400}, id="an instant that no float holds"),
        pytest.param({**GOOD, "queues": [["a", 10**400, []]]}, id="a use that no float holds"),
        pytest.param({**GOOD, "reservations": [["x"]]}, id="a reservation cut off"),
        pytest.param({**GOOD, "queues": [["a", -1.0, []]]}, id="a negative use"),
        pytest.param({**GOOD, "queues": [["a", 1.0, ["nan"]]]}, id="a ratio that is no number"),
        pytest.param({**GOOD, "evictions": [["g"]]}, id="evictions without a number"),
        pytest.param({**GOOD, "evictions": None}, id="a part that is no list"),
    ],
)
def test_what_was_saved_in_another_shape_is_refused_and_changes_nothing(saved: dict[str, object]) -> None:
    room = room_of([node("n")])
    with pytest.raises(ValueError, match="saved batch state: "):
        durable.unpack(room, {**saved, **({"queues": [["b", 5.0, []]]} if saved.get("queues") == [] else {})}, 2.0)
    assert durable.pack(room, 2.0)["queues"] == []
