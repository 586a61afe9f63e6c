"""What an object asks for, read once when it changes: its target and its policy, or why the policy cannot be read.

Enters: annotated targets, ScalingPolicies, ScaledObjects whose trigger points here. Leaves: `Asked`, and the words for
those that ask in vain.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from autoscaler.adapters.kube.answers import UNREADABLE
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.scaled_objects import API_VERSION, SCALED_OBJECT, read_scaled_object, remarks, target_of
from autoscaler.adapters.kube.scaling import ObjectRef, ScaledObject, ScalingPolicyObject
from autoscaler.api.annotations import PREFIX, read_annotations
from autoscaler.api.claims import Claim, Kind, Reject, Rejection
from autoscaler.api.scaling_policy import ScalingPolicySpec, read_scaling_policy
from autoscaler.errors import InputError

POLICY_KIND: Final = "ScalingPolicy"

_VERSIONS: Final = {POLICY_KIND: "headroom.dev/v1alpha1", SCALED_OBJECT: API_VERSION}


@dataclass(frozen=True, slots=True)
class Asked:
    """An object that asks: its policy, or why it cannot be read."""

    meta: Meta
    ref: ObjectRef
    spec: ScalingPolicySpec | None
    fault: str = ""
    remarks: tuple[str, ...] = ()


class _Aimed(msgspec.Struct, frozen=True, rename="camel"):
    target_ref: ObjectRef = ObjectRef()


_aimed = msgspec.json.Decoder(_Aimed)


def annotated(kind: Kind, meta: Meta) -> Asked | None:
    """What a target asks for itself; None when it does not ask."""
    ref = ObjectRef(f"{kind.group}/{kind.version}" if kind.group else kind.version, kind.kind, meta.name)
    try:
        spec = read_annotations(meta.annotations)
    except InputError as error:
        return Asked(meta, ref, None, str(error))
    return None if spec is None else Asked(meta, ref, spec)


def own_annotations(meta: Meta) -> dict[str, str]:
    """Those of an object that are addressed to Headroom."""
    return {key: value for key, value in meta.annotations.items() if key.startswith(PREFIX)}


def policied(found: ScalingPolicyObject) -> Asked:
    """What a ScalingPolicy asks for."""
    try:
        spec = read_scaling_policy(bytes(found.spec))
    except InputError as error:
        return Asked(found.metadata, _aim(found), None, str(error))
    assert spec.target_ref is not None
    ref = spec.target_ref
    return Asked(found.metadata, ObjectRef(ref.api_version, ref.kind, ref.name), spec)


def _aim(found: ScalingPolicyObject) -> ObjectRef:
    """The target of a policy that cannot be read, as far as that can be: it goes on asking for it."""
    try:
        return _aimed.decode(bytes(found.spec)).target_ref
    except UNREADABLE:
        return ObjectRef()


def triggered(found: ScaledObject, addresses: frozenset[str]) -> Asked:
    """What a ScaledObject with a trigger that points here asks for."""
    ref = target_of(found)
    try:
        spec = read_scaled_object(found, addresses)
    except InputError as error:
        return Asked(found.metadata, ref, None, str(error))
    return Asked(found.metadata, ref, spec, remarks=remarks(found, addresses))


def rejection(asked: Asked, kind: str, reject: Reject, message: str) -> Rejection:
    """An object of `kind` that asks in vain."""
    meta, version = asked.meta, _VERSIONS.get(kind, asked.ref.api_version)
    policy = kind == POLICY_KIND
    return Rejection(meta.namespace, meta.name, policy, kind, version, meta.uid, meta.generation, reject, message)


def spoken_of(claim: Claim) -> str:
    """A claim by what asks for it, such as "ScaledObject chat"."""
    by = claim.scaled_object or claim.policy
    return f"{claim.way.value} {by}" if by else f"the annotations of {claim.ref.kind} {claim.ref.name}"
