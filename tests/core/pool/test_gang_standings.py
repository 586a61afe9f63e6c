"""How requests of gangs stand at a pool that carries nothing out: what it made has nodes made all the same."""

from dataclasses import replace

from autoscaler.core.pool.intents import CreateHolder
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import PodsAsked
from autoscaler.record.pools import step_sentence
from tests.core.pool.builders import NOW_S, of
from tests.core.pool.gangs import ASK, MAKES, empty, holder, looked

OBSERVES = replace(MAKES, observe=True)


def standings(*ages_s: float, node: str | None = None, params: object = OBSERVES) -> list[tuple[int, float | None]]:
    """How the gang's request stands where its places were made so long ago; the first one may have a node."""
    held = tuple(holder(at, age_s=age_s, node=None if at else node) for at, age_s in enumerate(ages_s))
    done = looked(empty(asks=(ASK,), holders=held), params=params)
    assert done.intents == ()
    return [(each.placed, each.since_s) for each in done.gangs.standings]


def test_places_that_wait_for_nodes_are_a_request_until_its_time_is_up() -> None:
    assert standings(60.0, 50.0) == [(0, NOW_S - 60.0)]
    assert standings(899.0, 50.0) == [(0, NOW_S - 899.0)]
    assert standings(900.0, 50.0) == []


def test_a_place_on_a_node_is_one_until_it_ends_by_itself() -> None:
    assert standings(1400.0, 1400.0, node="n0") == [(1, NOW_S - 1400.0)]


def test_without_terms_any_more_the_usual_time_counts() -> None:
    """The user took `gangs` out of the spec in the same edit."""
    assert standings(899.0, params=replace(OBSERVES, gangs=None)) == [(0, NOW_S - 899.0)]
    assert standings(900.0, params=replace(OBSERVES, gangs=None)) == []


def test_who_asks_and_holds_nothing_there_is_told_nothing_and_nor_is_one_that_starts_or_has_another_form() -> None:
    assert looked(empty(asks=(ASK,)), params=OBSERVES).gangs.standings == ()
    starts, wider = replace(ASK, starts=True), replace(ASK, pods=(PodsAsked(3, 8),))
    for ask in (starts, wider):
        assert looked(empty(asks=(ask,), holders=(holder(0), holder(1))), params=OBSERVES).gangs.standings == ()
    gone = (replace(holder(0), over=True), replace(holder(1), deleting=True))
    assert looked(empty(asks=(ASK,), holders=gone), params=OBSERVES).gangs.standings == ()


def test_places_that_were_made_a_moment_before_it_was_set_to_observe_count_before_anybody_has_seen_them() -> None:
    first = looked(empty(asks=(ASK,)))
    assert len(of(CreateHolder, first)) == 2
    then = looked(empty(asks=(ASK,)), first.state, OBSERVES, NOW_S + 5.0)
    assert [(each.placed, each.since_s) for each in then.gangs.standings] == [(0, NOW_S)]


def test_the_trace_says_how_it_stands() -> None:
    done = looked(empty(asks=(ASK,), holders=(holder(0, node="n0"), holder(1))), params=OBSERVES)
    told = [step_sentence(step) for step in done.decision.trace if step.reason is PoolReason.GANG]
    assert told == [step_sentence(step) for step in done.gangs.steps]
    assert "job/ns/train" in told[0]
