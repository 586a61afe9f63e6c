"""Metrics of workloads: from their own pods, and where these cannot be asked from the Prometheus their policy names.

Enters: targets, as the scraper takes them, and which endpoint stands behind which workload. Leaves: one sample per
look. Prometheus is asked only when no page of the workload can be read, because its numbers are older; what neither can
tell is one error with both their words.
"""

from collections.abc import Mapping

from autoscaler.adapters.engines.profiles import Profile
from autoscaler.adapters.engines.scraper import Scraper
from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.adapters.prometheus.source import PrometheusSource
from autoscaler.ports import MetricSample, PortError


class Signals:
    """A MetricSource over the scraper and the named endpoints; told of targets like the scraper alone."""

    def __init__(self, scraper: Scraper, endpoints: Mapping[str, PrometheusSource]) -> None:
        self._scraper = scraper
        self._endpoints = endpoints
        self._behind: dict[str, str] = {}
        """Workload -> the endpoint that its policy names."""
        self._targets: dict[str, ScrapeTarget | GatewayTarget] = {}
        self._lost: dict[str, str] = {}
        """Workload -> why its endpoint gave nothing when it was asked last."""

    def stand_behind(self, workload: str, endpoint: str | None) -> None:
        """Ask this endpoint, if there is one of the name, when the workload's pods cannot be asked."""
        before = self._behind.get(workload)
        if before == endpoint:
            return
        if before is not None:
            self._endpoints[before].forget(workload)
            del self._behind[workload]
            self._lost.pop(workload, None)
        if endpoint is not None and endpoint in self._endpoints:
            self._behind[workload] = endpoint
            for target in self._targets.values():
                if target.workload == workload:
                    self._endpoints[endpoint].put(target)

    def put(self, target: ScrapeTarget | GatewayTarget) -> None:
        """Ask this target from now on."""
        self._scraper.put(target)
        self._targets[target.uid] = target
        if target.workload in self._behind:
            self._endpoints[self._behind[target.workload]].put(target)

    def drop(self, uid: str) -> None:
        """Ask it no more."""
        self._scraper.drop(uid)
        target = self._targets.pop(uid, None)
        if target is not None and target.workload in self._behind:
            self._endpoints[self._behind[target.workload]].drop(uid)

    def forget(self, workload: str) -> None:
        """Ask nobody of this workload any more."""
        self.stand_behind(workload, None)
        self._scraper.forget(workload)
        self._targets = {uid: target for uid, target in self._targets.items() if target.workload != workload}

    def learn(self, profile: Profile) -> None:
        """Know a profile from now on."""
        self._scraper.learn(profile)
        for source in self._endpoints.values():
            source.learn(profile)

    def unlearn(self, name: str) -> None:
        """Know a profile no more; a target that has it still is silent."""
        self._scraper.unlearn(name)
        for source in self._endpoints.values():
            source.unlearn(name)

    async def read(self, workload: str) -> MetricSample:
        """The newest sample of the workload. Raises PortError with what everybody said who was asked."""
        try:
            sample = self._scraper.sample(workload)
        except PortError as error:
            endpoint, direct = self._behind.get(workload), error
            if endpoint is None:
                raise
        else:
            self._lost.pop(workload, None)
            return sample
        try:
            sample = await self._endpoints[endpoint].read(workload)
        except PortError as error:
            words = f"prometheus {endpoint}: {error}"
            if self._behind.get(workload) == endpoint:  # another may stand there by now, or nobody scale the workload
                self._lost[workload] = words
            raise PortError(error.fault, f"{direct}; {words}") from error
        self._lost.pop(workload, None)
        return sample

    def problem(self, workload: str) -> str | None:
        """Why the endpoint behind a workload gave nothing when it was asked last; None where it did or was not."""
        return self._lost.get(workload)
