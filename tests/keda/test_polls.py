"""One snapshot per poll: value and activity never contradict each other, on virtual time."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.keda.answers import Refused, Served
from autoscaler.adapters.keda.polls import POLL_LASTS_S, SAME_POLL_S, Polls
from autoscaler.runtime.clock import WallClock
from tests.keda.book import CHAT, SYNCING, Book

pytestmark = pytest.mark.looptime(noop_cycles=1)


def polls(book: Book) -> Polls:
    return Polls(book, WallClock())


async def test_a_decision_that_falls_between_value_and_activity_waits_for_the_next_poll() -> None:
    book = Book()
    asked = polls(book)
    book.say(5)
    value = asked.value(*CHAT)
    book.say(0)

    assert (value, asked.activity(*CHAT)) == (Served(5, 5), Served(5, 5))
    await asyncio.sleep(SAME_POLL_S)
    assert (asked.value(*CHAT), asked.activity(*CHAT)) == (Served(0, 0), Served(0, 0))


async def test_an_activity_is_told_although_the_value_could_no_longer_be() -> None:
    # An IsActive that fails voids the value that was told before it (kedacore/keda, external_scaler.go).
    book = Book()
    asked = polls(book)
    book.say(5)
    asked.value(*CHAT)
    book.put(SYNCING)

    assert asked.activity(*CHAT) == Served(5, 5)
    await asyncio.sleep(SAME_POLL_S)
    assert asked.value(*CHAT) == SYNCING


async def test_hpas_pull_and_kedas_poll_that_interleave_see_the_same() -> None:
    book = Book()
    asked = polls(book)
    book.say(1)
    pull = asked.value(*CHAT)
    book.say(0)
    poll = asked.value(*CHAT)

    assert pull == poll == asked.activity(*CHAT) == asked.activity(*CHAT)
    assert book.asked == 1


async def test_an_activity_outside_of_a_poll_is_of_now() -> None:
    book = Book()
    asked = polls(book)
    book.say(5)
    asked.value(*CHAT)
    book.say(0)
    await asyncio.sleep(POLL_LASTS_S)

    assert asked.activity(*CHAT) == Served(0, 0)


async def test_polls_that_are_over_are_forgotten() -> None:
    book = Book({("prod", f"w{n}"): Served(n, n) for n in range(1000)})
    asked = polls(book)
    for number in range(1000):
        asked.value("prod", f"w{number}")
    assert len(asked._taken) == 1000
    await asyncio.sleep(POLL_LASTS_S)
    asked.value("prod", "w0")
    assert len(asked._taken) == 1


async def test_who_is_refused_takes_no_room() -> None:
    asked = polls(Book())
    for number in range(1000):
        asked.value("prod", f"w{number}")
    assert not asked._taken


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.1, 0.5, 1.0, 6.0])), min_size=1, max_size=20))
def test_whatever_is_decided_meanwhile_a_poll_is_of_one_piece(story: list[tuple[int, float]]) -> None:
    class Hands:
        at_s = 0.0

        def monotonic(self) -> float:
            return self.at_s

    clock, book = Hands(), Book()
    asked = Polls(book, clock)  # type: ignore[arg-type] # the rest of a clock is not used
    for before, after_s in story:
        book.say(before)
        value = asked.value(*CHAT)
        book.say(2 - before)
        clock.at_s += 0.04
        activity = asked.activity(*CHAT)
        assert not isinstance(value, Refused)
        assert not isinstance(activity, Refused)
        assert (value.replicas > 0) == (activity.replicas > 0)
        clock.at_s += after_s
