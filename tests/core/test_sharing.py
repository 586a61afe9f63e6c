"""Who gets the GPUs of a budget: stories with numbers, and the laws that hold for every set of claims."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.scale.rooms import Key
from autoscaler.core.scale.sharing import Budgets, Claim, Cut, Share, share

CRITICAL, NORMAL, SCAVENGER = 0, 1, 2


def claim(workload: str, wanted: int | None, held: int, *, rank: int = NORMAL, **given: object) -> Claim:
    """A claim in the namespace of its name; replicas of one GPU and no floor unless given otherwise."""
    fields = {"gpus_per_replica": 1, "floor": 0} | given
    return Claim(workload, workload.partition("/")[0], rank, wanted=wanted, held=held, **fields)  # type: ignore[arg-type]


STORIES: dict[str, tuple[Sequence[Claim], Budgets, Mapping[str, int]]] = {
    "no budget covers it: no share": ((claim("dev/a", 9, 1),), Budgets(None, {"prod": 5}), {}),
    "there is enough: what is wanted and half as much as room": ((claim("p/a", 6, 2),), Budgets(20), {"p/a": 9}),
    "room ends with the budget": ((claim("p/a", 6, 2),), Budgets(7), {"p/a": 7}),
    "room goes to the more important first": (
        (claim("p/a", 4, 4, rank=CRITICAL), claim("p/b", 4, 4)), Budgets(11), {"p/a": 6, "p/b": 5},
    ),
    "equals share equally": (
        (claim("p/a", 9, 2), claim("p/b", 9, 2)), Budgets(10), {"p/a": 5, "p/b": 5},
    ),
    "one that wants little leaves the rest to the other": (
        (claim("p/a", 3, 2), claim("p/b", 9, 2)), Budgets(10), {"p/a": 3, "p/b": 7},
    ),
    "equal is meant in GPUs": (
        (claim("p/a", 9, 0, gpus_per_replica=4), claim("p/b", 16, 0)), Budgets(20), {"p/a": 2, "p/b": 12},
    ),
    "the last one goes to the first by name": (
        (claim("p/b", 9, 0), claim("p/a", 9, 0), claim("p/c", 9, 0)), Budgets(10), {"p/a": 4, "p/b": 3, "p/c": 3},
    ),
    "the important want comes before the other": (
        (claim("p/a", 9, 2), claim("p/b", 8, 2, rank=CRITICAL)), Budgets(10), {"p/a": 2, "p/b": 8},
    ),
    "a floor comes before the most important want": (
        (claim("p/a", 9, 0, rank=SCAVENGER, floor=3), claim("p/b", 9, 0, rank=CRITICAL)),
        Budgets(10), {"p/a": 3, "p/b": 7},
    ),
    "floors that do not fit are served by importance": (
        (claim("p/a", 9, 0, rank=SCAVENGER, floor=8), claim("p/b", 9, 0, rank=CRITICAL, floor=8)),
        Budgets(10), {"p/a": 2, "p/b": 8},
    ),
    "nothing is free: the holder gives way and nobody grows yet": (
        (claim("p/a", 10, 10, rank=SCAVENGER), claim("p/b", 6, 2, rank=CRITICAL)), Budgets(12), {"p/a": 6, "p/b": 2},
    ),
    "half way there: what came free is granted": (
        (claim("p/a", 10, 8, rank=SCAVENGER), claim("p/b", 6, 2, rank=CRITICAL)), Budgets(12), {"p/a": 6, "p/b": 4},
    ),
    "between equals too the greater holder gives way": (
        (claim("p/a", 10, 10), claim("p/b", 10, 0)), Budgets(10), {"p/a": 5, "p/b": 0},
    ),
    "nobody gives way further than somebody needs": (
        (claim("p/a", 2, 10), claim("p/b", 5, 2)), Budgets(12), {"p/a": 7, "p/b": 2},
    ),
    "who holds more than it wants keeps it while nobody needs it": (
        (claim("p/a", 2, 8), claim("p/b", 2, 2)), Budgets(10), {"p/a": 8, "p/b": 2},
    ),
    "unknown demand keeps what it has, whatever more important work wants": (
        (claim("p/a", None, 6, rank=SCAVENGER), claim("p/b", 9, 2, rank=CRITICAL)), Budgets(8), {"p/a": 6, "p/b": 2},
    ),
    "unknown demand gets no room": ((claim("p/a", None, 6),), Budgets(20), {"p/a": 6}),
    "unknown demand below its floor wants its floor": ((claim("p/a", None, 1, floor=3),), Budgets(20), {"p/a": 3}),
    "beyond the budget unknown demand gives way as a want of what it holds": (
        (claim("p/a", None, 6, rank=SCAVENGER), claim("p/b", 4, 4, rank=CRITICAL)), Budgets(7), {"p/a": 3, "p/b": 4},
    ),
    "a budget below what is held orders it down and lets nobody grow": (
        (claim("p/a", 9, 8), claim("p/b", 9, 4)), Budgets(10), {"p/a": 5, "p/b": 4},
    ),
    "what cannot be taken counts before all else": (
        (claim("p/a", None, 8, gives_way=False), claim("p/b", 6, 6, rank=CRITICAL)), Budgets(10), {"p/a": 8, "p/b": 2},
    ),
    "even beyond the budget": (
        (claim("p/a", None, 12, gives_way=False), claim("p/b", 6, 6)), Budgets(10), {"p/a": 12, "p/b": 0},
    ),
    "a namespace's budget binds its own only": (
        (claim("p/a", 9, 0, rank=CRITICAL), claim("q/a", 9, 0)), Budgets(30, {"p": 4}), {"p/a": 4, "q/a": 13},
    ),
    "the cluster's budget binds all": (
        (claim("p/a", 9, 0, rank=CRITICAL), claim("q/a", 9, 0)), Budgets(12, {"p": 10}), {"p/a": 9, "q/a": 3},
    ),
    "a whole replica waits until all its GPUs are free, and no lesser work takes them meanwhile": (
        (claim("p/a", 2, 1, rank=CRITICAL, gpus_per_replica=8), claim("p/b", 9, 9, rank=SCAVENGER),
         claim("p/c", 5, 0, rank=SCAVENGER)),
        Budgets(20), {"p/a": 1, "p/b": 2, "p/c": 0},
    ),
    "a floor that waits for eight GPUs does not let the less important pass the more important": (
        (claim("p/a", 17, 17, rank=SCAVENGER), claim("p/b", 1, 0, rank=SCAVENGER, floor=1, gpus_per_replica=8),
         claim("p/c", 1, 0, rank=CRITICAL, gpus_per_replica=4), claim("p/d", 3, 0)),
        Budgets(20), {"p/a": 5, "p/b": 0, "p/c": 0, "p/d": 0},
    ),
    "nobody takes what a floor waits for": (
        (claim("p/a", 6, 6, rank=SCAVENGER), claim("p/b", 1, 0, rank=SCAVENGER, floor=1, gpus_per_replica=8),
         claim("p/c", 9, 0, rank=CRITICAL)),
        Budgets(12), {"p/a": 0, "p/b": 0, "p/c": 4},
    ),
    "there is no room above wants while somebody is refused": (
        (claim("p/a", 4, 4, rank=CRITICAL), claim("p/b", 1, 0, rank=SCAVENGER, gpus_per_replica=8)),
        Budgets(7), {"p/a": 4, "p/b": 0},
    ),
    "between equals nothing moves for the last replica": (
        (claim("p/a", 9, 3), claim("p/b", 9, 4)), Budgets(7), {"p/a": 3, "p/b": 4},
    ),
    "a limit that serves stays as it is": (
        (claim("p/a", 4, 4, present=9), claim("p/b", 4, 4, present=4)), Budgets(20), {"p/a": 9, "p/b": 4},
    ),
    "a limit below the want does not": ((claim("p/a", 6, 4, present=4),), Budgets(20), {"p/a": 9}),
    "a limit's room is taken back for somebody's want": (
        (claim("p/a", 4, 4, present=9), claim("p/b", 10, 8, present=8, rank=SCAVENGER)),
        Budgets(15), {"p/a": 5, "p/b": 10},
    ),
    "a budget of nothing": ((claim("p/a", 3, 2, floor=1),), Budgets(0), {"p/a": 0}),
}  # fmt: skip


@pytest.mark.parametrize(("claims", "budgets", "expected"), STORIES.values(), ids=STORIES.keys())
def test_shares(claims: Sequence[Claim], budgets: Budgets, expected: Mapping[str, int]) -> None:
    assert {name: s.limit for name, s in share(claims, budgets).items()} == expected


CUTS: dict[str, tuple[str, Sequence[Claim], Budgets, Cut | None]] = {
    "who gets all it wants is not cut": ("p/a", (claim("p/a", 3, 2),), Budgets(9), None),
    "more important work has it": (
        "p/a",
        (claim("p/a", 9, 2), claim("p/b", 18, 18, rank=CRITICAL), claim("p/c", 4, 2),
         claim("p/d", 5, 0, rank=SCAVENGER)),
        Budgets(100, {"p": 24}),
        Cut("p", 24, ((CRITICAL, 18),), 2, 0, ()),
    ),
    "others must give way first": (
        "p/b",
        (claim("p/a", 10, 10, rank=SCAVENGER), claim("p/b", 6, 2, rank=CRITICAL)),
        Budgets(12),
        Cut(None, 12, (), 1, 4, ("p/a",)),
    ),
    "who gives way is told for whom": (
        "p/a",
        (claim("p/a", 10, 10, rank=SCAVENGER), claim("p/b", 6, 2, rank=CRITICAL)),
        Budgets(12),
        Cut(None, 12, ((CRITICAL, 6),), 1, 4, ("p/a",)),
    ),
    "who waits behind somebody more important": (
        "p/c",
        (claim("p/a", 2, 1, rank=CRITICAL, gpus_per_replica=8), claim("p/b", 9, 9, rank=SCAVENGER),
         claim("p/c", 1, 0, rank=NORMAL)),
        Budgets(20),
        Cut(None, 20, ((CRITICAL, 16),), 1, 6, ("p/b",)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("workload", "claims", "budgets", "cut"), CUTS.values(), ids=CUTS.keys())
def test_a_share_says_which_budget_cuts_it_and_who_has_the_rest(
    workload: str, claims: Sequence[Claim], budgets: Budgets, cut: Cut | None
) -> None:
    assert share(claims, budgets)[workload].cut == cut


NAMES = [f"{namespace}/{letter}" for namespace in ("p", "q") for letter in "abcd"]
GPUS = st.sampled_from([1, 1, 1, 2, 8])


@st.composite
def drawn(draw: st.DrawFn) -> tuple[list[Claim], Budgets]:
    """Up to eight claims in two namespaces, and budgets of any size."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=8))
    small = st.integers(0, 12)
    claims = [
        claim(
            name,
            draw(st.none() | small),
            draw(small),
            rank=draw(st.integers(0, 2)),
            gpus_per_replica=draw(GPUS),
            floor=draw(st.sampled_from([0, 0, 1, 4])),
            present=draw(st.none() | small),
            gives_way=draw(st.sampled_from([True, True, True, False])),
        )
        for name in names
    ]
    budget = st.integers(0, 120)
    namespaces = {name: draw(budget) for name in draw(st.sets(st.sampled_from(["p", "q", "empty"])))}
    return claims, Budgets(draw(st.none() | budget), namespaces)


