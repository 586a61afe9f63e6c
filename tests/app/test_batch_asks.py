"""Nodes for gangs between the books of batch admission and a pool: asked for, held, handed over, given back, told."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.app.batch_asks import ANSWER_S
from autoscaler.app.batch_heirs import inherit
from autoscaler.app.batch_look import Look
from autoscaler.app.loan_desk import LoanDesk, Offer, Terms
from autoscaler.core.pool.gang_standings import Standing
from autoscaler.core.pool.loans import Lending
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import GangAsk, PodsAsked
from autoscaler.record.batch import GangState
from autoscaler.record.batch_words import gang_page
from tests.app.batch_plant import BatchPlant

pytestmark = pytest.mark.looptime

TRAIN = GangAsk("job/ns/train", "train", "h100", (PodsAsked(2, 8),))


class Scene:
    """A cluster without nodes, and a pool that makes some; its looks are written by the test."""

    def __init__(self, guaranteed: int = 16, limit: int = 1000) -> None:
        self.desk = LoanDesk(is_open=True)
        self.plant = BatchPlant({}, desk=self.desk, slot_class="slot", guaranteed=guaranteed, limit=limit)
        self.plant.classes(slot=-10, batch=-5, low=-20)
        self.says()
        self.desk.looked_at_all()

    def says(
        self, *standings: Standing, makes: tuple[str, ...] = ("h100",), pool: str = "chat", holds: tuple[str, ...] = ()
    ) -> None:
        """A pool is looked at, and says this."""
        nodes = frozenset(node.name for node in self.plant.books.room.ledger.estate.nodes)
        offer = Offer(
            Terms("nvidia.com/gpu", 8), nodes, Lending(), self.desk.lent_version, makes, 240.0, standings,
            frozenset(holds),
        )  # fmt: skip
        self.desk.looked(pool, offer)

    def observes(self, *standings: Standing) -> None:
        """The pool that holds places for the gang is set to decide and tell only."""
        self.says(*standings, holds=("train",), makes=())
        self.desk.looked("chat", replace(self.desk.offers["chat"], gives_back=False))

    def refuses(self, reason: PoolReason, in_s: float, *, pool: str = "chat") -> None:
        """A pool is looked at, and makes no nodes for the gang for so long."""
        until_s = self.plant.now_s + in_s
        self.says(Standing("job/ns/train", "train", 2, refused=reason, until_s=until_s), pool=pool)

    def asks(self, pool: str = "chat") -> tuple[GangAsk, ...] | None:
        return self.desk.asks_of(pool)

    def holds(self, at: int, node: str = "", uid: str = "train", name: str = "train") -> None:
        """A pod holds a place for a gang's pod."""
        labels = {"app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat", "headroom.dev/gang-uid": uid}
        notes = {"headroom.dev/gang": f"job/ns/{name}"}
        self.plant.pod(f"held-{name}-{at}", node, namespace="slots", labels=labels, annotations=notes)

    def asked(self) -> None:
        """A Job of two whole nodes asks for them."""
        self.plant.job("train", pods=2)
        self.plant.look()
        assert self.asks() == (TRAIN,)
        self.says(Standing("job/ns/train", "train", 2, 0, self.plant.now_s))

    def arrives(self, at: int) -> None:
        """A node comes, and a place on it is held."""
        self.plant.node(f"n{at}", 8)
        self.holds(at, f"n{at}")
        self.plant.look()

    def restarts(self) -> None:
        """The controller begins anew: nothing is known of pools, of the cluster all."""
        self.desk = self.plant.desk = LoanDesk(is_open=True)
        self.plant.begin()

    def edited(self) -> None:
        """A queue is edited: the books are written anew."""
        old = self.plant.books
        inherit(self.plant.begin(old.packed(self.plant.now_s)), old)

    def page(self, name: str = "train") -> str:
        look = Look(self.plant.books, self.plant.tree, self.plant.now_s)
        return gang_page(look.gang(f"job/ns/{name}"), self.plant.now_s)


async def test_a_gang_that_lacks_only_nodes_asks_for_all_of_them_waits_whole_and_starts_on_its_own() -> None:
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    assert scene.plant.start() == []
    assert scene.plant.books.room.ledger.owners("n0", "h100") == {"reserved": 8, "free": 0}
    scene.says(Standing("job/ns/train", "train", 2, 1, scene.plant.now_s - 90.0))
    assert "waits for nodes that were asked for" in scene.page()
    assert "WarmPool chat has nodes made for it, asked for 90 s ago: places for 1 of 2 pods are held" in scene.page()
    scene.plant.job("thief")
    scene.plant.look()
    assert scene.plant.start() == [], "nobody else gets what is held, nor asks beyond the quota"
    assert scene.asks() == (TRAIN,)
    scene.arrives(1)
    assert scene.plant.start() == ["train"]
    assert {put.node for put in scene.plant.work("train").put} == {"n0", "n1"}


