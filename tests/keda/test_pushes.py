"""When activity is pushed, on virtual time: what is said, and at which second of the stream."""

import asyncio

import pytest

from autoscaler.adapters.keda.answers import Refused, Served
from autoscaler.adapters.keda.pushes import Bells, pushes
from autoscaler.ports import Fault, PortError
from autoscaler.runtime.clock import WallClock
from tests.keda.book import CHAT, MISSPELLED, NOT_LEADING, SYNCING, UNKNOWN, Book

pytestmark = pytest.mark.looptime(noop_cycles=1)

LASTS_S = 300.0

Said = list[tuple[float, bool | Refused | str]]


async def heard(book: Book, *story: tuple[float, Served | Refused | None], lasts_s: float = LASTS_S) -> Said:
    """What a stream over `book` says, with its seconds, while a story is told: at each second, an answer or the end."""
    said: Said = []
    clock = WallClock()
    begun_s = clock.monotonic()

    async def listen() -> None:
        with book.bells.listening(*CHAT) as bell:
            async for word in pushes(lambda: book.served(*CHAT), book.bells, bell, clock, lasts_s):
                note(word)
        note("end")

    def note(word: bool | Refused | str) -> None:
        said.append((round(clock.monotonic() - begun_s, 3), word))

    async with asyncio.TaskGroup() as group:
        listening = group.create_task(listen())
        for at_s, answer in story:
            await clock.sleep_until(begun_s + at_s)
            if answer is None:
                listening.cancel()
            else:
                book.put(answer)
    return said


async def test_the_present_state_is_said_at_once_and_then_every_change_at_its_instant() -> None:
    book = Book({CHAT: Served(0, 0)})
    said = await heard(book, (1.0, Served(3, 0)), (1.5, Served(4, 3)), (9.0, Served(0, 3)), (20.0, None))
    assert said == [(0.0, False), (1.0, True), (9.0, False)]


async def test_a_wake_that_nobody_acts_on_is_said_again_ever_more_rarely() -> None:
    # KEDA drops a push for a ScaledObject whose metric's name it has not noted yet.
    said = await heard(Book({CHAT: Served(2, 0)}), (100.0, None))
    assert [at_s for at_s, _ in said] == [0.0, 2.0, 6.0, 14.0, 30.0, 60.0, 90.0]


async def test_once_the_target_stands_nothing_is_said_again() -> None:
    said = await heard(Book({CHAT: Served(2, 0)}), (3.0, Served(2, 1)), (100.0, None))
    assert said == [(0.0, True), (2.0, True)]


async def test_a_stream_that_opens_before_the_first_sync_stays_and_speaks_when_there_is_something_to_say() -> None:
    # Ended with an error it would be opened again after 2, 4, ... 60 s, and a wake in between be lost.
    said = await heard(Book({CHAT: SYNCING}), (40.0, Served(1, 0)), (41.0, None))
    assert said == [(40.0, True)]


async def test_an_outage_in_the_middle_is_silence_and_no_change() -> None:
    said = await heard(Book({CHAT: Served(2, 2)}), (5.0, SYNCING), (90.0, Served(2, 2)), (100.0, None))
    assert said == [(0.0, True)]


async def test_a_scaledobject_that_keda_knows_first_is_waited_for() -> None:
    assert await heard(Book({CHAT: UNKNOWN}), (0.3, Served(1, 0)), (1.0, None)) == [(0.3, True)]


async def test_one_that_nobody_ever_hears_of_is_refused_after_5_s() -> None:
    assert await heard(Book({CHAT: UNKNOWN})) == [(5.0, UNKNOWN), (5.0, "end")]


@pytest.mark.parametrize("final", [NOT_LEADING, MISSPELLED], ids=["does not lead", "cannot be read"])
async def test_what_will_not_change_by_waiting_is_refused_at_once(final: Refused) -> None:
    assert await heard(Book({CHAT: final})) == [(0.0, final), (0.0, "end")]


async def test_a_stream_ends_in_good_order_at_its_age() -> None:
    assert await heard(Book({CHAT: Served(1, 1)}), lasts_s=60.0) == [(0.0, True), (60.0, "end")]


async def test_a_server_that_stops_ends_every_stream_in_good_order() -> None:
    # After an end in good order KEDA opens the stream again in 2 s; after an error the wait doubles each time.
    book = Book({CHAT: Served(1, 1)})
    async with asyncio.TaskGroup() as group:
        telling = group.create_task(heard(book))
        await asyncio.sleep(7.0)
        book.bells.close()
    assert telling.result() == [(0.0, True), (7.0, "end")]


async def test_a_listener_that_leaves_takes_no_room() -> None:
    bells = Bells()
    for _ in range(3):
        with pytest.raises(PortError), bells.listening(*CHAT):
            raise PortError(Fault.UNAVAILABLE, "gone")
    assert not bells._listening
