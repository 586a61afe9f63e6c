"""Events of a pool's loans: each once, also over a restart, and none of what is not known."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.app.pool_loans import LoanCounts, LoanNews
from autoscaler.record.loans import LoanState, LoanTold, loan_line, loan_sentence

NOW_S = 1_700_000_000.0
LENT = LoanTold("job/ns/train", 8, NOW_S - 600.0, reclaim_s=60.0, notice_s=20.0)
BACK = replace(LENT, state=LoanState.RECALLED, recalled_s=NOW_S - 12.0, why="1 on loan, 0 stay: demand may need 2")


def news(told: LoanNews, *loans: LoanTold) -> list[tuple[str, str]]:
    return [(each.word, each.words) for each in told.news(loans, NOW_S)]


def test_a_loan_that_is_made_called_back_and_returned_is_three_events() -> None:
    told = LoanNews({})
    assert news(told) == []
    assert news(told, LENT) == [("LoanMade", "8 units lent to job/ns/train; back within 60 s of a recall")]
    assert news(told, LENT) == []
    words = "8 units called back from job/ns/train: 1 on loan, 0 stay: demand may need 2; it has 20 s to write its "
    assert news(told, BACK) == [("LoanRecalled", f"{words}checkpoint")]
    assert news(told, BACK) == []
    assert news(told) == [("LoanReturned", "8 units are back from job/ns/train, 12 s after they were called back")]
    assert told.counts == LoanCounts(1, 1)


def test_one_that_does_not_go_is_told_as_called_back_once_and_says_so() -> None:
    told = LoanNews({})
    news(told, LENT)
    hangs = replace(BACK, state=LoanState.OVERDUE)
    assert [word for word, _ in news(told, hangs)] == ["LoanRecalled"]
    assert news(told, BACK) == news(told, hangs) == []
    assert loan_sentence(hangs, NOW_S) == (
        "8 units are overdue from job/ns/train, which was told to leave 12 s ago and holds them still: nobody counts "
        "on them; look at its pods"
    )
    assert loan_line(hangs, NOW_S).state == "overdue"


def test_a_gang_that_ends_gives_back_without_a_recall() -> None:
    told = LoanNews({})
    news(told, LENT)
    assert news(told) == [("LoanReturned", "8 units are back from job/ns/train, which was not called back")]


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"gang": "job/ns/train", "units": 8}, LENT, []),
        ({"gang": "job/ns/train", "units": 8}, BACK, ["LoanRecalled"]),
        ({"gang": "job/ns/train", "units": 8, "recalledAt": "2023-11-14T22:13:08Z"}, BACK, []),
        ({"gang": "job/ns/other", "units": 8}, LENT, ["LoanMade"]),
    ],
    ids=["known", "called back since", "its recall known too", "another one"],
)
def test_after_a_restart_nothing_is_told_again_that_the_status_has(
    before: dict[str, Any], now: LoanTold, words: list[str]
) -> None:
    assert [word for word, _ in news(LoanNews({"loans": [before]}), now)] == words


def test_while_nobody_knows_the_loans_none_of_them_is_over() -> None:
    told = LoanNews({})
    news(told, LENT)
    assert list(told.news(None, NOW_S)) == []
    assert news(told, LENT) == []


def test_a_loan_says_who_has_what_for_how_long_and_when_it_is_to_be_back() -> None:
    assert loan_sentence(LENT, NOW_S) == "8 units lent to job/ns/train since 10 min; back within 60 s of a recall"
    until = replace(LENT, until_s=NOW_S + 3600.0)
    assert "since 10 min, until 2023-11-14 23:13:20Z as demand went so far; back" in loan_sentence(until, NOW_S)
    assert loan_sentence(BACK, NOW_S) == (
        "8 units called back from job/ns/train 12 s ago: 1 on loan, 0 stay: demand may need 2; it has 20 s to write "
        "its checkpoint, to be gone within 48 s"
    )
    assert loan_sentence(BACK, NOW_S + 60.0).endswith("12 s late")
    leaves = replace(LENT, state=LoanState.LEAVING)
    assert loan_sentence(leaves, NOW_S) == "8 units come back from job/ns/train, which leaves"
    assert loan_line(leaves, NOW_S).state == "leaving"
