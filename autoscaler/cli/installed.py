"""The settings that an installation of the chart runs with, as the chart keeps them in its ConfigMap.

Enters: a client, Headroom's own namespace. Leaves: the text of the settings and where it stands, or why there is none
that is sure to be meant. Whoever gives a file of settings is not asked here.
"""

from dataclasses import dataclass
from typing import Any, Final

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.cli.reviews import decoded
from autoscaler.errors import HeadroomError

FILE: Final = "settings.yaml"
MADE_BY_HELM: Final = "app.kubernetes.io/managed-by=Helm"


class UnknownSettingsError(HeadroomError):
    """Which settings are in force cannot be told; the message says why."""


@dataclass(frozen=True, slots=True)
class Installed:
    """Settings as they stand in `name`, a ConfigMap of Headroom's own namespace."""

    name: str
    text: bytes


async def installed(api: KubeApi, namespace: str) -> Installed | None:
    """The settings of the chart's release in `namespace`; None where the chart is not installed there.

    Raises UnknownSettingsError where they may not be read, or several releases have some.
    """
    try:
        query = [("labelSelector", MADE_BY_HELM)]
        answer = await api.request("GET", f"/api/v1/namespaces/{namespace}/configmaps", query=query)
    except KubeError as error:
        if error.status == 404:
            return None
        raise UnknownSettingsError(str(error)) from error
    found = [Installed(_name(one), one["data"][FILE].encode()) for one in _items(decoded(answer)) if _has_file(one)]
    if len(found) > 1:
        names = ", ".join(sorted(one.name for one in found))
        raise UnknownSettingsError(f"several releases in {namespace} have some: {names}")
    return found[0] if found else None


def _items(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in content.get("items") or () if isinstance(one, dict)]


def _name(config_map: dict[str, Any]) -> str:
    return str((config_map.get("metadata") or {}).get("name", ""))


def _has_file(config_map: dict[str, Any]) -> bool:
    return isinstance((config_map.get("data") or {}).get(FILE), str)
