"""What a queue asks for while nobody knows what one replica carries.

Enters: what waits, runs and was completed since the last look, and which replicas can have told by it. Leaves: a count,
and for whoever asks what was seen of the queue and why it asks for no more.
A queue is evidence by its size: one request that waits for an engine's step to end says nothing of the replicas, and
what takes seconds to serve says how many are missing. The count is a level, never an increment: while the queue is the
same it is the same, however many starts are on their way. It refuses to know what a replica carries; once some served
behind a queue for a while that is measured (`capacity.throughput`), and this is not asked any more.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from autoscaler.core.columns import F64, I64, Bools, Columns, column, filled, some
from autoscaler.core.scale import clearing, propose

STANDS_S = 1.0
"""A queue stands if some waited at the look before and what waits now takes this long to serve, or half of the slack if
that is less. An engine admits requests between its steps, of 10 ms to half a second each with a long prompt (the budget
of tokens in a step bounds it: Agrawal et al., Sarathi-Serve, OSDI 2024), so whoever waits for one is gone by then.
It is the minimum over an interval that tells a queue which stands (Nichols and Jacobson, CoDel, 2012)."""

SIGMAS = 3.0
"""One look is enough where more waits than runs by three deviations of a Poisson count: by Little's law no more than
run arrive within a whole stay in the engine, so these wait for requests to end and not for a step."""

GROWTH = 0.5
"""One look asks for at most half as many again as stand, and one: the next tells whether it was right (a guess)."""

SETTLE_S = 30.0
"""Replicas ordered within this time have not shown in the queue (a guess): what waits in one pod stays there, so pods
that start in a second would be asked for tenfold within six. They count as far as they are at work, by what the queue
does since then: all replicas of a rollout or before a controller that comes back are as young."""


LEAST = 1e-6
"""Fewer requests than this, or fewer a second, are none: nothing is divided by them."""

LOOK_S = 0.9
"""Looks closer together count as one: pages come about once a second each, give or take a few milliseconds, and between
two looks of which only a gateway's came nothing was completed, as far as anybody can see. A queue that was not there
and is clear by itself counts at once: it needs nothing to compare with, and would else wait for the next tick."""

PAUSE_TICKS = 0.75
"""Growth is asked for once in a tick, which passes for one from here on: a page comes every second or so, and of two
looks five seconds apart the second may have the last page but one."""

HOLDS = 256.0
"""While no replica is ready to be watched, one is asked for each so many that wait: no more are in service at once in
an engine of vLLM's defaults (`max_num_seqs`; newer ones allow 1,024 on the largest GPUs, where memory rarely does)."""

FORGET_S = 60.0
"""A queue seen so long ago, and more than two ticks, says nothing of the one that is seen now (a guess, and longer than
pages that come late are apart): this one counts where it is clear by itself, as what was ordered meanwhile is known."""


@dataclass(slots=True)
class LineColumns(Columns):
    """What the last look that counted saw, and what it made of it."""

    at_s: F64 = column()
    waiting: F64 = column()
    running: F64 = column(later=True)
    completed: F64 = column(fill=0.0)
    """Since then."""
    fullest: F64 = column(fill=0.0, later=True)
    """The most that were ever seen to run, for each ready replica."""
    fewest: F64 = column(later=True)
    """The fewest that waited, up to `FORGET_S` ago, and when."""
    fewest_at_s: F64 = column(later=True)
    asked: F64 = column()
    grew_at_s: F64 = column()
    """When more was asked for last than stood."""


