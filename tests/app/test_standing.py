"""Conditions of a workload from what it was decided and what was done."""

from dataclasses import replace

import pytest

from autoscaler.api.annotations import read_annotations
from autoscaler.api.claims import Claim, Doubt, TargetRef, Way
from autoscaler.api.modes import Mode
from autoscaler.app.standing import conditions
from autoscaler.record.hpa import HpaPreview
from autoscaler.record.status import Problem
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


def test_an_hpa_that_does_not_follow_is_a_limit_where_none_of_ours_is() -> None:
    spec = read_annotations({"headroom.dev/scale": "true"})
    assert spec is not None
    claim = Claim(REF, spec, Way.SCALED_OBJECT, None, 1, scaled_object="chat")
    held = HpaPreview("h", 21, 20, 20, None, ("TOLERANCE",), "HPA h: told 21, it keeps 20 …")
    for preview, trace, expected in (
        (held, (), ("True", "HpaTolerance", held.text)),
        (replace(held, limits=()), (), ("False", "Free", "no limit keeps it from what the load needs")),
        (held, (StepFrame("bound", 9, 6, "MAX", "max", ()),), ("True", "Max", "max")),
    ):
        made = workload(decision=decision(trace=trace))
        told = conditions(claim, Mode.ACTIVE, None, made, None, hpa=preview)
        limited = next(c for c in told if c.type == "ScalingLimited")
        assert (limited.status, limited.reason, limited.message) == expected


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(2, 9, "BACKLOG"), (9, 6, "MAX")], ("True", "Max")),
        ([(2, 9, "BACKLOG"), (9, 6, "MAX"), (6, 4, "QUOTA")], ("True", "Quota")),
        ([(2, 9, "BACKLOG")], ("False", "Free")),
        ([(2, 1, "DEMAND_NOW"), (1, 2, "STABILISATION")], ("False", "Free")),
        ([(1, 0, "IDLE"), (0, 1, "ZERO_REFUSED")], ("True", "ZeroRefused")),
        ([(2, 4, "BACKLOG"), (4, 6, "LATE_START")], ("True", "LateStart")),
        ([(2, 4, "BACKLOG"), (4, 9, "LATE_START"), (9, 8, "MAX")], ("True", "LateStart")),
    ],
    ids=[
        "the maximum",
        "the last of two",
        "nothing",
        "a hold is no limit",
        "a refused zero keeps the count up",
        "pods that do not become ready",
        "pods that do not become ready, up to the maximum",
    ],
)
def test_what_keeps_a_count_from_what_the_load_needs_is_a_limit(
    steps: list[tuple[int, int, str]], expected: tuple[str, str]
) -> None:
    assert limited(*steps) == expected


def test_a_target_whose_pods_are_not_found_says_so_unless_something_else_gives_figures() -> None:
    spec = read_annotations({"headroom.dev/scale": "true"})
    assert spec is not None
    claim = Claim(REF, spec, Way.ANNOTATION, None, 1)
    why = Problem("no pod of Team prod/chat is found", "scale what it makes")
    unread = workload(signals=())
    for frame, expected in ((None, "NoPods"), (unread, "NoPods"), (workload(), "Fresh")):
        told = conditions(claim, Mode.ACTIVE, None, frame, None, podless=why)
        fresh = next(c for c in told if c.type == "SignalsFresh")
        assert fresh.reason == expected
        assert (fresh.message == "no pod of Team prod/chat is found; scale what it makes") is (expected == "NoPods")


def test_pods_that_do_not_become_ready_are_told_before_the_limit_that_their_successors_meet() -> None:
    spec = read_annotations({"headroom.dev/scale": "true"})
    assert spec is not None
    late = StepFrame("capacity", 4, 9, "LATE_START", "9, not 4: starts are late; 5 late", ())
    made = workload(decision=decision(trace=(late, StepFrame("bound", 9, 8, "MAX", "8 at most", ()))))
    told = conditions(Claim(REF, spec, Way.ANNOTATION, None, 1), Mode.ACTIVE, None, made, None)
    limited = next(c for c in told if c.type == "ScalingLimited")
    assert limited.message == "9, not 4: starts are late; 5 late; 8 at most"


@pytest.mark.parametrize(
    ("doubt", "mode", "active", "paused"),
    [
        (Doubt(True, "its mode may be another by now (why)", "mend it"), Mode.PAUSED, "False", "True"),
        (Doubt(False, "a limit may have come (why)", "mend it"), Mode.PAUSED_SCALE_IN, "True", "True"),
        (Doubt(False, "a limit may have come (why)", "mend it"), Mode.SHADOW, None, "False"),
    ],
    ids=["nothing is done", "nothing is taken away", "nothing would be done anyway"],
)
def test_a_doubt_in_what_was_read_is_told_in_its_own_words(
    doubt: Doubt, mode: Mode, active: str | None, paused: str
) -> None:
    spec = read_annotations({"headroom.dev/scale": "true"})
    assert spec is not None
    told = conditions(Claim(REF, spec, Way.ANNOTATION, None, 1), mode, None, None, None, doubt=doubt)
    by_type = {c.type: c for c in told}
    assert by_type["Paused"].status == paused
    if active is None:
        assert "NotHeard" not in {c.reason for c in told}
    else:
        assert (by_type["Active"].status, by_type["Active"].reason) == (active, "NotHeard")
        assert by_type["Active"].message == doubt.words == by_type["Paused"].message
