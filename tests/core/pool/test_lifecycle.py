"""A slot's stage is read off its pod, claim and node, and a slot that stays too long in one is given up."""

from dataclasses import replace
from typing import Any

import pytest

from autoscaler.core.pool.circuits import Circuit
from autoscaler.core.pool.clock import UNMEASURED_S, Stage
from autoscaler.core.pool.intents import CreateSlot, DeleteClaim, DeleteSlot
from autoscaler.core.pool.params import Sharing, SlotForm
from autoscaler.core.pool.reasons import PoolReason
from autoscaler.core.pool.view import look
from autoscaler.core.pool.world import World
from tests.core.pool.builders import (
    NOW_S,
    claim,
    demand,
    fleet,
    known,
    node,
    of,
    pool,
    slot,
    taken,
    warm,
    with_circuits,
    world,
)

LONG_AGO_S = NOW_S - 20_000.0

STARTS: dict[str, tuple[World, Stage]] = {
    "ordered": (world([slot()]), Stage.REQUESTED),
    "nominated, not launched": (world([slot(claim="c")], claims=(claim("c"),)), Stage.REQUESTED),
    "its claim is launched": (world([slot(claim="c")], claims=(claim("c", launched_s=NOW_S),)), Stage.NODE_LAUNCHED),
    "its node has joined": (
        world(
            [slot(claim="c")],
            claims=(claim("c", launched_s=NOW_S, registered_s=NOW_S, node="n"),),
            nodes=(node("n", claim="c", units=None),),
        ),
        Stage.REGISTERED,
    ),
    "its node's GPUs are there": (
        world(
            [slot(claim="c")],
            claims=(claim("c", launched_s=NOW_S, registered_s=NOW_S, node="n"),),
            nodes=(node("n", claim="c", gpu_ready_s=NOW_S),),
        ),
        Stage.GPU_READY,
    ),
    "its node's GPUs are there and gated": (
        world(
            [slot(claim="c")],
            claims=(claim("c", launched_s=NOW_S, registered_s=NOW_S, node="n"),),
            nodes=(node("n", claim="c", gpu_ready_s=NOW_S, gating_taints=("gpu",)),),
        ),
        Stage.REGISTERED,
    ),
    "bound": (world([slot(node="n", scheduled_s=NOW_S)]), Stage.GPU_READY),
    "images there": (world([slot(node="n", scheduled_s=NOW_S, images_s=NOW_S)]), Stage.IMAGE_PRESENT),
    "weights there and not ready": (
        world([slot(node="n", scheduled_s=NOW_S, images_s=NOW_S, weights_s=NOW_S)]), Stage.IMAGE_PRESENT),
    "warm": (world([warm()]), Stage.WEIGHTS_WARM),
    "marked": (world([warm(lease="ns/chat")]), Stage.LEASED),
    "marked before it is warm": (world([slot(lease="ns/chat")]), Stage.REQUESTED),
    "being deleted": (world([warm(deleting_s=NOW_S)]), Stage.DRAINING),
    "failed": (world([slot(node="n", scheduled_s=NOW_S, failed="ErrImagePull")]), Stage.FAILED),
    "past its deadline": (world([warm(deadline_s=NOW_S)]), Stage.EXPIRED),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "stage"), STARTS.values(), ids=STARTS)
def test_a_stage_is_read_off_what_is_there(seen: World, stage: Stage) -> None:
    assert look(pool(), seen, NOW_S).slots.stage.tolist() == [stage]


GONE: dict[str, tuple[World, PoolReason]] = {
    "no node in time": (world([slot(created_s=LONG_AGO_S)]), PoolReason.LATE_LAUNCH),
    "a node that does not join": (
        world([slot(created_s=LONG_AGO_S, claim="c")], claims=(claim("c", launched_s=LONG_AGO_S),)),
        PoolReason.LATE_REGISTRATION),
    "images that do not come": (
        world([slot(created_s=LONG_AGO_S, node="n", scheduled_s=LONG_AGO_S)]), PoolReason.LATE_IMAGE),
    "weights that do not come": (
        world([slot(created_s=LONG_AGO_S, node="n", scheduled_s=LONG_AGO_S, images_s=LONG_AGO_S)]),
        PoolReason.LATE_WEIGHTS),
    "a failed fetch": (world([slot(node="n", scheduled_s=NOW_S, failed="no such model")]), PoolReason.FAILED),
    "its deadline": (world([warm(deadline_s=NOW_S - 1.0)]), PoolReason.EXPIRED),
    "ended by its deadline": (
        world([warm(failed="DeadlineExceeded", ready_s=None, unready_s=NOW_S - 1.0)]), PoolReason.EXPIRED),
    "a tier that is no more": (world([warm(tier="gone")]), PoolReason.UNKNOWN_TIER),
    "a node that is gone": (world([warm()], nodes=()), PoolReason.NODE_LOST),
    "an interruption": (world([warm()], nodes=(node(interrupted=True),)), PoolReason.INTERRUPTED),
    "a cordon": (world([warm()], nodes=(node(cordoned=True),)), PoolReason.NODE_UNUSABLE),
    "a node whose disk is full": (world([warm()], nodes=(node(disk_full=True),)), PoolReason.DISK_FULL),
    "a pull that failed as the node's disk was full": (
        world([slot(node="n", scheduled_s=NOW_S, failed="Evicted")], nodes=(node("n", disk_full=True),)),
        PoolReason.DISK_FULL),
    "a node that is divided anew": (
        world([warm()], nodes=(node(sharing=Sharing.MIG, parts=7),)), PoolReason.NODE_UNUSABLE),
    "a node that was gated for long": (
        world([warm()], nodes=(node(gating_taints=("gpu",), unusable_since_s=NOW_S - 601.0),)),
        PoolReason.NODE_UNUSABLE),
    "a node whose GPUs are gone for long": (
        world([warm()], nodes=(node(units=0, unusable_since_s=NOW_S - 601.0),)), PoolReason.NODE_UNUSABLE),
    "other content under way": (world([slot(content="old")]), PoolReason.OUTDATED),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "reason"), GONE.values(), ids=GONE)
