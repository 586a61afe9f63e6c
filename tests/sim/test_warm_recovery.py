"""A step of three times that nobody foresaw: requests are late for about a start, and for what is left of one where
slots are warm."""

import numpy as np
import pytest

from autoscaler.sim.warm.plant import Plant
from autoscaler.sim.warm.plant_parts import Stages
from autoscaler.sim.warm.run import TIER
from autoscaler.sim.warm.serving import Course, Engine, Nodes, recovered

SHORT = Course(waves=3, half_wave_s=900.0, after_s=1200.0)
STAGES = Stages(100.0, 8.0, 44.0, 36.0, 22.0)
"""Nodes of 210 s in the middle."""

ENGINE = Engine(100.0)
MOST_RATIO = 1.6


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_without_a_warm_slot_requests_are_late_for_at_most_1_6_whole_starts() -> None:
    found = recovered(0, 0, stages=STAGES, engine=ENGINE, course=SHORT)
    assert found.foretold is not None
    assert not found.foretold.warm
    assert 260.0 < found.foretold.spread.p90_s < 460.0, "210 + 100 s in the middle, spread by a fifth"
    assert found.recovery_s > 0.5 * found.foretold.spread.p90_s, "nobody recovers before replicas are there"
    assert found.ratio is not None
    assert found.ratio <= MOST_RATIO


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_with_warm_slots_they_are_late_for_at_most_1_6_times_what_is_left_of_a_start() -> None:
    found = recovered(32, 0, stages=STAGES, engine=ENGINE, course=SHORT)
    assert found.warm >= 28, "what the waves took is refilled"
    assert found.foretold is not None
    assert found.foretold.warm
    assert 80.0 < found.foretold.spread.p90_s < 160.0, "the engine alone, 100 s in the middle"
    assert found.ratio is not None
    assert found.ratio <= MOST_RATIO
    assert found.recovery_s < 210.0, "before any node could have been there"


def nodes() -> Nodes:
    """Two replicas run, no slot is kept."""
    plant = Plant((TIER,), Stages(spread=0.0), np.random.default_rng(0))
    return Nodes(plant, Engine(30.0, spread=0.0), None, 2)


def test_a_start_on_a_new_node_takes_all_stages_and_one_on_a_node_that_became_free_the_engine_alone() -> None:
    made = nodes()
    rng = np.random.default_rng(0)
    assert made.start_s(rng) == pytest.approx(593.0 + 30.0)
    made.advance(700.0, 2)
    assert made.start_s(rng) == 30.0, "its node has image and weights for a quarter of an hour"


def test_a_start_that_is_called_off_tells_nothing_and_leaves_a_node_without_image_and_weights() -> None:
    made = nodes()
    rng = np.random.default_rng(0)
    made.start_s(rng)
    made.advance(500.0, 2)
    assert made.foretold() is None
    assert made.start_s(rng) == pytest.approx(593.0 + 30.0), "what was pulled so far is nothing to start on"


def test_the_stage_clock_speaks_of_starts_that_have_ended() -> None:
    made = nodes()
    rng = np.random.default_rng(0)
    for _ in range(5):
        made.start_s(rng)
    made.advance(600.0, 7)
    assert made.foretold() is None
    made.advance(630.0, 7)
    lead = made.foretold()
    assert lead is not None
    assert (lead.warm, lead.whole) == (False, 5)
    assert lead.spread.p90_s == pytest.approx(623.0)
