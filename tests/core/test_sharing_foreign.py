"""GPUs that pods of nobody's claim hold: no budget grows into them, and nobody who serves gives way to them."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.scale.sharing import Budgets, Claim, share
from tests.core.test_sharing import CRITICAL, SCAVENGER, claim, drawn, law, used, want

STORIES: dict[str, tuple[Sequence[Claim], Budgets, Mapping[str, int]]] = {
    "what strangers hold of a namespace is not there to grow into": (
        (claim("p/a", 9, 2),), Budgets(None, {"p": 10}, {"p": 4}), {"p/a": 6},
    ),
    "strangers anywhere count for the cluster": (
        (claim("p/a", 9, 2),), Budgets(10, {}, {"q": 3, "r": 1}), {"p/a": 6},
    ),
    "strangers elsewhere are nothing to a namespace": (
        (claim("p/a", 9, 2),), Budgets(None, {"p": 10}, {"q": 4}), {"p/a": 10},
    ),
    "strangers that came later take no replica that serves": (
        (claim("p/a", 8, 8),), Budgets(10, {}, {"q": 7}), {"p/a": 8},
    ),
    "what is given up by itself is left to them": (
        (claim("p/a", 4, 7),), Budgets(10, {}, {"q": 7}), {"p/a": 7},
    ),
    "the important grows into what lesser work gives up, not into theirs": (
        (claim("p/a", 6, 3, rank=CRITICAL), claim("p/b", 3, 3, rank=SCAVENGER)),
        Budgets(10, {}, {"q": 4}), {"p/a": 3, "p/b": 0},
    ),
    "a budget that is exceeded without them is an order, as ever": (
        (claim("p/a", 12, 12),), Budgets(10, {}, {"q": 4}), {"p/a": 10},
    ),
    "strangers that hold all of it leave nothing to begin with": (
        (claim("p/a", 3, 0, floor=1),), Budgets(10, {}, {"q": 40}), {"p/a": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("claims", "budgets", "expected"), STORIES.values(), ids=STORIES.keys())
def test_shares_beside_strangers(claims: Sequence[Claim], budgets: Budgets, expected: Mapping[str, int]) -> None:
    shares = share(claims, budgets)
    assert {name: s.limit for name, s in shares.items()} == expected
    for one in claims:
        cut = shares[one.workload].cut
        assert cut is None or cut.foreign_gpus == budgets.foreign(cut.namespace)


@given(drawn(), st.dictionaries(st.sampled_from("pq"), st.integers(0, 20)))
@law
def test_no_budget_grows_into_what_strangers_hold(story: tuple[list[Claim], Budgets], foreign: dict[str, int]) -> None:
    claims, budgets = story
    beside = Budgets(budgets.cluster_gpus, budgets.namespace_gpus, foreign)
    shares = share(claims, beside)
    before = used(claims, {c.workload: c.held for c in claims}, budgets)
    granted = {c.workload: max(c.held, shares[c.workload].limit if c.workload in shares else 0) for c in claims}
    for key, gpus in used(claims, granted, budgets).items():
        assert gpus + beside.foreign(key) <= max(budgets.gpus()[key], before[key] + beside.foreign(key))


@given(drawn(), st.dictionaries(st.sampled_from("pq"), st.integers(0, 20)))
@law
def test_where_nobody_wants_to_grow_strangers_take_nothing_that_the_budget_has(
    story: tuple[list[Claim], Budgets], foreign: dict[str, int]
) -> None:
    claims, budgets = story
    shares = share(claims, Budgets(budgets.cluster_gpus, budgets.namespace_gpus, foreign))
    held = used(claims, {c.workload: c.held for c in claims}, budgets)
    if all(want(c) <= c.held for c in claims) and all(held[key] <= gpus for key, gpus in budgets.gpus().items()):
        assert all(shares[c.workload].limit >= c.held for c in claims if c.workload in shares)
