"""What the decisions of a workload reckon a start with, where its warm pool knows something of the next one."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.app.pool_leads import NextStart, Priors
from autoscaler.core.capacity.leadtime import PRIOR_S
from autoscaler.core.params import Params, Slo
from tests.core.toy import NAME, Story, Toy, counts, stepped

CHAT = "prod/chat"
WARM, COLD = NextStart(15.0, few=False), NextStart(480.0, few=False)
FEW = NextStart(15.0, few=True)


class Reckoned:
    """`Priors` of one workload, whose lead and replicas the test sets."""

    def __init__(self, own_s: float | None) -> None:
        self.own_s = own_s
        self.lead: NextStart | None = None
        self.priors = Priors(lambda _: self.lead)

    def with_lead(self, lead: NextStart | None, *, starting: bool = False) -> float:
        self.lead = lead
        found = self.priors.settle(CHAT, self.own_s, lambda: starting)
        return found or self.own_s or PRIOR_S


@pytest.mark.parametrize(("own_s", "guess_s"), [(240.0, 240.0), (None, PRIOR_S)], ids=["written", "left out"])
def test_few_starts_make_no_guess_shorter_and_five_do_while_nothing_starts(own_s: float | None, guess_s: float) -> None:
    reckoned = Reckoned(own_s)
    assert reckoned.with_lead(FEW) == guess_s
    assert reckoned.with_lead(NextStart(480.0, few=True)) == 480.0, "a longer one counts at once"
    assert reckoned.with_lead(WARM) == 15.0
    assert reckoned.with_lead(None) == guess_s


def test_a_longer_lead_counts_at_once_and_a_shorter_one_when_nothing_starts_any_more() -> None:
    reckoned = Reckoned(240.0)
    assert reckoned.with_lead(WARM) == 15.0
    assert reckoned.with_lead(WARM, starting=True) == 240.0, "the slot is for the next start, and these are under way"
    assert reckoned.with_lead(COLD, starting=True) == 480.0
    assert [reckoned.with_lead(lead, starting=True) for lead in (WARM, FEW, None)] == [480.0] * 3
    assert reckoned.with_lead(WARM) == 15.0


def test_what_was_under_way_when_a_controller_began_may_have_been_ordered_without_a_warm_slot() -> None:
    """Its orders went with 480 s; 20 s, or a slot that is warm by now, would order every one of them again."""
    warm = replace(WARM, cold_s=480.0)
    reckoned = Reckoned(20.0)
    assert reckoned.with_lead(None, starting=True) == 20.0, "no pool was looked at yet"
    assert reckoned.with_lead(warm, starting=True) == 480.0
    assert reckoned.with_lead(warm) == 15.0, "they are ready"
    assert reckoned.with_lead(warm, starting=True) == 20.0, "what starts since then was ordered here"
    assert Reckoned(20.0).with_lead(WARM, starting=True) == 20.0, "a part of a cold start was never measured"


def test_a_policy_that_no_pool_knows_better_is_obeyed_at_once() -> None:
    reckoned = Reckoned(240.0)
    reckoned.own_s = 20.0
    assert reckoned.with_lead(None, starting=True) == 20.0


def test_what_a_workload_was_ordered_with_goes_with_it() -> None:
    reckoned = Reckoned(240.0)
    assert reckoned.with_lead(COLD) == 480.0
    reckoned.priors.forget(CHAT)
    assert reckoned.with_lead(None, starting=True) == 240.0


LEADS = st.one_of(st.none(), st.builds(NextStart, st.floats(5.0, 7200.0), st.booleans()))


@settings(deadline=None)
@given(st.none() | st.floats(1.0, 7200.0), st.lists(st.tuples(LEADS, st.booleans()), max_size=12))
def test_nothing_that_is_under_way_is_reckoned_with_less_than_before_or_than_the_policy_says(
    own_s: float | None, looks: list[tuple[NextStart | None, bool]]
) -> None:
    reckoned, guess_s = Reckoned(own_s), PRIOR_S if own_s is None else own_s
    before_s = guess_s
    for lead, starting in looks:
        now_s = reckoned.with_lead(lead, starting=starting)
        if starting:
            assert now_s >= max(before_s, guess_s)
        if lead is None or lead.few:
            assert now_s >= guess_s
        before_s = now_s


def grown(leads: Callable[[float], NextStart | None]) -> int:
    """The most replicas that 20 requests/s in the place of two bring about, where a replica carries four of them and
    every start takes 240 s, as the policy says, whatever its pool knows."""
    toy = Toy.of(1, stepped(2.0, 20.0, 30.0), replica_rps=4.0, warmup_s=240.0)
    params = Params(tick_s=5.0, warmup_prior_s=240.0, max_replicas=60, slo=Slo(ttft_s=5.0))
    story, reckoned = Story(toy, params), Reckoned(240.0)
    while toy.now_s < 270.0:
        prior_s = reckoned.with_lead(leads(toy.now_s), starting=bool(toy.starting))
        story.table.put(NAME, replace(params, warmup_prior_s=prior_s))
        story.tick()
    return max(counts(story.told))


SEQUENCES: dict[str, Callable[[float], NextStart | None]] = {
    "a slot is warm all the time, and none of those that start can use it": lambda _: WARM,
    "the pool has a warm slot again while all of them start": lambda now_s: WARM if now_s >= 150.0 else COLD,
    "one start was seen, and it was warm": lambda now_s: FEW if now_s >= 150.0 else None,
    "another word at every look": lambda now_s: (WARM, COLD, FEW, None)[int(now_s / 5.0) % 4],
}


@pytest.mark.parametrize("leads", SEQUENCES.values(), ids=SEQUENCES.keys())
def test_no_word_of_a_pool_orders_again_what_is_under_way(leads: Callable[[float], NextStart | None]) -> None:
    """No more than without a pool; reckoned with 15 s they were late after 90, and 60 were ordered."""
    assert grown(leads) <= grown(lambda _: None) <= 18
