"""What serving is expected to leave: starts and reservations count on it, nobody starts by it, nobody waits by it for
ever."""

from collections.abc import Sequence

import pytest

from autoscaler.core.batch.ebb import Ebbing, Fall
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.outlook import outlook
from autoscaler.core.batch.owners import Owner, PodSeen
from tests.batch.builders import H100, gang, node, params, queue, racks
from tests.batch.story import Story

HOUR_S = 3600.0


def serving(*units: int) -> list[PodSeen]:
    """One pod of serving on each of n0, n1, …, of so many units."""
    return [PodSeen(f"n{at}", H100, number, Owner.SERVING) for at, number in enumerate(units) if number]


def leaves(*falls: tuple[float, int, int], places: Sequence[str] = ("n0", "n1", "n2", "n3")) -> tuple[Ebbing, ...]:
    return (Ebbing(frozenset((name, H100) for name in places), tuple(Fall(*each) for each in falls)),)


def story(pods: Sequence[PodSeen], nodes: Sequence[NodeSeen] | None = None, *queues: str) -> Story:
    made = Story(
        params(*(queue(name, 8) for name in queues)), nodes or racks(1, 2), pods=pods, takes_s=lambda gang: 1e9
    )
    made.settle()
    return made


def expected(of: Story, name: str) -> tuple[float | None, float | None]:
    found = outlook(of.cycles, name, of.now_s)
    assert found is not None
    return found.p50_s, found.p90_s


def test_a_gang_that_only_serving_is_in_the_way_of_is_told_when_serving_is_expected_to_leave() -> None:
    """Two nodes full of serving; eight are usually gone in an hour, and in nine of ten cases in two."""
    full = story(serving(8, 8))
    full.submit(gang("g", units=8))
    full.settle()
    assert expected(full, "g") == (None, None), "nothing that is known lets it start"
    full.room.ebbing = leaves((HOUR_S, 8, 4), (2 * HOUR_S, 8, 8))
    assert expected(full, "g") == (HOUR_S, 2 * HOUR_S)
    found = outlook(full.cycles, "g", 0.0)
    assert found is not None
    assert (found.ebbs, found.unebbed_s) == (True, None)
    assert full.admitted == [], "it is expected, not there"


def test_who_starts_sooner_without_it_does_not_count_on_it() -> None:
    both = story(serving(8))
    both.submit(gang("runs", units=8, expected_s=600.0))
    both.settle()
    both.submit(gang("g", units=8, created_s=1.0))
    both.settle()
    both.room.ebbing = leaves((HOUR_S, 8, 8))
    found = outlook(both.cycles, "g", 0.0)
    assert found is not None
    assert (found.p50_s, found.p90_s, found.ebbs) == (600.0, 900.0, False)


def test_who_stands_behind_is_told_by_what_is_left_beyond_those_before_it() -> None:
    full = story(serving(8, 8))
    full.submit(gang("first", units=8), gang("second", units=8, created_s=1.0))
    full.settle()
    full.room.ebbing = leaves((HOUR_S, 8, 8), (2 * HOUR_S, 16, 16))
    assert expected(full, "first") == (HOUR_S, HOUR_S)
    assert expected(full, "second") == (2 * HOUR_S, 2 * HOUR_S)


@pytest.mark.parametrize(
    ("asked", "falls", "start_s"),
    [
        pytest.param((1, 2), [(HOUR_S, 2, 2)], HOUR_S, id="the node with fewest is left first"),
        pytest.param((1, 4), [(HOUR_S, 5, 5)], None, id="three of the next node are no four"),
        pytest.param((1, 4), [(HOUR_S, 5, 5), (2 * HOUR_S, 6, 6)], 2 * HOUR_S, id="four of it are"),
        pytest.param((2, 8), [(HOUR_S, 99, 99)], HOUR_S, id="no more is left than there is"),
    ],
)
def test_serving_is_taken_to_leave_the_nodes_where_it_has_least(
    asked: tuple[int, int], falls: list[tuple[float, int, int]], start_s: float | None
) -> None:
    """n0 has 2 of serving's and 6 strangers, n1 has 5 and 3 strangers, n2 and n3 are serving's whole."""
    strangers = [PodSeen("n0", H100, 6), PodSeen("n1", H100, 3)]
    full = story([*serving(2, 5, 8, 8), *strangers], racks(1, 4))
    full.submit(gang("g", pods=asked[0], units=asked[1]))
    full.settle()
    full.room.ebbing = leaves(*falls)
    assert expected(full, "g")[0] == start_s


