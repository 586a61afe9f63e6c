import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.types import validate
from autoscaler.errors import InputError
from autoscaler.sim.plant import Plant, opening_replicas
from autoscaler.sim.warmup import Stage, Warmup
from tests.sim.scenes import make_spec, make_traffic


def plant_of(steps: int = 600, *, rate_rps: float = 25.0, **spec: object) -> Plant:
    return Plant(make_spec(**spec), make_traffic([rate_rps] * steps))  # type: ignore[arg-type]


def move(plant: Plant, steps: int) -> None:
    for _ in range(steps):
        plant.advance()


def counts(plant: Plant) -> tuple[int, int, int]:
    replicas = plant.readings(plant.now_s).replicas
    return replicas.desired, replicas.ready, len(replicas.starting)


def test_it_opens_with_what_the_first_minute_needs_and_bills_no_warm_up_for_it():
    plant = plant_of()
    assert counts(plant) == (3, 3, 0)
    move(plant, 600)
    assert plant.timeline().warming.sum() == 0
    assert plant.timeline().starts == 0


@pytest.mark.parametrize(("rate_rps", "count"), [(0.0, 1), (10.0, 1), (10.1, 2), (1e6, 1000)])
def test_the_opening_count_is_at_least_one_and_at_most_the_maximum(rate_rps: float, count: int):
    assert opening_replicas(make_traffic([rate_rps] * 60), make_spec()) == count


def test_a_start_is_billed_from_its_order_and_serves_one_warm_up_later():
    plant = plant_of(warmup_s=60.0)
    move(plant, 10)
    plant.order(5)
    assert counts(plant) == (5, 3, 2)
    move(plant, 59)
    assert counts(plant) == (5, 3, 2)
    move(plant, 1)
    assert counts(plant) == (5, 5, 0)
    assert plant.timeline().warming.sum() == 2 * 60


def test_scaling_in_cancels_the_youngest_starts_first_and_then_the_youngest_ready():
    plant = plant_of()
    plant.order(4)
    move(plant, 1)
    plant.order(6)
    plant.order(4)
    starting = plant.readings(1.0).replicas.starting
    assert [start.since_s for start in starting] == [0.0]
    move(plant, 60)
    plant.order(3)
    pods = plant.readings(plant.now_s).pods
    assert pods is not None
    assert [pod.ready_since_s for pod in pods] == [0.0, 0.0, 0.0]


def test_a_scaled_in_replica_stays_billed_while_it_drains():
    plant = plant_of(drain_s=5.0)
    plant.order(2)
    move(plant, 10)
    assert plant.timeline().draining.tolist() == [1] * 5 + [0] * 5
    assert plant.timeline().ready.tolist() == [2] * 10


def test_desired_is_clipped_to_the_maximum_and_to_zero():
    plant = plant_of(max_replicas=4)
    plant.order(9)
    assert counts(plant) == (4, 3, 1)
    plant.order(-3)
    assert counts(plant) == (0, 0, 0)


def test_a_lost_node_is_replaced_while_the_desired_count_asks_for_it():
    plant = plant_of(drains=((30.0, 2),))
    move(plant, 30)
    assert counts(plant) == (3, 1, 2)
    move(plant, 60)
    assert counts(plant) == (3, 3, 0)


def test_a_failed_start_is_billed_until_it_fails_and_then_replaced():
    plant = plant_of(2000, failed_start_ratio=0.5, seed=3)
    plant.order(13)
    move(plant, 2000)
    timeline = plant.timeline()
    assert timeline.starts > 10
    assert counts(plant) == (13, 13, 0)
    assert timeline.warming.sum() > 10 * 60
    assert (timeline.ready + timeline.starting == 13).all()


def test_a_failed_start_is_not_replaced_once_it_is_no_longer_wanted():
    plant = plant_of(failed_start_ratio=0.9, seed=1)
    plant.order(4)
    plant.order(3)
    move(plant, 300)
    assert plant.timeline().starts == 1


