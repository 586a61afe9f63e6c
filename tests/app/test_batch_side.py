"""Batch admission without its setting: nothing is followed, nothing runs, nothing is told."""

from typing import Any, cast

import pytest

from autoscaler.app.batch_side import BatchSide
from autoscaler.app.guard import Guard
from autoscaler.app.loan_desk import LoanDesk
from autoscaler.app.outside import Outside
from autoscaler.runtime.clock import ScaledClock
from autoscaler.settings.batch import Batch
from autoscaler.settings.model import Settings

pytestmark = pytest.mark.looptime


class Outdoors:
    """A clock, and an API server that must not be asked."""

    def __init__(self) -> None:
        self.clock = ScaledClock()
        self.api: Any = None


def side(*, enabled: bool) -> BatchSide:
    outside = cast(Outside, Outdoors())
    return BatchSide(
        Settings(batch=Batch(enabled=enabled)), outside, serves=lambda _: False, events=cast(Any, None),
        guard=Guard(outside.clock), may_write=lambda: True, frozen=lambda: None, shown=lambda _: None,
        desk=LoanDesk(is_open=False),
    )  # fmt: skip


async def test_without_the_setting_there_is_no_task_and_no_answer() -> None:
    off = side(enabled=False)
    off.changed()
    assert (off.follows(), off.leads(), off.told(), list(off.find("job", None, "train"))) == ({}, {}, None, [])


async def test_with_the_setting_it_follows_always_and_admits_while_it_leads() -> None:
    on = side(enabled=True)
    tasks = {**on.follows(), **on.leads()}
    assert sorted(tasks) == ["batch", "batch_cluster"]
    for each in tasks.values():
        each.close()
