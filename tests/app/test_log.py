"""What `kubectl logs` shows: changes and troubles, once each, at the level and in the form that settings ask for."""

import asyncio
import json
from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from autoscaler.app.log import LOG, MOST_A_MINUTE, OF_EVENT, OF_OUTCOME, LogLines, readiness, set_up
from autoscaler.record.explain import duration
from autoscaler.runtime.actuator import Act, Outcome
from autoscaler.runtime.clock import ScaledClock
from autoscaler.runtime.records import Event, Note
from autoscaler.settings.model import LogFormat, LogLevel

pytestmark = pytest.mark.looptime

CHAT = "prod/chat"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """The configuration of the log is one for the process."""
    yield
    structlog.reset_defaults()


def act(outcome: Outcome, replicas: int = 3, message: str | None = None, workload: str = CHAT) -> Act:
    return Act(workload, 10.0, 10.0, 2, replicas, outcome, message)


def lines(said: list[MutableMapping[str, Any]]) -> list[tuple[str, str, str]]:
    return [(line["log_level"], line["event"], line.get("why", "")) for line in said]


def test_every_outcome_and_every_event_has_its_level() -> None:
    assert set(OF_OUTCOME) == set(Outcome)
    assert set(OF_EVENT) == set(Event)


async def test_a_change_is_a_line_with_its_counts_and_its_reason() -> None:
    with capture_logs() as said:
        LogLines(ScaledClock()).act(act(Outcome.APPLIED), "2→3: the present load needs it")
    assert said == [
        {
            "event": "count changed", "log_level": "info", "workload": CHAT, "from_replicas": 2, "to_replicas": 3,
            "why": "2→3: the present load needs it",
        }
    ]  # fmt: skip


async def test_what_shadow_mode_would_do_is_a_line_where_it_changes_and_not_at_every_tick() -> None:
    told = LogLines(ScaledClock())
    with capture_logs() as said:
        for replicas in (3, 3, 3, 4, 4):
            told.act(act(Outcome.SHADOWED, replicas), "words")
    assert [line["to_replicas"] for line in said] == [3, 4]


async def test_a_refusal_is_warned_of_once_until_the_server_says_something_else() -> None:
    told = LogLines(ScaledClock())
    with capture_logs() as said:
        for message in ("403", "403", "422", "422"):
            told.act(act(Outcome.REFUSED, message=message), "2→3")
        told.forget(CHAT)
        told.act(act(Outcome.REFUSED, message="422"), "2→3")
    assert lines(said) == [("warning", "count not changed: refused", f"2→3 ({code})") for code in ("403", "422", "422")]


async def test_a_step_that_raised_is_an_error_with_the_workloads_name() -> None:
    with capture_logs() as said:
        LogLines(ScaledClock()).note(Note(10.0, Event.BROKEN, CHAT, "ValueError: x; started afresh"))
    assert lines(said) == [("error", "a step raised", "ValueError: x; started afresh")]
    assert said[0]["workload"] == CHAT


async def test_an_outage_of_a_thousand_workloads_writes_three_hundred_lines_and_how_many_it_left_out() -> None:
    clock = ScaledClock()
    told = LogLines(clock)
    with capture_logs() as said:
        for number in range(1000):
            told.note(Note(10.0, Event.SOURCE_LOST, f"prod/{number}", "metrics unavailable: no page"))
        await clock.sleep_until(clock.monotonic() + 11.0)
        told.look()
        assert len(said) == MOST_A_MINUTE
        await clock.sleep_until(clock.monotonic() + 61.0)
        told.note(Note(82.0, Event.SOURCE_BACK, "prod/1", "metrics"))
    assert len(said) == MOST_A_MINUTE + 2
    assert said[-2] == {"event": "lines were left out of the log", "lines": 700, "log_level": "warning"}
    assert lines(said)[-1] == ("info", "source back", "metrics")


async def test_a_refusal_that_found_no_room_in_its_minute_is_warned_of_once_in_the_next() -> None:
    clock = ScaledClock()
    told = LogLines(clock)
    refused = [act(Outcome.REFUSED, message="403", workload=f"prod/{number}") for number in range(MOST_A_MINUTE + 40)]
    with capture_logs() as said:
        for _ in range(30):
            for each in refused:
                told.act(each, "2→3")
            await clock.sleep_until(clock.monotonic() + 5.0)
    words = [line for line in said if "workload" not in line]
    assert words == [{"event": "lines were left out of the log", "lines": 40, "log_level": "warning"}]
    assert [line["workload"] for line in said if "workload" in line] == [each.workload for each in refused]


