"""Nodes on their way, as batch work counts on them: a gang waits for one, says so, starts there and nowhere before.

Nodes come because somebody's pods wait, so that only what those leave is anybody else's.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from autoscaler.app.batch_look import Look
from autoscaler.app.loan_desk import LoanDesk, Offer, Terms
from autoscaler.core.pool.loans import Lending
from autoscaler.record.batch import BatchCounts, GangState, GangTold
from autoscaler.record.batch_words import gang_page, sentence
from tests.app.batch_plant import START_S, BatchPlant

pytestmark = pytest.mark.looptime

LONG = {"headroom.dev/expected-duration": "10h"}
P5 = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
SLOT = {"app.kubernetes.io/managed-by": "headroom", "headroom.dev/pool": "chat"}
SERVES = "serving-0"


def iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def comes(plant: BatchPlant, name: str = "new", made_s: float | None = None, gpus: int = 0, **more: Any) -> None:
    """A node is there as an object: without GPUs, labels of them, or anything ready."""
    sound: dict[str, Any] = {"product": "", "ready": False, "labels": P5, "taints": [NOT_READY]} | more
    plant.node(name, gpus, made_s=plant.now_s if made_s is None else made_s, **sound)


def arrives(plant: BatchPlant, name: str = "new", made_s: float = START_S) -> None:
    """It can be used."""
    plant.node(name, 8, made_s=made_s, labels=P5)


def full(**more: Any) -> BatchPlant:
    """A node of eight GPUs that runs a gang for ten hours; nodes of its kind are known by it."""
    plant = BatchPlant({}, **more)
    runs(plant)
    return plant


def runs(plant: BatchPlant) -> None:
    plant.node("n0", 8, labels=P5, made_s=START_S)
    plant.job("runs", annotations=LONG)
    plant.look(0.0)
    assert plant.start() == ["runs"]
    plant.pod("runs-0", "n0", job="runs", phase="Running")
    plant.look(0.0)


async def later(plant: BatchPlant, after_s: float) -> None:
    """Look a while later, by whoever hears of nodes as well."""
    await asyncio.sleep(after_s)
    plant.look(after_s)


def told(plant: BatchPlant, name: str = "train") -> GangTold:
    return Look(plant.books, plant.tree, plant.now_s).gang(f"job/ns/{name}")


def waits_s(plant: BatchPlant, name: str = "train") -> tuple[float, float]:
    """From now to the expected start of a gang: as often as not, and in nine of ten cases."""
    found = told(plant, name)
    assert found.start_p50_s is not None
    assert found.start_p90_s is not None
    return found.start_p50_s - plant.now_s, found.start_p90_s - plant.now_s


async def test_a_gang_waits_for_a_node_on_its_way_says_so_and_starts_there_once_it_can_be_used() -> None:
    plant = full()
    plant.job("train")
    plant.look(0.0)
    assert waits_s(plant) == (36_000.0, 54_000.0)
    assert told(plant).awaits == ()
    comes(plant)
    plant.look(0.0)
    assert waits_s(plant) == (150.0, 300.0), "half of such nodes take as long, and nine of ten"
    words = sentence(told(plant), plant.now_s)
    assert words.endswith("within 5 min, counting on 8 h100 of node new, which is on its way")
    assert "counts on: 8 h100 of node new, expected 2023-11-14 22:15:50Z" in gang_page(told(plant), plant.now_s)
    assert (plant.due(), plant.free()) == ([], {"n0": 0, "new": 0})
    plant.look(60.0)
    comes(plant, made_s=START_S, gpus=8)  # its device plugin is there before it is ready
    plant.look(30.0)
    assert (plant.due(), waits_s(plant)[0]) == ([], 60.0)
    arrives(plant)
    plant.look(10.0)
    assert plant.start() == ["train"]
    assert [put.node for put in plant.work("train").put] == ["new"]


async def test_a_late_node_is_expected_soon_again_and_again_and_then_not_at_all_though_nothing_is_heard() -> None:
    plant = full()
    comes(plant)
    plant.job("train")
    plant.look(149.0)
    assert waits_s(plant)[0] == 1.0
    plant.look(2.0)
    assert waits_s(plant)[0] == pytest.approx(0.1 * 151.0 + 1.0), "a tenth of what it has taken so far"
    moves = set()
    while plant.now_s < START_S + 595.0:
        plant.look(4.0)
        assert told(plant).awaits
        moves.add(told(plant).start_p50_s)
    assert len(moves) <= 15, "and not another instant at each look"
    plant.look(10.0)
    assert told(plant).awaits == ()
    assert waits_s(plant)[0] > 30_000.0
    arrives(plant)
    plant.look(0.0)
    assert plant.start() == ["train"], "it comes all the same"


async def test_how_long_nodes_take_is_learnt_from_those_that_come() -> None:
    plant = full()
    plant.job("train", pods=2)
    for name in ("old0", "old1", "old2"):
        comes(plant, name)
    for name, after_s in (("old0", 40.0), ("old1", 20.0), ("old2", 20.0)):
        await later(plant, after_s)
        arrives(plant, name)
        plant.lose(name)
    comes(plant, "a")
    comes(plant, "b")
    plant.look(0.0)
    assert waits_s(plant) == pytest.approx((60.0, 76.0))
    assert "counting on 16 units of 2 nodes that are on their way, such as a" in sentence(told(plant), plant.now_s)


PENDING: dict[str, tuple[dict[str, Any], float]] = {
    "a replica that waits for it": ({"name": SERVES, "gpus": 8}, 36_000.0),
    "a stranger that leaves too little": ({"name": "alien", "gpus": 1}, 36_000.0),
    "a warm slot": ({"name": "slot", "namespace": "slots", "labels": SLOT}, 36_000.0),
    "one that holds a gang's place": (
        {
            "name": "holds", "namespace": "slots", "labels": SLOT | {"headroom.dev/gang-uid": "else"},
            "annotations": {"headroom.dev/gang": "job/ns/else"},
        },
        36_000.0,
    ),
    "a label that may come yet": ({"name": SERVES, "nodeSelector": {"nvidia.com/gpu.product": "H100"}}, 36_000.0),
    "one that may not go there": ({"name": SERVES, "nodeSelector": {"kubernetes.io/hostname": "n7"}}, 150.0),
    "one that no node of eight could take": ({"name": SERVES, "gpus": 16}, 150.0),
    "one behind a gate": ({"name": SERVES, "schedulingGates": [{"name": "example.com/hold"}]}, 150.0),
    "one that asks for no GPU": ({"name": SERVES, "gpus": 0}, 150.0),
    "one that is bound elsewhere": ({"name": SERVES, "node": "n9"}, 150.0),
    "one that is over": ({"name": SERVES, "phase": "Failed"}, 150.0),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "start_s"), PENDING.values(), ids=PENDING)
async def test_what_others_wait_for_a_node_with_is_theirs(pod: dict[str, Any], start_s: float) -> None:
    plant = full()
    plant.job("train")
    comes(plant)
    plant.pod(**pod)
    plant.look(0.0)
    assert waits_s(plant)[0] == start_s
    assert plant.due() == []


async def test_only_what_others_leave_of_the_nodes_that_come_first_is_counted_on() -> None:
    """Twelve GPUs are waited for with whole pods, and the first node and half of the second are theirs."""
    plant = full()
    plant.job("train", gpus=4)
    plant.job("wide", gpus=8)
    comes(plant, "second", made_s=START_S)
    comes(plant, "first", made_s=START_S - 30.0)
    plant.pod("serving-a", gpus=4)
    plant.pod("serving-b", gpus=8)
    plant.look(0.0)
    found = told(plant, "train")
    assert [(each.node, each.units) for each in found.awaits] == [("second", 4)]
    owners = plant.books.room.ledger.owners
    assert owners("first", "h100") == {"serving": 8, "free": 0}
    assert owners("second", "h100") == {"serving": 4, "unavailable": 4, "free": 0}
    assert waits_s(plant, "wide")[0] == 36_000.0


async def test_a_replica_has_its_turn_on_the_node_that_came_for_it_and_a_gang_what_is_left() -> None:
    plant = full()
    plant.job("train")
    plant.job("small", gpus=2)
    comes(plant)
    plant.pod(SERVES, gpus=6)
    await later(plant, 100.0)
    arrives(plant)
    await later(plant, 0.5)
    assert plant.due() == [], "the scheduler binds the replica in a moment"
    plant.pod(SERVES, "new", gpus=6, phase="Running")
    await later(plant, 0.5)
    assert plant.start() == ["small"]
    assert plant.books.room.ledger.owners("new", "h100") == {"serving": 6, "batch": 2, "free": 0}


async def test_a_replica_that_comes_after_the_node_has_no_turn_there() -> None:
    """A turn of its own would make the node one that nobody may start on, and take the gang's place for its own."""
    plant = full()
    plant.job("small", gpus=4)
    comes(plant)
    await later(plant, 100.0)
    arrives(plant)
    await later(plant, 0.5)
    assert plant.start() == ["small"]
    plant.pod(SERVES, gpus=8)
    await later(plant, 0.5)
    assert (plant.stop(), plant.free()["new"]) == ([], 4)


