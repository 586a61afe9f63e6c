"""The batch of an engine server: who is served when, what memory is held, how long a step takes."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadtests.engines.batching import Batch, Sequence
from loadtests.engines.profile import BLOCK_TOKENS, BUILT_IN, Curve, Speed, read_speed


def speed(*, slots: int = 4, kv_tokens: int = 1600, step_tokens: int = 64) -> Speed:
    """0.1 ms a prompt token; a decode step takes 10 ms, and 20 ms for eight."""
    return Speed("s", Curve(((1, 1e-4), (1000, 0.1))), Curve(((1, 0.01), (8, 0.02))), slots, kv_tokens, step_tokens)


class Run:
    """A batch stepped to its end, with everything that was seen on the way."""

    def __init__(self, batch: Batch, asked: list[tuple[int, int, int]]) -> None:
        """`asked`: step at which it arrives, prompt tokens, output tokens."""
        self.at_s = 0.0
        self.admitted: list[Sequence] = []
        self.first_s: dict[Sequence, float] = {}
        self.last_s: dict[Sequence, float] = {}
        self.sequences: list[Sequence] = []
        self.tokens = 0
        waiting, number = sorted(asked, key=lambda row: row[0]), 0
        while True:
            while waiting and waiting[0][0] <= number:
                self.sequences.append(Sequence(*waiting.pop(0)[1:]))
                batch.arrive(self.sequences[-1])
            step = batch.plan()
            number += 1
            if step is None:
                if not waiting:
                    break
                continue
            held = sum(sequence.blocks for sequence in batch.running)
            assert held + batch.free_blocks == batch.blocks
            assert batch.free_blocks >= 0
            assert len(batch.running) <= batch.speed.slots
            assert sum(tokens for _, tokens in step.parts) <= batch.speed.step_tokens
            self.admitted += [sequence for sequence in step.admitted if sequence not in self.admitted]
            self.at_s += step.duration_s
            for sequence in batch.finish(step):
                self.tokens += 1
                self.first_s.setdefault(sequence, self.at_s)
                self.last_s[sequence] = self.at_s
                assert sequence.blocks * BLOCK_TOKENS >= sequence.computed or sequence.gone


ASKED = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 150), st.integers(1, 60)), min_size=1, max_size=25)


@settings(deadline=None)
@given(ASKED, st.integers(1, 6), st.integers(220, 900))
def test_every_token_asked_for_comes_once_in_memory_that_is_never_exceeded(
    asked: list[tuple[int, int, int]], slots: int, kv_tokens: int
) -> None:
    batch = Batch(speed(slots=slots, kv_tokens=kv_tokens))
    run = Run(batch, asked)
    assert run.tokens == sum(output for _, _, output in asked)
    assert all(sequence.emitted == sequence.output_tokens for sequence in run.sequences)
    assert (len(batch.queue), len(batch.running), batch.free_blocks) == (0, 0, batch.blocks)


@settings(deadline=None)
@given(ASKED, st.integers(1, 6), st.integers(220, 900))
def test_requests_are_first_admitted_in_the_order_in_which_they_came(
    asked: list[tuple[int, int, int]], slots: int, kv_tokens: int
) -> None:
    run = Run(Batch(speed(slots=slots, kv_tokens=kv_tokens)), asked)
    assert run.admitted == run.sequences


@pytest.mark.parametrize(
    ("prompt", "measured_s"), [(128, 0.049086), (512, 0.059714), (2048, 0.200681), (8192, 0.953582)]
)
def test_the_first_token_of_an_idle_engine_comes_after_what_the_profile_measured(
    prompt: int, measured_s: float
) -> None:
    run = Run(Batch(read_speed(BUILT_IN)), [(0, prompt, 1)])
    assert run.at_s == pytest.approx(measured_s, rel=0.01)


def test_a_lone_answer_takes_its_prompt_and_a_step_for_each_further_token() -> None:
    run = Run(Batch(speed()), [(0, 50, 11)])
    assert run.at_s == pytest.approx(0.005 + 10 * 0.01)


def test_a_slot_too_few_makes_the_next_request_wait_for_the_one_before() -> None:
    run = Run(Batch(speed(slots=1)), [(0, 50, 11), (0, 50, 11)])
    first, second = run.sequences
    assert run.first_s[second] == pytest.approx(run.first_s[first] + 10 * 0.01 + 0.005)


def test_where_memory_runs_out_the_youngest_gives_way_and_is_computed_again() -> None:
    batch = Batch(speed(kv_tokens=160))  # ten blocks
    run = Run(batch, [(0, 60, 60), (0, 60, 60)])
    old, young = run.sequences
    assert (old.preemptions, young.preemptions, batch.preemptions) == (0, 1, 1)
    assert (old.emitted, young.emitted) == (60, 60)
    assert run.first_s[young] < 0.05  # its first token had come before it gave way


def test_one_that_gave_way_is_served_again_before_those_that_came_later() -> None:
    run = Run(Batch(speed(kv_tokens=160)), [(0, 60, 60), (0, 60, 60), (5, 60, 60)])
    old, young, late = run.sequences
    assert young.preemptions == 1
    assert run.first_s[late] > run.last_s[old]  # it would have fitted at once, beside the oldest


def test_a_head_of_the_queue_that_does_not_fit_keeps_those_behind_it_waiting() -> None:
    batch = Batch(speed(kv_tokens=160))
    for asked in (Sequence(100, 20), Sequence(100, 20), Sequence(4, 4)):
        batch.arrive(asked)
    step = batch.plan()
    assert step is not None
    assert [sequence.prompt_tokens for sequence, _ in step.parts] == [100]
    assert [sequence.prompt_tokens for sequence in batch.queue] == [100, 4]


def test_a_long_prompt_is_cut_into_steps_of_the_budget() -> None:
    batch, sizes = Batch(speed(step_tokens=64)), []
    batch.arrive(Sequence(150, 1))
    while (step := batch.plan()) is not None:
        sizes.append(step.parts[0][1])
        batch.finish(step)
    assert sizes == [64, 64, 22]


def test_what_could_never_be_finished_is_not_queued() -> None:
    batch = Batch(speed(kv_tokens=160))
    assert batch.fits(100, 60)
    assert not batch.fits(100, 61)
    with pytest.raises(ValueError, match="longer than the cache"):
        batch.arrive(Sequence(100, 61))


@pytest.mark.parametrize("steps_before", [0, 1, 5], ids=["queued", "in prefill", "decoding"])
def test_a_request_that_is_cancelled_leaves_nothing_behind(steps_before: int) -> None:
    batch = Batch(speed())
    asked = Sequence(100, 60)
    batch.arrive(asked)
    for _ in range(steps_before):
        step = batch.plan()
        assert step is not None
        batch.finish(step)
    step = batch.plan() if steps_before else None
    batch.cancel(asked)
    batch.cancel(asked)
    assert step is None or batch.finish(step) == []
    assert (batch.plan(), batch.free_blocks, len(batch.queue)) == (None, batch.blocks, 0)


def test_more_work_is_never_faster() -> None:
    read = read_speed(BUILT_IN)
    assert all(a <= b for a, b in pairwise(read.prefill.at(tokens) for tokens in range(0, 20_000, 37)))
    assert all(a <= b for a, b in pairwise(read.decode.at(batch) for batch in range(200)))
    assert all(a <= b for a, b in pairwise(read.step_s([(0, tokens)], 8) for tokens in range(1, 4_000, 37)))


def test_a_short_prompt_rides_along_with_a_step_that_reads_the_weights_anyway() -> None:
    made = speed()
    alone_s, decoding_s = made.step_s([(0, 50)], 0), made.step_s([], 8)
    assert made.step_s([(0, 50)], 8) == pytest.approx(decoding_s)
    assert made.step_s([(0, 500)], 8) == pytest.approx(made.step_s([(0, 500)], 0) + decoding_s - 0.01)
    assert alone_s == pytest.approx(0.005)
