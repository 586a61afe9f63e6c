"""The part of the settings that concerns batch admission: whether, below which priority, and how racks are labelled."""

from typing import Annotated

from pydantic import Field

from autoscaler.settings.parts import NO_SWITCH, Label, Part
from autoscaler.settings.warm_pools import LabelKey


class Batch(Part):
    """Batch admission by BatchQueues; the rights that it takes are in config/rbac/batch."""

    enabled: bool = False
    """Whether work that is labelled with a BatchQueue is admitted."""
    serving_priority: Annotated[int, Field(ge=-1_000_000_000, le=1_000_000_000), NO_SWITCH] = 0
    """The lowest priority of pods that serve: batch work of this priority or a higher one is refused."""
    alias_namespaces: tuple[Label, ...] = ()
    """Namespaces in which the labels kueue.x-k8s.io/queue-name, kai.scheduler/queue and yunikorn.apache.org/queue of
    Jobs and the like name a BatchQueue; elsewhere such objects are others'."""
    rack_label: LabelKey = "topology.kubernetes.io/rack"
    """The label of nodes that names their rack, the coarser level of topology."""
    island_label: LabelKey = "nvidia.com/gpu.clique"
    """The label of nodes that names their NVLink domain, the finer level; NVIDIA's feature discovery sets this one."""
