"""What batch admission takes a cluster for, and what it saw of it at one instant."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.adapters.kube.batch_aliases import Aliases
from autoscaler.adapters.kube.batch_nodes import BatchNode
from autoscaler.api.shapes import Shape
from autoscaler.core.batch.estate import NodeSeen
from autoscaler.core.batch.owners import PodSeen

NO_ALIASES: Final = Aliases()

MOST: Final = 50_000
"""Gangs that are taken in where nobody says how many."""


@dataclass(frozen=True, slots=True)
class BatchScope:
    """What nodes are taken for, and what tells serving from strangers."""

    shapes: Mapping[str, Shape]
    levels: tuple[str, ...]
    """Labels of topology, coarse to fine."""
    slots: str
    """The namespace of warm slots."""
    serves: Callable[[str], bool]
    """Whether the pod of this key is a replica of a workload that is scaled here."""
    namespaces: frozenset[str] = frozenset()
    """Where work may be changed; empty: everywhere."""
    slot_class: str = ""
    """The PriorityClass of warm slots."""
    most: int = MOST
    """Gangs that are taken in."""
    serving_priority: int = 0
    """Work of this priority or a higher one is refused."""
    aliases: Aliases = NO_ALIASES


@dataclass(frozen=True, slots=True)
class Seen:
    """Nodes and pods at one instant; `parts` are the nodes as labels tell them, by name and shape."""

    parts: Mapping[tuple[str, str], BatchNode]
    nodes: tuple[NodeSeen, ...]
    others: tuple[PodSeen, ...]
    """Pods of nobody's gang."""
    serving: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Units that pods that serve hold, by namespace and shape."""
