"""Stories of a line that stands at a gateway which fell silent: only replicas that stay full tell of it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.params import Params
from autoscaler.core.reasons import Reason
from autoscaler.core.scale import unseen
from autoscaler.core.types import Decision, GatewayReading, Readings
from tests.core.toy import Story, Tamper, Toy, counts, stepped, steps_of

TOLD_S, STEP_S = 1200.0, 1220.0


def busy(now_s: float) -> float:
    """Between a sixth and half of what three replicas carry."""
    return 1.0 + (now_s // 10.0 % 5.0) / 2.0


def at_gateway(readings: Readings) -> Readings:
    """The same moment, where the whole line stands at the gateway."""
    pods = tuple(replace(pod, waiting=0.0) for pod in readings.pods or ())
    gateway = readings.gateway or GatewayReading()
    waiting = sum(pod.waiting or 0.0 for pod in readings.pods or ()) + (gateway.queued or 0.0)
    return replace(readings, pods=pods, gateway=replace(gateway, queued=waiting))


def silent(readings: Readings) -> Readings:
    return replace(at_gateway(readings), gateway=None)


def through_silence(
    after: float | Callable[[float], float],
    span_s: float,
    *,
    told: Tamper = at_gateway,
    tamper: Tamper = silent,
) -> tuple[Story, list[Decision]]:
    """Twenty minutes of three replicas that carry 2 requests/s each, as a line at the opening has shown; then the
    gateway is silent, and another load comes."""
    later = after if callable(after) else stepped(4.0, after, STEP_S)
    toy = Toy.of(3, lambda now_s: busy(now_s) if now_s < STEP_S else later(now_s), replica_rps=2.0, service_s=2.0)
    toy.queue = 45.0
    story = Story(toy, Params(tick_s=10.0, min_replicas=3, max_replicas=200, warmup_prior_s=120.0))
    story.run(TOLD_S, told)
    assert story.replicas == 3
    return story, story.run(span_s, tamper)


def test_a_fleet_that_stays_full_behind_a_silent_gateway_is_doubled_once_in_each_start() -> None:
    """What three full replicas complete is 6 requests/s, and 32 arrive: it asked for one more in each start."""
    _, told = through_silence(32.0, 600.0)
    asked = [each for each in told if each.reason is Reason.QUEUE_UNSEEN and each.replicas > each.seen_replicas]
    assert [(each.seen_replicas, each.replicas) for each in asked] == [(3, 6), (6, 12), (12, 24)]
    assert asked[0].now_s - STEP_S <= 60.0
    for earlier, later in pairwise(asked):
        assert later.now_s - earlier.now_s >= 120.0 + 60.0
    assert dict(asked[-1].trace[0].evidence)["load_rps"] is None


@pytest.mark.parametrize(
    "load",
    [busy, lambda now_s: 3.0 + 2.5 * (now_s % 40.0 < 20.0), lambda now_s: 0.0],
    ids=["as before", "now and then nearly full", "nothing comes"],
)
def test_no_silence_alone_asks_for_any(load: Callable[[float], float]) -> None:
    _, told = through_silence(load, 1800.0)
    assert set(counts(told)) == {3}


def test_where_nobody_tells_what_runs_nothing_is_asked_for() -> None:
    def untold(readings: Readings) -> Readings:
        read = silent(readings)
        return replace(read, pods=tuple(replace(pod, running=None) for pod in read.pods or ()))

    _, told = through_silence(32.0, 600.0, tamper=untold)
    assert Reason.QUEUE_UNSEEN not in {step.reason for step in steps_of(told)}


def test_a_load_that_stands_still_passes_for_a_full_fleet_once() -> None:
    """More run than ever, always as many: clients that wait for their answers look the same. Six are not full."""
    _, told = through_silence(lambda _s: 5.0, 1800.0)
    assert max(counts(told)) <= 6


@pytest.mark.parametrize(
    ("told", "tamper"),
    [
        (silent, silent),
        (at_gateway, lambda r: replace(silent(r), gateway=replace(r.gateway or GatewayReading(), queued=None))),
        (at_gateway, lambda r: replace(r, gateway=None)),
    ],
    ids=["no gateway ever told", "it tells what arrives", "the line stands in the pods"],
)
def test_a_line_that_others_tell_of_is_no_unseen_one(told: Tamper, tamper: Tamper) -> None:
    _, decisions = through_silence(32.0, 600.0, told=told, tamper=tamper)
    assert Reason.QUEUE_UNSEEN not in {step.reason for step in steps_of(decisions)}


LOOK = st.fixed_dictionaries(
    {
        "silent": st.booleans(),
        "lost": st.booleans(),
        "running": st.sampled_from([np.nan, 0.0, 7.0, 8.0, 16.0]),
        "serving": st.sampled_from([0.0, 1.0, 2.0]),
        "completed": st.sampled_from([np.nan, 0.0, 40.0]),
        "desired": st.sampled_from([0.0, 1.0, 2.0, 5.0]),
        "landed_s": st.sampled_from([np.nan, 10.0, 1000.0, np.inf]),
    }
)


@given(st.lists(LOOK, min_size=1, max_size=30))
def test_it_asks_for_all_that_stands_or_twice_that_and_only_behind_silence(looks: list[dict[str, float]]) -> None:
    columns, rows = unseen.UnseenColumns.allocate(1), np.array([0])
    for number, seen in enumerate(looks):
        told = {name: np.array([value]) for name, value in seen.items()}
        full = unseen.Full(
            now_s=np.array([10.0 * number]), slack_s=np.array([10.0]), lead_s=np.array([120.0]), **told
        )  # fmt: skip
        hidden = unseen.look(columns, rows, full)
        asked = float(columns.asked[0])
        if not (seen["silent"] and seen["lost"] and seen["running"] > 0 and number >= 3):
            assert asked == 0.0
        assert asked in {0.0, seen["desired"], max(2.0 * seen["serving"], seen["desired"])}
        assert not hidden[0] or seen["silent"]
