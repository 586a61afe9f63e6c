"""Scenario files: what is accepted, and where a mistake is said to be.

Enters: a YAML file. Leaves: a `Scenario`, or an InputError that names file, line and field.
"""

import re
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml  # type: ignore[import-untyped] # PyYAML ships no types

from autoscaler.errors import InputError
from loadtests.engines.pages import PAGES
from loadtests.run.scenario import MOST_S, TIMEOUT_S, Make, Scenario, Seconds
from loadtests.traffic.shapes import SHAPES, idle_word

_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)(s|m)")
_UNITS_S: Final = {"s": 1.0, "m": 60.0}


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
    except RecursionError as error:
        raise InputError(f"{path}: parts lie in each other too deep for a scenario; write it anew") from error
    lines: dict[str, int] = {}
    try:
        twice = _walk(node, "", lines)
    except RecursionError as error:
        raise InputError(f"{path}: a part holds itself (`&` and `*`); write it out") from error
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
    found = _of_traffic(scenario)
    engine, policy = scenario.engine, scenario.policy
    if policy.ttft > TIMEOUT_S:
        found.append(("policy.ttft", f"{policy.ttft:g} s is longer than a request may take, {TIMEOUT_S:g} s"))
    if engine.pages not in PAGES:
        found.append(("engine.pages", f"{engine.pages!r} is not known; choose from {', '.join(PAGES)}"))
    if engine.make is Make.DYNAMO and engine.pages != "vllm":
        found.append(("engine.pages", f"{engine.pages!r} is not what Dynamo's engine has; leave it out"))
    if not engine.warm_up:
        found.append(("engine.warm-up", "no stage; write {weights: 15s, graphs: 5s}"))
    if engine.warm_slots and len(engine.warm_up) == 1:
        found.append(("engine.warm-slots", "a start of one stage leaves a slot nothing to keep warm; name two or more"))
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


def _of_traffic(scenario: Scenario) -> list[tuple[str, str]]:
    """What is wrong with the load's course in time."""
    found, traffic, whole_s = [], scenario.traffic, float(scenario.duration)
    at_s = whole_s / 2.0 if traffic.at is None else float(traffic.at)
    if whole_s > MOST_S:
        found.append(("duration", f"{whole_s:g} s is longer than {MOST_S:g} s"))
    if traffic.at is not None and at_s >= whole_s:
        found.append(("traffic.at", f"{at_s:g} s is not before the end, {whole_s:g} s"))
    if traffic.shape not in SHAPES:
        found.append(("traffic.shape", f"{traffic.shape!r} is not known; choose from {', '.join(SHAPES)}"))
    elif traffic.ramp is not None and traffic.shape != "step":
        found.append(("traffic.ramp", f"only a step takes a time, and the shape is {traffic.shape}"))
    elif traffic.ramp is not None and at_s + traffic.ramp > whole_s:
        found.append(("traffic.ramp", f"it ends at {at_s + traffic.ramp:g} s, after the scenario, {whole_s:g} s"))
    given = [word for word in ("to", "at", "ramp", "period", "burst") if getattr(traffic, word) is not None]
    idle = None if traffic.shape not in SHAPES else idle_word(traffic.shape, given)
    if idle is not None:
        found.append((f"traffic.{idle[0]}", idle[1]))
    return found
