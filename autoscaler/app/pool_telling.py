"""Tells the cluster and whoever asks what was decided about warm pools: statuses, events, and rows from memory.

Enters: the outcome of a look, or the fault of a WarmPool. Leaves: a status per WarmPool when something that people act
upon changed, not when a figure moved; events on change and refusal only.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import msgspec

from autoscaler.adapters.kube.pool_objects import WarmPoolObject
from autoscaler.adapters.kube.pool_writer import Became, Outcome
from autoscaler.adapters.kube.scope import GROUP, VERSION
from autoscaler.api.claims import TargetRef
from autoscaler.api.schema import custom_resource
from autoscaler.app.pool_loans import LoanNews
from autoscaler.app.pool_specs import Compiled, Faulty
from autoscaler.app.pool_written import gist_of, written_of
from autoscaler.app.publishing import Events
from autoscaler.core.pool import intents as core
from autoscaler.core.pool.intents import (
    CreateHolder,
    CreateNodePool,
    CreateSlot,
    DeleteClaim,
    DeleteSlot,
    Intent,
    MarkNodeEnds,
    MarkSlot,
)
from autoscaler.core.pool.reconcile import Reconciled
from autoscaler.ports import Clock
from autoscaler.record.loans import LoanTold
from autoscaler.record.pool_status import PoolCounts, PoolStatus, pool_status, with_loans
from autoscaler.record.status import Condition

ACCEPTED: Final = "Accepted"
"""Whether the WarmPool can be used as it stands."""

ACTING: Final = "Acting"
"""Whether what is decided is carried out."""

FOLLOWED: Final = "Followed"
"""Whether all that pools rest on can be read."""

_TRUTH: Final = {True: "True", False: "False", None: "Unknown"}


@dataclass(frozen=True, slots=True)
class Done:
    """An intent and what became of it."""

    intent: Intent
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Around:
    """What is known beside the look: why everything is frozen, what of the cluster cannot be read, who has loans."""

    frozen: str | None = None
    problems: tuple[str, ...] = ()
    loans: tuple[LoanTold, ...] | None = ()
    """Of the pool, gang by gang; None while nobody knows."""


class PoolStatuses(Protocol):
    """Where statuses of WarmPools go; it writes the latest, and not too often."""

    def put(
        self, namespace: str, name: str, status: Mapping[str, Any], *, seen: Mapping[str, Any] | None = None
    ) -> None:
        """Write this status soon; `seen` is what the object showed last."""
        ...

    def forget(self, namespace: str, name: str) -> None:
        """The object is gone."""
        ...


class PoolTelling:
    """Remembers the newest of every pool and tells it on. `objects` are the WarmPools as they are followed."""

    def __init__(
        self, *, statuses: PoolStatuses, events: Events, objects: Mapping[str, WarmPoolObject], clock: Clock
    ) -> None:
        self._statuses = statuses
        self._events = events
        self._objects = objects
        self._clock = clock
        self._told: dict[str, PoolStatus] = {}
        self._gists: dict[str, object] = {}
        self._loans: dict[str, LoanNews] = {}
        self._failed: dict[str, Outcome | None] = {}
        """Pool -> what went wrong when something was last written for it."""

    @property
    def pools(self) -> tuple[PoolStatus, ...]:
        """The newest status of every pool, in the order of their names."""
        return tuple(self._told[name] for name in sorted(self._told))

    def pool(self, name: str) -> PoolStatus | None:
        """The newest status of one pool; None where there is none of that name."""
        return self._told.get(name)

    def forget(self, name: str) -> None:
        """The WarmPool is gone."""
        self._told.pop(name, None)
        self._gists.pop(name, None)
        self._failed.pop(name, None)
        self._loans.pop(name, None)
        self._statuses.forget("", name)

    def fault(self, name: str, found: WarmPoolObject, faulty: Faulty) -> None:
        """A WarmPool cannot be used: what it kept warm before is left as it is."""
        told = Condition(ACCEPTED, "False", "Invalid", faulty.fault)
        status = PoolStatus(
            name, self._clock.now(), "", text=faulty.fault, explained=f"{name}: {faulty.fault}", conditions=(told,)
        )
        self._tell(status, found.metadata.uid, faulty.generation)

    def looked(
        self,
        compiled: Compiled,
        outcome: Reconciled,
        counts: PoolCounts,
        done: Sequence[Done],
        around: Around,
    ) -> None:
        """A pool was looked at, and this was done."""
        spec, name = compiled.spec, compiled.params.name
        accepted = Condition(ACCEPTED, "True", "Accepted", "the WarmPool can be used as it stands")
        failed = next((each.outcome for each in done if each.outcome.became is not Became.DONE), None)
        if done:
            self._failed[name] = failed
        told = (
            accepted,
            self._acting(compiled, failed, around.frozen),
            _followed(around),
            *map(_condition, outcome.conditions),
        )
        news = self._loans.get(name) or self._loans.setdefault(name, LoanNews(self._status_of(name)))
        of_loans = list(news.news(around.loans, outcome.decision.now_s))
        counts = replace(counts, loans=news.counts.made, recalls=news.counts.recalled)
        status = pool_status(outcome.decision, outcome.state, told, counts, spec.backend.value)
        status = replace(with_loans(status, outcome.lending, around.loans), gang_gpus=outcome.gangs.held_gpus)
        self._tell(status, compiled.uid, compiled.generation)
        ref = _ref(name, compiled.uid)
        for event in of_loans:
            self._events.note(ref, "Normal", event.word, event.words)
        for words, number in Counter(_words(each) for each in done if each.outcome.became is Became.DONE).items():
            self._events.note(ref, "Normal", words[0], f"{number} {words[1]}")
        for each in done:
            if each.outcome.became is not Became.DONE:
                self._events.note(ref, "Warning", "WriteFailed", f"{each.outcome.became.value}: {each.outcome.words}")

    def _acting(self, compiled: Compiled, failed: Outcome | None, frozen: str | None) -> Condition:
        """Whether decisions come true: a refusal counts until something was written, a doubt until it was read."""
        if compiled.params.observe:
            return Condition(ACTING, "False", "Observe", "spec.backend is observe: decided and told only")
        if frozen is not None:
            return Condition(ACTING, "False", "Frozen", f"the whole cluster is frozen: {frozen}")
        if failed is not None and failed.became is Became.UNKNOWN:
            return Condition(ACTING, "Unknown", "OutcomeUnknown", f"nothing more until it is read: {failed.words}")
        last = self._failed.get(compiled.params.name)
        if last is not None and last.became is Became.REFUSED:
            return Condition(ACTING, "False", "Refused", last.words)
        return Condition(ACTING, "True", "Acting", "what is decided is carried out")

    def _status_of(self, name: str) -> dict[str, Any]:
        """What the WarmPool's status says as it was last seen."""
        found = self._objects.get(name)
        return {} if found is None else msgspec.json.decode(found.status, type=dict[str, Any])

    def _tell(self, status: PoolStatus, uid: str, generation: int) -> None:
        name = status.pool
        before, self._told[name] = self._told.get(name), status
        for condition in _turned(before, status):
            ref = _ref(name, uid)
            if condition.status == "False":
                self._events.note(ref, "Warning", condition.reason, condition.message)
            else:
                self._events.note(ref, "Normal", condition.type, condition.message)
        gist = (uid, generation, *gist_of(status))
        found = self._objects.get(name)
        if self._gists.get(name) == gist or found is None:
            return
        self._gists[name] = gist
        written, seen = custom_resource(written_of(status, generation, self._clock.now())), self._status_of(name)
        if status.loans is None:  # whose they are is not known yet: what was told of them is left as it is
            written |= {field: seen[field] for field in ("loans", "loansLeftOut") if field in seen}
        self._statuses.put("", name, written, seen=seen)