def test_what_is_kept_idle_is_not_left_twice_and_other_nodes_are_not_meant() -> None:
    warm = story([*serving(4), PodSeen("n1", H100, 8)], [node("n0", warm_units=4), node("n1")])
    warm.submit(gang("g", units=8))
    warm.settle()
    warm.room.ebbing = leaves((HOUR_S, 8, 8))
    assert expected(warm, "g")[0] is None, "four pods' worth goes; what is idle stays serving's"
    elsewhere = story(serving(8))
    elsewhere.submit(gang("runs", units=8), gang("g", units=8, created_s=1.0))
    elsewhere.settle()
    elsewhere.room.ebbing = leaves((HOUR_S, 8, 8), places=["n7"])
    before = expected(elsewhere, "g")
    elsewhere.room.ebbing = ()
    assert before == expected(elsewhere, "g")


def test_cores_and_memory_go_with_the_gpus() -> None:
    """Serving has 60 cores with its eight GPUs, and leaves four of each."""
    tight = story(serving(8), [node("n0", cpu=4.0, memory_gib=64.0, serving_cpu=60.0, serving_memory_gib=448.0)])
    tight.submit(gang("g", units=4, cpu=30.0, memory_gib=256.0), gang("more", units=4, cpu=40.0, created_s=1.0))
    tight.settle()
    tight.room.ebbing = leaves((HOUR_S, 4, 4), (2 * HOUR_S, 8, 8))
    assert expected(tight, "g")[0] == HOUR_S, "4 + 30 cores"
    assert expected(tight, "more")[0] == 2 * HOUR_S, "4 + 60 cores"


def test_a_fall_that_did_not_come_is_expected_no_more() -> None:
    full = story(serving(8, 8))
    full.submit(gang("g", units=8))
    full.settle()
    full.room.ebbing = leaves((HOUR_S, 8, 8))
    full.to(HOUR_S)
    assert expected(full, "g") == (None, None)


def test_the_first_that_waits_has_the_sure_fall_kept_for_it_and_others_pass_that_end_elsewhere() -> None:
    """n0 is serving's until the evening, n1 has four free: a small one passes, for it does not delay the first."""
    night = story([*serving(8), PodSeen("n1", H100, 4)])
    night.room.ebbing = leaves((HOUR_S, 8, 8))
    night.submit(gang("head", units=8), gang("small", units=4, created_s=1.0))
    night.settle()
    kept = night.room.ledger.reservations["head"]
    assert (kept.start_s, kept.plan) == (HOUR_S, {0: 8})
    assert night.order() == ["small"]
    night.now_s = 1800.0
    night.look(pods=[PodSeen("n1", H100, 4)])
    night.settle()
    assert night.order() == ["small", "head"], "serving went sooner"


def test_who_serving_kept_waiting_once_is_put_off_by_it_no_more() -> None:
    """n0 is serving's and never left, though that is expected again and again; n1's four small ones end one by one.

    Eight are kept on n1 from when n0 was not left: no small one starts there any more, and the first starts when the
    last of them ends. Those that come every minute run for as long as no two of theirs end together.
    """
    never = story(serving(8))
    smalls = [gang(f"s{at}", units=2, expected_s=HOUR_S * (at + 1)) for at in range(4)]
    never.takes_s = lambda each: each.expected_s or 1e9
    never.submit(*smalls)
    never.settle()
    never.submit(gang("head", units=8, created_s=1.0, expected_s=60.0))
    for minute in range(24 * 60):
        never.room.ebbing = leaves((never.now_s + 900.0, 8, 8))
        never.submit(gang(f"more{minute}", units=2, created_s=never.now_s + 2.0, expected_s=5000.0))
        never.to(60.0 * (minute + 1))
        if "head" in never.order():
            break
    assert never.now_s == pytest.approx(4 * HOUR_S, abs=900.0 + 120.0)


def test_nobody_is_stopped_for_a_share_where_serving_leaves_sooner_than_that_pays() -> None:
    """The victim loses 8 GPUs for 2,000 s; who comes for its fair share waits for an hour of serving's, and not for
    ten."""
    for falls_s, victims in ((1500.0, []), (36_000.0, ["old"])):
        story_ = Story(
            params(queue("a", grace_s=1e9), queue("b", grace_s=1e9)), racks(1, 3),
            pods=serving(8), takes_s=lambda gang: 1e9,
        )  # fmt: skip
        story_.submit(gang("old", "b", units=8, expected_s=1e6), gang("old2", "b", units=8, expected_s=1e6))
        story_.settle()
        story_.now_s = 2000.0
        story_.room.ebbing = leaves((2000.0 + falls_s, 8, 8))
        story_.submit(gang("new", "a", units=8, created_s=2000.0))
        story_.settle()
        assert story_.victims() == victims
