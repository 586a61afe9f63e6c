"""What stays of Headroom in a cluster when it has been uninstalled, and the command that takes each away.

Enters: a client, the installation's settings. Leaves: findings; nothing is deleted here, for every one of them may be
meant to stay: definitions hold everybody's policies, NodePools hold nodes at work. Work that waits in queues is told,
too: it is suspended, and nobody else would start it. What others manage, or own, is theirs to start.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_kinds import KINDS, WorkKind
from autoscaler.adapters.kube.batch_kueue import PATHS, Claims, Workload
from autoscaler.adapters.kube.batch_work import Work
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pool_slots import HEADROOM, MANAGED_BY
from autoscaler.api.batch_work import GATE, QUEUE
from autoscaler.api.crd import GROUP, RESOURCES, VERSION
from autoscaler.cli.definitions import DEFINITIONS
from autoscaler.cli.reviews import decoded
from autoscaler.settings.model import Settings

OURS: Final = f"{MANAGED_BY}={HEADROOM}"
KARPENTER: Final = "/apis/karpenter.sh/v1"
ORPHANED: Final = "suspended, and without Headroom nobody starts them"


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that is there, and how it is taken away."""

    what: str
    command: str


async def leftovers(api: KubeApi, settings: Settings) -> AsyncIterator[Leftover]:
    """What there is of ours, the cluster's first. Raises KubeError."""
    claims = await _claims(api)
    for form in KINDS.values():
        async for waiting in _suspended(api, form, claims):
            yield waiting
    async for gated in _gated(api):
        yield gated
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


async def _claims(api: KubeApi) -> Claims:
    """Which work Kueue has taken without a word in its object."""
    claims = Claims()
    for path in PATHS:
        for one in await listed(api, path):
            taken = msgspec.convert(one, Workload, strict=False)
            claims.note(path, Change(taken.metadata.key, None, taken))
    return claims


async def _suspended(api: KubeApi, kind: WorkKind, claims: Claims) -> AsyncIterator[Leftover]:
    """Work with the label of a queue that waits to be started, and by nobody else, by namespace."""
    waiting: dict[str, list[Work]] = {}
    for one in await listed(api, kind.path, selector=QUEUE):
        work = as_work(one, kind)
        if work is not None and _is_ours(work, claims):
            waiting.setdefault(work.ref.namespace, []).append(work)
    plural = kind.path.rpartition("/")[2]
    for namespace, mine in sorted(waiting.items()):
        names = " ".join(sorted(work.ref.name for work in mine))
        where = f"{len(mine)} {plural} in {namespace} that wait in BatchQueues"
        start = f"kubectl -n {namespace} patch {plural} {names} --type=merge -p '{_may_run(mine[0])}'"
        yield Leftover(f"{where}: {ORPHANED}", start)


async def _gated(api: KubeApi) -> AsyncIterator[Leftover]:
    """Pods behind our gate, by namespace; those of others have gates of their own besides, which stay."""
    found: dict[str, list[str]] = {}
    for one in await listed(api, "/api/v1/pods", selector=QUEUE):
        if any(each.get("name") == GATE for each in one.get("spec", {}).get("schedulingGates") or ()):
            found.setdefault(str(one["metadata"]["namespace"]), []).append(str(one["metadata"]["name"]))
    change = msgspec.json.encode({"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}).decode()
    for namespace, names in sorted(found.items()):
        words = f"{len(names)} pods in {namespace} behind the gate {GATE}: without Headroom nobody lets them in"
        yield Leftover(words, f"kubectl -n {namespace} patch pod {' '.join(sorted(names))} -p '{change}'")


def _may_run(work: Work) -> str:
    """What a merge says to let work of this kind start."""
    told: Any = False
    for part in reversed(work.suspend_at.strip("/").split("/")):
        told = {part: told}
    return msgspec.json.encode(told).decode()


def as_work(found: dict[str, Any], kind: WorkKind) -> Work | None:
    """An object as a piece of work; None for a part of other work, and for one of which nobody can read whose it is."""
    try:
        return kind.read(msgspec.convert(found, kind.form, strict=False), 0.0)
    except msgspec.ValidationError:
        return None


def _is_ours(work: Work, claims: Claims) -> bool:
    return work.suspended and not work.ended and not work.manager and not claims.has(work.name, work.ref.uid)


async def _names(api: KubeApi, path: str, *, selector: str = "") -> list[str]:
    return [str(one["metadata"]["name"]) for one in await listed(api, path, selector=selector)]


async def listed(api: KubeApi, path: str, *, selector: str = "") -> list[dict[str, Any]]:
    """What is listed; nothing where the resource is not served."""
    query = (("labelSelector", selector),) if selector else ()
    try:
        listed: list[dict[str, Any]] = decoded(await api.request("GET", path, query=query)).get("items") or []
    except KubeError as error:
        if error.status == 404:
            return []
        raise
    return listed