async def test_what_is_refused_again_after_a_change_that_found_no_room_is_warned_of_again() -> None:
    clock = ScaledClock()
    told = LogLines(clock)
    with capture_logs() as said:
        told.act(act(Outcome.REFUSED, message="403"), "2→3")
        for number in range(MOST_A_MINUTE):
            told.note(Note(10.0, Event.BROKEN, f"prod/{number}", "ValueError: x"))
        told.act(act(Outcome.APPLIED), "2→3")
        await clock.sleep_until(clock.monotonic() + 61.0)
        told.act(act(Outcome.REFUSED, message="403"), "2→3")
    assert lines(said)[0] == lines(said)[-1] == ("warning", "count not changed: refused", "2→3 (403)")


async def test_a_source_that_is_lost_twice_is_told_when_the_first_loss_is_ten_seconds_old() -> None:
    clock = ScaledClock()
    told = LogLines(clock)
    with capture_logs() as said:
        told.note(Note(10.0, Event.SOURCE_LOST, "prod/a", "metrics unavailable: no page has been read yet"))
        await clock.sleep_until(clock.monotonic() + 6.0)
        told.note(Note(16.0, Event.SOURCE_LOST, "prod/a", "metrics unavailable: timed out"))
        await clock.sleep_until(clock.monotonic() + 5.0)
        told.look()
    assert lines(said) == [("warning", "source lost", "metrics unavailable: no page has been read yet")]


async def test_a_leader_that_begins_has_lost_no_source_that_it_reads_within_ten_seconds() -> None:
    clock = ScaledClock()
    told = LogLines(clock)
    with capture_logs() as said:
        for workload in ("prod/a", "prod/b", "prod/gone"):
            told.note(Note(10.0, Event.SOURCE_LOST, workload, "metrics unavailable: no page has been read yet"))
        await clock.sleep_until(clock.monotonic() + 2.0)
        told.note(Note(12.0, Event.SOURCE_BACK, "prod/a", "metrics"))
        told.forget("prod/gone")
        told.look()
        assert said == []
        await clock.sleep_until(clock.monotonic() + 9.0)
        told.look()
        told.look()
    assert [(line["event"], line["workload"]) for line in said] == [("source lost", "prod/b")]


async def test_what_the_level_leaves_out_is_not_written_and_takes_no_others_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up(LogLevel.WARNING, LogFormat.TEXT)
    told = LogLines(ScaledClock())
    for replicas in range(2 * MOST_A_MINUTE):
        told.act(act(Outcome.APPLIED, replicas), "words")
    LOG.info("leading", term=1)
    told.note(Note(10.0, Event.CHECKPOINT_FAILED, None, "403"))
    (line,) = capsys.readouterr().out.splitlines()
    assert "checkpoint not saved" in line
    assert "why=403" in line


async def test_lines_for_machines_are_an_object_each(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LogLevel.INFO, LogFormat.JSON)
    LogLines(ScaledClock()).act(act(Outcome.APPLIED), "2→3: why\nnot")
    line = json.loads(capsys.readouterr().out)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info", "message": "count changed", "workload": CHAT, "from_replicas": 2, "to_replicas": 3,
        "why": "2→3: why\nnot",
    }  # fmt: skip


async def test_others_words_command_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LogLevel.INFO, LogFormat.TEXT)
    LogLines(ScaledClock()).act(act(Outcome.REFUSED, message="webhook says \x1b[2J\nhello"), "2→3")
    said = capsys.readouterr().out
    assert "webhook says ?[2J?hello" in said
    assert len(said.splitlines()) == 1


async def test_a_list_that_is_not_heard_of_is_told_once_however_long_that_lasts() -> None:
    clock = ScaledClock()
    with capture_logs() as said:
        async with readiness(clock, lambda: (f"not heard for {duration(round(clock.now()))}: pods: timed out",)):
            await asyncio.sleep(7200.0)
    assert lines(said) == [("warning", "not ready", "not heard for 10 s: pods: timed out")]


async def test_a_replica_that_is_not_ready_says_why_when_that_lasts_and_when_it_is_over() -> None:
    clock, why = ScaledClock(), ["nobody leads: 403 may not patch leases"]
    with capture_logs() as said:
        async with readiness(clock, lambda: tuple(why)):
            await asyncio.sleep(30.0)
            why.clear()
            await asyncio.sleep(30.0)
            why.append("for an instant")
            await asyncio.sleep(5.0)
            why.clear()
            await asyncio.sleep(30.0)
    assert lines(said) == [("warning", "not ready", "nobody leads: 403 may not patch leases"), ("info", "ready", "")]
