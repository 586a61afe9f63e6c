"""The informers of a cluster by what they are needed for, and how far what they hold may be believed.

Enters: a client, what to follow, whom to tell. Leaves: informers, and how long each was not heard. While one is not
heard, what was read stays; what may be done on it is said here:
- the target, its pods or the freeze not heard: the count is not of now, and nothing is done (`cut_off_s`);
- the object that a claim was read from not heard, or not readable: its mode may be another, and nothing is done;
- quotas, limit ranges, HPAs or ScaledObjects of others not heard, or any of these or a pod not readable: a limit or a
  rival may have come, so nothing is taken away; growing goes on, for the server refuses what a quota forbids, and a
  count that a rival sets is seen as an edit and not worked against.
What we have no right to read is done without and told, but for what a claim was read from; so is what the server did
not serve when it was heard last.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from autoscaler.adapters.kube.informer import Informer
from autoscaler.adapters.kube.limits import LimitRange, Quota
from autoscaler.adapters.kube.membership import Owned, owner_by
from autoscaler.adapters.kube.objects import ConfigMap
from autoscaler.adapters.kube.pods import Node, Pod
from autoscaler.adapters.kube.pulls import PulledEvent
from autoscaler.adapters.kube.scaling import Hpa, ScaledObject, ScalingPolicyObject, Target, Vpa
from autoscaler.adapters.kube.scope import FREEZE_KEY
from autoscaler.api.claims import Claim, Doubt, Kind, TargetRef, Way
from autoscaler.record.explain import duration
from autoscaler.record.status import Problem

BELIEVED_S: Final = 10.0
"""A mode, a limit and the absence of a rival are believed for so long after their stream broke; one that is silent for
75 s counts as broken since it was heard last. A watch that is opened again takes at most some four seconds. Before a
patch, what was quiet for as long is looked at again (`recheck`)."""


@dataclass(frozen=True, slots=True)
class Followed:
    """Every informer there is, each list by namespaces where not all are followed."""

    pods: list[Informer[Pod]]
    targets: Mapping[Kind, list[Informer[Target]]]
    policies: list[Informer[ScalingPolicyObject]]
    hpas: list[Informer[Hpa]]
    scaled_objects: list[Informer[ScaledObject]]
    vpas: list[Informer[Vpa]]
    quotas: list[Informer[Quota]]
    ranges: list[Informer[LimitRange]]
    freezes: list[Informer[ConfigMap]]
    nodes: list[Informer[Node]]
    pulls: list[Informer[PulledEvent]]

    def all(self) -> Iterator[Informer[Any]]:
        """Every one of them."""
        for spec in fields(self):
            some = getattr(self, spec.name)
            for informers in some.values() if isinstance(some, Mapping) else (some,):
                yield from informers

    def target(self, ref: TargetRef) -> Target | None:
        """The target as it was last seen, None when it is gone or was made anew."""
        for kind, informers in self.targets.items():
            if (kind.group, kind.kind) == (ref.group, ref.kind):
                for informer in informers:
                    found = informer.items.get(ref.workload)
                    if found is not None and found.metadata.uid == ref.uid:
                        return found
        return None

    def policy(self, namespace: str, name: str) -> ScalingPolicyObject | None:
        """A ScalingPolicy as it was last seen."""
        found = (informer.items.get(f"{namespace}/{name}") for informer in self.policies)
        return next((policy for policy in found if policy is not None), None)

    def limits_of(self, namespace: str) -> tuple[list[Quota], list[LimitRange]]:
        """The quotas and limit ranges of a namespace."""
        quotas = [q for informer in self.quotas for q in informer.items.values() if q.metadata.namespace == namespace]
        ranges = [r for informer in self.ranges for r in informer.items.values() if r.metadata.namespace == namespace]
        return quotas, ranges

    @property
    def frozen(self) -> str | None:
        """Why everything is frozen, None while it is not."""
        return freeze_of(list(self.freezes[0].items.values()))  # KEDA's thread asks too

    def silent(self, beyond_s: float) -> tuple[str, ...]:
        """Resources that were not heard for longer and cannot be done without, with why; each cause once."""
        return silences(
            informer for informer in self.all() if informer.staleness_s() > beyond_s and not self.spared(informer)
        )

    def spared(self, informer: Informer[Any]) -> bool:
        """Whether others can be served without it: because it may not be read, or changes nothing that is done.

        Without pods and the freeze nobody can. What is only told or measured is not waited for while it fails: a
        conversion webhook of somebody else's resource would keep everything from being scaled.
        """
        if informer in (*self.vpas, *self.nodes, *self.pulls):
            return self.missed(informer)
        return informer.denied and informer not in (*self.pods, *self.freezes)

    def missed(self, informer: Informer[Any]) -> bool:
        """Whether it fails and shows only what is told or measured: nothing that is done waits for it."""
        return informer in (*self.vpas, *self.nodes, *self.pulls) and informer.error is not None

    def asking(self) -> list[Informer[Any]]:
        """The informers of whatever may ask that somebody is scaled."""
        targets = [i for some in self.targets.values() for i in some]
        return [*targets, *self.policies, *self.scaled_objects]

    def behind(self, ref: TargetRef) -> list[Informer[Any]]:
        """The informers that show a target, its pods, and the freeze: what cannot be stopped is left alone."""
        targets = [i for kind, some in self.targets.items() if kind.kind == ref.kind for i in some]
        return [*within(ref.namespace, (*targets, *self.pods)), *self.freezes]

    def doubt(self, claim: Claim) -> Doubt | None:
        """What may be otherwise than it was read, and what is not done therefore; None while all is believed."""
        if not any(informer.cut_off_s() > 0 or informer.unread for informer in self.all()):
            return None
        namespace = claim.ref.namespace
        own, key = self.read_from(claim)
        for informer in within(namespace, own):
            if informer.cut_off_s() > BELIEVED_S or key in informer.unread:
                cause = f"its mode may be another by now ({_why(informer, key)})"
                return Doubt(True, cause, remedy(informer, key))
        rivals: list[Informer[Any]] = [*self.hpas, *self.scaled_objects, *self.quotas, *self.ranges]
        for informer in within(namespace, rivals):
            if informer.cut_off_s() > BELIEVED_S and not (informer.denied or informer.absent):
                return _kept(informer, "")
        for informer in within(namespace, (*rivals, *self.pods)):
            for unread in informer.unread:
                if unread.startswith(f"{namespace}/"):
                    return _kept(informer, unread)
        return None

    def large(self, namespace: str) -> Iterator[Problem]:
        """Objects of a namespace whose newest event was far larger than such objects are."""
        for informer in self.all():
            for key, size_bytes in informer.large.items():
                if key.startswith(f"{namespace}/"):
                    plural, size = informer.path.rpartition("/")[2], f"{size_bytes / 1e6:.1f} MB"
                    yield Problem(f"an event of {size} about {plural} {key} keeps others waiting", mend(plural, key))

    def unread_pods(self, ref: TargetRef) -> int:
        """Pods of a target of which no version could ever be read: they are there, and nothing else is known."""
        owned = Owned(ref.kind, ref.workload)
        return sum(
            key not in informer.items and unread.meta is not None and owner_by(unread.meta) == owned
            for informer in self.pods
            for key, unread in informer.unread.items()
        )

    def read_from(self, claim: Claim) -> tuple[Iterable[Informer[Any]], str]:
        """The informers that show the object whose words a claim is, and its key."""
        if claim.way is Way.SCALED_OBJECT:
            return self.scaled_objects, f"{claim.ref.namespace}/{claim.scaled_object}"
        if claim.way is Way.SCALING_POLICY:
            return self.policies, f"{claim.ref.namespace}/{claim.policy}"
        kind = claim.ref.kind
        return [i for k, some in self.targets.items() if k.kind == kind for i in some], claim.ref.workload


def freeze_of(found: Iterable[ConfigMap]) -> str | None:
    """Why everything is frozen by these ConfigMaps, None where it is not."""
    for one in found:
        words = one.data.get(FREEZE_KEY, "").strip()
        if words and words.lower() != "false":
            return words
    return None


def silences(informers: Iterable[Informer[Any]]) -> tuple[str, ...]:
    """For how long resources were not heard, and why; those that are silent by one cause are told as one, and counted.

    A server that is gone would else be told as often as there are resources.
    """
    by_cause: dict[tuple[bool, str], list[Informer[Any]]] = {}
    for informer in informers:
        by_cause.setdefault((math.isfinite(informer.staleness_s()), _cause(informer)), []).append(informer)
    return tuple(silence(*alike) for alike in by_cause.values())


def silence(*alike: Informer[Any]) -> str:
    """For how long a resource was not heard, and why; of several with one cause the longest, and how many more."""
    longest = max(alike, key=lambda informer: informer.staleness_s())
    gone_s = longest.staleness_s()
    since = f"not heard for {duration(round(gone_s))}" if math.isfinite(gone_s) else "not read yet"
    others = f"; and so {len(alike) - 1} more" if len(alike) > 1 else ""
    return f"{since}: {longest.error or longest.path}{others}"


def _cause(informer: Informer[Any]) -> str:
    """Why it is not heard, without the call that failed; its path where nothing failed."""
    call, _, cause = str(informer.error or "").partition(": ")
    return cause if cause and informer.path in call else str(informer.error or informer.path)


def remedy(informer: Informer[Any], key: str = "") -> str:
    """What to do so that a resource, or the object of it that is called `key`, can be read again."""
    group, plural = informer.path.removeprefix("/apis/").split("/")[0], informer.path.rsplit("/", 1)[-1]
    if key in informer.unread:
        return mend(plural, key)
    if informer.denied:
        where = f"{group}/{plural}" if informer.path.startswith("/apis/") else plural
        granted = "helm upgrade restores the chart's roles; without the chart kubectl apply -f config/rbac"
        return f"let Headroom's service account list and watch {where}: {granted}"
    return f"see what the API server answers: kubectl get --raw '{informer.path}?limit=1'"


def mend(plural: str, key: str) -> str:
    """What to do about an object that is not as such objects are."""
    namespace, _, name = key.rpartition("/")
    return f"mend the object: kubectl -n {namespace} get {plural} {name} -o yaml"


def _why(informer: Informer[Any], key: str) -> str:
    return f"{key} cannot be read: {informer.unread[key].why}" if key in informer.unread else silence(informer)


def _kept(informer: Informer[Any], key: str) -> Doubt:
    cause = f"a limit or another scaler may have come ({_why(informer, key)})"
    return Doubt(False, cause, remedy(informer, key))


def within(namespace: str, informers: Iterable[Informer[Any]]) -> list[Informer[Any]]:
    """Those that show a namespace."""
    own = f"/namespaces/{namespace}/"
    return [informer for informer in informers if own in informer.path or "/namespaces/" not in informer.path]
