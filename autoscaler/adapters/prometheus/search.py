"""What to look for in a Prometheus, and what was found: the values that go into `discovery` and come out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoscaler.adapters.engines.catalogue import PROFILES
from autoscaler.adapters.engines.profiles import Profile, Series
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.questions import Subject

OWNER_LABELS: Final = ("service", "app", "model_name")
"""Looked at in this order where kube-state-metrics does not say whose a pod is."""

DURATIONS: Final[Mapping[str, tuple[Series, ...]]] = {
    "vllm": (Series("vllm:e2e_request_latency_seconds"),),
    "sglang": (Series("sglang:e2e_request_latency_seconds"),),
    "tgi": (Series("tgi_request_duration"),),
    "trtllm": (Series("trtllm_e2e_request_latency_seconds"),),
}
"""Profile -> histograms of the whole time of a request."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A workload that was asked for by name; with matchers it is looked for by these alone."""

    workload: str
    matchers: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for."""

    endpoint: Endpoint
    profiles: Mapping[str, Profile] = field(default_factory=lambda: PROFILES)
    durations: Mapping[str, tuple[Series, ...]] = field(default_factory=lambda: DURATIONS)
    owner_labels: Sequence[str] = OWNER_LABELS
    namespaces: Sequence[str] = ()
    """None: all."""
    wanted: Sequence[Wanted] = ()
    """None: every workload that is found."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """The workloads by name, and what a reader should know about how they were found."""

    subjects: tuple[Subject, ...]
    notes: tuple[str, ...] = ()
