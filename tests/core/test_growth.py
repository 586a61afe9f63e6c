"""The table: it grows, forgets what is removed, and gives a freed row to a newcomer as if it were new."""

import numpy as np
import pytest

from autoscaler.core import engine
from autoscaler.core.forecast import features
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.params import Params, Slo
from autoscaler.core.state import Table
from autoscaler.core.types import Decision
from autoscaler.fitting import fit
from tests.core.toy import Toy

PARAMS = Params(warmup_prior_s=60.0, tick_s=10.0)


def told(table: Table, toys: dict[str, Toy], ticks: int) -> list[Decision]:
    """Step all toys together and return the last decisions."""
    for _ in range(ticks):
        result = engine.step(table, [(name, toy.readings()) for name, toy in toys.items()])
        for decision in result.decisions:
            toys[decision.workload].order(decision.replicas)
        for toy in toys.values():
            toy.advance(10.0)
    return list(result.decisions)


def test_a_table_grows_and_every_row_keeps_what_it_learned() -> None:
    small, large = Table.empty(1), Table.empty(64)
    for table in (small, large):
        table.put("w0", PARAMS)
    first = [{"w0": Toy.of(2, 3.0, queue=30.0)} for _ in range(2)]
    for table, toys in zip((small, large), first, strict=True):
        told(table, toys, 20)
    before = small.forecaster.out.upper_rps[0]
    for table, toys in zip((small, large), first, strict=True):
        for i in range(1, 40):
            table.put(f"w{i}", PARAMS)
            toys[f"w{i}"] = Toy.of(2, 3.0 + i, queue=30.0, now_s=200.0)
    assert small.capacity >= 40
    assert len(small.rows) == len(set(small.rows.values())) == 40
    assert small.forecaster.out.upper_rps[0] == before
    assert repr(told(small, first[0], 10)) == repr(told(large, first[1], 10))


def test_a_removed_workload_is_unknown() -> None:
    table = Table.empty(2)
    table.put("gone", PARAMS)
    table.remove("gone")
    with pytest.raises(KeyError):
        engine.step(table, [("gone", Toy.of(1, 1.0).readings())])
    with pytest.raises(KeyError):
        table.remove("gone")
    with pytest.raises(KeyError):
        table.track(0)


def test_a_freed_row_is_used_again_and_remembers_nothing() -> None:
    table, fresh = Table.empty(2), Table.empty(2)
    table.put("old", PARAMS)
    table.put("neighbour", PARAMS)
    told(table, {"old": Toy.of(3, 40.0, queue=900.0), "neighbour": Toy.of(2, 3.0)}, 60)
    row = table.rows["old"]
    table.remove("old")
    assert table.put("new", PARAMS) == row
    fresh.put("new", PARAMS)
    assert repr(told(table, {"new": Toy.of(2, 3.0)}, 40)) == repr(told(fresh, {"new": Toy.of(2, 3.0)}, 40))


def test_a_freed_row_does_not_forecast_with_the_model_of_its_former_owner() -> None:
    table = Table.empty(1)
    table.put("old", PARAMS)
    x = np.random.default_rng(1).gamma(2.0, 0.5, (200, len(features.NAMES)))
    engine.install(table, "old", fit.fit(FitRequest("old", 6, x, x[:, 0].copy(), 0.0)))
    told(table, {"old": Toy.of(2, 3.0)}, 1)
    assert table.fitted, "it is in force"
    table.remove("old")
    table.put("new", PARAMS)
    told(table, {"new": Toy.of(2, 3.0)}, 1)
    assert not table.fitted


def test_every_column_of_a_removed_row_has_its_fill_value_again() -> None:
    table, empty = Table.empty(1), Table.empty(1)
    table.put("old", PARAMS)
    told(table, {"old": Toy.of(3, 40.0, queue=900.0)}, 60)
    table.remove("old")
    for name, group in table.groups().items():
        for column in group.__dataclass_fields__:
            used, unused = (getattr(groups[name], column) for groups in (table.groups(), empty.groups()))
            assert np.array_equal(used, unused, equal_nan=used.dtype.kind == "f"), f"{name}.{column}"


def test_changed_parameters_take_effect_and_forget_nothing() -> None:
    table = Table.empty(1)
    table.put("w", PARAMS)
    toys = {"w": Toy.of(6, 11.0, queue=60.0)}
    told(table, toys, 60)
    learned = table.forecaster.out.upper_rps[0]
    table.put("w", Params(warmup_prior_s=60.0, tick_s=10.0, max_replicas=5, slo=Slo(ttft_s=4.0)))
    assert table.forecaster.out.upper_rps[0] == learned
    assert told(table, toys, 30)[0].replicas == 5


def test_an_empty_batch_is_an_empty_answer() -> None:
    assert engine.step(Table.empty(1), []) == engine.StepResult((), ())
