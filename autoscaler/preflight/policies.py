"""Ready-to-apply ScalingPolicies: what the measurements say a policy should begin with, each number with its origin.

Enters: studies. Leaves: YAML that the API server takes, in mode Shadow. A number that cannot be told is left out, which
keeps the field's default, and a comment says why. Every document is read back by the policy model before it leaves.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from autoscaler import __version__
from autoscaler.api.crd import GROUP, KIND, VERSION
from autoscaler.api.modes import Mode
from autoscaler.api.scaling_policy import MOST_GPUS_PER_REPLICA, read_scaling_policy
from autoscaler.core.demand.peaks import CEILING
from autoscaler.preflight.answers import Answer, CannotTell, Measured, Why
from autoscaler.preflight.history import Fact
from autoscaler.preflight.manifests import comment, commented, scalar, slug
from autoscaler.preflight.phrases import behind, value_text, window_text
from autoscaler.preflight.study import WorkloadStudy, recommended_replicas
from autoscaler.preflight.sustained import DAY_S, LEAST_DAYS

MOST_WARMUP_S: Final = 7200.0
MOST_REPLICAS: Final = 100_000
OBJECTIVE_S: Final = (0.001, 3600.0)

_API_VERSIONS: Final = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "Rollout": "argoproj.io/v1alpha1",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A field of the spec with where its value comes from; None leaves it out, and the origin says why."""

    field: str
    value: str | None
    origin: str


def policies(studies: Sequence[WorkloadStudy], *, command: str) -> str:
    """One ScalingPolicy per workload as a YAML stream."""
    used: set[tuple[str, str]] = set()
    head = comment(
        f"Written by headroom preflight {__version__}: {command}",
        "Every policy only decides and records (Shadow) until you write Active. Check the targets: a trace does not "
        "know what serves it.",
    )
    return head + "---\n".join(policy(study, used) for study in studies)


def policy(study: WorkloadStudy, used: set[tuple[str, str]]) -> str:
    """The policy of one workload; its name is added to `used`, and differs from those already in there."""
    namespace, target = _names(study.workload)
    name, again = target, 1
    while (namespace, name) in used:
        again += 1
        name = f"{target[:240]}-{again}"
    used.add((namespace, name))
    kind = study.facts.get(Fact.KIND, "Deployment")
    kind = kind if kind in _API_VERSIONS else "Deployment"
    meta = [f"  name: {scalar(name)}"] + ([f"  namespace: {scalar(namespace)}"] if namespace else [])
    lines = [
        f"apiVersion: {GROUP}/{VERSION}", f"kind: {KIND}", "metadata:", *meta, "spec:",
        *commented("  ", f"{study.workload}: {window_text(study.window)}"),
        "  targetRef:", f"    apiVersion: {_API_VERSIONS[kind]}", f"    kind: {kind}", f"    name: {scalar(target)}",
    ]  # fmt: skip
    for line in recommended(study):
        lines += commented("  ", line.origin if line.value is not None else f"{line.field}: {line.origin}")
        if line.value is not None:
            lines.append(f"  {line.field}: {line.value}")
    text = "\n".join(lines) + "\n"
    read_scaling_policy(json.dumps(msgspec.yaml.decode(text)["spec"]).encode())
    return text


def recommended(study: WorkloadStudy) -> tuple[Line, ...]:
    """The fields that the record speaks about, in the order of the policy."""
    least, most = _bounds(study)
    return (
        Line("mode", Mode.SHADOW.value, "decides and records, and touches nothing, until you write Active"),
        least,
        most,
        _objective(study),
        _warmup(study),
        _gpus(study),
    )


