"""Kubernetes' own cases of its horizontal pod autoscaler, read from its Go module when a test asks: none is copied.

A program of ours (tests/real/hpa) writes the literals of the Go tests as JSON; here they become values of the core's.
Instants count from the moment that a Go test calls now.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add, floordiv, mul, sub
from typing import Any, Final

from autoscaler.core.hpa import spec
from autoscaler.core.hpa.counts import Seen
from autoscaler.core.hpa.memory import Memory, Recommendation, Scaling
from tests.real import parts

FILES: Final = ("replica_calculator_test.go", "horizontal_test.go")

TESTED: Final = spec.Controller(up_factor=8.0)
"""The tests raise the factor to 8 in an init function; the rest are the defaults."""

_KNOWN: Final = {
    "Second": 1, "Minute": 60, "Hour": 3600, "MaxInt32": 2**31 - 1, "MinInt32": -(2**31), "MaxInt64": 2**63 - 1,
    "MaxChangePolicySelect": spec.Select.MAX, "MinChangePolicySelect": spec.Select.MIN,
    "DisabledPolicySelect": spec.Select.DISABLED,
    "PodsScalingPolicy": spec.Unit.PODS, "PercentScalingPolicy": spec.Unit.PERCENT,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One case: a literal of a Go test with what its names mean there."""

    test: str
    place: int
    gate: bool | None
    fields: Mapping[str, Any]
    names: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The test's name, and the case's own where it has one."""
        own = self.fields.get("name") or self.fields.get("annotation") or (self.place or "")
        gate = "" if self.gate is None else f" HPAScaleToZero={str(self.gate).lower()}"
        return f"{self.test} {own}{gate}".strip()

    def get(self, field: str, default: Any = 0) -> Any:
        """A field's value; a field that is not there, or nil, has the default."""
        found = self.value(self.fields.get(field))
        return default if found is None else found

    def value(self, given: Any) -> Any:
        """What an expression comes to: a number, a text, seconds from now for an instant, thousandths of a quantity."""
        if isinstance(given, list):
            return [self.value(one) for one in given]
        if isinstance(given, str):
            return _KNOWN.get(given, self.value(self.names[given]) if given in self.names else given)
        if not isinstance(given, dict):
            return given
        if "op" in given:
            first, second = (self.value(one) for one in given["args"])
            return {"+": add, "-": sub, "*": mul, "/": floordiv}[given["op"]](first, second)
        if "call" in given:
            return self._called(given["call"], given["args"], given)
        return {key: self.value(one) for key, one in given.items()}

    def _called(self, name: str, args: Sequence[Any], given: Mapping[str, Any]) -> Any:
        match name:
            case "Now":
                return 0.0
            case "Add":
                return self.value(given["on"]) + self.value(args[0])
            case "MustParse":
                return round(float(args[0]) * 1000)
            case "calculateScaleUpLimit":
                return int(max(TESTED.up_factor * args[0], TESTED.up_least))
            case "generateScalingRules":
                return self._rules_of(*(self.value(one) for one in args))
            case "generateEventsUniformDistribution":
                return self._spread(*(self.value(one) for one in args))
            case _:  # a conversion, a pointer, a quantity in thousandths
                return self.value(args[0])

    def _rules_of(self, pods: int, pods_s: int, percent: int, percent_s: int, window_s: int) -> dict[str, Any]:
        policies = [(spec.Unit.PODS, pods, pods_s), (spec.Unit.PERCENT, percent, percent_s)]
        made = [{"Type": unit, "Value": value, "PeriodSeconds": s} for unit, value, s in policies if value]
        return {"SelectPolicy": spec.Select.MAX, "StabilizationWindowSeconds": window_s, "Policies": made}

    def _spread(self, changes: Sequence[int], period_s: int) -> list[list[Any]]:
        """Changes in the middle of equal parts of a period, each at a whole second before now."""
        part_s = period_s / len(changes)
        return [[n, -float(int(period_s - part_s * (place + 1) + part_s / 2))] for place, n in enumerate(changes)]

    def rules(self, field: str, default: spec.Rules) -> spec.Rules:
        """The rules of one direction with the API's defaults."""
        return rules(self.get(field, None), default)

    def behavior(self) -> spec.Behavior | None:
        """Both directions, None where neither is given."""
        if self.get("scaleUpRules", None) is None and self.get("scaleDownRules", None) is None:
            return None
        return spec.Behavior(
            self.rules("scaleUpRules", spec.DEFAULT_UP), self.rules("scaleDownRules", spec.DEFAULT_DOWN)
        )

    def recommendations(self, field: str = "recommendations") -> tuple[Recommendation, ...] | None:
        """What was recommended before; None where nothing ever was."""
        given = self.value(self.fields.get(field))
        return None if given is None else tuple(Recommendation(at_s, replicas) for replicas, at_s in given or ())

    def scalings(self, field: str) -> tuple[Scaling, ...]:
        """What was scaled before."""
        return tuple(Scaling(one[1], one[0], *one[2:]) for one in self.get(field, None) or ())

    def metric(self, given: Mapping[str, Any]) -> spec.Metric | None:
        """One of the metrics of a whole evaluation; None for another kind."""
        source = given.get("External") or given.get("Object")
        if not source:
            return None
        target = source["Target"]
        basis = spec.Basis.AVERAGE_VALUE if "AverageValue" in target else spec.Basis.VALUE
        return spec.Metric(source["Metric"]["Name"], basis, target[basis.value])

    def ready(self, pods: int, readiness: str, phases: str) -> int | None:
        """Pods that run and are ready; None without any pod."""
        states, running = self.get(readiness, []), self.get(phases, [])
        pods = max(pods, len(running))
        whole = sum(
            (states[i] if i < len(states) else "ConditionTrue") == "ConditionTrue"
            and (running[i] if i < len(running) else "PodRunning") == "PodRunning"
            for i in range(pods)
        )
        return whole if pods else None


