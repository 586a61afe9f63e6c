"""Who claims which workload: every way in, weighed against the others and against whoever else sets replicas.

Enters: changes of targets, ScalingPolicies, HPAs, ScaledObjects and VPAs. Leaves: for each ``namespace/name`` one claim
or none, and the objects that ask in vain with the reason. A ScaledObject whose trigger points here is heard before a
ScalingPolicy, that before an annotation, and an older object before a younger one. It reads nothing by itself and acts
on nothing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from autoscaler.adapters.kube.asked import (
    POLICY_KIND,
    Asked,
    annotated,
    own_annotations,
    policied,
    rejection,
    spoken_of,
    triggered,
)
from autoscaler.adapters.kube.intake import Age
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.owners import owned, sets_replicas
from autoscaler.adapters.kube.scaled_objects import SCALED_OBJECT, ours
from autoscaler.adapters.kube.scaling import VPA_DEFAULT, Hpa, ObjectRef, ScaledObject, ScalingPolicyObject, Target, Vpa
from autoscaler.api.claims import Block, Claim, Kind, Obstacle, Reject, Rejection, TargetRef, Way

HPA: Final = "HPA"
KEDA_LABEL: Final = "scaledobject.keda.sh/name"

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Resolution:
    """What became of all that asks for one workload."""

    claim: Claim | None = None
    rejections: tuple[Rejection, ...] = ()


class Discovery:
    """The books of who asks for what. Feed it changes; `resolve` answers for one workload at a time.

    `keda_addresses` are the scalerAddresses that mean us.
    """

    def __init__(self, kinds: Sequence[Kind], keda_addresses: frozenset[str] = frozenset()) -> None:
        self._kinds = {(k.group, k.kind): k for k in kinds}
        self._keda_addresses = keda_addresses
        self._objects: dict[str, dict[str, Asked]] = defaultdict(dict)
        self._object_keys: dict[str, str] = {}
        self._targets: dict[str, dict[tuple[str, str], Asked | Meta]] = defaultdict(dict)
        self._policies: dict[str, dict[str, Asked]] = defaultdict(dict)
        self._policy_keys: dict[str, str] = {}
        self._others: dict[str, dict[tuple[str, str], tuple[ObjectRef, str]]] = defaultdict(dict)
        self._other_keys: dict[tuple[str, str], str] = {}
        self._keepers: dict[str, str] = {}
        """HPA -> the ScaledObject for which KEDA keeps it, by their keys."""

    def target(self, kind: Kind, key: str, new: Target | None) -> str:
        """Note a target; the key of the workload to resolve again."""
        place = (kind.group, kind.kind)
        if new is None:
            _drop(self._targets, key, place)
            return key
        before = self._targets[key].get(place)
        if isinstance(before, Asked) and own_annotations(before.meta) == own_annotations(new.metadata):
            self._targets[key][place] = replace(before, meta=new.metadata)
        else:
            self._targets[key][place] = annotated(kind, new.metadata) or new.metadata
        return key

    def policy(self, key: str, new: ScalingPolicyObject | None) -> set[str]:
        """Note a ScalingPolicy; the keys of the workloads to resolve again."""
        return _note(self._policies, self._policy_keys, key, None if new is None else policied(new))

    def scaled_object(self, key: str, new: ScaledObject | None) -> set[str]:
        """Note a ScaledObject, ours or another's; the keys of the workloads to resolve again."""
        is_ours = new is not None and bool(ours(new, self._keda_addresses))
        asked = triggered(new, self._keda_addresses) if new is not None and is_ours else None
        touched = _note(self._objects, self._object_keys, key, asked)
        return touched | self.other(key, None if is_ours else new, SCALED_OBJECT)

    def other(self, key: str, new: Hpa | ScaledObject | Vpa | None, kind: str) -> set[str]:
        """Note another object that touches targets, of `kind`; the keys of the workloads to resolve again."""
        touched = set()
        place = (kind, key)
        if place in self._other_keys:
            old = self._other_keys.pop(place)
            _drop(self._others, old, place)
            if kind == HPA:
                self._keepers.pop(key, None)
            touched.add(old)
        if new is not None:
            ref = new.spec.target_ref if isinstance(new, Vpa) else new.spec.scale_target_ref
            aimed = f"{new.metadata.namespace}/{ref.name}"
            mode = new.spec.update_policy.update_mode if isinstance(new, Vpa) and new.spec.update_policy else None
            self._others[aimed][place] = (ref, mode or "")
            self._other_keys[place] = aimed
            keeper = _keeper(new) if isinstance(new, Hpa) else None
            if keeper is not None:
                self._keepers[key] = keeper
            touched.add(aimed)
        return touched

    def resolve(self, key: str) -> Resolution:
        """The claim on one workload, and who asks for it in vain."""
        targets = self._targets.get(key, {})
        made: list[Claim | Rejection] = []
        for kind, book in ((SCALED_OBJECT, self._objects), (POLICY_KIND, self._policies)):
            for name, asked in sorted(book.get(key, {}).items(), key=lambda item: _age(item[1].meta, item[0])):
                made.append(self._claim_of_object(kind, name, asked, targets))
        made += [self._claim_of_annotation(place, t) for place, t in targets.items() if isinstance(t, Asked)]
        claims = [claim for claim in made if isinstance(claim, Claim)]
        rejections = tuple(refused for refused in made if isinstance(refused, Rejection))
        if not claims:
            return Resolution(None, rejections)
        first, *lost = claims
        meta = _meta(targets[first.ref.group, first.ref.kind])
        told = first.remarks + self._remarks(first.ref, lost)
        above = self._owner(meta)
        if above is not None and first.way is Way.SCALED_OBJECT and not above[1]:
            # KEDA writes there whatever is said here: only a number withheld would be added to what its owner does.
            told, above = (*told, above[0]), None
        obstacle = self._obstacle(first.ref) if above is None else Obstacle(Block.OWNER, above[0])
        first = replace(first, obstacle=obstacle, remarks=told)
        return Resolution(first, rejections + tuple(self._outranked(claim, first) for claim in lost))

    def age(self, claim: Claim) -> Age:
        """How old the object is that makes a claim."""
        _, asked = self._asker(claim)
        return _age(asked.meta, asked.meta.uid)

    def refused(self, claim: Claim, reject: Reject, words: str) -> Rejection:
        """A claim that could be and is not served, as what its object asks in vain."""
        kind, asked = self._asker(claim)
        return rejection(asked, kind, reject, words)

    def _asker(self, claim: Claim) -> tuple[str, Asked]:
        """The kind of the object that makes a claim, and what it asks for."""
        key, namespace = claim.ref.workload, claim.ref.namespace
        if claim.scaled_object is not None:
            return SCALED_OBJECT, self._objects[key][f"{namespace}/{claim.scaled_object}"]
        if claim.policy is not None:
            return POLICY_KIND, self._policies[key][f"{namespace}/{claim.policy}"]
        found = self._targets[key][claim.ref.group, claim.ref.kind]
        assert isinstance(found, Asked)
        return claim.ref.kind, found

    def _claim_of_object(
        self, asks: str, key: str, asked: Asked, targets: Mapping[tuple[str, str], Asked | Meta]
    ) -> Claim | Rejection:
        group = asked.ref.api_version.rpartition("/")[0]
        kind = self._kinds.get((group, asked.ref.kind))
        target = targets.get((group, asked.ref.kind))
        if asked.spec is None:
            return rejection(asked, asks, Reject.INVALID, asked.fault)
        if kind is None:
            legal = ", ".join(k.kind for k in self._kinds.values())
            words = (
                f"{asked.ref.kind} of {asked.ref.api_version} is not a kind Headroom may scale here; listed: {legal}"
            )
            return rejection(asked, asks, Reject.KIND_REFUSED, words)
        if target is None:
            words = f"there is no {kind.kind} {asked.ref.name} in namespace {asked.meta.namespace}"
            return rejection(asked, asks, Reject.NO_TARGET, words)
        ref, name, generation = _ref(kind, _meta(target)), key.partition("/")[2], asked.meta.generation
        if asks == SCALED_OBJECT:
            way = Way.SCALED_OBJECT
            return Claim(ref, asked.spec, way, None, generation, remarks=asked.remarks, scaled_object=name)
        return Claim(ref, asked.spec, Way.SCALING_POLICY, name, generation)

    def _claim_of_annotation(self, place: tuple[str, str], asked: Asked) -> Claim | Rejection:
        kind = self._kinds[place]
        if asked.spec is None:
            return rejection(asked, kind.kind, Reject.INVALID, asked.fault)
        return Claim(_ref(kind, asked.meta), asked.spec, Way.ANNOTATION, None, asked.meta.generation)

    def _outranked(self, claim: Claim, winner: Claim) -> Rejection:
        words = f"{spoken_of(winner)} claims {winner.ref.workload} already"
        return self.refused(claim, Reject.OUTRANKED, words)

    def _owner(self, meta: Meta) -> tuple[str, bool] | None:
        """What to tell of who controls a target, and whether that is known to set its replicas; None without one."""
        for owner in meta.owner_references:
            if owner.controller:
                return owned(owner, self._kinds), sets_replicas(owner)
        return None

    def _obstacle(self, ref: TargetRef) -> Obstacle | None:
        for (kind, key), (aimed, _) in sorted(self._others.get(ref.workload, {}).items()):
            if kind == "Vpa" or not _same(aimed, ref) or (kind == HPA and self._spoken_for(key, ref.workload)):
                continue
            name = key.partition("/")[2]
            block = Block.SCALED_OBJECT if kind == SCALED_OBJECT else Block.HPA
            words = f"{block.value} {name} sets its replicas too; delete one of the two, or leave Headroom in Shadow"
            return Obstacle(block, words)
        for key, asked in sorted(self._objects.get(ref.workload, {}).items()):
            if asked.spec is None and _same(asked.ref, ref):
                words = f"ScaledObject {key.partition('/')[2]} points at Headroom and cannot be read: {asked.fault}"
                return Obstacle(Block.SCALED_OBJECT, words)
        return None

    def _spoken_for(self, hpa: str, workload: str) -> bool:
        """Whether an HPA is KEDA's for a ScaledObject that is known to aim at the workload, and is told itself.

        One whose ScaledObject is not there, or may not be read, scales all the same.
        """
        keeper = self._keepers.get(hpa)
        if keeper is None:
            return False
        return workload in {self._object_keys.get(keeper), self._other_keys.get((SCALED_OBJECT, keeper))}

    def _remarks(self, ref: TargetRef, lost: Sequence[Claim]) -> tuple[str, ...]:
        remarks = [
            f"VerticalPodAutoscaler {key.partition('/')[2]} resizes its pods (update mode {mode or VPA_DEFAULT}): "
            "what one replica carries may change"
            for (kind, key), (aimed, mode) in sorted(self._others.get(ref.workload, {}).items())
            if kind == "Vpa" and _same(aimed, ref) and mode != "Off"
        ]
        remarks += [
            f"{claim.way.value} {claim.scaled_object or claim.policy or claim.ref.kind} asks too and is not heard"
            for claim in lost
        ]
        return tuple(remarks)


