"""When workloads are stepped: on virtual time, over fakes."""

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise

import pytest

from autoscaler.core.types import GatewayReading, Limits, PodReading
from autoscaler.ports import Fault, MetricSample, PortError
from tests.runtime.bench import A, B, running, target
from tests.runtime.fakes import Scale, Source

pytestmark = pytest.mark.looptime(noop_cycles=1)


async def test_an_undisturbed_workload_is_stepped_at_its_ticks() -> None:
    async with running(target()) as bench:
        await bench.until(21.0)
    assert bench.steps() == [(0.0, "DUE"), (5.0, "DUE"), (10.0, "DUE"), (15.0, "DUE"), (20.0, "DUE")]


async def test_pushes_that_bring_nothing_new_cause_no_step() -> None:
    async with running(target()) as bench:
        for tenth in range(1, 50):
            await bench.until(tenth / 10)
            bench.pushes.names.put_nowait(A)
    assert bench.steps() == [(0.0, "DUE")]


async def test_the_first_waiting_request_steps_its_workload_at_once() -> None:
    async with running(target(), target(B)) as bench:
        await bench.until(2.3)
        bench.source.queued[A] = 3.0
        bench.pushes.names.put_nowait(A)
        await bench.until(4.0)
    assert bench.steps() == [(0.0, "DUE"), (2.3, "FIRST_WAITING")]
    assert bench.steps(B) == [(0.0, "DUE")]


async def test_a_storm_of_contradictions_steps_at_most_every_200_ms() -> None:
    async with running(target(), target(B)) as bench:
        for millisecond in range(1, 3000):
            await bench.until(millisecond / 1000)
            bench.runtime.put(target(min_replicas=2 + millisecond % 2))
            bench.pushes.names.put_nowait(A)
    times = [at_s for at_s, _ in bench.steps()]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == 15
    assert min(gaps) >= 0.2 - 1e-6
    assert len([name for _, name in bench.source.reads if name == A]) == 15
    assert bench.steps(B) == [(0.0, "DUE")]


async def test_a_push_that_comes_while_readings_are_gathered_is_not_lost() -> None:
    async with running(target()) as bench:
        await bench.until(1.0)
        bench.source.hangs = {A}
        bench.pushes.names.put_nowait(A)
        await bench.until(2.0)
        bench.source.hangs, bench.source.queued[A] = set(), 5.0
        bench.pushes.names.put_nowait(A)
        await bench.until(3.5)
    assert bench.steps() == [(0.0, "DUE"), (3.0, "FIRST_WAITING")]


async def test_a_hanging_source_delays_nobody_else() -> None:
    async with running(target(), target(B)) as bench:
        bench.source.hangs = {A}
        await bench.until(13.0)
    assert bench.steps(B) == [(0.0, "DUE"), (5.0, "DUE"), (10.0, "DUE")]
    # The hanging one is stepped at its deadline of 2 s, without metrics, and 5 s after the instant of its readings.
    assert [at_s for at_s, _ in bench.steps(A)] == [0.0, 5.0, 10.0]
    assert bench.told("note")[0]["message"] == "metrics timeout: no answer within 2 s"


async def test_a_failing_source_is_a_missing_reading_noted_once_and_once_when_it_is_back() -> None:
    async with running(target()) as bench:
        await bench.until(12.0)
        bench.source.fails = {A}
        await bench.until(42.0)
        bench.source.fails = set()
        await bench.until(51.0)
    assert len(bench.steps()) == 11
    lost, back = [n for n in bench.told("note") if n["workload"] == A]
    assert (lost["event"], lost["message"]) == ("source lost", "metrics unavailable: connection refused")
    assert (back["event"], back["now_s"]) == ("source back", 45.0)
    assert bench.states("arrivals") == ["fresh"] * 3 + ["held"] * 3 + ["unknown"] * 3 + ["fresh"] * 2


async def test_nothing_is_decided_before_the_replicas_were_read_once() -> None:
    async with running(target()) as bench:
        bench.scale.fails = {A}
        await bench.until(12.0)
        assert bench.steps() == []
        bench.scale.fails = set()
        await bench.until(18.0)
    assert bench.steps() == [(15.0, "DUE")]


async def test_replicas_that_cannot_be_read_any_more_are_decided_about_and_not_touched() -> None:
    async with running(target()) as bench:
        await bench.until(1.0)
        bench.scale.fails = {A}
        bench.runtime.put(target(min_replicas=6))
        await bench.until(3.0)
    assert bench.steps()[1] == (1.0, "EDITED")
    assert bench.outcomes() == [(1.0, "the target could not be read")]
    assert bench.scale.patches == []


async def test_an_edited_policy_or_limit_is_obeyed_at_once() -> None:
    async with running(target()) as bench:
        await bench.until(1.0)
        bench.runtime.put(target(min_replicas=6))
        await bench.until(2.0)
        bench.runtime.put(target(min_replicas=6, limits=Limits(budget_replicas=4)))
        await bench.until(3.0)
    assert bench.steps() == [(0.0, "DUE"), (1.0, "EDITED"), (2.0, "EDITED")]
    assert bench.scale.patches[0] == (1.0, A, 2, 6)
    assert bench.scale.patches[1][:3] == (2.0, A, 6)


