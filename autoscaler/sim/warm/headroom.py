"""Our own pool as a policy of the simulated plant: the core's look at the world, its state carried on."""

from collections.abc import Iterable

from autoscaler.core.pool.ahead import Ahead
from autoscaler.core.pool.intents import Intent, PoolDecision
from autoscaler.core.pool.params import PoolParams
from autoscaler.core.pool.reconcile import reconcile
from autoscaler.core.pool.state import PoolState
from autoscaler.sim.warm.plant import Plant


class HeadroomPool:
    """One warm pool; `decision` is the last one, `ahead` what it says of the next start."""

    def __init__(self, params: PoolParams) -> None:
        self._params, self.state = params, PoolState()
        self.decision: PoolDecision | None = None
        self.ahead: Ahead | None = None

    def act(self, plant: Plant) -> Iterable[Intent]:
        """The intents of one look."""
        done = reconcile(self._params, plant.world(), self.state, plant.now_s)
        self.state, self.decision, self.ahead = done.state, done.decision, done.ahead
        return done.intents
