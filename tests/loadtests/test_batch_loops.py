"""`bench batch_loops`: the steps it was asked for, and no search of none."""

import json

import pytest

from loadtests.bench.batch_loops import main


def test_it_makes_as_many_steps_as_it_was_asked_for_and_finds_no_loop(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps", "300", "--seed", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert 300 <= report["steps"] < 400
    assert report["admissions"] > 0
    assert report["loops"] == []


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--steps", "-5"], ["--seed", "-1"]], ids=" ".join)
def test_a_search_of_no_step_and_a_seed_that_is_none_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