def _followed(around: Around) -> Condition:
    if not around.problems:
        return Condition(FOLLOWED, "True", "Followed", "everything that pools rest on is read")
    return Condition(FOLLOWED, "False", "Unread", f"not read: {'; '.join(around.problems[:3])}")


def _condition(one: core.Condition) -> Condition:
    return Condition(one.aspect.value, _TRUTH[one.holds], one.word, one.message)


def _turned(before: PoolStatus | None, now: PoolStatus) -> Iterator[Condition]:
    """Conditions that became false, and those that are well again; whether the target is met is no news."""
    earlier = {} if before is None else {c.type: c.status for c in before.conditions}
    for condition in now.conditions:
        was = earlier.get(condition.type)
        if condition.type != "Ready" and condition.status != was and "False" in {condition.status, was}:
            yield condition


def _words(done: Done) -> tuple[str, str]:
    """The event of something that was done: a word for programs, and a sentence without its number."""
    intent, why = done.intent, done.intent.reason.value
    match intent:
        case CreateSlot():
            return "SlotsOrdered", f"ordered in tier {intent.tier}: {why}"
        case CreateHolder():
            return "GangNodesAsked", f"pods that hold places in tier {intent.tier} for {intent.gang}"
        case DeleteSlot(of_gang=True):
            return "GangNodesGivenBack", f"pods that held places for a gang: {why}"
        case DeleteSlot():
            return "SlotsDeleted", f"deleted: {why}"
        case MarkSlot() | MarkNodeEnds():
            return "SlotsMarked", f"marked: {why}"
        case DeleteClaim():
            return "NodeClaimDeleted", f"deleted: NodeClaim {intent.name}: {why}"
        case CreateNodePool():
            return "NodePoolCreated", f"made: NodePool {intent.name}: {why}"
        case _:
            return "NodePoolEdited", f"edited: NodePool {intent.name}: {why}"


def _ref(name: str, uid: str) -> TargetRef:
    return TargetRef(GROUP, VERSION, "warmpools", "WarmPool", "", name, uid)
