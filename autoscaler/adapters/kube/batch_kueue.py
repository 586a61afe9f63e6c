"""Which pieces of work Kueue has taken, where the objects themselves do not say so, and which it may take still.

Enters: changes of Kueue's Workloads, work that came just now. Leaves: whom a Workload belongs to, and who is to be read
anew once time has passed. With `manageJobsWithoutQueueName` Kueue takes Jobs that name no queue of its own, and writes
nothing into one before it lets it start: all that tells is the Workload, which the Job controls. It comes a moment
after the Job. Where somebody started that Job before, Kueue suspends it, takes the Workload away and makes another one:
who took that moment for the end of a claim would start the Job again and again. Verbs: list and watch on workloads.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from autoscaler.adapters.kube.batch_work import Work, gang_name
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.meta import Meta
from autoscaler.ports import Clock

PATHS: Final = ("/apis/kueue.x-k8s.io/v1beta1/workloads", "/apis/kueue.x-k8s.io/v1beta2/workloads")
"""A server has the one, the other or both, by the age of its Kueue."""


TAKEN_WITHIN_S: Final = 3.0
"""From when an object was made, by the API server's clock, which counts whole seconds, until its Workload is looked for
in vain: Kueue 0.17 made them within 0.3 s on a machine that was busy (tests/cluster/test_batch_kueue.py)."""

GONE_S: Final = 30.0
"""A claim stays for so long after the last Workload went: one that Kueue makes anew comes within a second or two (a
guess at what a busy Kueue takes). Where Kueue gives work up for good, it is ours from then on."""


class Workload(msgspec.Struct, frozen=True, gc=False):
    """Kueue's word for a piece of work; what it asks for is read of the piece itself."""

    metadata: Meta = Meta()


class Owned(NamedTuple):
    """The object that a Workload is of."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def gang(self) -> str:
        """What it is called as a piece of work."""
        return gang_name(self.kind, self.namespace, self.name)


class Claims:
    """Who belongs to Kueue, by the Workloads that there are."""

    def __init__(self) -> None:
        self._of: dict[str, set[tuple[str, str]]] = defaultdict(set)
        """Gang -> UIDs of the objects that were taken, each with where that stands."""

    def note(self, path: str, change: Change[Workload]) -> Owned | None:
        """A Workload came, changed or went; whose it is.

        None for nobody's, and where that was known: Kueue writes its progress into a Workload again and again.
        """
        known = change.new or change.old
        assert known is not None
        meta = known.metadata
        owner = next((each for each in meta.owner_references if each.controller), None)
        if owner is None:
            return None
        whose = Owned(owner.kind, meta.namespace, owner.name, owner.uid)
        gang, claim = whose.gang, (owner.uid, f"{path}/{change.key}")
        claims = self._of[gang]
        before = len(claims)
        if change.new is not None:
            claims.add(claim)
        else:
            claims.discard(claim)
        if not claims:
            del self._of[gang]
        return None if len(claims) == before else whose

    def has(self, gang: str, uid: str) -> bool:
        """Whether Kueue has taken this very object."""
        return any(taken == uid for taken, _ in self._of.get(gang, ()))


class LastingClaims:
    """The same as it changes: who belongs to Kueue, or may do so still. `again` has an object read anew."""

    def __init__(self, clock: Clock, again: Callable[[Owned], None]) -> None:
        self._clock, self._again = clock, again
        self._claims = Claims()
        self._gone: dict[str, tuple[str, float]] = {}
        """Gang -> the UID of the object whose last Workload went, and until when it is Kueue's all the same."""
        self._due: dict[Owned, float] = {}
        """Whom to read anew from when on."""
        self._bell = asyncio.Event()

    def note(self, path: str, change: Change[Workload]) -> Owned | None:
        """A Workload came, changed or went; whose it is, where that is to be read anew now."""
        whose = self._claims.note(path, change)
        if whose is None:
            return None
        if change.new is not None:
            was_taken = self._is_lasting(whose.gang, whose.uid)
            self._gone.pop(whose.gang, None)
            return None if was_taken else whose
        if not self._claims.has(whose.gang, whose.uid):
            until_s = self._clock.now() + GONE_S
            self._gone[whose.gang] = whose.uid, until_s
            self._read_at(whose, until_s)
        return None

    def has(self, gang: str, uid: str) -> bool:
        """Whether Kueue has taken this very object."""
        return self._claims.has(gang, uid) or self._is_lasting(gang, uid)

    def may_come(self, work: Work) -> bool:
        """Whether work that was heard of first just now may be Kueue's yet; then it is read anew once that is over."""
        ref, now_s = work.ref, self._clock.now()
        whose = Owned(ref.kind, ref.namespace, ref.name, ref.uid)
        until_s = self._due.get(whose, min(work.created_s, now_s) + TAKEN_WITHIN_S)
        if not work.suspended or work.ended or work.manager or now_s >= until_s:
            return False
        self._read_at(whose, until_s)
        return True

    async def run(self) -> None:
        """Have everything read anew at its time, until cancelled."""
        while True:
            self._bell.clear()
            now_s = self._clock.now()
            for whose in [whose for whose, at_s in self._due.items() if at_s <= now_s]:
                if self._gone.get(whose.gang, ("", now_s + 1.0))[1] <= now_s:
                    del self._gone[whose.gang]
                self._again(whose)  # its time is known still: a clock that is behind the server's would begin another
                del self._due[whose]
            if self._due:
                wait_s = max(0.0, min(self._due.values()) - self._clock.now())
                await self._clock.sleep_until(self._clock.monotonic() + wait_s, self._bell)
            else:
                await self._bell.wait()

    def _is_lasting(self, gang: str, uid: str) -> bool:
        gone, until_s = self._gone.get(gang, ("", 0.0))
        return gone == uid and self._clock.now() < until_s

    def _read_at(self, whose: Owned, at_s: float) -> None:
        self._due[whose] = at_s
        self._bell.set()
