"""A row's few words: what asked for the number and what changed it, and no two reasons alike."""

from dataclasses import replace

import pytest

from autoscaler.core.reasons import Reason
from autoscaler.core.types import Step
from autoscaler.record.gist import GISTS, gist
from autoscaler.record.stream import decision_frame
from tests.record.decisions import AGES, CAPPED, FORECAST, PER_REASON, make_decision

MOST = 34
"""Letters that a row of the page shows at 1280 px, and its neighbours may not outgrow twofold."""


def test_every_reason_has_few_words_of_its_own() -> None:
    assert set(GISTS) == set(Reason)
    said = [gist(make_decision(PER_REASON[reason][0])) for reason in Reason]
    assert len(set(said)) == len(said)
    assert not [words for words in said if len(words) > MOST]


@pytest.mark.parametrize("reason", [pytest.param(reason, id=reason.name) for reason in Reason])
def test_what_is_not_known_is_left_out_and_leaves_no_gap(reason: Reason) -> None:
    words = gist(make_decision(Step("demand", 2, 4, reason)))
    assert words == "".join(piece for piece in GISTS[reason] if "{" not in piece)
    assert words.strip() == words != ""


def test_rows_of_one_reason_differ_by_their_figures_and_name_what_changed_the_number() -> None:
    frame = decision_frame(make_decision(FORECAST, CAPPED))
    assert frame.gist == "forecast 19.3 req/s; burst ceiling"
    load = Step("demand", 20, 14, Reason.DEMAND_NOW, (("load_rps", 13.7), *AGES))
    held = Step("bound", 14, 18, Reason.STABILISATION, (("held_s", 120.0),))
    assert gist(make_decision(load, held)) == "load 13.7 req/s; held"


def test_a_decision_without_steps_says_what_it_found() -> None:
    assert gist(replace(make_decision(), trace=(), reason=Reason.STEADY)) == "right as it is"
