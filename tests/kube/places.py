"""The policy that holds pods of JobSets to nodes, as it is applied."""

from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.batch_holds import Policy
from tests.conftest import ROOT

PLACES: Final = ROOT / "config/rbac/jobsets/places-policy.yaml"


def places() -> dict[str, Any]:
    """The policy as a manifest; its binding stands behind it."""
    made: dict[str, Any] = msgspec.yaml.decode(PLACES.read_text().split("\n---\n")[0])
    return made


def places_policy() -> Policy:
    """The policy as it is read."""
    return msgspec.convert(places(), Policy)