def _bounds(study: WorkloadStudy) -> tuple[Line, Line]:
    refusal = _too_short(study)
    bands = study.concurrency
    if refusal is None and isinstance(bands, CannotTell):
        refusal = bands
    if refusal is not None or isinstance(bands, CannotTell):
        assert refusal is not None
        return _left("minReplicas", refusal), _left("maxReplicas", refusal)
    floor = recommended_replicas(bands.floor, study.slots)
    ceiling = recommended_replicas(bands.highest, study.slots, factor=CEILING)
    lowest = 1.0 if isinstance(floor, CannotTell) else max(1.0, floor.value)
    least = _replicas("minReplicas", floor, bands.floor, lowest)
    if isinstance(floor, Measured) and floor.value < 1:
        zero = (
            "the floor is 0: less than one replica is always needed; 0 here would need a gateway that tells what waits"
        )
        least = Line("minReplicas", "1", zero)
    if isinstance(ceiling, Measured) and ceiling.value < 1:
        nothing = CannotTell(Why.NO_LOAD, "no request came in the whole record", "a window with requests in it")
        return least, _left("maxReplicas", nothing)
    most = _replicas("maxReplicas", ceiling, bands.highest, lowest, f"{CEILING:g} times ")
    return least, most


def _replicas(field: str, replicas: Answer, level: Answer, lowest: float, times: str = "") -> Line:
    if isinstance(replicas, CannotTell):
        return _left(field, replicas)
    assert isinstance(level, Measured)
    value = min(MOST_REPLICAS, max(lowest, replicas.value))
    origin = f"{times}{value_text(level.value, level.unit)}, {replicas.how} [{behind(level)}]"
    return Line(field, f"{value:.0f}", origin)


def _objective(study: WorkloadStudy) -> Line:
    allowed = study.waiting.allowed
    if isinstance(allowed, CannotTell):
        last = study.waiting.waits[2]
        seen = (
            f"; one request in a hundred waited {value_text(last.value, 's')} or more"
            if isinstance(last, Measured)
            else ""
        )
        return Line("slo.waitS", None, f"cannot tell: {allowed.text}{seen}. The default is 10 s")
    value = min(max(allowed.value, OBJECTIVE_S[0]), OBJECTIVE_S[1])
    return Line("slo", f"{{waitS: {value:g}}}", allowed.how)


def _warmup(study: WorkloadStudy) -> Line:
    found = study.cold_start
    if isinstance(found, CannotTell):
        return _left("warmupPriorS", found)
    count = f" [{behind(found)}]" if found.count else ""
    return Line("warmupPriorS", f"{min(found.value, MOST_WARMUP_S):.6g}", f"the cold start, {found.how}{count}")


def _gpus(study: WorkloadStudy) -> Line:
    found = study.gpus
    if isinstance(found, CannotTell):
        return _left("gpusPerReplica", found)
    if not float(found).is_integer() or found > MOST_GPUS_PER_REPLICA:
        return Line("gpusPerReplica", None, f"a replica holds {found:g} GPUs, which the field cannot say")
    return Line(
        "gpusPerReplica", f"{found:.0f}", "GPUs that one replica holds, as the source or the command names them"
    )


def _too_short(study: WorkloadStudy) -> CannotTell | None:
    """Bounds taken from a few hours would cap what was not seen yet."""
    days = study.window.known_s / DAY_S
    if days >= LEAST_DAYS:
        return None
    bands = study.concurrency
    if isinstance(bands, CannotTell):
        return bands
    text = f"{window_text(study.window)} say nothing about the hours that were not seen"
    return CannotTell(why=Why.TOO_SHORT, text=text, needed=f"{LEAST_DAYS:.0f} days")


def _left(field: str, refusal: CannotTell) -> Line:
    return Line(field, None, f"cannot tell: {refusal.text} (needed: {refusal.needed}); the default stays")


def _names(workload: str) -> tuple[str, str]:
    """(namespace, name) as Kubernetes takes them; the namespace is empty where the workload names none."""
    namespace, _, name = workload.rpartition("/")
    return slug(namespace.replace("/", "-"), 63, dots=False), slug(name, 253) or "workload"
