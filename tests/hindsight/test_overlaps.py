"""Other settings are tried on stretches that overlap: every look is counted once, and the overlaps tell the error."""

import json
import os
import re
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from autoscaler.cli.replayed import Shown, comparisons, text
from autoscaler.cli.replayed_forms import as_json
from autoscaler.core.observe import pods
from autoscaler.core.observe.pods import Interval, WorkloadTrack, difference
from autoscaler.core.types import Readings
from autoscaler.fitting.fit import fit
from autoscaler.hindsight import crew, overlaps, strands
from autoscaler.hindsight.joined import Agreement, Lapped
from autoscaler.hindsight.ledger import Ledger, Three
from autoscaler.hindsight.overlaps import Cut, Lap, overlapped
from autoscaler.hindsight.overlay import Overlay, SettingError
from autoscaler.hindsight.recording import Marked, Recording, Written
from autoscaler.hindsight.replay import Replayed, replay
from autoscaler.hindsight.seams import Seams
from autoscaler.hindsight.served import Sums
from autoscaler.hindsight.shadow import Shadow
from autoscaler.hindsight.timeline import Timeline
from autoscaler.hindsight.whatif import Tally, Told, WhatIf
from autoscaler.record import memories
from autoscaler.sim.headroom import WORKLOAD
from tests.hindsight.recorded import marked, write


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories are 200 s apart in these records: a lap counts from 100 s on and is compared over the last 50."""
    for name, seconds in (("UNCOUNTED_S", 100.0), ("WHOLE_S", 100.0), ("SHARED_S", 50.0)):
        monkeypatch.setattr(overlaps, name, seconds)


def tried(folder: Path, given: list[bytes], *changes: str, exact: bool = False, processes: int = 1) -> Replayed:
    path = write(folder / "audit.jsonl", given)
    return replay(Recording.of([path]), fit, overlay=Overlay.of(changes), exact=exact, processes=processes)


def laps_of(folder: Path, given: list[bytes]) -> list[Lap]:
    (held,) = overlapped(Recording.of([write(folder / "audit.jsonl", given)]).unread())
    return held


def test_a_lap_begins_at_every_second_memory_and_the_one_before_it_ends_100_s_later(tmp_path: Path) -> None:
    """100 looks at the seconds 0, 10, … 990; memories after those at 200, 400, 600 and 800."""
    laps = laps_of(tmp_path, list(marked()))
    looks = [sum(isinstance(entry, Written) for entry in lap.entries) for lap in laps]
    assert looks == [51, 50, 19], "0-500, 410-900 and 810-990"
    assert [isinstance(lap.begins, Marked) for lap in laps] == [False, True, True]
    assert [lap.apart for lap in laps] == [False, True, False]
    cuts = [[entry for entry in lap.entries if isinstance(entry, Cut)] for lap in laps]
    assert cuts == [[Cut.COMPARED, Cut.END], [Cut.COMPARE, Cut.COUNT, Cut.COMPARED, Cut.END], [Cut.COMPARE, Cut.COUNT]]
    kept = [[e.now_s for e in lap.entries if isinstance(e, Marked)] for lap in laps]
    assert kept == [[200, 400], [600, 800], []], "each is compared with by one lap"


def test_a_last_lap_that_does_not_come_to_count_is_let_go(tmp_path: Path) -> None:
    """The record ends at second 850, before the third lap counts from 900 on: the second has all of it."""
    given = list(marked())[: 1 + 2 * 86 + 4]
    assert [lap.over for lap in laps_of(tmp_path, given)] == [True, False]
    done = tried(tmp_path, given, "max_replicas=8")
    assert (done.rerun.steps, done.rerun.compared) == (86, 51)
    assert done.whatif is not None
    assert done.whatif.told[WORKLOAD].decisions == 86


@pytest.mark.parametrize("most", [1 << 30, 50_000], ids=["held together", "in parts"])
def test_every_look_is_counted_once_and_every_memory_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(strands, "MOST_BYTES", most)
    done = tried(tmp_path, list(marked()), "max_replicas=8")
    assert done.rerun.compared + done.rerun.believed == done.rerun.steps == 100
    assert (done.rerun.different, done.rerun.unlike, done.recording.bad) == (0, [], 0)
    assert done.rerun.compared >= 51, "the first lap is decided again in any case"
    assert done.rerun.memories == (4 if most < 1 << 30 else 2), "of what is not followed nothing is compared"
    assert done.whatif is not None
    told = done.whatif.told[WORKLOAD]
    assert told.decisions == 100
    assert all(first < second for first, second in pairwise(told.timeline.at_s))
    assert list(done.whatif.told) == [WORKLOAD]


@pytest.mark.parametrize("change", ["max_replicas=8", "slo.wait_s=5", "warmup_prior_s=300"])
def test_a_lap_that_takes_its_decisions_as_recorded_comes_to_the_same_as_if_it_made_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """All but the first do, from when their worlds run: 40 looks of the second of three count, and 9 of the third."""
    taken = tried(tmp_path, list(marked()), change)
    assert (taken.rerun.believed, taken.rerun.compared, taken.rerun.memories) == (49, 51, 2)
    told = text(Shown(taken, comparisons(taken), (change,)))
    assert "100 decisions of 1 workload over 16.5 min: 51 of them made again, every one as recorded" in told
    assert "49 are taken as recorded: without --set every one is made again and compared" in told
    assert json.loads(as_json(Shown(taken, [], ())))["decisions_taken_as_recorded"] == 49

    taken.rerun.different = 1
    assert "this build would make some of those otherwise too" in text(Shown(taken, [], ()))

    monkeypatch.setattr(WhatIf, "_take", lambda *_: False)
    made = tried(tmp_path, list(marked()), change)
    assert (made.rerun.believed, made.rerun.compared, made.rerun.different, made.rerun.memories) == (0, 100, 0, 4)
    assert "taken as recorded" not in text(Shown(made, comparisons(made), (change,)))
    assert taken.whatif is not None
    assert made.whatif is not None
    assert taken.whatif.told == made.whatif.told
    assert taken.whatif.told[WORKLOAD].decisions == 100
    assert taken.whatif.estimates(WORKLOAD) == made.whatif.estimates(WORKLOAD)
    assert taken.agreements == made.agreements


def test_what_two_rows_read_off_one_look_is_differenced_once_and_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fourth look comes again 0.4 s later, as where an event follows a page: the worlds pass it over."""
    given, looks = list[bytes](), 0
    for line in marked():
        given.append(line)
        if b'"kind":"inputs"' in line:
            looks += 1
        elif line.startswith(b'{"version"') and looks % 4 == 0:
            given += [later(each) for each in given[-2:]]
    differenced = list[float]()

    def counted(track: WorkloadTrack, readings: Readings) -> Interval:
        differenced.append(readings.now_s)
        return difference(track, readings)

    monkeypatch.setattr(pods, "difference", counted)
    shared = tried(tmp_path, given, "max_replicas=8")
    once = len(differenced)
    monkeypatch.setattr(Shadow, "_share", lambda *_: False)
    apart = tried(tmp_path, given, "max_replicas=8")
    assert shared.whatif is not None
    assert apart.whatif is not None
    assert shared.whatif.told == apart.whatif.told
    assert shared.whatif.told[WORKLOAD].decisions == 125
    assert shared.whatif.estimates(WORKLOAD) == apart.whatif.estimates(WORKLOAD)
    assert shared.agreements == apart.agreements
    assert len(differenced) - 2 * once > 30, "of the looks of two laps"