law = settings(max_examples=150, deadline=None)


def used(claims: Sequence[Claim], counts: Mapping[str, int], budgets: Budgets) -> dict[Key, int]:
    """GPUs under each budget when each workload has its count."""
    return {
        key: sum(c.gpus_per_replica * counts[c.workload] for c in claims if key is None or c.namespace == key)
        for key in budgets.gpus()
    }


def want(c: Claim) -> int:
    return max(c.floor, c.held if c.wanted is None else c.wanted)


@given(drawn())
@law
def test_no_budget_is_exceeded_that_was_not(story: tuple[list[Claim], Budgets]) -> None:
    claims, budgets = story
    shares = share(claims, budgets)
    before = used(claims, {c.workload: c.held for c in claims}, budgets)
    granted = {c.workload: max(c.held, shares[c.workload].limit if c.workload in shares else 0) for c in claims}
    for key, gpus in used(claims, granted, budgets).items():
        assert gpus <= max(budgets.gpus()[key], before[key])


@given(drawn(), st.randoms(use_true_random=False))
@law
def test_the_order_of_claims_means_nothing(story: tuple[list[Claim], Budgets], chance: random.Random) -> None:
    claims, budgets = story
    shuffled = chance.sample(claims, len(claims))
    assert share(shuffled, budgets) == share(claims, budgets)


