"""What kube-state-metrics says of pods: whose they are, how many GPUs they ask for, how long they took to start.

Enters: namespaces and a window. Leaves: pod -> owner, GPUs, seconds; empty where nobody runs kube-state-metrics. Its
own labels collide with those of its scrape: where these win, the pod is under ``exported_pod``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoscaler.adapters.prometheus.answers import AnswerError
from autoscaler.adapters.prometheus.patience import Persistent
from autoscaler.adapters.prometheus.promql import any_of, quoted
from autoscaler.adapters.prometheus.questions import Window
from autoscaler.core.columns import F64
from autoscaler.ports import Fault

_GPU_RESOURCES: Final = ("nvidia_com_gpu", "amd_com_gpu")
_START_STEP_S: Final = 300
_MOST_START_LOOKS: Final = 336
"""Instants of the window at which the pods that stand are looked at: hourly over two weeks."""
_LOOKS: Final = 8
"""Instants of the window at which it is looked how many GPUs pods ask for."""

_SPACES: Final = ("namespace", "exported_namespace")
"""The labels under which a pod's namespace may stand."""
_BY: Final = "namespace,pod,exported_namespace,exported_pod"

_STANDING: Final = {
    "Deployment": ("kube_deployment_status_replicas", "deployment"),
    "StatefulSet": ("kube_statefulset_status_replicas", "statefulset"),
}
"""Kind -> the metric of its replicas, and the label that names it."""

PodKey = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a pod is; `kind` is None where only a name is known."""

    kind: str | None
    name: str


Owners = Mapping[PodKey, Owner]


async def owners_of(history: Persistent, namespaces: Sequence[str], window: Window, notes: list[str]) -> Owners:
    """Pod -> what owns it, through its ReplicaSet; a pod that has no owner is left out. Raises PortError."""
    spaces = any_of(namespaces)
    asked = [
        f"{name}{{{label}=~{spaces}}}" for name in ("kube_pod_owner", "kube_replicaset_owner") for label in _SPACES
    ]
    try:
        found = await history.series(asked, start_s=window.start_s, end_s=window.end_s)
    except AnswerError as error:
        if error.fault is Fault.DENIED:
            raise
        notes.append(f"who owns the pods could not be read from kube-state-metrics ({error}); labels are taken")
        return {}
    above = {
        (_own(one, "namespace"), one.get("replicaset", "")): Owner(one["owner_kind"], one["owner_name"])
        for one in found
        if one.get("__name__") == "kube_replicaset_owner" and _is_owned(one)
    }
    owners: dict[PodKey, Owner] = {}
    for one in found:
        if one.get("__name__") != "kube_pod_owner" or not _is_owned(one):
            continue
        space, owner = _own(one, "namespace"), Owner(one["owner_kind"], one["owner_name"])
        if owner.kind == "ReplicaSet":
            owner = above.get((space, owner.name)) or Owner("Deployment", re.sub("-[a-z0-9]{1,10}$", "", owner.name))
        owners[space, _own(one, "pod")] = owner
    return owners


def standing(owner: Owner | None, namespace: str) -> tuple[str, ...]:
    """Selectors of an owner's own count of replicas; none where its kind has none."""
    metric, label = _STANDING.get((owner.kind if owner is not None else None) or "", ("", ""))
    if owner is None or not metric:
        return ()
    return tuple(f"{metric}{{{space}={quoted(namespace)},{label}={quoted(owner.name)}}}" for space in _SPACES)


async def replica_gpus(
    history: Persistent, namespaces: Sequence[str], window: Window, notes: list[str]
) -> Mapping[PodKey, float]:
    """Pod -> the GPUs it asks for, of pods that stood at one of some instants of the window. Raises PortError."""
    resources, spaces = any_of(_GPU_RESOURCES), any_of(namespaces)
    asked = [
        f"sum by({_BY})(kube_pod_container_resource_requests{{resource=~{resources},{label}=~{spaces}}})"
        for label in _SPACES
    ]
    step_s = max(1, (window.end_s - window.start_s) // _LOOKS)
    found = await _over(history, asked, window, step_s, notes=notes, what="how many GPUs the pods ask for")
    return {pod: float(values[-1]) for pod, values in found if values.size}


async def replica_starts(
    history: Persistent, namespaces: Sequence[str], window: Window, notes: list[str]
) -> Mapping[PodKey, float]:
    """Pod -> seconds from its creation until it was ready, of pods that stood at one of many instants.

    A pod that lost its readiness and found it again shows a later one: the earliest that was seen counts. Raises
    PortError.
    """
    spaces = any_of(namespaces)
    asked = [
        f"max by({_BY})(kube_pod_status_ready_time{{{label}=~{spaces}}})"
        f" - max by({_BY})(kube_pod_created{{{label}=~{spaces}}})"
        for label in _SPACES
    ]
    step_s = max(_START_STEP_S, (window.end_s - window.start_s) // _MOST_START_LOOKS)
    found = await _over(history, asked, window, step_s, notes=notes, what="how long pods took to become ready")
    return {pod: float(values[values > 0].min()) for pod, values in found if (values > 0).any()}


async def _over(
    history: Persistent, asked: Sequence[str], window: Window, step_s: int, *, notes: list[str], what: str
) -> list[tuple[PodKey, F64]]:
    """What any of the expressions gave of each pod, at instants `step_s` apart; none, and a note, where unreadable."""
    try:
        found = await history.range(
            " or ".join(asked), start_s=window.start_s + step_s, end_s=window.end_s, step_s=step_s
        )
    except AnswerError as error:
        if error.fault is Fault.DENIED:
            raise
        notes.append(f"{what} could not be read from kube-state-metrics: {error}")
        return []
    return [((_own(one.labels, "namespace"), _own(one.labels, "pod")), one.values) for one in found]


def _own(labels: Mapping[str, str], name: str) -> str:
    return labels.get(f"exported_{name}") or labels.get(name, "")


def _is_owned(labels: Mapping[str, str]) -> bool:
    kind = labels.get("owner_kind", "")
    return kind not in {"", "<none>"} and bool(labels.get("owner_name"))
