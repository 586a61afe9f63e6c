"""What previews of HPAs see of the cluster: each ScaledObject's HPA, its target, and what HPAs can be told here.

Enters: a followed cluster, an API server. Leaves: answers from memory, in any thread. Whether an HPA may have
tolerances of its own is seen from one that has them, or follows from the server's version; where neither tells, it may
not.
"""

import re
from typing import Final

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.scaling import Hpa, Target
from autoscaler.adapters.kube.writing import Requests, decoded
from autoscaler.api.claims import Claim, TargetRef
from autoscaler.ports import Clock

TOLERANCE_FROM: Final = (1, 35)
"""HPAConfigurableTolerance is on by default from here (kubernetes/enhancements, KEP-4951)."""

AGAIN_S: Final = 30.0

_NUMBER: Final = re.compile(r"\d{1,9}")


class _Version(msgspec.Struct):
    major: str = ""
    minor: str = ""
    """Some vendors add a plus sign."""


_version: Final = msgspec.json.Decoder(_Version)


class Followed:
    """The cluster as HPAs' previews see it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version = (0, 0)

    def hpa(self, claim: Claim) -> Hpa | None:
        """The HPA that KEDA keeps for a claim's ScaledObject."""
        if claim.scaled_object is None:
            return None
        return self._cluster.hpas.of(claim.ref.namespace, claim.scaled_object)

    def target(self, ref: TargetRef) -> Target | None:
        """The target as it was last seen."""
        return self._cluster.target(ref)

    def knows_tolerance(self) -> bool:
        """Whether the cluster's HPAs may have a tolerance of their own."""
        return self._cluster.hpas.tolerance_seen or self._version >= TOLERANCE_FROM

    async def learn(self, api: Requests, clock: Clock) -> None:
        """Ask for the server's version until it says."""
        while True:
            try:
                told = decoded(_version, await api.request("GET", "/version"), "GET /version")
            except KubeError:
                await clock.sleep_until(clock.monotonic() + AGAIN_S)
                continue
            self._version = (_leading(told.major), _leading(told.minor))
            return


def _leading(text: str) -> int:
    found = _NUMBER.match(text)
    return int(found[0]) if found else 0
