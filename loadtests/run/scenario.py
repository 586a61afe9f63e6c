"""A scenario: what is asked, of which engines, under which policy, and who scales.

Enters: a YAML file. Leaves: a `Scenario`, or an InputError that names file, line and field. The simulator and the real
control plane are given the same one. It knows nothing of either.
"""

import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import yaml  # type: ignore[import-untyped] # PyYAML ships no types

from autoscaler.errors import InputError
from loadtests.engines.pages import PAGES
from loadtests.engines.profile import BUILT_IN, STEP_TOKENS, Speed, read_speed
from loadtests.traffic.lengths import parse
from loadtests.traffic.schedule import Schedule, drawn
from loadtests.traffic.shapes import SHAPES, Shape

MOST_S: Final = 240.0
"""A scenario lasts no longer."""

TIMEOUT_S: Final = 60.0
"""Of a request, from when it was due."""

_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m)")
_UNITS_S: Final = {"s": 1.0, "m": 60.0}


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
    pages: str = "vllm"
    profile: str | None = None
    """A CSV of measured latencies, seen from the scenario's folder; the built-in one where left out."""
    only: str | None = None
    """MODEL/GPU/TP of a profile that has several."""
    slots: Count | None = None
    kv_tokens: Count | None = None
    gpus: Annotated[int, msgspec.Meta(ge=1, le=8)] = 1
    """GPUs of one replica."""

    @property
    def stages(self) -> tuple[tuple[str, float], ...]:
        """Name and seconds of each stage."""
        return tuple((name, float(length_s)) for name, length_s in self.warm_up.items())

    @property
    def warm_up_s(self) -> float:
        """Seconds from a start to readiness."""
        return sum(length_s for _, length_s in self.stages)


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
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    scaling: Scaling = Scaling.DIRECT

    @property
    def shape(self) -> Shape:
        """The rate's course."""
        asked, length_s = self.traffic, float(self.duration)
        return Shape(
            asked.shape, asked.rate, 2.0 * asked.rate if asked.to is None else asked.to, length_s,
            length_s / 2.0 if asked.at is None else float(asked.at), float(asked.period or 60.0),
            float(asked.burst or 5.0),
        )  # fmt: skip

    @property
    def onset_s(self) -> float | None:
        """When the load rises for a reason nobody could foresee; None where the shape has no such instant."""
        shape = self.shape
        if shape.kind == "step":
            return shape.at_s
        return shape.period_s - shape.burst_s if shape.kind == "bursts" else None

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


def read_scenario(path: Path) -> Scenario:
    """The scenario of a file. InputError names file, line, field and what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a scenario file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no text ({error}); give a scenario file") from error
    values, lines = _parsed(path, text)
    try:
        scenario = msgspec.convert(values, Scenario, dec_hook=_decoded)
    except msgspec.ValidationError as error:
        raise InputError(_placed(path, str(error), lines)) from error
    for field, wrong in _contradictions(scenario, path.parent):
        raise InputError(f"{path}: line {_line(lines, field)}, field {field}: {wrong}")
    return scenario


def _parsed(path: Path, text: str) -> tuple[Any, dict[str, int]]:
    """The file's values, and the line of each field by its path."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f" line {mark.line + 1}:"
        raise InputError(f"{path}:{where} no YAML ({error.problem})") from error
    except (yaml.YAMLError, ValueError) as error:  # such as a date of month 13
        raise InputError(f"{path}: no YAML ({error})") from error
    lines: dict[str, int] = {}
    twice = _walk(node, "", lines)
    if twice is not None:
        raise InputError(f"{path}: line {lines[twice]}, field {twice}: given twice")
    return values, lines


def _walk(node: Any, prefix: str, lines: dict[str, int]) -> str | None:
    """Note every field's line; the first field that is given twice, if any."""
    if not isinstance(node, yaml.MappingNode):
        return None
    for key, value in node.value:
        name = f"{prefix}{key.value}"
        given = name in lines
        lines[name] = key.start_mark.line + 1
        twice = name if given else _walk(value, f"{name}.", lines)
        if twice is not None:
            return twice
    return None


def _decoded(kind: type, value: object) -> object:
    """A time from its words."""
    if kind is not Seconds:
        raise NotImplementedError(kind)
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None or not float(found[1]) > 0:
        raise ValueError(f"{value!r} is no time; write 20s or 2m")
    return Seconds(float(found[1]) * _UNITS_S[found[2]])


def _placed(path: Path, words: str, lines: dict[str, int]) -> str:
    """The words of msgspec with file, line and field in front."""
    said, _, where = words.partition(" - at `$")
    field = where.rstrip("`").lstrip(".").replace("[...]", "")
    named = re.search(r"field `([^`]+)`", said)
    if named is not None:
        field = f"{field}.{named[1]}" if field else named[1]
    return f"{path}: line {_line(lines, field)}, field {field or '(the whole)'}: {said}"


def _line(lines: dict[str, int], field: str) -> int:
    """The line of a field, or of the nearest one around it."""
    while field and field not in lines:
        field = field.rpartition(".")[0]
    return lines.get(field, 1)


def _contradictions(scenario: Scenario, folder: Path) -> list[tuple[str, str]]:
    """Fields that msgspec cannot judge, with what is wrong."""
    found = []
    traffic, engine, policy = scenario.traffic, scenario.engine, scenario.policy
    if scenario.duration > MOST_S:
        found.append(("duration", f"{scenario.duration:g} s is longer than {MOST_S:g} s"))
    if traffic.at is not None and traffic.at >= scenario.duration:
        found.append(("traffic.at", f"{traffic.at:g} s is not before the end, {scenario.duration:g} s"))
    if policy.ttft > TIMEOUT_S:
        found.append(("policy.ttft", f"{policy.ttft:g} s is longer than a request may take, {TIMEOUT_S:g} s"))
    if traffic.shape not in SHAPES:
        found.append(("traffic.shape", f"{traffic.shape!r} is not known; choose from {', '.join(SHAPES)}"))
    if engine.pages not in PAGES:
        found.append(("engine.pages", f"{engine.pages!r} is not known; choose from {', '.join(PAGES)}"))
    if not engine.warm_up:
        found.append(("engine.warm-up", "no stage; write {weights: 15s, graphs: 5s}"))
    if policy.min_replicas > policy.max_replicas:
        found.append(("policy.min-replicas", f"{policy.min_replicas} is above max-replicas, {policy.max_replicas}"))
    if not policy.min_replicas <= policy.replicas <= policy.max_replicas:
        found.append(("policy.replicas", f"{policy.replicas} is not between min-replicas and max-replicas"))
    tries = (("traffic", scenario.schedule), ("engine", lambda: scenario.speed(folder)))
    for field, make in () if found else tries:
        try:
            make()
        except InputError as error:
            found.append((field, str(error)))
    return found
