"""The newest pages of the endpoint pickers in front of a workload, and the reading they amount to.

Arrivals are not on the page: the picker counts a request when it sends it on (llm-d/llm-d-router: RecordRequestCounter
follows HandleRequest). What has arrived by now is what was sent on, what was turned away and what still waits; here
that is kept as one counter that never falls, across restarts of pickers and pickers that come and go.
"""

from dataclasses import dataclass, field

from autoscaler.adapters.engines.facts import Facts
from autoscaler.adapters.engines.fetch import Trouble
from autoscaler.adapters.engines.pods import FIRST_WAITING
from autoscaler.adapters.engines.profiles import Fact
from autoscaler.adapters.engines.targets import GatewayTarget
from autoscaler.core.types import GatewayReading


@dataclass(slots=True)
class Gateway:
    """One picker's pod. Instants are monotonic seconds."""

    target: GatewayTarget
    facts: Facts | None = None
    page_s: float = float("-inf")
    trouble: Trouble | None = None
    lost: bool = False
    impossible: int = 0
    dispatched: float | None = None
    arrived: float | None = None
    """Requests that had arrived here by the newest page that said so."""


@dataclass(slots=True)
class GatewayBook:
    """The pickers of one workload by uid."""

    stale_s: float
    gateways: dict[str, Gateway] = field(default_factory=dict)
    arrived_total: float | None = None
    queued: float = 0.0

    def put(self, target: GatewayTarget) -> None:
        """Add a picker, or change where it is."""
        gateway = self.gateways.get(target.uid)
        if gateway is None:
            self.gateways[target.uid] = Gateway(target)
        else:
            gateway.target = target

    def drop(self, uid: str) -> None:
        """The picker is gone, and with it the requests it held."""
        self.gateways.pop(uid, None)
        self.queued = self._queued()

    def absorb(self, uid: str, facts: Facts, *, mono_s: float) -> bool:
        """Take a page's facts; return whether they are news: a first page, one after a loss, or a first request."""
        gateway = self.gateways[uid]
        fresh = gateway.facts is None or gateway.lost
        gateway.facts, gateway.page_s = facts, mono_s
        gateway.trouble, gateway.lost = None, False
        gateway.impossible += len(facts.impossible)
        self._count(gateway, facts)
        before, self.queued = self.queued, self._queued()
        return fresh or before < FIRST_WAITING <= self.queued

    def miss(self, uid: str, trouble: Trouble, *, mono_s: float) -> bool:
        """Note that a question failed; return whether the last page has just become too old."""
        gateway = self.gateways[uid]
        gateway.trouble = trouble
        if gateway.facts is None or gateway.lost or mono_s - gateway.page_s <= self.stale_s:
            return False
        gateway.lost = True
        self.queued = self._queued()
        return True

    def reading(self, mono_s: float) -> GatewayReading | None:
        """The sums over all pickers; None unless every one of them has a page that is not too old.

        A part of the pickers would show a part of the queue, and that would pass for a queue that shrank.
        """
        if not self.gateways or any(mono_s - g.page_s > self.stale_s for g in self.gateways.values()):
            return None
        pages = [gateway.facts for gateway in self.gateways.values() if gateway.facts is not None]
        queues = [facts.get(Fact.QUEUED) for facts in pages]
        queued = None if None in queues else sum(queue for queue in queues if queue is not None)
        counted = all(facts.get(Fact.DISPATCHED) is not None for facts in pages)
        if queued is None and not counted:
            return None
        return GatewayReading(queued, self.arrived_total if counted else None)

    def _count(self, gateway: Gateway, facts: Facts) -> None:
        dispatched = facts.get(Fact.DISPATCHED)
        if dispatched is None:
            return
        arrived = dispatched + (facts.get(Fact.TURNED_AWAY) or 0.0) + (facts.get(Fact.QUEUED) or 0.0)
        restarted = gateway.dispatched is not None and dispatched < gateway.dispatched
        gateway.dispatched = dispatched
        if self.arrived_total is None:
            self.arrived_total = arrived
        elif gateway.arrived is not None and not restarted:
            if arrived < gateway.arrived:
                return  # a request that has left the queue and is not counted as sent yet: it will be
            self.arrived_total += arrived - gateway.arrived
        gateway.arrived = arrived

    def _queued(self) -> float:
        known = [g.facts.get(Fact.QUEUED) for g in self.gateways.values() if g.facts is not None and not g.lost]
        return sum(queue for queue in known if queue is not None)
