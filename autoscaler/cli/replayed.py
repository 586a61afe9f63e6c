"""What a replay is told as on a terminal; `replayed_forms` has the same as JSON and as a page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from autoscaler.core.reasons import Reason
from autoscaler.hindsight.comparison import Comparison, Setting, compare, in_time_ratio
from autoscaler.hindsight.course import Progress, untold
from autoscaler.hindsight.joined import Agreement
from autoscaler.hindsight.recording import MOST_TOLD
from autoscaler.hindsight.replay import Replayed
from autoscaler.hindsight.rerun import Difference, Rerun
from autoscaler.record.explain import clock, duration, number

REASONS: Final = 5
"""Reasons that took another's place are told, so many of them."""

LATE_APART_RATIO: Final = 0.01
"""Where two stretches differ by more late requests than this share of what came, a queue outlasts the time that is not
counted, and stretches begin without it: those of a pipe, which cannot be read again (a guess; 13.5 % where half of the
late ones were missed)."""

DECISION: Final = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Shown:
    """A replay, its comparisons, and the settings that were tried."""

    done: Replayed
    compared: Sequence[Comparison]
    changes: Sequence[str]


def comparisons(done: Replayed, progress: Progress = untold) -> list[Comparison]:
    """Every workload under both settings; none without other settings. `progress` gets the share (0..1) that is done.

    Raises HeadroomError for an unsolved bound.
    """
    compared = list[Comparison]()
    if done.whatif is None:
        return compared
    for name in done.workloads:
        compared.append(compare(done.whatif, name))
        progress(len(compared) / len(done.workloads))
    return compared


def text(told: Shown) -> str:
    """The whole of it as a person reads it."""
    return "\n".join([*head(told.done), *(line for each in told.compared for line in told_lines(each, told))])


def head(done: Replayed) -> Iterator[str]:
    """What is told of the whole replay, before its workloads."""
    rerun, recording = done.rerun, done.recording
    span_s = max(done.to_s[name] - done.from_s[name] for name in done.workloads)
    workloads = f"{len(done.workloads)} workload{'s' if len(done.workloads) > 1 else ''}"
    yield f"{rerun.steps:,} decisions of {workloads} over {duration(span_s)}: {_verdict(rerun)}"
    if rerun.believed:
        yield f"  {rerun.believed:,} are taken as recorded: without --set every one is made again and compared"
    if rerun.believed and rerun.different:
        yield "  this build would make some of those otherwise too: --exact lays its own beside the other settings"
    if rerun.memories:
        unlike = f"; at {len(rerun.unlike):,} of them otherwise" if rerun.unlike else ""
        places = f"{rerun.memories:,} place{'s' if rerun.memories > 1 else ''}"
        yield f"  and at {places} all that was remembered{unlike}"
    yield from (_difference(d) for d in rerun.differences)
    yield from (f"  {words}" for words in rerun.unlike[:MOST_TOLD])
    if rerun.unknown:
        of = ", ".join(sorted(rerun.unbegun))
        yield f"  {rerun.unknown:,} decisions before the first memory of {of}: its beginning is not in the record"
    if rerun.unbegun and rerun.different:
        yield f"  the record does not hold the beginning of {', '.join(sorted(rerun.unbegun))}: give the earlier files"
    yield from (f"  gap: {gap}" for gap in done.gaps)
    if done.more_gaps:
        yield f"  and {done.more_gaps:,} more gaps"
    yield from (f"  bad line: {fault}" for fault in recording.faults)
    if recording.bad > len(recording.faults):
        yield f"  and {recording.bad - len(recording.faults):,} more bad lines"
    if recording.alone:
        yield f"  {recording.alone:,} decisions stand without their inputs and could not be replayed"
    if recording.outdated:
        yield f"  {recording.outdated:,} readings were too old to use when they came, as recorded"


def _verdict(rerun: Rerun) -> str:
    """How the decisions came out that were made again."""
    again = f"{rerun.compared:,} of them made again, " if rerun.believed else ""
    if rerun.different:
        return f"{again}{rerun.different:,} came out otherwise"
    if rerun.believed or rerun.compared:
        return f"{again}every one as recorded, byte for byte"
    return "none of them is recorded to compare with"


def _difference(d: Difference) -> str:
    before, after = DECISION.decode(d.recorded), DECISION.decode(d.again)
    keys = [key for key in after if before.get(key) != after[key]]
    count = f"{before.get('replicas')} {before.get('reason')} → {after['replicas']} {after['reason']}"
    return f"  {d.where}: {clock(d.now_s)} {d.workload}: {count}; differs in {', '.join(keys) or 'its spelling'}"


