"""What a follower needs to take over warm: the leader's checkpoints, newer than those it keeps in the cluster.

Enters: a driver that leads, or the address of the one that does. Leaves: the same checkpoints on the other side. A
follower that cannot reach the leader keeps the last snapshot and says how old it is.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.store import Stored
from autoscaler.adapters.web.peer import Peer
from autoscaler.ports import Clock, Fault, PortError
from autoscaler.runtime.supervisor import Runtime

EVERY_S: Final = 10.0
"""A snapshot costs the leader some milliseconds per hundred workloads; a take-over loses what came after the last."""

PATH: Final = "/api/snapshot"

_CHECKPOINTS: Final = msgspec.json.Decoder(dict[str, dict[str, Any]])


_ONCE: Final = "headroom"
"""What checkpoints were called after whatever the lease was called."""


def left(workloads: int, lease: str) -> str:
    """What the last leader left of how many workloads, in words for whoever has just restarted or upgraded it."""
    if workloads:
        return f"checkpoints of {workloads} workloads, which go on from there"
    named = Stored.CHECKPOINTS.prefix(lease)
    once = Stored.CHECKPOINTS.prefix(_ONCE)
    older = f"; a version that called them {once}-... for every lease left its own there" if named != once else ""
    return f"no checkpoints were read (ConfigMaps {named}-...): what was learnt of workloads begins afresh{older}"


class Kept:
    """The leader's side: its newest snapshot as bytes."""

    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self.bytes: bytes | None = None
        self._runtime = runtime
        self._clock = clock

    async def run(self) -> None:
        """Make one now and then, until cancelled."""
        while True:
            checkpoints = await self._runtime.snapshot()
            self.bytes = await asyncio.to_thread(msgspec.json.encode, checkpoints)
            await self._clock.sleep_until(self._clock.monotonic() + EVERY_S)


class Fetched:
    """The follower's side: the newest snapshot that the leader gave."""

    def __init__(self, peer: Peer, clock: Clock, address: Callable[[], str]) -> None:
        self.checkpoints: Mapping[str, dict[str, Any]] = {}
        self.error: PortError | None = None
        """Why the last attempt failed."""
        self._peer = peer
        self._clock = clock
        self._address = address
        self._fetched_s: float | None = None

    @property
    def age_s(self) -> float | None:
        """Seconds since the last snapshot; None without one."""
        return None if self._fetched_s is None else self._clock.monotonic() - self._fetched_s

    async def run(self) -> None:
        """Fetch now and then, until cancelled."""
        while True:
            address = self._address()
            if address:
                await self._fetch(address)
            await self._clock.sleep_until(self._clock.monotonic() + EVERY_S)

    async def _fetch(self, address: str) -> None:
        try:
            body = await self._peer.get(address, PATH)
            self.checkpoints = await asyncio.to_thread(_CHECKPOINTS.decode, body)
        except PortError as error:
            self.error = error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self.error = PortError(Fault.INVALID, f"{address}{PATH}: {error}")
        else:
            self._fetched_s, self.error = self._clock.monotonic(), None
