"""The fields that are read of the objects that limit a namespace; see `objects` for the rules."""

import msgspec

from autoscaler.adapters.kube.meta import Amounts, Meta


class ScopeTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One condition on the pods that a quota counts."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Conditions of which all have to hold."""

    match_expressions: tuple[ScopeTerm, ...] = ()


class QuotaSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The hard limits that are asked for, and of which pods; without scopes of all."""

    hard: Amounts = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None

    @property
    def terms(self) -> tuple[ScopeTerm, ...]:
        """Every condition on a pod that is counted; a scope that is only named has to be there."""
        selected = () if self.scope_selector is None else self.scope_selector.match_expressions
        return (*(ScopeTerm(name, "Exists") for name in self.scopes), *selected)


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
