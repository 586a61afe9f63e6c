"""What KEDA is answered for a workload: from its claim, its mode and its last decision, or why there is no number."""

from dataclasses import replace

import pytest

from autoscaler.adapters.keda.answers import Refusal, Refused, Served
from autoscaler.adapters.kube.scaling import Target, TargetSpec, TargetStatus
from autoscaler.api.claims import Reject, Rejection, Way
from autoscaler.api.modes import Mode
from autoscaler.runtime.actuator import Act, Outcome
from autoscaler.runtime.records import Feed
from tests.app.keda_bench import CHAT, KEY, NEVER, Bench, Known, claim
from tests.kube.test_hpas import hpa


def test_the_count_that_was_decided_is_told_with_what_stands() -> None:
    bench = Bench()
    bench.step(5, seen=3)
    assert bench.told() == Served(5, 3, 0)
    bench.known.stands = 4
    assert bench.told() == Served(5, 4, 0)


def test_calls_before_the_first_sync_are_unavailable() -> None:
    """Of a ScaledObject that is known already, and of one that is not: that nobody has it is not known either."""
    bench = Bench()
    bench.step(5)
    bench.answers._synced = False
    not_yet = Refused(Refusal.NOT_READY, "the cluster is not known yet; ask again in some seconds")
    assert bench.told() == not_yet
    assert bench.answers.served("prod", "other") == not_yet
    assert not bench.answers.ready()


def test_a_replica_that_does_not_lead_says_who_does() -> None:
    bench = Bench()
    bench.step(5)
    bench.known.leading = False
    assert bench.refusal() == (Refusal.NOT_LEADING, "headroom-1 leads; this replica does not answer")
    assert not bench.answers.ready()


def test_a_scaledobject_that_nobody_has_seen_is_not_found() -> None:
    refusal, words = Bench().answers.served("prod", "other"), "no ScaledObject prod/other"
    assert isinstance(refusal, Refused)
    assert refusal.refusal is Refusal.UNKNOWN
    assert refusal.message.startswith(words)


@pytest.mark.parametrize(
    ("reject", "refusal"),
    [
        (Reject.INVALID, Refusal.INVALID),
        (Reject.OUTRANKED, Refusal.INVALID),
        (Reject.KIND_REFUSED, Refusal.INVALID),
        (Reject.TOO_MANY, Refusal.INVALID),
        (Reject.NO_TARGET, Refusal.UNKNOWN),
    ],
)
def test_one_that_asks_in_vain_is_told_why(reject: Reject, refusal: Refusal) -> None:
    bench = Bench(Known(claims={}))
    why = Rejection("prod", "chat-so", False, "ScaledObject", "keda.sh/v1alpha1", "u", 1, reject, "metadata.x: unknown")
    bench.known.rejected[CHAT] = (why,)
    bench.answers.on_claim(CHAT)
    assert bench.refusal() == (refusal, "metadata.x: unknown")


def test_before_the_first_decision_there_is_no_number() -> None:
    assert Bench().refusal()[0] is Refusal.NOT_READY


def test_a_workload_whose_metrics_were_never_read_has_no_number() -> None:
    bench = Bench()
    bench.step(3, signals=NEVER)
    assert bench.refusal() == (
        Refusal.NOT_READY, "this leader has read no metric of prod/chat yet; `headroom doctor` says what is missing",
    )  # fmt: skip


@pytest.mark.parametrize(("tick_s", "late_s"), [(5.0, 15.0), (60.0, 180.0)])
def test_a_decision_without_successor_is_nobodys_after_three_ticks(tick_s: float, late_s: float) -> None:
    bench = Bench(Known(claims={CHAT: claim(tick_s=tick_s)}))
    bench.step(5)
    bench.clock.at_s += late_s
    assert bench.number() == 5
    bench.clock.at_s += 0.1
    assert bench.refusal()[0] is Refusal.NOT_READY


@pytest.mark.parametrize(
    ("mode", "up", "down"),
    [
        (Mode.ACTIVE, 9, 2),
        (Mode.SHADOW, 4, 4),
        (Mode.PAUSED, 4, 4),
        (Mode.PAUSED_SCALE_IN, 9, 4),
        (Mode.PAUSED_SCALE_OUT, 4, 2),
    ],
)
def test_a_mode_that_does_not_act_tells_what_stands_so_that_keda_leaves_it_alone(
    mode: Mode, up: int, down: int
) -> None:
    bench = Bench(Known(in_mode=mode, stands=4))
    bench.step(9, seen=4)
    assert bench.number() == up
    bench.step(2, seen=4)
    assert bench.number() == down


def test_while_everything_is_frozen_what_stands_is_told() -> None:
    bench = Bench(Known(stands=4, frozen="incident 7"))
    bench.step(9, seen=4)
    assert bench.number() == 4


