"""Whether the policy is in force by which pods of JobSets are held to the nodes that an annotation of them names.

Enters: MutatingAdmissionPolicies and their bindings. Leaves: a truth, for the moment, and what is wrong where it is
none. A policy that was edited, or is bound for some pods only, holds nobody: what it does then was never tried. Verbs:
list and watch on mutatingadmissionpolicies and mutatingadmissionpolicybindings.
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.informer import Change, Informer, InformerTimes, Resource
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.scaling import Selector
from autoscaler.ports import Clock

HOLDS: Final = "headroom-places"
"""The name of the policy."""

SPELLED: Final = "893d2e26920bd98ad55a19cc38a2a4644233e0321dcbb15dd418eed177cd3a7a"
"""What `spelling` says of the policy of config/rbac/jobsets; a test compares them."""

ROOT: Final = "/apis/admissionregistration.k8s.io/v1"
POLICIES: Final = "mutatingadmissionpolicies"
BINDINGS: Final = "mutatingadmissionpolicybindings"

TAKES_S: Final = 5.0
"""Until every API server goes by a policy that was made, changed or bound."""

LONG_S: Final = 60.0
"""A policy that was made and bound so long ago, and never changed, is in force, whatever clocks say. One that could not
be read for so long is none."""


class Rule(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Requests that a policy is asked about."""

    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    scope: str = "*"


class Matches(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a policy or a binding is for; the default leaves nothing out."""

    namespace_selector: Selector = Selector()
    object_selector: Selector = Selector()
    resource_rules: tuple[Rule, ...] = ()
    exclude_resource_rules: tuple[Rule, ...] = ()


class Cel(msgspec.Struct, frozen=True, gc=False):
    """A condition or a variable."""

    name: str = ""
    expression: str = ""


class Mutation(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What is done to an object."""

    patch_type: str = ""
    json_patch: Cel = Cel()
    apply_configuration: Cel = Cel()


class PolicySpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """All of a policy by which it may be held to less than it was written for."""

    failure_policy: str = "Fail"
    param_kind: dict[str, Any] | None = None
    match_constraints: Matches = Matches()
    match_conditions: tuple[Cel, ...] = ()
    variables: tuple[Cel, ...] = ()
    mutations: tuple[Mutation, ...] = ()


class Policy(msgspec.Struct, frozen=True, gc=False):
    """A MutatingAdmissionPolicy."""

    metadata: Meta = Meta()
    spec: PolicySpec = PolicySpec()


class BindingSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which policy is bound, and for what."""

    policy_name: str = ""
    param_ref: dict[str, Any] | None = None
    match_resources: Matches = Matches()


class Binding(msgspec.Struct, frozen=True, gc=False):
    """A MutatingAdmissionPolicyBinding."""

    metadata: Meta = Meta()
    spec: BindingSpec = BindingSpec()


def spelling(spec: PolicySpec) -> str:
    """A policy in a word: another one for every other policy."""
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()


def unheld(policies: Iterable[Policy], bindings: Iterable[Binding]) -> str:
    """Why pods are not held to nodes: what is wrong with the policy; empty where they are held."""
    mine = [each.spec for each in bindings if each.spec.policy_name == HOLDS]
    if not mine:
        return "it is not bound"
    if BindingSpec(HOLDS) not in mine:
        return "it is bound for some pods only"
    policy = next((each for each in policies if each.metadata.name == HOLDS), None)
    if policy is None:
        return "it is bound and is not there"
    return "" if spelling(policy.spec) == SPELLED else "it is not the one that this version comes with"


class Holds:
    """The policies and bindings of a cluster; `believed` says whether what an informer holds is the truth of now."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        changed: Callable[[], None],
        believed: Callable[[Informer[Any]], bool],
        times: InformerTimes,
    ) -> None:
        self._clock = clock
        self._changed = changed
        self._believed = believed
        self._begun_s = self._since_s = clock.monotonic()
        """When it was begun to follow them, and when something of them changed last."""
        self._wrong = unheld((), ())
        self.policies: Informer[Policy] = Informer(
            api, Resource(f"{ROOT}/{POLICIES}", Policy), clock, self._heard, times=times
        )
        self.bindings: Informer[Binding] = Informer(
            api, Resource(f"{ROOT}/{BINDINGS}", Binding), clock, self._heard, times=times
        )

    def doubt(self) -> str:
        """Why pods that are made from now on are not held to nodes; empty where they are, or where that is not known
        yet: nobody is refused for what was not read, or for what API servers have yet to hear of."""
        is_read = self.policies.synced and self.bindings.synced
        if self._is_lost(self.policies) or self._is_lost(self.bindings):
            return "it cannot be read any more" if is_read else "it cannot be read"
        return self._wrong if is_read else ""

    def is_seen(self) -> bool:
        """Whether what is held of it is the truth of now, and every API server goes by it: while the server does not
        answer it may have gone."""
        is_in_force = self._clock.monotonic() >= self._since_s + TAKES_S or self._is_old()
        return is_in_force and all(self._believed(each) for each in (self.policies, self.bindings))

    def _is_lost(self, informer: Informer[Any]) -> bool:
        """Whether something cannot be read, or not for so long that nobody waits for it."""
        silent_s = informer.cut_off_s() if informer.synced else self._clock.monotonic() - self._begun_s
        return informer.denied or bool(informer.unread) or silent_s > LONG_S

    def _is_old(self) -> bool:
        """Whether it was so long before anybody of us looked."""
        policies = [each.metadata for each in self.policies.items.values() if each.metadata.name == HOLDS]
        bindings = [each.metadata for each in self.bindings.items.values() if each.spec == BindingSpec(HOLDS)]
        return all(any(map(self._is_long_made, mine)) for mine in (policies, bindings))

    def _is_long_made(self, meta: Meta) -> bool:
        made = meta.creation_timestamp
        return made is not None and meta.generation <= 1 and self._clock.now() >= made.timestamp() + LONG_S

    def _heard(self, change: Change[Policy] | Change[Binding]) -> None:
        if _mine(change.old) == _mine(change.new):
            return
        self._since_s = self._clock.monotonic()
        self._wrong = unheld(self.policies.items.values(), self.bindings.items.values())
        self._changed()


def _mine(found: Policy | Binding | None) -> PolicySpec | BindingSpec | None:
    """What is stated of the policy or of a binding of it; None for those of others, which delay nothing."""
    if isinstance(found, Policy):
        return found.spec if found.metadata.name == HOLDS else None
    return found.spec if found is not None and found.spec.policy_name == HOLDS else None