async def test_while_it_starts_its_places_are_neither_made_nor_given_back_and_what_is_left_over_goes_then() -> None:
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    scene.arrives(1)
    scene.plant.start()
    scene.plant.look()
    assert scene.asks() == (replace(TRAIN, starts=True),)
    assert scene.plant.books.room.ledger.owners("n0", "h100") == {"batch": 8, "free": 0}, "each GPU once"
    scene.plant.gone("held-train-0", namespace="slots")
    scene.plant.pod("train-0", "n0", job="train", phase="Running")
    scene.plant.look()
    assert scene.asks() == (replace(TRAIN, starts=True),)
    scene.plant.gone("held-train-1", namespace="slots")
    scene.plant.pod("train-1", "n1", job="train", phase="Running")
    scene.plant.look()
    assert scene.asks() == ()
    assert scene.plant.books.room.ledger.owners("n1", "h100") == {"batch": 8, "free": 0}


async def test_after_a_restart_what_is_held_is_the_gangs_still_and_the_request_goes_on() -> None:
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    scene.plant.job("thief")
    scene.restarts()
    assert scene.asks() is None, "nothing is given back before it is known who wants nodes"
    scene.plant.look()
    assert scene.plant.start() == []
    assert scene.plant.books.room.ledger.owners("n0", "h100") == {"standby": 8, "free": 0}
    scene.says()
    scene.desk.looked_at_all()
    scene.plant.look()
    assert scene.asks() == (TRAIN,)
    scene.plant.look()
    assert scene.plant.books.room.ledger.owners("n0", "h100") == {"reserved": 8, "free": 0}
    scene.arrives(1)
    assert scene.plant.start() == ["train"]


async def test_a_request_that_came_to_nothing_is_explained_and_not_repeated_before_it_may_be() -> None:
    scene = Scene()
    scene.asked()
    until_s = scene.plant.now_s + 100.0
    refusal = Standing("job/ns/train", "train", 2, refused=PoolReason.NO_CAPACITY, until_s=until_s)
    scene.says(refusal)
    scene.plant.look(10.0)
    assert scene.asks() == ()
    scene.says()
    told = "WarmPool chat has no nodes made for it: capacity is missing in every tier; asked again in 90 s"
    assert f"note: {told}" in scene.page()
    scene.plant.look(80.0)
    assert scene.asks() == ()
    assert scene.plant.books.room.backlog.waiting.keys() == {"job/ns/train"}
    scene.plant.look(20.0)
    assert scene.asks() == (TRAIN,)


async def test_where_the_first_pool_that_makes_such_nodes_refuses_the_next_one_is_asked_and_both_are_told() -> None:
    scene = Scene()
    scene.says(pool="more")
    scene.says(pool="other", makes=("a100",))
    scene.asked()
    assert scene.asks("more") == (), "one is asked at a time"
    scene.refuses(PoolReason.GANG_LIMIT, 100.0)
    scene.plant.look()
    assert (scene.asks("chat"), scene.asks("more"), scene.asks("other")) == ((), (TRAIN,), ())
    assert "WarmPool chat" not in scene.page()
    scene.says(Standing("job/ns/train", "train", 2, 0, scene.plant.now_s), pool="more")
    assert "WarmPool more has nodes made for it" in scene.page()
    scene.says()
    scene.refuses(PoolReason.NO_CAPACITY, 30.0, pool="more")
    scene.plant.look()
    assert (scene.asks("chat"), scene.asks("more")) == ((), ())
    first = "WarmPool chat has no nodes made for it: the pool's GPUs for gangs are in use; asked again in 98 s"
    second = "WarmPool more has no nodes made for it: capacity is missing in every tier; asked again in 29 s"
    assert f"note: {first}; {second}" in scene.page()
    scene.says(pool="more")
    scene.plant.look(30.0)
    assert (scene.asks("chat"), scene.asks("more")) == ((), (TRAIN,)), "whose refusal is over"
    scene.refuses(PoolReason.NO_CAPACITY, 1000.0, pool="more")
    scene.plant.look()
    scene.says(pool="more")
    scene.plant.look(70.0)
    assert (scene.asks("chat"), scene.asks("more")) == ((TRAIN,), ())


