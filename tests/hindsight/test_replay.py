"""Replays of recorded files: the same bytes again, differences and gaps by name, and what other settings change."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.cli.replayed import Shown, comparisons, text
from autoscaler.errors import InputError
from autoscaler.fitting.fit import fit
from autoscaler.hindsight.comparison import _setting, compare
from autoscaler.hindsight.estimates import estimates
from autoscaler.hindsight.overlay import Overlay
from autoscaler.hindsight.recording import Recording
from autoscaler.hindsight.replay import Replayed, replay
from autoscaler.sim.headroom import WORKLOAD
from tests.hindsight.recorded import lines, write

START = b'{"kind":"start","version":1,"now_s":0.0,"workload":"a/b","fit_asked_s":null,"checkpoint":%s}'


def again(*paths: Path, changes: tuple[str, ...] = (), workload: str | None = None) -> Replayed:
    return replay(Recording.of(paths), fit, overlay=Overlay.of(changes), workload=workload)


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return write(tmp_path / "audit-000000000001.jsonl", lines())


def test_every_decision_comes_out_again_byte_for_byte(audit: Path) -> None:
    done = again(audit)
    assert done.rerun.compared == (len(lines()) - 1) // 2 >= 100
    assert done.rerun.different == 0
    assert (done.gaps, done.recording.faults, done.rerun.unbegun) == ([], [], set())


def test_files_that_were_rotated_are_put_in_order_and_may_be_compressed_or_a_whole_folder(tmp_path: Path) -> None:
    """A pair of lines is never split, and the folder's other files are passed over."""
    all_lines = lines()
    whole = b"".join(line + b"\n" for line in all_lines[:101])
    (tmp_path / "audit-000000000009.jsonl.gz").write_bytes(gzip.compress(whole))
    write(tmp_path / "audit-000000000010.jsonl", all_lines[101:])
    write(tmp_path / "journal-000000000001.jsonl", [b"{}"])
    by_name = again(tmp_path / "audit-000000000010.jsonl", tmp_path / "audit-000000000009.jsonl.gz")
    by_folder = again(tmp_path)
    for done in (by_name, by_folder):
        assert (done.rerun.compared, done.rerun.different) == ((len(all_lines) - 1) // 2, 0)
        assert done.gaps == []


def test_the_folders_of_two_replicas_are_put_in_the_order_of_their_time(tmp_path: Path) -> None:
    for folder, part in (("later", lines()[101:]), ("earlier", lines()[:101])):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "audit-000000000001.jsonl", part)
    done = again(tmp_path / "later", tmp_path / "earlier")
    assert (done.rerun.compared, done.rerun.different, done.gaps) == ((len(lines()) - 1) // 2, 0, [])


def test_a_decision_that_was_changed_by_hand_is_the_one_that_is_named(tmp_path: Path) -> None:
    changed = list(lines())
    decision = json.loads(changed[10])
    decision["replicas"] += 1
    changed[10] = json.dumps(decision).encode()
    done = again(write(tmp_path / "audit.jsonl", changed))
    assert done.rerun.different == 1
    (difference,) = done.rerun.differences
    assert difference.where == "audit.jsonl: line 11"
    assert json.loads(difference.recorded)["replicas"] == json.loads(difference.again)["replicas"] + 1


def test_a_file_that_is_missing_and_the_time_it_took_are_gaps(tmp_path: Path) -> None:
    write(tmp_path / "audit-000000000001.jsonl", lines()[:61])
    write(tmp_path / "audit-000000000004.jsonl", lines()[121:])
    done = again(tmp_path)
    assert done.gaps == [
        "before audit-000000000004.jsonl 2 files are missing",
        f"{WORKLOAD}: nothing for 5.17 min from 00:04:50 on",
    ]


def test_without_its_beginning_a_workload_is_named(tmp_path: Path) -> None:
    done = again(write(tmp_path / "audit.jsonl", lines()[81:]))
    assert done.rerun.unbegun == {WORKLOAD}
    assert done.rerun.different > 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 8: Input data was truncated"),
        (b"\xff\xfe", "line 8: "),
        (b'{"kind":"inputs","version":1,"now_s":-5,"workload":"a/b","replicas":{"desired":-1}}', "line 8: replicas"),
        (b'{"kind":"start","version":9,"now_s":0.0,"workload":"a/b","fit_asked_s":null,"checkpoint":null}',
         "line 8: version: 9 is not known"),
        (START % b'{"version":7}', "line 8: checkpoint: ValueError"),
        (START % b'{"version":1,"columns":7}', "line 8: checkpoint: AttributeError"),
        (START % (b'{"version":1,"columns":{},"lead_samples_s":[1%s]}' % (b"0" * 400)),
         "line 8: checkpoint: OverflowError"),
        (b'{"kind":"inputs","version":1,"now_s":5,"workload":"a/b","replicas":{"desired":1,"ready":1}}', "no policy"),
        (b'{"kind":"fit","version":9,"now_s":0.0,"workload":"a/b","model":""}', "line 8: version: 9 is not known"),
        (b'{"kind":"fit","version":1,"now_s":0.0,"workload":"a/b","model":"AAAA"}', "line 8: model: "),
        (b'{"kind":"fit","version":1,"now_s":0.0,"workload":"a/b","model":"UEsDBAAA"}', "line 8: model: "),
    ],
    ids=[
        "torn", "no text", "an illegal count", "another version", "another checkpoint", "columns that are none",
        "a time that no float holds", "no policy", "a model of later",
        "no model", "a model cut off",
    ],
)  # fmt: skip
def test_a_bad_line_is_named_and_the_rest_is_replayed(tmp_path: Path, line: bytes, words: str) -> None:
    given = [*lines()[:7], line, *lines()[7:]]
    done = again(write(tmp_path / "audit.jsonl", given), workload=None)
    assert (done.rerun.different, done.recording.bad) == (0, 1)
    assert words in done.recording.faults[0]


