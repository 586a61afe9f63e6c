"""What a table remembers of one workload, taken aside before a line that may be wrong, and put back when it was.

Enters: a table, a workload. Leaves: a copy that lives apart from it. Nothing here knows why a line was wrong.
"""

from copy import deepcopy
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from autoscaler.core.forecast.models import FittedModel
from autoscaler.core.state import Table, Track


@dataclass(frozen=True, slots=True)
class Aside:
    """All that a table remembers of one workload at one instant; columns by group and name."""

    workload: str
    track: Track
    fitted: FittedModel | None
    columns: dict[tuple[str, str], NDArray[np.generic]]


def taken_aside(table: Table, workload: str) -> Aside:
    """Return a copy of what is remembered of a workload; raise KeyError when it is not in the table."""
    row = table.rows[workload]
    columns = {
        (group, spec.name): np.array(getattr(columns, spec.name)[row])
        for group, columns in table.groups().items()
        for spec in fields(columns)
    }
    return Aside(workload, deepcopy(table.track(row)), table.fitted.get(row), columns)


def put_back(table: Table, aside: Aside) -> None:
    """Let the table remember of the workload what was taken aside, and nothing else; a copy is put back once."""
    row = table.rows[aside.workload]
    table.tracks[row] = aside.track
    table.fitted.pop(row, None)
    if aside.fitted is not None:
        table.fitted[row] = aside.fitted
    groups = table.groups()
    for (group, name), value in aside.columns.items():
        getattr(groups[group], name)[row] = value
