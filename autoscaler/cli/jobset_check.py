"""Whether JobSets in queues are admitted, for `headroom doctor`: served, ours to read and to start, held to nodes.

Enters: a client, whose rights are looked at. Leaves: a sentence, with a remedy where something is missing. An
administrator need not want them, so that nothing that is missing is a fault.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import TypeVar

import msgspec

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_holds import BINDINGS, HOLDS, POLICIES, ROOT, Binding, Policy, unheld
from autoscaler.adapters.kube.batch_jobsets import GROUP, RESOURCE, VERSION
from autoscaler.cli.reviews import decoded, reviewed, served
from autoscaler.cli.rights import jobset_rights

T = TypeVar("T")
REMEDY = "kubectl apply -f config/rbac/jobsets, or the chart's rbac.jobSets, to have them admitted"


async def jobsets(api: KubeApi, user: str | None, namespaces: Iterable[str]) -> tuple[str, str | None]:
    """How it is with JobSets in these namespaces (none: everywhere), and what to do. Raises KubeError."""
    root = f"/apis/{GROUP}/{VERSION}"
    if RESOURCE not in await served(api, root):
        return f"{root} has none: only Jobs are admitted", None
    needed = jobset_rights(namespaces)
    missing = [right for right, may in zip(needed, await reviewed(api, needed, user), strict=True) if not may]
    if missing:
        return f"not admitted: {user or 'you'} may not {missing[0].words}", REMEDY
    if BINDINGS not in await served(api, ROOT):
        return f"not admitted: the API server has no {BINDINGS}", "upgrade to Kubernetes 1.36 or newer, or use Jobs"
    why = unheld(await _listed(api, POLICIES, Policy), await _listed(api, BINDINGS, Binding))
    if why:
        return f"not admitted: no MutatingAdmissionPolicy {HOLDS} is in force, {why}", REMEDY
    return "those in queues are admitted", None


async def _listed(api: KubeApi, resource: str, form: type[T]) -> list[T]:
    """The objects of a resource that can be read: one that cannot holds nobody."""
    found = []
    for one in decoded(await api.request("GET", f"{ROOT}/{resource}")).get("items") or ():
        with suppress(msgspec.ValidationError):
            found.append(msgspec.convert(one, form, strict=False))
    return found