def rules(given: Mapping[str, Any] | None, default: spec.Rules) -> spec.Rules:
    """Scaling rules with the API's defaults."""
    if given is None:
        return default
    made = tuple(spec.Policy(p["Type"], p["Value"], p["PeriodSeconds"]) for p in given.get("Policies", ()))
    return spec.Rules(
        made or default.policies,
        given.get("SelectPolicy", default.select),
        given.get("StabilizationWindowSeconds", default.window_s),
        None if given.get("Tolerance") is None else given["Tolerance"] / 1000,
    )


def evaluation(case: Case) -> tuple[spec.Autoscaler, Seen, list[int | None], Memory]:
    """A whole evaluation, as the controller's tests set it up."""
    given, levels = case.get("metricsTarget", []), case.get("reportedLevels", [])
    made = [(case.metric(one), sum(levels) if "External" in one else next(iter(levels), 0)) for one in given]
    if case.get("CPUTarget"):
        made.insert(0, (None, 0))
    metrics = tuple(metric for metric, _ in made)
    values = [None if metric is None else value for metric, value in made]
    autoscaler = spec.Autoscaler(case.get("minReplicas"), case.get("maxReplicas"), metrics, case.behavior(), TESTED)
    told = {c["Type"]: c["Status"] for c in case.get("initialConditions", [])}
    is_zeroed = told.get("ScaledToZero") == "ConditionTrue"
    status = case.get("statusReplicas")
    ready = case.ready(status, "reportedPodReadiness", "reportedPodPhase")
    seen = Seen(case.get("specReplicas"), status, ready, scaled_to_zero=is_zeroed and case.gate is True)
    return autoscaler, seen, values, Memory(case.recommendations())


def read() -> tuple[list[Case], dict[str, Any]]:
    """Every case of the two files, and by test what each says besides."""
    source = parts.source("kubernetes", parts.KUBERNETES_MODULE)
    assert source is not None
    files = [source / "pkg/controller/podautoscaler" / name for name in FILES]
    env = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOPROXY": "off"}
    done = subprocess.run(["go", "run", ".", *files], cwd=parts.HERE / "hpa", env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    tests = json.loads(done.stdout)
    cases = [
        Case(test["name"], place, case["gate"], case["fields"], test["names"])
        for test in tests
        for place, case in enumerate(test["cases"])
    ]
    return cases, {test["name"]: test for test in tests}
