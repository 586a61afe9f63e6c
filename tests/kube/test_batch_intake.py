"""Which gangs are taken in: equal parts for tenants, the first of each, what runs in any case."""

import random
from collections import Counter

import pytest

from autoscaler.adapters.kube.batch_intake import GATHERED, Ask, BatchIntake


def asking(intake: BatchIntake, tenant: str, *names: str, fixed: bool = False, priority: int = 0) -> None:
    """These ask, each made a second after the one before."""
    for at, name in enumerate(names):
        intake.ask(name, Ask(tenant, (-priority, float(at), name), fixed))


def taken(intake: BatchIntake, names: str) -> str:
    """Which of these are taken in once places are settled."""
    intake.settle()
    return "".join(name for name in names if intake.takes(name))


def test_whoever_has_most_gives_up_its_last_ones() -> None:
    full = BatchIntake(6)
    asking(full, "flood", *"abcdef")
    assert taken(full, "abcdef") == "abcdef"
    asking(full, "small", *"xy")
    assert taken(full, "abcdefxy") == "abcdxy"
    assert full.outside == {"flood": 2}


def test_a_tenant_within_an_equal_part_loses_none_however_many_others_bring() -> None:
    full = BatchIntake(9)
    asking(full, "small", *"xyz")
    asking(full, "one", *"abcdefgh")
    asking(full, "two", *"ABCDEFGH")
    assert taken(full, "xyzabcdefghABCDEFGH") == "xyzabcABC"


def test_a_gang_of_higher_priority_goes_before_those_of_its_tenant_and_before_nobody_elses() -> None:
    full = BatchIntake(4)
    asking(full, "one", *"abcd")
    asking(full, "two", *"xy")
    asking(full, "one", "U", priority=9)
    assert taken(full, "Uabcdxy") == "Uaxy"


def test_what_runs_counts_and_is_taken_in_beyond_what_may_be() -> None:
    full = BatchIntake(3)
    asking(full, "one", *"RSTU", fixed=True)
    asking(full, "one", *"ab")
    asking(full, "two", *"xy")
    assert taken(full, "RSTUabxy") == "RSTU"
    for name in "TU":
        full.leave(name)
    assert taken(full, "RSabxy") == "RSx", "the other tenant's first: two run that are the one's"


def test_who_leaves_makes_room_for_the_next_of_who_has_fewest() -> None:
    full = BatchIntake(4)
    asking(full, "one", *"abcd")
    asking(full, "two", *"xyz")
    assert taken(full, "abcdxyz") == "abxy"
    full.leave("a")
    full.leave("x")
    assert full.settle() == ([], ["c", "z"])
    assert taken(full, "bcdyz") == "bcyz"


def test_places_follow_from_who_asks_and_not_from_who_was_heard_of_first() -> None:
    rng = random.Random(7)
    every = [
        (f"{tenant}{at}", Ask(tenant, (-rng.choice((0, 0, 5)), float(at // 2), f"{tenant}{at}"), rng.random() < 0.05))
        for tenant, many in {"a": 900, "b": 40, "c": 400, "d": 3}.items()
        for at in range(many)
    ]
    found = []
    for seed in range(5):
        random.Random(seed).shuffle(every)
        intake = BatchIntake(700)
        for name, ask in every:
            intake.ask(name, ask)
            if intake.unsettled >= GATHERED:
                intake.settle()
        intake.settle()
        found.append({name for name, _ in every if intake.takes(name)})
    assert all(each == found[0] for each in found)
    assert Counter(name[0] for name in found[0]) == {"a": 329, "b": 40, "c": 328, "d": 3}


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_places_are_those_of_a_count_made_anew(seed: int) -> None:
    """What places have to be, told without saying how they are found."""
    rng = random.Random(seed)
    intake, asks, inside = BatchIntake(12), dict[str, Ask](), set[str]()
    for _ in range(400):
        name = f"g{rng.randrange(40)}"
        if rng.random() < 0.3:
            intake.leave(name)
            asks.pop(name, None)
            inside.discard(name)
        else:
            asks[name] = Ask(rng.choice("abcd"), (-rng.randrange(2), float(rng.randrange(9)), name), rng.random() < 0.2)
            intake.ask(name, asks[name])
        if rng.random() < 0.5:
            intake.settle()
            mine = {name for name in asks if intake.takes(name)}
            assert len(mine) == min(len(asks), max(12, sum(ask.is_fixed for ask in asks.values())))
            counts = Counter(ask.tenant for name, ask in asks.items() if name in mine)
            for name, ask in asks.items():
                others = [other for other in mine if asks[other].tenant == ask.tenant and not asks[other].is_fixed]
                if name in mine:
                    continue
                assert not ask.is_fixed
                assert all(asks[other].turn < ask.turn for other in others)
                free = {
                    tenant for tenant in "abcd" if any(not asks[o].is_fixed for o in mine if asks[o].tenant == tenant)
                }
                assert all(counts[ask.tenant] >= counts[tenant] - 1 for tenant in free), "nobody has two more"


def test_when_all_ask_otherwise_at_once_places_are_those_of_who_asks_so_from_the_beginning() -> None:
    rng = random.Random(3)
    names = [f"g{at}" for at in range(300)]
    intake, anew = BatchIntake(90), BatchIntake(90)
    for name in names:
        intake.ask(name, Ask("all", (0, float(rng.randrange(50)), name), rng.random() < 0.1))
    intake.settle()
    before = {name for name in names if intake.takes(name)}
    asks = {n: Ask(rng.choice("abc"), (-rng.randrange(3), float(rng.randrange(50)), n), n < "g13") for n in names[20:]}
    out, back = intake.renew(asks)
    for name, ask in asks.items():
        anew.ask(name, ask)
    anew.settle()
    after = {name for name in asks if anew.takes(name)}
    assert {name for name in names if intake.takes(name)} == after
    assert (set(out), set(back)) == ((before - after) & asks.keys(), after - before)
    assert len(out) > 10 < len(back), "many change places"
    assert dict(intake.outside) == dict(anew.outside)
    for name in list(asks):
        intake.leave(name)
    assert (intake.settle(), dict(intake.outside)) == (([], []), {})
