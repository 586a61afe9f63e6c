"""What stays of Headroom in a cluster when it has been uninstalled, and the command that takes each away.

Enters: a client, the installation's settings. Leaves: findings; nothing is deleted here, for every one of them may be
meant to stay: definitions hold everybody's policies, NodePools hold nodes at work. Work that waits in queues is told,
too: it is suspended, and nobody else would start it.
"""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_kinds import KINDS
from autoscaler.adapters.kube.pool_slots import HEADROOM, MANAGED_BY
from autoscaler.api.batch_work import QUEUE
from autoscaler.api.crd import GROUP, RESOURCES, VERSION
from autoscaler.cli.definitions import DEFINITIONS
from autoscaler.cli.reviews import decoded
from autoscaler.settings.model import Settings

OURS: Final = f"{MANAGED_BY}={HEADROOM}"
KARPENTER: Final = "/apis/karpenter.sh/v1"
ORPHANED: Final = "suspended, and without Headroom nobody starts them"
START: Final = '{"spec":{"suspend":false}}'


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that is there, and how it is taken away."""

    what: str
    command: str


async def leftovers(api: KubeApi, settings: Settings) -> AsyncIterator[Leftover]:
    """What there is of ours, the cluster's first. Raises KubeError."""
    for work in KINDS.values():
        async for waiting in _suspended(api, work.path):
            yield waiting
    for resource in RESOURCES.values():
        name = f"{resource.plural}.{GROUP}"
        if await _there(api, f"{DEFINITIONS}/{name}"):
            count = len(await _names(api, f"/apis/{GROUP}/{VERSION}/{resource.plural}"))
            yield Leftover(f"the definition {name} and {count} of its objects", f"kubectl delete crd {name}")
    if names := await _names(api, f"{KARPENTER}/nodepools", selector=OURS):
        told = f"NodePools of warm pools, with their nodes: {', '.join(names)}"
        yield Leftover(told, f"kubectl delete nodepool {' '.join(names)}")
    slots = settings.warm_pools.namespace
    if names := await _names(api, f"/api/v1/namespaces/{slots}/pods", selector=OURS):
        yield Leftover(f"{len(names)} slots in {slots}", f"kubectl -n {slots} delete pods -l {OURS}")
    own = settings.namespace
    if names := await _names(api, f"/api/v1/namespaces/{own}/configmaps", selector=OURS):
        yield Leftover(f"{len(names)} checkpoints in {own}", f"kubectl -n {own} delete configmap -l {OURS}")
    for path, kind, name in (
        (f"/api/v1/namespaces/{own}/configmaps", "configmap", settings.freeze_config_map),
        (f"/apis/coordination.k8s.io/v1/namespaces/{own}/leases", "lease", settings.lease.name),
    ):
        if await _there(api, f"{path}/{name}"):
            yield Leftover(f"the {kind} {own}/{name}", f"kubectl -n {own} delete {kind} {name}")


async def _there(api: KubeApi, path: str) -> bool:
    try:
        await api.request("GET", path)
    except KubeError as error:
        if error.status == 404:
            return False
        raise
    return True


async def _suspended(api: KubeApi, path: str) -> AsyncIterator[Leftover]:
    """Work with the label of a queue that waits to be started, by namespace."""
    found = await _items(api, path, selector=QUEUE)
    counts = Counter(str(one["metadata"]["namespace"]) for one in found if one.get("spec", {}).get("suspend"))
    plural = path.rpartition("/")[2]
    for namespace, count in sorted(counts.items()):
        where = f"{count} {plural} in {namespace} that wait in BatchQueues"
        listed = f"kubectl -n {namespace} get {plural} -l {QUEUE} -o name"
        yield Leftover(
            f"{where}: {ORPHANED}", f"{listed} | xargs -n1 kubectl -n {namespace} patch --type=merge -p '{START}'"
        )


async def _names(api: KubeApi, path: str, *, selector: str = "") -> list[str]:
    return [str(one["metadata"]["name"]) for one in await _items(api, path, selector=selector)]


async def _items(api: KubeApi, path: str, *, selector: str = "") -> list[dict[str, Any]]:
    """What is listed; nothing where the resource is not served."""
    query = (("labelSelector", selector),) if selector else ()
    try:
        listed: list[dict[str, Any]] = decoded(await api.request("GET", path, query=query)).get("items") or []
    except KubeError as error:
        if error.status == 404:
            return []
        raise
    return listed
