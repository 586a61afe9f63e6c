"""A pool's status as it is written: within what the API server takes."""

from dataclasses import replace

from autoscaler.api.warm_pool_status import MOST_BREAKERS, BreakerState
from autoscaler.app.pool_written import written_of
from autoscaler.record.pool_status import BreakerStatus
from tests.record.pool_statuses import NOW_S, short_pool


def test_of_more_breakers_than_a_status_holds_those_that_are_open_are_written_first() -> None:
    """Eight tiers in nine zones, one of them closed off last: the whole status would be refused for its length."""
    half = [BreakerStatus(f"sku-{at // 9}", f"z{at % 9}", "on-demand", "half-open", NOW_S) for at in range(72)]
    pool = replace(short_pool(), breakers=(*half, replace(half[0], sku="h100", state="open")))
    written = written_of(pool, 1, NOW_S).breakers
    assert (len(written), written[0].sku, written[0].state) == (MOST_BREAKERS, "h100", BreakerState.OPEN)
