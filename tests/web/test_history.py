"""What charts remember: sharp where it is new, coarse where it is old, bounded always."""

import json
from itertools import pairwise

import pytest

from autoscaler.adapters.web.history import (
    DECISIONS,
    FINENESS,
    FULL,
    LEAST_DECISIONS,
    SLACK,
    History,
    notable,
    share_of,
)
from tests.web.builders import decision, signals, workload


def filled(count: int, spacing_s: float = 5.0) -> History:
    history = History()
    for number in range(count):
        history.add(workload(number * spacing_s, load_rps=float(number % 7), queue=float(number % 11)))
    return history


def test_new_points_are_handed_out_once() -> None:
    history = filled(3)
    first = history.take()
    assert first is not None
    assert [row[0] for row in first[0]] == [0.0, 5.0, 10.0]
    assert history.take() == ([], [])


def test_a_day_of_ticks_stays_bounded_with_the_newest_sharp_and_the_oldest_kept() -> None:
    rows = filled(17_280).points()
    times = [row[0] or 0.0 for row in rows]
    assert len(rows) < 3_000
    assert times[-1] == 17_279 * 5.0
    assert times == sorted(times)
    assert max(late - early for early, late in pairwise(times)) <= 86_400 / FINENESS + 5.0
    assert times[-20:] == [17_279 * 5.0 - 5.0 * k for k in range(19, -1, -1)]


def test_merged_points_keep_the_mean_rate_the_worst_queue_and_the_worst_signal() -> None:
    history = History()
    for number in range(SLACK + 2):
        blind = signals("unknown", 60.0) if number == 1 else signals()
        history.add(
            workload(number * 60.0, load_rps=10.0 * (number % 2), queue=50.0 if number == 0 else 0.0, signals=blind)
        )
    row = history.points()[0]
    assert row[1] == 5.0
    assert row[6] == 50.0
    assert row[12] == 2


def test_after_points_were_merged_all_must_be_read_anew() -> None:
    history = filled(SLACK)
    assert history.take() is not None
    history.add(workload(SLACK * 5.0))
    history.add(workload(SLACK * 5.0 + 5.0))
    assert history.take() is None
    assert history.take() == ([], [])


def test_what_is_unknown_stays_unknown_in_a_merge() -> None:
    history = History()
    for number in range(SLACK + 2):
        history.add(workload(number * 60.0, load_rps=None))
    assert {row[1] for row in history.points()} == {None}


def test_scaling_and_unusual_holds_get_a_line_and_everyday_holds_do_not() -> None:
    assert notable(decision(before=4, after=5), None)
    assert notable(decision(before=4, after=5), decision(before=4, after=6))
    assert not notable(decision(before=4, after=5), decision(before=4, after=5)), "not acted upon, so it comes again"
    assert notable(decision(reason="STALE"), decision(reason="STEADY"))
    assert not notable(decision(reason="STALE"), decision(reason="STALE"))
    assert not notable(decision(reason="STABILISATION"), decision(reason="STEADY"))


def test_only_so_many_decisions_are_kept() -> None:
    history = History()
    for number in range(DECISIONS + 10):
        history.add(workload(float(number), decision=decision(float(number), number, number + 1)))
    assert len(history.decisions) == DECISIONS
    assert json.loads(bytes(history.decisions[0]))["now_s"] == 10.0


def test_where_there_are_many_each_keeps_its_share_sharp_at_the_end_all_the_same() -> None:
    """A day of one workload of a thousand, a step every half minute; it was alone for the first hours."""
    history = History()
    for number in range(2_880):
        scaled = decision(number * 30.0, number % 7, number % 5)
        history.add(workload(number * 30.0, decision=scaled), share_of(1 if number < 600 else 1000))
    times = [row[0] or 0.0 for row in history.points()]
    assert 50 < len(times) < 150
    assert times[-1] == 2_879 * 30.0
    assert times[-1] - times[-3] == 60.0
    assert len(history.decisions) == LEAST_DECISIONS


@pytest.mark.parametrize(("workloads", "share"), [(0, 1.0), (1, 1.0), (FULL, 1.0), (2 * FULL, 0.5), (25 * FULL, 0.04)])
def test_the_shares_of_all_are_what_a_few_would_take(workloads: int, share: float) -> None:
    assert share_of(workloads) == share
