"""What to ask about the GPUs that Jobs hold: three aggregates by namespace, out of kube-state-metrics' series.

Enters: a window, and the namespaces to ask about. Leaves: questions. A pod is batch work where a Job owns it; it holds
GPUs while its phase is Running and waits while it is Pending. kube-state-metrics' own labels may collide with those of
its scrape, and two scrapers may tell of one pod: labels are put back and the largest of each pod's values is taken
before anything is added.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from autoscaler.adapters.prometheus.promql import any_of
from autoscaler.adapters.prometheus.questions import SIGNAL, Question, Window

OWNERS, REQUESTS, PHASES = "kube_pod_owner", "kube_pod_container_resource_requests", "kube_pod_status_phase"
STARTED, COMPLETED = "kube_job_status_start_time", "kube_job_status_completion_time"
OF_PODS: Final = (OWNERS, REQUESTS, PHASES)
OF_JOBS: Final = (STARTED, COMPLETED)

RESOURCES: Final = {"nvidia_com_gpu": "nvidia.com/gpu", "amd_com_gpu": "amd.com/gpu"}
"""Resources by kube-state-metrics' names for them, which are counted."""
HELD, PENDING, SEEN = "held", "pending", "seen"
"""Signals by namespace, and that kube-state-metrics was read at all."""
RUNG: Final = "rung"
RUNGS: Final = 4
"""Durations are counted by rungs: `n` stands for (2^((n-1)/4), 2^(n/4)] seconds, so that a bucket is 19 % wide."""

_LOOK_S: Final = 300
_PIECE_S: Final = 3600
_LAG_S: Final = 300
"""A Job that ended is in the series this long after at the latest."""
_NAME_LOOKS: Final = 96
"""Instants of the window at which it is looked which of the metrics there are."""


def job_questions(window: Window, namespaces: Sequence[str] = ()) -> tuple[Question, ...]:
    """GPUs that Jobs hold and wait for, how long Jobs ran, and which of the metrics were there, over the window.

    With `namespaces` nothing of others is asked for: whoever may see those alone gets an answer, and an instant at
    which no pod at all stood in them is not known.
    """
    asked = _Asked(namespaces)
    look_s = max(_LOOK_S, window.step_s)
    names_s = max(look_s, (window.end_s - window.start_s) // _NAME_LOOKS)
    held = " or ".join((asked.gpus(HELD, "Running"), asked.gpus(PENDING, "Pending"), asked.seen()))
    return (
        _looks("held", held, window, look_s),
        _ended(asked, window),
        _looks("names", asked.names(), window, names_s),
    )


def _looks(name: str, query: str, window: Window, every_s: int) -> Question:
    """Asked in the middle of each step, the last of which may end before the window does."""
    points = max(1, (window.end_s - window.start_s) // every_s)
    return Question(name, query, window.start_s, window.start_s + every_s // 2, every_s, points)


class _Asked:
    """Parts of queries about some namespaces, or about all."""

    def __init__(self, namespaces: Sequence[str]) -> None:
        self._within: tuple[str, ...] = ("",)
        if namespaces:
            spaces = any_of(namespaces)
            # A label that collided is the scrape's own: what it names is not where the pod is.
            self._within = (f"exported_namespace=~{spaces}", f'namespace=~{spaces},exported_namespace=""')

    def gpus(self, signal: str, phase: str) -> str:
        """GPUs by namespace that pods of Jobs in one phase ask for."""
        in_phase = _own(self._series(PHASES, f'phase="{phase}"'))
        batch = f"max by(namespace,pod)({_own(self._series(OWNERS, _BY_A_JOB))})"
        requests = _requested(self._series(REQUESTS, _FOR_GPUS))
        summed = f"sum by(namespace)({requests} and {batch} and max by(namespace,pod)({in_phase} == 1))"
        return f'label_replace({summed},"{SIGNAL}","{signal}","","")'

    def seen(self) -> str:
        """Whether pods were told of at all: a night without Jobs has no series of theirs, and neither has an outage.

        It is counted over pods of all owners, in as many series as each phase above is looked for; collectors beside
        those of pods and jobs may not be kept.
        """
        return f'label_replace(count({self._series(OWNERS)}),"{SIGNAL}","{SEEN}","","")'

    def names(self) -> str:
        """How many series there are of each metric, of those of every pod that each pod has one or two of."""
        few = f'phase=~"|Running",resource=~{any_of(("", "cpu", *RESOURCES))}'
        return f"count by(__name__)({self._series('', f'__name__=~{any_of((*OF_PODS, *OF_JOBS))},{few}')})"

    def jobs_over(self, name: str, back_s: int) -> str:
        """The largest value of a metric of Jobs within `back_s`, by Job."""
        return f"max by(namespace,job_name)({_own(self._over(name, '', back_s))})"

    def gpus_over(self, back_s: int) -> str:
        """GPUs of each pod of a Job that stood within `back_s`, with the Job's name in ``owner_name``."""
        pods = f"max by(namespace,pod,owner_name)({_own(self._over(OWNERS, _BY_A_JOB, back_s))})"
        return f"{pods} * on(namespace,pod) group_left() {_requested(self._over(REQUESTS, _FOR_GPUS, back_s))}"

    def _series(self, name: str, own: str = "") -> str:
        return " or ".join(self._selected(name, own))

    def _over(self, name: str, own: str, back_s: int) -> str:
        return " or ".join(f"max_over_time({one}[{back_s}s])" for one in self._selected(name, own))

    def _selected(self, name: str, own: str) -> Iterator[str]:
        for within in self._within:
            matchers = ",".join(filter(None, (own, within)))
            yield f"{name}{{{matchers}}}" if matchers else name


_BY_A_JOB: Final = 'owner_kind="Job"'
_FOR_GPUS: Final = f"resource=~{any_of(RESOURCES)}"


def _ended(asked: _Asked, window: Window) -> Question:
    """How many Jobs with GPUs completed in each piece of the window, by rungs of how long they ran.

    A Job stands in the series until it is deleted: it is counted in the piece in which it completed, and nowhere else.
    """
    back_s = _PIECE_S + _LAG_S
    started, completed = (asked.jobs_over(name, back_s) for name in (STARTED, COMPLETED))
    here = f"(({completed} > time() - {back_s}) <= time() - {_LAG_S})"
    named = f'label_replace({asked.gpus_over(back_s)},"job_name","$1","owner_name","(.+)")'
    lasted = f"clamp_min({here} - {started}, 1) and max by(namespace,job_name)({named})"
    query = f'count_values by(namespace)("{RUNG}", ceil(log2({lasted}) * {RUNGS}))'
    length_s = window.end_s - window.start_s
    pieces = max(1, -(-(length_s - _LAG_S) // _PIECE_S))
    start_s = window.end_s - _LAG_S - pieces * _PIECE_S
    return Question("ended", query, start_s, start_s + _PIECE_S + _LAG_S, _PIECE_S, pieces)


def _requested(inner: str) -> str:
    """GPUs per pod."""
    each = _restored(_own(inner), "container")
    return f"sum by(namespace,pod)(max by(namespace,pod,container,resource)({each}))"


def _own(inner: str) -> str:
    """With the namespace and the pod that kube-state-metrics named, where those of its scrape stand in their place."""
    return _restored(_restored(inner, "namespace"), "pod")


def _restored(inner: str, label: str) -> str:
    return f'label_replace({inner},"{label}","$1","exported_{label}","(.+)")'