@pytest.mark.parametrize("frozen", [None, "incident 7"], ids=["paused", "frozen"])
def test_what_stood_once_is_not_told_as_what_stands(frozen: str | None) -> None:
    """KEDA may have gone on from 4 towards 9 since: told 4, HPA would take away again what serves."""
    bench = Bench(Known(in_mode=Mode.PAUSED, stands=4, frozen=frozen, cut_off=True))
    bench.step(9, seen=4)
    assert bench.refusal() == (Refusal.NOT_READY, "how many replicas of prod/chat stand cannot be read now")
    bench.known.in_mode, bench.known.frozen = Mode.ACTIVE, None
    assert bench.number() == 9


def test_limits_that_were_lowered_after_a_decision_take_it_back() -> None:
    bench = Bench(Known(stands=3))
    bench.step(9, seen=3)
    bench.answers.note(Act(CHAT, bench.clock.at_s, bench.clock.at_s, 3, 9, Outcome.LIMITED))
    assert bench.number() == 3
    bench.step(5, seen=3)
    bench.answers.note(Act(CHAT, bench.clock.at_s, bench.clock.at_s, 3, 5, Outcome.TOLD))
    assert bench.number() == 5


def test_a_scaledobject_that_goes_or_is_aimed_elsewhere_takes_its_answer_with_it() -> None:
    bench = Bench()
    bench.step(5)
    bench.known.claims[CHAT] = replace(claim(), scaled_object="renamed")
    bench.answers.on_claim(CHAT)
    assert bench.refusal()[0] is Refusal.UNKNOWN
    assert bench.answers.served("prod", "renamed") == Served(5, 3, 0)
    del bench.known.claims[CHAT]
    bench.answers.on_claim(CHAT)
    assert isinstance(bench.answers.served("prod", "renamed"), Refused)
    assert not bench.answers._steps
    assert not bench.answers._asking


@pytest.mark.parametrize("first", [CHAT, "prod/chat-b"], ids=["the old target is told of first", "the new one is"])
def test_a_scaledobject_that_changes_its_target_is_answered_for_the_new_one(first: str) -> None:
    bench, new = Bench(), "prod/chat-b"
    bench.step(5)
    bench.known.claims = {new: replace(claim(), ref=replace(claim().ref, name="chat-b"))}
    for workload in sorted((CHAT, new), key=lambda key: key != first):
        bench.answers.on_claim(workload)
    assert bench.refusal() == (Refusal.NOT_READY, "prod/chat-b has not been decided on yet; ask again in some seconds")
    del bench.known.claims[new]
    bench.answers.on_claim(new)
    assert bench.refusal()[0] is Refusal.UNKNOWN


def test_a_step_rings_whoever_waits_for_its_scaledobject() -> None:
    bench = Bench()
    with bench.bells.listening(*KEY) as bell, bench.bells.listening("prod", "other") as another:
        bench.step(5)
        assert (bell.is_set(), another.is_set()) == (True, False)


def test_workloads_that_keda_does_not_ask_for_are_not_kept() -> None:
    bench = Bench(Known(claims={CHAT: replace(claim(), way=Way.ANNOTATION, scaled_object=None)}))
    bench.step(5)
    assert not bench.answers._steps


async def test_a_bug_that_one_step_meets_keeps_no_other_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench, feed = Bench(), Feed(10)
    monkeypatch.setattr(bench.answers, "note", feed.push)
    bench.step(5, pods=(None,))  # type: ignore[arg-type] # a bug, whatever it was that let this come so far
    bench.step(7)
    monkeypatch.undo()
    feed.close()
    await bench.answers.run(feed)
    assert bench.number() == 7
    assert "AttributeError" in capsys.readouterr().out


def test_a_number_that_is_told_is_previewed_for_the_workload_behind_the_scaledobject() -> None:
    bench = Bench()
    target = Target(spec=TargetSpec(2), status=TargetStatus(2))
    bench.known.hpas = {KEY: hpa("keda-hpa-chat-so", "chat-so")}
    bench.known.targets = {CHAT: target}
    bench.answers.told(*KEY, "headroom-replicas", 5)
    bench.answers.told("prod", "stranger", "headroom-replicas", 9)
    assert bench.answers.previews.figures() == {CHAT: (4, ("UP_POLICIES",))}
    del bench.known.claims[CHAT]
    bench.answers.on_claim(CHAT)
    assert bench.answers.previews.figures() == {}


def test_a_preview_that_fails_at_once_costs_keda_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench()
    bench.step(5)
    bench.known.hpas = None  # type: ignore[assignment] # a bug, whatever it was that let this come so far
    bench.answers.told(*KEY, "headroom-replicas", 5)
    assert bench.number() == 5
    assert "the preview of the HPA of prod/chat-so" in capsys.readouterr().out


def test_a_bug_on_the_way_to_an_answer_refuses_that_one_in_words() -> None:
    bench = Bench()
    bench.step(5)
    bench.known.in_mode = None  # type: ignore[assignment] # a bug, whatever it was that let this come so far
    refusal, words = bench.refusal()
    assert refusal is Refusal.NOT_READY
    assert words.startswith("prod/chat-so cannot be answered for, which is a bug: AttributeError")