def test_starts_without_a_node_are_flagged_cost_nothing_and_warm_up_after_the_span():
    plant = plant_of(unschedulable=((0.0, 100.0),))
    plant.order(5)
    assert [start.unschedulable for start in plant.readings(0.0).replicas.starting] == [True, True]
    move(plant, 100)
    assert counts(plant) == (5, 3, 2)
    assert not any(start.unschedulable for start in plant.readings(100.0).replicas.starting)
    assert plant.readings(100.0).replicas.starting[0].since_s == 0.0
    move(plant, 60)
    assert counts(plant) == (5, 5, 0)
    assert plant.timeline().warming.sum() == 2 * 60


def test_an_outage_hides_the_metrics_and_not_the_replicas():
    plant = plant_of(outages=((5.0, 6.0),))
    move(plant, 5)
    dark = plant.readings(5.0)
    assert (dark.pods, dark.gateway, dark.latency) == (None, None, None)
    assert dark.replicas.ready == 3
    move(plant, 1)
    assert plant.readings(6.0).pods is not None


def test_stages_follow_the_shares_of_the_warm_up():
    plant = plant_of(warmup_s=100.0)
    plant.order(4)
    seen = []
    for _ in range(100):
        seen.append(plant.stages()[0][1])
        plant.advance()
    assert [seen.count(stage) for stage in Stage] == [40, 25, 25, 10]
    assert plant.stages() == ()


def test_lognormal_warm_ups_have_the_stated_percentiles_and_depend_on_the_seed_alone():
    warmup = Warmup(120.0, 300.0)
    drawn = [warmup.draw(np.random.default_rng((1, n))) for n in range(4000)]
    assert np.median(drawn) == pytest.approx(120.0, rel=0.05)
    assert np.percentile(drawn, 90) == pytest.approx(300.0, rel=0.08)
    assert np.mean(drawn) == pytest.approx(warmup.mean_s, rel=0.05)
    assert drawn[:5] == [warmup.draw(np.random.default_rng((1, n))) for n in range(5)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("capacity_rps", 0.0),
        ("capacity_rps", float("nan")),
        ("slo_wait_s", -1.0),
        ("service_s", float("inf")),
        ("max_replicas", 0),
        ("drain_s", -1.0),
        ("failed_start_ratio", 1.0),
        ("drains", ((-1.0, 1),)),
        ("unschedulable", ((5.0, 5.0),)),
        ("outages", ((9.0, 3.0),)),
    ],
)
def test_a_figure_that_cannot_be_used_is_refused_by_name(field: str, value: object):
    with pytest.raises(InputError, match=field):
        make_spec(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [(-1.0, None), (float("nan"), None), (60.0, 30.0), (0.0, 10.0)])
def test_a_warm_up_that_cannot_be_is_refused(bad: tuple[float, float | None]):
    with pytest.raises(InputError, match="warm-up"):
        Warmup(*bad)


def test_bins_that_hide_a_queue_are_refused():
    with pytest.raises(InputError, match=r"bins of 5\.0 s"):
        Plant(make_spec(), make_traffic([1.0], step_s=5.0))


@settings(max_examples=60, deadline=None)
@given(orders=st.lists(st.integers(0, 12), min_size=1, max_size=40), seed=st.integers(0, 5))
def test_laws_of_the_plant(orders: list[int], seed: int):
    plant = plant_of(
        10 * len(orders), warmup_s=17.0, failed_start_ratio=0.3, seed=seed,
        drains=((50.0, 2),), unschedulable=((90.0, 140.0),), drain_s=3.0,
    )  # fmt: skip
    totals: dict[str, float] = {}
    for want in orders:
        plant.order(want)
        for _ in range(10):
            readings = plant.readings(plant.now_s)
            validate(readings)
            assert readings.replicas.ready + len(readings.replicas.starting) == want
            for pod in readings.pods or ():
                assert pod.requests_total is not None
                assert pod.requests_total >= totals.get(pod.name, 0.0)
                totals[pod.name] = pod.requests_total
            plant.advance()
    timeline = plant.timeline()
    assert (timeline.busy <= timeline.ready * timeline.step_s + 1e-9).all()
    assert (timeline.warming >= 0).all()
    assert (timeline.warming <= timeline.starting).all()
    arrived = 25.0 * timeline.ready.size
    assert timeline.busy.sum() * 10.0 + timeline.waiting[-1] == pytest.approx(arrived)
