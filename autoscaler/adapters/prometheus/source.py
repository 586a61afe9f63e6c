"""Signals of workloads out of Prometheus, for clusters in which pods may not be asked directly.

Enters: the same targets as the scraper has. Leaves: the same samples. One query per look fetches the raw samples of the
last half minute of the workload's live pods, so that each number comes with the instant at which it was scraped; what
is older, or of a pod that is gone, does not exist (llm-d/llm-d-workload-variant-autoscaler#368). A sample is as old as
Prometheus' last scrape, and a workload whose tick is shorter than Prometheus' interval will find it outdated.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from autoscaler.adapters.engines.catalogue import PROFILES
from autoscaler.adapters.engines.facts import PageReader, Rows
from autoscaler.adapters.engines.profiles import Profile
from autoscaler.adapters.engines.targets import GatewayTarget
from autoscaler.adapters.engines.workload import Target, WorkloadBook, unknown, useless
from autoscaler.adapters.prometheus.live import LivePrometheus, Series
from autoscaler.adapters.prometheus.promql import selector
from autoscaler.ports import Clock, Fault, MetricSample, PortError

STALE_S = 30.0
"""Samples older than this are not asked for: two of Prometheus' usual intervals."""


class PrometheusSource:
    """A MetricSource over one endpoint. Targets may be put and dropped at any time."""

    def __init__(
        self, live: LivePrometheus, endpoint: str, clock: Clock, profiles: Mapping[str, Profile] = PROFILES
    ) -> None:
        self._live = live
        self._endpoint = endpoint
        self._clock = clock
        self._profiles = dict(profiles)
        self._readers = {name: PageReader(profile) for name, profile in profiles.items()}
        self._targets: dict[str, Target] = {}
        self._asked: dict[str, dict[str, Target]] = {}
        """Workload -> its targets whose names are known, by uid."""
        self._books: dict[str, WorkloadBook] = {}

    def put(self, target: Target) -> None:
        """Read this target from now on. One of an unknown profile is not asked about, and silent."""
        known = self._targets.get(target.uid)
        if known is not None and known.workload != target.workload:
            self.drop(target.uid)
        self._targets[target.uid] = target
        book = self._books.setdefault(target.workload, WorkloadBook(STALE_S))
        book.put(target)
        asked = self._asked.setdefault(target.workload, {})
        if target.profile in self._readers:
            asked[target.uid] = target
        else:
            asked.pop(target.uid, None)
            book.miss(target, unknown(target.profile), self._clock.monotonic())

    def drop(self, uid: str) -> None:
        """Read this target no more; an unknown one is none."""
        target = self._targets.pop(uid, None)
        if target is None:
            return
        self._asked[target.workload].pop(uid, None)
        self._books[target.workload].drop(target)

    def forget(self, workload: str) -> None:
        """Drop all targets of a workload, and that it ever had any."""
        for uid in [uid for uid, target in self._targets.items() if target.workload == workload]:
            self.drop(uid)
        self._books.pop(workload, None)
        self._asked.pop(workload, None)

    def learn(self, profile: Profile) -> None:
        """Know one more profile from now on, or know one otherwise; targets that waited for it are asked about."""
        if self._profiles.get(profile.name) == profile:
            return
        self._profiles[profile.name] = profile
        self._readers[profile.name] = PageReader(profile)
        for target in self._targets.values():
            if target.profile == profile.name:
                self._asked[target.workload][target.uid] = target

    def unlearn(self, name: str) -> None:
        """Know a profile no more; a target that has it still is not asked about any more, and silent."""
        self._profiles.pop(name, None)
        self._readers.pop(name, None)
        for target in [target for target in self._targets.values() if target.profile == name]:
            self.put(target)

    async def read(self, workload: str) -> MetricSample:
        """The newest sample of `workload`, as old as Prometheus' newest scrape of it. Raises PortError."""
        book = self._books.get(workload)
        if book is None:
            raise PortError(Fault.UNAVAILABLE, f"{workload}: no pod or gateway is known to ask Prometheus about")
        targets = list(self._asked[workload].values())
        if targets:
            series = await self._live.instant(self._endpoint, self._query(workload, targets))
            self._absorb(book, targets, series)
        return book.sample(workload, self._clock.now(), self._clock.monotonic())

    def _query(self, workload: str, targets: list[Target]) -> str:
        endpoint = self._live.endpoints[self._endpoint]
        namespace, _, _ = workload.partition("/")
        names = {
            series.name
            for target in targets
            for tried in self._readers[target.profile].profile.facts.values()
            for series in tried
        }
        pods = (endpoint.pod_label, [target.pod for target in targets])
        return f"{selector(sorted(names), (endpoint.namespace_label, namespace), pods)}[{STALE_S:g}s]"

    def _absorb(self, book: WorkloadBook, targets: list[Target], series: Iterable[Series]) -> None:
        """Enter every pod's newest samples into the book, at the instant at which they were scraped."""
        now_s, mono_s = self._clock.now(), self._clock.monotonic()
        scrapes = _newest_scrapes(series, self._live.endpoints[self._endpoint].pod_label)
        # One that was changed meanwhile, its profile perhaps, was not what was asked about.
        known = [target for target in targets if self._targets.get(target.uid) == target and target.pod in scrapes]
        for target in sorted(known, key=lambda one: scrapes[one.pod].at_s):
            reader, scrape = self._readers[target.profile], scrapes[target.pod]
            facts = reader.combined(scrape.rows, target.own if isinstance(target, GatewayTarget) else ())
            if useless(facts, reader.profile) is not None:
                continue
            page_s = mono_s - (now_s - scrape.at_s)
            book.absorb(target, facts, now_s=scrape.at_s, mono_s=page_s)


@dataclass(slots=True)
class _Scrape:
    """What one scrape of a pod brought."""

    at_s: float
    rows: defaultdict[str, Rows] = field(default_factory=lambda: defaultdict(list))


def _newest_scrapes(series: Iterable[Series], pod_label: str) -> dict[str, _Scrape]:
    """The newest scrape of every pod.

    All samples of a scrape have its instant. An older one is of a series that is gone since, or of a second job that
    scrapes the same pod: added to the newest it would be counted twice.
    """
    newest: dict[str, _Scrape] = {}
    for one in series:
        if not one.samples:
            continue
        at_s, text = one.samples[-1]
        scrape = newest.get(pod := one.metric.get(pod_label, ""))
        if scrape is None or at_s > scrape.at_s:
            scrape = newest[pod] = _Scrape(at_s)
        if at_s == scrape.at_s:
            scrape.rows[one.metric.get("__name__", "")].append((one.metric, _number(text)))
    return newest


def _number(text: str) -> float:
    """A sample's value; one that is no number cannot be true, as a page's NaN."""
    try:
        return float(text)
    except ValueError:
        return math.nan