def later(line: bytes) -> bytes:
    """The same look, 0.4 s later."""
    return re.sub(rb'"now_s":([0-9]+)\.0', rb'"now_s":\1.4', line, count=1)


def test_a_lap_in_which_the_policy_changes_makes_its_decisions_again(tmp_path: Path) -> None:
    """From second 700 on another minimum is in force: a world may begin anew there, with all that is remembered."""
    given = list(marked())
    at = next(n for n, line in enumerate(given) if b'"kind":"inputs"' in line and b'"now_s":700.0' in line)
    given[at:] = [line.replace(b'"min_replicas":1', b'"min_replicas":2') for line in given[at:]]
    assert [lap.steady for lap in laps_of(tmp_path, given)] == [True, False, True]
    done = tried(tmp_path, given, "max_replicas=8")
    assert (done.rerun.believed, done.rerun.compared) == (9, 91)


def test_it_comes_out_near_what_is_decided_in_order_and_says_how_near(tmp_path: Path) -> None:
    """Twelve replicas of two requests/s carry the 18 that come for five minutes, in the first lap."""
    near, exact = (tried(tmp_path, list(marked()), "max_replicas=12", exact=exact) for exact in (False, True))
    assert near.whatif is not None
    assert exact.whatif is not None
    assert exact.agreements == {}
    ours, theirs = near.whatif.estimates(WORKLOAD), exact.whatif.estimates(WORKLOAD)
    assert ours is not None
    assert theirs is not None
    for mine, right in zip(ours, theirs, strict=True):
        assert mine.requests == right.requests > 0
        assert mine.ours.held_hours == pytest.approx(right.ours.held_hours, rel=0.05)
        assert mine.ours.late == pytest.approx(right.ours.late)
    happened, really = ours[0].observed, theirs[0].observed
    assert (happened.held_hours, happened.late) == pytest.approx((really.held_hours, really.late))
    assert happened.held_hours > 0
    agreement = near.agreements[WORKLOAD]
    assert (agreement.laps, agreement.joined, agreement.meetings) == (3, 0, 2)
    assert agreement.other.looks == 10, "five looks at each of two meetings"
    words = text(Shown(near, comparisons(near), ("max_replicas=12",)))
    assert "an approximation, --exact is none: 3 stretches side by side" in words
    assert "counts differ after 0.0 % of the looks" in words
    assert "only --exact tells which holds less" not in words
    assert "replayed as one" not in words
    assert "how many would be late" not in words
    assert "approximation" not in text(Shown(exact, comparisons(exact), ("max_replicas=8",)))
    near.agreements[WORKLOAD].other.more_s = near.agreements[WORKLOAD].other.held_s
    assert "only --exact tells which holds less" in text(Shown(near, comparisons(near), ("max_replicas=12",)))
    figures = json.loads(as_json(Shown(near, [], ())))["agreements"][WORKLOAD]
    assert (figures["stretches"], figures["joined"], figures["meetings"], figures["other"]["looks"]) == (3, 0, 2, 10)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_queue_that_lasts_from_one_lap_into_the_next_is_lost_by_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    """Eight replicas carry 16 of the 18 requests/s; their queue is gone minutes after the second lap counts."""
    monkeypatch.setattr(crew, "LEAST_LOOKS", 10)
    near, exact = (
        tried(tmp_path, list(marked()), "max_replicas=8", exact=exact, processes=processes) for exact in (False, True)
    )
    assert near.whatif is not None
    assert exact.whatif is not None
    ours, theirs = near.whatif.estimates(WORKLOAD), exact.whatif.estimates(WORKLOAD)
    assert ours is not None
    assert theirs is not None
    assert [each.requests for each in ours] == [each.requests for each in theirs]
    assert [each.ours.late for each in ours] == pytest.approx([each.ours.late for each in theirs])
    assert ours[1].ours.late > 4_000
    agreement = near.agreements[WORKLOAD]
    assert (agreement.laps, agreement.joined, agreement.meetings) == (2, 1, 1)
    assert near.rerun.steps == near.rerun.compared + near.rerun.believed == 100, (
        "a look that is decided on again is one"
    )
    assert near.whatif.told[WORKLOAD].decisions == 100
    words = text(Shown(near, comparisons(near), ("max_replicas=8",)))
    assert "at 1 place a queue would have lasted from one into the next: these were replayed as one, in order" in words
    assert "how many would be late" not in words


