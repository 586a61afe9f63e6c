"""Recorded batch work by its columns: Philly's jobs and quotas, openb's pods and nodes, Helios' minutes.

Enters: a path. Leaves: jobs, nodes, or columns, or an InputError naming file, line, field and value; nothing is
half-read. The neutral columns are those of the trace data that this project develops with. It schedules nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from autoscaler.errors import InputError
from autoscaler.sim.batch.work import Job
from autoscaler.sim.traces.selection import DAY_S, listed
from autoscaler.sim.traces.table import Table, bad_field, checked, parse_csv, read_bytes
from autoscaler.sim.traffic import FloatArray

MOST_GPUS: Final = 65_536
"""Of one job or node; more is taken for a mistake."""

JOBS: Final = ("submit_s", "tenant", "job_id", "gang_size", "gpus_per_pod", "gpu_model", "duration_s", "priority")
PHILLY: Final = (*JOBS, "total_gpus")
PODS: Final = (*JOBS, "cpu", "memory_mib", "observed_queue_s", "phase")
NODES: Final = ("node", "gpu_model", "gpus", "cpu", "memory_mib")
QUOTA: Final = ("tenant", "nodes", "gpus_if_8_per_node")
MINUTES: Final = (
    "minute", "tenant", "capacity_gpus", "running_gpus", "pending_gpus", "running_gpus_big", "pending_gpus_big",
    "running_jobs", "pending_jobs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of a packing trace."""

    name: str
    gpus: float
    """Less than 1 for a share of one GPU; 0 for none."""
    models: frozenset[str]
    """GPU models that will do; empty for any."""
    cpu: float
    memory_gib: float


@dataclass(frozen=True, slots=True)
class Host:
    """One node of a packing trace."""

    name: str
    model: str
    gpus: int
    cpu: float
    memory_gib: float


@dataclass(frozen=True, slots=True)
class Minutes:
    """What virtual clusters held and wanted, minute by minute; arrays have shape (minutes, tenants)."""

    tenants: tuple[str, ...]
    capacity: FloatArray
    running: FloatArray
    pending: FloatArray


