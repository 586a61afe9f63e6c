"""Everything heard about one workload, as the sample a decision reads and as the report a person reads."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from autoscaler.adapters.engines.facts import MAX_SAMPLES, Facts
from autoscaler.adapters.engines.fetch import Trouble
from autoscaler.adapters.engines.gateways import Gateway, GatewayBook
from autoscaler.adapters.engines.pods import Pod, PodBook
from autoscaler.adapters.engines.profiles import Fact, Profile
from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.ports import Fault, MetricSample, PortError

Target = ScrapeTarget | GatewayTarget
"""What a sample is made of."""


@dataclass(frozen=True, slots=True)
class Silent:
    """A target that gives no usable page."""

    pod: str
    fault: Fault
    message: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the pages of a workload hold, for whoever sets it up."""

    answering: int
    silent: tuple[Silent, ...]
    names: Mapping[Fact, str]
    """Fact -> the name it was found under on some page."""
    missing: Mapping[Fact, tuple[str, ...]]
    """Fact -> the names it was looked for under and not found, on any page; without those that may be absent."""
    impossible: Mapping[Fact, int]
    """Fact -> targets whose newest page has a value that cannot be true."""


@dataclass(slots=True)
class WorkloadBook:
    """The pods and gateways of one workload. `at_s` is when the newest page came, in the clock's origin."""

    stale_s: float
    pods: PodBook = field(init=False)
    gateways: GatewayBook = field(init=False)
    page_s: float = float("-inf")
    at_s: float = float("-inf")

    def __post_init__(self) -> None:
        self.pods = PodBook(self.stale_s)
        self.gateways = GatewayBook(self.stale_s)

    def put(self, target: Target) -> None:
        """Add a target, or change where it is."""
        if isinstance(target, ScrapeTarget):
            self.pods.put(target)
        else:
            self.gateways.put(target)

    def drop(self, target: Target) -> None:
        """The target is gone."""
        if isinstance(target, ScrapeTarget):
            self.pods.drop(target.uid)
        else:
            self.gateways.drop(target.uid)

    def absorb(self, target: Target, facts: Facts, *, now_s: float, mono_s: float) -> bool:
        """Take the facts of a page that came at `now_s`; return whether they are news."""
        self.page_s, self.at_s = mono_s, now_s
        part = self.pods if isinstance(target, ScrapeTarget) else self.gateways
        return part.absorb(target.uid, facts, mono_s=mono_s)

    def miss(self, target: Target, trouble: Trouble, mono_s: float) -> bool:
        """Note that a target gave no usable page; return whether that is news."""
        part = self.pods if isinstance(target, ScrapeTarget) else self.gateways
        return part.miss(target.uid, trouble, mono_s=mono_s)

    def answering(self, mono_s: float) -> int:
        """Targets with a page that is not too old."""
        return sum(mono_s - target.page_s <= self.stale_s for target in self.targets())

    def sample(self, workload: str, now_s: float, mono_s: float) -> MetricSample:
        """The newest sample. Raises PortError when there are serving pods and all that could tell of them is silent."""
        gateway = self.gateways.reading(mono_s)
        if not self.pods.pods and not self.gateways.gateways:
            return MetricSample(now_s, pods=())  # all its pods went away: there are none, which is known as of now
        silent = self.pods.silent(mono_s)
        if silent and gateway is None:
            raise _error(workload, [t.trouble for t in self.targets() if t.trouble is not None])
        pods = self.pods.readings(mono_s)
        at_s = self.at_s if mono_s - self.page_s <= self.stale_s else now_s
        return MetricSample(at_s, None if silent else pods, gateway, self.pods.latency.reading(mono_s))

    def found(self, profiles: Mapping[str, Profile], mono_s: float) -> Found:
        """What is on the pages and what is not."""
        targets = self.targets()
        pages = [(t.target.profile, t.facts) for t in targets if t.facts is not None]
        names = {fact: name for _, facts in pages for fact, name in facts.names.items()}
        used = ({profile for profile, _ in pages} or {t.target.profile for t in targets}) & profiles.keys()
        missing = {
            fact: tuple(series.name for series in tried)
            for profile in sorted(used)
            for fact, tried in profiles[profile].facts.items()
            if fact not in names and fact not in profiles[profile].optional
        }
        silent = tuple(
            Silent(t.target.pod, t.trouble.fault, t.trouble.message) for t in targets if t.trouble is not None
        )
        impossible = Counter(fact for _, facts in pages for fact in facts.impossible)
        return Found(self.answering(mono_s), silent, names, missing, impossible)

    def targets(self) -> list[Pod | Gateway]:
        """Everything that is asked."""
        return [*self.pods.pods.values(), *self.gateways.gateways.values()]


def useless(facts: Facts, profile: Profile) -> Trouble | None:
    """What is wrong with a page on which none of the facts stands that a decision could rest on."""
    if any(fact in facts.values for fact in profile.needed):
        return None
    broken = [facts.names[fact] for fact in profile.needed if fact in facts.impossible and fact in facts.names]
    if broken:
        return Trouble(Fault.INVALID, f"{', '.join(broken)}: the value cannot be true")
    if facts.impossible and not facts.names:
        return Trouble(Fault.INVALID, f"more than {MAX_SAMPLES} lines of the names that are read")
    looked = [series.name for fact in profile.needed for series in profile.facts[fact]]
    return Trouble(Fault.INVALID, f"none of {', '.join(dict.fromkeys(looked))} is on the page")


def unknown(profile: str) -> Trouble:
    """What is wrong with a target whose profile nobody defined."""
    return Trouble(Fault.INVALID, f"engine {profile!r}: its metric names are not known; name them in the settings")


def _error(workload: str, troubles: list[Trouble]) -> PortError:
    if not troubles:
        return PortError(Fault.UNAVAILABLE, f"{workload}: no page has been read yet")
    (first, count), *_ = Counter(troubles).most_common(1)
    return PortError(first.fault, f"{workload}: {first.message} ({count} of {len(troubles)} silent targets)")
