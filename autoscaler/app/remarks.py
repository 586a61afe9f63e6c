"""What of a policy comes to nothing in this installation, each with its remedy.

Enters: a claim, the names that the administrator gave to gateways and to Prometheus endpoints, how long requests take.
Leaves: sentences for people; nothing here stops or changes anything.
"""

import math
from collections.abc import Collection, Iterator
from typing import Final

from autoscaler.api.claims import Claim, Way
from autoscaler.settings.model import Settings

DEFAULT_GRACE_S: Final = 30
"""What Kubernetes gives a pod whose specification does not say."""


def remarks(claim: Claim, settings: Settings) -> tuple[str, ...]:
    """All of them; none where the policy can be met as it stands."""
    return tuple(_remarks(claim, settings))


def short_grace(grace_s: int | None, long_request_s: float | None) -> tuple[str, ...]:
    """The remark where a pod that goes is given less time than requests take; None for a grace is Kubernetes' own."""
    given_s = DEFAULT_GRACE_S if grace_s is None else grace_s
    if long_request_s is None or given_s >= long_request_s:
        return ()
    needed_s = math.ceil(long_request_s)
    words = (
        f"a pod that goes has {given_s} s to end its requests, and 1 in 100 takes {needed_s} s or longer: taking "
        f"replicas away cuts them off; set terminationGracePeriodSeconds to more than {needed_s}"
    )
    return (words,)


def _remarks(claim: Claim, settings: Settings) -> Iterator[str]:
    spec = claim.spec
    for what, name, known in (
        ("gateway", spec.gateway, settings.gateways),
        ("prometheus", spec.prometheus, settings.prometheus),
    ):
        if name is not None and name not in known:
            yield f"{what} {name}: the settings know {_listed(known)}, so nothing is asked there; have it added to them"
    fronted = spec.gateway is not None and spec.gateway in settings.gateways
    if spec.min_replicas == 0 and not fronted and claim.way is not Way.SCALED_OBJECT:
        yield "minReplicas is 0, and nothing would tell of work at zero: it stays at 1; name a gateway, or ask for 1"
    if settings.budgets.cluster_gpus is not None and settings.watch_namespaces:
        seen = ", ".join(settings.watch_namespaces)
        yield f"the cluster's GPU budget knows of other pods' GPUs only in the namespaces that are watched: {seen}"


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