def test_a_queue_that_never_goes_makes_one_lap_of_all(tmp_path: Path) -> None:
    near, exact = (tried(tmp_path, list(marked()), "max_replicas=2", exact=exact) for exact in (False, True))
    assert near.whatif is not None
    assert exact.whatif is not None
    assert near.whatif.told == exact.whatif.told
    assert near.whatif.estimates(WORKLOAD) == exact.whatif.estimates(WORKLOAD)
    agreement = near.agreements[WORKLOAD]
    assert (agreement.laps, agreement.joined, agreement.meetings) == (1, 2, 0)
    words = text(Shown(near, comparisons(near), ("max_replicas=2",)))
    assert "replayed in order, from beginning to end" in words
    assert "approximation" not in words


def test_what_is_written_while_it_is_read_again_is_of_the_next_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller that writes the record goes on: the last 20 looks come when all before were stepped once."""
    given = list(marked())
    path = write(tmp_path / "audit.jsonl", given[: 1 + 2 * 80 + 4])
    whole = Recording.of([path])
    first = replay(whole, fit, overlay=Overlay.of(("max_replicas=2",)))
    widen = Seams.widen

    def written(seams: Seams) -> frozenset[tuple[str, int]]:
        write(path, given)
        return widen(seams)

    monkeypatch.setattr(Seams, "widen", written)
    again = replay(Recording.of([path]), fit, overlay=Overlay.of(("max_replicas=2",)))
    assert first.whatif is not None
    assert again.whatif is not None
    assert again.whatif.told == first.whatif.told
    assert again.agreements[WORKLOAD].joined == 1


def test_what_comes_by_a_pipe_cannot_be_read_again_and_that_is_said(tmp_path: Path) -> None:
    pipe = tmp_path / "audit.jsonl"
    os.mkfifo(pipe)
    writing = threading.Thread(target=write, args=(pipe, marked()), daemon=True)
    writing.start()
    done = replay(Recording.of([pipe]), fit, overlay=Overlay.of(("max_replicas=8",)))
    writing.join(timeout=10)
    agreement = done.agreements[WORKLOAD]
    assert (agreement.laps, agreement.joined, agreement.meetings) == (3, 0, 2)
    assert agreement.other.late_ratio < -0.01, "the second lap begins without the queue that eight replicas left"
    assert "only --exact tells how many would be late" in text(Shown(done, comparisons(done), ("max_replicas=8",)))
    agreement.other.later = 0.01 * agreement.other.requests
    assert "how many would be late" not in text(Shown(done, comparisons(done), ("max_replicas=8",)))


def lapped(number: int, shared_s: range, other: int, late: float) -> Lapped:
    """A lap that holds three replicas as recorded and `other` otherwise, ten seconds after each look."""
    line, total = Timeline(), len(shared_s) * 10.0
    line.at_s += [float(at_s) for at_s in shared_s]
    line.as_is += [3] * len(shared_s)
    line.other += [other] * len(shared_s)

    def summed(replicas: int, late: float) -> Ledger:
        return Ledger(Three(ours=Sums(replicas * total, late, 0.0), counted_s=total, requests=2 * total))

    tally = Tally(Told(timeline=line), summed(3, 0.0), summed(other, late))
    return Lapped(WORKLOAD, number, f"{WORKLOAD} #{number}", tally, tally if number > 1 else None, (Three(), Three()))


@pytest.mark.parametrize(("left", "found", "longer"), [(9.0, 0.1, 0), (9.2, 0.1, 1), (0.0, 9.1, 1), (9.2, np.nan, 0)])
def test_laps_are_joined_where_what_waits_differs_by_more_than_nine_seconds_of_what_came_in_the_quarter_of_an_hour(
    left: float, found: float, longer: int
) -> None:
    """900 requests came."""
    elder = replace(lapped(1, range(10, 451, 10), 3, 0.0), left=(0.0, left))
    younger = replace(lapped(2, range(10, 451, 10), 3, 0.0), found=(0.0, found))
    seams = Seams([younger, elder])
    assert len(seams.widen()) == longer
    assert seams.joined == ({WORKLOAD: {2}} if longer else {})


def test_what_two_laps_make_of_the_same_looks_is_their_agreement() -> None:
    """Half an hour; the elder holds four otherwise and makes 9 of 3,600 late, the younger five and none."""
    shared = range(10, 1801, 10)
    agreement = Agreement()
    agreement.note(lapped(1, shared, 4, 9.0), lapped(2, shared, 5, 0.0))
    assert (agreement.meetings, agreement.as_is.looks, agreement.as_is.differ, agreement.as_is.agreed) == (1, 180, 0, 1)
    assert (agreement.as_is.held_ratio, agreement.as_is.late_ratio) == (0.0, 0.0)
    other = agreement.other
    assert (other.looks, other.differ, other.agreed) == (180, 180, 0)
    assert other.held_ratio == pytest.approx((5 - 4) / 5)
    assert other.late_ratio == pytest.approx(-9 / 3600)


def test_sums_that_began_anew_in_the_shared_time_are_not_compared() -> None:
    """The elder's capacity was measured in it: what it had counted by then, 7,200 s, is dropped."""
    agreement, shared = Agreement(), range(10, 1801, 10)
    noted = Three(counted_s=7200.0), Three(counted_s=7200.0)
    agreement.note(replace(lapped(1, shared, 4, 0.0), noted=noted), lapped(2, shared, 5, 0.0))
    assert (agreement.other.differ, agreement.other.held_s, agreement.other.more_s) == (180, 0.0, 0.0)


