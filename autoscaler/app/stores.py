"""What one replica keeps in the cluster: read with patience, for it is overwritten a minute after it was not read, and
written where it changed.

Enters: a store. Leaves: the same one, whose `load` asks again while the other side does not answer. In the first
seconds of a pod, or while the API server sheds load, a question may fail; what was learnt in weeks would be lost by it.
"""

import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import structlog

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.retry import Backoff, BackoffBounds
from autoscaler.ports import Clock, Fault, PortError, StateStore

PATIENCE_S: Final = 60.0
"""A server that has answered nothing for so long may be away for hours; its own watchers are no better off."""

KEEP_EVERY_S: Final = 60.0
"""So much of what was learnt a crash may cost."""

AGAIN: Final = BackoffBounds(floor_s=0.2, cap_s=5.0)

PASSING: Final = frozenset({Fault.UNAVAILABLE, Fault.TIMEOUT})


LOG: Final = structlog.get_logger("headroom")


class Saver:
    """Saves what differs from what it saved last. One that fails is logged as `failed`, and is made with the next."""

    def __init__(self, store: StateStore, failed: str) -> None:
        self._store = store
        self._failed = failed
        self._saved: Mapping[str, dict[str, Any]] = {}

    async def save(self, packed: Mapping[str, dict[str, Any]]) -> None:
        """Save it, as far as the store lets this replica; `packed` is not changed afterwards."""
        if packed == self._saved:
            return
        try:
            await self._store.save(packed)
            self._saved = packed
        except PortError as error:
            LOG.warning(self._failed, why=str(error))


class Patient:
    """A `StateStore` in front of another one, called `name`, which is asked for `patience_s`."""

    def __init__(self, store: StateStore, clock: Clock, name: str, patience_s: float = PATIENCE_S) -> None:
        self._store = store
        self._clock = clock
        self._patience_s = patience_s
        self._backoff = Backoff(np.random.default_rng(zlib.crc32(name.encode())), AGAIN)

    async def load(self) -> Mapping[str, dict[str, Any]]:
        """What is kept. Raises PortError: at once for what asking again does not mend, else in the end."""
        until_s = self._clock.monotonic() + self._patience_s
        while True:
            try:
                return await self._store.load()
            except PortError as error:
                asked_s = error.retry_after_s if isinstance(error, KubeError) else None
                at_s = self._clock.monotonic() + self._backoff.next_s(asked_s)
                if error.fault not in PASSING or at_s > until_s:
                    raise
            await self._clock.sleep_until(at_s)

    async def save(self, checkpoints: Mapping[str, dict[str, Any]]) -> None:
        """Replace what is kept. Raises PortError."""
        await self._store.save(checkpoints)
