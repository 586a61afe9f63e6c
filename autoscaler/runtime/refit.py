"""Has models fitted away from the loop and hands them to the core.

Enters: fit requests of the core. Leaves: fitted models, installed as soon as they come; each takes effect at the
instant its request names, so that how long a fit took changes nothing unless it came too late, which a note says.
"""

import asyncio
from collections.abc import Callable

from autoscaler.core import engine
from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.forecast.training import REFIT_S, FitRequest, needed_bins
from autoscaler.core.params import BIN_S
from autoscaler.core.state import Table
from autoscaler.ports import Clock, Fault, ModelFitter, PortError
from autoscaler.runtime.lanes import CROWD, phase_ratio
from autoscaler.runtime.records import Event, Recorder

SPREAD_S = 0.25
"""Between two first fits of a crowd, on average; one takes some 0.04 s, and its training set waits in memory."""


class InlineFitter:
    """Fits in the caller's own thread: for simulated time, where a fit takes no time at all."""

    def __init__(self, fit: Callable[[FitRequest], FittedModel]) -> None:
        self._fit = fit

    async def fit(self, request: FitRequest) -> FittedModel:
        """The fitted model. Raises PortError(INVALID) where the data cannot be fitted."""
        try:
            return self._fit(request)
        except ValueError as error:
            raise PortError(Fault.INVALID, str(error)) from error


class Refit:
    """One fit at a time; of several requests of one workload only the newest is fitted. `timeout_s` is real time."""

    def __init__(
        self, *, table: Table, fitter: ModelFitter, clock: Clock, recorder: Recorder, timeout_s: float
    ) -> None:
        self._table = table
        self._fitter = fitter
        self._clock = clock
        self._recorder = recorder
        self._timeout_s = timeout_s
        self._waiting: dict[str, FitRequest] = {}
        self._bell = asyncio.Event()

    def spread(self, name: str) -> None:
        """Give a workload of a crowd that is at its beginning its own time for its first fit; one of few asks at once.

        What a checkpoint brought back is enough for a fit; a new workload must first have seen enough.
        """
        crowd = len(self._table.rows)
        if crowd < CROWD:
            return
        row = self._table.rows[name]
        wait_s = 0.0 if self._table.history.head[row] >= 0 else needed_bins(1) * BIN_S
        wait_s += phase_ratio(name) * crowd * SPREAD_S
        self._table.track(row).fit_asked_s = self._clock.now() + wait_s - REFIT_S

    def ask(self, request: FitRequest) -> None:
        """Queue a request; an older one of the same workload that was not begun is dropped."""
        self._waiting[request.workload] = request
        self._bell.set()

    async def run(self) -> None:
        """Fit what is asked for, oldest workload first, until cancelled."""
        while True:
            await self._bell.wait()
            self._bell.clear()
            while self._waiting:
                await self._one(self._waiting.pop(next(iter(self._waiting))))

    async def _one(self, request: FitRequest) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                model = await self._fitter.fit(request)
        except TimeoutError:
            self._recorder.note(Event.FIT_FAILED, f"not done within {self._timeout_s:g} s", request.workload)
            return
        except PortError as error:
            self._recorder.note(Event.FIT_FAILED, str(error), request.workload)
            return
        if request.workload not in self._table.rows:
            return
        engine.install(self._table, request.workload, model)
        self._recorder.fitted(request.workload, model)
        late_s = self._clock.now() - request.in_force_at_s
        if late_s > 0:
            self._recorder.note(Event.FIT_LATE, f"{late_s:.1f} s after its time", request.workload)