@dataclass(frozen=True, slots=True)
class Line:
    """Requests in line, arrays of shape (B,); NaN where not known."""

    waiting: F64
    before: F64
    """Waiting at the last look that counted, `dt_s` ago; `completed` since."""
    running: F64
    completed: F64
    admitted: F64
    """Of those that waited then or came since, how many were let into an engine; as counted, without what is assumed of
    `completed` where nothing was."""
    room: Bools
    """At this look or at that one fewer ran than the replicas were ever seen to hold."""
    dt_s: F64
    climb_rps: F64
    """By how much what waits grew since fewest did, less what it grows by chance; NaN where they are as few now, or it
    grows by more than chance since the last look."""
    slack_s: F64
    lead_s: F64
    desired: F64
    serving: F64
    ready: F64
    """Those that do not serve, or that nobody has read yet, among them."""
    settled: F64
    """The least count that stood within `SETTLE_S`."""
    starting: F64
    at_work: F64
    """Ready replicas as what is in service would fill them, each as full as the fullest (`told.at_work`)."""
    completing: F64
    """Those of them that `completed` came from; both NaN where all are settled, or it is not known."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look made of the queue, arrays of shape (B,)."""

    count: F64
    """Replicas, as `asked` returns them."""
    line: Line
    """What was compared with the last look that counted, or as it came where nothing waits in any row."""
    paused: Bools
    """Growth was asked for within this tick."""


class Because(Enum):
    """Why a queue asks for no more than stands; the words are the record's."""

    ENOUGH = "enough"
    """By what those at work hold and do, what was ordered will do."""
    SEEN_ONCE = "seen_once"
    GONE_AT_ONCE = "gone_at_once"
    """Too few wait to stand, though some did at the look before."""
    ONCE_A_TICK = "once_a_tick"
    WITHIN_A_SECOND = "within_a_second"
    """The look before was so close that this one does not count."""
    NOTHING_SERVED = "nothing_served"
    """Nothing is in service and nothing was completed: there is nothing to count replicas by."""
    QUEUE_ALONE = "queue_alone"
    """Neither what runs nor what is done is known, and the last order has not shown."""


class Sight(NamedTuple):
    """What one row saw of a queue that asks for no more than stands; rates in requests/s, NaN where not known."""

    done_rps: float
    """Completed since the last look that counted."""
    cleared_s: float
    """How long what waits takes at that."""
    uncounted: int
    """Ready replicas that were ordered within `SETTLE_S` and do not count among those at work."""
    because: Because


def look(columns: LineColumns, rows: I64, line: Line, *, now_s: F64, tick_s: F64, done_rps: F64) -> Looked:
    """Return what a `line` asks for whose `completed` counts since the last step of any kind.

    A step without a page of the queue leaves what was seen before it; steps in bursts, or repeated at one instant,
    count as one, and in a tick growth is asked for once. `done_rps` is the smoothed rate of completions, for the
    moments in which none is seen.
    """
    age_s = now_s - columns.at_s[rows]
    done = columns.completed[rows] + filled(line.completed)
    fullest = np.fmax(columns.fullest[rows], line.running / np.maximum(line.serving, 1.0))
    counts = np.isfinite(line.waiting) & ~(age_s < LOOK_S)
    looked = Looked(np.zeros(len(rows)), line, np.zeros(len(rows), dtype=np.bool_))
    if some(line.waiting > 0):
        counts |= np.isfinite(line.waiting) & (age_s > 0) & (columns.waiting[rows] == 0) & _clear(line)
        stale = age_s > np.maximum(FORGET_S, 2.0 * tick_s)
        since = replace(
            line,
            before=np.where(stale, 0.0, columns.waiting[rows]),
            completed=np.where(done > 0, done, done_rps * age_s),
            admitted=done + line.running - columns.running[rows],
            room=np.minimum(columns.running[rows], line.running) < fullest * np.maximum(line.serving, 1.0),
            dt_s=np.where(stale, np.nan, age_s),
        )
        since = replace(since, climb_rps=_climb_rps(since, columns.fewest[rows], now_s - columns.fewest_at_s[rows]))
        paused = now_s - columns.grew_at_s[rows] < PAUSE_TICKS * tick_s
        # What was asked for in this tick already may be asked for again: it may not have been allowed when it was.
        again = np.fmax(line.desired, columns.asked[rows])
        count = asked(since)
        count = np.where(paused, np.minimum(count, again), count)
        count = np.where(counts, count, np.where(line.waiting > 0, filled(columns.asked[rows]), 0.0))
        columns.grew_at_s[rows] = np.where(counts & (count > line.desired), now_s, columns.grew_at_s[rows])
        looked = Looked(count, since, paused)
    known = (line.waiting > columns.fewest[rows]) & (now_s - columns.fewest_at_s[rows] <= FORGET_S)
    for kept, value in ((columns.fewest, line.waiting), (columns.fewest_at_s, now_s)):
        kept[rows] = np.where(counts & ~known, value, kept[rows])
    columns.completed[rows] = np.where(counts, 0.0, done)
    columns.fullest[rows] = fullest
    for kept, value in (
        (columns.at_s, now_s),
        (columns.waiting, line.waiting),
        (columns.running, line.running),
        (columns.asked, looked.count),
    ):
        kept[rows] = np.where(counts, value, kept[rows])
    return looked


