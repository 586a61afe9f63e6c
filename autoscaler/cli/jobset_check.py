"""Whether JobSets in queues are admitted, for `headroom doctor`: served, ours to read and to start, held to nodes.

Enters: a client, whose rights are looked at. Leaves: a sentence, with a remedy where something is missing. An
administrator need not want them, so that nothing that is missing is a fault.
"""

from collections.abc import Iterable

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_jobsets import GROUP, RESOURCE, VERSION
from autoscaler.adapters.kube.batch_work import HOLDS
from autoscaler.cli.reviews import decoded, reviewed, served
from autoscaler.cli.rights import jobset_rights

POLICIES = "/apis/admissionregistration.k8s.io/v1"
BINDINGS = "mutatingadmissionpolicybindings"
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
    if BINDINGS not in await served(api, POLICIES):
        return f"not admitted: the API server has no {BINDINGS}", "upgrade to Kubernetes 1.36 or newer, or use Jobs"
    found = decoded(await api.request("GET", f"{POLICIES}/{BINDINGS}")).get("items", ())
    if not any((one.get("spec") or {}).get("policyName") == HOLDS for one in found):
        return f"not admitted: no MutatingAdmissionPolicy {HOLDS} is bound", REMEDY
    return "those in queues are admitted", None
