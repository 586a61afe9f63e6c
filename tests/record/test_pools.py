"""Every reason of a warm pool has a sentence whose figures the evidence can give, and a decision reads as prose."""

import re

import pytest

from autoscaler.core.pool.intents import PoolDecision, PoolStep
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.record.pools import FIGURES, SENTENCES, line, page, sentence, step_sentence

GROWTH = PoolStep(
    "size", 0, 3, PoolReason.GROWTH,
    (("demand_slots", 12.0), ("refill_s", 640.0), ("level_ratio", 0.98), ("samples", 1080),
     ("seen_at", "this time of day")),
)  # fmt: skip
ORDER = PoolStep("order", 2, 1, PoolReason.REFILL, (("ordered_slots", 1),))
DECISION = PoolDecision(
    "chat", 1_700_000_000.0, 1, 1, 3, 3, PoolReason.GROWTH, (GROWTH, ORDER), (("weights_warm", 1), ("leased", 0))
)


@pytest.mark.parametrize("reason", PoolReason)
def test_every_reason_has_a_sentence_of_known_figures(reason: PoolReason) -> None:
    first, *rest = SENTENCES[reason]
    figures = set(re.findall(r"\{(\w+)\}", first + "".join(rest))) - {"before", "after"}
    assert figures <= FIGURES.keys()
    assert len(first) > 10


def test_every_sentence_belongs_to_a_reason() -> None:
    assert SENTENCES.keys() == set(PoolReason)


def test_a_step_tells_its_figures_and_leaves_out_what_is_not_known() -> None:
    assert step_sentence(GROWTH) == (
        "3 to be warm: demand grew by no more within the 10.7 min that a refill takes in 98 % of cases at this time of "
        "day, demand is 12"
    )
    assert step_sentence(PoolStep("size", 0, 3, PoolReason.GROWTH)) == "3 to be warm: demand grew by no more"


def test_a_decision_is_one_line_and_a_page() -> None:
    assert sentence(DECISION).startswith("1 warm, 3 wanted: 3 to be warm: demand grew by no more within")
    assert sentence(DECISION).endswith("; 1 of 2 ordered")
    assert line(DECISION).startswith("2023-11-14 22:13:20Z chat 1 warm")
    rows = page(DECISION).splitlines()
    assert rows[0] == "2023-11-14 22:13:20Z  chat  1 of 3 slots, 1 warm  GROWTH"
    assert rows[-1] == "  slots: 1 weights warm"
    assert "    a refill takes, in nine of ten cases: 10.7 min" in rows[3]


def test_a_pool_at_rest_says_so() -> None:
    rest = PoolDecision("chat", 0.0, 0, 0, 0, 0, PoolReason.STEADY, (), ())
    assert sentence(rest) == "0 warm, 0 wanted: slots and need agree"
