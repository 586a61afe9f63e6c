"""What one replica takes: GPUs, what a quota counts, and the port of its metrics page.

Enters: pod specifications, quotas, limit ranges. Leaves: numbers of replicas or GPUs, None where an object does
not say.
A quota that cannot be read, or may be of other pods, bounds nothing: the API server enforces it anyway, and says so
when pods are refused.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from autoscaler.adapters.kube.limits import LimitRange, Quota, ScopeTerm
from autoscaler.adapters.kube.meta import quantity
from autoscaler.adapters.kube.pods import PodSpec, Shape
from autoscaler.api.scaling_policy import MOST_GPUS_PER_REPLICA
from autoscaler.errors import InputError

METRICS_PORTS: Final = ("metrics", "http")
"""Names of the container port with metrics, in the order in which they are looked for."""


MOST_ROOM: Final = 1_000_000
"""Replicas; custom kinds let amounts through that no cluster has and no integer holds."""


def gpus(shape: Shape, names: Collection[str]) -> int:
    """Whole GPUs that a replica holds, of all resource `names`, 0 for one without; within what a policy may say."""
    held = 0.0
    for spec in shape:
        for container in spec.containers:
            for name in names:
                amount = container.resources.limits.get(name, container.resources.requests.get(name, 0))
                held += _number(amount) or 0.0
    return math.ceil(min(max(held, 0.0), MOST_GPUS_PER_REPLICA))


def metrics_port(spec: PodSpec) -> int | None:
    """The port named metrics, else http, else the first one; None where no container names a port."""
    ports = [port for container in spec.containers for port in container.ports if port.container_port is not None]
    for name in METRICS_PORTS:
        for port in ports:
            if port.name == name:
                return port.container_port
    return ports[0].container_port if ports else None


def quota_replicas(shape: Shape, existing: int, quotas: Iterable[Quota], ranges: Iterable[LimitRange]) -> int | None:
    """How many replicas a namespace's limits leave room for, `existing` ones included; None without such a limit."""
    most: int | None = None
    each = _per_replica(shape)
    for quota in quotas:
        if not all(_in_scope(spec, term) for term in quota.spec.terms for spec in shape):
            continue
        for name, hard in quota.status.hard.items():
            need, room = each.get(name, 0.0), _number(hard)
            used = _number(quota.status.used.get(name, 0))
            if need <= 0 or room is None or used is None:
                continue
            fits = existing + math.floor(min(max((room - used) / need, 0.0), MOST_ROOM) + 1e-9)
            most = fits if most is None else min(most, fits)
    if any(_too_large(spec, found) for found in ranges for spec in shape):
        most = existing if most is None else min(most, existing)
    return most


def _in_scope(spec: PodSpec, term: ScopeTerm) -> bool:
    """Whether a quota with this condition is sure to count pods of this specification, which never end by themselves.

    What an admission plugin fills in is not known here: a pod that names no PriorityClass may be given the default one.
    """
    if term.scope_name == "PriorityClass":
        named = spec.priority_class_name
        holds = {"Exists": True, "In": named in term.values, "NotIn": named not in term.values}
        return bool(named) and holds.get(term.operator, False)
    asks = any(container.resources.requests or container.resources.limits for container in spec.containers)
    return term.scope_name == "NotTerminating" or (term.scope_name == "NotBestEffort" and asks)


def _per_replica(shape: Shape) -> dict[str, float]:
    """What a quota counts for one replica, by the quota's own names."""
    counts: dict[str, float] = {"pods": float(len(shape)), "count/pods": float(len(shape))}
    for container in (container for spec in shape for container in spec.containers):
        for side, amounts in (("requests", container.resources.requests), ("limits", container.resources.limits)):
            for name, amount in amounts.items():
                _add(counts, f"{side}.{name}", amount)
                if side == "requests" and name in {"cpu", "memory"}:
                    _add(counts, name, amount)
        for name, amount in container.resources.limits.items():
            # Extended resources may be given as limits only; the API server copies them to the requests.
            if name not in container.resources.requests:
                _add(counts, f"requests.{name}", amount)
    return counts


def _add(counts: dict[str, float], name: str, amount: str | float) -> None:
    counts[name] = counts.get(name, 0.0) + (_number(amount) or 0.0)


def _too_large(spec: PodSpec, found: LimitRange) -> bool:
    """Whether a limit range refuses new pods of this shape."""
    for limit in found.spec.limits:
        totals: dict[str, float] = {}
        for container in spec.containers:
            for name, amount in container.resources.limits.items():
                totals[name] = totals.get(name, 0.0) + (_number(amount) or 0.0)
                if limit.type == "Container" and _over(_number(amount), limit.max, name):
                    return True
        if limit.type == "Pod" and any(_over(total, limit.max, name) for name, total in totals.items()):
            return True
    return False


def _over(amount: float | None, most: Mapping[str, str | int | float], name: str) -> bool:
    bound = _number(most[name]) if name in most else None
    return amount is not None and bound is not None and amount > bound


def _number(amount: str | float) -> float | None:
    try:
        return quantity(amount)
    except InputError:
        return None
