"""Stretches between memories are replayed side by side, and it comes out as from end to end."""

import errno
import json
import os
import signal
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from autoscaler.cli.replayed import Shown, text
from autoscaler.cli.replayed_forms import as_json
from autoscaler.errors import HeadroomError
from autoscaler.fitting.fit import fit
from autoscaler.hindsight import crew
from autoscaler.hindsight import strands as module
from autoscaler.hindsight.estimates import estimates
from autoscaler.hindsight.overlay import Overlay
from autoscaler.hindsight.recording import Recording
from autoscaler.hindsight.replay import Replayed, replay
from autoscaler.hindsight.strands import plait
from autoscaler.record import memories
from autoscaler.sim.headroom import WORKLOAD
from tests.hindsight.recorded import marked, write


@cache
def kept() -> tuple[int, ...]:
    """Which lines are memories: after the seconds 200, 400, 600 and 800, of 1,000 with a decision every ten."""
    return tuple(i for i, line in enumerate(marked()) if line.startswith(memories.PREFIX))


def again(folder: Path, given: list[bytes], *changes: str) -> Replayed:
    path = write(folder / "audit.jsonl", given)
    return replay(Recording.of([path]), fit, overlay=Overlay.of(changes))


def test_a_record_falls_into_stretches_at_its_memories(tmp_path: Path) -> None:
    path = write(tmp_path / "audit.jsonl", marked())
    (held,) = plait(Recording.of([path]).unread())
    assert [len(strand.entries) for strand in held] == [21, 20, 20, 20, 19]
    assert [strand.row for strand in held] == [WORKLOAD, *(f"{WORKLOAD} #{number}" for number in (2, 3, 4, 5))]
    assert [strand.ends is not None for strand in held] == [True] * 4 + [False]
    assert [first.ends is second.begins for first, second in pairwise(held)] == [True] * 4


@pytest.mark.parametrize("most", [1, 10_000, 50_000, 1 << 30], ids=["one look held", "a few", "half", "all"])
def test_every_decision_and_every_memory_comes_out_again_however_many_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", most)
    done = again(tmp_path, list(marked()))
    assert (done.rerun.compared, done.rerun.different) == (100, 0)
    assert (done.rerun.memories, done.rerun.unlike) == (4, [])
    assert (done.gaps, done.rerun.unbegun, done.recording.bad) == ([], set(), 0)
    assert text(Shown(done, [], ())) == (
        "100 decisions of 1 workload over 16.5 min: every one as recorded, byte for byte\n"
        "  and at 4 places all that was remembered"
    )  # fmt: skip


def test_without_its_beginning_a_workload_is_replayed_from_its_first_memory_on(tmp_path: Path) -> None:
    done = again(tmp_path, list(marked()[5:]))
    assert (done.rerun.compared, done.rerun.different, done.rerun.memories) == (79, 0, 3)
    assert (done.rerun.unknown, done.rerun.unbegun) == (19, {WORKLOAD})
    assert "19 decisions before the first memory of sim/workload: its beginning is not in the record" in text(
        Shown(done, [], ())
    )


def test_inputs_that_are_missing_spoil_one_stretch_and_its_end_names_it(tmp_path: Path) -> None:
    """Twenty seconds are taken out of the third stretch: what follows the memory behind them is as it was."""
    given = list(marked())
    del given[kept()[1] + 5 : kept()[1] + 9]
    done = again(tmp_path, given)
    wrong = [difference.now_s for difference in done.rerun.differences]
    assert all(400 < at_s <= 600 for at_s in wrong)
    (words,) = done.rerun.unlike
    assert "00:10:00 sim/workload: it is remembered otherwise" in words
    assert json.loads(as_json(Shown(done, [], ())))["memories_unlike"] == [words]


def test_a_memory_that_was_changed_by_hand_is_named(tmp_path: Path) -> None:
    given = list(marked())
    given[kept()[1]] = marked(seed=2)[kept()[1]]
    done = again(tmp_path, given)
    assert [words.split(":")[1] for words in done.rerun.unlike] == [" line 85", " line 126"], (
        "at its place, and where the stretch that began with it ends"
    )
    assert "(bounds.ordered_high, " in done.rerun.unlike[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"kind":"memory","version":9,"now_s":400.0,"workload":"sim/workload","memory":""}', "version: 9"),
        (b'{"kind":"memory","version":1,"now_s":400.0,"workload":"sim/workload","memory":"AAAA"}', "memory: "),
        (b'{"kind":"memory","version":1,"now_s":400.0,"workload":"sim/workload"}', "memory"),
    ],
    ids=["of later", "no memory", "without one"],
)
def test_a_memory_that_cannot_be_used_is_passed_over_and_nothing_is_lost(
    tmp_path: Path, line: bytes, words: str
) -> None:
    given = list(marked())
    given[kept()[1]] = line
    done = again(tmp_path, given)
    assert (done.rerun.compared, done.rerun.different, done.rerun.memories) == (100, 0, 3)
    assert done.recording.bad == 1
    assert words in done.recording.faults[0]


