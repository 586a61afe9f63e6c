"""A scenario: what is asked, of which engines, under which policy, and who scales.

Enters: the fields of a scenario's file, which `loadtests.run.reading` reads. Leaves: a `Scenario` with its requests and
its engine's speed. The simulator and the real control plane are given the same one. It knows nothing of either.
"""

from enum import Enum
from pathlib import Path
from typing import Annotated, Final

import msgspec

from loadtests.engines.profile import BUILT_IN, STEP_TOKENS, Speed, read_speed
from loadtests.traffic.lengths import parse
from loadtests.traffic.schedule import Schedule, drawn
from loadtests.traffic.shapes import Shape

MOST_S: Final = 240.0
"""A scenario lasts no longer."""

TIMEOUT_S: Final = 60.0
"""Of a request, from when it was due."""


class Seconds(float):
    """A time, written as in 20s or 2m."""


class Scaling(Enum):
    """Who sets the replicas."""

    DIRECT = "direct"
    """Headroom, on the target's ``/scale``."""
    KEDA = "keda"
    """Headroom, through KEDA's external scaler."""
    KEDA_QUEUE = "keda-queue"
    """KEDA and HPA on the number of requests that wait, without Headroom."""


class Make(Enum):
    """Whose engine a replica is."""

    OURS = "ours"
    """The servers of `loadtests.engines`."""
    DYNAMO = "dynamo"
    """NVIDIA Dynamo's simulated vLLM, a process for each pod: see `loadtests.run.foreign`."""


Positive = Annotated[float, msgspec.Meta(gt=0, le=1e4)]
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    pass


class Traffic(_Part, frozen=True):
    """The rate's course as `loadtests traffic` has it, in requests/s, and the lengths in tokens."""

    rate: Positive
    shape: str = "constant"
    to: Positive | None = None
    at: Seconds | None = None
    ramp: Seconds | None = None
    """How long a step takes; at once where left out."""
    period: Seconds | None = None
    burst: Seconds | None = None
    even: bool = False
    prompt_tokens: str | int = 128
    output_tokens: str | int = 64
    tenants: Count = 1


class Engine(_Part, frozen=True):
    """What a replica is."""

    warm_up: dict[str, Seconds]
    """Stages of a start, in order."""
    make: Make = Make.OURS
    pages: str = "vllm"
    profile: str | None = None
    """A CSV of measured latencies, seen from the scenario's folder; the built-in one where left out."""
    only: str | None = None
    """MODEL/GPU/TP of a profile that has several."""
    slots: Count | None = None
    kv_tokens: Count | None = None
    gpus: Annotated[int, msgspec.Meta(ge=1, le=8)] = 1
    """GPUs of one replica."""
    warm_slots: Annotated[int, msgspec.Meta(ge=0, le=30)] = 0
    """So many of a run's starts find image and weights on a node that is there: they take the last stage only. None is
    refilled within a run, as a refill takes longer than what is left of one."""

    @property
    def stages(self) -> tuple[tuple[str, float], ...]:
        """Name and seconds of each stage."""
        return tuple((name, float(length_s)) for name, length_s in self.warm_up.items())

    @property
    def warm_up_s(self) -> float:
        """Seconds from a start to readiness where no slot is warm."""
        return sum(length_s for _, length_s in self.stages)

    @property
    def last_s(self) -> float:
        """Seconds of the last stage: what a warm slot leaves of a start."""
        return self.stages[-1][1]


class Policy(_Part, frozen=True):
    """What the workload's owner wants; everything else runs at its default."""

    ttft: Seconds
    """The objective: from the instant at which a request is due to its first token."""
    min_replicas: Annotated[int, msgspec.Meta(ge=1, le=30)] = 1
    max_replicas: Annotated[int, msgspec.Meta(ge=1, le=30)] = 10
    replicas: Annotated[int, msgspec.Meta(ge=1, le=30)] = 1
    """Ready at the first instant, without a warm-up."""


class Scenario(_Part, frozen=True):
    """One scenario."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
    duration: Seconds
    traffic: Traffic
    engine: Engine
    policy: Policy
    about: Annotated[str, msgspec.Meta(max_length=400)] = ""
    """What a reader of the report has to know, such as what it stands for."""
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    scaling: Scaling = Scaling.DIRECT

    @property
    def shape(self) -> Shape:
        """The rate's course."""
        asked, length_s = self.traffic, float(self.duration)
        return Shape(
            asked.shape, asked.rate, 2.0 * asked.rate if asked.to is None else asked.to, length_s,
            length_s / 2.0 if asked.at is None else float(asked.at), float(asked.period or 60.0),
            float(asked.burst or 5.0), float(asked.ramp or 0.0),
        )  # fmt: skip

    @property
    def onset_s(self) -> float | None:
        """When the load begins to rise for a reason nobody could foresee; None where the shape has no such instant."""
        shape = self.shape
        onset_s = {"step": shape.at_s, "bursts": shape.period_s - shape.burst_s}.get(shape.kind, shape.duration_s)
        return onset_s if onset_s < shape.duration_s and shape.to > shape.rate else None

    def schedule(self) -> Schedule:
        """All requests; the same for the same file."""
        prompts = parse("prompt-tokens", str(self.traffic.prompt_tokens))
        outputs = parse("output-tokens", str(self.traffic.output_tokens))
        return drawn(
            self.shape, prompts=prompts, outputs=outputs, tenants=self.traffic.tenants, seed=self.seed,
            even=self.traffic.even,
        )  # fmt: skip

    def profile(self, folder: Path) -> Path:
        """The CSV of the engine's speed; `folder` is the scenario's."""
        return BUILT_IN if self.engine.profile is None else folder / self.engine.profile

    def speed(self, folder: Path) -> Speed:
        """The engine's speed."""
        engine = self.engine
        return read_speed(
            self.profile(folder), only=engine.only, slots=engine.slots, kv_tokens=engine.kv_tokens,
            step_tokens=STEP_TOKENS,
        )  # fmt: skip
