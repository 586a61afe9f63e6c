"""Who claims which workload: every way in, weighed against the others and against whoever else sets replicas.

Enters: changes of targets, ScalingPolicies, HPAs, ScaledObjects and VPAs. Leaves: for each ``namespace/name`` one claim
or none, and the objects that ask in vain with the reason. A ScalingPolicy is heard before an annotation, and an older
policy before a younger one. It reads nothing by itself and acts on nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.scaling import Hpa, ObjectRef, ScaledObject, ScalingPolicyObject, Target, Vpa
from autoscaler.api.annotations import PREFIX, read_annotations
from autoscaler.api.claims import Block, Claim, Kind, Obstacle, Reject, Rejection, TargetRef, Way
from autoscaler.api.scaling_policy import ScalingPolicySpec, read_scaling_policy
from autoscaler.errors import InputError

POLICY_KIND: Final = "ScalingPolicy"

OWNERS: Final = frozenset({"InferenceService", "LLMInferenceService"})
"""KServe's kinds; their controller writes the replicas of what they own (kserve/kserve, reconcilers of deployments)."""

KEDA_LABEL: Final = "scaledobject.keda.sh/name"
"""KEDA puts it on the HPA that it makes, so that such an HPA is not told twice."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of all that asks for one workload."""

    claim: Claim | None = None
    rejections: tuple[Rejection, ...] = ()


@dataclass(frozen=True, slots=True)
class _Asked:
    """A ScalingPolicy or an annotated target: its policy, or why it cannot be read."""

    meta: Meta
    ref: ObjectRef
    spec: ScalingPolicySpec | None
    fault: str = ""


