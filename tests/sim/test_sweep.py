import numpy as np
import pytest

from autoscaler.errors import InputError
from autoscaler.sim.bounds import MISS_RATIO, reference
from autoscaler.sim.rivals import RIVALS
from autoscaler.sim.score import GpuHours, Score, Settled
from autoscaler.sim.sweep import GOAL, Frontier, Point, sweep
from autoscaler.sim.traffic import Traffic
from tests.sim.scenes import make_spec, make_traffic


def point(hours: float, attained: float, *, settled: tuple[float, float] = (0.0, 0.0)) -> Point:
    view = Settled(settled[1], GpuHours(settled[0], 0.0, 0.0), None, 0.0)
    whole = GpuHours(hours, 0.0, 0.0)
    return Point((hours,), Score("r", attained, whole, None, None, 0.0, 0.0, None, None, 0, view))


def frontier(*points: Point) -> Frontier:
    return Frontier("r", points)


@pytest.mark.parametrize(
    ("points", "hours"),
    [
        ([(10, 0.98), (20, 1.0)], 15.0),
        ([(10, 0.98), (12, 0.95), (20, 1.0)], 15.0),  # a dearer and worse run is not on the frontier
        ([(20, 1.0), (10, 0.98), (14, 0.985), (30, 1.0)], 16.0),
        ([(10, 0.99), (20, 1.0)], 10.0),
        ([(10, 0.995), (20, 1.0)], 10.0),  # nothing below the goal to interpolate from
        ([(10, 0.98), (20, 0.985)], None),
        ([], None),
    ],
)
def test_the_cost_at_the_goal_lies_on_the_frontier(points: list[tuple[float, float]], hours: float | None):
    assert frontier(*(point(cost, attained) for cost, attained in points)).hours_at() == pytest.approx(hours)


def test_the_cheapest_run_is_one_that_reaches_the_goal():
    runs = frontier(point(10, 0.98), point(20, 0.999), point(18, 0.99))
    assert runs.cheapest() == runs.points[2]
    assert runs.cheapest(0.9999) is None


def test_the_settled_view_has_its_own_frontier():
    runs = frontier(point(10, 0.5, settled=(8, 0.98)), point(20, 0.6, settled=(16, 1.0)))
    assert runs.hours_at() is None
    assert runs.hours_at(settled=True) == pytest.approx(12.0)


def waves(seed: int, *, step_s: float = 1.0) -> Traffic:
    """Forty minutes of a noisy wave with two bursts."""
    rng = np.random.default_rng(seed)
    at_s = np.arange(0, 2400, step_s)
    level = 60 + 40 * np.sin(at_s / 400) + np.where((at_s > 900) & (at_s < 1000), 80, 0) + np.where(at_s > 2000, 50, 0)
    return make_traffic(rng.poisson(level * step_s).astype(float).tolist(), step_s=step_s)


@pytest.mark.parametrize(("warmup_s", "step_s"), [(30.0, 1.0), pytest.param(95.0, 2.0, marks=pytest.mark.slow)])
def test_no_rival_that_reaches_the_goal_beats_the_bound(warmup_s: float, step_s: float):
    traffic, spec = waves(7, step_s=step_s), make_spec(warmup_s=warmup_s)
    bound_s = reference(traffic, spec, MISS_RATIO).d2_s
    assert bound_s is not None
    reached = 0
    for rival in sweep(traffic, spec, tuple(RIVALS)):
        for tried in rival.points:
            if tried.score.attainment >= GOAL:
                reached += 1
                assert tried.score.gpu_hours.total * 3600.0 >= bound_s * (1 - 1e-6), (rival.rival, tried.knob)
    assert reached > 20


def test_the_sweep_covers_every_knob_in_order_and_tells_its_progress():
    told: list[tuple[int, int]] = []
    done = sweep(make_traffic([30.0] * 120), make_spec(), ("llm-d",), progress=lambda at, of: told.append((at, of)))
    assert [tried.knob for tried in done[0].points] == list(RIVALS["llm-d"].KNOBS)
    assert told[-1] == (len(RIVALS["llm-d"].KNOBS),) * 2


@pytest.mark.slow
def test_two_processes_give_the_same_frontiers():
    traffic, spec = waves(3), make_spec()
    assert sweep(traffic, spec, ("hpa", "perfect"), processes=2) == sweep(traffic, spec, ("hpa", "perfect"))


def test_an_unknown_rival_is_refused_before_anything_runs():
    with pytest.raises(InputError, match="vpa"):
        sweep(make_traffic([30.0] * 120), make_spec(), ("hpa", "vpa"))
