"""Columns: what is written by place into a column as one line is in the column, of whatever shape and however grown."""

from dataclasses import fields

import numpy as np

from autoscaler.core.columns import every, filled, flat, places, some, unknown
from autoscaler.core.params import Params
from autoscaler.core.state import Table


def test_every_column_is_one_line_of_memory_before_and_after_its_table_grew() -> None:
    table = Table.empty(1)
    for name in ("team/first", "team/second", "team/third"):
        table.put(name, Params())
        for group in table.groups().values():
            for column in (getattr(group, spec.name) for spec in fields(group)):
                assert np.shares_memory(flat(column), column)
                assert len(flat(column)) == column.size
    bins = table.bounds.wanted
    flat(table.bounds.wanted)[2 * bins.shape[1] + 5] = 7
    assert table.bounds.wanted[2, 5] == 7


def test_only_what_is_not_known_is_filled_and_in_another_array() -> None:
    given = np.array([np.nan, np.inf, -np.inf, 0.0, -1.0])
    assert filled(given, 3.0).tolist() == [3.0, np.inf, -np.inf, 0.0, -1.0]
    assert np.isnan(given[0])
    assert np.isnan(unknown(3)).tolist() == [True, True, True]
    assert unknown(0).shape == (0,)


def test_a_mask_of_no_rows_holds_nowhere_and_everywhere() -> None:
    none, one = np.zeros(0, dtype=np.bool_), np.array([False, True, False])
    assert (some(none), every(none), places(none).tolist()) == (False, True, [])
    assert (some(one), every(one), places(one).tolist()) == (True, False, [1])
    assert every(np.array([True, True]))
