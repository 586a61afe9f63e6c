"""One engine in time: its batch stepped on a clock, tokens handed to the streams that wait for them, counters kept.

Enters: requests, faults, a clock. Leaves: tokens through `Stream`, and a `Book` for the metrics page. It knows nothing
of HTTP. A step ends when it would on the profile's time, not when the last one was noticed, so that lateness of this
process does not add up; how late it was is kept in the book.
"""

import asyncio
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, field
from enum import Enum

from autoscaler.ports import Clock
from loadtests.engines.batching import Batch, Sequence, Step
from loadtests.engines.profile import Speed

CATCH_UP_S = 0.25
"""Lateness beyond this is not made good: a process that was stopped would otherwise run its steps in one burst."""

SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
           160.0, 640.0, 2560.0)  # fmt: skip
"""Bounds of vLLM's histogram of times to first token; the others here have the same."""


class Fault(Enum):
    """What can be done to an engine."""

    CRASH = "crash"
    """Every connection is reset and new ones are refused, until it is healed, which starts it anew."""
    HANG = "hang"
    """It accepts connections and answers nothing, its health and metrics included."""
    WEDGE = "wedge"
    """Its batch stands still; health, metrics and the queue go on."""
    SLOW = "slow"
    """Each step takes `factor` times as long."""


class Histogram:
    """Counts of observations by upper bound, as a metrics page has them."""

    def __init__(self, bounds: Ordered[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value` so many times."""
        at = next((i for i, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[at] += times
        self.sum += value * times


@dataclass(slots=True)
class Book:
    """What an engine counts from its start on."""

    started: int = 0
    finished: int = 0
    aborted: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    queue_s: Histogram = field(default_factory=Histogram)
    ttft_s: Histogram = field(default_factory=Histogram)
    gap_s: Histogram = field(default_factory=Histogram)
    """From a token to the next."""
    e2e_s: Histogram = field(default_factory=Histogram)
    busy_s: float = 0.0
    """In which a step ran."""
    late_s: float = 0.0
    """The most that this process was behind its own steps."""


@dataclass(slots=True, eq=False)
class Stream:
    """One request's tokens, for one reader."""

    sequence: Sequence
    arrived_s: float
    admitted_s: float | None = None
    last_s: float | None = None
    """When its newest token came."""
    pending: int = 0
    lost: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def more(self) -> int:
        """Tokens that came since the last call, at least one; 0 when there will be no more."""
        while not (self.pending or self.lost or self.sequence.gone):
            self.wake.clear()
            await self.wake.wait()
        came, self.pending = self.pending, 0
        return came


class Engine:
    """A batch that runs on a clock."""

    def __init__(self, speed: Speed, clock: Clock) -> None:
        self.speed = speed
        self.clock = clock
        self.batch = Batch(speed)
        self.book = Book()
        self.factor = 1.0
        self.standing = False
        """Its batch does not step: hung or wedged."""
        self._streams: dict[Sequence, Stream] = {}
        self._news = asyncio.Event()

    def submit(self, prompt_tokens: int, output_tokens: int) -> Stream:
        """Queue a request; ValueError where it could never be finished."""
        sequence = Sequence(prompt_tokens, output_tokens)
        self.batch.arrive(sequence)
        stream = self._streams[sequence] = Stream(sequence, self.clock.monotonic())
        self.book.started += 1
        self._news.set()
        return stream

    def cancel(self, stream: Stream) -> None:
        """Forget a request whose client left; nothing where it has ended."""
        if self._streams.pop(stream.sequence, None) is not None:
            self.batch.cancel(stream.sequence)
            self.book.aborted += 1

    def strike(self, fault: Fault | None, factor: float = 1.0) -> None:
        """Take a fault of the batch on, or none of them."""
        self.standing = fault in {Fault.HANG, Fault.WEDGE}
        self.factor = factor if fault is Fault.SLOW else 1.0
        self._news.set()

    def lose(self) -> None:
        """Drop every request and begin anew, as a process that ends and is started again."""
        for stream in self._streams.values():
            stream.lost = True
            stream.wake.set()
        self._streams.clear()
        self.batch, self.book = Batch(self.speed), Book()
        self.strike(None)

    async def run(self) -> None:
        """Step until cancelled."""
        end_s = self.clock.monotonic()
        while True:
            step = None if self.standing else self.batch.plan()
            if step is None:
                self._news.clear()
                await self._news.wait()
                end_s = self.clock.monotonic()
                continue
            batch, now_s = self.batch, self.clock.monotonic()
            self.book.late_s = max(self.book.late_s, now_s - end_s)
            begin_s = end_s if now_s - end_s <= CATCH_UP_S else now_s
            self._admitted(step, begin_s)
            end_s = begin_s + step.duration_s * self.factor
            await self.clock.sleep_until(end_s)
            if batch is self.batch:
                self.book.busy_s += end_s - begin_s
                self._deliver(step, end_s)

    def _admitted(self, step: Step, at_s: float) -> None:
        for sequence in step.admitted:
            stream = self._streams[sequence]
            if stream.admitted_s is None:
                stream.admitted_s = at_s
                self.book.queue_s.observe(max(0.0, at_s - stream.arrived_s))

    def _deliver(self, step: Step, at_s: float) -> None:
        book = self.book
        for sequence in self.batch.finish(step):
            stream = self._streams[sequence]
            if stream.last_s is None:
                book.ttft_s.observe(at_s - stream.arrived_s)
                book.prompt_tokens += sequence.prompt_tokens
            else:
                book.gap_s.observe(at_s - stream.last_s)
            stream.last_s = at_s
            book.generation_tokens += 1
            stream.pending += 1
            stream.wake.set()
            if sequence.gone:
                book.finished += 1
                book.e2e_s.observe(at_s - stream.arrived_s)
                del self._streams[sequence]
