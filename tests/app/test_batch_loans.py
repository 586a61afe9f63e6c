"""Idle warm slots in the books of batch admission: lent, marked on the object, called back whole, nobody else's."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from autoscaler.adapters.kube.batch_work import Put
from autoscaler.api.shapes import Shape
from autoscaler.app.batch_loans import marked
from autoscaler.app.batch_look import Look
from autoscaler.app.loan_desk import LoanDesk, Offer, Terms
from autoscaler.core.batch.reasons import BatchReason
from autoscaler.core.pool.intents import PoolStep
from autoscaler.core.pool.loans import Lending
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.world import LentSeen
from autoscaler.record.batch import GangState
from autoscaler.record.batch_words import sentence
from autoscaler.record.loans import LoanState, LoanTold
from tests.app.batch_plant import SHAPES, BatchPlant

pytestmark = pytest.mark.looptime

NODES = {"w0": 8, "w1": 8}
PRODUCT = "nvidia.com/gpu.product"
NOTICE = {"headroom.dev/checkpoint-notice": "20s"}
LEND = Lending((("w0", 8),), 3600.0)
SLOT = {"app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat"}


class Pool:
    """A plant whose two nodes are a pool's; one slot of eight GPUs stands on each."""

    def __init__(
        self, lending: Lending = LEND, *, slots: tuple[str, ...] = ("w0", "w1"), shapes: Mapping[str, Shape] = SHAPES
    ) -> None:
        self.desk = LoanDesk(is_open=True)
        self.plant = BatchPlant(NODES, guaranteed=16, desk=self.desk, slot_class="slot", shapes=shapes)
        if len(shapes) > 1:
            self.plant.node("w1", 8, product="A100")
        self.plant.classes(slot=-10, batch=-5, low=-20)
        for node in slots:
            self.stands(node)
        self.says(lending)
        self.desk.looked_at_all()
        self.plant.look()

    def says(self, lending: Lending, *nodes: str) -> None:
        """The pool is looked at, and says this."""
        seen = frozenset(nodes or NODES)
        self.desk.looked("chat", Offer(Terms("nvidia.com/gpu", 8, 60.0, 30.0), seen, lending, self.desk.lent_version))

    def stands(self, node: str) -> None:
        """A warm slot stands on a node."""
        self.plant.pod(f"slot-{node}", node, namespace="slots", labels=SLOT)

    def displaced(self, node: str) -> None:
        """The scheduler took a slot away."""
        self.plant.gone(f"slot-{node}", namespace="slots")

    def job(self, name: str, **more: Any) -> None:
        """A Job of one pod of eight GPUs that may borrow."""
        self.plant.job(name, **{"annotations": NOTICE, **more})

    def lend(self, name: str = "train") -> None:
        """A Job starts on the slot of w0."""
        self.job(name)
        self.plant.look()
        assert self.plant.start() == [name]
        self.displaced("w0")
        self.plant.pod(f"{name}-0", "w0", job=name, phase="Running")
        self.plant.look()

    def borrows(self, name: str, product: str = "H100") -> None:
        """A Job starts wherever a slot of these GPUs is on offer, and its pod runs there."""
        self.job(name)
        template = self.plant.template(name)
        self.plant.edit(name, template={"spec": {**template["spec"], "nodeSelector": {PRODUCT: product}}})
        self.plant.look()
        assert self.plant.start() == [name]
        (put,) = self.plant.work(name).put
        self.displaced(put.node)
        self.plant.pod(f"{name}-0", put.node, job=name, phase="Running")
        self.plant.look()

    def owners(self, node: str) -> dict[str, int]:
        return self.plant.books.room.ledger.owners(node, "h100")

    def lent(self) -> tuple[LentSeen, ...] | None:
        return self.desk.lent_of("chat", self.plant.now_s)