def test_a_slot_goes_with_a_reason(seen: World, reason: PoolReason) -> None:
    (gone,) = of(DeleteSlot, taken(pool(min_slots=1), seen))
    assert (gone.name, gone.uid, gone.reason) == ("p-0", "u-p-0", reason)


STAYS: dict[str, World] = {
    "ordered a moment ago": world([slot()]),
    "nearly too late for a launch": world([slot(created_s=NOW_S - UNMEASURED_S[0])]),
    "bound to a node that is not listed yet": world(
        [slot(node="n", created_s=NOW_S - 400.0, scheduled_s=NOW_S - 59.0)], nodes=()
    ),
    "gated for a moment": world([warm()], nodes=(node(gating_taints=("gpu",), unusable_since_s=NOW_S - 599.0),)),
    "on a node that was cut off a moment ago": world(
        [warm(age_s=7200.0, ready_s=None, unready_s=NOW_S - 5.0)],
        nodes=(node(ready=False, unusable_since_s=NOW_S - 5.0),),
    ),
    "on a node that was cut off for minutes": world(
        [warm(age_s=7200.0, ready_s=None, unready_s=NOW_S - 599.0)],
        nodes=(node(ready=False, unusable_since_s=NOW_S - 599.0),),
    ),
    "on a node that is back, itself not ready yet": world([warm(age_s=7200.0, ready_s=None, unready_s=NOW_S - 90.0)]),
    "pulling on a node that was cut off": world(
        [slot(node="n", created_s=LONG_AGO_S, scheduled_s=LONG_AGO_S)],
        nodes=(node("n", ready=False, unusable_since_s=NOW_S - 599.0),),
    ),
    "pulling on a node that is back": world(
        [slot(node="n", created_s=LONG_AGO_S, scheduled_s=LONG_AGO_S)], nodes=(node("n", ready_s=NOW_S - 100.0),)
    ),
    "on a node whose device plugin starts anew": world(
        [warm()], nodes=(node(units=0, unusable_since_s=NOW_S - 599.0),)
    ),
    "on a node that drifted": world([warm()], nodes=(node(drifted=True),)),
}


@pytest.mark.parametrize("seen", STAYS.values(), ids=STAYS)
def test_a_slot_that_is_not_late_stays(seen: World) -> None:
    assert of(DeleteSlot, taken(pool(min_slots=1), seen)) == []


def test_slots_that_were_warm_and_end_with_their_nodes_say_nothing_of_images_and_weights() -> None:
    """As a cut of some minutes shows it, and the end of slots that nobody minded: no pod that ended is ready."""
    cut = fleet(3, age_s=7200.0, ready_s=None, unready_s=NOW_S - 700.0)
    dark = tuple(node(f"n-p-{at}", ready=False, unusable_since_s=NOW_S - 700.0) for at in range(3))
    for seen in (world(cut, nodes=dark), world(fleet(3, failed="DeadlineExceeded", ready_s=None, unready_s=NOW_S))):
        done = taken(pool(min_slots=3), seen)
        assert len(of(DeleteSlot, done)) == len(of(CreateSlot, done)) == 3
        assert done.state.circuits.content == Circuit()
        assert done.state.clock.outcomes == ()


def late_gpu(**of_node: object) -> World:
    fields: dict[str, Any] = {"claim": "c", "units": None, "created_s": LONG_AGO_S, **of_node}
    seen = claim("c", launched_s=LONG_AGO_S, registered_s=LONG_AGO_S, node="n")
    return world([slot(created_s=LONG_AGO_S, claim="c")], claims=(seen,), nodes=(node("n", **fields),))


def test_a_node_whose_gpus_never_come_loses_slot_and_claim() -> None:
    done = taken(pool(min_slots=1), late_gpu())
    assert [gone.reason for gone in of(DeleteSlot, done)] == [PoolReason.LATE_GPU]
    assert [(gone.name, gone.node_pool) for gone in of(DeleteClaim, done)] == [("c", "np-first")]


