"""What one pod asks of a node, as the scheduler counts it.

Enters: the containers of a pod. Leaves: cores, GiB and units of extended resources. The most of what runs at once
counts: the containers with the sidecars, or one init container with the sidecars before it (KEP-753).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from autoscaler.adapters.kube.batch_objects import Box
from autoscaler.adapters.kube.meta import Amounts, quantity
from autoscaler.errors import InputError

GIB: Final = 2.0**30


class Asking(Protocol):
    """A pod, or what one shall be."""

    @property
    def containers(self) -> tuple[Box, ...]:
        """Run together."""
        ...

    @property
    def init_containers(self) -> tuple[Box, ...]:
        """Run before, one after the other."""
        ...

    @property
    def overhead(self) -> Amounts:
        """Counted besides."""
        ...


@dataclass(frozen=True, slots=True)
class PodAsks:
    """What one pod asks for."""

    cpu: float = 0.0
    """Cores."""
    memory_gib: float = 0.0
    units: Mapping[str, float] = field(default_factory=dict)
    """By extended resource; a part of a unit is a mistake of whoever wrote it, and is kept for it to be told."""


def pod_asks(pod: Asking) -> PodAsks:
    """What a pod asks for; amounts that cannot be read count as nothing, as the API server lets none in."""
    sidecars: dict[str, float] = {}
    most: dict[str, float] = {}
    for box in pod.init_containers:
        own = _asked(box)
        if box.restart_policy == "Always":
            sidecars = _sum(sidecars, own)
            own = {}
        most = _most(most, _sum(sidecars, own))
    together = sidecars
    for box in pod.containers:
        together = _sum(together, _asked(box))
    total = _sum(_most(most, together), _read(pod.overhead.items()))
    units = {name: value for name, value in total.items() if "/" in name and value}
    return PodAsks(total.get("cpu", 0.0), total.get("memory", 0.0) / GIB, units)


def asks_devices(pod: Asking) -> bool:
    """Whether a pod asks for anything that only some nodes have; an amount that cannot be read is one."""
    boxes = (*pod.containers, *pod.init_containers)
    given = [pair for box in boxes for pair in (*box.resources.limits.items(), *box.resources.requests.items())]
    return any("/" in name and str(amount) != "0" for name, amount in given)


def amount(amounts: Amounts, name: str) -> float:
    """One quantity; 0 where it is not there or cannot be read."""
    return _read([(name, amounts[name])]).get(name, 0.0) if name in amounts else 0.0


def _asked(box: Box) -> dict[str, float]:
    """A limit without a request is one: the API server fills it in."""
    return _read({**box.resources.limits, **box.resources.requests}.items())


def _read(amounts: Iterable[tuple[str, str | int | float]]) -> dict[str, float]:
    found = {}
    for name, value in amounts:
        try:
            found[name] = quantity(value)
        except InputError:
            continue
    return found


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}}


def _most(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}
