"""A metrics store's past as looks: counters that add up, pods that come and go, and what is not known."""

import numpy as np
import pytest

from autoscaler.cli.replay_history import converted
from autoscaler.errors import InputError
from autoscaler.fitting.fit import fit
from autoscaler.hindsight.comparison import compare
from autoscaler.hindsight.history import MOST_LOOKS, Series, looks
from autoscaler.hindsight.overlay import Overlay
from autoscaler.hindsight.replay import replay_history
from autoscaler.preflight.history import Gap, Missing, Spread, Track, WorkloadHistory

NAME = "prod/chat"
NAN = float("nan")


def series(arrivals: list[float], waiting: list[float], replicas: list[float]) -> Series:
    came, queued, held = (np.asarray(values) for values in (arrivals, waiting, replicas))
    return Series(NAME, 1000.0, 30.0, came, queued, np.full(len(arrivals), 2.0), held)


def test_what_came_and_is_not_left_was_completed_by_the_pods_that_were_there() -> None:
    """Sixty come in 30 s. At the end of the second step ten more are there than before: 50 were done, by the one pod
    that was there. At the end of the third ten fewer are there: 70 were done, 35 by each of two."""
    first, second, third = looks(series([2.0, 2.0, 2.0], [0.0, 10.0, 0.0], [1.0, 2.0, 2.0]))
    assert [look.line.now_s for look in (first, second, third)] == [1030.0, 1060.0, 1090.0]
    assert [look.line.replicas.ready for look in (first, second, third)] == [1, 2, 2]
    assert first.line.gateway is not None
    assert third.line.gateway is not None
    assert (first.line.gateway.requests_total, third.line.gateway.requests_total) == (60.0, 180.0)
    assert second.line.pods is not None
    assert third.line.pods is not None
    assert [pod.waiting for pod in second.line.pods] == [5.0, 5.0]
    assert [pod.requests_total for pod in second.line.pods] == [50.0, 0.0]  # the second is new
    assert [pod.requests_total for pod in third.line.pods] == [85.0, 35.0]
    assert [pod.ready_since_s for pod in third.line.pods] == [1030.0, 1060.0]


def test_a_step_of_which_replicas_are_not_known_has_no_look_and_arrivals_that_are_not_known_no_counter() -> None:
    found = list(looks(series([2.0, NAN, 2.0], [0.0, 0.0, NAN], [1.0, 1.0, NAN])))
    assert len(found) == 2
    assert found[1].line.gateway is None


def test_while_nothing_happens_looks_are_two_minutes_apart_and_in_a_burst_as_near_as_the_steps() -> None:
    """Twenty calm steps, four in which the rate triples and requests wait, then calm again."""
    rates, queue = [8.0] * 40, [0.0] * 40
    rates[20:24] = [24.0] * 4
    queue[20:24] = [100.0, 200.0, 300.0, 100.0]
    at_s = [look.line.now_s for look in looks(series(rates, queue, [4.0] * 40))]
    assert np.diff(at_s)[:4].tolist() == [120.0] * 4
    assert [at for at in at_s if 1600.0 < at <= 1720.0] == [1630.0, 1660.0, 1690.0, 1720.0]


def test_noise_of_a_small_load_is_calm_and_replicas_that_change_are_not() -> None:
    """Fifteen requests in a step are four more or less by chance."""
    noisy = [0.5, 0.6, 0.4, 0.5] * 4
    assert len(list(looks(series(noisy, [0.0] * 16, [2.0] * 16)))) == 4
    assert len(list(looks(series([0.5] * 16, [0.0] * 16, [2.0, 3.0] * 8)))) == 16


def test_of_a_long_past_neighbouring_steps_are_taken_together_even_in_a_burst() -> None:
    steps = 2 * MOST_LOOKS
    found = list(looks(series([1.0] * steps, [5.0] * steps, [1.0] * steps)))
    assert len(found) == MOST_LOOKS
    assert found[1].line.now_s - found[0].line.now_s == 60.0


def test_a_past_without_decisions_is_laid_beside_two_policies() -> None:
    """Three hours at six a second: eight replicas of two a second are held, and one burst fills them."""
    rates = np.full(360, 6.0)
    rates[60:80] = 24.0
    queue = np.zeros(360)
    queue[60:80] = np.linspace(0, 4800, 20)
    queue[80:96] = np.linspace(4800, 0, 16)
    past = Series(NAME, 0.0, 30.0, rates, queue, np.full(360, 16.0), np.full(360, 8.0), warmup_s=120.0)
    done = replay_history(past, fit, overlay=Overlay.of(["min_replicas=8", "max_replicas=8"]))
    assert done.whatif is not None
    c = compare(done.whatif, NAME)
    assert (c.decisions, c.differ) == (0, 0)
    assert c.happened is not None
    assert c.other is not None
    assert c.optimum is not None
    assert c.happened.observed.held_hours == pytest.approx(8 * c.happened.counted_s / 3600)
    # Told to hold eight as the human did, it holds eight.
    assert c.other.account.held_hours == pytest.approx(c.happened.observed.held_hours, rel=0.02)


def test_a_past_of_which_nothing_is_known_is_refused() -> None:
    with pytest.raises(InputError, match="its replicas are not known"):
        replay_history(series([1.0], [0.0], [NAN]), fit, overlay=Overlay())


def history(**given: object) -> WorkloadHistory:
    track = Track(np.array([1.0, 2.0]), "query")
    known = {"arrivals_per_s": track, "waiting": track, "running": track, "replicas": track} | given
    return WorkloadHistory(NAME, 0.0, 30.0, 2, **known)  # type: ignore[arg-type]  # signals by name


def test_what_preflight_read_is_taken_as_it_is_with_the_median_of_measured_starts() -> None:
    starts = Spread(np.array([60.0, 120.0, np.inf]), np.array([1.0, 5.0, 1.0]), "query")
    taken = converted(history(cold_start=starts))
    assert (taken.workload, taken.step_s, taken.warmup_s) == (NAME, 30.0, 120.0)
    assert taken.waiting.tolist() == [1.0, 2.0]


def test_what_was_not_recorded_is_named_and_requests_in_service_may_be_missing() -> None:
    gone = Missing(Gap.NOT_RECORDED, "no series of vllm:num_requests_waiting")
    with pytest.raises(InputError, match="requests waiting cannot be read: no series of vllm"):
        converted(history(waiting=gone))
    assert np.isnan(converted(history(running=gone)).running).all()
