"""The request-level model told as stories with numbers, then its laws, then a slow engine it must agree with."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.errors import InputError
from autoscaler.sim.serving import ServingModel, ServingPod
from autoscaler.sim.serving.arrivals import CONVERSATION, Lengths
from autoscaler.sim.serving.measure import RequestSlo, measure_capacity_rps
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.serving.requests import RequestServing
from autoscaler.sim.traffic import Traffic
from tests.sim.reference_engine import Engine, Job, run

Request = tuple[float, int, int]
Routing = Literal["gateway", "pods"]


def profile(*, slots: int = 4, kv_tokens: int = 1000, chunk_tokens: int | None = 8) -> Profile:
    """A prompt takes 1/8 s per token; a step 1/4 s alone and 1/16 s more for each other request."""
    return Profile(
        name="dyadic",
        source="made up",
        prefill_points=((1, 0.125), (17, 2.125)),
        tpot_points=((1, 0.25), (5, 0.5)),
        max_num_seqs=slots,
        kv_tokens=kv_tokens,
        chunk_tokens=chunk_tokens,
    )


def recorded(requests: Sequence[Request]) -> Traffic:
    duration = int(max((arrival for arrival, _, _ in requests), default=0.0)) + 1
    instants = np.array([arrival for arrival, _, _ in requests], dtype=np.float64)
    return Traffic(
        name="story",
        step_s=1.0,
        arrivals=np.bincount(instants.astype(np.int64), minlength=duration).astype(np.float64),
        source="a test",
        arrival_s=instants,
        prompt_tokens=np.array([prompt for _, prompt, _ in requests], dtype=np.float64),
        output_tokens=np.array([output for _, _, output in requests], dtype=np.float64),
    )


def counted(counts: Sequence[float]) -> Traffic:
    return Traffic(name="counts", step_s=1.0, arrivals=np.array(counts), source="a test")


def pods(count: int, *, first: int = 0) -> tuple[ServingPod, ...]:
    return tuple(ServingPod(f"pod-{i}", 0.0) for i in range(first, first + count))


def served(
    requests: Sequence[Request],
    engine: Profile,
    *,
    replicas: int = 1,
    routing: Routing = "gateway",
    step_s: float = 1.0,
) -> RequestServing:
    """Serve all to the end."""
    serving = RequestServing(engine, recorded(requests), routing=routing)
    serving.set_pods(0.0, pods(replicas))
    last_s = max(arrival for arrival, _, _ in requests)
    step = 0
    while step * step_s <= last_s or serving.running or serving.waiting:
        serving.offer(step * step_s, step_s, 0.0)
        step += 1
    return serving


# --- one replica ---


def test_a_lone_request_takes_its_prefill_and_then_one_step_per_further_token() -> None:
    times = served([(0.5, 8, 5)], profile()).times()
    assert times.queue_s.tolist() == [0.0]
    assert times.ttft_s.tolist() == [1.0]  # 8 tokens at 1/8 s; the first token comes with the prompt's end
    assert times.tpot_s.tolist() == [0.25]
    assert times.e2e_s.tolist() == [1.0 + 4 * 0.25]


def test_a_long_prompt_in_chunks_takes_as_long_as_whole_when_it_is_alone() -> None:
    whole, chunked = (served([(0.0, 80, 2)], profile(chunk_tokens=chunk)).times() for chunk in (None, 8))
    assert whole.ttft_s[0] == pytest.approx(chunked.ttft_s[0]) == pytest.approx(10.0)


def test_a_prompt_beside_decoding_saves_what_both_share_and_a_lone_one_nothing() -> None:
    shared = replace(profile(), shared_s=0.25)
    requests = [(0.0, 4, 6), (1.0, 4, 1)]
    apart, together = (served(requests, engine).times() for engine in (profile(), shared))
    assert (apart.ttft_s[0], together.ttft_s[0]) == (0.5, 0.5), "nothing decodes beside the first prompt"
    assert apart.ttft_s[1] == 0.5 + 0.25
    assert together.ttft_s[1] == 0.5
    assert served(requests, replace(shared, shared_s=9.0)).times().ttft_s[1] == 0.25, (
        "a chunk saves its own time at most"
    )
    with pytest.raises(InputError, match="shared_s is -1"):
        replace(shared, shared_s=-1.0)


def test_prompts_that_share_a_step_are_computed_together_as_far_as_its_tokens_go() -> None:
    """Two prompts of 4 tokens fill a step of 8; of the third, 3 tokens wait for the next, behind two that decode."""
    sharing = replace(profile(), prompts_share=True)
    requests = [(0.0, 2, 1), (0.1, 4, 9), (0.1, 4, 9), (0.2, 9, 1)]
    times = served(requests, sharing).times()
    assert times.ttft_s[0] == 0.25
    assert (times.arrival_s + times.queue_s)[1:].tolist() == [0.25, 0.25, 1.25], "the third finds no tokens left"
    assert (times.arrival_s + times.ttft_s)[1:3].tolist() == [1.25, 1.25]
    # Two decode, so 6 of its 9 tokens go into the step from 1.25 s on and 3 into the next.
    assert (times.arrival_s + times.ttft_s)[3] == 1.25 + (0.3125 + 0.75) + (0.3125 + 0.375)
    one_by_one = served(requests, profile()).times()
    assert (one_by_one.arrival_s + one_by_one.queue_s)[1:3].tolist() == [0.25, 0.75]


def test_a_page_shows_who_shares_a_step_as_running_or_as_waiting() -> None:
    for waits, shown in ((False, (1.0, 3.0)), (True, (3.0, 1.0))):
        sharing = replace(profile(), prompts_share=True, prefill_waits=waits)
        serving = RequestServing(sharing, recorded([(0.0, 2, 9), (0.1, 4, 9), (0.1, 3, 9), (0.2, 9, 1)]))
        serving.set_pods(0.0, pods(1))
        serving.offer(0.0, 0.3, 0.0)
        (page,) = serving.scrape(0.3).pods
        assert (page.waiting, page.running) == shown, "one decodes, two are computed, one has no tokens left"


def test_a_batch_of_slots_plus_one_makes_the_last_one_wait_for_a_slot() -> None:
    times = served([(0.0, 1, 40)] * 4 + [(0.0, 1, 2)], profile(slots=4)).times()
    first_end_s = float(times.e2e_s[:4].min())
    assert times.queue_s[4] == first_end_s
    # Four prompts, one per step: the first alone, each next one beside one more that decodes.
    assert times.ttft_s[:4].tolist() == [0.125, 0.5, 0.9375, 1.4375]
    # The first has 3 tokens beside those prefills and needs 36 more steps of a batch of four.
    assert first_end_s == 1.4375 + 36 * 0.4375


def test_decoding_goes_on_beside_a_chunked_prompt_and_stalls_behind_a_whole_one() -> None:
    requests = [(0.0, 1, 9), (0.2, 16, 1)]
    chunked = served(requests, profile(chunk_tokens=8)).times()
    whole = served(requests, profile(chunk_tokens=None)).times()
    # The second prompt starts at the step's edge, 0.375 s. Whole: 2 s in which the first request gets nothing.
    assert whole.e2e_s[0] == 0.125 + 8 * 0.25 + 2.0
    assert whole.ttft_s[1] == pytest.approx(0.375 + 2.0 - 0.2)
    # In two chunks: two steps of 1/4 + 1 s, each of which gives the first request a token.
    assert chunked.e2e_s[0] == 0.125 + 8 * 0.25 + 2.0
    assert chunked.ttft_s[1] == pytest.approx(0.375 + 2.5 - 0.2)


def test_full_kv_memory_puts_the_youngest_back_and_it_goes_on_where_it_was() -> None:
    # 11 tokens of memory, 2 requests of 4 prompt and 4 output tokens: 7 each at the end, so both do not fit.
    serving = served([(0.0, 4, 4), (0.0, 4, 4)], profile(kv_tokens=11))
    times = serving.times()
    assert times.preemptions.tolist() == [0, 1]
    # 1st: prompt 1/2 s; beside the 2nd's prompt a step of 3/4 s; both decode once, 5/16 s; then there is no room.
    assert times.e2e_s[0] == 0.5 + 0.75 + 0.3125 + 0.25
    assert times.ttft_s[1] == 0.5 + 0.75
    # 2nd: back in at the 1st's end with 4 + 2 tokens to recompute, which gives its 3rd token; then the 4th.
    assert times.e2e_s[1] == times.e2e_s[0] + 6 / 8 + 0.25
    (pod,) = serving.scrape(10.0).pods
    assert (pod.prompt_tokens_total, pod.generation_tokens_total, pod.requests_total) == (8.0, 8.0, 2.0)
    assert pod.kv_cache_usage == 0.0


def test_a_scrape_in_the_middle_of_a_stride_counts_the_tokens_made_so_far() -> None:
    serving = RequestServing(profile(kv_tokens=100), recorded([(0.0, 8, 50)]))
    serving.set_pods(0.0, pods(1))
    busy_s = serving.offer(0.0, 3.1, 1.0)  # the prompt until 1.0, then steps of 1/4 s: 8 of them ended
    scrape = serving.scrape(3.1)
    (pod,) = scrape.pods
    assert (pod.running, pod.waiting, pod.prompt_tokens_total) == (1.0, 0.0, 8.0)
    assert pod.generation_tokens_total == 1.0 + 8.0
    assert pod.kv_cache_usage == pytest.approx((8 + 8) / 100)
    assert scrape.latency.ttft_s_p90 == 1.0
    assert scrape.latency.tpot_s_p90 is None
    assert busy_s == pytest.approx(3.1)


@pytest.mark.parametrize(("waits", "told"), [(False, (2.0, 0.0)), (True, (1.0, 1.0))])
def test_who_is_in_prefill_runs_by_the_page_or_waits_as_the_engine_has_it(
    waits: bool, told: tuple[float, float]
) -> None:
    serving = RequestServing(replace(profile(), prefill_waits=waits), recorded([(0.0, 8, 50), (1.0, 8, 50)]))
    serving.set_pods(0.0, pods(1))
    serving.offer(0.0, 1.5, 2.0)  # the first decodes since 1.0, the second's prompt is computed from then on
    (pod,) = serving.scrape(1.5).pods
    assert (pod.running, pod.waiting) == told
    serving.offer(1.5, 2.0, 0.0)
    (pod,) = serving.scrape(3.5).pods
    assert (pod.running, pod.waiting) == (2.0, 0.0), "both decode"


@pytest.mark.parametrize(("by_step", "told"), [(False, [0.0, 1.0, 2.0, 2.0]), (True, [0.0, 0.0, 0.0, 2.0])])
def test_a_page_that_is_written_by_the_step_tells_nothing_of_who_came_within_one(
    by_step: bool, told: list[float]
) -> None:
    """Both slots decode from 2.25 s on, and a step ends at 2.5625 s. Two more come before that."""
    requests = [(0.0, 8, 50), (0.0, 8, 50), (2.3, 8, 50), (2.4, 8, 50)]
    written = replace(profile(slots=2), page_by_step=by_step)
    serving = RequestServing(written, recorded(requests), routing="pods")
    serving.set_pods(0.0, pods(1))
    seen, now_s = [], 0.0
    for at_s in (2.25, 2.35, 2.5, 2.75):
        serving.offer(now_s, at_s - now_s, 0.0)
        now_s = at_s
        (page,) = serving.scrape(at_s).pods
        seen.append(page.waiting)
    assert seen == told


def test_latency_readings_forget_what_is_older_than_their_window() -> None:
    serving = served([(0.0, 8, 3)], profile())
    assert serving.scrape(25.0).latency.tpot_s_p90 == 0.25
    assert serving.scrape(40.0).latency.ttft_s_p90 is None


# --- several replicas ---


@pytest.mark.parametrize(
    ("routing", "moved"),
    [
        pytest.param("gateway", True, id="a new pod takes from the queue held at the gateway"),
        pytest.param("pods", False, id="a new pod gets nothing of the queues in the pods"),
    ],
)
def test_a_new_pod_and_the_queue_there_is(routing: Routing, moved: bool) -> None:
    serving = RequestServing(profile(slots=2), recorded([(0.0, 8, 100)] * 6), routing=routing)
    serving.set_pods(0.0, pods(1))
    serving.offer(0.0, 0.5, 6.0)  # the first is in its prompt; the other slot's request waits in the pod
    assert serving.waiting == 5.0
    held = serving.scrape(0.5)
    assert (held.gateway.queued, held.pods[0].waiting) == ((4.0, 1.0) if moved else (0.0, 5.0))
    serving.set_pods(0.5, pods(2))
    serving.offer(0.5, 5.0, 0.0)
    assert serving.scrape(5.5).pods[1].running == (2.0 if moved else 0.0)


def test_with_no_pod_all_wait_at_the_gateway_and_are_served_in_order_once_there_is_one() -> None:
    serving = RequestServing(profile(slots=1), recorded([(0.0, 1, 1), (0.5, 1, 1)]))
    serving.offer(0.0, 2.0, 2.0)
    assert serving.scrape(2.0).gateway.queued == 2.0
    assert serving.waits(2.0).wait_from_s.tolist() == [2.0, 1.5]
    serving.set_pods(2.0, (ServingPod("late", 3.0),))
    serving.offer(2.0, 2.0, 0.0)
    assert serving.times().queue_s.tolist() == [3.0, 2.625]


def test_a_removed_pod_finishes_what_runs_and_gives_back_what_waits_in_order() -> None:
    requests = [(0.0, 8, 5), (0.1, 8, 5), (0.2, 8, 5), (0.3, 8, 5)]
    serving = RequestServing(profile(slots=2), recorded(requests), routing="pods")
    serving.set_pods(0.0, pods(1))
    serving.offer(0.0, 0.5, 4.0)  # the first is in its prompt, three wait
    serving.set_pods(0.5, pods(1, first=1))
    assert (serving.draining, serving.waiting) == (1, 2.0)  # the second went into the new pod at once
    serving.offer(0.5, 20.0, 0.0)
    times = serving.times()
    assert times.e2e_s[0] == 2.0
    assert times.restarts.sum() == 0
    # The new pod reads the 2nd from 0.5 s, the 3rd beside it in a step of 1.25 s from 1.5 s. Then both decode: the 2nd
    # needs 3 more steps of 5/16 s, and the 4th gets its slot.
    assert times.arrival_s + times.queue_s == pytest.approx([0.0, 0.5, 1.5, 2.75 + 3 * 0.3125])
    assert serving.draining == 0
    assert serving.drained_s(20.5) == 1.5  # from 0.5 s to the end of the first at 2.0 s


def test_a_crash_sends_what_ran_back_to_the_head_of_the_queue_to_start_over() -> None:
    serving = RequestServing(profile(slots=1), recorded([(0.0, 8, 100), (0.5, 8, 1)]))
    serving.set_pods(0.0, pods(1))
    serving.offer(0.0, 4.0, 2.0)
    serving.crash(4.0, ("pod-0",))
    assert (serving.running, serving.waiting) == (0, 2.0)
    serving.set_pods(5.0, pods(1, first=1))
    serving.offer(4.0, 60.0, 0.0)
    times = serving.times()
    assert times.restarts.tolist() == [1, 0]
    assert times.queue_s[0] == 5.0
    assert times.ttft_s[0] == 6.0
    assert times.e2e_s[0] == 6.0 + 99 * 0.25
    assert times.e2e_s[1] > times.e2e_s[0]


@pytest.mark.parametrize("routing", ["gateway", "pods"])
def test_what_came_while_there_was_no_pod_goes_to_the_first_one(routing: Routing) -> None:
    serving = RequestServing(profile(), recorded([(0.0, 8, 1)]), routing=routing)
    serving.offer(0.0, 5.0, 1.0)
    serving.set_pods(5.0, pods(1))
    serving.offer(5.0, 5.0, 0.0)
    assert serving.times().ttft_s.tolist() == [6.0]


def test_a_pod_that_crashes_while_it_drains_is_billed_until_then_and_its_work_starts_over() -> None:
    serving = RequestServing(profile(), recorded([(0.0, 8, 100)]))
    serving.set_pods(0.0, pods(1))
    serving.offer(0.0, 2.0, 1.0)
    serving.set_pods(2.0, pods(1, first=1))
    serving.offer(2.0, 3.0, 0.0)
    assert (serving.draining, serving.drained_s(5.0)) == (1, 3.0)
    serving.crash(5.0, ("pod-0",))
    serving.offer(5.0, 60.0, 0.0)
    assert (serving.draining, serving.drained_s(65.0)) == (0, 3.0)
    assert serving.times().ttft_s.tolist() == [6.0]


# --- where the requests come from ---


def test_fractions_of_requests_are_carried_until_they_make_one() -> None:
    serving = RequestServing(profile(), counted([0.25] * 12), lengths=Lengths(8, 2, 0, 0, "a test"))
    serving.set_pods(0.0, pods(1))
    arrived = []
    for step in range(12):
        serving.offer(float(step), 1.0, 0.25)
        arrived.append(serving.scrape(step + 1.0).gateway.requests_total)
    assert arrived == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert serving.times().prompt_tokens.tolist() == [8, 8, 8]


def test_drawn_requests_have_the_stated_lengths_and_are_the_same_for_the_same_seed() -> None:
    def drawn(seed: int) -> RequestServing:
        serving = RequestServing(profile(kv_tokens=10**6), counted([20_000.0]), seed=seed)
        serving.offer(0.0, 1.0, 20_000.0)
        return serving

    times, again, other = (drawn(seed).times() for seed in (1, 1, 2))
    assert times.prompt_tokens.mean() == pytest.approx(CONVERSATION.prompt_mean, rel=0.03)
    assert times.output_tokens.mean() == pytest.approx(CONVERSATION.output_mean, rel=0.03)
    assert times.output_tokens.std() / times.output_tokens.mean() == pytest.approx(CONVERSATION.output_cv, rel=0.05)
    assert np.histogram(times.arrival_s, bins=4, range=(0.0, 1.0))[0] == pytest.approx([5000] * 4, rel=0.06)
    assert np.array_equal(times.arrival_s, again.arrival_s)
    assert np.array_equal(times.prompt_tokens, again.prompt_tokens)
    assert not np.array_equal(times.arrival_s, other.arrival_s)


def test_a_request_that_no_replica_can_hold_is_refused_with_its_number() -> None:
    with pytest.raises(InputError, match=r"story: request 1 needs 101 KV tokens .*a replica holds 100"):
        RequestServing(profile(kv_tokens=100), recorded([(0.0, 50, 51), (1.0, 50, 52)]))


def test_an_unknown_routing_is_refused() -> None:
    with pytest.raises(InputError, match="routing is 'random'"):
        RequestServing(profile(), recorded([(0.0, 1, 1)]), routing="random")  # type: ignore[arg-type]  # on purpose


def test_mean_lengths_under_one_token_are_refused() -> None:
    with pytest.raises(InputError, match="output_mean is 0"):
        Lengths(8, 0, 1, 1, "a test")


# --- laws ---

requests_strategy = st.lists(
    st.tuples(st.integers(0, 80).map(lambda eighths: eighths / 8), st.integers(1, 8), st.integers(1, 8)),
    min_size=1,
    max_size=14,
).map(sorted)


@settings(max_examples=300, deadline=None)
@given(
    requests=requests_strategy,
    replicas=st.integers(1, 3),
    slots=st.integers(1, 4),
    kv_tokens=st.integers(15, 60),
    chunk_tokens=st.sampled_from([None, 8]),
    share=st.booleans(),
    routing=st.sampled_from(["gateway", "pods"]),
)
def test_strides_agree_with_an_engine_that_goes_step_by_step(
    *,
    requests: list[Request],
    replicas: int,
    slots: int,
    kv_tokens: int,
    chunk_tokens: int | None,
    share: bool,
    routing: Routing,
) -> None:
    jobs = [Job(i, *request) for i, request in enumerate(requests)]
    share = share and chunk_tokens is not None
    run(Engine(slots, kv_tokens, chunk_tokens, share), jobs, replicas, hold_at_gateway=routing == "gateway")
    engine = profile(slots=slots, kv_tokens=kv_tokens, chunk_tokens=chunk_tokens)
    engine = replace(engine, prompts_share=share)
    times = served(requests, engine, replicas=replicas, routing=routing).times()
    assert (times.arrival_s + times.queue_s).tolist() == [job.admitted_s for job in jobs]
    assert (times.arrival_s + times.ttft_s).tolist() == [job.first_s for job in jobs]
    assert (times.arrival_s + times.e2e_s).tolist() == [job.done_s for job in jobs]
    assert times.preemptions.tolist() == [job.preempted for job in jobs]


change_strategy = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 3), st.booleans()), max_size=5, unique_by=lambda change: change[0]
)


@settings(max_examples=150, deadline=None)
@given(
    requests=requests_strategy,
    changes=change_strategy,
    kv_tokens=st.integers(15, 60),
    routing=st.sampled_from(["gateway", "pods"]),
)
def test_every_request_is_once_waiting_running_or_done_whatever_happens_to_the_pods(
    requests: list[Request], changes: list[tuple[int, int, bool]], kv_tokens: int, routing: Routing
) -> None:
    serving = RequestServing(profile(slots=2, kv_tokens=kv_tokens), recorded(requests), routing=routing)
    serving.set_pods(0.0, pods(1))
    alive, started = list(pods(1)), 1
    planned = {at: (count, crash) for at, count, crash in changes} | {31: (2, False)}
    for second in range(200):
        count, crash = planned.get(second, (len(alive), False))
        if crash and alive:
            serving.crash(float(second), (alive.pop(0).name,))
        del alive[count:]
        while len(alive) < count:
            alive.append(ServingPod(f"pod-{started}", float(second)))
            started += 1
        serving.set_pods(float(second), tuple(alive))
        serving.offer(float(second), 1.0, 0.0)
        done = int(np.isfinite(serving.times().e2e_s).sum())
        arrived = sum(arrival < second + 1 for arrival, _, _ in requests)
        assert serving.waiting + serving.running + done == arrived
    times = serving.times()
    assert (serving.waiting, serving.running, serving.draining) == (0.0, 0, 0)
    assert np.all(times.queue_s >= 0)
    assert np.all(times.ttft_s > times.queue_s)
    assert np.all(times.e2e_s >= times.ttft_s)


@settings(max_examples=100, deadline=None)
@given(requests=requests_strategy, replicas=st.integers(1, 3), kv_tokens=st.integers(15, 60))
def test_at_the_end_the_pods_counters_equal_the_sums_over_requests(
    requests: list[Request], replicas: int, kv_tokens: int
) -> None:
    scrape = served(requests, profile(kv_tokens=kv_tokens), replicas=replicas).scrape(1000.0)
    assert scrape.gateway.requests_total == len(requests)
    assert sum(pod.requests_total or 0.0 for pod in scrape.pods) == len(requests)
    assert sum(pod.prompt_tokens_total or 0.0 for pod in scrape.pods) == sum(prompt for _, prompt, _ in requests)
    assert sum(pod.generation_tokens_total or 0.0 for pod in scrape.pods) == sum(output for _, _, output in requests)
    assert all((pod.running, pod.waiting, pod.kv_cache_usage) == (0.0, 0.0, 0.0) for pod in scrape.pods)


@settings(max_examples=100, deadline=None)
@given(requests=requests_strategy, replicas=st.integers(1, 3))
def test_the_width_of_the_plants_step_changes_nothing(requests: list[Request], replicas: int) -> None:
    coarse, fine = (
        served(requests, profile(slots=2, kv_tokens=30), replicas=replicas, step_s=step_s).times()
        for step_s in (2.0, 0.25)
    )
    assert np.array_equal(coarse.e2e_s, fine.e2e_s)
    assert np.array_equal(coarse.queue_s, fine.queue_s)


@settings(max_examples=100, deadline=None)
@given(requests=requests_strategy, replicas=st.integers(1, 3), routing=st.sampled_from(["gateway", "pods"]))
def test_one_more_replica_never_makes_the_last_end_later_by_more_than_one_request(
    requests: list[Request], replicas: int, routing: Routing
) -> None:
    def last_end_s(count: int) -> float:
        times = served(requests, profile(slots=2), replicas=count, routing=routing).times()
        return float((times.arrival_s + times.e2e_s).max())

    # Least-loaded counts requests, not tokens, so an unlucky tie may cost one request's service, 1 s + 7 steps.
    assert last_end_s(replicas + 1) <= last_end_s(replicas) + 1.0 + 7 * 0.3125


# --- what one replica carries ---


def test_the_measured_capacity_of_a_one_slot_replica_is_that_of_the_single_server_queue() -> None:
    # One slot and one token out: an M/D/1 queue of 1 s. Lindley's recursion on other random numbers is the judge.
    engine = profile(slots=1, kv_tokens=10**6, chunk_tokens=None)
    rate_rps = measure_capacity_rps(engine, Lengths(8, 1, 0, 0, "a test"), RequestSlo(wait_s=4.0), seed=1)
    gaps_s = np.random.default_rng(99).exponential(1.0 / rate_rps, 200_000)
    wait_s, in_time = 0.0, 0
    for gap_s in gaps_s:
        wait_s = max(0.0, wait_s + 1.0 - gap_s)
        in_time += wait_s <= 4.0
    assert in_time / gaps_s.size == pytest.approx(0.99, abs=0.006)


def test_a_tighter_limit_never_raises_the_measured_capacity() -> None:
    lengths = Lengths(8, 4, 0.5, 0.5, "a test")
    rates_rps = [
        measure_capacity_rps(profile(), lengths, RequestSlo(ttft_s=ttft_s), seed=3, requests=1000)
        for ttft_s in (10.0, 5.0, 4.0)
    ]
    assert rates_rps == sorted(rates_rps, reverse=True)
    assert rates_rps[-1] < rates_rps[0] < 1.0


@pytest.mark.parametrize(
    ("slo", "message"),
    [
        pytest.param(
            RequestSlo(tpot_s=0.2),
            "it misses a time per output token of 0.2 s; ",
            id="a time per token below the engine's fastest step",
        ),
        pytest.param(
            RequestSlo(ttft_s=0.5),
            "it misses a time to first token of 0.5 s; ",
            id="a first token before the prompt can be read",
        ),
    ],
)
def test_a_limit_the_engine_cannot_meet_alone_is_refused(slo: RequestSlo, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure_capacity_rps(profile(), Lengths(8, 4, 0, 0, "a test"), slo, seed=1, requests=200)


@pytest.mark.parametrize(
    ("wait_s", "message"),
    [
        pytest.param(None, "no limit", id="no limit at all"),
        pytest.param(0.0, "wait_s is 0", id="a limit of zero"),
        pytest.param(float("nan"), "wait_s is nan", id="a limit that is not a number"),
    ],
)
def test_an_slo_without_meaning_is_refused(wait_s: float | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        RequestSlo(wait_s=wait_s)


def test_the_model_fits_the_plants_seam() -> None:
    model: ServingModel = served([(0.0, 8, 2), (0.25, 8, 2)], profile())
    waits = model.waits(100.0)
    assert waits.requests.tolist() == [1.0, 1.0]
    assert waits.from_s.tolist() == waits.to_s.tolist() == [0.0, 0.25]
    assert waits.wait_from_s.tolist() == waits.wait_to_s.tolist() == [0.0, 0.75]
