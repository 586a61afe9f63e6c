"""A story of a budget of nought in the middle of a burst: what is ordered once it is lifted."""

from autoscaler.core.reasons import Reason
from autoscaler.core.types import Limits
from tests.core.toy import calibrated, counts, stepped, steps_of


def test_what_waited_for_a_budget_of_nought_is_cleared_at_the_pace_of_any_queue() -> None:
    """Seven carry the burst of 12 requests/s. Half an hour of it waits when the budget is back: by then whoever waited
    is late or gone, and the maximum, 100, was ordered for them."""
    story = calibrated(stepped(6.0, 12.0, 1000.0))
    story.run(300.0)
    story.toy.limits = Limits(budget_replicas=0)
    assert story.run(1800.0)[-1].replicas == 0
    story.toy.limits = Limits()
    told = story.run(1200.0)
    assert 7 <= max(counts(told)) <= 40
    assert Reason.BURST_CEILING in {step.reason for step in steps_of(told[:1])}
