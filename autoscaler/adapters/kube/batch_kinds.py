"""The kinds of objects that are admitted as gangs: where they are listed, and how one of them is read as work.

Enters: nothing. Leaves: a table; a further kind is a further row, and a reader.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from autoscaler.adapters.kube.batch_jobsets import GROUP, JOBSET, RESOURCE, VERSION, of_jobset
from autoscaler.adapters.kube.batch_objects import Job, JobSet
from autoscaler.adapters.kube.batch_runtimes import TrainJob
from autoscaler.adapters.kube.batch_trainer import RESOURCE as TRAINJOBS
from autoscaler.adapters.kube.batch_trainer import ROOT as TRAINER
from autoscaler.adapters.kube.batch_trainer import TRAINJOB, of_trainjob
from autoscaler.adapters.kube.batch_training import TRAINING, TrainingJob
from autoscaler.adapters.kube.batch_work import Work, of_job


@dataclass(frozen=True, slots=True)
class WorkKind:
    """One kind of work."""

    path: str
    """Where all of its objects are listed."""
    form: type[Any]
    read: Callable[[Any, float], Work | None]
    """An object of `form`, and now in epoch seconds, as a piece of work; None for one that is nobody's gang."""
    is_needed: bool
    """Whether nothing at all is admitted while its objects cannot be read."""


KINDS: Final = MappingProxyType(
    {
        "Job": WorkKind("/apis/batch/v1/jobs", Job, of_job, is_needed=True),
        JOBSET: WorkKind(f"/apis/{GROUP}/{VERSION}/{RESOURCE}", JobSet, of_jobset, is_needed=False),
        TRAINJOB: WorkKind(f"{TRAINER}/{TRAINJOBS}", TrainJob, of_trainjob, is_needed=False),
        **{each.kind: WorkKind(each.path, TrainingJob, each.read, is_needed=False) for each in TRAINING},
    }
)
"""By the name of the kind, as objects have it."""