@pytest.mark.slow
def test_other_settings_and_estimates_are_the_same_with_memories_and_without(tmp_path: Path) -> None:
    plain = [line for line in marked() if not line.startswith(memories.PREFIX)]
    first, second = again(tmp_path, list(marked()), "max_replicas=8"), again(tmp_path, plain, "max_replicas=8")
    assert first.whatif is not None
    assert second.whatif is not None
    assert first.whatif.told == second.whatif.told
    assert first.whatif.estimates(WORKLOAD) == second.whatif.estimates(WORKLOAD)
    with_, without = (write(tmp_path / name, given) for name, given in (("a.jsonl", marked()), ("b.jsonl", plain)))
    assert estimates(Recording.of([with_]), fit) == estimates(Recording.of([without]), fit)


def test_other_settings_begin_with_the_first_memory_where_the_record_has_no_beginning(tmp_path: Path) -> None:
    done = again(tmp_path, list(marked()[kept()[0] :]), "max_replicas=8")
    assert (done.rerun.compared, done.rerun.different, done.rerun.unbegun) == (79, 0, set())


@pytest.mark.slow
def test_processes_share_the_stretches_out_and_it_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One decision is changed by hand in a stretch of a child, one in a stretch of the parent."""
    monkeypatch.setattr(crew, "LEAST_LOOKS", 10)
    given = list(marked())
    for at in (kept()[0] + 4, kept()[1] + 4):
        given[at] = given[at].replace(b'"version":1', b'"version": 1')
    path = write(tmp_path / "audit.jsonl", given)
    alone, shared = (replay(Recording.of([path]), fit, processes=processes).rerun for processes in (1, 3))
    assert alone.different == 2
    assert alone.counted() == shared.counted()
    assert (shared.steps, shared.memories, shared.unlike) == (100, 4, [])


def test_a_process_that_is_ended_ends_the_replay_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "LEAST_LOOKS", 10)
    monkeypatch.setattr(crew, "_work", lambda answers, *_: os.kill(os.getpid(), signal.SIGKILL))
    path = write(tmp_path / "audit.jsonl", marked())
    with pytest.raises(HeadroomError, match="ended from outside"):
        replay(Recording.of([path]), fit, processes=2)


def test_where_no_process_can_be_started_the_stretches_are_replayed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(crew, "LEAST_LOOKS", 10)
    monkeypatch.setattr(os, "fork", refuse)
    path = write(tmp_path / "audit.jsonl", marked())
    rerun = replay(Recording.of([path]), fit, processes=3).rerun
    assert (rerun.compared, rerun.different, rerun.memories, rerun.unlike) == (100, 0, 4, [])


def test_what_has_to_stay_with_the_caller_counts_for_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workloads of 5 stretches, of which 3 may go: a child gets 5 of the 6, about half of all 10."""
    monkeypatch.setattr(crew, "LEAST_LOOKS", 10)
    given = [line.replace(WORKLOAD.encode(), name) for name in (b"a/a", b"b/b") for line in marked()]
    (held,) = plait(Recording.of([write(tmp_path / "audit.jsonl", given)]).unread())
    ours, (away,) = crew.shared_out(held, 2)
    assert [len(strand.entries) for strand in away] == [20] * 5
    assert sum(len(strand.entries) for strand in ours) == 100
    assert {id(strand) for strand in (*ours, *away)} == {id(strand) for strand in held}


def test_little_work_and_what_rests_on_something_before_it_stay_in_one_process(tmp_path: Path) -> None:
    (held,) = plait(Recording.of([write(tmp_path / "audit.jsonl", marked())]).unread())
    assert crew.shared_out(held, 4) == (held, [])
    bare = [line for line in marked() if not line.startswith(memories.PREFIX)]
    (whole,) = plait(Recording.of([write(tmp_path / "audit.jsonl", bare)]).unread())
    whole[0].entries *= 60
    assert crew.shared_out(whole, 4) == (whole, [])
