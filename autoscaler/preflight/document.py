"""The answers as one JSON document of a versioned schema, for programs.

Enters: studies. Leaves: JSON. Every answer is an object with `kind`: `measured` carries value, unit, interval, count
and window, `given` the same fields with what an option said in place of a measurement, `cannot_tell` reason, text and
what is needed. Fields and kinds are added under the same version; a change of meaning raises it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Final

import msgspec
import numpy as np

from autoscaler import __version__
from autoscaler.preflight.answers import CannotTell, Measured, Stated
from autoscaler.preflight.chart import Chart
from autoscaler.preflight.cluster import ClusterStudy
from autoscaler.preflight.episodes import Episodes
from autoscaler.preflight.given import Given
from autoscaler.preflight.growth import Pools
from autoscaler.preflight.job_study import Queues
from autoscaler.preflight.study import WorkloadStudy
from autoscaler.preflight.words import cluster_sentences, workload_sentences

SCHEMA: Final = "headroom.preflight/1"

_KINDS: Final = {Measured: "measured", Stated: "given", CannotTell: "cannot_tell"}


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything a report is made of."""

    command: str
    sources: tuple[str, ...]
    given: Given
    workloads: tuple[WorkloadStudy, ...]
    cluster: ClusterStudy
    notes: tuple[str, ...] = ()
    """What a reader should know about how the sources were read."""
    warm: Pools = field(default_factory=Pools)
    """What should be kept warm, by shape."""
    batch: Queues | None = None
    """What Jobs use of GPUs, by namespace; None where none was asked of Jobs."""


def document(findings: Findings) -> str:
    """The findings as JSON, with a line's end."""
    head = {
        "schema": SCHEMA,
        "headroom": __version__,
        "command": findings.command,
        "sources": findings.sources,
        "notes": findings.notes,
        "given": plain(findings.given),
        "cluster": plain(findings.cluster) | {"sentences": plain(cluster_sentences(findings.cluster))},
        "warm": plain(findings.warm),
        "batch": plain(findings.batch),
    }
    parts = [f"{_text(key)}:{_text(value)}" for key, value in head.items()]
    studies = [_text(plain(study) | {"sentences": plain(workload_sentences(study))}) for study in findings.workloads]
    # A line per workload, so that a difference between two documents can be read.
    return "{" + ",\n".join([*parts, '"workloads":[\n' + ",\n".join(studies) + "]"]) + "}\n"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def plain(value: object) -> Any:
    """Values of this room as JSON's own: NaN and infinity, which JSON has not, become null."""
    if isinstance(value, Chart):
        return {"unit": value.unit}
    if isinstance(value, Episodes):
        return {"count": int(value.began_s.size), "excess": float(value.excess.sum())}
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        body = {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        kind = _KINDS.get(type(value))
        return body if kind is None else {"kind": kind, **body}
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else None
    return value
