"""The reference of what Headroom tells: metrics, events, reasons and conditions, out of the catalogues and the enums.

Enters: the code's closed sets, and of each code what a person can do (advice.toml beside this file). Leaves: pages of
the chart's documentation. A code without advice, and advice for a code that is not there, end the generator.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final

from autoscaler.api.batch_findings import TreeCode
from autoscaler.api.batch_queue_status import QueueCondition
from autoscaler.api.modes import Mode
from autoscaler.api.status import ConditionType
from autoscaler.app import pool_telling
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.forecast.models import Model
from autoscaler.core.hpa.limits import Limit
from autoscaler.core.observe.freshness import SIGNALS
from autoscaler.core.pool.clock import Stage
from autoscaler.core.pool.intents import Aspect
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.reasons import Reason
from autoscaler.core.types import Verdict
from autoscaler.record.batch_metrics import OWNERS
from autoscaler.record.estimate import Doubt
from autoscaler.record.families import Kind
from autoscaler.record.metrics import CATALOGUE
from autoscaler.record.quality import Drift
from autoscaler.runtime.actuator import Outcome
from autoscaler.runtime.records import Event
from tests.chart.writing import BY, cell, table

_READ: Final[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("advice.toml").read_text())
ADVICE: Final[dict[str, dict[str, str]]] = {name: rows for name, rows in _READ.items() if name != "part"}
"""By section and code: what a person can do; where nothing else says what it means, that before it."""

CODES: Final[Mapping[str, type[Enum]]] = {
    "reason": Reason, "outcome": Outcome, "note": Event, "doubt": Doubt, "drift": Drift, "limit": Limit,
    "pool_reason": PoolReason, "batch_reason": BatchReason,
}  # fmt: skip
"""Section -> the closed set whose values say what its codes mean."""

POOL_CONDITIONS: Final = (
    pool_telling.ACCEPTED, pool_telling.ACTING, pool_telling.FOLLOWED, *(aspect.value for aspect in Aspect),
)  # fmt: skip

_OF_WORKLOAD: Final = {"namespace": "the workload's", "workload": "its name"}
LABELS: Final[Mapping[str, str]] = {
    **_OF_WORKLOAD,
    "mode": ", ".join(mode.value for mode in Mode),
    "signal": ", ".join(SIGNALS),
    "verdict": ", ".join(verdict.value for verdict in Verdict),
    "reason": "codes of [decisions](reasons.md#decisions); of `headroom_shadow_doubt` and `headroom_forecast_drift` "
    "their [own](reasons.md#shadow-mode-and-forecasts), of `headroom_batch_…` [theirs](reasons.md#batch-work)",
    "outcome": "codes of [outcomes](reasons.md#outcomes)",
    "event": "codes of the [journal](reasons.md#the-journal)",
    "limit": "codes of [HPA](reasons.md#hpa)",
    "resource": "what is watched, such as pods",
    "place": "taken, waiting (as many are taken up as may be)",
    "state": "answering, silent, unheard (asked and not heard yet)",
    "method": "of `headroom_api_requests_total` the HTTP method, of `headroom_keda_calls_total` the call",
    "answer": "404, 409, 429, a class such as 2xx for all others, or timeout",
    "code": "gRPC's status code",
    "stream": "audit, journal",
    "version": "Headroom's own",
    "hash": "of all settings but a replica's own name and address: where it differs, so do they",
    "account": "observed, modelled, ours",
    "model": ", ".join(model.name.lower() for model in Model),
    "side": "least, most",
    "pool": "the WarmPool",
    "stage": ", ".join(stage.name.lower() for stage in Stage),
    "sku": "of the tier's shape",
    "zone": "empty where none was asked for",
    "capacity_type": "reserved, on-demand, spot",
    "type": "a [condition](warm-pools.md#conditions)",
    "status": "True, False, Unknown",
    "queue": "the BatchQueue",
    "shape": "of the settings",
    "owner": ", ".join(OWNERS),
}
"""Label -> its values."""


def metrics() -> str:
    """Every metric by name, kind, labels and help, and what labels hold."""
    found = [
        (f"`{m.name}`", m.kind.value, ", ".join(f"`{label}`" for label in m.labels), cell(m.text)) for m in CATALOGUE
    ]
    used = dict.fromkeys(label for metric in CATALOGUE for label in metric.labels)
    histograms = ", ".join(f"`{metric.name}`" for metric in CATALOGUE if metric.kind is Kind.HISTOGRAM)
    lines = [
        "# Metrics", "", f"<!-- {BY} -->", "",
        "What `/metrics` serves. A figure that is not known has no series, which is not zero. The leader has all of",
        "them, another replica those of its own process. Names and labels are public: changing one is a breaking",
        f"change. {histograms} are histograms, with `_bucket`,",
        "`_sum` and `_count`. The process's own memory and time are there as `process_*`.", "",
        *table(("name", "kind", "labels", "what it says"), found), "",
        "## Labels", "", *table(("label", "values"), [(f"`{label}`", LABELS[label]) for label in used]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def reasons() -> str:
    """Events and all codes of reasons, each with its meaning and what to do."""
    lines = [
        "# Events and reasons", "", f"<!-- {BY} -->", "",
        "Every code that Headroom tells: what it means, and what to do.",
    ]  # fmt: skip
    for part in _READ["part"]:
        lines += ["", f"## {part['title']}", "", part["words"]]
        for section in part["of"]:
            lines += ["", *(_codes(section, CODES[section]) if section in CODES else _events(section))]
    return "\n".join(lines) + "\n"


def conditions_of_policies() -> list[str]:
    """The conditions of a ScalingPolicy: what each means, its words, and what to do."""
    return _conditions("condition", (each.value for each in ConditionType))


def conditions_of_pools() -> list[str]:
    """The conditions of a WarmPool."""
    return _conditions("pool_condition", POOL_CONDITIONS)


def conditions_of_queues() -> list[str]:
    """The conditions of a BatchQueue, and the words of those that are false."""
    contradictions = table(
        ("word", "what it means, and what to do"), _advised("tree_code", (c.value for c in TreeCode))
    )
    return [*_conditions("queue_condition", (each.value for each in QueueCondition)), "", *contradictions]


def _conditions(section: str, types: Iterable[str]) -> list[str]:
    return table(("condition", "what it says, and what to do"), _advised(section, types))


def _events(section: str) -> list[str]:
    return table(("event", "what it means, and what to do"), _advised(section, ADVICE[section]))


def _advised(section: str, codes: Iterable[str]) -> Iterator[tuple[str, str]]:
    left = dict(ADVICE[section])
    for each in codes:
        yield f"`{each}`", cell(left.pop(each))
    if left:
        raise ValueError(f"advice.toml: {section} has {', '.join(left)}, which the code does not know")


def _codes(section: str, codes: type[Enum]) -> list[str]:
    advised = dict(_advised(section, (each.name for each in codes)))
    found = [(f"`{each.name}`", cell(str(each.value)), advised[f"`{each.name}`"]) for each in codes]
    return table(("code", "what it means", "what to do"), found)
