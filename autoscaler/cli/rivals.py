"""Other installations of Headroom in the cluster that may scale what this one scales.

Enters: a client and this installation's settings. Leaves: one line for each other one whose namespaces are not apart
from ours, as far as whoever asks may see. Nothing keeps two installations from one target: each takes the other's
patches for somebody's edits.
"""

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.lease_object import ADDRESS
from autoscaler.adapters.kube.objects import Lease
from autoscaler.adapters.kube.writing import decoded
from autoscaler.cli.installed import UnknownSettingsError, installed
from autoscaler.settings.model import Settings

LEASES: Final = "/apis/coordination.k8s.io/v1/leases"

LEADS_S: Final = 600.0
"""A lease that nobody renewed for so long is of an installation that is gone; its duration is half of it at most."""


class _Leases(msgspec.Struct):
    items: tuple[Lease, ...] = ()


class _Watching(msgspec.Struct):
    """Of their settings what concerns us; ours may be of another version, and our environment is not theirs."""

    watch_namespaces: tuple[str, ...] = ()


_leases: Final = msgspec.json.Decoder(_Leases)


async def rivals(api: KubeApi, settings: Settings, now_s: float) -> AsyncIterator[str]:
    """Who else leads somewhere and may scale what we do; nobody where leases of other namespaces may not be listed."""
    try:
        found = decoded(_leases, await api.request("GET", LEASES), f"GET {LEASES}").items
    except KubeError as error:
        if error.status not in {403, 404}:
            raise
        return
    own = (settings.namespace, settings.lease.name)
    for namespace, name in sorted((one.metadata.namespace, one.metadata.name) for one in found if _led(one, now_s)):
        if (namespace, name) == own:
            continue
        theirs = await _watched(api, namespace)
        if theirs is None:
            yield f"another one of Headroom leads in {namespace} (lease {name}), whose namespaces cannot be told"
        elif not theirs or not settings.watch_namespaces or set(theirs) & set(settings.watch_namespaces):
            where = ", ".join(theirs) or "all namespaces"
            yield f"another one of Headroom leads in {namespace} (lease {name}) and watches {where}, as this one does"


def _led(lease: Lease, now_s: float) -> bool:
    """Whether a lease is of Headroom's kind and somebody holds it."""
    renewed = lease.spec.renew_time
    lately = renewed is not None and abs(now_s - renewed.timestamp()) <= LEADS_S
    return ADDRESS in lease.metadata.annotations and bool(lease.spec.holder_identity) and lately


async def _watched(api: KubeApi, namespace: str) -> tuple[str, ...] | None:
    """Where the installation in a namespace scales, none for everywhere; None where that cannot be told."""
    try:
        found = await installed(api, namespace)
        return None if found is None else msgspec.yaml.decode(found.text, type=_Watching).watch_namespaces
    except (UnknownSettingsError, msgspec.DecodeError):
        return None
