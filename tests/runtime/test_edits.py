"""Counts that somebody else set are respected for a while, longer each time."""

import pytest

from autoscaler.runtime.edits import FIRST_S, MOST_S, Edits


@pytest.mark.parametrize(
    ("edit", "seen", "wanted", "stands"),
    [
        pytest.param((3, 6), 6, 4, True, id="raised by hand: not lowered"),
        pytest.param((3, 6), 6, 8, False, id="raised by hand: may grow further"),
        pytest.param((6, 3), 3, 5, True, id="lowered by hand: not raised"),
        pytest.param((6, 3), 3, 2, False, id="lowered by hand: may shrink further"),
    ],
)
def test_an_edit_stands_against_its_own_undoing_only(
    edit: tuple[int, int], seen: int, wanted: int, stands: bool
) -> None:
    edits = Edits()
    assert edits.note(1000.0, *edit)
    assert (edits.objection(1001.0, seen, wanted) is not None) is stands


def test_an_edit_is_respected_for_two_minutes() -> None:
    edits = Edits()
    edits.note(1000.0, 3, 6)
    assert edits.objection(1000.0 + FIRST_S - 1, 6, 4) is not None
    assert edits.objection(1000.0 + FIRST_S, 6, 4) is None


def test_whoever_insists_is_left_alone_for_longer_each_time_up_to_half_an_hour() -> None:
    edits, holds = Edits(), []
    for index in range(6):
        edits.note(1000.0 + 100.0 * index, 3, 6)
        holds.append(edits.hold_s)
    assert holds == [120.0, 240.0, 480.0, 960.0, MOST_S, MOST_S]
    words = edits.objection(1500.0 + 40.0, 6, 3)
    assert words is not None
    assert "somebody else set 3→6" in words
    assert "for the 6th time within an hour" in words


def test_somebody_who_sets_the_count_every_two_seconds_for_hours_is_left_alone_for_half_an_hour() -> None:
    edits = Edits()
    for index in range(5000):
        edits.note(1000.0 + 2.0 * index, 3, 6)
    assert edits.hold_s == MOST_S


def test_an_edit_of_more_than_an_hour_ago_no_longer_counts() -> None:
    edits = Edits()
    edits.note(1000.0, 3, 6)
    edits.note(1000.0 + 3601.0, 3, 6)
    assert edits.hold_s == FIRST_S


def test_one_edit_seen_twice_is_one() -> None:
    edits = Edits()
    assert edits.note(1000.0, 3, 6)
    assert not edits.note(1000.3, 3, 6)
    assert edits.hold_s == FIRST_S


def test_nothing_stands_where_nobody_edited() -> None:
    assert Edits().objection(0.0, 6, 3) is None
