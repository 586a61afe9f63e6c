"""What help names is what there is: help imports none of it, so the two are written apart."""

import pytest

from autoscaler.sim import choices
from autoscaler.sim.contest import GROUPS
from autoscaler.sim.rivals import RIVALS
from autoscaler.sim.workloads import NAMED


@pytest.mark.parametrize(
    ("told", "there"),
    [(choices.WORKLOADS, NAMED), (choices.RIVALS, RIVALS), (choices.GROUPS, GROUPS)],
    ids=["workloads", "rivals", "groups"],
)
def test_what_help_names_is_what_there_is_in_its_order(told: tuple[str, ...], there: dict[str, object]) -> None:
    assert told == tuple(there)