async def test_a_gang_that_can_be_called_back_starts_on_an_idle_slot_and_its_object_says_so() -> None:
    pool = Pool()
    assert pool.owners("w0") == {"serving": 8, "free": 0}
    assert pool.owners("w1") == {"standby": 8, "free": 0}, "what is not on offer stands by"
    pool.job("train")
    pool.plant.look()
    assert pool.lent() == (LentSeen("w0", 8, coming=8),), "the pool knows before the slot gives way"
    assert pool.plant.start() == ["train"]
    assert [(put.node, put.lent) for put in pool.plant.work("train").put] == [("w0", 8)]
    note = pool.plant.books.loans.note("job/ns/train", pool.plant.now_s)
    assert note is not None
    assert (note["lenders"], note["units"], note["reclaimS"]) == (["WarmPool/chat"], 8, 60.0)
    pool.displaced("w0")
    pool.plant.pod("train-0", "w0", job="train", phase="Running")
    pool.plant.look()
    assert pool.lent() == (LentSeen("w0", 8),)
    assert pool.owners("w0") == {"loan": 8, "free": 0}


async def test_a_loan_that_has_not_begun_is_kept_for_nobody_over_a_restart() -> None:
    """Serving may want its slot again meanwhile."""
    pool = Pool()
    pool.job("train")
    pool.plant.look()
    assert list(pool.plant.books.plans) == ["job/ns/train"]
    assert pool.plant.books.packed(pool.plant.now_s)["reservations"] == []


async def test_nothing_is_lent_to_who_does_not_say_its_notice_is_promised_a_runtime_or_cannot_displace_a_slot() -> None:
    pool = Pool()
    pool.job("silent", annotations={})
    pool.job("promised", annotations={**NOTICE, "headroom.dev/min-runtime": "1h"})
    pool.job("slow", annotations={"headroom.dev/checkpoint-notice": "90s"})
    pool.job("low", priority_class="low")
    pool.plant.look()
    assert pool.plant.start() == []
    pool.job("train")
    pool.plant.look()
    assert pool.plant.start() == ["train"]


