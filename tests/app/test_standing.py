"""Conditions of a workload from what it was decided and what was done."""

import pytest

from autoscaler.api.annotations import read_annotations
from autoscaler.api.claims import Claim, TargetRef, Way
from autoscaler.api.modes import Mode
from autoscaler.app.standing import conditions
from autoscaler.record.stream import StepFrame
from tests.web.builders import decision, workload

REF = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "chat", "t1")


def limited(*steps: tuple[int, int, str]) -> tuple[str, str]:
    """Status and reason of ScalingLimited after a decision with these steps."""
    spec = read_annotations({"headroom.dev/scale": "true"})
    assert spec is not None
    trace = tuple(StepFrame("bound", before, after, reason, reason.lower(), ()) for before, after, reason in steps)
    made = workload(decision=decision(trace=trace))
    told = conditions(Claim(REF, spec, Way.ANNOTATION, None, 1), Mode.ACTIVE, None, made, None)
    return next((c.status, c.reason) for c in told if c.type == "ScalingLimited")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(2, 9, "BACKLOG"), (9, 6, "MAX")], ("True", "Max")),
        ([(2, 9, "BACKLOG"), (9, 6, "MAX"), (6, 4, "QUOTA")], ("True", "Quota")),
        ([(2, 9, "BACKLOG")], ("False", "Free")),
        ([(2, 1, "DEMAND_NOW"), (1, 2, "STABILISATION")], ("False", "Free")),
        ([(1, 0, "IDLE"), (0, 1, "ZERO_REFUSED")], ("True", "ZeroRefused")),
    ],
    ids=["the maximum", "the last of two", "nothing", "a hold is no limit", "a refused zero keeps the count up"],
)
def test_what_keeps_a_count_from_what_the_load_needs_is_a_limit(
    steps: list[tuple[int, int, str]], expected: tuple[str, str]
) -> None:
    assert limited(*steps) == expected
