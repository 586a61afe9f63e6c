"""A fluid queue and its late requests, against figures worked out by hand and against requests served one by one."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autoscaler.hindsight.fluid import POINTS, FluidQueue, Lateness
from autoscaler.hindsight.served import Measured, Modelled


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


PARCEL = 0.25
"""Requests are looked at, and served one by one, in quarters: a crowd of them is nearer to a fluid."""

SLOWEST_RPS = 5.0
ROUNDING_S = 1e-6
"""Where many wait just as long as the objective, the last digits decide of all of them at once."""


def arrivals_of(ends_s: list[float], counts: list[int]) -> np.ndarray:
    """When each quarter arrives: evenly within its span."""
    total = np.cumsum([0, *counts])
    return np.interp((np.arange(total[-1] / PARCEL) + 0.5) * PARCEL, total, [0.0, *ends_s])


def count_late(came_s: np.ndarray, begun_s: np.ndarray, slack_s: float, until_s: float) -> float:
    return PARCEL * float(np.count_nonzero((begun_s - came_s > slack_s) & (came_s + slack_s <= until_s)))


def one_by_one(came_s: np.ndarray, waiting: int, spans_s: list[float], rates_rps: list[float], slack_s: float) -> float:
    """Late requests of a line that serves one after the other, none before it came, behind those `waiting` at first.

    By a clock that runs as fast as the line works, each takes as long as any other: it begins when it has come and the
    one before is done.
    """
    ends_s, done = np.cumsum([0.0, *spans_s]), np.cumsum([0.0, *np.multiply(spans_s, rates_rps)])
    turn = PARCEL * np.arange(came_s.size)
    begun = turn + np.maximum.accumulate(np.maximum(np.interp(came_s, ends_s, done) - turn, waiting))
    begun_s = np.interp(begun, done, ends_s, right=math.inf)
    return count_late(came_s, begun_s, slack_s, float(ends_s[-1]))


LENGTHS_S = st.one_of(st.floats(0.02, 0.3), st.floats(1.0, 15.0), st.just(10.0))
STEPS_S = st.one_of(st.floats(0.05, 0.5), st.floats(0.5, 20.0))
SLACKS_S = st.one_of(st.just(4.0), st.floats(0.3, 20.0))
SERVED = st.lists(st.tuples(LENGTHS_S, st.integers(0, 400), st.floats(SLOWEST_RPS, 30.0)), min_size=1, max_size=12)


@given(SERVED, SLACKS_S, STEPS_S, st.sampled_from([0, 0, 30, 300]))
@example([(10.0, 312, 7.0), (10.0, 97, 30.0), (10.0, 0, 10.0)], 4.0, 5.0, 0)
@example([(0.25, 29, 5.0), (10.0, 0, 5.0)], 4.0, 1.0, 0)
def test_late_requests_are_those_of_a_line_served_one_by_one(
    spans: list[tuple[float, int, float]], slack_s: float, step_s: float, waiting: int
) -> None:
    """Crowds and rates that change after 0.02 to 15 s, looked at in steps of 0.05 to 20 s, under any objective.

    The model says that it finds a deadline to within a 32nd of the objective, and exactly where it looks less often.
    The line does whole quarters, so it has done up to an eighth of a request more or less than a fluid. A quarter that
    it begins too late, the fluid begins too late too. Who in the fluid is still not served a quarter's service after
    the deadline, a 20th of a second at most, has begun too late in the line too. Waits follow from counts by a line
    that bends where a span begins, of arrivals or of service; in each of those 2n pieces quarters miscount by one.
    """
    lengths_s, counts = [length_s for length_s, _, _ in spans], [count for _, count, _ in spans]
    rates_rps = [rate_rps for _, _, rate_rps in spans]
    account, at_s = Modelled(slack_s), 0.0
    account.begin(0.0, float(waiting))
    steps = [max(1, math.ceil(length_s / step_s)) for length_s in lengths_s]
    for (length_s, count, rate_rps), parts in zip(spans, steps, strict=True):
        for part in range(1, parts + 1):
            account.serve(at_s + length_s * part / parts, length_s / parts, count / parts, rate_rps)
        at_s += length_s

    thinned = any(length_s / parts < slack_s / POINTS for length_s, parts in zip(lengths_s, steps, strict=True))
    error_s = (slack_s / POINTS if thinned else 0.0) + ROUNDING_S
    came_s = arrivals_of([sum(lengths_s[: at + 1]) for at in range(len(spans))], counts)
    least, most = (
        one_by_one(came_s, waiting, lengths_s, rates_rps, slack_s + off_s)
        for off_s in (error_s, -error_s - PARCEL / SLOWEST_RPS)
    )
    within = PARCEL * 2 * len(spans)
    assert least - within <= account.sums.late <= most + within


MEASURED = st.lists(
    st.tuples(LENGTHS_S, st.one_of(st.just(0), st.integers(0, 400)), st.one_of(st.just(1.0), st.floats(0.0, 1.0))),
    min_size=1,
    max_size=40,
)


@given(MEASURED, SLACKS_S, st.integers(0, 50))
@example([(10.0, 2, 1.0)], 4.0, 1)
def test_late_requests_of_a_measured_queue_are_those_that_began_too_late(
    notes: list[tuple[float, int, float]], slack_s: float, waiting: int
) -> None:
    """Any arrivals, of whom any share that could be served was; each request is looked up in the order of service.

    The measured queue is taken to move evenly between two readings, and so does what was served: no error is left but
    that of the deadline, of a 32nd of the objective where readings follow each other faster than that.
    """
    account, at_s, waits = Measured(slack_s), 0.0, float(waiting)
    account.begin(0.0, waits)
    ends_s, served = [0.0], [-float(waiting)]
    for length_s, count, share in notes:
        done = share * (waits + count)
        at_s, waits = at_s + length_s, waits + count - done
        account.see(at_s, length_s, float(count), waits)
        ends_s.append(at_s)
        served.append(served[-1] + done)

    came_s = arrivals_of(ends_s[1:], [count for _, count, _ in notes])
    looked_at = (np.arange(came_s.size) + 0.5) * PARCEL
    begun_s = np.interp(looked_at, served, ends_s, right=math.inf)
    thinned = any(length_s < slack_s / POINTS for length_s, _, _ in notes)
    error_s = (slack_s / POINTS if thinned else 0.0) + ROUNDING_S
    least, most = (count_late(came_s, begun_s, slack_s + off_s, at_s) for off_s in (error_s, -error_s))
    within = PARCEL * 2 * len(notes)
    assert least - within <= account.sums.late <= most + within
