"""Batch work in words, rows and metrics: from one look, and the same for the same look."""

from dataclasses import replace

import pytest

from autoscaler.core.batch.reasons import BatchReason
from autoscaler.record.batch import AwaitedTold, ChangeTold, GangState, GangTold, QueueTold
from autoscaler.record.batch_lines import batch_lines, first
from autoscaler.record.batch_metrics import BATCH, OWNERS, batch_families
from autoscaler.record.batch_words import CHANGES, change, gang_page, means, queue_page, queue_sentence, sentence
from autoscaler.record.families import Kind
from tests.record.batches import ALIEN, BIG, BROKEN, NEXT, NOON_S, RUNS, TOLD, VISION, WRONG, gang

NEW = AwaitedTold("new", "h100", 8, NOON_S + 60)

SENTENCES = {
    "waits for room, with a forecast": (
        BIG,
        ("waits, place 1 in queue vision: not enough free units (8 more free units of h100); expected to start in 20"
         " min, in nine of ten cases within 50 min")),
    "waits for quota, without hope": (
        NEXT,
        ("waits, place 2 in queue vision: others use what could be borrowed (16 units that others give back, or a"
         " higher guarantee of queue vision); nothing that is known lets it start")),
    "waits behind another": (
        gang("x", reason="BEHIND", position=3, start_p50_s=NOON_S + 60),
        "waits, place 3 in queue vision: waits behind the first of its queue; expected to start in 60 s"),
    "a start that should have been": (
        gang("x", reason="LEAVING", start_p50_s=NOON_S - 60),
        "waits: waits for others to leave; expected to start in 0 s"),
    "counts on a node": (
        gang("x", reason="ROOM", start_p50_s=NOON_S + 60, start_p90_s=NOON_S + 90, awaits=(NEW,)),
        ("waits: not enough free units; expected to start in 60 s, in nine of ten cases within 90 s, counting on 8 h100"
         " of node new, which is on its way")),
    "counts on several": (
        gang("x", reason="ROOM", start_p50_s=NOON_S + 60, awaits=(NEW, AwaitedTold("more", "h100", 4, NOON_S + 50))),
        ("waits: not enough free units; expected to start in 60 s, counting on 12 units of 2 nodes that are on their"
         " way, such as new")),
    "runs on a loan": (RUNS, "runs since 5 min: on GPUs that serving lends, 8 of its units lent by serving"),
    "starts": (gang("x", GangState.STARTING, reason="FITS", started_s=NOON_S), "starts since 0 s: fits within quota"),
    "leaves": (
        gang("x", GangState.LEAVING, reason="RECALLED", detail="30 s of notice"),
        "leaves: serving takes its GPUs back; 30 s of notice"),
    "is refused": (WRONG, "refused: headroom.dev/min-width: '0'; give a whole number of pods"),
    "is somebody else's": (ALIEN, "left alone: Kueue manages it (kueue.x-k8s.io/queue-name)"),
}  # fmt: skip


@pytest.mark.parametrize(("told", "words"), SENTENCES.values(), ids=SENTENCES)
def test_a_gang_says_in_one_sentence_how_it_does(told: GangTold, words: str) -> None:
    assert sentence(told, NOON_S).startswith(words)


WAITS = ("LIMIT", "QUOTA", "UNLENT", "ROOM", "FRAGMENTED", "CORES", "TOPOLOGY", "TOO_LARGE")
NARROW = "LEAVING"
"""What a gang lacks besides that started narrower than it may be."""


def test_whatever_a_gang_may_lack_has_words_of_its_own() -> None:
    assert set(CHANGES) == {*WAITS, NARROW}
    for reason in (*WAITS, NARROW):
        assert reason in BatchReason.__members__
        assert {"8", "there"} <= set(change(ChangeTold(reason, "there", 8)).replace(":", " ").replace(",", " ").split())


def test_a_code_of_another_reader_is_its_own_meaning() -> None:
    assert means("SUSPENDED_BY_OTHERS") == "SUSPENDED_BY_OTHERS"
    assert change(ChangeTold("BEHIND", "vision", 0)) == "waits behind the first of its queue"


def test_the_page_of_a_gang_tells_what_would_have_to_change_and_when() -> None:
    assert gang_page(BIG, NOON_S).splitlines() == [
        "2026-11-28 11:00:00Z  job/lab/big  waits  ROOM",
        "  " + sentence(BIG, NOON_S),
        "  asks for 16 h100 in 2 pods, in queue vision, since 10 min",
        "  would start with: 8 more free units of h100",
        "  start: 2026-11-28 11:20:00Z as often as not",
        "  start: by 2026-11-28 11:50:00Z in nine of ten cases",
    ]


