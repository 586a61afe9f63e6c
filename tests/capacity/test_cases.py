"""Every edge case of warm pools has tests that there are, or a reason why it has none."""

import re
from functools import cache

import pytest

from tests.capacity.cases import Case, lines, table
from tests.conftest import ROOT

CASES = table()


@cache
def written(path: str) -> frozenset[str]:
    """The names of a file's tests."""
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", (ROOT / path).read_text(), re.MULTILINE))


def test_there_are_48_cases_each_with_a_name_of_its_own() -> None:
    assert [case.number for case in CASES] == list(range(1, 49))
    assert len({case.name for case in CASES}) == 48


@pytest.mark.parametrize("case", CASES, ids=[f"{case.number} {case.name}" for case in CASES])
def test_a_case_is_shown_by_tests_that_there_are_or_says_why_not(case: Case) -> None:
    assert bool(case.shown) != bool(case.not_shown)
    assert case.shown or not case.note, "a case without tests says why in one place"
    for test in case.shown:
        path, _, name = test.partition("::")
        assert name in written(path), test


def test_a_listing_tells_of_each_case_where_it_is_shown() -> None:
    told = lines([Case(1, "one", shown=("x.py::test_one",), note="in part"), Case(2, "two", not_shown="not here")])
    assert told == [" 1  one", "      x.py::test_one", "      note: in part", " 2  two", "      not shown: not here"]
