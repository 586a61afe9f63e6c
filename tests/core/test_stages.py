"""The stage clock: what it measures of starts, what it refuses to measure, what it calls stuck, and its checkpoint."""

import json
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.capacity.podtimes import LONGEST_S, Kind, PodTimes, Stage
from autoscaler.core.capacity.stages import KEEP, KEEP_KINDS, STUCK_LEAST_S, STUCK_S, StageClock
from autoscaler.core.spread import Spread

COLD = Kind("sha256:ab", "1xH100", node_is_new=True, image_was_present=False)
WARM = Kind("sha256:ab", "1xH100", node_is_new=False, image_was_present=True)
START = PodTimes("a", COLD, 1000.0, 1090.0, 1290.0, 1300.0, 1480.0, 1490.0)
"""90 s to a node, 200 s of pulling, 10 s to the process, 180 s of loading, 10 s to the first token."""
READY = replace(START, first_token_s=None)


def told(*pods: PodTimes) -> StageClock:
    clock = StageClock()
    for pod in pods:
        clock.note(pod)
    return clock


def medians(clock: StageClock, kind: Kind = COLD) -> dict[str, float]:
    (row,) = [row for row in clock.table() if row.kind == kind]
    return {stage.value: spread.p50_s for stage, spread in row.stages.items()} | {"total": row.total.p50_s}


def test_a_start_is_parted_into_its_stages_and_a_total_from_order_to_readiness() -> None:
    assert medians(told(START)) == {
        "scheduled": 90.0, "pulled": 200.0, "started": 10.0, "ready": 180.0, "serving": 10.0, "total": 480.0,
    }  # fmt: skip


def as_it_goes_on(pod: PodTimes) -> Iterator[PodTimes]:
    """What an observer tells of a pod: one instant more each time, everything twice."""
    known = replace(pod, scheduled_s=None, pulled_s=None, started_s=None, ready_s=None, first_token_s=None)
    for name in ("created_s", "scheduled_s", "pulled_s", "started_s", "ready_s", "first_token_s"):
        known = replace(known, **{name: getattr(pod, name)})
        yield from (known, known)


def test_a_life_told_step_by_step_and_twice_measures_the_same() -> None:
    assert told(*as_it_goes_on(START)).table() == told(START).table()


def test_kinds_of_start_are_kept_apart() -> None:
    clock = told(START, replace(START, uid="b", kind=WARM, scheduled_s=1001.0, pulled_s=1002.0))
    assert medians(clock)["pulled"] == 200.0
    assert medians(clock, WARM)["pulled"] == 1.0


def test_a_stage_of_which_one_end_is_unknown_is_not_measured_and_the_total_is() -> None:
    assert medians(told(replace(START, pulled_s=None))) == {
        "scheduled": 90.0, "ready": 180.0, "serving": 10.0, "total": 480.0,
    }  # fmt: skip


def test_a_pod_that_never_becomes_ready_gives_no_sample_and_says_where_it_is_stuck_and_since_when() -> None:
    clock = told(replace(START, started_s=None, ready_s=None, first_token_s=None))
    assert clock.table() == ()
    assert clock.stuck(1290.0 + STUCK_S) == ()
    (stuck,) = clock.stuck(1290.0 + STUCK_S + 1.0)
    assert (stuck.uid, stuck.stage, stuck.since_s) == ("a", Stage.STARTED, 1290.0)
    clock.gone("a")
    assert clock.stuck(1e9) == ()
    assert clock.table() == ()


UNDER_WAY = {
    "without a node": ({}, Stage.SCHEDULED, 1000.0),
    "pulling": ({"scheduled_s": 1090.0}, Stage.PULLED, 1090.0),
    "loading": ({"scheduled_s": 1090.0, "started_s": 1300.0}, Stage.READY, 1300.0),
}


@pytest.mark.parametrize(("known", "stage", "since_s"), UNDER_WAY.values(), ids=UNDER_WAY.keys())
def test_stuck_in(known: dict[str, float], stage: Stage, since_s: float) -> None:
    (stuck,) = told(PodTimes("a", COLD, 1000.0, **known)).stuck(9000.0)
    assert (stuck.stage, stuck.since_s) == (stage, since_s)