def sight(looked: Looked, i: int) -> Sight:
    """Return what row `i` saw of a queue that asks for no more than stands, and why it does not."""
    line = Line(**{name: getattr(looked.line, name)[i : i + 1] for name in Line.__dataclass_fields__})
    rate_rps = _rate_rps(line)
    if np.isnan(line.running[0]) and np.isnan(rate_rps[0]):
        because = Because.QUEUE_ALONE
    elif not _stands(line, rate_rps)[0]:
        because = Because.GONE_AT_ONCE if line.before[0] > 0 else Because.SEEN_ONCE
    elif propose.count(asked(line))[0] > line.desired[0]:
        because = Because.ONCE_A_TICK if looked.paused[i] else Because.WITHIN_A_SECOND
    else:
        counted = line.running[0] > LEAST or np.isfinite(rate_rps[0])
        because = Because.ENOUGH if counted else Because.NOTHING_SERVED
    uncounted = max(0, int(line.serving[0] - np.fmax(_full(line), line.at_work)[0]))
    return Sight(float(rate_rps[0]), float(line.waiting[0] / rate_rps[0]), uncounted, because)


def asked(line: Line) -> F64:
    """Return replicas: what a queue that stands needs, what was ordered where another waits, 0 where none does."""
    full, rate_rps = _full(line), _rate_rps(line)
    more = np.fmin(_held(line, full), _cleared(line, full, rate_rps))
    most = np.floor(line.desired * (1.0 + GROWTH)) + 1.0
    count = np.where(
        _stands(line, rate_rps), np.minimum(np.fmax(full + filled(more), _level(line, rate_rps)), most), line.desired
    )
    # Where only the queue is known, nothing says by how much: growth waits until the last one shows.
    blind = ~np.isfinite(line.running) & np.isnan(rate_rps)
    shown = (line.before > 0) & (line.starting == 0) & (line.settled >= line.desired)
    half_again = np.where(shown, np.floor(line.serving * (1.0 + GROWTH)) + 1.0, line.desired)
    count = np.where(blind, half_again, count)
    count = np.where(line.ready == 0, np.fmax(count, np.ceil(line.waiting / HOLDS)), count)
    return np.where(line.waiting > 0, count, 0.0)


def _full(line: Line) -> F64:
    """Settled replicas: what others hold and complete is taken for theirs, which asks for fewer."""
    return np.maximum(np.minimum(line.serving, line.settled), 1.0)


def _rate_rps(line: Line) -> F64:
    """What was completed since the last look that counted, per second; NaN where that is not known, or nothing."""
    rate_rps = np.where(line.dt_s > 0, line.completed / np.maximum(line.dt_s, 1e-9), np.nan)
    return np.where(rate_rps > LEAST, rate_rps, np.nan)


