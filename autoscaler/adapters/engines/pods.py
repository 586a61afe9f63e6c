"""The newest pages of a workload's pods, and the readings they amount to.

Enters: targets, and an answer per question. Leaves: pod readings, and whether an answer is news. A pod whose page is
older than three intervals (at least 3 s) is there without numbers: it exists, and nothing is known of it.

That is what keeps half of the pods' silence from looking like half of the load: the core shrinks on fresh signals only,
takes a signal for fresh only while four fifths of the ready pods carry it, and adds up no counts of fewer. A pod left
out instead would be a pod that went away. Where every pod is silent there is no reading at all.
"""

from dataclasses import dataclass, field

from autoscaler.adapters.engines.facts import Facts
from autoscaler.adapters.engines.fetch import Trouble
from autoscaler.adapters.engines.latency import LatencyWindow, whole_requests
from autoscaler.adapters.engines.profiles import Fact
from autoscaler.adapters.engines.targets import ScrapeTarget
from autoscaler.core.types import PodReading

FIRST_WAITING = 0.5
"""Requests, over all pods: from here on somebody waits."""


@dataclass(slots=True)
class Pod:
    """What is known of one pod. Instants are monotonic seconds."""

    target: ScrapeTarget
    facts: Facts | None = None
    page_s: float = float("-inf")
    trouble: Trouble | None = None
    lost: bool = False
    """It had a page once, and that is too old now."""
    announced: bool = False
    """Its first page since it became ready, or since it was lost, has been told as news."""
    served: bool = False
    """It was ready once."""
    histograms_s: float = float("-inf")
    impossible: int = 0
    """Values that could not be true, ever."""

    @property
    def waiting(self) -> float:
        """Requests waiting by its newest page; 0 while nothing is known."""
        return 0.0 if self.facts is None or self.lost else self.facts.get(Fact.WAITING) or 0.0

    @property
    def working(self) -> bool:
        """Whether its newest page shows requests."""
        return self.facts is not None and any((self.facts.get(f) or 0.0) > 0 for f in (Fact.WAITING, Fact.RUNNING))


@dataclass(slots=True)
class PodBook:
    """The pods of one workload by uid."""

    stale_s: float
    pods: dict[str, Pod] = field(default_factory=dict)
    latency: LatencyWindow = field(default_factory=LatencyWindow)
    durations: LatencyWindow = field(default_factory=whole_requests)
    """Of whole requests in the last hour: how long a pod that goes should be let to end its own."""
    waiting: float = 0.0
    """Requests waiting in all pods by their newest pages."""

    def put(self, target: ScrapeTarget) -> None:
        """Add a pod, or change what is known of where it is."""
        pod = self.pods.get(target.uid)
        if pod is None:
            pod = self.pods[target.uid] = Pod(target)
        pod.target = target
        pod.served = pod.served or target.ready_since_s is not None

    def drop(self, uid: str) -> None:
        """The pod is gone."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.waiting -= pod.waiting
            self.latency.drop(uid)
            self.durations.drop(uid)

    def absorb(self, uid: str, facts: Facts, *, mono_s: float) -> bool:
        """Take a page's facts; return whether they are news: a first page, one after a loss, or a first request."""
        pod = self.pods[uid]
        ready = pod.target.ready_since_s is not None
        first, pod.announced = ready and not pod.announced, pod.announced or ready
        before, old = self.waiting, pod.waiting
        pod.facts, pod.page_s = facts, mono_s
        pod.trouble, pod.lost = None, False
        pod.impossible += len(facts.impossible)
        self.waiting += pod.waiting - old
        return first or before < FIRST_WAITING <= self.waiting

    def miss(self, uid: str, trouble: Trouble, *, mono_s: float) -> bool:
        """Note that a question failed; return whether that is news: the last page has just become too old."""
        pod = self.pods[uid]
        pod.trouble = trouble
        if pod.facts is None or pod.lost or mono_s - pod.page_s <= self.stale_s:
            return False
        self.waiting -= pod.waiting
        pod.lost, pod.announced = True, False
        return pod.target.ready_since_s is not None

    def silent(self, mono_s: float) -> bool:
        """Whether there are pods that serve or have served, and none has a page that is not too old."""
        serving = [pod for pod in self.pods.values() if pod.served or pod.facts is not None]
        return bool(serving) and all(mono_s - pod.page_s > self.stale_s for pod in serving)

    def readings(self, mono_s: float) -> tuple[PodReading, ...]:
        """Every ready pod, and of the others those that still show requests."""
        found = []
        for pod in self.pods.values():
            facts = pod.facts if mono_s - pod.page_s <= self.stale_s else None
            if pod.target.ready_since_s is not None or (facts is not None and pod.working):
                found.append(_reading(pod.target, facts))
        return tuple(found)


def _reading(target: ScrapeTarget, facts: Facts | None) -> PodReading:
    if facts is None:
        return PodReading(target.pod, target.ready_since_s)
    get = facts.values.get
    return PodReading(
        name=target.pod,
        ready_since_s=target.ready_since_s,
        waiting=get(Fact.WAITING),
        waiting_deferred=get(Fact.WAITING_DEFERRED),
        running=get(Fact.RUNNING),
        requests_total=get(Fact.REQUESTS),
        prompt_tokens_total=get(Fact.PROMPT_TOKENS),
        generation_tokens_total=get(Fact.GENERATION_TOKENS),
        kv_cache_usage=get(Fact.KV_USED),
    )