@given(drawn())
@law
def test_the_more_important_is_not_refused_while_the_less_important_grows(story: tuple[list[Claim], Budgets]) -> None:
    """Had the lesser one not grown beyond its floor, the other could not have had one replica more."""
    claims, budgets = story
    shares = share(claims, budgets)
    cases = [(c, shares[c.workload].limit) for c in claims if c.workload in shares]
    now = used(
        claims,
        {c.workload: max(c.held, shares[c.workload].limit if c.workload in shares else 0) for c in claims},
        budgets,
    )
    for more, limit in cases:
        if limit >= want(more):
            continue
        for less, its_limit in cases:
            grown = its_limit - max(less.held, less.floor)
            if less.rank <= more.rank or grown <= 0:
                continue
            free = {key: budgets.gpus()[key] - gpus for key, gpus in now.items()}
            for key in budgets.over(less.namespace):
                free[key] += grown * less.gpus_per_replica
            assert limit >= more.held or less.namespace != more.namespace, "nobody gives way for the growth of less"
            if limit >= more.held:
                assert any(free[key] < more.gpus_per_replica for key in budgets.over(more.namespace))


@given(drawn())
@law
def test_among_equals_nobody_grows_past_one_that_was_refused(story: tuple[list[Claim], Budgets]) -> None:
    claims, budgets = story
    shares = share(claims, budgets)
    for one in claims:
        for other in claims:
            alike = (one.rank, one.namespace) == (other.rank, other.namespace) and one.workload in shares
            if not alike or one.gpus_per_replica > other.gpus_per_replica:
                continue
            mine, theirs = shares[one.workload].limit, shares[other.workload].limit
            if one.held <= mine < want(one) and theirs > max(other.held, other.floor):
                assert theirs * other.gpus_per_replica <= (mine + 1) * one.gpus_per_replica