async def test_after_a_restart_the_pool_that_holds_places_is_asked_though_another_one_comes_first() -> None:
    scene = Scene()
    scene.says(pool="more")
    scene.asked()
    scene.refuses(PoolReason.GANG_LIMIT, 100.0)
    scene.plant.look()
    scene.arrives(0)
    scene.restarts()
    scene.says()
    scene.says(pool="more", holds=("train",))
    scene.desk.looked_at_all()
    scene.plant.look()
    assert (scene.asks("chat"), scene.asks("more")) == ((), (TRAIN,))
    scene.arrives(1)
    assert scene.plant.start() == ["train"]
    scene.plant.look()
    assert scene.asks("more") == (replace(TRAIN, starts=True),), "its places are taken, and not given back"


async def test_while_the_pool_that_may_hold_places_cannot_be_read_after_a_restart_no_other_one_makes_nodes() -> None:
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    scene.restarts()
    scene.says(pool="more")
    scene.desk.looked_at_all(("chat", "more"))
    for _ in range(3):
        scene.plant.look()
        assert scene.asks("more") == ()
    scene.says(holds=("train",))
    scene.desk.looked_at_all(("chat", "more"))
    scene.plant.look()
    assert (scene.asks("chat"), scene.asks("more")) == ((TRAIN,), ())


async def test_a_pool_that_says_nothing_of_a_request_is_not_waited_for() -> None:
    scene = Scene()
    scene.plant.job("train", pods=2)
    scene.plant.look()
    scene.plant.look(ANSWER_S)
    assert scene.asks() == ()
    assert "it says nothing of the request" in scene.page()


@pytest.mark.parametrize(
    ("more", "makes", "quota"),
    [
        pytest.param({"priority_class": "low"}, ("h100",), {}, id="its pods displace nobody"),
        pytest.param({}, (), {}, id="no pool makes nodes"),
        pytest.param({}, ("a100",), {}, id="none of its shape"),
        pytest.param({}, ("h100",), {"guaranteed": 8}, id="beyond what is guaranteed"),
        pytest.param({}, ("h100",), {"limit": 16, "guaranteed": 8}, id="nobody lends as much"),
    ],
)
async def test_no_node_is_asked_for_what_could_not_use_it(
    more: dict[str, Any], makes: tuple[str, ...], quota: dict[str, int]
) -> None:
    scene = Scene(**quota)
    scene.says(makes=makes)
    scene.plant.job("train", pods=2, **more)
    for _ in range(3):
        scene.plant.look()
        assert scene.asks() == ()


async def test_a_gang_that_is_deleted_wants_nothing_and_what_is_held_for_it_is_nobodys_until_it_is_gone() -> None:
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    scene.plant.delete("train")
    scene.plant.job("other")
    scene.plant.look()
    assert scene.plant.books.room.ledger.owners("n0", "h100") == {"standby": 8, "free": 0}
    asks = scene.asks() or ()
    assert [ask.gang for ask in asks] == ["job/ns/other"], "its quota is free again"
    scene.plant.gone("held-train-0", namespace="slots")
    scene.plant.look()
    assert scene.plant.start() == ["other"], "the node is there, and what it asked for is not needed"
    scene.plant.look()
    assert [ask.gang for ask in scene.asks() or ()] == []


async def test_what_is_held_for_an_object_of_the_same_name_is_not_the_new_ones() -> None:
    scene = Scene()
    scene.asked()
    scene.plant.node("n0", 8)
    scene.holds(0, "n0", uid="older")
    scene.plant.look()
    assert scene.plant.books.room.ledger.owners("n0", "h100") == {"standby": 8, "free": 0}


async def test_a_gang_that_is_edited_while_nodes_come_leaves_what_is_held_for_it_to_nobody() -> None:
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    scene.plant.job("thief")
    scene.plant.edit("train", parallelism=3, completions=3)
    for _ in range(2):
        scene.plant.look()
        assert scene.plant.start() == []
    assert scene.plant.books.room.ledger.owners("n0", "h100") == {"standby": 8, "free": 0}


async def test_a_request_that_is_given_back_leaves_its_places_to_nobody_while_they_are_there() -> None:
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    scene.says(Standing("job/ns/train", "train", 2, refused=PoolReason.GANG_LATE, until_s=scene.plant.now_s + 60.0))
    scene.plant.job("thief")
    for _ in range(2):
        scene.plant.look()
        assert scene.plant.start() == []
    assert scene.plant.books.room.ledger.owners("n0", "h100") == {"standby": 8, "free": 0}