async def test_another_word_of_how_long_starts_take_is_nobodys_edit_and_counts_from_the_next_step_on() -> None:
    async with running(target()) as bench:
        await bench.until(1.0)
        bench.runtime.put(replace(target(), prior_s=425.0))
        await bench.until(2.0)
        bench.runtime.put(replace(target(), prior_s=15.0))
        await bench.until(7.0)
        bench.runtime.put(replace(target(warmup_prior_s=240.0), prior_s=15.0))
        await bench.until(8.0)
    assert bench.steps() == [(0.0, "DUE"), (5.0, "DUE"), (7.0, "EDITED")], "and the policy's own guess is its owner's"
    assert [entry.params.warmup_prior_s for entry in bench.stepped()] == [None, 15.0, 15.0]


async def test_a_workload_that_is_removed_is_left_alone_even_while_it_is_looked_at() -> None:
    async with running(target(), target(B)) as bench:
        await bench.until(4.0)
        bench.source.hangs = {A}
        await bench.until(6.0)
        bench.runtime.remove(A)
        bench.pushes.names.put_nowait(A)
        await bench.until(21.0)
        assert A not in bench.runtime.table.rows
    assert [at_s for at_s, _ in bench.steps(A)] == [0.0]
    assert len(bench.steps(B)) == 5


async def test_a_broken_watch_is_noted_and_opened_again() -> None:
    async with running(target()) as bench:
        bench.pushes.broken = PortError(Fault.UNAVAILABLE, "410 gone")
        await bench.until(2.0)
        bench.source.queued[A] = 1.0
        bench.pushes.names.put_nowait(A)
        await bench.until(3.0)
    assert bench.pushes.opened == 2
    assert bench.told("note")[0]["message"] == "410 gone"
    assert bench.steps()[-1] == (2.0, "FIRST_WAITING")


class Odd(Source):
    """A source whose samples are replaced by the test's."""

    sample: MetricSample | None = None

    async def read(self, workload: str) -> MetricSample:
        return self.sample if self.sample is not None else await super().read(workload)


BAD_SAMPLES = {
    "not a number": (MetricSample(10.0, gateway=GatewayReading(math.nan)), "invalid", "gateway.queued: nan"),
    "a pod twice": (MetricSample(10.0, (PodReading("p"), PodReading("p"))), "invalid", "'p' appears twice"),
    "from the future": (MetricSample(99.0), "invalid", "89 s in the future"),
    "older than one used before": (MetricSample(3.0), "outdated", "7.0 s old"),
    "of no time at all": (MetricSample(math.inf), "invalid", "now_s: inf"),
}


@pytest.mark.parametrize(("sample", "fault", "words"), BAD_SAMPLES.values(), ids=BAD_SAMPLES.keys())
async def test_a_sample_that_cannot_be_used_is_missing(sample: MetricSample, fault: str, words: str) -> None:
    async with running(target()) as bench:
        gatherer = bench.runtime._loop._gatherer
        gatherer._metrics = odd = Odd(bench.clock, bench.scale)
        await bench.until(7.0)
        odd.sample = sample
        await bench.until(12.0)
    assert [at_s for at_s, _ in bench.steps()] == [0.0, 5.0, 10.0]
    (note,) = [n for n in bench.told("note") if n["event"] == "source lost"]
    assert fault in note["message"]
    assert words in note["message"]


async def test_a_source_that_repeats_one_sample_forever_turns_stale_and_not_fresh() -> None:
    async with running(target()) as bench:
        gatherer = bench.runtime._loop._gatherer
        gatherer._metrics = odd = Odd(bench.clock, bench.scale)
        odd.sample = await Source(bench.clock, bench.scale).read(A)
        await bench.until(31.0)
    assert bench.stepped()[-1].view.now_s > 25.0
    assert bench.states("queue")[-1] == "unknown"


async def test_a_scale_client_that_answers_nonsense_is_missing_too() -> None:
    class Nonsense(Scale):
        async def read(self, workload: str):
            sample = await super().read(workload)
            return sample if self.clock.now() < 4 else type(sample)(sample.at_s + 900.0, sample.replicas)

    async with running(target()) as bench:
        bench.runtime._loop._gatherer._scale = Nonsense(bench.clock)
        await bench.until(6.0)
    assert [at_s for at_s, _ in bench.steps()] == [0.0, 5.0]
    assert "replicas invalid: its time is 900 s in the future" in bench.told("note")[0]["message"]


async def test_a_watch_that_ends_is_opened_again() -> None:
    class Short:
        opened = 0

        async def changes(self) -> AsyncIterator[str]:
            self.opened += 1
            yield A

    short = Short()
    async with running(target(), watch=short):
        pass
    async with running(target(), watch=short) as bench:
        await bench.until(3.5)
    assert short.opened >= 4
