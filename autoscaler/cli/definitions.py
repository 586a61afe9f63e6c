"""Whether the custom resource definitions in a cluster are those of this version.

Enters: a client. Leaves: by kind the fields that one side does not know. The API server drops a field that a definition
does not know, without a word to whoever wrote it.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.api.crd import RESOURCES, VERSION, definition
from autoscaler.cli.reviews import decoded

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
UPGRADE: Final = "helm upgrade, or kubectl apply --server-side -f config/crd"
SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Difference:
    """What a cluster's definition and this version's do not have in common, as dotted fields."""

    kind: str
    name: str
    unknown: tuple[str, ...]
    """Fields of this version that the cluster does not know."""
    foreign: tuple[str, ...]
    """Fields that only the cluster knows."""

    @property
    def words(self) -> str:
        """Who is older, and by what."""
        if self.unknown:
            return f"{self.name} is older than this version: it drops {_some(self.unknown)}"
        return f"{self.name} is newer than this version, which ignores {_some(self.foreign)}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.unknown:
            return UPGRADE
        return "use the command and the controller of the version that installed it"


async def differences(api: KubeApi) -> list[Difference]:
    """Every definition that is installed and is not this version's; one that may not be read is left out.

    Raises KubeError.
    """
    found = []
    for kind, resource in RESOURCES.items():
        ours = definition(resource)
        name = str(ours["metadata"]["name"])
        try:
            theirs = decoded(await api.request("GET", f"{DEFINITIONS}/{name}"))
        except KubeError as error:
            if error.status in {403, 404}:
                continue
            raise
        known, there = _fields(ours), _fields(theirs)
        if known != there:
            found.append(Difference(kind, name, tuple(sorted(known - there)), tuple(sorted(there - known))))
    return found


def missing(served: Collection[str]) -> list[str]:
    """The kinds of this version whose resources are not among those that the cluster serves of our group."""
    return [kind for kind, resource in RESOURCES.items() if resource.plural not in served]


def _fields(definition: Mapping[str, Any]) -> frozenset[str]:
    """The fields of spec and status under our version; none where the version is not there."""
    versions = definition.get("spec", {}).get("versions", ())
    schema: dict[str, Any] = next((one.get("schema", {}) for one in versions if one.get("name") == VERSION), {})
    parts = schema.get("openAPIV3Schema", {}).get("properties", {})
    return frozenset(path for name in ("spec", "status") for path in _below(parts.get(name, {}), name))


def _below(form: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, inner in form.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _below(inner, f"{path}.{name}")
    if "items" in form:
        yield from _below(form["items"], f"{path}[]")


def _some(fields: tuple[str, ...]) -> str:
    more = len(fields) - SHOWN
    return ", ".join(fields[:SHOWN]) + (f" and {more} more" if more > 0 else "")