def _stands(line: Line, rate_rps: F64) -> Bools:
    soon = np.minimum(STANDS_S, 0.5 * line.slack_s) * filled(rate_rps)
    lasts = (line.before > 0) & (line.waiting > soon) & ~_another(line)
    # A first look has nothing to compare with: where replicas start, what it finds may be what they were ordered for.
    return np.asarray(lasts | (_clear(line) & (np.isfinite(line.before) | (line.starting == 0))))


def _another(line: Line) -> Bools:
    """Whether one waits that was not there at the look before, and for no slot: a step or a prefill holds it back.

    Engines admit in the order of arrival, so whoever waited then is in service once as many were admitted since. By
    `STANDS_S` alone two glimpses of one request each are a queue wherever less than one is done in a second.
    """
    return np.asarray((line.waiting <= 1.0) & (line.admitted >= line.before) & line.room)


def _clear(line: Line) -> Bools:
    """Whether so many wait that one look is enough."""
    return (line.running > 0) & (line.waiting > line.running + SIGMAS * np.sqrt(np.maximum(line.running, 0.0)))


def _held(line: Line, full: F64) -> F64:
    """Replicas that would hold at once all that waits, as many each as those that are full (Little's law)."""
    return line.waiting * full / np.where(line.running > LEAST, line.running, np.nan)


def _cleared(line: Line, full: F64, rate_rps: F64) -> F64:
    """What the backlog's own law asks for, if those that are full go on as since the last look and the queue does.

    Where requests are short a queue of hundreds is many times what is in flight, and a few replicas clear it.
    """
    growth_rps = np.maximum(np.fmin(_growth_rps(line), line.climb_rps), 0.0)
    return full * (growth_rps + _clear_rps(line, growth_rps, rate_rps)) / rate_rps


def _level(line: Line, rate_rps: F64) -> F64:
    """What both ask for, in all, where replicas that are not settled are at work; NaN at a first look at the queue.

    What they do shows in how the queue grows or shrinks, which is taken with its sign: none is ordered again.
    """
    growth_rps = np.where(line.before > 0, _growth_rps(line), np.nan)
    arrive_rps = np.maximum(rate_rps + growth_rps, 0.0)
    cleared = line.completing * (arrive_rps + _clear_rps(line, growth_rps, rate_rps)) / rate_rps
    return np.minimum(line.at_work + _held(line, line.at_work), cleared)


def _growth_rps(line: Line) -> F64:
    return np.where(line.dt_s > 0, line.waiting - filled(line.before), 0.0) / np.maximum(filled(line.dt_s), 1e-9)


def _climb_rps(line: Line, fewest: F64, since_s: F64) -> F64:
    """Growth since fewest waited, less one deviation of the Poisson count of those who came since; NaN where what came
    since the last look is more by three deviations than goes on like that.

    What grows from one look to the next goes on for a whole start in what a queue asks for: replicas that are just
    enough have queues of a second that come and go, and one of them that grew by chance ordered half as many again.
    """
    since_s = np.where((since_s > 0) & (line.waiting > fewest), since_s, np.nan)
    more, rate_rps = line.waiting - fewest, filled(_rate_rps(line))
    climb_rps = (more - np.sqrt(rate_rps * since_s + more)) / since_s
    growth_rps = _growth_rps(line)
    came = (rate_rps + np.maximum(growth_rps, 0.0)) * filled(line.dt_s)
    chance_rps = SIGMAS * np.sqrt(came) / np.maximum(filled(line.dt_s), 1e-9)
    return np.where(growth_rps > climb_rps + chance_rps, np.nan, climb_rps)


def _clear_rps(line: Line, growth_rps: F64, rate_rps: F64) -> F64:
    """The rate that clears, beyond the load, what will be left of the queue when an order has landed."""
    left = np.maximum(line.waiting + growth_rps * line.lead_s, 0.0)
    slack_s = clearing.spared_s(line.slack_s, line.lead_s)
    within_s = clearing.within_s(left, growth_rps + filled(rate_rps), lead_s=line.lead_s, slack_s=slack_s)
    return left / within_s
