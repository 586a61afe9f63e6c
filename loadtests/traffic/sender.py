"""Sends each request when it is due, whatever became of those before.

Enters: a schedule, a way to send one request, a clock. Leaves: a tally. It knows nothing of HTTP. A request that is
begun late, because this program had no time, still counts from the instant at which it was due.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from autoscaler.ports import Clock
from loadtests.traffic.schedule import Schedule
from loadtests.traffic.tally import Failure, Reply, Tally

AT_ONCE = 32
"""Requests that are begun in one turn of the event loop where they are late. With one a turn, and every turn full of
what thousands of streams have to say, a sender that is late would stay so."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request."""

    number: int
    prompt_tokens: int
    output_tokens: int
    tenant: int


Send = Callable[[Ask, Reply], Awaitable[None]]
"""Sends one request and notes in the reply what comes, until it has ended. Every trouble is a failure in the reply."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One request that ended; seconds from the start of the load."""

    number: int
    """Its place in the worker's part of the schedule."""
    due_s: float
    end_s: float
    prompt_tokens: int
    output_tokens: int
    ttft_s: float | None
    """From the instant at which it was due to the first token; None where none came."""
    failure: str
    """Empty for a request that was completed."""


Told = Callable[[Ended], None]
"""Gets each request as it ends."""


def untold(_: Ended) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a worker keeps to."""

    timeout_s: float
    """From the instant at which a request is due to its end."""
    most_open: int
    """Streams open at once; a request that would be one more is not sent and counts as failed."""


class Sender:
    """One worker's part of the load."""

    def __init__(self, send: Send, clock: Clock, bounds: Bounds, tally: Tally, told: Told = untold) -> None:
        self._send = send
        self._clock = clock
        self._bounds = bounds
        self._tally = tally
        self._told = told
        self._open: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._start_s = 0.0

    def stop(self) -> None:
        """Send nothing more and give up what is open."""
        self._stopped.set()
        for task in self._open:
            task.cancel()

    async def run(self, schedule: Schedule, start_s: float) -> None:
        """Send all requests, the first instant being `start_s`, and return when the last one has ended."""
        self._start_s = start_s
        tally = self._tally
        rows = zip(
            schedule.due_s.tolist(), schedule.prompt_tokens.tolist(), schedule.output_tokens.tolist(),
            schedule.tenant.tolist(), strict=True,
        )  # fmt: skip
        at_once = 0
        async with asyncio.TaskGroup() as group:
            for number, (due_s, prompt, output, tenant) in enumerate(rows):
                ahead = due_s > self._passed_s()
                at_once = 0 if ahead else at_once + 1
                if ahead or at_once % AT_ONCE == 0:
                    await self._clock.sleep_until(start_s + due_s, self._stopped if ahead else None)
                if self._stopped.is_set():
                    break
                second = tally.second(due_s)
                tally.due += 1
                second.due += 1
                if len(self._open) >= self._bounds.most_open:
                    tally.refuse(second)
                    continue
                task = group.create_task(self._one(Ask(number, prompt, output, tenant), start_s + due_s))
                self._open.add(task)
                task.add_done_callback(self._open.discard)
        tally.cut = tally.due - tally.completed - tally.failed  # those among them whose turn never came

    def _passed_s(self) -> float:
        return self._clock.monotonic() - self._start_s

    async def _one(self, ask: Ask, due_s: float) -> None:
        tally, clock, reply = self._tally, self._clock, Reply()
        tally.begin(clock.monotonic() - due_s)
        left_s = self._bounds.timeout_s - (clock.monotonic() - due_s)
        try:
            async with asyncio.timeout(left_s):
                await self._send(ask, reply)
        except TimeoutError:
            if reply.end_s is None:  # else it was answered whole, and only its connection was still open
                reply.failure = Failure.NO_TOKEN if reply.first_s is None else Failure.UNFINISHED
                reply.detail = (
                    f"not at its end {self._bounds.timeout_s:g} s after it was due ({reply.events} events came)"
                )
        except asyncio.CancelledError:
            tally.cut_off()
            raise
        end_s = clock.monotonic() if reply.end_s is None else reply.end_s
        tally.end(reply, due_s, end_s, tally.second(end_s - self._start_s))
        first_s = None if reply.first_s is None else max(0.0, reply.first_s - due_s)
        failure = "" if reply.failure is None else reply.failure.value
        start_s = self._start_s
        self._told(
            Ended(ask.number, due_s - start_s, end_s - start_s, ask.prompt_tokens, ask.output_tokens, first_s, failure)
        )