EDITS: dict[str, Callable[[BatchPlant], None]] = {
    "an annotation that cannot be meant": lambda plant: plant.annotate("train", {"headroom.dev/min-width": "nonsense"}),
    "a level that is none": lambda plant: plant.annotate("train", {"headroom.dev/required-topology": "zone"}),
    "its PriorityClass is gone": lambda plant: plant.cluster._classes._cache.drop("batch"),
    "its PriorityClass is serving's": lambda plant: plant.classes(batch=5),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
async def test_nobody_keeps_a_loan_over_a_restart_by_an_edit_for_which_it_would_be_refused(
    edit: Callable[[BatchPlant], None],
) -> None:
    pool = Pool()
    pool.lend()
    edit(pool.plant)
    pool.plant.look()
    pool.plant.begin()
    pool.plant.look()
    assert "job/ns/train" in pool.plant.books.room.runs.all
    pool.says(Lending(recall=1))
    pool.plant.look()
    assert pool.plant.stop() == ["train"]
    pool.plant.gone("train-0")
    pool.plant.look()
    assert pool.plant.due() == [], "it is refused as it stands"
    assert "job/ns/train" in pool.plant.books.unfit


async def test_before_every_pool_was_looked_at_nothing_is_lent() -> None:
    pool = Pool()
    pool.desk.all_looked = False
    pool.desk.looked("chat", None)
    pool.job("train")
    pool.plant.look()
    assert pool.plant.start() == []


async def test_a_loan_is_called_back_whole_and_nobody_else_gets_the_node_before_the_slot_is_back() -> None:
    pool = Pool()
    pool.lend()
    pool.job("next", annotations={})
    pool.plant.look()
    pool.says(Lending(recall=1))
    pool.plant.look()
    assert pool.plant.stop() == ["train"]
    assert pool.lent() == (LentSeen("w0", 8, leaving=8),)
    (recall,) = pool.plant.books.loans.recalls.all.values()
    assert (recall.gang, recall.pools, recall.bill.units) == ("job/ns/train", ("chat",), 8)
    assert recall.bill.return_gpu_s == 8 * (60.0 + 30.0)
    pool.says(Lending(leaving=1))
    pool.plant.look()
    pool.plant.gone("train-0")
    for _ in range(3):
        pool.plant.look()
        assert pool.plant.start() == []
        assert pool.owners("w0") == {"serving": 8, "free": 0}, "kept though the pool was not looked at again"
    pool.says(Lending(missing=1))
    pool.plant.look()
    assert pool.owners("w0") == {"serving": 8, "free": 0}, "kept for the slot that it lacks"
    count = pool.plant.books.loans.recalls.count
    assert (count.gangs, count.took_s, count.return_gpu_s) == (1, 2.0, 720.0)
    pool.stands("w0")
    pool.says(Lending())
    pool.plant.look()
    assert pool.owners("w0") == {"standby": 8, "free": 0}
    assert pool.plant.start() == []
    pool.says(LEND)
    pool.plant.look()
    assert pool.plant.start() == ["train"], "it goes on where it was"


async def test_what_the_pool_does_not_miss_when_a_loan_ends_is_anybodys() -> None:
    pool = Pool()
    pool.lend()
    pool.job("next", annotations={})
    pool.plant.end("train")
    pool.plant.gone("train-0")
    pool.plant.look()
    assert pool.plant.start() == []
    pool.says(Lending(missing=0))
    pool.plant.look()
    assert pool.plant.start() == ["next"]


async def test_a_recall_is_ordered_once_however_often_the_same_look_is_read() -> None:
    pool = Pool(Lending((("w0", 8), ("w1", 8)), 3600.0))
    for name in ("one", "two"):
        pool.borrows(name)
    pool.says(Lending(recall=1))
    pool.plant.look()
    (gone,) = pool.plant.stop()
    pool.plant.look()
    pool.plant.gone(f"{gone}-0")
    for _ in range(3):
        pool.plant.look()
        assert pool.plant.stop() == []


async def test_a_webhook_that_refuses_all_stops_for_ten_minutes_has_one_gang_called_back_for_one_slot() -> None:
    pool = Pool(Lending((("w0", 8), ("w1", 8)), 3600.0))
    for name in ("one", "two"):
        pool.borrows(name)
    asked: set[str] = set()
    for _ in range(60):
        leaving = any(each.leaving for each in pool.lent() or ())
        pool.says(Lending(leaving=1) if leaving else Lending(recall=1))
        pool.plant.look(10.0)
        for work, _ in list(pool.plant.books.due_stops()):
            pool.plant.books.rests.not_stopped(work, pool.plant.now_s)
            asked.add(work.ref.name)
    assert len(asked) == 1
    assert sorted(each.overdue for each in pool.lent() or ()) == [0, 8], "the pool may order a slot in its place"
    pool.says(Lending(recall=1))
    pool.plant.look(10.0)
    assert pool.plant.stop() == list(asked)
    pool.plant.look(100.0)
    assert pool.plant.stop() == []
    pool.plant.look(100.0)
    assert len(pool.plant.stop()) == 1, "its stop was written, and it is there after its notice and two minutes"


@pytest.mark.parametrize(("lasts_s", "is_given_up"), [(300, False), (1300, True)], ids=str)
async def test_a_gang_whose_object_changes_every_second_is_waited_for_no_shorter_than_another_one(
    lasts_s: int, is_given_up: bool
) -> None:
    """Each version is asked to stop at once and refuses: 300 refusals in five minutes count as 60."""
    pool = Pool()
    pool.borrows("one")
    pool.says(Lending(recall=1))
    pool.plant.look()
    books, work = pool.plant.books, pool.plant.work("one")
    for second in range(lasts_s):
        books.rests.not_stopped(replace(work, version=f"v{second}"), pool.plant.now_s)
        pool.plant.look(1.0)
    told_s = books.room.runs.all["job/ns/one"].told_s
    assert told_s is not None
    assert (told_s < pool.plant.now_s) == is_given_up


async def test_a_gang_that_is_told_to_leave_and_stays_is_not_counted_on_not_told_twice_and_named() -> None:
    pool = Pool(Lending((("w0", 8), ("w1", 8)), 3600.0))
    for name in ("one", "two"):
        pool.borrows(name)
    pool.says(Lending(recall=1))
    pool.plant.look()
    (stays,) = pool.plant.stop()
    (other,) = {"one", "two"} - {stays}
    pool.says(Lending(recall=1, leaving=1))
    pool.plant.look(20.0)
    assert pool.plant.stop() == [other], "the pool wants two by now"
    for _ in range(2):
        pool.says(Lending(leaving=2))
        pool.plant.look(60.0)
        assert {(each.leaving, each.overdue) for each in pool.lent() or ()} == {(8, 0)}
    pool.plant.gone(f"{other}-0")
    pool.plant.look(20.0)
    (left,) = pool.lent() or ()
    assert (left.units, left.leaving, left.overdue) == (8, 0, 8)
    (told,) = pool.desk.loans_of("chat") or ()
    assert told.state is LoanState.OVERDUE
    pool.says(Lending(recall=0))
    for _ in range(3):
        pool.plant.look(60.0)
        assert pool.plant.stop() == []
    gang = Look(pool.plant.books, pool.plant.tree, pool.plant.now_s).gang(f"job/ns/{stays}")
    assert (gang.state, gang.reason) == (GangState.LEAVING, "OVERDUE")
    assert "it was told to leave and does not go; told 5.67 min ago" in sentence(gang, pool.plant.now_s)
    assert "kubectl -n ns get pods" in sentence(gang, pool.plant.now_s)
    pool.plant.gone(f"{stays}-0")
    pool.plant.look()
    assert pool.lent() == ()


async def test_one_that_should_long_be_gone_has_others_called_back_in_its_place() -> None:
    pool = Pool(Lending((("w0", 8), ("w1", 8)), 3600.0))
    for name in ("one", "two"):
        pool.borrows(name)
    pool.says(Lending(recall=1))
    pool.plant.look()
    (stays,) = pool.plant.stop()
    pool.says(Lending(leaving=1))
    pool.plant.look(141.0)
    assert pool.plant.stop() == []
    pool.says(Lending(recall=1))
    pool.plant.look(1.0)
    assert pool.plant.stop() == list({"one", "two"} - {stays})


async def test_after_a_restart_a_loan_is_known_by_its_object_and_can_be_called_back() -> None:
    pool = Pool()
    pool.lend()
    pool.desk = LoanDesk(is_open=True)
    pool.plant.desk = pool.desk
    pool.plant.begin()
    assert pool.lent() is None, "no pool has spoken: nothing may be ordered in the place of what is lent"
    assert pool.owners("w0") == {"loan": 8, "free": 0}
    pool.says(Lending())
    pool.desk.looked_at_all()
    pool.plant.look()
    assert pool.lent() == (LentSeen("w0", 8),)
    pool.says(Lending(recall=1))
    pool.plant.look()
    assert pool.plant.stop() == ["train"]


async def stopped(*, by_us: bool) -> Pool:
    """A gang on loan is stopped, and its pod is there still."""
    pool = Pool()
    pool.lend()
    if by_us:
        pool.says(Lending(recall=1))
        pool.plant.look()
        assert pool.plant.stop() == ["train"]
    else:
        pool.plant.edit("train", suspend=True)
    pool.plant.look()
    return pool


@pytest.mark.parametrize("by_us", [True, False], ids=["by us", "by somebody else"])
async def test_what_a_stopped_gangs_pods_hold_is_on_loan_until_they_are_gone(*, by_us: bool) -> None:
    """Else its pool would order a slot in the place of one that comes back, and perhaps a node."""
    pool = await stopped(by_us=by_us)
    pool.says(Lending(leaving=1))
    pool.plant.look()
    assert (pool.lent(), pool.owners("w0")) == ((LentSeen("w0", 8, leaving=8),), {"loan": 8, "free": 0})
    pool.plant.gone("train-0")
    pool.plant.look()
    assert (pool.lent(), pool.owners("w0")) == ((), {"serving": 8, "free": 0})


async def test_one_that_was_stopped_and_is_left_alone_is_leaving_and_nobody_is_called_back_in_its_place() -> None:
    three = {"w0": 8, "w1": 8, "w2": 8}
    pool = Pool()
    pool.plant.node("w2", 8)
    pool.stands("w2")
    pool.says(Lending(tuple(three.items()), 3600.0), *three)
    for name in ("one", "two", "three"):
        pool.borrows(name)
    pool.plant.books.rests.begin("job/ns/one", pool.plant.now_s, 600.0)
    pool.plant.edit("one", suspend=True)
    pool.plant.look()
    assert sorted((each.units, each.leaving) for each in pool.lent() or ()) == [(8, 0), (8, 0), (8, 8)]
    pool.says(Lending(recall=1, leaving=1), *three)
    pool.plant.look()
    assert len(pool.plant.stop()) == 1


async def test_what_a_stopped_gangs_pods_hold_is_no_room_for_the_slot_that_its_pool_lacks() -> None:
    pool = Pool(replace(LEND, missing=1), slots=("w0",))
    pool.lend()
    pool.says(Lending(missing=1))
    pool.job("next", annotations={})
    pool.plant.look()
    assert pool.plant.start() == []
    pool.plant.edit("train", suspend=True)
    pool.plant.look()
    assert (pool.plant.start(), pool.owners("w1")) == ([], {"serving": 8, "free": 0})


@pytest.mark.parametrize("restarts", [False, True], ids=["a queue was edited", "a restart"])
async def test_the_loan_of_a_gang_that_leaves_is_known_to_books_that_are_written_anew(*, restarts: bool) -> None:
    pool = await stopped(by_us=True)
    saved = pool.plant.books.packed(pool.plant.now_s)
    if restarts:
        pool.desk = pool.plant.desk = LoanDesk(is_open=True)
    pool.plant.begin(saved)
    pool.says(Lending(leaving=1))
    pool.desk.looked_at_all()
    for _ in range(2):
        pool.plant.look()
        assert (pool.lent(), pool.owners("w0")) == ((LentSeen("w0", 8, leaving=8),), {"loan": 8, "free": 0})
    assert marked(pool.plant.cluster, pool.desk) == {"chat": (LentSeen("w0", 8, leaving=8),)}, "without books as well"
    pool.plant.gone("train-0")
    pool.plant.look()
    assert (pool.lent(), pool.owners("w0")) == ((), {"serving": 8, "free": 0})
    assert marked(pool.plant.cluster, pool.desk) == {}


async def test_what_an_object_claims_to_have_on_loan_where_nobody_lends_is_its_own() -> None:
    pool = Pool()
    pool.lend()
    pool.desk.looked("chat", None)
    pool.plant.look()
    assert pool.owners("w0") == {"batch": 8, "free": 0}
    assert pool.lent() == ()


async def test_one_slot_that_is_called_back_takes_one_gang_however_many_shapes_the_pool_has() -> None:
    both = Lending((("w0", 8), ("w1", 8)), 3600.0)
    pool = Pool(both, shapes={"h100": Shape(sku="h100"), "a100": Shape(sku="a100")})
    for name, product in (("one", "H100"), ("two", "A100")):
        pool.borrows(name, product)
    assert pool.lent() == (LentSeen("w0", 8), LentSeen("w1", 8))
    pool.says(Lending(recall=1))
    pool.plant.look()
    assert len(pool.plant.stop()) == 1
    pool.says(Lending(recall=1, leaving=1))
    pool.plant.look()
    assert pool.plant.books.loans.recalls.all.keys() == {"job/ns/one", "job/ns/two"}


async def test_a_slot_is_lent_whole_or_not_at_all() -> None:
    pool = Pool()
    pool.job("half", gpus=4)
    pool.plant.look()
    assert pool.plant.start() == []
    pool.job("whole", pods=2, gpus=4)
    pool.plant.look()
    assert pool.plant.start() == ["whole"]
    assert pool.lent() == (LentSeen("w0", 8, coming=8),)


@pytest.mark.parametrize("is_bound", [True, False])
async def test_whoever_writes_a_loan_into_an_object_gets_no_gpu_of_others_by_it(*, is_bound: bool) -> None:
    pool = Pool(Lending(), slots=())
    pool.job("mine", annotations={})
    pool.plant.look()
    assert pool.plant.start() == ["mine"]
    (mine,) = pool.plant.work("mine").put
    pool.plant.pod("mine-0", mine.node, job="mine", phase="Running")
    pool.plant.look()
    claims = [Put(node, "h100", 0, 1, 1000) for node in NODES]
    pool.job("greedy", annotations={"headroom.dev/placement": msgspec.json.encode(claims).decode()})
    pool.plant.edit("greedy", suspend=False)
    if is_bound:
        pool.plant.pod("greedy-0", next(iter(NODES.keys() - {mine.node})), job="greedy", phase="Running")
    for _ in range(3):
        pool.plant.look()
        assert pool.plant.stop() == []
    assert pool.owners(mine.node) == {"batch": 8, "free": 0}
    told = marked(pool.plant.cluster, pool.desk).get("chat", ())
    assert sum(each.units for each in told) == (8 if is_bound else 0), "without books as well"


async def test_a_loan_stays_one_while_its_pool_could_not_be_read_since_the_start() -> None:
    pool = Pool()
    pool.lend()
    pool.desk = pool.plant.desk = LoanDesk(is_open=True)
    pool.desk.looked("other", Offer(Terms("nvidia.com/gpu", 8), frozenset(), Lending(), 0))
    pool.desk.looked_at_all(["chat", "other"])
    pool.plant.begin()
    pool.plant.look()
    assert pool.owners("w0") == {"loan": 8, "free": 0}, "whose it is cannot be told yet"
    pool.says(Lending())
    pool.desk.looked_at_all(["chat", "other"])
    pool.plant.look()
    assert pool.lent() == (LentSeen("w0", 8),)
    pool.says(Lending(recall=1))
    pool.plant.look()
    assert pool.plant.stop() == ["train"]


async def test_a_loan_is_the_gangs_own_where_a_controller_that_lends_nothing_takes_over() -> None:
    pool = Pool()
    pool.lend()
    pool.plant.desk = LoanDesk(is_open=False)
    pool.plant.begin()
    assert pool.owners("w0") == {"batch": 8, "free": 0}
    assert not pool.plant.books.room.runs.all["job/ns/train"].on_loan


async def test_a_shadow_of_batch_admission_lends_nothing() -> None:
    desk = LoanDesk(is_open=False)
    assert desk.lent_of("chat", 0.0) == ()
    plant = BatchPlant(NODES, guaranteed=16, desk=desk)
    plant.look()
    assert plant.books.room.bounds == {}


async def test_the_mark_is_left_out_of_placements_without_a_loan() -> None:
    plant = BatchPlant(NODES, guaranteed=16)
    plant.job("plain")
    plant.look()
    plant.start()
    assert msgspec.to_builtins(plant.work("plain").put[0]) == {"node": "w0", "shape": "h100", "pod_set": 0, "pods": 1}


async def test_pools_wait_for_what_is_lent_for_a_minute_and_not_for_batch_admission_that_cannot_read() -> None:
    desk = LoanDesk(is_open=True)
    assert [desk.lent_of("chat", at_s) for at_s in (0.0, 59.0, 60.0)] == [None, None, ()]


async def test_without_a_queue_what_is_lent_is_read_off_the_objects() -> None:
    pool = Pool()
    assert marked(pool.plant.cluster, pool.desk) == {}
    pool.lend()
    assert marked(pool.plant.cluster, pool.desk) == {"chat": (LentSeen("w0", 8),)}


async def test_the_pool_is_told_who_has_its_slots_from_the_start_of_the_gang_until_it_is_gone() -> None:
    pool = Pool()
    pool.job("train")
    pool.plant.look()
    assert pool.desk.loans_of("chat") == (), "its object does not say yet that it may run"
    pool.plant.start()
    pool.displaced("w0")
    pool.plant.pod("train-0", "w0", job="train", phase="Running")
    pool.plant.look()
    begun_s = pool.plant.books.room.runs.all["job/ns/train"].started_s
    assert pool.desk.loans_of("chat") == (LoanTold("job/ns/train", 8, begun_s, reclaim_s=60.0, notice_s=20.0),)
    why = PoolStep("loan", 1, 0, PoolReason.RECALLS, (("need_slots", 2), ("idle_slots", 0), ("reclaim_s", 60.0)))
    pool.says(Lending(recall=1, steps=(why,)))
    pool.plant.look()
    pool.plant.stop()
    (told,) = pool.desk.loans_of("chat") or ()
    assert (told.state, told.recalled_s) == (LoanState.RECALLED, pool.plant.now_s)
    assert told.why.startswith("1 on loan, 0 stay: demand may need 2 within the 60 s")
    pool.says(Lending(leaving=1))
    pool.plant.look()
    pool.plant.gone("train-0")
    pool.plant.look()
    assert pool.desk.loans_of("chat") == ()


async def test_until_when_a_loan_was_to_last_is_read_off_its_object_whatever_else_somebody_wrote_there() -> None:
    pool = Pool()
    pool.lend()
    for text, until_s in (
        ('{"expectedUntil":"2023-11-14T23:13:20Z"}', 1_700_003_600.0),
        ('{"expectedUntil":"soon"}', None),
        ("[]", None),
        ('{"expectedUntil":"0001-01-01T00:00:00"}', None),
        ('{"x":' + "[" * 100_000, None),
    ):
        pool.plant._objects["job/train"]["metadata"]["annotations"]["headroom.dev/loan"] = text
        pool.plant.edit("train")
        pool.plant.look()
        (told,) = pool.desk.loans_of("chat") or ()
        assert told.until_s == until_s, text[:60]


async def test_a_gang_that_leaves_its_loan_for_another_reason_was_not_called_back() -> None:
    pool = Pool()
    pool.lend()
    run = pool.plant.books.room.runs.all["job/ns/train"]
    pool.plant.books.room.evict(run, BatchReason.LOST, "", pool.plant.now_s)
    pool.plant.look()
    (told,) = pool.desk.loans_of("chat") or ()
    assert (told.state, told.recalled_s) == (LoanState.LEAVING, None)


@pytest.mark.parametrize(("taken", "left"), [("w0", "w1"), ("w1", "w0")])
async def test_what_a_pool_lacks_is_kept_where_there_is_room_and_not_where_it_is_looked_at_first(
    taken: str, left: str
) -> None:
    pool = Pool(Lending(missing=1), slots=())
    pool.plant.pod("serving-0", taken, phase="Running")
    pool.job("next", annotations={})
    pool.plant.look()
    assert pool.plant.start() == []
    assert pool.owners(left) == {"serving": 8, "free": 0}, "a slot of the pool waits for it"
    pool.says(Lending(missing=0))
    pool.plant.look()
    assert pool.plant.start() == ["next"]
