"""A memory put into another row, which then goes on exactly as the first one does."""

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from autoscaler.core import engine
from autoscaler.core.params import Params
from autoscaler.core.recall import Memory, check, completed, recall, remember
from autoscaler.core.state import Table
from autoscaler.core.types import Readings
from autoscaler.record.audit import audit_line
from autoscaler.sim.headroom import WORKLOAD, HeadroomPolicy
from autoscaler.sim.plant import Plant, PlantSpec
from autoscaler.sim.traffic import Traffic
from autoscaler.sim.warmup import Warmup

PARAMS = Params(max_replicas=40, warmup_prior_s=60.0)

FIRST_COLUMNS = 83


def burst() -> Plant:
    """Four requests/s that become twelve after ten minutes; replicas of two requests/s."""
    rates = np.where(np.arange(1200) < 600, 4.0, 12.0)
    counts = np.random.default_rng(3).poisson(rates).astype(np.float64)
    return Plant(PlantSpec(2.0, Warmup(60.0)), Traffic("burst", 1.0, counts, "test"))


AT_S = {"afresh": 0, "one step": 5, "calm": 300, "in a burst": 615, "starts": 640}


@cache
def decided() -> tuple[list[tuple[Readings, bytes]], dict[float, Memory]]:
    """What was read and decided every five seconds of the burst, and what was remembered just before."""
    plant, policy = burst(), HeadroomPolicy(PARAMS)
    told = list[tuple[Readings, bytes]]()
    kept = dict[float, Memory]()
    while not plant.done:
        if plant.now_s % 5 == 0:
            if plant.now_s in AT_S.values():
                kept[plant.now_s] = remember(policy.table, WORKLOAD)
            seen = plant.readings(plant.now_s)
            plant.order(policy.decide(seen))
            assert policy.last is not None
            told.append((seen, audit_line(policy.last)))
        plant.advance()
    return told, kept


@pytest.mark.parametrize("at_s", AT_S.values(), ids=AT_S)
def test_a_row_that_was_given_a_memory_decides_as_the_one_it_is_of(at_s: int) -> None:
    told, kept = decided()
    other = Table.empty()
    other.put("prod/neighbour", Params())
    other.put(WORKLOAD, PARAMS)
    recall(other, WORKLOAD, kept[at_s])
    compared = 0
    for seen, line in told[at_s // 5 :]:
        (again,) = engine.step(other, [(WORKLOAD, seen)]).decisions
        assert audit_line(again) == line
        compared += 1
    assert compared == (1200 - at_s) // 5


def test_a_memory_is_a_copy_that_later_steps_do_not_change() -> None:
    plant, policy = burst(), HeadroomPolicy(PARAMS)
    policy.decide(plant.readings(0.0))
    kept = remember(policy.table, WORKLOAD)
    before = dict(kept.columns), dict(kept.pods.pods), kept.seen_s
    for _ in range(30):
        plant.advance()
    policy.decide(plant.readings(30.0))
    assert (kept.columns, kept.pods.pods, kept.seen_s) == before
    assert remember(policy.table, WORKLOAD).columns != kept.columns


def without(kept: Memory) -> Memory:
    return replace(kept, columns={name: held for name, held in kept.columns.items() if name != "history.count"})


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (without, "history.count: missing"),
        (lambda kept: replace(kept, columns=kept.columns | {"history.count": b"1234"}), "history.count: 4 bytes"),
        (lambda kept: replace(kept, columns=kept.columns | {"history.mood": b""}), "history.mood: 0 bytes"),
    ],
    ids=["a column of later", "a shorter history", "a column of once"],
)
def test_the_memory_of_another_build_is_refused_and_nothing_is_changed(broken, words: str) -> None:
    table = Table.empty()
    table.put(WORKLOAD, PARAMS)
    before = remember(table, WORKLOAD)
    with pytest.raises(ValueError, match=words):
        recall(table, WORKLOAD, broken(before))
    assert remember(table, WORKLOAD).columns == before.columns
    check(table, before)


def test_a_column_that_comes_is_declared_to_be_later_or_no_memory_of_before_is_read() -> None:
    """So many had a place in the first memories: a replay of an older build's audit begins with these."""
    groups = {key: group for key, group in Table.empty().groups().items() if key != "policy"}
    first = [spec.name for group in groups.values() for spec in fields(group) if not spec.metadata["later"]]
    assert len(first) == FIRST_COLUMNS, "declare a new column `later=True`"


def test_the_memory_of_a_build_before_a_later_column_is_used_as_if_it_held_its_fill() -> None:
    table = Table.empty()
    table.put(WORKLOAD, PARAMS)
    whole = remember(table, WORKLOAD)
    older = replace(whole, columns={name: held for name, held in whole.columns.items() if name != "bounds.pauses"})
    with pytest.raises(ValueError, match=r"bounds\.pauses: missing"):
        check(table, older)
    assert completed(table, older).columns == whole.columns
    assert completed(table, whole) is whole
    with pytest.raises(ValueError, match=r"history\.count: missing"):
        check(table, completed(table, without(older)))
