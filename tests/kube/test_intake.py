"""Who is taken up where more ask than may be: by arrival, by age, after a restart, and when somebody goes."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.kube.intake import Intake, Most

Step = tuple[str, str, int]


def intake(of_namespace: int = 2, in_all: int = 3, **ages_s: float) -> Intake:
    """One that was asked for ``prod/NAME`` by objects of these ages, in this order."""
    made = Intake(Most(of_namespace, in_all))
    for name, age_s in ages_s.items():
        made.ask(f"prod/{name}", (age_s, name))
    return made


def taken(of: Intake, *names: str) -> str:
    """Those of `names` that are taken up, in `prod` where nothing else is said."""
    return " ".join(name for name in names if of.takes(name if "/" in name else f"prod/{name}"))


def test_whoever_has_a_place_keeps_it_when_an_older_one_comes() -> None:
    full = intake(young=90.0, middle=50.0, oldest=1.0)
    assert taken(full, "young", "middle", "oldest") == "young middle"
    assert (full.taken, full.waiting) == (2, 1)


def test_the_place_of_one_that_goes_is_the_oldests_that_waits_then_by_uid() -> None:
    full = intake(a=1.0, b=2.0, y=40.0, z=30.0, x=30.0)
    assert full.leave("prod/a") == "prod/x"
    assert full.leave("prod/y") is None, "it had none"
    assert full.leave("prod/b") == "prod/z"
    assert full.leave("prod/never") is None


def test_a_namespace_that_is_full_keeps_no_other_from_the_places_that_are_left() -> None:
    full = intake(a=1.0, b=2.0, c=3.0)
    full.ask("test/d", (99.0, "d"))
    full.ask("test/e", (4.0, "e"))
    assert taken(full, "a", "b", "c", "test/d", "test/e") == "a b test/d", "three in all, and two of one namespace"
    assert full.leave("test/d") == "test/e", "the older c may not: its namespace has two"
    assert full.leave("prod/a") == "prod/c"


def test_whoever_begins_to_lead_takes_up_what_was_decided_on_before_then_the_oldest() -> None:
    listed = intake(young=90.0, late=80.0, old=2.0, served=70.0)
    assert taken(listed, "young", "late", "old", "served") == "young late", "lists come in no order of age"
    assert set(listed.settle({"prod/served"})) == {"prod/young", "prod/late", "prod/old", "prod/served"}
    assert taken(listed, "young", "late", "old", "served") == "old served"
    assert listed.settle({"prod/served"}) == [], "nothing is another's by that"
    assert listed.leave("prod/old") == "prod/late"


def test_places_of_those_who_cannot_be_heard_are_nobody_elses_until_they_can() -> None:
    """Of three places two were theirs: one asks once its list is read, the other is gone."""
    listed = intake(3, 3, here=50.0, older=10.0)
    listed.keep(["prod/unheard", "prod/gone", "prod/here"])
    assert (listed.keeps, listed.taken) == (2, 2), "who asks needs no place kept"
    assert set(listed.settle({"prod/unheard", "prod/gone", "prod/here"})) == set(), "nobody waits yet"
    listed.leave("prod/older")
    listed.ask("prod/oldest", (1.0, "oldest"))
    listed.ask("test/other", (2.0, "other"))
    assert taken(listed, "here", "oldest", "test/other") == "here", "of three places two are kept"
    listed.ask("prod/unheard", (99.0, "unheard"))
    assert taken(listed, "here", "unheard", "oldest") == "here unheard", "it has its own"
    assert listed.release() == ["prod/oldest"], "the other one does not come back"
    assert (listed.keeps, listed.taken, listed.waiting) == (0, 3, 1)


def test_of_those_who_had_a_place_the_checkpoints_go_before_the_marks_on_objects() -> None:
    listed = intake(ancient=1.0, marked=30.0, kept=60.0, older=20.0)
    listed.settle({"prod/kept"}, {"prod/marked", "prod/kept"})
    assert taken(listed, "ancient", "marked", "kept", "older") == "marked kept"
    listed.settle({"prod/kept", "prod/older"}, {"prod/marked"})
    assert taken(listed, "ancient", "marked", "kept", "older") == "kept older"


def test_who_was_decided_on_before_is_not_displaced_by_older_ones_that_were_annotated_since() -> None:
    listed = intake(ancient=1.0, older=2.0, a=50.0, b=60.0)
    listed.settle({"prod/a", "prod/b"})
    assert taken(listed, "ancient", "older", "a", "b") == "a b"


def test_an_object_that_takes_anothers_place_in_asking_moves_in_line_and_loses_no_place() -> None:
    full = intake(a=1.0, b=2.0, c=30.0, d=20.0)
    full.ask("prod/a", (95.0, "a"))
    full.ask("prod/c", (10.0, "c"))
    assert taken(full, "a", "b", "c", "d") == "a b"
    assert full.leave("prod/b") == "prod/c"


STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "ask", "leave"]), st.sampled_from(["p/", "q/", "r/"]), st.integers(0, 5)),
    max_size=60,
)


@given(STEPS, st.integers(1, 4), st.integers(1, 6))
def test_whatever_comes_and_goes_bounds_hold_nobody_is_dropped_and_no_place_is_left_to_a_younger_one(
    steps: list[Step], of_namespace: int, in_all: int
) -> None:
    full, ages, clock = Intake(Most(of_namespace, in_all)), dict[str, tuple[float, str]](), count()
    for what, namespace, number in steps:
        key = f"{namespace}{number}"
        held = {each for each in ages if full.takes(each)}
        if what == "ask":
            ages.setdefault(key, (float(next(clock) * 7 % 11), key))
            full.ask(key, ages[key])
            assert held <= {each for each in ages if full.takes(each)}, "somebody was dropped for another"
        else:
            ages.pop(key, None)
            following = full.leave(key)
            assert held - {key} <= {each for each in ages if full.takes(each)}
            assert following is None or full.takes(following)
        taken = {each for each in ages if full.takes(each)}
        waiting = sorted((age, each) for each, age in ages.items() if each not in taken)
        per = {name: sum(each.startswith(name) for each in taken) for name in ("p/", "q/", "r/")}
        assert (full.taken, full.waiting) == (len(taken), len(waiting))
        assert len(taken) <= in_all
        assert max(per.values()) <= of_namespace
        if len(taken) < in_all:
            assert all(per[each[:2]] == of_namespace for _, each in waiting), "room, and somebody waits"
        new = taken - held - {key}
        assert all(age > ages[one] for one in new for age, each in waiting if per[each[:2]] < of_namespace)
