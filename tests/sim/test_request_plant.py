"""The seam to a serving model that drains by itself: node losses crash pods, drains are billed as long as they last."""

import numpy as np
import pytest

from autoscaler.sim.plant import Plant
from autoscaler.sim.serving.profile import DEFAULT_PROFILE
from autoscaler.sim.serving.requests import RequestServing
from autoscaler.sim.traffic import Traffic
from tests.sim.scenes import make_spec


def one_request(output_tokens: float) -> Traffic:
    """A request at 0.5 s in a minute of nothing; each token takes about 0.03 s."""
    arrivals = np.zeros(60)
    arrivals[0] = 1.0
    single = np.array([1.0])
    return Traffic(
        "w",
        1.0,
        arrivals,
        "test",
        arrival_s=single * 0.5,
        prompt_tokens=single * 128,
        output_tokens=single * output_tokens,
    )


@pytest.mark.parametrize(("output_tokens", "drained_steps"), [(1.0, 0), (200.0, 5)])
def test_a_replica_that_is_scaled_in_is_billed_while_its_requests_last(output_tokens: float, drained_steps: int):
    traffic = one_request(output_tokens)
    plant = Plant(make_spec(drain_s=30.0), traffic, RequestServing(DEFAULT_PROFILE, traffic))
    plant.advance()
    plant.order(0)
    while not plant.done:
        plant.advance()
    assert int(plant.timeline().draining.sum()) == pytest.approx(drained_steps, abs=1)
    assert int(plant.timeline().ready.sum()) == 1


def test_a_lost_node_takes_its_requests_with_it_and_they_start_over():
    traffic = one_request(200.0)
    serving = RequestServing(DEFAULT_PROFILE, traffic)
    plant = Plant(make_spec(warmup_s=10.0, drains=((3.0, 1),)), traffic, serving)
    while not plant.done:
        plant.advance()
    times = serving.times()
    assert times.restarts.tolist() == [1]
    assert times.ttft_s[0] > 12.0  # lost at 3 s, a new replica serves from 13 s on
    assert plant.timeline().draining.sum() == 0