def test_the_page_of_a_gang_that_runs_tells_where_and_what_it_has_been_through() -> None:
    many = replace(RUNS, nodes=tuple(f"n{at}" for at in range(10)), end_p50_s=NOON_S + 60, remarks=("a remark",))
    lines = gang_page(many, NOON_S).splitlines()
    assert lines[-3:] == [
        "  nodes: n0, n1, n2, n3, n4, n5, n6, n7 and 2 more",
        "  gave way once so far",
        "  note: a remark",
    ]


QUEUES = {
    "served": (VISION, "1 running, 2 waiting; 16 h100 in use, 16 guaranteed, 64 at most"),
    "left out": (BROKEN, "not served: spec.parent: there is no BatchQueue 'nobody'; make it"),
    "held": (replace(VISION, held=True, shapes=()), "served as before its last change; 1 running, 2 waiting; no units"),
}


@pytest.mark.parametrize(("queue", "words"), QUEUES.values(), ids=QUEUES)
def test_a_queue_says_in_one_sentence_how_it_does(queue: QueueTold, words: str) -> None:
    assert queue_sentence(queue).startswith(words)


def test_the_page_of_a_queue_tells_of_its_gangs() -> None:
    lines = queue_page(replace(VISION, used_gpu_s=7200.0), TOLD).splitlines()
    assert lines[1:4] == [
        "  below research, weight 2, share 12.5 % by weight",
        "  used: 2 GPU-hours, those of a day ago counting half",
        "  namespaces: those of the queues above it",
    ]
    assert [line.split(":")[0].strip() for line in lines[4:]] == [
        "job/lab/big", "job/lab/next", "job/lab/runs", "job/lab/wrong", "job/lab/alien",
    ]  # fmt: skip


def test_rows_begin_with_what_is_wrong_and_end_with_who_waits_longest() -> None:
    lines = batch_lines(TOLD)
    assert [(q.queue, q.depth, q.state) for q in lines.queues] == [
        ("research", 0, "served"), ("vision", 1, "served"), ("broken", 0, "not served"),
    ]  # fmt: skip
    assert [g.gang for g in lines.gangs] == [f"job/lab/{n}" for n in ("wrong", "runs", "big", "next", "alien")]
    big = lines.gangs[2]
    assert (big.position, big.wait_p50_s, big.wait_p90_s, big.age_s) == (1, 1200, 3000, 600)
    assert big.changes == ("8 more free units of h100",)
    assert lines.lost_gpu_h == 2
    assert next((one.gangs, one.means) for one in lines.waiting) == (1, "not enough free units")


def test_a_page_is_told_the_first_rows_and_how_many_follow() -> None:
    lines = batch_lines(TOLD)
    assert first(lines, 5) is lines
    shown = first(lines, 2)
    assert ([g.gang for g in shown.gangs], shown.more) == (["job/lab/wrong", "job/lab/runs"], 3)


def test_a_queue_with_a_contradiction_that_stops_nothing_says_so() -> None:
    found = replace(TOLD, queues=(replace(VISION, findings=(("NoNamespace", "words"),)),))
    assert batch_lines(found).queues[0].state == "contradicts"


def test_every_metric_has_a_value_where_all_is_known() -> None:
    made = {family.metric: family.values for family in batch_families(TOLD)}
    assert set(made) == set(BATCH)
    assert all(made.values())
    for metric, values in made.items():
        assert all(len(labels) == len(metric.labels) for labels in values)
        assert metric.name.startswith("headroom_batch_")
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    by_name = {metric.name: values for metric, values in made.items()}
    assert by_name["headroom_batch_fragmented_ratio"] == {("h100",): 0.75}
    assert by_name["headroom_batch_waiting_gangs"] == {("ROOM",): 1, ("QUOTA",): 1}
    assert by_name["headroom_batch_refused_gangs"] == {("ABSURD",): 1}
    units = by_name["headroom_batch_units"]
    assert [units["h100", owner] for owner in OWNERS] == [24, 0, 8, 8, 8, 4, 4, 8]


def test_what_is_not_known_has_no_series() -> None:
    assert list(batch_families(None)) == []
    bare = replace(TOLD, owners=(replace(TOLD.owners[0], free=0, whole_free=0),), cycle_s=None)
    made = {family.metric.name: family.values for family in batch_families(bare)}
    assert made["headroom_batch_fragmented_ratio"] == {}
    assert made["headroom_batch_cycle_seconds"] == {}
    assert ("broken",) not in made["headroom_batch_queue_share_ratio"]
