"""From sources of histories to findings: one workload at a time, so that memory does not grow with the record.

Enters: sources, what the person gave, and someone to tell about progress. Leaves: `Findings`. A history is let go of
once it is studied; only its answers and its share of the sum are kept.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from autoscaler.errors import InputError
from autoscaler.preflight.cluster import Cluster
from autoscaler.preflight.document import Findings
from autoscaler.preflight.given import Given
from autoscaler.preflight.gpu_jobs import GpuJobs
from autoscaler.preflight.growth import Growth
from autoscaler.preflight.history import WorkloadHistory
from autoscaler.preflight.job_study import queues_of
from autoscaler.preflight.study import WorkloadStudy, study


@dataclass(frozen=True, slots=True)
class Source:
    """Where histories come from; `histories` is read once, and may raise InputError or PortError while it is.

    `workloads` is how many there are, for whoever shows progress.
    """

    name: str
    histories: Iterable[WorkloadHistory]
    workloads: int
    notes: tuple[str, ...] = ()
    """What a reader should know about how they were read."""
    jobs: GpuJobs | None = None
    """Jobs beside the workloads; None where they were not asked for, as of a trace."""
    namespaces: tuple[str, ...] = ()
    """Those that Jobs were looked at in; empty: all."""


def examine(
    sources: Sequence[Source], given: Given, *, command: str, begun: Callable[[str], None] = lambda _: None
) -> Findings:
    """Study every workload of every source; `begun` is told each one's name before it is read further.

    InputError where there is no workload at all.
    """
    cluster, growth = Cluster(), Growth()
    studies: list[WorkloadStudy] = []
    for history in _named_once(sources):
        begun(history.workload)
        answers, demands = study(history, given)
        cluster.add(answers, demands)
        growth.add(answers, demands)
        studies.append(answers)
    if not studies:
        empty = ", ".join(source.name for source in sources)
        raise InputError(f"{empty}: no workload in it; choose another source or a longer window")
    notes = tuple(note for source in sources for note in source.notes)
    names = tuple(source.name for source in sources)
    batch = next((queues_of(each.jobs, each.namespaces) for each in sources if each.jobs is not None), None)
    return Findings(command, names, given, tuple(studies), cluster.finish(), notes, growth.finish(), batch)


def _named_once(sources: Sequence[Source]) -> Iterator[WorkloadHistory]:
    """Every history, a name that was there before with a number behind it."""
    seen: dict[str, int] = {}
    for source in sources:
        for history in source.histories:
            again = seen.get(history.workload, 0) + 1
            seen[history.workload] = again
            yield history if again == 1 else replace(history, workload=f"{history.workload}-{again}")