def test_a_claim_is_not_deleted_under_a_pod_of_somebody_else() -> None:
    done = taken(pool(min_slots=1), late_gpu(foreign_pods=1))
    assert [gone.reason for gone in of(DeleteSlot, done)] == [PoolReason.LATE_GPU]
    assert of(DeleteClaim, done) == []


def test_no_further_claim_is_deleted_once_gpus_fail_on_every_new_node() -> None:
    quarantined = with_circuits(known(), gpus={"first": Circuit(opened=1, until_s=NOW_S + 60.0)})
    done = taken(pool(min_slots=1), late_gpu(), quarantined)
    assert [gone.reason for gone in of(DeleteSlot, done)] == [PoolReason.LATE_GPU]
    assert of(DeleteClaim, done) == []
    counts = dict(taken(pool(), replace(late_gpu(), slots=(slot(claim="c"),)), quarantined).decision.by_stage)
    assert (counts["quarantined"], counts["registered"]) == (1, 0)


def test_a_claim_that_no_slot_of_ours_was_on_is_never_deleted() -> None:
    seen = claim("other", launched_s=LONG_AGO_S, registered_s=LONG_AGO_S, node="n")
    done = taken(pool(min_slots=1), world(claims=(seen,), nodes=(node("n", claim="other", units=None),)))
    assert of(DeleteClaim, done) == []


def test_a_warm_slot_on_a_gated_node_counts_no_more() -> None:
    gated = world([warm()], nodes=(node(gating_taints=("readiness.k8s.io/gpu",)),))
    assert taken(pool(min_slots=1), gated).decision.supply == 0
    assert taken(pool(min_slots=1), world([warm()])).decision.supply == 1


FITS: dict[str, tuple[dict[str, Any], SlotForm, bool]] = {
    "a whole GPU": ({}, SlotForm(), True),
    "seven of eight for one": ({"units": 7, "expected_units": 8}, SlotForm(), True),
    "seven of eight for eight": ({"units": 7, "expected_units": 8}, SlotForm(count=8), False),
    "a time-sliced GPU for a whole one": ({"units": 4, "sharing": Sharing.TIME_SLICING, "parts": 4}, SlotForm(), False),
    "a time-sliced GPU for a slice": (
        {"units": 4, "sharing": Sharing.TIME_SLICING, "parts": 4},
        SlotForm(sharing=Sharing.TIME_SLICING, parts=4), True),
    "an old driver": ({"driver": (570, 1)}, SlotForm(min_driver=(580,)), False),
    "a driver that is new enough": ({"driver": (580, 65)}, SlotForm(min_driver=(580,)), True),
    "a driver that nobody tells": ({}, SlotForm(min_driver=(580,)), False),
    "an old CUDA": ({"cuda": (12, 4)}, SlotForm(min_cuda=(12, 8)), False),
    "a failed validation": ({"validated": False}, SlotForm(), False),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "form", "fits"), FITS.values(), ids=FITS)
def test_a_slot_counts_where_its_node_fits(fields: dict[str, Any], form: SlotForm, fits: bool) -> None:
    seen = world([warm()], nodes=(node(**fields),))
    assert taken(pool(slot=form), seen).decision.warm == int(fits)


UNTOLD: dict[str, tuple[dict[str, Any], SlotForm]] = {
    "its driver": ({}, SlotForm(min_driver=(580,))),
    "its CUDA": ({"driver": (580,)}, SlotForm(min_driver=(580,), min_cuda=(12, 8))),
    "how its GPUs are divided": ({"labelled": False}, SlotForm(sharing=Sharing.TIME_SLICING, parts=4)),
}


@pytest.mark.parametrize(("fields", "form"), UNTOLD.values(), ids=UNTOLD)
def test_a_node_has_ten_minutes_to_tell_what_slots_need_to_know(fields: dict[str, Any], form: SlotForm) -> None:
    """A slot is bound as soon as GPUs are there; feature discovery labels the node up to a minute later."""
    params, bound = pool(slot=form, min_slots=1), slot(node="n", scheduled_s=NOW_S - 20.0)
    young = node("n", created_s=NOW_S - 120.0, **fields)
    assert taken(params, world([bound], nodes=(young,))).intents == ()
    old = replace(young, unusable_since_s=NOW_S - 601.0)
    late = slot(node="n", created_s=NOW_S - 620.0, scheduled_s=NOW_S - 610.0)
    (gone,) = of(DeleteSlot, taken(params, world([late], nodes=(old,))))
    assert gone.reason is PoolReason.NODE_UNUSABLE


def test_stages_are_counted_for_the_status() -> None:
    seen = world([*fleet(3), slot("p-3"), warm("p-4", deleting_s=NOW_S)], demand=(demand(2.0),))
    counts = dict(taken(pool(), seen).decision.by_stage)
    assert (counts["weights_warm"], counts["requested"], counts["draining"], counts["failed"]) == (3, 1, 1, 0)
