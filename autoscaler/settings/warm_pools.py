"""The part of the settings that concerns warm pools: where slots live, what they are made of, who may be pulled."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationError

from autoscaler.api.warm_pool_cache import NODES_OWN
from autoscaler.settings.parts import Label, ObjectName, Part

Registry = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][-.a-z0-9]*(:\d{1,5})?(/[-._/a-z0-9]+)?$",
        max_length=255,
        json_schema_extra={"legal": "a registry, such as registry.example.com or registry.example.com/team"},
    ),
]
ImageName = Annotated[str, Field(pattern=r"^[a-z0-9][-._/:@A-Za-z0-9]*$", max_length=512)]
LabelKey = Annotated[
    str,
    Field(
        pattern=r"^([a-z0-9][-.a-z0-9]*/)?[A-Za-z0-9][-._A-Za-z0-9]*$",
        max_length=317,
        json_schema_extra={"legal": "the key of a label, such as karpenter.sh/nodepool"},
    ),
]

FOLDER: Final = "[A-Za-z0-9_-][A-Za-z0-9._-]*"
"""The name of a folder as a cache may have it; what begins with a dot is none."""


def _apart(roots: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse folders of the node's own, and one below another: what a slot may write it could make a link of, and the
    next cache would be wherever that leads."""
    for root in roots:
        if re.search(NODES_OWN, root):
            raise ValueError(f"{root!r} is a folder of the node's own; give a folder that holds nothing but caches")
        around = [other for other in roots if root.startswith(f"{other}/")]
        if around:
            raise ValueError(f"{root!r} lies in {around[0]!r}, where caches are; give one of them")
    return tuple(dict.fromkeys(roots))


CacheRoot = Annotated[
    str,
    Field(
        pattern=f"^(/{FOLDER})+$",
        max_length=200,
        json_schema_extra={"legal": "a folder such as /var/lib/headroom, without a slash at its end"},
    ),
]

DOCKER_HUB: Final = "docker.io"


class WarmPools(Part):
    """Warm pools; the rights that they take are in config/rbac/warm-pools."""

    enabled: bool = False
    """Whether WarmPools are acted upon."""
    namespace: Label = "headroom-slots"
    """Where slots are, and nothing else is."""
    priority_class: ObjectName = "headroom-slot"
    """The slots' PriorityClass, of value -10: below what serves, and not below what Cluster Autoscaler heeds."""
    node_pool_label: LabelKey = "karpenter.sh/nodepool"
    """The label of nodes that names their NodePool; without Karpenter, the one that the cloud gives its node groups."""
    registries: Annotated[tuple[Registry, ...], Field(max_length=100)] = ()
    """Whose images slots may pull, a registry or a part of one each; none: no image of a WarmPool is pulled."""
    cache_roots: Annotated[tuple[CacheRoot, ...], Field(max_length=16), AfterValidator(_apart)] = ("/var/lib/headroom",)
    """Folders of the nodes below which a WarmPool may name a folder as its cache (`hostPath`), directly below and no
    deeper; none: caches are claims only."""
    pause_image: ImageName = "registry.k8s.io/pause:3.10.1"
    """What a slot runs once it is warm: nothing."""
    fetch_image: ImageName = "kserve/storage-initializer:v0.17.0"
    """What fetches weights: it is run with their source and the folder they go to."""

    def admits_cache(self, path: str) -> bool:
        """Whether slots may write into a folder of the node that a WarmPool names."""
        return any(re.fullmatch(f"{re.escape(root)}/{FOLDER}/?", path) for root in self.cache_roots)

    def root_for(self, path: str) -> str | None:
        """What to add to `cache_roots` for a folder to be admitted; None where nothing that may be added would do."""
        try:
            more = WarmPools(cache_roots=(*self.cache_roots, path.rstrip("/").rpartition("/")[0]))
        except ValidationError:
            return None
        return more.cache_roots[-1] if more.admits_cache(path) else None

    def admits(self, image: str) -> bool:
        """Whether slots may pull an image that a WarmPool names."""
        first, slash, _ = image.partition("/")
        has_host = bool(slash) and (first == "localhost" or any(sign in first for sign in ".:"))
        whole = image if has_host else f"{DOCKER_HUB}/{image}"
        return any(whole.startswith(f"{registry.rstrip('/')}/") for registry in self.registries)
