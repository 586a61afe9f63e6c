"""The fields that are read of the objects that limit a namespace; see `objects` for the rules."""

import msgspec

from autoscaler.adapters.kube.meta import Amounts, Meta


class QuotaSpec(msgspec.Struct, frozen=True, gc=False):
    """The hard limits that are asked for."""

    hard: Amounts = {}


class QuotaStatus(msgspec.Struct, frozen=True, gc=False):
    """The hard limits that are enforced, and what is used of them."""

    hard: Amounts = {}
    used: Amounts = {}


class Quota(msgspec.Struct, frozen=True, gc=False):
    """A ResourceQuota."""

    metadata: Meta = Meta()
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class Limit(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Bounds and defaults for each container, pod or claim (`type`) of a namespace."""

    type: str = ""
    max: Amounts = {}
    min: Amounts = {}
    default: Amounts = {}
    default_request: Amounts = {}


class LimitRangeSpec(msgspec.Struct, frozen=True, gc=False):
    """The limits of a LimitRange."""

    limits: tuple[Limit, ...] = ()


class LimitRange(msgspec.Struct, frozen=True, gc=False):
    """A LimitRange."""

    metadata: Meta = Meta()
    spec: LimitRangeSpec = LimitRangeSpec()