def test_what_is_stuck_is_judged_by_how_long_such_starts_took() -> None:
    clock = told(*(replace(START, uid=f"u{i}", pulled_s=1090.0 + 40.0) for i in range(5)))
    clock.note(PodTimes("slow", COLD, 2000.0, 2090.0))
    clock.note(PodTimes("else", WARM, 2000.0, 2090.0))
    assert clock.stuck(2090.0 + 119.0) == ()
    assert [stuck.uid for stuck in clock.stuck(2090.0 + 121.0)] == ["slow"]
    assert [stuck.uid for stuck in clock.stuck(2090.0 + STUCK_S + 1.0)] == ["else", "slow"]


def test_four_starts_are_too_few_to_judge_by() -> None:
    clock = told(*(replace(START, uid=f"u{i}") for i in range(4)), PodTimes("a", COLD, 2000.0))
    assert clock.stuck(2000.0 + STUCK_S) == ()


def test_a_pod_that_became_ready_is_not_stuck_however_long_ago_and_although_it_is_not_ready_any_more() -> None:
    clock = told(replace(READY, ready_s=None), READY, replace(READY, ready_s=None))
    assert clock.stuck(1e6) == ()
    assert clock.table() == told(READY).table()


def test_nobody_is_stuck_within_a_minute_however_quick_others_were() -> None:
    clock = told(*(replace(START, uid=f"u{i}", scheduled_s=1001.0) for i in range(5)))
    clock.note(PodTimes("a", COLD, 2000.0))
    assert clock.stuck(2000.0 + STUCK_LEAST_S) == ()
    assert clock.stuck(2000.0 + STUCK_LEAST_S + 1.0)


UNUSABLE = {
    "a stage ran backwards": replace(READY, pulled_s=1080.0),
    "ready before it was made": replace(READY, scheduled_s=None, pulled_s=None, started_s=None, ready_s=999.0),
    "a clock jumped by a year": replace(READY, ready_s=1480.0 + 3.2e7),
    "a clock jumped back in the middle": replace(READY, scheduled_s=1090.0 - 3.2e7),
    "an instant is not a number": replace(READY, started_s=math.nan),
    "an instant is infinite": replace(READY, ready_s=math.inf),
    "a stage takes longer than any": replace(READY, ready_s=1300.0 + LONGEST_S + 1.0),
}