class Discovery:
    """The books of who asks for what. Feed it changes; `resolve` answers for one workload at a time."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = {(k.group, k.kind): k for k in kinds}
        self._targets: dict[str, dict[tuple[str, str], _Asked | Meta]] = defaultdict(dict)
        self._policies: dict[str, dict[str, _Asked]] = defaultdict(dict)
        self._policy_keys: dict[str, str] = {}
        self._others: dict[str, dict[tuple[str, str], tuple[ObjectRef, str]]] = defaultdict(dict)
        self._other_keys: dict[tuple[str, str], str] = {}

    def target(self, kind: Kind, key: str, new: Target | None) -> str:
        """Note a target; the key of the workload to resolve again."""
        place = (kind.group, kind.kind)
        if new is None:
            self._targets[key].pop(place, None)
            return key
        before = self._targets[key].get(place)
        if isinstance(before, _Asked) and _ours(before.meta) == _ours(new.metadata):
            self._targets[key][place] = replace(before, meta=new.metadata)
        else:
            self._targets[key][place] = _annotated(kind, new.metadata)
        return key

    def policy(self, key: str, new: ScalingPolicyObject | None) -> set[str]:
        """Note a ScalingPolicy; the keys of the workloads to resolve again."""
        touched = set()
        if key in self._policy_keys:
            old = self._policy_keys.pop(key)
            self._policies[old].pop(key)
            touched.add(old)
        if new is not None:
            asked = _policied(new)
            aimed = f"{new.metadata.namespace}/{asked.ref.name}"
            self._policies[aimed][key] = asked
            self._policy_keys[key] = aimed
            touched.add(aimed)
        return touched

    def other(self, key: str, new: Hpa | ScaledObject | Vpa | None, kind: str) -> set[str]:
        """Note another object that touches targets, of `kind`; the keys of the workloads to resolve again."""
        touched = set()
        place = (kind, key)
        if place in self._other_keys:
            old = self._other_keys.pop(place)
            self._others[old].pop(place)
            touched.add(old)
        if new is not None and not (isinstance(new, Hpa) and KEDA_LABEL in new.metadata.labels):
            ref = new.spec.target_ref if isinstance(new, Vpa) else new.spec.scale_target_ref
            aimed = f"{new.metadata.namespace}/{ref.name}"
            mode = new.spec.update_policy.update_mode if isinstance(new, Vpa) and new.spec.update_policy else None
            self._others[aimed][place] = (ref, mode or "")
            self._other_keys[place] = aimed
            touched.add(aimed)
        return touched

    def workloads(self) -> Iterator[str]:
        """Every workload that anybody asks for."""
        yield from {
            key for key, by_kind in self._targets.items() if any(isinstance(t, _Asked) for t in by_kind.values())
        }
        yield from {key for key, asked in self._policies.items() if asked} - self._targets.keys()

    def resolve(self, key: str) -> Resolution:
        """The claim on one workload, and who asks for it in vain."""
        targets = self._targets.get(key, {})
        claims: list[Claim] = []
        rejections: list[Rejection] = []
        for name, asked in sorted(self._policies.get(key, {}).items(), key=lambda item: _age(item[1].meta, item[0])):
            made = self._claim_of_policy(name, asked, targets)
            (claims if isinstance(made, Claim) else rejections).append(made)  # type: ignore[arg-type]
        for place, found in targets.items():
            if isinstance(found, _Asked):
                made = self._claim_of_annotation(place, found)
                (claims if isinstance(made, Claim) else rejections).append(made)  # type: ignore[arg-type]
        if not claims:
            return Resolution(None, tuple(rejections))
        first, *lost = claims
        meta = _meta(targets[first.ref.group, first.ref.kind])
        first = replace(first, obstacle=self._obstacle(first.ref, meta), remarks=self._remarks(first.ref, lost))
        return Resolution(first, (*rejections, *(_outranked(claim, first, self._asked(claim)) for claim in lost)))

    def _claim_of_policy(
        self, key: str, asked: _Asked, targets: Mapping[tuple[str, str], "_Asked | Meta"]
    ) -> Claim | Rejection:
        group = asked.ref.api_version.rpartition("/")[0]
        kind = self._kinds.get((group, asked.ref.kind))
        target = targets.get((group, asked.ref.kind))
        if asked.spec is None:
            return _rejection(asked, POLICY_KIND, Reject.INVALID, asked.fault)
        if kind is None:
            legal = ", ".join(k.kind for k in self._kinds.values())
            words = (
                f"{asked.ref.kind} of {asked.ref.api_version} is not a kind Headroom may scale here; listed: {legal}"
            )
            return _rejection(asked, POLICY_KIND, Reject.KIND_REFUSED, words)
        if target is None:
            words = f"there is no {kind.kind} {asked.ref.name} in namespace {asked.meta.namespace}"
            return _rejection(asked, POLICY_KIND, Reject.NO_TARGET, words)
        name = key.partition("/")[2]
        return Claim(_ref(kind, _meta(target)), asked.spec, Way.SCALING_POLICY, name, asked.meta.generation)

    def _claim_of_annotation(self, place: tuple[str, str], asked: _Asked) -> Claim | Rejection:
        kind = self._kinds[place]
        if asked.spec is None:
            return _rejection(asked, kind.kind, Reject.INVALID, asked.fault)
        return Claim(_ref(kind, asked.meta), asked.spec, Way.ANNOTATION, None, asked.meta.generation)

    def _asked(self, claim: Claim) -> _Asked:
        """What a claim was made from."""
        key = claim.ref.workload
        if claim.policy is not None:
            return self._policies[key][f"{claim.ref.namespace}/{claim.policy}"]
        found = self._targets[key][claim.ref.group, claim.ref.kind]
        assert isinstance(found, _Asked)
        return found

    def _obstacle(self, ref: TargetRef, meta: Meta) -> Obstacle | None:
        for owner in meta.owner_references:
            if owner.controller and owner.kind in OWNERS:
                words = f"{owner.kind} {owner.name} owns it and sets its replicas; set the scaling on that object"
                return Obstacle(Block.OWNER, words)
        for (kind, key), (aimed, _) in sorted(self._others.get(ref.workload, {}).items()):
            if kind == "Vpa" or not _same(aimed, ref):
                continue
            name = key.partition("/")[2]
            block = Block.SCALED_OBJECT if kind == "ScaledObject" else Block.HPA
            words = f"{block.value} {name} sets its replicas too; delete one of the two, or leave Headroom in Shadow"
            return Obstacle(block, words)
        return None

    def _remarks(self, ref: TargetRef, lost: Sequence[Claim]) -> tuple[str, ...]:
        remarks = [
            f"VerticalPodAutoscaler {key.partition('/')[2]} resizes its pods (update mode {mode or 'Auto'}): "
            "what one replica carries may change"
            for (kind, key), (aimed, mode) in sorted(self._others.get(ref.workload, {}).items())
            if kind == "Vpa" and _same(aimed, ref) and mode != "Off"
        ]
        remarks += [
            f"{claim.way.value} {claim.policy or claim.ref.kind} asks for it too and is not heard" for claim in lost
        ]
        return tuple(remarks)


def _annotated(kind: Kind, meta: Meta) -> "_Asked | Meta":
    ref = ObjectRef(f"{kind.group}/{kind.version}" if kind.group else kind.version, kind.kind, meta.name)
    try:
        spec = read_annotations(meta.annotations)
    except InputError as error:
        return _Asked(meta, ref, None, str(error))
    return meta if spec is None else _Asked(meta, ref, spec)


def _policied(found: ScalingPolicyObject) -> _Asked:
    try:
        spec = read_scaling_policy(bytes(found.spec))
    except InputError as error:
        return _Asked(found.metadata, ObjectRef(), None, str(error))
    assert spec.target_ref is not None
    ref = spec.target_ref
    return _Asked(found.metadata, ObjectRef(ref.api_version, ref.kind, ref.name), spec)


def _meta(found: "_Asked | Meta") -> Meta:
    return found.meta if isinstance(found, _Asked) else found


def _ours(meta: Meta) -> dict[str, str]:
    return {key: value for key, value in meta.annotations.items() if key.startswith(PREFIX)}


def _age(meta: Meta, name: str) -> tuple[float, str]:
    return (meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0, name)


def _ref(kind: Kind, meta: Meta) -> TargetRef:
    return TargetRef(kind.group, kind.version, kind.resource, kind.kind, meta.namespace, meta.name, meta.uid)


def _same(aimed: ObjectRef, ref: TargetRef) -> bool:
    """Whether another object's reference means `ref`; KEDA leaves kind and group out for a Deployment."""
    kind = aimed.kind or "Deployment"
    group = aimed.api_version.rpartition("/")[0] if aimed.api_version else "apps"
    return kind == ref.kind and group == ref.group


def _rejection(asked: _Asked, kind: str, reject: Reject, message: str) -> Rejection:
    meta, policy = asked.meta, kind == POLICY_KIND
    version = "headroom.dev/v1alpha1" if policy else asked.ref.api_version
    return Rejection(meta.namespace, meta.name, policy, kind, version, meta.uid, meta.generation, reject, message)


def _outranked(claim: Claim, winner: Claim, asked: _Asked) -> Rejection:
    by = (
        f"{winner.way.value} {winner.policy}"
        if winner.policy
        else f"the annotations of {winner.ref.kind} {winner.ref.name}"
    )
    kind = POLICY_KIND if claim.policy else claim.ref.kind
    return _rejection(asked, kind, Reject.OUTRANKED, f"{by} claims {winner.ref.workload} already")
