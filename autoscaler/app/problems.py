"""What cannot be read or done of a workload now, each with what a person can do about it.

Enters: what the rooms that read a workload found wrong. Leaves: problems; a remedy names the object, the setting or the
command that it takes. Nothing here is asked of anybody: whoever calls has asked.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from autoscaler.adapters.engines.dcgm import GpuHealth
from autoscaler.adapters.engines.workload import Silent
from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.api.claims import Claim, Doubt, TargetRef
from autoscaler.ports import Fault
from autoscaler.record.explain import duration
from autoscaler.record.status import Problem

MOST_PAGES: Final = 5
"""Pages that are told one by one."""

PAGES: Final[Mapping[Fault, str]] = MappingProxyType(
    {
        Fault.UNAVAILABLE: "see that its engine is well (kubectl logs) and listens on the policy's metricsPort, and "
        "that no network policy keeps Headroom from it",
        Fault.TIMEOUT: "see whether its engine hangs (kubectl logs), or a network policy drops what Headroom asks",
        Fault.DENIED: "have the page served to Headroom without credentials, at an address of the pod's own",
        Fault.INVALID: "see what answers there: the policy's engine, metricsPort and metricsPath say what is read",
        Fault.OUTDATED: "see whether its engine still writes its page: the numbers on it are old",
    }
)
"""What helps a page that cannot be read, by what is wrong with it."""

SET_S: Final = 10.0
"""A clock that is off by less is a time server's work."""

NOBODY: Final = Problem(
    "no serving pod and no gateway to ask for metrics",
    "see why no pod is ready (kubectl describe pod); for work that comes while there is none, name a gateway",
)


TRACED: Final = frozenset({"Deployment", "StatefulSet", "LeaderWorkerSet", "Rollout", "ReplicaSet"})
"""Kinds whose pods are found however they are owned; of another only those that it owns itself."""


def podless(cluster: Cluster, ref: TargetRef) -> Iterator[Problem]:
    """A target of another kind whose pods, if there are any, are owned by something that it made."""
    target = cluster.target(ref)
    if ref.kind in TRACED or target is None or target.spec.replicas == 0 or cluster.members.pods(ref):
        return
    yield Problem(
        f"no pod of {ref.kind} {ref.workload} is found: none names it as its controller",
        "have Headroom scale what the pods name instead (kubectl describe pod: Controlled By; for a ReplicaSet, its "
        "Deployment); until then only figures of a gateway or a trigger count",
    )


def unread(silent: Iterable[Silent]) -> Iterator[Problem]:
    """Pages that gave nothing that can be used, the first few one by one."""
    told = list(silent)
    for one in told[:MOST_PAGES]:
        yield Problem(f"{one.pod}: {one.fault.value}: {one.message}", PAGES[one.fault])
    if len(told) > MOST_PAGES:
        yield Problem(f"and {len(told) - MOST_PAGES} more", "mend those above first: the others are likely the same")


def doubted(doubt: Doubt | None) -> Iterator[Problem]:
    """What was read of the claim and may be otherwise by now."""
    if doubt is not None:
        yield Problem(doubt.words, doubt.remedy)


def lost(claim: Claim, words: str | None) -> Iterator[Problem]:
    """The Prometheus behind a claim's pods that gave nothing when it was asked."""
    if words is not None:
        where = f"prometheus.{claim.spec.prometheus}"
        yield Problem(words, f"see that Prometheus answers at the URL that {where} has in the settings")


def misset(off_s: float) -> Iterator[Problem]:
    """A machine's clock that was set, `off_s` ahead of the time that decisions follow."""
    if abs(off_s) >= SET_S:
        way = "ahead of" if off_s > 0 else "behind"
        yield Problem(
            f"the clock of Headroom's machine was set: it is {duration(round(abs(off_s)))} {way} the time that is "
            "followed, which nears it by 2 % and ends no hold early; calendars are off by as much",
            "see that the node keeps its time (chronyc tracking, timedatectl); a restart takes its clock as it is",
        )


def unforetold(words: str | None) -> Iterator[Problem]:
    """A preview of an HPA that failed."""
    if words is not None:
        yield Problem(words, "report it with the controller's log; scaling goes on without the preview")


def failed(pod: str, health: GpuHealth) -> Problem:
    """A GPU that failed under a pod."""
    words = f"{pod} on {health.node}: GPU error {health.xid}, it serves nobody: drain the node"
    return Problem(words, f"kubectl drain {health.node} --ignore-daemonsets --delete-emptydir-data")


def slow(words: Iterable[str]) -> Iterator[Problem]:
    """Starts that take much longer than such starts did."""
    for one in words:
        pod = one.partition(" ")[0]
        namespace, _, name = pod.partition("/")
        yield Problem(one, f"kubectl -n {namespace} describe pod {name}")
