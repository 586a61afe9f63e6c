"""The reference of what users write: fields of a ScalingPolicy, a WarmPool and a BatchQueue, out of the models.

Enters: the models' schemas. Leaves: pages of the chart's documentation. Ranges and defaults are those that the
models check by.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from autoscaler.api import annotations, batch_work, trigger
from autoscaler.api.crd import RESOURCES, Resource
from autoscaler.api.model_faults import legal
from autoscaler.api.policy import Policy
from autoscaler.api.schema import Spelling, resolved, schema_of
from tests.chart.told import conditions_of_policies, conditions_of_pools, conditions_of_queues
from tests.chart.writing import BY, cell, code, table

IN_SCALED_OBJECT: Final = {"min_replicas": "minReplicaCount", "max_replicas": "maxReplicaCount"}
"""What a trigger does not say, and where its ScaledObject says it."""

IN_LINES: Final = ", in a line of `decide` also seconds"
"""Of instants: an API server takes none but dates."""


@dataclass(frozen=True, slots=True)
class Row:
    """One value that a user may give: the names on the way to it in Python (`[]` for an item), and its form."""

    steps: tuple[tuple[str, dict[str, Any]], ...]
    without: tuple[str, Any] | None = None
    """The field around it, and what this one is where that is left out."""

    @property
    def form(self) -> dict[str, Any]:
        """Its own form."""
        return self.steps[-1][1]

    @property
    def required(self) -> bool:
        """Whether whoever gives what is around it has to give it."""
        return bool(self.form.get("is required"))

    def path(self, spelling: Spelling) -> str:
        """Its name with those of what is around it, as an object spells it."""
        return ".".join(_named(name, form, spelling) for name, form in self.steps)

    def key(self, spelling: Spelling) -> str:
        """Its name as a flat text spells it; what is in a list is part of that list's text."""
        names = [_named(name, form, spelling) for name, form in self.steps]
        listed = next((at for at, name in enumerate(names) if name.endswith("[]")), None)
        flat, inner = (names, []) if listed is None else (names[: listed + 1], names[listed + 1 :])
        first, *rest = flat
        glued = [f"-{name}" if spelling is Spelling.KEBAB else name[0].upper() + name[1:] for name in rest]
        return ".".join([first + "".join(glued), *inner])


def rows(model: type[BaseModel]) -> Iterator[Row]:
    """Every value that a model takes, objects before what is in them."""
    forms = schema_of(model)["$defs"]
    yield from _below(forms[model.__name__], forms, ())


def _below(form: dict[str, Any], forms: dict[str, Any], steps: tuple[tuple[str, dict[str, Any]], ...]) -> Iterator[Row]:
    around = steps[-1] if steps else None
    given = (around[1].get("default") or {}) if around is not None else {}
    for name, item in form["properties"].items():
        inner = resolved(item, forms) | {"is required": name in form.get("required", ())}
        own = (*steps, (name, inner))
        left_out = None
        if around is not None and isinstance(given, dict) and given.get(name) is not None:
            left_out = (around[0], given[name])
        yield Row(own, left_out)
        if "properties" in inner:
            yield from _below(inner, forms, own)
        items = resolved(inner.get("items", {}), forms)
        if "properties" in items:
            yield from _below(items, forms, (*steps, (f"{name}[]", inner | {"default": None})))


def _named(name: str, form: dict[str, Any], spelling: Spelling) -> str:
    listed = name.endswith("[]")
    return spelling.of(name.removesuffix("[]"), form) + ("[]" if listed else "")


def _default(row: Row, spelling: Spelling, required: tuple[str, ...]) -> str:
    if row.required or row.path(Spelling.CAMEL) in required:
        return "to be given"
    if row.without is not None:
        around, value = row.without
        if row.form.get("default") is None:
            return f"{code(value)} without `{spelling.of(around, {})}`"
    default = row.form.get("default")
    return "" if default is None or isinstance(default, dict) or default == [] else code(default)


def _words(row: Row) -> str:
    return cell(" ".join(row.form.get("description", "").split()))


def _legal(row: Row) -> str:
    if row.form.get("format") == "date-time":
        return f"a date and time with offset{IN_LINES}"
    return "" if "properties" in row.form else cell(legal(row.form))


