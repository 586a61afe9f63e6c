"""The first gang of a queue: how long it waits, and how late it is beside the first forecast that it was told."""

from dataclasses import replace

from autoscaler.record.batch import BatchTold, GangState, GangTold
from autoscaler.record.batch_heads import Heads
from tests.record.batches import BIG, BROKEN, NEXT, NOON_S, TOLD, VISION, gang


def after(minutes: float, *gangs: GangTold) -> BatchTold:
    return replace(TOLD, now_s=NOON_S + 60 * minutes, gangs=gangs, queues=(VISION, BROKEN))


def figures(heads: Heads, told: BatchTold) -> tuple[float | None, float | None]:
    queue = heads.seen(told).queues[0]
    return queue.head_age_s, queue.head_late_s


def test_a_head_is_late_from_the_start_that_it_was_first_told_however_the_forecast_moves() -> None:
    heads = Heads()
    assert figures(heads, after(0, BIG, NEXT)) == (600, 0)  # by 50 minutes from now, in nine of ten cases
    for minutes in (30, 49):
        moved = replace(BIG, start_p90_s=NOON_S + 60 * minutes + 3000)
        assert figures(heads, after(minutes, moved, NEXT))[1] == 0
    assert figures(heads, after(80, replace(BIG, start_p90_s=NOON_S + 9000), NEXT)) == (600 + 4800, 1800)


def test_a_gang_that_was_told_its_start_behind_others_is_held_to_that_when_it_comes_first() -> None:
    heads = Heads()
    second = replace(NEXT, start_p90_s=NOON_S + 3600)
    assert figures(heads, after(0, BIG, second))[1] == 0
    assert figures(heads, after(90, replace(second, position=1, start_p90_s=NOON_S + 9000)))[1] == 1800


def test_a_gang_that_ran_in_between_is_told_anew() -> None:
    heads = Heads()
    heads.seen(after(0, BIG))
    heads.seen(after(60, replace(BIG, state=GangState.RUNNING, position=None)))
    assert figures(heads, after(61, replace(BIG, start_p90_s=NOON_S + 6000)))[1] == 0


def test_who_was_told_no_start_is_not_late_and_where_nobody_waits_there_is_no_head() -> None:
    bare = replace(VISION, head_age_s=None, head_late_s=None)
    hopeless = gang("x", position=1, reason="TOO_LARGE")
    assert figures(Heads(), after(0, hopeless)) == (600, None)
    told = replace(after(0, gang("x", GangState.RUNNING)), queues=(bare,))
    assert Heads().seen(told).queues == (bare,)


def test_of_two_that_are_first_the_older_one_counts() -> None:
    kept = gang("kept", position=1, reason="LEAVING", created_s=NOON_S - 7200, start_p90_s=NOON_S + 60)
    assert figures(Heads(), after(0, BIG, kept))[0] == 7200
