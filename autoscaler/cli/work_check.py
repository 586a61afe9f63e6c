"""Whether other work than Jobs is admitted, for `headroom doctor`: served, ours to read and to start, held to nodes.

Enters: a client, whose rights are looked at. Leaves: a sentence, with a remedy where something is missing. An
administrator need not want such kinds, so that nothing that is missing is a fault.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_holds import BINDINGS, HOLDS, POLICIES, ROOT, Binding, Policy, unheld
from autoscaler.adapters.kube.batch_jobsets import GROUP, RESOURCE, VERSION
from autoscaler.adapters.kube.batch_trainer import RESOURCE as TRAINJOBS
from autoscaler.adapters.kube.batch_trainer import ROOT as TRAINER
from autoscaler.adapters.kube.batch_trainer import TRAINJOB
from autoscaler.adapters.kube.batch_training import GROUP as KUBEFLOW
from autoscaler.adapters.kube.batch_training import TRAINING
from autoscaler.adapters.kube.batch_training import VERSION as KUBEFLOW_VERSION
from autoscaler.adapters.kube.scope import GROUP as OWN_GROUP
from autoscaler.adapters.kube.scope import VERSION as OWN_VERSION
from autoscaler.api.batch_queue_status import QueueCondition
from autoscaler.api.batch_work import GATE
from autoscaler.cli.leftovers import listed
from autoscaler.cli.reviews import decoded, reviewed, served
from autoscaler.cli.rights import Right, jobset_rights, pod_rights, training_rights, trainjob_rights

T = TypeVar("T")
REMEDY: Final = "kubectl apply -f config/rbac/{}, or the chart's rbac.{}, to have them admitted"
ADMITTED: Final = "those in queues are admitted"
QUEUES: Final = "batchqueues"
MOST_ASKED: Final = 32
"""Namespaces of which it is asked whether pods may be let in there."""


async def jobsets(api: KubeApi, user: str | None, namespaces: Iterable[str]) -> tuple[str, str | None]:
    """How it is with JobSets in these namespaces (none: everywhere), and what to do. Raises KubeError."""
    root, remedy = f"/apis/{GROUP}/{VERSION}", REMEDY.format("jobsets", "jobSets")
    if RESOURCE not in await served(api, root):
        return f"{root} has none: there is nothing of this kind to admit", None
    refused = await _refused(api, user, jobset_rights(namespaces))
    if refused:
        return refused, remedy
    if BINDINGS not in await served(api, ROOT):
        return f"not admitted: the API server has no {BINDINGS}", "upgrade to Kubernetes 1.36 or newer, or use Jobs"
    why = unheld(await _listed(api, POLICIES, Policy), await _listed(api, BINDINGS, Binding))
    if why:
        return f"not admitted: no MutatingAdmissionPolicy {HOLDS} is in force, {why}", remedy
    return ADMITTED, None


async def training_jobs(api: KubeApi, user: str | None, namespaces: Iterable[str]) -> tuple[str, str | None]:
    """The same of the jobs of Kubeflow's training operator, of which a cluster need not have every kind."""
    root = f"/apis/{KUBEFLOW}/{KUBEFLOW_VERSION}"
    there = await served(api, root)
    mine = [each.resource for each in TRAINING if each.resource in there]
    if not mine:
        return f"{root} has none: there is nothing of this kind to admit", None
    refused = await _refused(api, user, [right for right in training_rights(namespaces) if right.resource in mine])
    return (refused, REMEDY.format("training-jobs", "trainingJobs")) if refused else (ADMITTED, None)


async def trainjobs(api: KubeApi, user: str | None, namespaces: Iterable[str]) -> tuple[str, str | None]:
    """The same of TrainJobs, which are started as JobSets are held."""
    everywhere = tuple(namespaces)
    if TRAINJOBS not in await served(api, TRAINER):
        return f"{TRAINER} has none: there is nothing of this kind to admit", None
    refused = await _refused(api, user, trainjob_rights(everywhere))
    if refused:
        return refused, REMEDY.format("train-jobs", "trainJobs")
    words, remedy = await jobsets(api, user, everywhere)
    return (ADMITTED, None) if words == ADMITTED else (f"as the Trainer makes JobSets of them: {words}", remedy)


async def pods(api: KubeApi, user: str | None, namespaces: Iterable[str]) -> tuple[str, str | None]:
    """The same of pods behind our gate, in the namespaces of BatchQueues, as far as these are watched."""
    watched, named, root = frozenset(namespaces), set[str](), f"/apis/{OWN_GROUP}/{OWN_VERSION}"
    if QUEUES not in await served(api, root):
        return f"{root} has no {QUEUES}: there is nothing to be let into", None
    for found in decoded(await api.request("GET", f"{root}/{QUEUES}")).get("items") or ():
        listed = (found.get("spec") or {}).get("namespaces") if isinstance(found, dict) else None
        named.update(each for each in listed or () if isinstance(each, str))
    asked = sorted(named & watched if watched else named)
    needed = pod_rights(asked[:MOST_ASKED])
    may = await reviewed(api, needed, user)
    inside, outside = (
        [str(right.namespace) for right, allowed in zip(needed, may, strict=True) if allowed is wanted]
        for wanted in (True, False)
    )
    if not inside:
        who = user or "you"
        return f"those behind the gate {GATE} stay there: {who} may patch pods in no namespace of a queue", None
    more = f", of the first {MOST_ASKED} of {len(asked)} namespaces" if len(asked) > MOST_ASKED else ""
    rest = f"; in {', '.join(outside)} they stay there, and nobody is stopped for them" if outside else ""
    return f"those behind the gate {GATE} are let in in {', '.join(inside)}{rest}{more}", None


async def untaken(api: KubeApi) -> Mapping[str, str]:
    """By BatchQueue, what its condition says of gangs that are not looked at; only those that have some."""
    root, found = f"/apis/{OWN_GROUP}/{OWN_VERSION}", dict[str, str]()
    queues: list[Any] = list(await listed(api, f"{root}/{QUEUES}"))
    for queue in [queue for queue in queues if isinstance(queue, dict)]:
        for each in (queue.get("status") or {}).get("conditions") or ():
            if each.get("type") == QueueCondition.TAKEN_IN.value and each.get("status") == "False":
                found[str(queue["metadata"]["name"])] = str(each.get("message", ""))
    return found


async def _refused(api: KubeApi, user: str | None, needed: Sequence[Right]) -> str:
    """Which right is missing first; empty where all are there."""
    missing = [right for right, may in zip(needed, await reviewed(api, needed, user), strict=True) if not may]
    return f"not admitted: {user or 'you'} may not {missing[0].words}" if missing else ""


async def _listed(api: KubeApi, resource: str, form: type[T]) -> list[T]:
    """The objects of a resource that can be read: one that cannot holds nobody."""
    found = []
    for one in decoded(await api.request("GET", f"{ROOT}/{resource}")).get("items") or ():
        with suppress(msgspec.ValidationError):
            found.append(msgspec.convert(one, form, strict=False))
    return found


WORK: Final = {
    "JobSet": jobsets,
    TRAINJOB: trainjobs,
    " and ".join(each.kind for each in TRAINING): training_jobs,
    "Pod": pods,
}
"""Who looks at which kinds."""
