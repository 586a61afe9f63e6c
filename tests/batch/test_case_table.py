"""Every edge case names its tests, or says why it is decided where the cluster is."""

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
CASES = tomllib.loads((HERE / "cases.toml").read_text())["case"]
WRITTEN = {
    f"{path.stem}::{name}"
    for path in HERE.glob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
}
NAMED = {name for case in CASES for name in case.get("tests", ())}


def test_there_are_56_cases_each_with_tests_or_a_reason() -> None:
    assert [case["number"] for case in CASES] == list(range(1, 57))
    for case in CASES:
        assert case["words"]
        assert bool(case.get("tests")) != bool(case.get("cluster")), case


def test_every_named_test_is_written() -> None:
    assert NAMED <= WRITTEN, NAMED - WRITTEN


def test_every_numbered_test_stands_under_its_number() -> None:
    for name in WRITTEN:
        title = name.partition("::test_case_")[2]
        for number in re.findall(r"(?:^|_and_)(\d\d)", title):
            assert name in CASES[int(number) - 1].get("tests", ()), name
