"""A replay tells how far it is: in shares that grow, from its beginning to its end."""

import gzip
import os
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from autoscaler.fitting.fit import fit
from autoscaler.hindsight import course, crew, strands
from autoscaler.hindsight.estimates import estimates
from autoscaler.hindsight.overlay import Overlay
from autoscaler.hindsight.recording import Recording
from autoscaler.hindsight.replay import replay
from tests.hindsight.recorded import marked, write


@pytest.fixture
def two_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A plain one, and one that is packed to a fraction; told of often, for they are short."""
    monkeypatch.setattr(course, "_TOLD_EVERY", 10)
    packed = tmp_path / "audit-000000000002.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(line + b"\n" for line in marked()[101:])))
    return [write(tmp_path / "audit-000000000001.jsonl", marked()[:101]), packed]


@pytest.mark.parametrize("most", [50_000, 1 << 30], ids=["a few looks held at a time", "all"])
@pytest.mark.parametrize(
    ("changes", "exact", "processes"),
    [((), False, 1), ((), False, 2), (("max_replicas=8",), False, 1), (("max_replicas=8",), True, 1)],
    ids=["as it was", "as it was, in two processes", "other settings", "other settings, in order"],
)
def test_a_replay_tells_shares_that_grow_to_one(
    two_files: list[Path], monkeypatch: pytest.MonkeyPatch, *, most: int, changes: tuple[str, ...], exact: bool,
    processes: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(strands, "MOST_BYTES", most)
    monkeypatch.setattr(crew, "LEAST_LOOKS", 10)
    told: list[float] = []
    recording = Recording.of(two_files)
    replay(recording, fit, overlay=Overlay.of(changes), processes=processes, exact=exact, progress=told.append)
    assert told[0] < 0.01
    assert told[-1] == pytest.approx(1.0, abs=0.02)
    assert all(before <= after for before, after in pairwise(told))
    assert max(after - before for before, after in pairwise(told)) < 0.4
    assert len(told) > 10


def test_a_report_tells_shares_that_grow_to_one(two_files: list[Path]) -> None:
    told: list[float] = []
    estimates(Recording.of(two_files), fit, progress=told.append)
    assert told[0] < 0.01
    assert sorted(told) == told
    assert told[-1] > 0.9
    assert len(told) > 10


def test_of_a_pipe_nothing_is_told_and_all_is_replayed(tmp_path: Path) -> None:
    """`headroom replay <(zcat ...)`: how long a pipe is nobody knows."""
    pipe = tmp_path / "audit.jsonl"
    os.mkfifo(pipe)
    writing = threading.Thread(target=write, args=(pipe, marked()), daemon=True)  # a pipe that nobody reads ends no run
    writing.start()
    told: list[float] = []
    done = replay(Recording.of([pipe]), fit, progress=told.append)
    writing.join(timeout=10)
    assert (done.rerun.compared, done.rerun.different) == (100, 0)
    assert set(told) == {0.0}
