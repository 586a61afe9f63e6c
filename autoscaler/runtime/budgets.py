"""Keeps every workload's share of the GPU budgets up to date, as decisions, orders and policies come.

Enters: targets, steps, what was ordered and what became of it. Leaves: targets with a budget in their limits, put into
the loop when a share changes, at most every 200 ms, and a no to growth that no share allows yet. Shares are computed
only when somebody wants or holds more than its share, while somebody is refused, or when others hold more or fewer
GPUs; nothing else moves a limit. What is held counts from the moment an order leaves.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from autoscaler.api.modes import Tier
from autoscaler.core.params import Params
from autoscaler.core.reasons import NEED_UNKNOWN, Reason
from autoscaler.core.scale.sharing import Budgets, Claim, Share, share
from autoscaler.core.state import Table
from autoscaler.core.types import Decision
from autoscaler.ports import Clock
from autoscaler.record.shares import budget_words
from autoscaler.runtime.actuator import Act, Outcome
from autoscaler.runtime.records import Stepped
from autoscaler.runtime.target import Target

EVERY_S = 0.2
"""Between two rounds of sharing; a round over a thousand claims that contend takes some 10 ms."""

PEAK_S = 60.0
"""A want counts as its highest of the last one to two minutes, so that shares do not follow every dip."""

GRACE_S = 5.0
"""A target whose replicas were never read keeps the others waiting for a first share so long, then counts as its
minimum."""

RANKS: Final = tuple(tier.value for tier in Tier)
RANK: Final = {tier: rank for rank, tier in enumerate(Tier)}


@dataclass(slots=True)
class Peak:
    """The highest of the last one to two `PEAK_S`, in two buckets."""

    before: int = 0
    now: int = 0
    since_s: float = float("-inf")

    def note(self, value: int, now_s: float) -> int:
        """Take a value and return the highest."""
        if now_s >= self.since_s + PEAK_S:
            self.before = self.now if now_s < self.since_s + 2 * PEAK_S else value
            self.now, self.since_s = value, now_s
        self.now = max(self.now, value)
        return max(self.before, self.now)


@dataclass(slots=True)
class _Account:
    """What is known of one target."""

    target: Target
    since_s: float
    seen: int | None = None
    ordered: int = 0
    """A greater count that was ordered and may not show yet."""
    ordered_s: float = float("inf")
    """From readings of then on, what was ordered shows."""
    floor: int = 0
    wanted: int | None = None
    peak: Peak = field(default_factory=Peak)
    share: Share | None = None

    @property
    def held(self) -> int:
        return max(self.seen or 0, self.ordered)

    def claim(self) -> Claim:
        target = self.target
        grows, shrinks = target.mode.allows(0, 1), target.mode.allows(1, 0)
        floor = max(self.floor, target.params.min_replicas)
        held = floor if self.seen is None else self.held
        return Claim(
            workload=target.name,
            namespace=target.name.partition("/")[0],
            rank=RANK[target.tier],
            gpus_per_replica=target.gpus_per_replica,
            floor=floor if grows else min(floor, held),
            wanted=self.wanted if grows or self.wanted is None else min(self.wanted, held),
            held=held,
            present=None if self.share is None else self.share.limit,
            gives_way=shrinks,
        )


class Shares:
    """The shares of all targets; `run` is a task. `put` is how a target with other limits reaches the loop."""

    def __init__(self, *, budgets: Budgets, table: Table, clock: Clock, put: Callable[[Target], None]) -> None:
        self._budgets = budgets
        self._table = table
        self._clock = clock
        self._put = put
        self._accounts: dict[str, _Account] = {}
        self._claims: list[Claim] = []
        """Those of the last round."""
        self._refused = False
        """Whether anybody got less than it wants or holds in the last round."""
        self._bell = asyncio.Event()

    def limited(self, target: Target) -> Target:
        """Take a new or changed target and return it with its share in its limits."""
        if target.gpus_per_replica == 0 or not self._budgets.over(target.name.partition("/")[0]):
            self._accounts.pop(target.name, None)
            return target
        account = self._accounts.get(target.name)
        if account is None:
            account = self._accounts[target.name] = _Account(target, self._clock.monotonic())
        account.target = target
        self._bell.set()
        return _with_share(account)

    def foreign(self, gpus: Mapping[str, int]) -> None:
        """Take how many GPUs the pods of others than these targets hold, per namespace."""
        if gpus != self._budgets.foreign_gpus:
            self._budgets = replace(self._budgets, foreign_gpus=dict(gpus))
            self._claims = []  # the same claims may have other shares now
            self._bell.set()

    def remove(self, name: str) -> None:
        """Forget a target."""
        if self._accounts.pop(name, None) is not None:
            self._bell.set()

    def stepped(self, entry: Stepped) -> None:
        """Take what a step saw and wants."""
        decision = entry.decision
        account = self._accounts.get(decision.workload)
        if account is None or decision.reason is Reason.OUTDATED:
            return
        account.seen = decision.seen_replicas
        if entry.readings.now_s >= account.ordered_s:
            account.ordered, account.ordered_s = 0, float("inf")
        self._want(account, decision, entry.params)
        known = account.share
        if known is None or self._refused or max(account.held, account.wanted or 0, account.floor) > known.limit:
            self._bell.set()

    def admits(self, decision: Decision) -> bool:
        """Whether a decision may be acted upon as far as budgets go: growth needs a share first."""
        account = self._accounts.get(decision.workload)
        return account is None or account.share is not None or decision.replicas <= decision.seen_replicas

    def ordered(self, decision: Decision) -> None:
        """Note that an order is leaving."""
        account = self._accounts.get(decision.workload)
        if account is not None and decision.replicas > decision.seen_replicas:
            account.ordered, account.ordered_s = decision.replicas, float("inf")

    def acted(self, act: Act) -> None:
        """Note what became of the order that left last."""
        account = self._accounts.get(act.workload)
        if account is None or not account.ordered:
            return
        if act.outcome in {Outcome.APPLIED, Outcome.UNKNOWN}:
            account.ordered_s = act.now_s
        else:
            account.ordered = 0

    async def run(self) -> None:
        """Share whenever that may change something, until cancelled."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            await self._all_seen()
            self._round()
            await self._clock.sleep_until(self._clock.monotonic() + EVERY_S)

    def _want(self, account: _Account, decision: Decision, params: Params) -> None:
        """What the workload would have without a budget; what it keeps only for a while counts where it needs it."""
        asked = next((s.before for s in decision.trace if s.reason is Reason.BUDGET), decision.replicas)
        events = (e.floor or 0 for e in params.events if e.from_s <= decision.now_s < e.to_s)
        # Who serves at all and does not ask for zero itself is not shared down to zero: nothing would wake it.
        account.floor = max(params.min_replicas, min(asked, 1), *events)
        if any(step.reason in NEED_UNKNOWN or step.reason is Reason.STALE for step in decision.trace):
            account.wanted = None
            return
        seen = self._table.track(self._table.rows[decision.workload]).seen
        assert seen is not None
        wanted = asked if asked > decision.seen_replicas else min(asked, max(seen.wanted, account.floor))
        account.wanted = account.peak.note(wanted, self._clock.monotonic())

    async def _all_seen(self) -> None:
        """Wait until every target's replicas were read once, or its grace has passed."""
        while unseen := [a.since_s + GRACE_S for a in self._accounts.values() if a.seen is None]:
            last_s = max(unseen)
            if last_s <= self._clock.monotonic():
                return
            await self._clock.sleep_until(last_s, self._bell)
            self._bell.clear()

    def _round(self) -> None:
        claims = [account.claim() for account in self._accounts.values()]
        if claims == self._claims:
            return
        self._claims = claims
        shares = share(claims, self._budgets)
        self._refused = any(each.cut is not None for each in shares.values())
        for name, account in list(self._accounts.items()):
            if account.share != shares[name]:
                account.share = shares[name]
                self._put(_with_share(account))


def _with_share(account: _Account) -> Target:
    """The target with the lower of its own budget and its share; one that nobody may scale has none."""
    target, given = account.target, account.share
    if given is None or not (target.mode.allows(0, 1) or target.mode.allows(1, 0)):
        return target
    own = target.limits.budget_replicas
    if own is not None and own <= given.limit:
        return target
    words = None if given.cut is None else budget_words(target.name, given.cut, RANKS)
    return replace(target, limits=replace(target.limits, budget_replicas=given.limit, budget_words=words))