@given(drawn())
@law
def test_unknown_demand_does_not_shrink_while_no_budget_over_it_is_exceeded(story: tuple[list[Claim], Budgets]) -> None:
    claims, budgets = story
    shares = share(claims, budgets)
    held = used(claims, {c.workload: c.held for c in claims}, budgets)
    for c in claims:
        if c.wanted is None and all(held[key] <= budgets.gpus()[key] for key in budgets.over(c.namespace)):
            assert c.workload not in shares or shares[c.workload].limit >= c.held


@given(drawn())
@law
def test_what_nobody_may_take_is_not_taken(story: tuple[list[Claim], Budgets]) -> None:
    claims, budgets = story
    for name, given_share in share(claims, budgets).items():
        (c,) = [c for c in claims if c.workload == name]
        assert c.gives_way or given_share.limit >= c.held


@given(drawn())
@law
def test_a_share_is_explained_exactly_when_it_is_less_than_wanted_or_held(story: tuple[list[Claim], Budgets]) -> None:
    claims, budgets = story
    by_name = {c.workload: c for c in claims}
    for name, given_share in share(claims, budgets).items():
        c = by_name[name]
        assert (given_share.cut is not None) == (given_share.limit < max(want(c), c.held))
        if given_share.cut is not None:
            assert given_share.cut.namespace in budgets.over(c.namespace)
            assert all(rank < c.rank for rank, _ in given_share.cut.gpus_by_rank)


@given(drawn())
@law
def test_shared_again_with_the_limits_they_got_nobody_gets_another_limit(story: tuple[list[Claim], Budgets]) -> None:
    claims, budgets = story
    shares = share(claims, budgets)
    again = [replace(c, present=shares[c.workload].limit) if c.workload in shares else c for c in claims]
    assert share(again, budgets) == shares


def moved(claims: Sequence[Claim], shares: Mapping[str, Share]) -> list[Claim]:
    """The claims once everybody went where it wants to be, as far as its share lets it."""
    return [
        replace(c, held=min(shares[c.workload].limit, max(c.held, want(c)))) if c.workload in shares else c
        for c in claims
    ]


@given(drawn())
@law
def test_who_has_gone_where_its_share_let_it_is_not_sent_back(story: tuple[list[Claim], Budgets]) -> None:
    claims, budgets = story
    for _ in range(3):
        shares = share(claims, budgets)
        claims = moved(claims, shares)
    settled = share(claims, budgets)
    assert moved(claims, settled) == claims
    for c in claims:
        assert c.workload not in settled or settled[c.workload].limit >= c.held
