"""HPA previews in words: the sentence, the settings that would swallow a decision, the behavior that would not."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from autoscaler.core.hpa.counts import Seen
from autoscaler.core.hpa.limits import Limit
from autoscaler.core.hpa.memory import Memory, scaled
from autoscaler.core.hpa.preview import Outcome, ahead, evaluate
from autoscaler.core.hpa.spec import DEFAULT_DOWN, DEFAULT_UP, Autoscaler, Behavior, Policy, Select, Unit
from autoscaler.record.hpa import (
    HpaPreview,
    hpa_lines,
    limit_codes,
    preview_text,
    recommended,
    recommended_json,
    swallows,
)
from tests.conftest import ROOT
from tests.core.hpas import AT_ONCE, DEFAULT, EXACT, hpa

KEPT = "HPA keeps replicas for up to 5 min after fewer are decided on, with its window of 300 s: they are paid for"
WHILE = " while that is told"


def said(autoscaler: Autoscaler, told: int, stands: int, *, others: int = 0, unknown_s: float = 0.0) -> str:
    seen, values = Seen(stands, stands), [told * 1000]
    outcome, _ = evaluate(autoscaler, seen, values, Memory(()), 0.0)
    steps = list(ahead(autoscaler, seen, values, Memory(()), 0.0))
    return preview_text("h", told, outcome, steps, others=others, unknown_s=unknown_s)


@pytest.mark.parametrize(
    ("behavior", "told", "stands", "words"),
    [
        (EXACT, 5, 5, "HPA h: told 5, it keeps 5"),
        (EXACT, 7, 5, "HPA h: told 7, it sets 7 at its next evaluation"),
        (
            DEFAULT, 21, 20,
            "HPA h: told 21, it keeps 20 now: the change is within its tolerance; it stays at 20 while that is told",
        ),
        (
            DEFAULT, 40, 5,
            "HPA h: told 40, it sets 10 now: its scaleUp policies allow no more at a time; 40 in about 30 s" + WHILE,
        ),
        (
            DEFAULT, 50, 30,
            "HPA h: told 50, it sets 40 now: its maxReplicas; it stays at 40 while that is told",
        ),
        (
            Behavior(down=replace(DEFAULT_DOWN, select=Select.DISABLED, window_s=0)), 2, 30,
            "HPA h: told 2, it keeps 30 now: its scaleDown is disabled; it stays at 30 while that is told",
        ),
        (
            EXACT, 3, 0,
            "HPA h: told 3, it keeps 0 now: at zero it rests, and KEDA wakes the target; it stays at 0" + WHILE,
        ),
    ],
    ids=["stands", "follows", "tolerance", "paced", "maximum", "disabled", "zero"],
)  # fmt: skip
def test_the_sentence_says_the_count_what_limits_it_and_until_when(
    behavior: Behavior, told: int, stands: int, words: str
) -> None:
    assert said(hpa(behavior), told, stands) == words


def test_what_is_not_known_is_said_with_it() -> None:
    words = said(hpa(EXACT), 7, 5, others=1, unknown_s=240.4)
    assert "1 more metric asks it too, and the largest count wins" in words
    assert "what it remembers from before is not known for 4 min more" in words
    assert "2 more metrics ask it too" in said(hpa(EXACT), 7, 5, others=2)


def test_every_limit_has_words() -> None:
    for limit in Limit:
        bound = bound_by(limit)
        assert preview_text("h", 9, bound, [], others=0, unknown_s=0).count(":") >= 2
        assert limit_codes(bound, 9) == (limit.name,)


def bound_by(limit: Limit) -> Outcome:
    outcome, _ = evaluate(hpa(DEFAULT), Seen(20, 20), [21_000], Memory(()), 0.0)
    return replace(outcome, bounds=(replace(outcome.bounds[0], limit=limit),))


@pytest.mark.parametrize(
    ("autoscaler", "words"),
    [
        (hpa(EXACT), []),
        (hpa(None), ["HPA's tolerance of 10 %: at 40 replicas it ignores a change of up to 4;", KEPT]),
        (hpa(None, most=9), [KEPT]),
        (hpa(None, most=10), ["HPA's tolerance of 10 %: at 10 replicas it ignores a change of up to 1;", KEPT]),
        (hpa(EXACT, most=30), ["HPA's maxReplicas is 30, below the policy's 40: more is never set"]),
        (hpa(EXACT, least=3), ["HPA's minReplicas is 3, above the policy's 1: fewer are never set"]),
        (
            hpa(Behavior(AT_ONCE, replace(AT_ONCE, select=Select.DISABLED))),
            ["HPA's scaleDown is disabled: fewer replicas are decided on and never set"],
        ),
        (
            hpa(Behavior(replace(AT_ONCE, policies=(Policy(Unit.PODS, 2, 60),)), AT_ONCE)),
            ["HPA needs 19 min from 1 to 40 replicas and a start takes 60 s"],
        ),
        (
            hpa(Behavior(replace(AT_ONCE, window_s=120), AT_ONCE)),
            ["HPA needs 105 s from 1 to 40 replicas, with its window of 120 s, and a start takes 60 s"],
        ),
    ],
    ids=["exact", "tolerance", "too-few-to-matter", "one-of-ten", "maximum", "minimum", "disabled", "slow", "window"],
)  # fmt: skip
def test_settings_that_swallow_a_decision_are_told_one_by_one(autoscaler: Autoscaler, words: list[str]) -> None:
    told = list(swallows(autoscaler, least=1, most=autoscaler.maximum if autoscaler.maximum < 11 else 40, lead_s=60.0))
    assert len(told) == len(words)
    for sentence, start in zip(told, words, strict=True):
        assert sentence.startswith(start)


def test_policies_that_are_quicker_than_a_start_are_nobodys_trouble() -> None:
    slow = hpa(Behavior(replace(AT_ONCE, policies=DEFAULT_UP.policies), AT_ONCE))
    assert list(swallows(slow, least=1, most=40, lead_s=60.0)) == []
    assert len(list(swallows(slow, least=1, most=40, lead_s=30.0))) == 1


def test_a_behavior_is_recommended_where_the_hpa_lags_and_not_where_it_follows() -> None:
    assert recommended_json(hpa(EXACT), tolerance=True) is None
    for behavior in (None, DEFAULT, Behavior(AT_ONCE, replace(AT_ONCE, window_s=300)),
                     Behavior(AT_ONCE, replace(AT_ONCE, tolerance_ratio=0.1))):  # fmt: skip
        assert recommended_json(hpa(behavior), tolerance=True) is not None
    tolerant = Behavior(replace(AT_ONCE, tolerance_ratio=None), replace(AT_ONCE, tolerance_ratio=None))
    assert recommended_json(hpa(tolerant), tolerance=False) is None


def test_the_recommended_behavior_is_the_samples_and_follows_every_count() -> None:
    text = (ROOT / "config/samples/keda-vllm.yaml").read_text()
    sample = msgspec.yaml.decode(text)
    written: dict[str, Any] = sample["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert written == recommended(tolerance=True)
    assert "tolerance" not in json.dumps(recommended(tolerance=False))
    memory = Memory(())
    for turn, (stands, told) in enumerate([(1, 40), (40, 39), (39, 1), (1, 2), (2, 40)]):
        outcome, memory = evaluate(hpa(EXACT), Seen(stands, stands), [told * 1000], memory, turn * 15.0)
        memory = scaled(memory, EXACT, stands, outcome.replicas, turn * 15.0)
        assert outcome.replicas == told


def test_the_lines_of_an_explanation_are_the_sentence_the_remarks_and_the_remedy() -> None:
    words, remark, behavior = "HPA h: told 21, …", "HPA's tolerance …", '{"scaleUp":{}}'
    made = HpaPreview("h", 21, 20, 20, None, ("TOLERANCE",), words, (remark,), behavior)
    where = "spec.advanced.horizontalPodAutoscalerConfig.behavior"
    remedy = f"    recommended, in the ScaledObject's {where}: {behavior}"
    assert hpa_lines(made) == [f"  {words}", f"    {remark}", remedy]
    assert hpa_lines(replace(made, remarks=(), behavior=None)) == [f"  {words}"]
