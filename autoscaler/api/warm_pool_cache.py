"""Where the slots of a WarmPool keep weights: one volume, and the folders of a node that it never is.

Enters: nothing; `warm_pool` puts it together with the rest. Which folders it may be is the administrator's to say
(`autoscaler.settings.warm_pools`); what no administrator can allow is said here.
"""

import re
from typing import Annotated, Final, Self

from pydantic import ConfigDict, model_validator

from autoscaler.api.model import Model, cel, spelled
from autoscaler.api.scaling_policy import ObjectName

AbsolutePath = Annotated[
    str, spelled(r"^/[A-Za-z0-9._/-]*$", 256, "a path of at most 256 characters that begins with /")
]

NODES_OWN: Final = (
    "^/((bin|boot|dev|etc|home|lib|lib32|lib64|opt/(bin|cni|containerd|nvidia)|proc|root|run|sbin|sys|tmp|usr"
    "|var/(log|run|spool|tmp)|var/lib/(cni|containerd|containers|docker|etcd|kubelet|rancher))(/.*)?"
    "|opt|var|var/lib)?/?$|//|/[.][.]?(/|$)"
)
"""Found in paths of a node that no cache is, whoever allows it: the node's own folders, what is above one, and other
ways to write a path. No such list is whole, so that caches are only where an administrator says, the setting
`cache_roots`; these he cannot allow. The admission policy of slots has the same."""
IS_NODES_OWN: Final = (
    "hostPath is a folder of the node's own; give the cache one of its own, such as /var/lib/headroom/cache"
)


class CacheVolume(Model):
    """The one volume that slots may write: where weights stay for the replicas that follow."""

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("has(self.hostPath) != has(self.claim)", "give one of hostPath and claim, and not both"),
            (f"!has(self.hostPath) || !self.hostPath.matches('{NODES_OWN}')", IS_NODES_OWN),
        )
    )

    host_path: AbsolutePath | None = None
    """A folder on the node, directly below one that the setting warm_pools.cache_roots names, as in
    /var/lib/headroom/cache; never one of the system's."""
    claim: ObjectName | None = None
    """A PersistentVolumeClaim in the slots' namespace."""
    mount_path: AbsolutePath = "/cache"
    """Where slots see it."""

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.host_path is None) == (self.claim is None):
            raise ValueError("give one of host_path and claim, and not both")
        if self.host_path is not None and re.search(NODES_OWN, self.host_path):
            raise ValueError(IS_NODES_OWN.replace("hostPath", "host_path"))
        return self
