"""Which WarmPools the controller could not use, for `headroom doctor`.

Enters: a client, the installation's settings. Leaves: for each such pool its fault as its condition `Accepted` would
say it: field, value, remedy. It is read by this version and under these settings, so that it tells before an upgrade,
or before a setting is changed, what would become faulty by that.
"""

from typing import Final

import msgspec

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_objects import WarmPoolObject
from autoscaler.adapters.kube.scope import GROUP, VERSION
from autoscaler.api.crd import WARM_POOL
from autoscaler.app.pool_specs import Faulty, PoolSpecs
from autoscaler.cli.leftovers import listed
from autoscaler.settings.model import Settings

_PATH: Final = f"/apis/{GROUP}/{VERSION}/{WARM_POOL.plural}"


async def unusable_pools(api: KubeApi, settings: Settings, now_s: float) -> tuple[int, dict[str, str]]:
    """How many WarmPools there are, and the faults of those that cannot be used, by name. Raises KubeError."""
    specs = PoolSpecs(settings.shapes, settings.warm_pools)
    found = {pool.metadata.name: pool for pool in map(_read, await listed(api, _PATH))}
    compiled = {name: specs.of(name, pool, now_s) for name, pool in sorted(found.items())}
    return len(found), {name: each.fault for name, each in compiled.items() if isinstance(each, Faulty)}


def _read(pool: dict[str, object]) -> WarmPoolObject:
    spec = msgspec.Raw(msgspec.json.encode(pool.get("spec") or {}))
    return WarmPoolObject(msgspec.convert(pool.get("metadata") or {}, Meta, strict=False), spec)
