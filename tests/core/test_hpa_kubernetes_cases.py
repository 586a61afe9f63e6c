"""Kubernetes' own cases of its horizontal pod autoscaler against our preview of it, each under its own name.

The cases are read from Kubernetes' Go module. What is computed from CPU, memory or pods' own metrics is not previewed:
those are rows of the case table, and every case is either replayed or such a row.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from autoscaler.core.hpa.counts import Seen, proposal
from autoscaler.core.hpa.limits import Limit, bounded, down_limit, stabilised, up_limit
from autoscaler.core.hpa.memory import Memory, moved, scaled
from autoscaler.core.hpa.preview import evaluate
from autoscaler.core.hpa.spec import DEFAULT_DOWN, DEFAULT_UP, Autoscaler, Basis, Behavior, Metric
from tests.core.kubernetes_cases import TESTED, Case, evaluation, read, rules

pytestmark = [pytest.mark.real, pytest.mark.needs("kubernetes-module")]

OF_PODS: Final = "a Kubernetes case about CPU, memory or pods' own metrics, which are not previewed"
OF_MACHINERY: Final = "a Kubernetes case about the controller's calls, events and selectors, not about a count"

CONDITIONS: Final = {
    "DesiredWithinRange": (None,), "TooFewReplicas": (Limit.MIN,), "TooManyReplicas": (Limit.MAX,),
    "ScaleUpLimit": (Limit.UP_POLICIES, Limit.UP_DISABLED),
    "ScaleDownLimit": (Limit.DOWN_POLICIES, Limit.DOWN_DISABLED),
}  # fmt: skip

METRICS: Final = {
    "objectMetric": (Basis.VALUE, "targetUsage"), "objectPerPodMetric": (Basis.AVERAGE_VALUE, "perPodTargetUsage"),
    "externalMetric": (Basis.VALUE, "targetUsage"), "externalPerPodMetric": (Basis.AVERAGE_VALUE, "perPodTargetUsage"),
}  # fmt: skip


def one_metric(case: Case) -> str | None:
    """replica_calculator_test.go: what one metric asks for."""
    given = case.get("metric", None)
    kind = None if given is None else given.get("metricType", "objectMetric")
    if kind not in METRICS:
        return OF_PODS
    basis, target = METRICS[kind]
    current = case.get("currentReplicas")
    seen = Seen(current, current, case.ready(current, "podReadiness", "podPhase"))
    close = tuple(0.1 if one == "defaultTestingTolerance" else one for one in case.get("tolerances", (0.1, 0.1)))
    metric = Metric(given["name"], basis, given[target])
    made = proposal(metric, sum(given["levels"]), seen, (close[0], close[1]))
    assert made is not None
    assert made.replicas == case.get("expectedReplicas")
    return None


def whole_evaluation(case: Case) -> str | None:
    """horizontal_test.go: what the controller sets at one evaluation."""
    autoscaler, seen, values, memory = evaluation(case)
    outcome, _ = evaluate(autoscaler, seen, values, memory, 0.0)
    if any(bound.limit is Limit.NO_METRIC for bound in outcome.bounds) and case.get("CPUTarget"):
        return OF_PODS
    if not autoscaler.metrics or any(
        "Pods" in one or "ContainerResource" in one for one in case.get("metricsTarget", [])
    ):
        return OF_PODS
    assert outcome.replicas == case.get("expectedDesiredReplicas")
    return None


def old_rules(case: Case) -> None:
    spec = Autoscaler(case.get("hpaMinReplicas"), case.get("hpaMaxReplicas"), (), controller=TESTED)
    wanted, current = case.get("expectedDesiredReplicas"), case.get("currentReplicas")
    count, limit = bounded(wanted, current, spec, Memory(), 0.0)
    assert count == case.get("expectedConvertedDesiredReplicas")
    assert limit in CONDITIONS[case.get("expectedCondition")]


def old_window(case: Case) -> None:
    wanted = case.get("prenormalizedDesiredReplicas")
    before = Memory(case.recommendations())
    count, after = stabilised(wanted, 0, Autoscaler(1, 100, ()), before, 0.0)
    assert count == case.get("expectedStabilizedReplicas")
    assert len(after.recommendations or ()) == case.get("expectedLogLength")


def windows(case: Case) -> None:
    up_s, down_s = case.get("scaleUpStabilizationWindowSeconds"), case.get("scaleDownStabilizationWindowSeconds")
    behavior = Behavior(replace(DEFAULT_UP, window_s=up_s), replace(DEFAULT_DOWN, window_s=down_s))
    before = Memory(case.recommendations())
    wanted, current = case.get("prenormalizedDesiredReplicas"), case.get("currentReplicas")
    count, after = stabilised(wanted, current, Autoscaler(1, 1000, (), behavior), before, 0.0)
    assert count == case.get("expectedStabilizedReplicas")
    expected = case.recommendations("expectedRecommendations")
    if expected is not None:
        assert [one.replicas for one in after.recommendations or ()] == [one.replicas for one in expected]


def policies(case: Case) -> None:
    behavior = Behavior(case.rules("scaleUpRules", DEFAULT_UP), case.rules("scaleDownRules", DEFAULT_DOWN))
    spec = Autoscaler(case.get("specMinReplicas"), case.get("specMaxReplicas"), (), behavior)
    memory = Memory((), case.scalings("scaleUpEvents"), case.scalings("scaleDownEvents"))
    count, limit = bounded(case.get("prenormalizedDesiredReplicas"), case.get("currentReplicas"), spec, memory, 0.0)
    assert count == case.get("expectedReplicas")
    assert limit in CONDITIONS[case.get("expectedCondition")]


def stored(case: Case) -> None:
    given, change = case.get("scalingRules", None), case.get("replicaChange")
    behavior = None if given is None else Behavior(rules(given, DEFAULT_UP), rules(given, DEFAULT_DOWN))
    before = case.scalings("prevScaleEvents")
    expected = [(one.replicas, one.outdated) for one in case.scalings("newScaleEvents")]
    assert moved(before, 60, 0.0) == case.get("expectedReplicasChange")
    up = scaled(Memory((), before, ()), behavior, 10, 10 + change, 0.0)
    assert [(one.replicas, one.outdated) for one in up.ups] == expected
    down = scaled(Memory((), (), before), behavior, 10, 10 - change, 0.0)
    assert [(one.replicas, one.outdated) for one in down.downs] == expected


REPLAYS: Final[dict[str, Callable[[Case], str | None]]] = {
    "TestConvertDesiredReplicasWithRules": old_rules,
    "TestNormalizeDesiredReplicas": old_window,
    "TestNormalizeDesiredReplicasWithBehavior": windows,
    "TestScalingWithRules": policies,
    "TestStoreScaleEvents": stored,
}

NOT_COUNTS: Final = {
    "TestGroupPods": OF_PODS, "TestCalculateRequests": OF_PODS, "TestConfigurableTolerance": OF_PODS,
    "TestReplicaCalcConfigurableTolerance": OF_PODS, "TestComputedToleranceAlgImplementation": OF_PODS,
    "TestScaleUpOneMetricEmpty": OF_PODS, "TestNoScaleDownOneMetricEmpty": OF_PODS, "TestBuildQuantity": OF_MACHINERY,
}  # fmt: skip


def replay(case: Case) -> str | None:
    """Assert what the case says; why it is none of ours where it is not."""
    if case.test in NOT_COUNTS:
        return NOT_COUNTS[case.test]
    if case.test in REPLAYS:
        return REPLAYS[case.test](case)
    return one_metric(case) if "currentReplicas" in case.fields else whole_evaluation(case)


def test_every_case_of_kubernetes_is_replayed_or_said_to_be_none_of_ours(subtests: pytest.Subtests) -> None:
    cases, _ = read()
    replayed: Counter[str] = Counter()
    for case in cases:
        with subtests.test(msg=case.title):
            why = replay(case)
            replayed[why or "replayed"] += 1
            if why is not None:
                pytest.skip(why)
    assert replayed["replayed"] >= 120
    assert sum(replayed.values()) == len(cases)


def test_the_limits_of_both_directions_are_those_that_kubernetes_asserts() -> None:
    _, tests = read()
    for name, limit in (
        ("TestCalculateScaleUpLimitWithScalingRules", up_limit),
        ("TestCalculateScaleDownLimitWithBehaviors", down_limit),
    ):
        test = tests[name]
        case = Case(name, 0, None, {}, test["names"] | {"policy": "MinChangePolicySelect"})
        current, _, _, given = test["names"]["calculated"]["args"]
        both = rules(case.value(given), DEFAULT_UP)
        (asserted,) = test["asserts"]
        expected: Any = case.value(asserted["args"][1])
        assert limit(current, Behavior(both, both), Memory(), 0.0) == expected
