"""The board: the newest of every workload, what was done about it, and why it stands where it stands."""

import json

import pytest

from autoscaler.core.reasons import Reason
from autoscaler.core.types import Decision, GatewayReading, Readings, ReplicaReading, Step, Verdict
from autoscaler.core.view import View
from autoscaler.record.board import CHANGES, Board
from autoscaler.record.status import About, ActRecord, Condition, Problem
from autoscaler.record.stream import Aim, WorkloadFrame
from autoscaler.runtime.actuator import Act, Outcome
from autoscaler.runtime.records import Event, Stepped
from autoscaler.runtime.triggers import Cause
from tests.runtime.bench import target

AIM = Aim(slo_wait_s=10.0, min_replicas=1, max_replicas=9, tick_s=5.0, mode="Paused", gpus_per_replica=2)
ABOUT = About(
    kind="Deployment", way="ScalingPolicy", policy="chat", mode="Paused", mode_until_s=1764201600.0,
    conditions=(Condition("SignalsFresh", "False", "Held", "the queue is 40 s old"),),
    obstacle="HPA chat scales it too", remarks=("a VPA works on the same pods",),
    problems=(Problem("metrics timeout: no answer within 2 s", "see the log"),),
)  # fmt: skip


def step(now_s: float = 100.0, before: int = 4, after: int = 4, workload: str = "prod/chat") -> Stepped:
    """A step of a calm workload that holds, or that scales to what its load needs."""
    scales = before != after
    reason = Reason.DEMAND_NOW if scales else Reason.STEADY
    trace = (Step("demand", before, after, Reason.DEMAND_NOW, (("load_rps", 12.0),)),)
    verdict = Verdict.SCALE if scales else Verdict.HOLD
    decision = Decision(workload, now_s, before, after, verdict, reason, trace, now_s + 5.0)
    view = View(
        workload, now_s, 12.0, 3.0, before, 0, after, 4.0, "proven", 60.0, 90.0, 3, 19.0, 15.0, "last", 0.97, 0.96, (),
        (), 0.1, 0.0, (("queue", "fresh", 0.0),), None,
    )  # fmt: skip
    readings = Readings(now_s, ReplicaReading(before, before), gateway=GatewayReading(3.0, 100.0))
    return Stepped(decision, readings, view, Cause.DUE, target().params)


def act(now_s: float = 100.4, outcome: Outcome = Outcome.APPLIED, workload: str = "prod/chat", **given: str) -> Act:
    return Act(workload, now_s, 100.0, 4, 9, outcome, **given)


def test_a_step_becomes_a_frame_with_the_mode_and_is_counted() -> None:
    board = Board()
    frame = board.stepped(step(), AIM, 100.3)
    assert isinstance(frame, WorkloadFrame)
    assert (frame.mode, frame.gpus_per_replica, frame.tick_s) == ("Paused", 2, 5.0)
    assert board.frames() == {"prod/chat": frame}
    counts = board.tally.counts()
    assert counts.decisions == {("prod/chat", "HOLD", "STEADY"): 1}
    assert counts.step_lag.sum_s == pytest.approx(0.3)


def test_an_act_is_kept_and_only_a_patch_has_a_duration() -> None:
    board = Board()
    board.stepped(step(100.0, 4, 9), AIM, 100.0)
    board.acted(act(outcome=Outcome.SHADOWED))
    board.acted(act(102.0, outcome=Outcome.REFUSED, message="403 forbidden"))
    assert board.act("prod/chat") == ActRecord(102.0, 4, 9, "REFUSED", "refused", "403 forbidden")
    assert sum(board.tally.counts().patch_lag.counts) == 0
    board.acted(act(100.4))
    assert board.tally.counts().patch_lag.sum_s == pytest.approx(0.4)
    assert {key[1] for key in board.tally.counts().acts} == {"SHADOWED", "REFUSED", "APPLIED"}


def test_notes_are_counted_by_their_code() -> None:
    board = Board()
    board.noted(Event.SOURCE_LOST)
    assert board.tally.counts().notes == {"SOURCE_LOST": 1}


def test_a_workload_that_is_forgotten_leaves_nothing_behind_even_if_a_late_act_comes() -> None:
    board = Board()
    board.stepped(step(), AIM, 100.0)
    board.forget("prod/chat")
    board.forget("prod/none")
    assert (board.frames(), board.frame("prod/chat"), board.act("prod/chat")) == ({}, None, None)
    assert board.tally.counts().decisions == {}
    board.acted(act())
    assert board.act("prod/chat") is None


def test_an_explanation_says_why_what_was_done_and_what_is_in_the_way() -> None:
    board = Board()
    board.stepped(step(95.0, 2, 4), AIM, 95.0)
    board.acted(act(95.4))
    board.stepped(step(100.0), AIM, 100.0)
    told = board.explanation("prod/chat", ABOUT, 107.0)
    assert told.text.splitlines() == [
        "00:01:40  prod/chat  4 → 4  HOLD  STEADY",
        "  demand       4 → 4  DEMAND_NOW: 4 needed for the present load of 12 requests/s",
        "                        present load: 12 requests/s",
        "  mode: Paused until 2025-11-27 00:00:00Z (Deployment, by ScalingPolicy chat)",
        "  last act: 00:01:35 4→9: applied",
        "  obstacle: HPA chat scales it too",
        "  problem: metrics timeout: no answer within 2 s",
        "  SignalsFresh=False: Held: the queue is 40 s old",
        "  remark: a VPA works on the same pods",
        "  recent changes:",
        "    00:01:35 prod/chat 2→4: 4 needed for the present load of 12 requests/s",
    ]
    assert json.loads(bytes(told.decision or b""))["reason"] == "STEADY"
    assert [json.loads(bytes(change))["replicas"] for change in told.changes] == [4]


def test_before_the_first_decision_an_explanation_says_so_and_why() -> None:
    told = Board().explanation("prod/chat", ABOUT, 100.0)
    assert told.text.splitlines()[0] == "prod/chat: nothing was decided yet"
    assert "  problem: metrics timeout: no answer within 2 s" in told.text.splitlines()
    assert (told.decision, told.changes) == (None, ())


def test_only_the_last_changes_are_kept() -> None:
    board = Board()
    for number in range(CHANGES + 5):
        board.stepped(step(float(number), number, number + 1), AIM, float(number))
        board.stepped(step(number + 0.5, number + 1, number + 1), AIM, number + 0.5)
    changes = board.explanation("prod/chat", None, 99.0).changes
    assert [json.loads(bytes(change))["replicas"] for change in changes] == list(range(6, CHANGES + 6))


def test_a_decision_that_is_not_acted_upon_and_comes_again_is_one_change() -> None:
    board = Board()
    for number in range(5):
        board.stepped(step(5.0 * number, 4, 6), AIM, 5.0 * number)
    board.stepped(step(25.0, 4, 7), AIM, 25.0)
    changes = board.explanation("prod/chat", None, 99.0).changes
    assert [(json.loads(bytes(change))["now_s"], json.loads(bytes(change))["replicas"]) for change in changes] == [
        (0.0, 6),
        (25.0, 7),
    ]
