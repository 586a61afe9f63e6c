"""What gateways and tables are told: known, unknown and expired are three things."""

import pytest

from autoscaler.core.scale.overload import Overload
from autoscaler.record.status import About, ActRecord, OverloadStatus, overload_status, workload_status
from tests.web.builders import signals, workload

ABOUT = About(kind="Deployment", way="annotation")
SHORT = Overload(
    deficit_replicas=3, admissible_rps=16.0, shed_ratio=0.25, wait_s=4.0, retry_after_s=45.0, expires_s=110.0
)
BLIND = workload(100.0, load_rps=None, queue=None, signals=signals("unknown", 90.0))


def test_a_row_tells_need_have_and_getting_and_how_old_that_is() -> None:
    act = ActRecord(99.0, 4, 5, "APPLIED", "applied")
    row = workload_status("demo/chat", ABOUT, workload(100.0), act, 103.0)
    assert (row.needs, row.has, row.getting, row.desired, row.age_s) == (5, 4, 1, 5, 3.0)
    assert (row.overload, row.act, row.about) == ("fits", act, ABOUT)


def test_a_workload_that_was_never_decided_on_is_a_row_without_figures() -> None:
    row = workload_status("demo/chat", ABOUT, None, None, 103.0)
    assert (row.age_s, row.needs, row.has, row.desired, row.overload) == (None, None, None, None, "unknown")


def test_an_overload_is_told_with_its_figures_until_it_expires() -> None:
    told = overload_status("demo/chat", workload(100.0, overload=SHORT), 104.0)
    assert told == OverloadStatus(
        "demo/chat", "overloaded", 104.0, deficit_replicas=3, admissible_rps=16.0, shed_ratio=0.25, wait_s=4.0,
        retry_after_s=45.0, expires_s=110.0, expires_in_s=6.0,
    )  # fmt: skip


def test_that_demand_fits_holds_for_two_ticks_too() -> None:
    told = overload_status("demo/chat", workload(100.0), 104.0)
    assert (told.state, told.shed_ratio, told.admissible_rps, told.expires_in_s) == ("fits", 0.0, None, 6.0)


@pytest.mark.parametrize(
    ("frame", "now_s"),
    [(None, 100.0), (BLIND, 100.0), (workload(100.0, overload=SHORT), 110.0), (workload(100.0), 110.0)],
    ids=["nothing decided yet", "signals unknown", "an overload expired", "a fit expired"],
)
def test_nobody_sheds_on_what_is_not_known_or_on_yesterdays_word(frame, now_s: float) -> None:
    assert overload_status("demo/chat", frame, now_s) == OverloadStatus("demo/chat", "unknown", now_s)
