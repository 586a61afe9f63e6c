"""What became of the requests: counts, histograms, seconds of the run. Tallies of workers merge into one.

Enters: replies as they end. Leaves: a `Tally`, which also travels between processes. Latencies are of completed
requests and count from the instant at which the request was due; a request that failed has a reason instead.
"""

from enum import Enum

import msgspec

from loadtests.traffic.histogram import Histogram


class Failure(Enum):
    """Why a request did not complete; a closed set, so that it can be counted."""

    UNREACHABLE = "unreachable"
    """No connection."""
    STATUS = "status"
    """Answered with another status than 200."""
    NO_TOKEN = "no_token"  # noqa: S105 - a word, no secret
    """The time was up before the first token."""
    UNFINISHED = "unfinished"
    """The time was up between the first token and the last."""
    CLOSED = "closed"
    """The connection ended before the stream did."""
    GARBLED = "garbled"
    """What came is no stream of completions, or the stream tells of an error."""
    TOO_MANY_OPEN = "too_many_open"
    """Never sent: as many streams were open as may be."""


class Reply(msgspec.Struct):
    """One request as it goes on. Instants are the event loop's seconds."""

    first_s: float | None = None
    """When the first token came."""
    last_s: float | None = None
    end_s: float | None = None
    """When the stream said that it had ended."""
    events: int = 0
    """Events with text in them."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    """As the server counted; None where it did not say."""
    failure: Failure | None = None
    detail: str = ""
    status: int | None = None
    """The HTTP status, where that is the failure."""


class Second(msgspec.Struct):
    """One second of the run."""

    due: int = 0
    completed: int = 0
    failed: int = 0
    events: int = 0
    cpu_s: float = 0.0
    """Processor time of this program."""

    def merge(self, other: "Second") -> None:
        """Add another worker's same second."""
        self.due += other.due
        self.completed += other.completed
        self.failed += other.failed
        self.events += other.events
        self.cpu_s += other.cpu_s


class Tally(msgspec.Struct):
    """What a worker, or all of them, know so far."""

    due: int = 0
    """Requests whose instant has come."""
    sent: int = 0
    completed: int = 0
    cut: int = 0
    """Still open when the run was ended."""
    open_now: int = 0
    open_most: int = 0
    """For several workers the sum of each one's most: at least the truth."""
    events: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    failures: dict[str, int] = {}
    examples: dict[str, str] = {}
    """Of each kind of failure the first one's words."""
    statuses: dict[int, int] = {}
    """How often each HTTP status but 200 was the answer: a service that sheds load is no service that breaks."""
    ttft_s: Histogram = msgspec.field(default_factory=Histogram)
    tpot_s: Histogram = msgspec.field(default_factory=Histogram)
    """Seconds a token, from the first to the last; of answers of two tokens or more."""
    e2e_s: Histogram = msgspec.field(default_factory=Histogram)
    late_s: Histogram = msgspec.field(default_factory=Histogram)
    """How long after its instant a request was begun: this program's own lateness."""
    seconds: dict[int, Second] = {}
    cpu_s: float = 0.0
    """Processor time of this program from the first instant on."""
    rss_mib: float = 0.0
    over: bool = False

    @property
    def failed(self) -> int:
        """Requests that did not complete, the cut ones not among them."""
        return sum(self.failures.values())

    @property
    def error_ratio(self) -> float:
        """Failed ones of those that ended; 0.0 before any has."""
        return self.failed / (self.failed + self.completed) if self.failed else 0.0

    def example(self, failure: str) -> str:
        """The first one's words, behind how often each status came where there were several."""
        counts = sorted(self.statuses.items()) if failure == Failure.STATUS.value else []
        each = ", ".join(f"{count:,} × HTTP {status}" for status, count in counts)
        return f"{each}; the first: {self.examples[failure]}" if len(counts) > 1 else self.examples[failure]

    def second(self, at_s: float) -> Second:
        """The second of the run that `at_s` is in."""
        return self.seconds.setdefault(int(at_s), Second())

    def begin(self, late_s: float) -> None:
        """A request is sent, so long after it was due."""
        self.sent += 1
        self.late_s.record(max(0.0, late_s))
        self.open_now += 1
        self.open_most = max(self.open_most, self.open_now)

    def refuse(self, second: Second) -> None:
        """A request could not be sent."""
        self._fail(Failure.TOO_MANY_OPEN, "raise --max-open, or the service keeps too many", second)

    def cut_off(self) -> None:
        """A request was given up because the run ended."""
        self.open_now -= 1
        self.cut += 1

    def end(self, reply: Reply, due_s: float, end_s: float, second: Second) -> None:
        """A request that was due at `due_s` ended."""
        self.open_now -= 1
        if reply.failure is not None:
            self._fail(reply.failure, reply.detail, second)
            if reply.status is not None:
                self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
            return
        self.completed += 1
        second.completed += 1
        tokens = reply.output_tokens if reply.output_tokens is not None else reply.events
        self.output_tokens += tokens
        self.prompt_tokens += reply.prompt_tokens or 0
        self.e2e_s.record(end_s - due_s)
        if reply.first_s is not None and reply.last_s is not None:
            self.ttft_s.record(reply.first_s - due_s)
            if tokens > 1:
                self.tpot_s.record((reply.last_s - reply.first_s) / (tokens - 1))

    def _fail(self, failure: Failure, detail: str, second: Second) -> None:
        name = failure.value
        second.failed += 1
        self.failures[name] = self.failures.get(name, 0) + 1
        self.examples.setdefault(name, detail)


_SUMS = ("due", "sent", "completed", "cut", "open_now", "open_most", "events", "prompt_tokens", "output_tokens",
         "cpu_s", "rss_mib")  # fmt: skip
_HISTOGRAMS = ("ttft_s", "tpot_s", "e2e_s", "late_s")


def merged(tallies: "list[Tally]") -> Tally:
    """The tallies of several workers as one."""
    whole = Tally(over=all(tally.over for tally in tallies))
    for tally in tallies:
        for name in _SUMS:
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
        for name in _HISTOGRAMS:
            getattr(whole, name).merge(getattr(tally, name))
        for failure, count in tally.failures.items():
            whole.failures[failure] = whole.failures.get(failure, 0) + count
            whole.examples.setdefault(failure, tally.examples[failure])
        for status, count in tally.statuses.items():
            whole.statuses[status] = whole.statuses.get(status, 0) + count
        for number, second in tally.seconds.items():
            whole.seconds.setdefault(number, Second()).merge(second)
    return whole