def policies() -> str:
    """Fields of a policy by all its ways in, its status and its conditions."""
    resource = RESOURCES["ScalingPolicy"]
    of_lines = {row.path(Spelling.SNAKE) for row in rows(Policy)}
    found = []
    for row in rows(resource.spec):
        snake, first = row.path(Spelling.SNAKE), row.steps[0][0]
        target = first == "target_ref"
        whole = "properties" in row.form
        pulled = IN_SCALED_OBJECT.get(first, row.key(Spelling.CAMEL))
        found.append((
            f"`{row.path(Spelling.CAMEL)}`",
            "the object itself" if target else "" if whole else f"`{row.key(Spelling.KEBAB)}`",
            "`scaleTargetRef`" if target else "" if whole else f"`{pulled}`",
            f"`{snake}`" if snake in of_lines else "",
            _legal(row), _default(row, Spelling.CAMEL, resource.required), _words(row),
        ))  # fmt: skip
    head = ("ScalingPolicy `spec.…`", f"annotation `{annotations.PREFIX}…`", "trigger of KEDA", "line of `decide`",
            "legal", "default", "what it is")  # fmt: skip
    replicas, demand = (f"`{style.value}`" for style in trigger.Style)
    lines = [
        "# Policies", "", f"<!-- {BY} -->", "",
        "One policy, however it is written: as a [`ScalingPolicy`](../../../config/samples/scalingpolicy.yaml), as",
        "[annotations](../../../config/samples/deployment.yaml) of what is scaled, as the metadata of a",
        "[trigger of KEDA's](../../../config/samples/keda-vllm.yaml), or as `policy` in a line of `headroom decide`.",
        "Names that end in `S`, `-s` or `_s` are in seconds. A value out of range is refused with its name, the value",
        "and the legal range; so is a name that nobody knows. A line takes every field in all three spellings.", "",
        f'Annotations and metadata are texts; a list is JSON. `{annotations.SCALE}: "true"` asks for scaling by',
        f"annotation. A trigger knows `{trigger.VALUE}` besides, which says what HPA is told: {replicas} (the default)",
        f"or {demand}, and with {demand} `{trigger.PER_REPLICA}`, the requests that one replica carries at once",
        f"(1..{trigger.MOST_PER_REPLICA}).", "",
        *table(head, found), "", *_status(resource), "", "## Conditions", "", *conditions_of_policies(),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def warm_pools() -> str:
    """Fields of a WarmPool, its status and its conditions; what comes before them is written by hand."""
    resource = RESOURCES["WarmPool"]
    lines = [
        *_fields(resource), *_status(resource), "", "## Conditions", "", *conditions_of_pools(),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def batch() -> str:
    """What batch work says of itself, fields of a BatchQueue, its status and its conditions."""
    resource = RESOURCES["BatchQueue"]
    said = [(f"`{batch_work.QUEUE}`", "label: the BatchQueue that the work waits in")]
    said += [(f"`{name}`", cell(words)) for name, words in (batch_work.OF_PODS | batch_work.ANNOTATIONS).items()]
    lines = [
        "", "## Labels and annotations", "",
        "Durations carry their unit: `90s`, `15m`, `1h30m`, `2d`. A value that cannot be meant keeps the work from",
        "being admitted, with annotation, value and remedy in an event; a checkpoint that cannot be read is none.",
        "", *table(("on the Job, or on pods", "what it is"), said), *_fields(resource), *_status(resource), "",
        "## Conditions", "", *conditions_of_queues(),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _fields(resource: Resource) -> list[str]:
    found = [
        (
            f"`{row.path(Spelling.CAMEL)}`",
            _legal(row).removesuffix(IN_LINES),
            _default(row, Spelling.CAMEL, resource.required),
            _words(row),
        )
        for row in rows(resource.spec)
    ]
    return [
        "", "## Fields", "", "Names that end in `S` are in seconds.", "",
        *table(("`spec.…`", "legal", "default", "what it is"), found), "",
    ]  # fmt: skip


def _status(resource: Resource) -> list[str]:
    found = [
        (f"`{row.path(Spelling.CAMEL)}`", _words(row))
        for row in rows(resource.status)
        if not row.path(Spelling.CAMEL).startswith("conditions[]")
    ]
    return ["## Status", "", *table(("`status.…`", "what it is"), found)]