async def test_a_pod_that_does_not_take_its_turn_keeps_nobody_off_for_long() -> None:
    plant = full()
    plant.job("train")
    comes(plant)
    plant.pod(SERVES)
    await later(plant, 100.0)
    arrives(plant)
    await later(plant, 14.0)
    assert plant.due() == []
    await later(plant, 1.0)
    assert plant.start() == ["train"]


CHEAPER: dict[str, tuple[float, float | None, list[str]]] = {
    "an hour's work would be lost for a node that comes in 15 minutes": (3600.0, None, []),
    "five minutes' work would be lost": (300.0, None, ["runs"]),
    "an hour's work, as far as its last checkpoint, is safe": (3600.0, 30.0, ["runs"]),
}


@pytest.mark.parametrize(("ran_s", "checkpoint_ago_s", "stopped"), CHEAPER.values(), ids=CHEAPER)
async def test_preemption_waits_for_a_node_on_its_way_where_that_is_cheaper(
    ran_s: float, checkpoint_ago_s: float | None, stopped: list[str]
) -> None:
    plant = BatchPlant({}, guaranteed=16)
    comes(plant, "n0", gpus=8)
    await later(plant, 900.0)
    runs(plant)
    plant.classes(urgent=-15)
    await later(plant, ran_s)
    if checkpoint_ago_s is not None:
        plant.annotate("runs", {"headroom.dev/last-checkpoint": iso(plant.now_s - checkpoint_ago_s)})
    comes(plant)
    plant.job("urgent", priority_class="urgent", creationTimestamp=iso(plant.now_s))
    plant.look()
    assert plant.stop() == stopped
    if not stopped:
        assert waits_s(plant, "urgent")[0] == 899.0
        plant.lose("new")
        plant.look(3.0)
        assert plant.stop() == ["runs"], "with no node to wait for"


