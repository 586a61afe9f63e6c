"""The election of the one process that may write, over a Lease, on monotonic time only.

A leader may write until `deadline_s` after its last confirmed renewal *began*; whoever waits takes the Lease `lease_s`
after it last saw the record change. Both are durations on each one's own clock: skewed or jumping wall clocks change
nothing, the instants in the Lease are for people. Every write is conditional on the version that was read, every call
ends with the lead, and losing the lead is final: the process is expected to end.

A Lease that was released, or that nobody ever held, is taken at once. A missing one may have been deleted under a
leader that has not noticed: it is made without a holder and then waited for like any other, and so is one whose holder
somebody erased.
"""

import math
import zlib
from typing import Final

import numpy as np

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.lease_object import Fields, Holder, LeaseObject, held, holder_of, vacant
from autoscaler.adapters.kube.objects import Lease, LeaseSpec
from autoscaler.adapters.kube.writing import Requests
from autoscaler.ports import Clock, Fault

MOST_ASKED_S: Final = 5.0
"""A Retry-After is honoured up to here: a take-over must not wait for an hour that a proxy made up."""

FLOOR_S: Final = 0.01
"""No leader waits for less, so that it never asks in a busy loop."""


class Elector:
    """One candidate: `campaign`, then `hold` until it returns, then `release`.

    `identity` must be unique to this process, not to its pod; `address` is where others find it. Raises ValueError
    unless 0 < `renew_s` < `deadline_s` < `lease_s`. Give it a client of its own, so that no other traffic delays it.
    """

    def __init__(
        self,
        api: Requests,
        *,
        namespace: str,
        name: str,
        identity: str,
        address: str,
        clock: Clock,
        lease_s: float = 10.0,
        renew_s: float = 2.0,
        deadline_s: float = 7.0,
    ) -> None:
        if not 0 < renew_s < deadline_s < lease_s:
            raise ValueError(f"renew {renew_s} s, deadline {deadline_s} s, lease {lease_s} s: they must increase")
        self.error: KubeError | None = None
        """Why the last look at the Lease, or the last renewal, failed; None when it did not."""
        self._lease = LeaseObject(api, namespace, name)
        self._identity = identity
        self._address = address
        self._clock = clock
        self._lease_s = lease_s
        self._renew_s = renew_s
        self._deadline_s = deadline_s
        self._rng = np.random.default_rng(zlib.crc32(identity.encode()))
        self._until_s = -math.inf
        self._ended = False
        self._since_s = 0.0
        self._term: int | None = None
        """What this process last claimed, answered or not."""
        self._version: str | None = None
        """The Lease's version as this leader left it; None when it has to be looked at."""
        self._last: Lease | None = None
        self._changed_s = -math.inf
        self._held_term: int | None = None
        """The term of the last holder that was seen."""

    @property
    def holder(self) -> Holder | None:
        """Who held the Lease when it was last looked at; None when nobody did."""
        return None if self._last is None else holder_of(self._last)

    @property
    def term(self) -> int | None:
        """Which lead this is, counted over all holders; None before the first claim."""
        return self._term

    def may_write(self) -> bool:
        """Whether this process leads at this instant. Ask immediately before every write."""
        return self.remaining_s() > 0.0

    def remaining_s(self) -> float:
        """Seconds of the lead that are certain; 0 for everybody else. No write may be waited for longer."""
        return max(0.0, self._until_s - self._clock.monotonic())

    async def campaign(self) -> None:
        """Return once this process leads. Whatever the server does, it goes on asking; `error` says what it did.

        Raises ValueError where this elector has led before: another is needed.
        """
        if self._ended:
            raise ValueError("this elector has led before, and the lead is taken once only")
        while True:
            asked_s = 0.0
            try:
                led = await self._run()
                self.error = None
                if led:
                    return
            except KubeError as error:
                self.error, asked_s = error, min(error.retry_after_s or 0.0, MOST_ASKED_S)
            # Often enough for a released lead to be taken up within a second.
            await self._clock.sleep_until(self._clock.monotonic() + asked_s + self._drawn(0.5))

    async def hold(self) -> None:
        """Renew the lead, and return when it is lost: taken by another, or not confirmed before the deadline."""
        pause_s = self._drawn(1.0)
        while self.may_write():
            await self._clock.sleep_until(self._clock.monotonic() + max(FLOOR_S, min(pause_s, self.remaining_s())))
            if not self.may_write():
                break
            pause_s = self._drawn(1.0)
            try:
                if not await self._renew():
                    break
                self.error = None
            except KubeError as error:
                self.error = error
                pause_s = self._drawn(0.25) + min(error.retry_after_s or 0.0, self.remaining_s() / 2)
                if error.status in {404, 409} and self._version is not None:
                    self._version, pause_s = None, 0.0
        self._end()

    async def release(self, timeout_s: float = 2.0) -> bool:
        """Stop leading and give the Lease back, so that the next one need not wait; False when that failed.

        Call it when nothing of this process is writing any more.
        """
        self._end()
        end_s = self._clock.monotonic() + timeout_s
        for _ in range(2):
            try:
                await self._give_back(end_s)
            except KubeError as error:
                self.error, self._version = error, None
                if error.status != 409:
                    break
            else:
                return True
        return False

    async def _run(self) -> bool:
        """One look at the Lease, and a claim where it is free; True when this process leads."""
        lease = self._observe(await self._lease.look(self._renew_s))
        if lease is None:
            self._observe(await self._lease.make(vacant(self._lease_s, self._clock.now()), None, self._renew_s))
            return False
        if not self._free(lease.spec):
            return False
        self._term = (lease.spec.lease_transitions or 0) + 1
        self._since_s = self._clock.now()
        try:
            await self._claim(lease.metadata.resource_version, self._renew_s)
        except KubeError as error:
            if error.status in {404, 409}:
                return False
            raise
        return self.may_write()

    async def _renew(self) -> bool:
        """One renewal; False when the Lease is another's."""
        if self._version is None:
            lease = self._observe(await self._lease.look(self._in_time_s()))
            if lease is None:
                # Deleted under this leader. Whoever noticed has to wait for longer than this lead lasts.
                began_s = self._clock.monotonic()
                self._confirm(await self._lease.make(self._record(), self._address, self._in_time_s()), began_s)
                return True
            if lease.spec.holder_identity and not self._mine(lease.spec):
                return False
            self._version = lease.metadata.resource_version
        await self._claim(self._version, self._in_time_s())
        return True

    async def _claim(self, version: str, timeout_s: float) -> None:
        began_s = self._clock.monotonic()
        self._confirm(await self._lease.write(version, self._record(), self._address, timeout_s), began_s)

    def _confirm(self, lease: Lease, began_s: float) -> None:
        self._observe(lease)
        if not self._mine(lease.spec):
            raise KubeError(Fault.INVALID, "the API server's answer to a claim shows another holder")
        self._version = lease.metadata.resource_version
        if not self._ended:
            self._until_s = began_s + self._deadline_s

    def _end(self) -> None:
        """Lead no more, not even when a renewal that is on its way is confirmed."""
        self._until_s, self._ended = -math.inf, True

    async def _give_back(self, end_s: float) -> None:
        if self._term is None:
            return
        if self._version is None:
            lease = self._observe(await self._lease.look(max(0.0, end_s - self._clock.monotonic())))
            if lease is None or not self._mine(lease.spec):
                return
            self._version = lease.metadata.resource_version
        empty: Fields = {"holderIdentity": "", "renewTime": None, "leaseTransitions": self._term}
        left_s = max(0.0, end_s - self._clock.monotonic())
        self._observe(await self._lease.write(self._version, empty, None, left_s))

    def _free(self, spec: LeaseSpec) -> bool:
        """Whether the Lease may be claimed now, as far as this process has watched it."""
        # A release leaves no renewTime, and the term of the holder that was seen last: an erased holder leaves either.
        given_back = not spec.holder_identity and spec.renew_time is None
        if self._mine(spec) or (given_back and self._held_term in {None, spec.lease_transitions or 0}):
            return True
        # The holder may have been started with a longer lease than this process was.
        wait_s = max(self._lease_s, spec.lease_duration_seconds or 0)
        return self._clock.monotonic() >= self._changed_s + wait_s

    def _mine(self, spec: LeaseSpec) -> bool:
        """Whether the claim that stands is this process's, answered or not. The name alone may be a predecessor's."""
        return self._term is not None and (spec.holder_identity, spec.lease_transitions) == (self._identity, self._term)

    def _observe(self, lease: Lease | None) -> Lease | None:
        """Remember the Lease, and that its record changed: it did so no later than now."""
        if lease is not None and (self._last is None or self._last.spec != lease.spec):
            self._changed_s = self._clock.monotonic()
        if lease is not None and lease.spec.holder_identity:
            self._held_term = lease.spec.lease_transitions or 0
        self._last = lease
        return lease

    def _record(self) -> Fields:
        """The spec of this leader, renewed now."""
        return held(self._identity, self._lease_s, since_s=self._since_s, now_s=self._clock.now(), term=self._term)

    def _in_time_s(self) -> float:
        """The limit of a leader's call: it does not outlive the lead, and one that hangs leaves time for another."""
        return min(self._renew_s, self.remaining_s())

    def _drawn(self, periods: float) -> float:
        """Seconds between half of and all of that many renewal periods: candidates must not march in step."""
        return periods * self._renew_s * float(self._rng.uniform(0.5, 1.0))