def told_lines(c: Comparison, told: Shown) -> Iterator[str]:
    """What is told of one workload, below an empty line and its name."""
    yield ""
    yield f"{c.workload} with {', '.join(told.changes) or 'the defaults'}:"
    if c.workload in told.done.agreements:
        yield from _approximation(told.done.agreements[c.workload], c)
    if c.decisions:
        yield f"  on the same readings {c.differ:,} of {c.decisions:,} decisions differ"
    if c.first is not None:
        f = c.first
        yield f"  first {clock(f.now_s)}: {f.replicas} ({f.reason}) → {f.other_replicas} ({f.other_reason})"
    for before, after, count in c.reasons[:REASONS]:
        yield f"  {count:,} × {before} → {after}: {Reason[after].value}"
    if c.happened is None or c.as_is is None or c.other is None:
        yield f"  cannot tell what it would have cost: {c.why_not}"
        return
    yield f"  {error_words(c)}"
    assert c.happened.from_s is not None
    counted = f"counted {duration(c.happened.counted_s)} from {clock(c.happened.from_s)}"
    yield f"  {counted}; in time is by each setting's own objective"
    yield f"  {'on the same arrivals':<26}{'replica-hours':>14}{'over D2':>10}{'in time':>10}{'starts':>8}"
    happened = c.happened
    ratio = in_time_ratio(happened.observed, happened.requests)
    over = _times(c.observed_ratio_d2)
    yield f"  {'what happened':<26}{happened.observed.held_hours:>14.2f}{over:>10}{_percent(ratio):>10}{'':>8}"
    for name, setting in zip(world_names(told), (c.as_is, c.other), strict=True):
        yield _row(name, setting)
    if c.optimum is not None:
        o = c.optimum
        rests = f"one replica carries {number(o.capacity_rps)} requests/s, warm-up {duration(o.warmup_s)}"
        yield f"  {'optimum (D2)':<26}{o.held_hours:>14.2f}{_times(1.0):>10}{'':>10}{'':>8}  {rests}"
    for s in c.stretches:
        what = f"{number(round(s.as_is, 1))} → {number(round(s.other, 1))} replicas"
        yield f"  {clock(s.from_s)} – {clock(s.to_s)}: {what}, {round(s.replica_hours, 2) + 0.0:+.2f} replica-hours"


def _approximation(a: Agreement, c: Comparison) -> Iterator[str]:
    if not a.meetings:
        yield "  a queue would have lasted from each stretch into the next: replayed in order, from beginning to end"
        return
    yield (
        f"  an approximation, --exact is none: {a.laps:,} stretches side by side, each begun from what was remembered "
        "as recorded"
    )
    if a.joined:
        places = f"{a.joined:,} place{'s' if a.joined > 1 else ''}"
        yield f"  at {places} a queue would have lasted from one into the next: these were replayed as one, in order"
    yield f"  half an hour before it counts; where two of them decide on the same 15 minutes, {a.meetings:,} times,"
    for name, m in (("as recorded", a.as_is), ("otherwise", a.other)):
        differ = f"{100 * m.differ / m.looks:.1f} %" if m.looks else "–"
        yield (
            f"    {name}: the same throughout {m.agreed:,} times; counts differ after {differ} of the looks, "
            f"replica-hours by {100 * m.held_ratio:+.2f} %, late requests by {100 * m.late_ratio:+.3f} % of all"
        )
    if c.as_is is not None and c.other is not None and c.as_is.account.held_hours > 0:
        apart = abs(c.other.account.held_hours / c.as_is.account.held_hours - 1.0)
        if apart < abs(a.as_is.held_ratio) + abs(a.other.held_ratio):
            yield "  the settings differ by fewer replica-hours than stretches do: only --exact tells which holds less"
    if max(abs(a.as_is.late_ratio), abs(a.other.late_ratio)) > LATE_APART_RATIO:
        yield "  stretches do not have the queue that was left before them: only --exact tells how many would be late"


def world_names(told: Shown) -> tuple[str, str]:
    """What the two worlds are called."""
    return ("as recorded" if told.done.recording.paths else "by the defaults"), "otherwise"


def error_words(c: Comparison) -> str:
    """How far the worlds can be believed."""
    e = c.happened
    assert e is not None
    if e.late_error_ratio is None or e.wait_error_s is None:
        return "the model was not compared with what happened: less than five minutes were counted"
    words = (
        f"error of the model on {duration(e.scored_s)} that really happened: {number(100 * e.late_error_ratio)} % of "
        f"the requests misplaced, the wait missed by {duration(e.wait_error_s)}"
    )
    return words if c.why_not is None else f"{words}; not to be believed: {c.why_not}"


def _row(name: str, s: Setting) -> str:
    over, held = _times(s.ratio_d2), s.account.held_hours
    return f"  {name:<26}{held:>14.2f}{over:>10}{_percent(s.attainment_ratio):>10}{s.starts:>8,}"


def _times(ratio: float | None) -> str:
    return "–" if ratio is None else f"× {ratio:.2f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.2f} %"