def test_a_record_without_memories_is_one_lap_and_no_approximation(tmp_path: Path) -> None:
    plain = [line for line in marked() if not line.startswith(memories.PREFIX)]
    near, exact = (tried(tmp_path, plain, "max_replicas=8", exact=exact) for exact in (False, True))
    assert near.whatif is not None
    assert exact.whatif is not None
    assert near.agreements == {}
    assert near.whatif.told == exact.whatif.told
    assert near.whatif.estimates(WORKLOAD) == exact.whatif.estimates(WORKLOAD)


@pytest.mark.parametrize(("checkpoint", "bad"), [(b"null", 0), (b'{"version":7}', 1)], ids=["anew", "unusable"])
def test_a_hand_over_within_a_lap_is_taken_as_in_order(tmp_path: Path, checkpoint: bytes, bad: int) -> None:
    given = [line for line in marked() if not line.startswith(memories.PREFIX)]
    start = b'{"kind":"start","version":1,"now_s":400.0,"workload":"sim/workload","fit_asked_s":null,"checkpoint":%s}'
    given.insert(81, start % checkpoint)
    near, exact = (tried(tmp_path, given, "max_replicas=8", exact=exact) for exact in (False, True))
    assert near.whatif is not None
    assert exact.whatif is not None
    assert near.recording.bad == exact.recording.bad == bad
    assert near.rerun.different == exact.rerun.different > 0
    assert near.whatif.told == exact.whatif.told


