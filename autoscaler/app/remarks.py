"""What of a policy comes to nothing in this installation, each with its remedy.

Enters: a claim, the names that the administrator gave to gateways and to Prometheus endpoints. Leaves: sentences for
people; nothing here stops or changes anything.
"""

from collections.abc import Collection, Iterator

from autoscaler.api.claims import Claim, Way
from autoscaler.settings.model import Settings


def remarks(claim: Claim, settings: Settings) -> tuple[str, ...]:
    """All of them; none where the policy can be met as it stands."""
    return tuple(_remarks(claim, settings))


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