def philly(path: Path, *, first_day: int = 0, days: int | None = None) -> tuple[Job, ...]:
    """Jobs submitted in the days wanted, with time from the first day's begin; each says how long it really ran.

    Jobs of no length, or of no GPU, are none that a scheduler sees; they are left out.
    """
    table = _table(path, PHILLY, "a job list with totals")
    submit_s, duration_s = table.numbers("submit_s"), table.numbers("duration_s")
    table.ascending("submit_s", submit_s)
    pods = _counts(table, "gang_size")
    gpus = _counts(table, "gpus_per_pod")
    total = _counts(table, "total_gpus")
    for row in np.flatnonzero(pods * gpus != total).tolist():
        raise bad_field(
            path, table.lines[row], "total_gpus", table.columns["total_gpus"][row],
            f"is not {int(pods[row])} pods of {int(gpus[row])} GPUs; mend one of the three",
        )  # fmt: skip
    _named_once(table, "job_id")
    from_s = first_day * DAY_S
    to_s = np.inf if days is None else from_s + days * DAY_S
    wanted = (submit_s >= from_s) & (submit_s < to_s) & (total > 0) & (duration_s > 0)
    if not wanted.any():
        last = int(submit_s[-1] // DAY_S)
        raise InputError(f"{path}: no job in {days or 'the'} days from day {first_day} on; it has days 0 to {last}")
    ids, tenants = table.columns["job_id"], table.columns["tenant"]
    return tuple(
        Job(
            ids[at], tenants[at], float(submit_s[at] - from_s), int(pods[at]), int(gpus[at]),
            float(duration_s[at]), float(duration_s[at]),
        )
        for at in np.flatnonzero(wanted).tolist()
    )  # fmt: skip


def quotas(path: Path) -> dict[str, int]:
    """GPUs by virtual cluster."""
    table = _table(path, QUOTA, "a list of quotas")
    gpus = _counts(table, "gpus_if_8_per_node")
    _named_once(table, "tenant")
    return dict(zip(table.columns["tenant"], gpus.astype(np.int64).tolist(), strict=True))


def pods(path: Path) -> tuple[Pod, ...]:
    """Pods in the order they came in; their times are not used."""
    table = _table(path, PODS, "a pod list")
    table.ascending("submit_s", table.numbers("submit_s"))
    gpus, cpu, memory_mib = (table.numbers(name) for name in ("gpus_per_pod", "cpu", "memory_mib"))
    size = _counts(table, "gang_size")
    _named_once(table, "job_id")
    for row in np.flatnonzero((size != 1) | (gpus > MOST_GPUS) | ((gpus > 1) & (gpus != np.floor(gpus)))).tolist():
        problem = f"with gang_size {int(size[row])} cannot be used; give one pod, a share of a GPU or whole ones"
        raise bad_field(path, table.lines[row], "gpus_per_pod", table.columns["gpus_per_pod"][row], problem)
    names, models = table.columns["job_id"], table.columns["gpu_model"]
    return tuple(
        Pod(
            names[at], float(gpus[at]), frozenset(filter(None, models[at].split("|"))),
            float(cpu[at]), float(memory_mib[at]) / 1024.0,
        )
        for at in range(len(names))
    )  # fmt: skip


def hosts(path: Path) -> tuple[Host, ...]:
    """The nodes that have GPUs."""
    table = _table(path, NODES, "a node list")
    gpus, cpu, memory_mib = _counts(table, "gpus"), table.numbers("cpu"), table.numbers("memory_mib")
    _named_once(table, "node")
    names, models = table.columns["node"], table.columns["gpu_model"]
    for row in np.flatnonzero(gpus > 0).tolist():
        if not models[row]:
            problem = "is empty though the node has GPUs; name the model"
            raise bad_field(path, table.lines[row], "gpu_model", models[row], problem)
    return tuple(
        Host(names[at], models[at], int(gpus[at]), float(cpu[at]), float(memory_mib[at]) / 1024.0)
        for at in np.flatnonzero(gpus > 0).tolist()
    )


def minutes(path: Path) -> Minutes:
    """Every virtual cluster's minutes; each minute stands once for each of them."""
    table = _table(path, MINUTES, "minutes of virtual clusters")
    minute = table.numbers("minute", whole=True)
    values = {name: _counts(table, name) for name in ("capacity_gpus", "running_gpus", "pending_gpus")}
    named = table.columns["tenant"]
    tenants = tuple(sorted(set(named)))
    column = {name: at for at, name in enumerate(tenants)}
    at = np.array([column[name] for name in named])
    first, count = float(minute.min()), int(minute.max() - minute.min()) + 1
    if count > 10 * len(minute):
        raise InputError(f"{path}: {count} minutes and {len(minute)} rows; the minutes have holes, or one is wrong")
    row = (minute - first).astype(np.int64)
    seen = np.bincount(row * len(tenants) + at, minlength=count * len(tenants)).reshape(count, -1)
    for wrong_minute, tenant in np.argwhere(seen != 1).tolist():
        times = int(seen[wrong_minute, tenant])
        where = f"{path}: minute {int(first) + wrong_minute}, tenant {tenants[tenant]}"
        raise InputError(f"{where}: stands {times} times; it must stand once")
    shaped = {name: np.zeros((count, len(tenants))) for name in values}
    for name, numbers in values.items():
        shaped[name][row, at] = numbers
    return Minutes(tenants, shaped["capacity_gpus"], shaped["running_gpus"], shaped["pending_gpus"])


def _table(path: Path, columns: tuple[str, ...], what: str) -> Table:
    table = parse_csv(path, checked(path, read_bytes(path)))
    table.require(columns, (), what)
    return table


def _counts(table: Table, field: str) -> FloatArray:
    """A column of whole numbers of GPUs, pods or nodes."""
    values = table.numbers(field, whole=True)
    large = np.flatnonzero(values > MOST_GPUS)
    if large.size:
        row = int(large[0])
        problem = f"is more than {MOST_GPUS}; it must be a mistake"
        raise bad_field(table.path, table.lines[row], field, table.columns[field][row], problem)
    return values


def _named_once(table: Table, field: str) -> None:
    first: dict[str, int] = {}
    for line, name in zip(table.lines, table.columns[field], strict=True):
        if not name:
            raise bad_field(table.path, line, field, name, "is empty; name each")
        if name in first:
            raise bad_field(table.path, line, field, name, f"stands on line {first[name]} already; name each once")
        first[name] = line


def tenants_of(jobs: tuple[Job, ...], guarantees: Mapping[str, int]) -> list[str]:
    """The tenants of some jobs in order of their names. InputError where a quota is nobody's."""
    names = sorted({job.tenant for job in jobs})
    if guarantees and not set(names) & set(guarantees):
        raise InputError(f"quotas: none is of a tenant of the jobs ({listed(names)}); give the quotas of these")
    return names