def test_processes_share_the_laps_out_and_it_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "LEAST_LOOKS", 10)
    alone, shared = (tried(tmp_path, list(marked()), "max_replicas=8", processes=n) for n in (1, 2))
    assert alone.whatif is not None
    assert shared.whatif is not None
    assert alone.whatif.told == shared.whatif.told
    assert alone.whatif.estimates(WORKLOAD) == shared.whatif.estimates(WORKLOAD)
    assert (alone.agreements, alone.rerun.counted()) == (shared.agreements, shared.rerun.counted())


def test_settings_that_the_record_does_not_allow_are_refused(tmp_path: Path) -> None:
    given = [line.replace(b'"min_replicas":1', b'"min_replicas":9') for line in marked()]
    with pytest.raises(SettingError, match="min_replicas: 9 is above max_replicas: 8"):
        tried(tmp_path, given, "max_replicas=8")


def spans(from_s: int, to_s: int, *, least: bool = False, slack_s: float = 10.0) -> Ledger:
    """Ten requests in every ten seconds; four replicas are held and three of ours, by which one in a minute is late."""
    ledger = Ledger(slack_s=slack_s)
    for at_s in range(from_s + 10, to_s + 1, 10):
        ours = Sums(30.0, 1.0 if at_s // 10 % 6 == 0 else 0.0, 5.0)
        ledger.count(float(at_s), Three(Sums(40.0, 0.0, 3.0), Sums(40.0, 0.25, 4.0), ours, 10.0, 10.0), least=least)
    return ledger


def estimated(ledger: Ledger) -> object:
    return ledger.estimate(
        WORKLOAD, slack_s=10.0, token_time=False, calibrated=True, least=ledger.least, warmup_assumed=False,
        gpus_per_replica=None,
    )  # fmt: skip


@pytest.mark.parametrize("offset_s", [0, 7], ids=["with a look at the cut", "with none"])
@pytest.mark.parametrize(
    "cut_s",
    [7200, 5100, 8400],
    ids=["cut at an hour", "in an hour that ends in the second", "in the hour that is open"],
)
def test_sums_that_were_kept_apart_are_as_if_counted_in_one(offset_s: int, cut_s: int) -> None:
    cut_s += offset_s - 10 * (offset_s > 0)
    parts = spans(offset_s, cut_s).followed_by(spans(cut_s, 10_800))
    assert estimated(parts) == estimated(spans(offset_s, 10_800))


def test_of_sums_that_do_not_go_together_those_are_kept_that_one_count_would_have_kept() -> None:
    one = spans(0, 3600).total
    bound = spans(3600, 7200, least=True)
    assert spans(0, 3600).followed_by(bound).total == one, "a measured capacity is followed by no lower bound"
    assert spans(0, 7200, least=True).followed_by(spans(7200, 10_800)).total.counted_s == 3600
    assert spans(0, 7200).followed_by(spans(7200, 10_800, slack_s=5.0)).total.counted_s == 3600
    assert spans(0, 3600).followed_by(Ledger(slack_s=10.0)).total == one
    assert Ledger().followed_by(spans(0, 3600)).total == one
