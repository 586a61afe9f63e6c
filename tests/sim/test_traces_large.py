"""A long trace takes memory for its columns, not for each of its cells, and its last row is judged as its first."""

import csv
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from autoscaler.errors import InputError
from autoscaler.sim.traces import read_traffic
from autoscaler.sim.traces.table import checked, parse_csv, read_bytes
from autoscaler.sim.traces.texts import Texts
from tests.sim.trace_files import write

ROWS = 30_000
HEADER = "arrival_s,model,tenant,prompt_tokens,output_tokens\n"


def _rows(count: int = ROWS) -> list[str]:
    return [f"{row * 0.37:.6f},chat-{row % 3},t{row % 7},{row % 3989},{row % 811}\n" for row in range(count)]


def _peak_bytes(path: Path) -> int:
    tracemalloc.start()
    try:
        load = read_traffic(path, seed=0)
        assert load.total == ROWS
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "times"),
    [
        pytest.param(HEADER + "".join(_rows()), 8, id="CSV"),
        pytest.param(
            "".join(
                f'{{"timestamp": {row * 370}, "input_length": {row % 3989}, "output_length": 9, "hash_ids": [{row}]}}\n'
                for row in range(ROWS)
            ),
            4,
            id="JSON lines",
        ),
    ],
)
def test_a_trace_takes_a_few_times_its_size_of_memory(tmp_path, text, times):
    path = write(tmp_path, text)
    _ = read_traffic(write(tmp_path, text.splitlines()[0] + "\n" + text.splitlines()[1] + "\n", "small"), seed=0)
    assert _peak_bytes(path) < times * path.stat().st_size


def test_the_last_row_of_many_is_refused_by_its_own_line(tmp_path):
    rows = _rows()
    rows[-1] = rows[-1].replace(f",{(ROWS - 1) % 811}\n", ",-4\n")
    with pytest.raises(InputError, match=rf"line {ROWS + 1}, field output_tokens: '-4' is negative"):
        read_traffic(write(tmp_path, HEADER + "".join(rows)), seed=0)


def test_time_that_goes_backwards_between_two_blocks_is_told_with_both_texts(tmp_path):
    for row in (2047, 2048, 2049, 20_480):
        rows = _rows()
        rows[row] = "0.5" + rows[row][rows[row].index(",") :]
        before = rows[row - 1].partition(",")[0]
        with pytest.raises(
            InputError, match=rf"line {row + 2}, .* '0.5' goes backwards: the row before has '{before}'"
        ):
            read_traffic(write(tmp_path, HEADER + "".join(rows)), seed=0)


def test_lines_are_counted_over_blank_lines_and_names_of_two_lines(tmp_path):
    rows = _rows(6000)
    rows[10] = "\r\n\r\n" + rows[10]
    rows[3000] = rows[3000].replace("chat-0", '"chat\n0"')
    rows[5999] = rows[5999].replace(",t0,", ",t0,many")
    with pytest.raises(InputError, match=r"line 6004, field prompt_tokens: 'many2010' is not a number"):
        read_traffic(write(tmp_path, HEADER + "".join(rows)), seed=0)


def test_bytes_that_are_no_text_are_told_by_line_wherever_they_stand(tmp_path):
    for at in (3, 1_048_576, 1_048_577, 3_000_000):
        content = bytearray(b"a,b\n" * 1_000_000)
        content[at : at + 2] = "é".encode()[:1] + b"x"
        (tmp_path / "trace").write_bytes(content)
        line = content.count(b"\n", 0, at) + 1
        with pytest.raises(InputError, match=rf"line {line}: not UTF-8 text"):
            read_traffic(tmp_path / "trace", seed=0)


def test_a_letter_that_lies_on_the_edge_of_two_blocks_is_text(tmp_path):
    content = b"x" * 1_048_575 + "é".encode() + b"\n"
    (tmp_path / "trace").write_bytes(content)
    assert checked(tmp_path / "trace", read_bytes(tmp_path / "trace")) == content


def test_every_cell_is_what_the_csv_module_reads(tmp_path):
    stream = np.random.default_rng(7)
    words = ["", "a", "é", '"x,1"', " 2 ", "1_0", "nan", '"two\nlines"', "日本", "x" * 4000, "0.1"]
    drawn = [",".join(words[at] for at in stream.integers(0, len(words), 3)) + f",{row}" for row in range(7000)]
    text = "p,q,r,s\n" + "\n".join(drawn) + "\n"
    path = write(tmp_path, text)
    table = parse_csv(path, checked(path, read_bytes(path)))
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    for name, cells in zip(header, zip(*rows, strict=True), strict=True):
        assert list(table.columns[name]) == list(cells)
        assert [table.columns[name][row] for row in (0, 2047, 2048, 6999, -1)] == [
            cells[row] for row in (0, 2047, 2048, 6999, -1)
        ]


def test_a_column_of_texts_ends_where_it_ends():
    column = Texts()
    assert list(column) == []
    column.append(("a", "b"))
    assert list(column[0:5]) == ["a", "b"]
    for row in (2, -3):
        with pytest.raises(IndexError):
            column[row]


def test_one_long_cell_does_not_widen_the_others():
    column = Texts()
    cells = (*(str(row) for row in range(2047)), "x" * 100_000)
    tracemalloc.start()
    try:
        column.append(cells)
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
    assert tuple(column) == cells
