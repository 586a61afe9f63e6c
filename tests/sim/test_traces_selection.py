"""Which part of a trace is wanted, as a command line says it."""

from pathlib import Path

import pytest

from autoscaler.errors import InputError
from autoscaler.sim.traces import TraceSelection, split_trace


def test_a_bare_path_selects_everything():
    assert split_trace("a/b.csv", seed=3) == (Path("a/b.csv"), TraceSelection(seed=3))


def test_every_part_of_a_selection_is_read():
    path, selection = split_trace("x.csv#model=m-small&tenant=c1&day=2&days=3&rate=200&seed=9", seed=1)
    assert path == Path("x.csv")
    assert selection == TraceSelection(model="m-small", tenant="c1", day=2, days=3, rate_rps=200.0, seed=9)


@pytest.mark.parametrize("rate_rps", [12.5, 200.0, 1234567.5, 0.123456789])
def test_a_description_reads_back_as_the_selection(rate_rps: float):
    selection = TraceSelection(model="m-small", day=0, days=2, rate_rps=rate_rps)
    assert split_trace(f"x.csv{selection.describe()}")[1] == selection


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        pytest.param("x.csv#modle=a", "'modle=a'", id="an unknown key"),
        pytest.param("x.csv#day", "'day'", id="a key without a value"),
        pytest.param("x.csv#day=1&day=2", "'day=2'", id="a key given twice"),
        pytest.param("x.csv#day=two", "two", id="a day that is no number"),
        pytest.param("x.csv#day=-1", "day is -1", id="a negative day"),
        pytest.param("x.csv#day=1&days=0", "days is 0", id="no day at all"),
        pytest.param("x.csv#rate=0", "rate is 0", id="a rate of zero"),
        pytest.param("x.csv#rate=nan", "rate is nan", id="a rate that is NaN"),
        pytest.param("x.csv#rate=inf", "rate is inf", id="an infinite rate"),
        pytest.param("x.csv#seed=-1", "seed is -1", id="a negative seed"),
    ],
)
def test_refuses_a_selection_it_cannot_read(argument, named):
    with pytest.raises(InputError, match=named):
        split_trace(argument)
