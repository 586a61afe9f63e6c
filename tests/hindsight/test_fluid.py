"""A fluid queue and its late requests, against figures worked out by hand and against requests served one by one."""

from bisect import bisect_left

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autoscaler.hindsight.fluid import POINTS, FluidQueue, Lateness
from autoscaler.hindsight.served import Modelled


@pytest.mark.parametrize(
    ("before", "arrivals", "capacity", "waiting", "waited_s"),
    [
        (0.0, 10.0, 5.0, 5.0, 25.0),
        (5.0, 0.0, 10.0, 0.0, 12.5),
        (5.0, 10.0, 10.0, 5.0, 50.0),
        (0.0, 0.0, 10.0, 0.0, 0.0),
        (8.0, 2.0, 0.0, 10.0, 90.0),
    ],
    ids=[
        "half of what comes is served: 0 to 5 in ten seconds",
        "five are served at one a second: gone after five of ten seconds",
        "as many come as are served: five wait all the time",
        "nothing comes and nothing waits",
        "nothing is served: 8 to 10",
    ],
)
def test_what_waits_after_ten_seconds_and_how_long_it_waited(
    before: float, arrivals: float, capacity: float, waiting: float, waited_s: float
) -> None:
    queue = FluidQueue(before)
    assert queue.serve(10.0, arrivals, capacity) == pytest.approx(waited_s)
    assert queue.waiting == pytest.approx(waiting)


def test_of_two_a_second_served_at_one_those_are_late_that_came_after_ten_seconds() -> None:
    """Whoever comes at second t waits t. At second 60 the deadline of those of seconds 10 to 50 has passed: 80 of them.
    Then nothing comes: the other twenty are late too, and by second 120 all sixty that waited are served."""
    account = Modelled(10.0)
    account.begin(0.0, 0.0)
    for at_s in range(5, 65, 5):
        account.serve(float(at_s), 5.0, 10.0, 1.0)
    assert account.sums.late == pytest.approx(80.0)
    assert account.queue.waiting == pytest.approx(60.0)
    for at_s in range(65, 125, 5):
        account.serve(float(at_s), 5.0, 0.0, 1.0)
    assert account.sums.late == pytest.approx(100.0)
    assert account.queue.waiting == pytest.approx(0.0)
    assert account.sums.waited_s == pytest.approx(60.0 * 60.0)


def test_a_span_longer_than_the_objective_is_as_exact_as_many_short_ones() -> None:
    """The same minute in one span."""
    account = Modelled(10.0)
    account.begin(0.0, 0.0)
    account.serve(60.0, 60.0, 120.0, 1.0)
    assert account.sums.late == pytest.approx(80.0)


def test_what_waited_before_the_count_began_is_no_late_request_of_it() -> None:
    account = Modelled(10.0)
    account.begin(0.0, 500.0)
    for at_s in range(5, 65, 5):
        account.serve(float(at_s), 5.0, 0.0, 1.0)
    assert account.sums.late == 0.0


def test_memory_does_not_grow_with_time() -> None:
    lateness = Lateness(10.0)
    lateness.begin(0.0, 0.0)
    for step in range(1, 20_000):
        lateness.note(0.05 * step, 1.0, 3.0)
    assert len(lateness._curve) <= 2 * POINTS + 2


def one_by_one(spans: list[tuple[int, float]], slack_s: float) -> int:
    """Late requests when each is served by itself: one every 1/rate seconds, in order, none before it came."""
    free_s, late, at_s = 0.0, 0, 0.0
    ends = [10.0 * (index + 1) for index in range(len(spans))]
    for count, _ in spans:
        for number in range(count):
            came_s = at_s + 10.0 * (number + 0.5) / count
            begun_s = max(came_s, free_s)
            if begun_s - came_s > slack_s and came_s + slack_s <= ends[-1]:
                late += 1
            rate = spans[min(bisect_left(ends, begun_s), len(spans) - 1)][1]
            free_s = begun_s + 1.0 / rate
        at_s += 10.0
    return late


@given(st.lists(st.tuples(st.integers(0, 400), st.floats(5.0, 30.0)), min_size=1, max_size=12))
@example([(312, 7.0), (97, 30.0), (0, 10.0)])
def test_late_requests_are_those_of_a_line_served_one_by_one(spans: list[tuple[int, float]]) -> None:
    """Rates of 5 to 30 a second that change every ten seconds; one request more or less at each change.

    A deadline is found to within a 32nd of the objective of 4 s: of 312, 97 and 0 requests served at 7, 30 and 10 a
    second, 39 wait for 3.93 to 4.00 s, and are late all or none.
    """
    account = Modelled(4.0)
    account.begin(0.0, 0.0)
    for index, (count, rate) in enumerate(spans):
        for half in (1, 2):
            account.serve(10.0 * index + 5.0 * half, 5.0, count / 2.0, rate)
    most, least = (one_by_one(spans, 4.0 + error_s) for error_s in (-4.0 / POINTS, 4.0 / POINTS))
    within = 3.0 + 2.0 * len(spans)
    assert least - within <= account.sums.late <= most + within