def _note(book: dict[str, dict[str, Asked]], places: dict[str, str], key: str, asked: Asked | None) -> set[str]:
    """Enter an object in its book, or take it out; the keys of the workloads to resolve again."""
    touched = set()
    if key in places:
        old = places.pop(key)
        _drop(book, old, key)
        touched.add(old)
    if asked is not None:
        aimed = f"{asked.meta.namespace}/{asked.ref.name}"
        book[aimed][key] = asked
        places[key] = aimed
        touched.add(aimed)
    return touched


def _drop(book: dict[str, dict[K, V]], aimed: str, entry: K) -> None:
    """Take an entry out, and the page of its workload with the last one: names come and go for ever."""
    page = book.get(aimed, {})
    page.pop(entry, None)
    if not page:
        book.pop(aimed, None)


def _keeper(hpa: Hpa) -> str | None:
    """The ScaledObject for which KEDA made an HPA, if it did; the label can be excluded, the owner cannot."""
    meta = hpa.metadata
    owner = next((one.name for one in meta.owner_references if one.kind == SCALED_OBJECT), meta.labels.get(KEDA_LABEL))
    return None if owner is None else f"{meta.namespace}/{owner}"


def _meta(found: Asked | Meta) -> Meta:
    return found.meta if isinstance(found, Asked) else found


def _age(meta: Meta, name: str) -> Age:
    return (meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0, name)


def _ref(kind: Kind, meta: Meta) -> TargetRef:
    return TargetRef(kind.group, kind.version, kind.resource, kind.kind, meta.namespace, meta.name, meta.uid)


def _same(aimed: ObjectRef, ref: TargetRef) -> bool:
    """Whether another object's reference means `ref`; KEDA leaves kind and group out for a Deployment."""
    kind = aimed.kind or "Deployment"
    group = aimed.api_version.rpartition("/")[0] if aimed.api_version else "apps"
    return kind == ref.kind and group == ref.group