def test_a_last_line_that_is_still_being_written_is_a_gap_and_no_fault(tmp_path: Path) -> None:
    path = write(tmp_path / "audit.jsonl", lines()[:-1])
    path.write_bytes(path.read_bytes() + lines()[-1][:40])
    done = again(path)
    assert done.recording.bad == 0
    assert done.gaps == [f"audit.jsonl ends in the middle of line {len(lines())}"]
    assert done.rerun.different == 0


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.jsonl", b"", "no line that can be replayed"),
        ("other.jsonl", b'{"a": 1}\n', "nothing could be replayed"),
        (
            "asked.jsonl",
            b'{"now_s": 5, "workload": "a/b", "replicas": {"desired": 1, "ready": 1}}\n',
            "asked.jsonl: line 1: readings, as `headroom decide` reads them; give the audit files of `headroom run`",
        ),
        ("cut.jsonl.gz", gzip.compress(b"x" * 100, mtime=0)[:20], "not a whole gzip file"),
    ],
)
def test_files_with_nothing_to_replay_are_refused_in_words(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words):
        again(tmp_path / name)


def test_a_folder_without_audit_files_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no audit file"):
        again(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        again(tmp_path / "audit.jsonl")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("max_replicas", "not key=value"),
        ("max_replica=5", "max_replica"),
        ("max_replicas=many", "max_replicas"),
        ("slo.wait_s=-1", "wait_s"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_before_anything_is_read(given: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Overlay.of([given])


def test_under_a_lower_maximum_decisions_differ_and_both_worlds_have_their_bill(tmp_path: Path) -> None:
    """Eight replicas of two requests/s carry 16 of the 18 that come for five minutes: 2 × 300 s = 600 wait, no more
    than 37 s; as recorded there are more replicas and fewer late."""
    done = again(write(tmp_path / "audit.jsonl", lines()), changes=("max_replicas=8",))
    assert done.rerun.different == 0
    assert done.whatif is not None
    c = compare(done.whatif, WORKLOAD)
    assert c.differ > 0
    assert c.first is not None
    assert c.first.replicas > c.first.other_replicas
    assert {after for _, after, _ in c.reasons} & {"MAX"}
    assert c.happened is not None
    assert c.as_is is not None
    assert c.other is not None
    assert c.other.account.held_hours < c.as_is.account.held_hours
    assert c.other.attainment_ratio is not None
    assert c.as_is.attainment_ratio is not None
    assert c.other.attainment_ratio < c.as_is.attainment_ratio
    # The worlds as recorded and as it happened are one policy: the model is all that differs.
    assert c.as_is.account.held_hours == pytest.approx(c.happened.observed.held_hours, rel=0.1)
    assert c.optimum is not None
    assert c.as_is.ratio_d2 == pytest.approx(c.as_is.account.held_hours / c.optimum.held_hours)
    assert sum(s.replica_hours for s in c.stretches) < 0


def test_without_any_other_setting_both_worlds_are_one(tmp_path: Path) -> None:
    done = again(write(tmp_path / "audit.jsonl", lines()), changes=("max_replicas=40",))
    assert done.whatif is not None
    c = compare(done.whatif, WORKLOAD)
    assert (c.differ, c.first, c.stretches) == (0, None, ())
    assert c.as_is == c.other


def test_where_no_request_came_none_was_in_time_and_none_was_late(tmp_path: Path) -> None:
    done = again(write(tmp_path / "audit.jsonl", lines()), changes=("max_replicas=8",))
    compared = comparisons(done)[0]
    assert compared.happened is not None
    silent = replace(compared.happened, requests=0.0)
    world = _setting(silent, compared.optimum)
    assert world.attainment_ratio is None
    told = text(Shown(done, [replace(compared, happened=silent, as_is=world, other=world)], ["max_replicas=8"]))
    rows = [line for line in told.splitlines() if line.startswith(("  what happened", "  as recorded", "  otherwise"))]
    assert ["–" in row and "%" not in row for row in rows] == [True] * 3


def test_an_estimate_is_made_again_from_the_record(tmp_path: Path) -> None:
    (past,) = estimates(Recording.of([write(tmp_path / "audit.jsonl", lines(active=False))]), fit)
    assert past.estimate is not None
    assert past.estimate.observed.held_hours == pytest.approx(4 * past.estimate.counted_s / 3600)
    assert past.estimate.doubt == "TOO_SHORT"
    assert past.quality is not None
