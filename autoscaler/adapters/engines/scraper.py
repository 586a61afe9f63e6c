"""Reads the metrics pages of serving pods and gateways, each once per interval however many workloads it speaks of, and
answers from memory.

Enters: targets, put and dropped as pods come and go. Leaves: a sample per workload, the news that makes a step worth
while, and a report of what was found. It answers at once and never waits for a page. News is told for a first page of a
ready pod, a page lost or back, and the first waiting request; not for every page, or a thousand pods would cause a
thousand steps a second.
"""

from collections.abc import Callable, Mapping

from autoscaler.adapters.engines.catalogue import PROFILES
from autoscaler.adapters.engines.facts import Facts, PageReader
from autoscaler.adapters.engines.fetch import CAP_BYTES, TIMEOUT_S, Trouble, fetching
from autoscaler.adapters.engines.latency import LONG, LONG_FEWEST
from autoscaler.adapters.engines.polling import Poller
from autoscaler.adapters.engines.profiles import Profile, Span
from autoscaler.adapters.engines.shared import SharedPage, SharedPages, Split
from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.adapters.engines.workload import Found, WorkloadBook, unknown, useless
from autoscaler.ports import Clock, Fault, MetricSample, PortError

STALE_INTERVALS = 3.0
STALE_MIN_S = 3.0
"""A page older than three intervals, and than this, says nothing any more."""

HISTOGRAMS_S = 5.0
"""Between two readings of a pod's histograms: they are most of a page, and a minute's percentile needs no more."""


