"""What a WarmPool asks for, compiled with what the administrator set; or why it cannot be used.

Enters: WarmPools as they are followed. Leaves: the spec and the core's parameters, or a fault that names field, value
and remedy. Compiled anew when the object changes, and now and then for the windows of its calendar.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.adapters.kube.pool_objects import WarmPoolObject
from autoscaler.api.shapes import Shape
from autoscaler.api.warm_pool import WarmPoolSpec, read_warm_pool
from autoscaler.api.warm_pool_params import compile_pool
from autoscaler.core.pool.params import PoolParams
from autoscaler.errors import InputError
from autoscaler.settings.warm_pools import WarmPools

ANEW_S: Final = 3600.0
"""Schedules are unrolled for a week; this is well before that, and soon after an event was over."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A WarmPool that can be used; `made_s` is when its calendar was unrolled."""

    uid: str
    generation: int
    made_s: float
    spec: WarmPoolSpec
    params: PoolParams


@dataclass(frozen=True, slots=True)
class Faulty:
    """A WarmPool that cannot be used, and why."""

    uid: str
    generation: int
    fault: str


class PoolSpecs:
    """Compiles WarmPools, each once."""

    def __init__(self, shapes: Mapping[str, Shape], allowed: WarmPools) -> None:
        self._shapes = shapes
        self._allowed = allowed
        self._known: dict[str, Compiled | Faulty] = {}

    def of(self, name: str, found: WarmPoolObject, now_s: float) -> Compiled | Faulty:
        """What the WarmPool `name` asks for now."""
        known, meta = self._known.get(name), found.metadata
        same = known is not None and (known.uid, known.generation) == (meta.uid, meta.generation)
        if same and (isinstance(known, Faulty) or (known is not None and now_s - known.made_s < ANEW_S)):
            return known
        self._known[name] = made = self._compiled(name, found, now_s)
        return made

    def forget(self, name: str) -> None:
        """The WarmPool is gone."""
        self._known.pop(name, None)

    def _compiled(self, name: str, found: WarmPoolObject, now_s: float) -> Compiled | Faulty:
        meta = found.metadata
        try:
            spec = read_warm_pool(bytes(found.spec))
            self._check(spec)
            params = compile_pool(name, spec, self._shapes, now_s=now_s)
        except InputError as error:
            return Faulty(meta.uid, meta.generation, str(error))
        return Compiled(meta.uid, meta.generation, now_s, spec, params)

    def _check(self, spec: WarmPoolSpec) -> None:
        """Refuse images and caches that the administrator does not allow. Raises InputError."""
        for at, model in enumerate(spec.models):
            if not self._allowed.admits(model.image):
                allowed = ", ".join(self._allowed.registries) or "none yet"
                raise InputError(
                    f"spec.models[{at}].image: {model.image!r} is of no registry that slots may pull from ({allowed}); "
                    "name another image, or ask for its registry to be added to warm_pools.registries"
                )
        path = None if spec.cache is None else spec.cache.host_path
        if path is not None and not self._allowed.admits_cache(path):
            roots = ", ".join(self._allowed.cache_roots) or "none"
            root = self._allowed.root_for(path)
            asked = "" if root is None else f", or ask for {root!r} to be added to the setting warm_pools.cache_roots"
            raise InputError(
                f"spec.cache.hostPath: {path!r} is not directly below a folder that caches may be in ({roots}); "
                f"name a folder there{asked}"
            )
