"""What TrainJobs are read beside: the runtimes that they name, and the JobSets by which their pods are known.

Enters: TrainingRuntimes and ClusterTrainingRuntimes, followed here; TrainJobs and JobSets, followed elsewhere. Leaves:
a TrainJob as a piece of work, sized by its runtime or, while it runs, by its JobSet; whose pods are whose. Verbs: list
and watch on kinds of runtimes.
"""

from collections.abc import Callable, Iterator
from typing import Any

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.batch_jobsets import JOBSET
from autoscaler.adapters.kube.batch_objects import JobSet
from autoscaler.adapters.kube.batch_pods import WorkPods
from autoscaler.adapters.kube.batch_runtimes import RUNTIMES, RuntimeRef, TrainingRuntime, TrainJob
from autoscaler.adapters.kube.batch_trainer import (
    ROOT,
    TRAINJOB,
    UNKNOWN,
    maker,
    running_jobset,
    runtime_key,
    with_runtime,
)
from autoscaler.adapters.kube.batch_work import Work, gang_name
from autoscaler.adapters.kube.informer import Change, Informer, InformerTimes, Resource
from autoscaler.ports import Clock


class TrainJobs:
    """All TrainJobs of a cluster; `again` is called with the key of one whose runtime or JobSet has changed."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        times: InformerTimes,
        *,
        jobs: Informer[TrainJob],
        jobsets: Informer[JobSet],
        pods: WorkPods,
        again: Callable[[str, TrainJob], None],
    ) -> None:
        self._jobs, self._jobsets, self._pods, self._again = jobs, jobsets, pods, again
        self._runtimes: dict[str, Informer[TrainingRuntime]] = {
            kind: Informer(api, Resource(f"{ROOT}/{resource}", TrainingRuntime), clock, self._heard, times=times)
            for kind, resource in RUNTIMES.items()
        }

    def informers(self) -> Iterator[Informer[Any]]:
        """What runtimes are followed by."""
        yield from self._runtimes.values()

    def read(self, found: TrainJob, now_s: float) -> Work | None:
        """A TrainJob as a piece of work."""
        running = running_jobset(found, self._jobsets.items.get(found.metadata.key))
        return with_runtime(found, now_s, self._runtime(found.metadata.namespace, found.spec.runtime_ref), running)

    def on_jobset(self, change: Change[JobSet]) -> None:
        """A JobSet came, changed or went: a TrainJob of its name may be as large as it is."""
        old, new = (None if each is None else each.metadata.generation for each in (change.old, change.new))
        found = self._jobs.items.get(change.key)
        if found is not None and old != new:  # its status changes all the time, and says nothing of sizes
            self._again(change.key, found)

    def unfollowed(self) -> str:
        """Why JobSets are not followed; empty where they are."""
        if self._jobsets.synced and not self._jobsets.denied:
            return ""
        return "may not be read" if self._jobsets.denied else "have not been read"

    def follow_pods(self, key: str) -> bool:
        """Have the pods of a JobSet count as those of the TrainJob that made it; whether that is news.

        While the JobSet was not heard of, its name says who makes it: the Trainer calls it like the job. They count so
        until they are gone, though both are gone before.
        """
        jobsets, jobs = self._jobsets.items, self._jobs.items
        if key in jobsets or key in jobs:
            whose = maker(jobsets[key].metadata) if key in jobsets else gang_name(TRAINJOB, *key.split("/", 1))
            return self._pods.owned(gang_name(JOBSET, *key.split("/", 1)), whose)
        self._pods.disowned(lambda gang: (known := gang.partition("/")[2]) in jobsets or known in jobs)
        return False

    def _runtime(self, namespace: str, ref: RuntimeRef) -> TrainingRuntime | str:
        """The runtime that a TrainJob of a namespace names; words why it is not known."""
        informer, key = self._runtimes.get(ref.kind), runtime_key(namespace, ref)
        if informer is None:
            return "is of a kind that is not known here"
        found = informer.items.get(key)
        if found is not None:
            return found
        if key in informer.unread:
            return f"cannot be read: {informer.unread[key].why}"
        if informer.denied:
            return "may not be read"
        return "is not there" if informer.synced else UNKNOWN

    def _heard(self, change: Change[TrainingRuntime]) -> None:
        for key, found in list(self._jobs.items.items()):
            if runtime_key(found.metadata.namespace, found.spec.runtime_ref) == change.key:
                self._again(key, found)
