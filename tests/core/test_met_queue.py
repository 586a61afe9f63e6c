"""A queue that stood before the controller came is demand, though nobody saw it arrive; and how soon one is cleared."""

import numpy as np
import pytest

from autoscaler.core.demand import peaks
from autoscaler.core.demand.peaks import PeakColumns
from autoscaler.core.params import Params
from autoscaler.core.scale import clearing
from tests.core.toy import Story, Toy, counts

WARMUP_S = 180.0
HOUR = 6000.0
"""An hour's queue of a service that fell behind by 1.7 requests/s."""


def met(queue: float, arriving_rps: float) -> Story:
    """A controller put in front of two replicas of 2 requests/s; a quarter of an hour with it."""
    toy = Toy.of(2, arriving_rps, queue=queue, warmup_s=WARMUP_S)
    story = Story(toy, Params(warmup_prior_s=WARMUP_S, tick_s=10.0, max_replicas=100))
    story.run(900.0)
    return story


def cleared_s(story: Story) -> float:
    """From when on less than a second's worth waits."""
    return next(r.now_s for r in story.seen if r.now_s > 0 and sum(pod.waiting or 0.0 for pod in r.pods or ()) < 8.0)


def test_an_hours_queue_before_a_trickle_is_cleared_soon_after_one_warm_up() -> None:
    """Two replicas alone take half an hour; ordered for 1.3 times the trickle they were four, and took 900 s."""
    story = met(HOUR, 0.5)
    assert cleared_s(story) <= 1.6 * WARMUP_S
    assert max(counts(story.told)) <= 38, "what clears 6000 requests within 80 s"


def test_what_queues_up_while_somebody_counts_is_counted_once() -> None:
    """The ceiling of a load that was seen stays what it was: the queue is a part of what arrived."""
    columns = PeakColumns.allocate(1)
    row = np.array([0])

    def told(queue: float) -> float:
        return float(peaks.unseen_rps(columns, row, np.array([queue]), np.array([100.0]))[0])

    assert [told(queue) for queue in (50.0, 400.0, 20.0, 400.0)] == [0.5, 0.5, 0.2, 0.2]


@pytest.mark.parametrize(("first", "then"), [(0.0, 0.0), (np.nan, 3.0)], ids=["none waits", "not known yet"])
def test_a_workload_that_is_met_without_a_queue_is_taken_as_it_comes(first: float, then: float) -> None:
    columns, row, lead_s = PeakColumns.allocate(1), np.array([0]), np.array([100.0])
    assert peaks.unseen_rps(columns, row, np.array([first]), lead_s)[0] == 0.0
    assert peaks.unseen_rps(columns, row, np.array([300.0]), lead_s)[0] == then


@pytest.mark.parametrize(
    ("queue", "seconds"),
    [(6000.0, 300.0), (60000.0, 300.0), (1500.0, 150.0), (60.0, 30.0), (0.0, 20.0)],
    ids=["a warm-up's arrivals", "more than that", "a quarter", "a hundredth", "nothing"],
)
def test_a_short_queue_is_cleared_sooner_by_the_root_of_its_length(queue: float, seconds: float) -> None:
    """10 requests/s arrive, and a start takes ten minutes: 6,000 arrive in one."""
    left, level_rps, lead_s, slack_s = (np.array([value]) for value in (queue, 10.0, 600.0, 10.0))
    assert clearing.within_s(left, level_rps, lead_s=lead_s, slack_s=slack_s)[0] == pytest.approx(seconds)
