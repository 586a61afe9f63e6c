"""Who made a target and would undo what is patched, in words that say what to do instead.

Whoever controls an object writes its spec. One that leaves the replicas alone cannot be told from one that will not,
and a count that is set back with every reconciliation is worse than one that nobody changes: each is left to its owner.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from autoscaler.adapters.kube.meta import Owner
from autoscaler.errors import printable

OWN_SCALING: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("serving.kserve.io", "InferenceService"): "set the scaling on that object",
        ("serving.kserve.io", "LLMInferenceService"): "set the scaling on that object",
        ("serving.knative.dev", "Revision"): "its scaling is Knative's: set autoscaling.knative.dev/* on the Service",
    }
)
"""What to do where the owner (group and kind) is known. The controllers of all of them write the replicas of what they
own (kserve/kserve, reconcilers of deployments; knative/serving, its autoscaler's scaler)."""


def sets_replicas(owner: Owner) -> bool:
    """Whether an owner of this kind is known to write the replicas of what it controls."""
    return (owner.api_version.rpartition("/")[0], owner.kind) in OWN_SCALING


def owned(owner: Owner, listed: Collection[tuple[str, str]]) -> str:
    """What to tell of a target that `owner` controls; `listed` are the kinds (by group) that may be scaled."""
    place = (owner.api_version.rpartition("/")[0], owner.kind)
    kind, name = printable(owner.kind), printable(owner.name)  # the API server takes any text
    if place in OWN_SCALING:
        return f"{kind} {name} owns it and sets its replicas; {OWN_SCALING[place]}"
    above = f"{kind} {name} controls it and would set its replicas back"
    if place in listed:
        return f"{above}; ask for scaling on the {kind} instead"
    return f"{above}; set them there, or list {kind} in the settings (kinds) if it serves /scale, and ask there"