async def test_labels_and_devices_that_a_node_lacks_yet_make_nobody_unfit() -> None:
    plant = BatchPlant({})
    plant.node("n0", 8, labels=P5, others={"example.com/nic": "8"})
    for name, more in (("chooses", {"nodeSelector": {"nvidia.com/gpu.product": "H100"}}), ("wires", {})):
        plant.job(name, gpus=16)
        box = {"resources": {"limits": {"nvidia.com/gpu": "8", **({} if more else {"example.com/nic": "8"})}}}
        template = plant.template(name)
        plant.edit(
            name, template={"spec": {**template["spec"], "containers": [box], **more}}, parallelism=2, completions=2
        )
    plant.look(0.0)
    states = []
    for gpus, ready in ((0, False), (8, False)):
        comes(plant, gpus=gpus, ready=ready)
        plant.look()
        states += [told(plant, name).state for name in ("chooses", "wires")]
    assert states == [GangState.WAITING] * 4
    plant.node("new", 8, made_s=START_S, labels=P5, others={"example.com/nic": "8"})
    plant.look()
    assert len(plant.start()) == 1


async def test_a_node_that_never_comes_changes_nothing_that_is_said_of_queues() -> None:
    """The queue is guaranteed 16 of 8: that is so before, while and after a node may come."""
    plant = full(guaranteed=16)
    said = []
    for after_s in (0.0, 10.0, 700.0):
        if after_s == 10.0:
            comes(plant)
        plant.look(after_s)
        look = Look(plant.books, plant.tree, plant.now_s).told(acting=True, idle="", counts=BatchCounts(), cycle_s=None)
        said.append([queue.findings for queue in look.queues])
    assert said[0][0][0][0] == "BeyondCapacity"
    assert said[1:] == said[:1] * 2


@pytest.mark.parametrize("holds", [False, True])
async def test_a_slot_that_waits_for_a_node_keeps_no_other_one_of_its_pool(holds: bool) -> None:
    """The pool lacks one slot. Where that waits for the node that comes, the node that is free is not kept for it; it
    is where only what holds a gang's place waits."""
    desk = LoanDesk(is_open=True)
    plant = full(desk=desk, slot_class="slot")
    plant.classes(slot=-10)
    nodes = frozenset({"new", "spare"})
    comes(plant)
    plant.node("spare", 8, labels=P5)
    notes = {"headroom.dev/gang": "job/ns/else"} if holds else {}
    labels = SLOT | ({"headroom.dev/gang-uid": "else"} if holds else {})
    plant.pod("slot", namespace="slots", labels=labels, annotations=notes)
    desk.looked("chat", Offer(Terms("nvidia.com/gpu", 8), nodes, Lending(missing=1), desk.lent_version))
    desk.looked_at_all()
    plant.job("train")
    plant.look()
    assert plant.books.room.ledger.owners("new", "h100") == {"foreign" if holds else "standby": 8, "free": 0}
    assert plant.start() == ([] if holds else ["train"])
    assert plant.free()["spare"] == 0
