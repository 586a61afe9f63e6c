"""Packing: the bound is the optimum where one is known, and no packing beats it."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.errors import InputError
from autoscaler.sim.batch.packed import ours
from autoscaler.sim.batch.packing import Instance, Packed, best_fit, bound, drawn

law = settings(max_examples=15, deadline=None)


@pytest.mark.parametrize(
    ("free", "gangs", "most"),
    [
        pytest.param(((8, 8),), [Packed("a", 2, 8, 1, True)], 16.0, id="all of it"),
        pytest.param(((4, 4),), [Packed("a", 1, 8, 1, False)], 0.0, id="pieces are no slot"),
        pytest.param(((8,), (8,)), [Packed("a", 2, 8, 1, True)], 0.0, id="no rack holds it whole"),
        pytest.param(((8,), (8,)), [Packed("a", 2, 8, 1, False)], 16.0, id="both racks together do"),
        pytest.param(((8,),), [Packed("a", 1, 8, 1, True), Packed("b", 2, 4, 3, True)], 24.0, id="the worthier one"),
        pytest.param(((8,),), [], 0.0, id="nobody"),
    ],
)
def test_the_bound_by_hand(free, gangs, most):
    assert bound(Instance(free, tuple(gangs))) == pytest.approx(most)


@given(seed=st.integers(0, 10_000))
@law
def test_law_no_packing_of_a_small_instance_beats_the_bound(seed):
    instance = drawn(1, seed, per_rack=2, gangs_each=6)
    rigid = Instance(instance.free, tuple(each for each in instance.gangs if each.pods <= 4))
    best = max(
        rigid.worth(frozenset(gang.name for gang in chosen))
        for count in range(len(rigid.gangs) + 1)
        for chosen in itertools.combinations(rigid.gangs, count)
        if all(
            sum(gang.pods * (gang.gpus // size) for gang in chosen if gang.gpus >= size)
            <= sum(free // size for free in rigid.free[0])
            for size in (1, 2, 4, 8)
        )
    )
    assert best <= bound(rigid) + 1e-6
    assert rigid.worth(best_fit(rigid)) <= best


def test_more_is_asked_for_than_is_free_and_greedy_comes_close():
    instance = drawn(4, seed=1)
    assert sum(gang.pods * gang.gpus for gang in instance.gangs) > sum(map(sum, instance.free))
    ratio = instance.worth(best_fit(instance)) / bound(instance)
    assert 0.9 < ratio <= 1.0
    with pytest.raises(InputError, match="0 racks"):
        drawn(0, seed=1)


@given(seed=st.integers(0, 10_000))
@law
def test_law_our_packing_is_within_the_bound_and_near_it(seed):
    instance = drawn(4, seed)
    worth = instance.worth(ours(instance))
    most = bound(instance)
    assert worth <= most + 1e-6
    assert worth >= 0.85 * most
