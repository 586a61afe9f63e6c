"""The table of guards fits the sources and the tests, and a removal that proves nothing is told from one that does."""

import ast
import importlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.guards import PROVEN, Guard, Removal, StaleError, chosen, read, table
from tests.conftest import ROOT

GUARDS: Final = {guard.name: guard for guard in table()}

REMOVAL: Final = Removal("room/file.py", "guard()\n", "")
GUARD: Final = Guard("g", "a fault", (REMOVAL,), "tests/test_x.py::test_x", "two", "harm")

CASES: Final = {
    "fails": ('<failure message="AssertionError: waited for two">…</failure>', PROVEN),
    "fails-bare": ('<failure message="assert 1 == two">…</failure>', PROVEN),
    "fails-in-a-fixture": ("<error message='failed on setup with \"AssertionError: two\"'/>", PROVEN),
    "fails-elsewhere": ('<failure message="AssertionError: waited for one"/>', "FAILS OTHERWISE"),
    "crashes": ('<failure message="ImportError: two"/>', "FAILS WITHOUT AN ASSERTION"),
    "passes": ("", "PASSES WITHOUT IT"),
    "is-left-out": ('<skipped message="two"/>', "skipped"),
}


def test_every_guard_has_a_name_of_its_own() -> None:
    assert Counter(guard.name for guard in table()).most_common(1)[0][1] == 1


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_a_guard_is_there_once_and_what_is_left_without_it_is_python(guard: Guard) -> None:
    for removal in guard.removals:
        source = (ROOT / removal.file).read_text()
        left = removal.of(source)
        assert left != source
        ast.parse(left)
    assert guard.fails
    assert guard.without


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_the_test_that_a_guard_names_exists(guard: Guard) -> None:
    file, _, case = guard.test.partition("::")
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    test = getattr(module, case.partition("[")[0])
    assert case in _cases(test)


@pytest.mark.parametrize(("inside", "outcome"), CASES.values(), ids=CASES)
def test_only_the_assertion_that_is_named_proves_a_guard(tmp_path: Path, inside: str, outcome: str) -> None:
    report = tmp_path / "report.xml"
    report.write_text(f'<testsuites><testsuite><testcase name="test_x">{inside}</testcase></testsuite></testsuites>')
    assert read(GUARD, report, "")[0] == outcome


def test_a_run_without_a_report_proves_nothing(tmp_path: Path) -> None:
    assert read(GUARD, tmp_path / "none.xml", "no module named tests") == ("no test was run", "no module named tests")


@pytest.mark.parametrize(("source", "count"), [("other()\n", 0), ("guard()\nguard()\n", 2)], ids=["gone", "twice"])
def test_a_text_that_no_longer_matches_is_an_error(source: str, count: int) -> None:
    with pytest.raises(StaleError, match=rf"'guard\(\)' occurs {count} times in room/file.py"):
        REMOVAL.of(source)


def test_guards_are_chosen_by_name_or_pattern() -> None:
    assert chosen([GUARD], []) == chosen([GUARD], ["g"]) == chosen([GUARD], ["?"]) == [GUARD]
    with pytest.raises(StaleError, match="no guard is named 'h'"):
        chosen([GUARD], ["h"])


def _cases(test: Callable[..., None]) -> set[str]:
    """The names under which pytest runs a test: one for each value of its only parametrisation."""
    given = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    if not given:
        return {test.__name__}
    (mark,) = given
    return {f"{test.__name__}[{name}]" for name in mark.kwargs.get("ids") or mark.args[1]}