@pytest.mark.parametrize("pod", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_pod_whose_instants_cannot_be_is_dropped_and_counted_once(pod: PodTimes) -> None:
    clock = told(pod, pod, replace(READY, uid="b"))
    assert clock.dropped == 1
    assert clock.table() == told(READY).table()


@pytest.mark.parametrize("token_s", [1479.0, math.nan, math.inf, 1480.0 + LONGEST_S + 1.0])
def test_a_first_token_that_cannot_be_is_dropped_alone(token_s: float) -> None:
    clock = told(replace(START, first_token_s=None), replace(START, first_token_s=token_s))
    assert clock.dropped == 1
    assert medians(clock) == {key: value for key, value in medians(told(START)).items() if key != "serving"}


def test_windows_are_bounded_and_follow_a_change() -> None:
    slow = [replace(START, uid=f"s{i}") for i in range(2 * KEEP)]
    quick = [replace(START, uid=f"q{i}", pulled_s=1110.0) for i in range(KEEP)]
    (row,) = told(*slow, *quick).table()
    assert row.stages[Stage.PULLED] == Spread(20.0, 20.0, KEEP)
    assert row.total.samples == KEEP


def test_kinds_are_bounded_and_the_one_not_seen_for_longest_is_forgotten() -> None:
    kinds = [replace(COLD, model=f"sha256:{i}") for i in range(KEEP_KINDS)]
    clock = told(*(replace(START, uid=f"u{i}", kind=kind, first_token_s=None) for i, kind in enumerate(kinds)))
    clock.note(replace(START, uid="again", kind=kinds[0]))
    clock.note(replace(START, uid="new", kind=WARM))
    clock.note(replace(START, uid="u1", kind=kinds[1]))  # the first token of one that was just forgotten
    assert {row.kind for row in clock.table()} == {*kinds, WARM} - {kinds[1]}


def test_an_injected_distribution_is_found_again_within_the_error_of_its_samples() -> None:
    """Each quantile lies where a sample of that size puts it: within three standard deviations of its rank."""
    rng = np.random.default_rng(7)
    scale = {"scheduled": 90.0, "pulled": 200.0, "started": 8.0, "ready": 150.0, "serving": 5.0}
    drawn = {name: median * rng.lognormal(0.0, 0.5, 400) for name, median in scale.items()}
    clock = StageClock()
    for i in range(400):
        ends = 1e4 * i + np.cumsum([drawn[name][i] for name in scale])
        for pod in as_it_goes_on(PodTimes(f"u{i}", COLD, 1e4 * i, *ends.tolist())):
            clock.note(pod)
    (row,) = clock.table()
    for stage, spread in row.stages.items():
        true_s = scale[stage.value]
        for level, found_s in ((0.5, spread.p50_s), (0.9, spread.p90_s)):
            rank = np.mean(np.sort(true_s * np.random.default_rng(1).lognormal(0.0, 0.5, 20_000)) <= found_s)
            assert abs(rank - level) <= 3.0 * math.sqrt(level * (1.0 - level) / KEEP) + 1.0 / KEEP
    assert row.total.p50_s == pytest.approx(sum(scale.values()) * 1.1, rel=0.2)
    assert clock.dropped == 0


INSTANT = st.none() | st.floats(0.0, 5000.0)
LIVES = st.lists(
    st.builds(
        PodTimes,
        uid=st.sampled_from("abcdefgh"),
        kind=st.sampled_from([COLD, WARM]),
        created_s=st.floats(0.0, 5000.0),
        scheduled_s=INSTANT,
        pulled_s=INSTANT,
        started_s=INSTANT,
        ready_s=INSTANT,
        first_token_s=INSTANT | st.sampled_from([math.nan, math.inf]),
    ),
    max_size=20,
)


@given(LIVES)
@settings(max_examples=200, deadline=None)
def test_a_checkpoint_comes_back_as_it_was_through_json_and_no_duration_is_ever_negative(lives: list[PodTimes]) -> None:
    clock = told(*lives)
    text = json.dumps(clock.pack(), allow_nan=False)
    back = StageClock.unpack(json.loads(text))
    assert back.table() == clock.table()
    assert back.dropped == clock.dropped
    assert json.dumps(back.pack()) == text
    for row in clock.table():
        assert all(spread.p50_s >= 0.0 for spread in (row.total, *row.stages.values()))


def test_a_checkpoint_of_a_full_kind_is_small() -> None:
    starts = [replace(START, uid=f"u{i}", ready_s=1480.3 + i) for i in range(KEEP)]
    assert len(json.dumps(told(*starts).pack(), separators=(",", ":"))) < 1500


def test_after_a_restart_pods_that_were_measured_before_are_not_measured_again() -> None:
    before = told(START)
    after = StageClock.unpack(before.pack())
    after.note(START)
    after.note(replace(START, uid="b", created_s=1010.0, ready_s=1479.0))
    assert after.table() == before.table()
    after.note(replace(START, uid="c", ready_s=1481.0, first_token_s=1482.0))
    assert after.table()[0].total.samples == 2
    assert after.dropped == 0


BAD = {
    "of a version whose kinds were named otherwise": {
        "version": 1, "dropped": 0,
        "kinds": [{"model": "m", "shape": "s", "node_is_new": True, "image_was_present": True, "newest_s": 1.0,
                   "total": [1.0], "stages": {}}],
    },
    "without a version": {},
    "without its parts": {"version": 2},
    "with a stage nobody knows": {
        "version": 2, "dropped": 0,
        "kinds": [{"model": "m", "shape": "s", "node_is_new": True, "image_was_present": True, "newest_s": 1.0,
                   "total": [1.0], "stages": {"thinking": [1.0]}}],
    },
    "with a kind that nobody started": {
        "version": 2, "dropped": 0,
        "kinds": [{"model": "m", "shape": "s", "node_is_new": True, "image_was_present": True, "newest_s": 1.0,
                   "total": [], "stages": {}}],
    },
    "of another shape": {"version": 2, "dropped": 0, "kinds": [7]},
    "with an instant that no float holds": {
        "version": 2, "dropped": 0,
        "kinds": [{"model": "m", "shape": "s", "node_is_new": True, "image_was_present": True, "newest_s": 10**400,
                   "total": [1.0], "stages": {}}],
    },
    "with words for numbers": {
        "version": 2, "dropped": 0,
        "kinds": [{"model": "m", "shape": "s", "node_is_new": True, "image_was_present": True, "newest_s": 1.0,
                   "total": ["soon"], "stages": {}}],
    },
}  # fmt: skip


@pytest.mark.parametrize("saved", BAD.values(), ids=BAD.keys())
def test_a_checkpoint_that_cannot_be_used_is_refused(saved: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="stages: "):
        StageClock.unpack(saved)
