"""What of a cluster is followed, and whom to tell of its changes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.intake import Most
from autoscaler.adapters.kube.pods import Pod
from autoscaler.adapters.kube.pulls import Pull
from autoscaler.api.claims import Kind

GROUP: Final = "headroom.dev"
VERSION: Final = "v1alpha1"

FREEZE_KEY: Final = "freeze"
"""The entry of the freeze ConfigMap; any text but "false" and "" freezes, and is the reason that people read."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is followed: `namespaces` empty means all of them."""

    kinds: tuple[Kind, ...]
    namespaces: tuple[str, ...]
    own_namespace: str
    freeze_config_map: str
    most: Most
    """How many workloads are taken up."""
    gateway_namespaces: tuple[str, ...] = ()
    """Where the pods of gateways and of the GPU exporter are, which are followed besides."""
    keda_addresses: frozenset[str] = frozenset()
    """The scalerAddresses of ScaledObjects that mean us."""

    def paths(self, root: str, plural: str, also: Iterable[str]) -> list[str]:
        """Where a resource is read: everywhere at once, or in each namespace and in those of `also`."""
        namespaces = dict.fromkeys((*self.namespaces, *also)) if self.namespaces else ()
        return [f"{root}/namespaces/{name}/{plural}" for name in namespaces] or [f"{root}/{plural}"]


def root_of(kind: Kind) -> str:
    """The path of a kind's group and version."""
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


@dataclass(frozen=True, slots=True)
class Hooks:
    """Whom to tell; each is called in the event loop and must not wait."""

    claim: Callable[[str], None]
    """The claim on a workload, or who asks for it in vain, changed."""
    pods: Callable[[str], None]
    """Pods or the replica count of a workload changed."""
    limits: Callable[[str], None]
    """Quotas or limit ranges of a namespace changed."""
    freeze: Callable[[], None]
    pod: Callable[[Change[Pod]], None]
    """A pod changed, whoever's it is."""
    pull: Callable[[Pull], None]
    """A pod's image is on its node."""
