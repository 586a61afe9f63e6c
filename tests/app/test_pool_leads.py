"""How long the next start of a workload of a warm pool takes, and where that was learnt."""

import pytest

from autoscaler.app.pool_leads import NextStart, PoolLeads
from autoscaler.core.pool.ahead import Ahead, Started
from autoscaler.core.pool.world import ModelDemand

CHAT = "prod/chat"
SLOTS_S = (280.0, 300.0, 300.0, 310.0, 420.0)


class Scene:
    def __init__(self, started: Started | None = Started((58.0, 60.0, 60.0, 66.0), ())) -> None:  # noqa: B008 - frozen
        self.started = started
        self.moved: list[str] = []
        self.leads = PoolLeads(lambda _: self.started, self.moved.append)

    def look(self, warm: int | None, slots_s: tuple[float, ...] = SLOTS_S, pool: str = "gpu", per: int = 1) -> None:
        demand = (ModelDemand(CHAT, "chat", 1.0, slots_per_replica=per),)
        self.leads.looked(pool, demand, None if warm is None else Ahead(warm, slots_s))

    def lead_s(self) -> float | None:
        found = self.leads.next_start(CHAT)
        return None if found is None else found.within_s

    @property
    def words(self) -> str:
        return "; ".join(self.leads.words(CHAT))


def test_a_warm_slot_shortens_the_lead_and_its_end_is_told_once() -> None:
    scene = Scene()
    scene.look(1)
    assert scene.lead_s() == 70.0, "66 s rounded up to whole grains"
    told = scene.leads.next_start(CHAT)
    assert told is not None
    assert told.cold_s == 480.0, "as the next line has it without the slot"
    assert "with a warm slot of gpu: 4 starts of its model on nodes that were there" in scene.words
    scene.look(0)
    assert scene.lead_s() == 480.0
    assert "the next start takes 6 min, 9 of 10 within 8 min, without a warm slot of gpu" in scene.words
    assert "put together from 5 starts of slots and 4 of its model on nodes that were there" in scene.words
    scene.look(0)
    assert scene.moved == [CHAT, CHAT]


def test_a_replica_of_two_slots_needs_two_warm_ones_on_one_node() -> None:
    scene = Scene()
    scene.look(1, per=2)
    assert scene.lead_s() == 480.0
    assert "without 2 warm slots of gpu on one node" in scene.words
    scene.look(2, per=2)
    assert scene.lead_s() == 70.0


@pytest.mark.parametrize(
    ("started", "why"),
    [
        pytest.param(None, "no ready pod of it has been seen yet", id="never ready"),
        pytest.param(Started((), ()), "of a part of it no measured start is known", id="no start on a warm node"),
    ],
)
def test_what_is_not_known_is_left_to_the_policy_and_said(started: Started | None, why: str) -> None:
    scene = Scene(started)
    scene.look(1)
    assert scene.lead_s() is None
    assert f"with a warm slot of gpu is not known: {why}" in scene.words
    assert scene.moved == []


def test_four_starts_are_few_and_the_fifth_is_told_though_it_took_as_long() -> None:
    scene = Scene()
    scene.look(1)
    assert scene.leads.next_start(CHAT) == NextStart(70.0, few=True)
    assert "with fewer than 5 starts only where that is longer than the policy's warmupPriorS" in scene.words
    scene.started = Started((58.0, 60.0, 60.0, 66.0, 66.0), ())
    scene.look(1)
    assert scene.leads.next_start(CHAT) == NextStart(70.0, few=False)
    assert "while replicas start, by nothing shorter than they were ordered with or than warmupPriorS" in scene.words
    assert scene.moved == [CHAT, CHAT]


def test_a_look_that_read_nothing_leaves_the_lead_as_it_was() -> None:
    scene = Scene()
    scene.look(1)
    scene.look(None)
    scene.leads.looked("gpu", None, Ahead(0, ()))
    assert scene.lead_s() == 70.0


def test_of_two_pools_a_warm_one_is_enough_and_the_slower_one_counts_while_none_is() -> None:
    scene = Scene()
    scene.look(0)
    scene.look(1, (900.0,), "other")
    assert scene.lead_s() == 70.0
    scene.look(0, (900.0,), "other")
    assert scene.lead_s() == 970.0
    scene.look(0, (), "other")
    assert scene.lead_s() is None, "where a node may come from a pool that measured none, nobody knows"
    scene.leads.forget("other")
    assert scene.lead_s() == 480.0


def test_with_its_last_pool_a_workload_has_no_lead_and_nothing_to_say() -> None:
    scene = Scene()
    scene.look(1)
    scene.leads.forget("gpu")
    assert (scene.lead_s(), scene.words, scene.moved) == (None, "", [CHAT, CHAT])


def test_a_start_that_ends_is_seen_at_the_next_look() -> None:
    scene = Scene()
    scene.look(1)
    scene.started = Started((58.0, 60.0, 60.0, 66.0, 90.0), ())
    scene.look(1)
    assert scene.lead_s() == 90.0


def test_a_workload_by_resource_claim_is_none_of_the_pools() -> None:
    scene = Scene()
    scene.leads.looked("gpu", (ModelDemand(CHAT, "chat", 1.0, uses_claims=True),), Ahead(3, SLOTS_S))
    assert scene.words == ""
