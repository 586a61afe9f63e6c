"""Whose metrics pages are asked for a claimed workload: its own pods', and those of the gateway in front of it.

Enters: claims, pods. Leaves: targets for whoever reads pages, and profiles of metric names for as long as a policy
names its own. A pod that stops being ready is asked on for as long as it runs: silence that is not asked for would read
as no load.
"""

from collections.abc import Mapping
from typing import Protocol

from autoscaler.adapters.engines.profiles import Profile, custom
from autoscaler.adapters.engines.targets import GatewayTarget, ScrapeTarget
from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.membership import cut_off, ended, serving_since_s
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.selectors import matches
from autoscaler.adapters.kube.shapes import metrics_port
from autoscaler.api.claims import Claim
from autoscaler.settings.parts import Gateway


class Pages(Protocol):
    """What is told whose metrics to ask."""

    def put(self, target: ScrapeTarget | GatewayTarget) -> None:
        """Ask this target from now on."""
        ...

    def learn(self, profile: Profile) -> None:
        """Know a profile from now on."""
        ...

    def unlearn(self, name: str) -> None:
        """Know a profile no more; a target that has it still is silent."""
        ...

    def stand_behind(self, workload: str, endpoint: str | None) -> None:
        """Ask this Prometheus, if the settings name it, when the workload's pods cannot be asked."""
        ...

    def drop(self, uid: str) -> None:
        """Ask it no more."""
        ...

    def forget(self, workload: str) -> None:
        """Ask nobody of this workload any more."""
        ...


class Asking:
    """Keeps the pages that are asked in step with claims and pods. Raises InputError for a selector that is none."""

    def __init__(self, cluster: Cluster, pages: Pages, gateways: Mapping[str, Gateway]) -> None:
        for gateway in gateways.values():
            matches(gateway.selector, {})  # a selector that cannot be read must not wait for the first pod to say so
        self._cluster = cluster
        self._pages = pages
        self._gateways = gateways
        self._asked: dict[str, set[str]] = {}
        """Workload -> UIDs of the pods whose pages are asked."""
        self._own: dict[str, str] = {}
        """Workload -> the profile that its policy's own names make."""
        self._fronted: dict[str, str] = {}
        """Workload -> the gateway in front of it."""
        self._pickers: dict[str, set[str]] = {}
        """Workload -> UIDs of the gateway's pods whose pages are asked."""

    def take(self, key: str, claim: Claim) -> None:
        """Ask as a new or changed claim wants it."""
        gateway = claim.spec.gateway
        if key in self._fronted and self._fronted[key] != gateway:
            self._leave(key)
        if gateway is not None and gateway in self._gateways:
            self._fronted[key] = gateway
            for pod in self._cluster.pods():
                self._picker(key, self._gateways[gateway], pod)
        self._pages.stand_behind(key, claim.spec.prometheus)
        self.look(key, claim)

    def look(self, key: str, claim: Claim) -> None:
        """Ask the serving pods of a workload for their metrics, and those that served and are not ready any more.

        These are not left out: when a network splits, every pod behind it is soon not ready, and no pods at all would
        read as no load at all. Where their pages cannot be had either, nothing is known.
        """
        before, asked = self._asked.get(key, set()), set[str]()
        profile, old = self._profile(key, claim), self._own.get(key)
        for pod in self._cluster.members.pods(claim.ref).values():
            port = claim.spec.metrics_port or metrics_port(pod.spec)
            meta = pod.metadata
            if not _worth_asking(pod, meta.uid in before) or port is None:
                continue
            asked.add(meta.uid)
            self._pages.put(
                ScrapeTarget(
                    key, meta.name, meta.uid, pod.status.pod_ip, port, claim.spec.metrics_path,
                    profile, serving_since_s(pod),
                )
            )  # fmt: skip
        for uid in before - asked:
            self._pages.drop(uid)
        self._asked[key] = asked
        if old is not None and old != profile:
            self._unlearn(key)

    def on_gateway(self, change: Change[Pod]) -> None:
        """A pod changed that may be a gateway's."""
        pod = change.new or change.old
        assert pod is not None
        for key, name in self._fronted.items():
            self._picker(key, self._gateways[name], pod, gone=change.new is None)

    def forget(self, key: str) -> None:
        """Ask nobody of this workload any more."""
        self._leave(key)
        self._asked.pop(key, None)
        self._pages.forget(key)
        self._unlearn(key)

    def _profile(self, key: str, claim: Claim) -> str:
        """The name of the profile by which the pods' pages are read; names of the policy's own are a profile too."""
        spec = claim.spec
        if spec.metrics is None:
            return spec.engine.value
        own = custom(f"custom of {key}", spec.metrics.named(), kv_percent=spec.metrics.kv_percent)
        self._pages.learn(own)
        self._own[key] = own.name
        return own.name

    def _unlearn(self, key: str) -> None:
        name = self._own.pop(key, None)
        if name is not None:
            self._pages.unlearn(name)

    def _picker(self, key: str, gateway: Gateway, pod: Pod, *, gone: bool = False) -> None:
        """Ask a gateway's pod, or no more; one that is not ready any more may hold a queue all the same."""
        meta = pod.metadata
        if meta.namespace != gateway.namespace or not matches(gateway.selector, meta.labels):
            return
        asked, uid = self._pickers.setdefault(key, set()), f"{meta.uid}/{key}"
        if gone or not _worth_asking(pod, uid in asked):
            asked.discard(uid)
            self._pages.drop(uid)
            return
        asked.add(uid)
        namespace, _, name = key.partition("/")
        self._pages.put(
            GatewayTarget(
                key, meta.name, uid, pod.status.pod_ip, gateway.port, namespace, gateway.pool or name,
                gateway.path, gateway.profile.value,
            )
        )  # fmt: skip

    def _leave(self, key: str) -> None:
        self._fronted.pop(key, None)
        for uid in self._pickers.pop(key, ()):
            self._pages.drop(uid)


def _worth_asking(pod: Pod, asked: bool) -> bool:
    """Whether a pod serves, or did before and may still; `asked` says that it was asked up to now."""
    served = asked or serving_since_s(pod) is not None or cut_off(pod)
    return served and not ended(pod) and bool(pod.status.pod_ip)
