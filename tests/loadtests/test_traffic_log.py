"""The file of requests that ended: whole up to its last line whenever it is read."""

from pathlib import Path

from loadtests.traffic.log import logging_to, read_log
from loadtests.traffic.sender import Ended

ROWS = [Ended(1, 0.25, 1.5, 100, 20, 0.125, ""), Ended(0, 0.5, 60.5, 7, 3, None, "no_token")]


def test_what_was_written_is_read_back_in_order_of_when_it_was_due(tmp_path: Path) -> None:
    with logging_to(tmp_path / "0.csv") as told:
        for row in reversed(ROWS):
            told(row)
        assert read_log(tmp_path) == ROWS, "before it is closed"
    assert read_log(tmp_path) == ROWS


def test_a_line_that_was_being_written_is_left_out(tmp_path: Path) -> None:
    with logging_to(tmp_path / "0.csv") as told:
        told(ROWS[0])
    path = tmp_path / "0.csv"
    path.write_text(path.read_text() + "5,0.5,6")
    assert read_log(tmp_path) == ROWS[:1]
    assert read_log(tmp_path / "none") == []
