"""Recording never waits: slow readers lose the oldest, failing sinks get their lines later."""

import asyncio
import json

import pytest

from autoscaler.core.types import Verdict
from autoscaler.record.audit import read_lines, step_lines
from autoscaler.record.starts import start_line
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.records import Event, Note, Recorder
from autoscaler.runtime.writer import Writer
from tests.runtime.bench import A, running, target
from tests.runtime.fakes import Lines

pytestmark = pytest.mark.looptime(noop_cycles=1)


def note(number: int) -> Note:
    return Note(float(number), Event.FIT_LATE, None, str(number))


async def test_a_slow_reader_loses_the_oldest_entries_and_knows_how_many() -> None:
    recorder = Recorder(audit=Lines(), journal=Lines(), clock=ScaledClock())
    with recorder.feed(kept=3) as feed:
        for number in range(5):
            recorder.put(note(number))
        recorder.end_feeds()
        assert [entry async for entry in feed] == [note(2), note(3), note(4)]
        assert feed.lost == 2


async def test_a_reader_that_waits_gets_entries_as_they_come_and_the_end() -> None:
    recorder = Recorder(audit=Lines(), journal=Lines(), clock=ScaledClock())
    got = []

    async def read() -> None:
        with recorder.feed() as feed:
            got.extend([entry async for entry in feed])

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        await asyncio.sleep(1.0)
        recorder.put(note(1))
        await asyncio.sleep(1.0)
        assert recorder._feeds
        recorder.end_feeds()
    assert got == [note(1)]
    assert not recorder._feeds
    with recorder.feed() as late:
        assert [entry async for entry in late] == []


async def test_lines_wait_for_a_sink_that_is_away_and_come_in_order() -> None:
    sink, clock = Lines(fails=True), ScaledClock()
    writer = Writer(sink, clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.run())
        for number in range(4):
            writer.add(b"%d" % number)
            await asyncio.sleep(1.5)
        assert (sink.lines, writer.waiting) == ([], 4)
        sink.fails = False
        writer.close()
    assert sink.lines == [b"0", b"1", b"2", b"3"]


async def test_beyond_the_bound_the_oldest_lines_are_given_up_and_counted() -> None:
    sink = Lines(fails=True)
    writer = Writer(sink, ScaledClock(), kept_bytes=3)
    for number in range(5):
        writer.add(b"%d" % number)
    assert await writer.flush() is False
    sink.fails = False
    assert await writer.flush() is True
    assert (sink.lines, writer.lost) == ([b"2", b"3", b"4"], 2)


async def test_lines_given_up_while_the_sink_was_writing_are_not_taken_off_twice() -> None:
    class Slow(Lines):
        async def write(self, lines):
            await asyncio.sleep(1.0)
            await super().write(lines)

    sink = Slow()
    writer = Writer(sink, ScaledClock(), kept_bytes=2)
    writer.add(b"0")
    writer.add(b"1")
    async with asyncio.TaskGroup() as group:
        group.create_task(writer.flush())
        await asyncio.sleep(0.5)
        writer.add(b"2")  # gives up 0, which is being written
    assert sink.lines == [b"0", b"1", b"2"]


async def test_the_audit_reads_back_as_the_decisions_that_were_made() -> None:
    async with running(target(min_replicas=6)) as bench:
        await bench.until(11.0)
    decisions = [entry.decision for entry in bench.stepped()]
    written = [step_lines(entry.decision, entry.params, entry.readings) for entry in bench.stepped()]
    assert bench.audit.lines[0] == start_line(A, 0.0, None, float("-inf"), models=True)
    assert bench.audit.lines[1:] == [line for lines in written for line in lines]
    assert list(read_lines((line + b"\n" for line in bench.audit.lines), "audit")) == decisions
    assert [d.verdict for d in decisions] == [Verdict.SCALE, Verdict.HOLD, Verdict.HOLD]


async def test_the_journal_says_what_was_done_about_a_decision() -> None:
    async with running(target(min_replicas=6)) as bench:
        await bench.until(1.0)
    assert json.loads(bench.journal.lines[0]) == {
        "kind": "act", "workload": A, "now_s": 0.0, "decided_s": 0.0, "seen_replicas": 2, "replicas": 6,
        "outcome": "applied", "message": None,
    }  # fmt: skip
