"""What warm pools have learnt, over restarts: read once when a replica begins to lead, saved now and then.

Enters: the store of checkpoints, the states of pools. Leaves: the state that a pool begins with. What cannot be read is
said, and the pool begins afresh; of a pool that is not looked at since the start what was kept stays as it was.
"""

from collections.abc import Container, Mapping
from typing import Any, Final

import structlog

from autoscaler.app.stores import Saver
from autoscaler.core.pool import clamped
from autoscaler.core.pool import state as pool_state
from autoscaler.core.pool.state import PoolState
from autoscaler.ports import PortError, StateStore

LOG: Final = structlog.get_logger("headroom")

CLOCK: Final = "this machine's clock, or that of the one that led before, is or was set wrong"


class PoolMemory:
    """Of all pools of a cluster."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._saver = Saver(store, "what warm pools learnt is not kept")
        self._saved: Mapping[str, Any] = {}

    async def restore(self) -> None:
        """Read what was kept; nothing of it where the store cannot be read, which is said."""
        try:
            self._saved = await self._store.load()
        except PortError as error:
            LOG.warning("what warm pools learnt is not restored", why=str(error))

    def of(self, name: str, now_s: float) -> PoolState:
        """What was kept of a pool, without instants later than now, or the state of one that has seen nothing."""
        saved = self._saved.get(name)
        if saved is None:
            return PoolState()
        try:
            state = pool_state.unpack(saved)
        except ValueError as error:
            LOG.warning("what a warm pool learnt is not restored", pool=name, why=str(error))
            return PoolState()
        known = clamped.until(state, now_s)
        if known.history is not state.history:
            LOG.warning("what a warm pool learnt is of minutes to come: they are left out", pool=name, why=CLOCK)
        return known

    async def keep(self, states: Mapping[str, PoolState], there: Container[str]) -> None:
        """Save the states, as far as the store lets this replica, and what was read of other pools that are `there`."""
        unread = {name: saved for name, saved in self._saved.items() if name in there}
        await self._saver.save(unread | {name: pool_state.pack(state) for name, state in states.items()})