async def test_a_node_that_is_lost_takes_only_its_part_of_what_is_held() -> None:
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    scene.plant.lose("n0")
    scene.plant.gone("held-train-0", namespace="slots")
    scene.plant.look()
    assert scene.asks() == (TRAIN,)
    scene.arrives(1)
    assert scene.plant.start() == []
    scene.arrives(2)
    assert scene.plant.start() == ["train"]


async def test_a_pool_that_is_first_heard_of_gives_back_nothing_before_it_was_said_who_wants_nodes_of_it() -> None:
    scene = Scene()
    scene.asked()
    assert scene.desk.asks_of("late") is None
    scene.desk.looked("late", replace(scene.desk.offers["chat"], makes=()))
    assert scene.desk.asks_of("late") is None
    scene.plant.look()
    assert scene.desk.asks_of("late") == ()
    assert scene.asks() == (TRAIN,)


async def test_a_pool_that_makes_nodes_no_more_is_asked_no_more_and_that_is_told() -> None:
    scene = Scene()
    scene.asked()
    scene.desk.looked("chat", None)
    scene.plant.look()
    assert scene.plant.books.room.waits_for_nodes() == ()
    assert "no nodes are made for it: it says nothing of the request; asked again in 30 s" in scene.page()


async def test_a_request_at_a_pool_that_turns_faulty_is_told_so_at_once_and_passed_on() -> None:
    scene = Scene()
    scene.says(pool="more")
    scene.asked()
    scene.arrives(0)
    scene.desk.looked_in_vain("chat", frozenset({"train"}))
    scene.plant.look()
    assert (scene.asks("chat"), scene.asks("more")) == ((), (TRAIN,)), "what it holds is given back by then"
    scene.says(pool="more", makes=())
    scene.plant.look()
    assert scene.plant.books.room.waits_for_nodes() == ()
    told = "WarmPool chat has no nodes made for it: it makes none as it stands, see its conditions Accepted and Acting"
    assert told in scene.page()
    refusal = scene.plant.books.asks.refusal("job/ns/train", scene.plant.now_s)
    assert refusal is not None
    assert refusal[0] == "POOL_STOPPED"


async def test_while_a_pool_that_only_observes_holds_places_on_nodes_no_other_one_makes_them_as_well() -> None:
    scene = Scene()
    scene.says(pool="more")
    scene.asked()
    scene.arrives(0)
    scene.observes()
    for _ in range(3):
        scene.plant.look(ANSWER_S)
        assert (scene.asks("chat"), scene.asks("more")) == ((TRAIN,), ())
    assert "WarmPool chat holds places for it and makes no more of them, see its condition Acting" in scene.page()
    scene.plant.gone("held-train-0", namespace="slots")
    scene.plant.look()
    assert (scene.asks("chat"), scene.asks("more")) == ((), (TRAIN,)), "they have ended by themselves"


@pytest.mark.parametrize("anew", [False, True], ids=["of the same leader", "of a new leader"])
async def test_while_places_at_a_pool_that_only_observes_wait_for_nodes_no_other_one_makes_them_as_well(
    anew: bool,
) -> None:
    """It cannot take back what it asked for; once it says nothing of the request any more the next pool is asked."""
    scene = Scene()
    scene.says(pool="more")
    scene.asked()
    stands = Standing("job/ns/train", "train", 2, 0, scene.plant.now_s)
    if anew:
        scene.restarts()
        scene.observes()
        scene.says(pool="more")
        scene.desk.looked_at_all()
        scene.plant.look()
    for _ in range(3):
        scene.observes(stands)
        scene.plant.look(ANSWER_S)
        assert (scene.asks("chat"), scene.asks("more")) == ((TRAIN,), ())
    assert (
        "WarmPool chat holds places for it and makes no more of them, see its condition Acting; no other one is asked "
        "until spec.gangs.timeoutS has passed without one of them on a node"
    ) in scene.page()
    scene.observes()
    scene.plant.look()
    assert (scene.asks("chat"), scene.asks("more")) == ((), (TRAIN,))


async def test_after_a_restart_a_request_leaves_a_pool_that_cannot_be_used_and_nobody_wants_what_that_holds() -> None:
    scene = Scene()
    scene.says(pool="more")
    scene.asked()
    scene.arrives(0)
    scene.restarts()
    scene.says(pool="more")
    scene.desk.looked_in_vain("chat", frozenset({"train"}))
    scene.desk.looked_at_all(("chat", "more"))
    assert scene.asks("chat") is None
    scene.plant.look()
    scene.plant.look()
    assert (scene.asks("chat"), scene.asks("more")) == ((), (TRAIN,))