class Scraper:
    """A MetricSource over pages. `put` and `drop` may be called at any time; `run` asks until cancelled."""

    def __init__(
        self,
        *,
        clock: Clock,
        on_news: Callable[[str], None],
        interval_s: float = 1.0,
        timeout_s: float = TIMEOUT_S,
        cap_bytes: int = CAP_BYTES,
        allow_loopback: bool = False,
        profiles: Mapping[str, Profile] = PROFILES,
    ) -> None:
        self._clock = clock
        self._on_news = on_news
        self._timeout_s = timeout_s
        self._cap_bytes = cap_bytes
        self._allow_loopback = allow_loopback
        self._profiles = dict(profiles)
        self._readers = {name: PageReader(profile) for name, profile in profiles.items()}
        self._stale_s = max(STALE_INTERVALS * interval_s, STALE_MIN_S)
        self._books: dict[str, WorkloadBook] = {}
        self._targets: dict[str, ScrapeTarget | GatewayTarget] = {}
        self._shared = SharedPages()
        self._poller: Poller[ScrapeTarget | SharedPage] = Poller(clock, interval_s, self._absorb)

    async def run(self) -> None:
        """Ask until cancelled."""
        async with fetching(
            timeout_s=self._timeout_s, cap_bytes=self._cap_bytes, allow_loopback=self._allow_loopback
        ) as fetcher:
            await self._poller.run(fetcher.get)

    def put(self, target: ScrapeTarget | GatewayTarget) -> None:
        """Ask this target from now on, or change where it is. One of an unknown profile is not asked, and silent."""
        known = self._targets.get(target.uid)
        if known is not None and known.workload != target.workload:
            self.drop(target.uid)
        self._targets[target.uid] = target
        book = self._books.get(target.workload)
        if book is None:
            book = self._books[target.workload] = WorkloadBook(self._stale_s)
        book.put(target)
        if target.profile in self._readers:
            self._ask(target)
        else:
            self._rest(target.uid)
            book.miss(target, unknown(target.profile), self._clock.monotonic())

    def drop(self, uid: str) -> None:
        """Ask this target no more; an unknown one is none."""
        target = self._targets.pop(uid, None)
        if target is None:
            return
        self._rest(uid)
        self._books[target.workload].drop(target)

    def forget(self, workload: str) -> None:
        """Drop all targets of a workload, and that it ever had any."""
        for uid in [uid for uid, target in self._targets.items() if target.workload == workload]:
            self.drop(uid)
        self._books.pop(workload, None)

    async def read(self, workload: str) -> MetricSample:
        """The newest sample of `workload`, from memory. Raises PortError."""
        return self.sample(workload)

    def sample(self, workload: str) -> MetricSample:
        """The newest sample, taken when the newest of its pages came. Raises PortError when there is none to use.

        A workload whose pods all went away has a sample with no pods; one that never had any has none.
        """
        book = self._books.get(workload)
        if book is None:
            raise PortError(Fault.UNAVAILABLE, f"{workload}: no pod or gateway to ask for metrics is known")
        return book.sample(workload, self._clock.now(), self._clock.monotonic())

    def learn(self, profile: Profile) -> None:
        """Know one more profile from now on, or know one otherwise; targets that waited for it are asked."""
        if self._profiles.get(profile.name) == profile:
            return
        self._profiles[profile.name] = profile
        self._readers[profile.name] = PageReader(profile)
        for target in self._targets.values():
            if target.profile == profile.name:
                self._ask(target)

    def unlearn(self, name: str) -> None:
        """Know a profile no more; a target that has it still is not asked any more, and silent."""
        self._profiles.pop(name, None)
        self._readers.pop(name, None)
        for target in [target for target in self._targets.values() if target.profile == name]:
            self.put(target)

    def states(self) -> dict[str, int]:
        """How many targets there are by state: answering, silent, or asked and not heard yet."""
        mono_s = self._clock.monotonic()
        counts = {"answering": 0, "silent": 0, "unheard": 0}
        for book in self._books.values():
            for target in book.targets():
                heard = mono_s - target.page_s <= self._stale_s
                counts["answering" if heard else "unheard" if target.trouble is None else "silent"] += 1
        return counts

    def found(self, workload: str) -> Found:
        """What the pages of `workload` hold and lack. Raises KeyError for a workload without targets."""
        return self._books[workload].found(self._profiles, self._clock.monotonic())

    def long_request_s(self, workload: str) -> float | None:
        """What one request in a hundred of the last hour took longer than; None where that is not known."""
        book = self._books.get(workload)
        if book is None:
            return None
        return book.pods.durations.percentile(Span.DURATION, self._clock.monotonic(), LONG, LONG_FEWEST)

    def _ask(self, target: ScrapeTarget | GatewayTarget) -> None:
        if isinstance(target, ScrapeTarget):
            self._poller.put(target)
            return
        if self._shared.moves(target):
            self._rest(target.uid)
        self._poller.put(self._shared.put(target))

    def _rest(self, uid: str) -> None:
        """Ask no more for a target, nor for the page that it shared if nobody else reads it."""
        page = self._shared.drop(uid)
        self._poller.drop(uid if page is None else page.uid)

    def _absorb(self, asked: ScrapeTarget | SharedPage, answer: bytes | Trouble) -> bool:
        """Take an answer; return whether it was of use."""
        if isinstance(asked, SharedPage):
            return self._absorb_shared(self._shared.readers(asked), answer)
        if isinstance(answer, Trouble):
            return self._take(asked, answer)
        reader = self._readers[asked.profile]
        is_useful = self._take(asked, reader.facts(answer))
        if is_useful:
            self._histograms(self._books[asked.workload], asked, reader, answer, self._clock.monotonic())
        return is_useful

    def _absorb_shared(self, targets: list[GatewayTarget], answer: bytes | Trouble) -> bool:
        """Take the answer of a page for all who read it; return whether it was of use to any."""
        useful, splits = 0, dict[str, Split | None]()
        for target in targets:
            if isinstance(answer, Trouble):
                self._take(target, answer)
                continue
            reader, (label, pool) = self._readers[target.profile], target.own[0]
            if target.profile not in splits:
                rows = reader.rows(answer)
                splits[target.profile] = None if rows is None else Split(rows, label)
            split = splits[target.profile]
            useful += self._take(target, reader.combined(None if split is None else split.rows(pool), target.own))
        return useful > 0

    def _take(self, target: ScrapeTarget | GatewayTarget, told: Facts | Trouble) -> bool:
        """Note what a page says of one workload; return whether that is of use."""
        book = self._books[target.workload]
        now_s, mono_s = self._clock.now(), self._clock.monotonic()
        if isinstance(told, Facts):
            told = useless(told, self._readers[target.profile].profile) or told
        if isinstance(told, Facts):
            news = book.absorb(target, told, now_s=now_s, mono_s=mono_s)
        else:
            news = book.miss(target, told, mono_s)
        if news:
            self._on_news(target.workload)
        return isinstance(told, Facts)

    @staticmethod
    def _histograms(book: WorkloadBook, target: ScrapeTarget, reader: PageReader, page: bytes, mono_s: float) -> None:
        pod = book.pods.pods[target.uid]
        if mono_s - pod.histograms_s >= HISTOGRAMS_S - 0.5:
            pod.histograms_s = mono_s
            histograms = reader.histograms(page)
            book.pods.latency.add(target.uid, mono_s, histograms)
            book.pods.durations.add(target.uid, mono_s, histograms)
