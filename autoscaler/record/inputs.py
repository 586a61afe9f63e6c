"""Inputs lines: what a decision was made from, readings and policy, one line of versioned JSON beside the decision's.

Enters: the readings and parameters of one step. Leaves: bytes without a line end, in the form that `headroom decide`
reads: the inputs lines of an audit file, fed to it in their order, give the same decisions again, byte for byte. Every
line carries the whole policy, so that it can be read without the ones before it; terms left out for an ablation
(`Params.without`) are no policy and are not in it.
"""

from dataclasses import fields
from typing import Any, Final

import msgspec

from autoscaler.core.params import Params
from autoscaler.core.types import Limits, Readings

PREFIX: Final = b'{"kind":"inputs"'
"""How every inputs line begins, and no other line of an audit stream."""

VERSION: Final = 1
"""Raised when a key changes its meaning or goes; a new key does not raise it."""

_POLICY: Final = tuple(spec.name for spec in fields(Params) if spec.name != "without")


def inputs_line(workload: str, params: Params, readings: Readings) -> bytes:
    """The inputs of one step of `workload` as one line of JSON, without the line end; what was not read is null."""
    record: dict[str, Any] = {
        "kind": "inputs",
        "version": VERSION,
        "now_s": readings.now_s,
        "workload": workload,
        "policy": {name: getattr(params, name) for name in _POLICY},
        "replicas": readings.replicas,
        "pods": readings.pods,
        "gateway": readings.gateway,
        "latency": readings.latency,
        "limits": _limits(readings.limits),
    }
    return msgspec.json.encode(record)


def _limits(limits: Limits) -> dict[str, int | str | None]:
    words = {} if limits.budget_words is None else {"budget_words": limits.budget_words}
    return {"quota_replicas": limits.quota_replicas, "budget_replicas": limits.budget_replicas} | words