async def test_a_gang_whose_places_are_all_held_starts_though_their_pool_only_observes_even_after_a_restart() -> None:
    scene = Scene()
    scene.says(pool="more")
    scene.asked()
    scene.arrives(0)
    scene.restarts()
    scene.observes()
    scene.says(pool="more")
    scene.desk.looked_at_all()
    for _ in range(3):
        scene.plant.look()
        assert (scene.asks("chat"), scene.asks("more")) == ((TRAIN,), ())
    scene.arrives(1)
    assert scene.plant.start() == ["train"]


async def test_a_pool_is_not_taken_for_silent_while_nobody_decided() -> None:
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    scene.says()  # a look during a freeze says nothing of requests, and batch admission decides nothing
    scene.plant.look(300.0)
    assert scene.asks() == (TRAIN,), "nodes that were made are not given back for it"
    scene.plant.look(ANSWER_S)
    assert scene.asks() == ()


async def test_a_gang_whose_start_is_refused_has_no_nodes_made_again_and_again() -> None:
    scene = Scene()
    scene.plant.job("train", pods=2)
    scene.plant.look()
    pauses_s = []
    for _ in range(2):
        scene.says(Standing("job/ns/train", "train", 2, 0, scene.plant.now_s))
        scene.arrives(0)
        scene.arrives(1)
        assert scene.plant.due() == ["train"]
        scene.plant.books.was_refused(scene.plant.work("train"), "a webhook says no", scene.plant.now_s)
        for at in (0, 1):
            scene.plant.lose(f"n{at}")
            scene.plant.gone(f"held-train-{at}", namespace="slots")
        ended_s = scene.plant.now_s
        scene.says()
        scene.plant.look(15.0)
        scene.plant.books.was_taken(scene.plant.work("train"), scene.plant.now_s)
        scene.plant.look()
        while not scene.asks():
            assert "an earlier request has ended" in scene.page()
            scene.plant.look()
        pauses_s.append(scene.plant.now_s - ended_s)
    assert pauses_s == [60.0, 120.0]


async def test_a_queue_that_is_edited_has_no_nodes_asked_for_again_before_the_time() -> None:
    """Its books are written anew: of a request that ended, and of a pool that refused, they know as well."""
    scene = Scene()
    scene.asked()
    scene.arrives(0)
    scene.arrives(1)
    assert scene.plant.due() == ["train"]
    scene.plant.books.was_refused(scene.plant.work("train"), "a webhook says no", scene.plant.now_s)
    for at in (0, 1):
        scene.plant.lose(f"n{at}")
        scene.plant.gone(f"held-train-{at}", namespace="slots")
    scene.says()
    scene.plant.look()
    scene.edited()
    scene.plant.look(15.0)
    scene.plant.books.was_taken(scene.plant.work("train"), scene.plant.now_s)
    scene.plant.look()
    assert not scene.asks()
    assert "an earlier request has ended" in scene.page()
    scene.plant.look(60.0)
    assert scene.asks()

    scene.refuses(PoolReason.NO_CAPACITY, 1800.0)
    scene.plant.look()
    scene.says()
    scene.edited()
    scene.plant.look(60.0)
    assert not scene.asks()
    assert "WarmPool chat" in scene.page()
    scene.plant.look(1800.0)
    assert scene.asks()


async def test_nodes_are_asked_for_as_the_gangs_pods_select_them_and_not_where_they_require_more() -> None:
    scene = Scene()
    scene.plant.node("n0", 8)
    scene.plant.pod("other", "n0")
    scene.plant.look()
    scene.plant.job("train")
    pods = scene.plant.template("train")["spec"]
    product = {"nvidia.com/gpu.product": "H100"}
    scene.plant.edit("train", template={"spec": {**pods, "nodeSelector": product}})
    scene.plant.look()
    assert [each.pods for each in scene.asks() or ()] == [(PodsAsked(1, 8, selector=tuple(product.items())),)]
    term = {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["H100"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    scene.plant.edit("train", template={"spec": {**pods, "affinity": {"nodeAffinity": required}}})
    for _ in range(3):
        scene.plant.look(100.0)
        assert scene.asks() == ()


async def test_a_shadow_asks_for_nothing() -> None:
    scene = Scene()
    scene.desk = scene.plant.desk = LoanDesk(is_open=False)
    scene.plant.begin()
    scene.plant.job("train", pods=2)
    scene.plant.look()
    assert scene.desk.asks_of("chat") == ()
    look = Look(scene.plant.books, scene.plant.tree, scene.plant.now_s)
    assert look.gang("job/ns/train").state is GangState.WAITING
