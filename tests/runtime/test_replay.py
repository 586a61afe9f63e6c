"""The audit alone gives every decision again: across a take-over in mid-burst, and after a bug too."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from autoscaler.cli.stream import DecideStream
from autoscaler.core import checkpoint, engine
from autoscaler.core.params import Params
from autoscaler.fitting.fit import fit
from autoscaler.record import fits, inputs, memories, starts
from autoscaler.sim.plant import Plant
from tests.runtime.bench import A, running, target
from tests.runtime.plants import NAME, Embedded, burst, spec

BESIDE = (inputs.PREFIX, starts.PREFIX, fits.PREFIX, memories.PREFIX)

pytestmark = pytest.mark.looptime(noop_cycles=1)

Lines = list[dict[str, Any]]


def replayed(lines: Iterable[bytes]) -> Lines:
    """What `decide` answers to the inputs lines, each workload's memory set as the start lines say."""
    stream, answers = DecideStream(fit), []
    for line in lines:
        if line.startswith(starts.PREFIX):
            begin(stream, msgspec.json.decode(line, type=starts.Start))
        elif line.startswith(inputs.PREFIX):
            answers.append(json.loads(stream.answer(line)))
            stream.catch_up()
    return answers


def begin(stream: DecideStream, start: starts.Start) -> None:
    stream.followed.pop(start.workload, None)
    if start.workload in stream.table.rows:
        stream.table.remove(start.workload)
    row = stream.table.put(start.workload, Params())
    if start.checkpoint is not None:
        checkpoint.restore(stream.table, start.workload, start.checkpoint)
    if start.fit_asked_s is not None:
        stream.table.track(row).fit_asked_s = start.fit_asked_s


def raising(*_: object) -> None:
    raise RuntimeError("a bug")


def decided(lines: Iterable[bytes]) -> Lines:
    return [json.loads(line) for line in lines if not line.startswith(BESIDE)]


def assert_same(recorded: Lines, again: Lines) -> None:
    for said, answer in zip(recorded, again, strict=True):
        assert {key: said[key] for key in answer} == answer


async def test_the_decisions_of_two_drivers_after_each_other_come_out_of_one_audit_again() -> None:
    """The second takes over a minute into a burst; without what it began with it would know neither load nor pace."""
    embedded = Embedded.make(
        {NAME: Plant(spec(capacity_rps=2.0), burst(onset_s=900))},
        Params(max_replicas=100, tick_s=5.0, warmup_prior_s=180.0),
    )
    await embedded.drive(960.0)
    first = len(decided(embedded.audit.lines))
    await embedded.drive(1300.0)
    recorded = decided(embedded.audit.lines)
    assert len(recorded) > first > 0
    assert_same(recorded, replayed(embedded.audit.lines))
    begun = [line for line in embedded.audit.lines if line.startswith(starts.PREFIX)]
    assert [json.loads(line)["checkpoint"] is None for line in begun] == [True, False]
    assert max(map(len, begun)) <= 4096 + 200


async def test_a_workload_that_is_started_afresh_for_a_bug_begins_anew_in_the_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(target()) as bench:
        await bench.until(61.0)
        with monkeypatch.context() as broken:
            broken.setattr(engine, "step", raising)  # the core has no bug to offer
            await bench.until(66.0)
        await bench.until(140.0)
    begun = [json.loads(line) for line in bench.audit.lines if line.startswith(starts.PREFIX)]
    assert [(line["workload"], line["now_s"], line["checkpoint"]) for line in begun] == [
        (A, 0.0, None),
        (A, 65.0, None),
    ]
    assert_same(decided(bench.audit.lines), replayed(bench.audit.lines))
