"""Decisions in words, for a person on call: one line, or the whole trace with its evidence.

Enters: a `Decision`. Leaves: text, from the evidence alone and the same every time. It knows no clock: times are the
readings' own, shown as a date when they count from 1970 and as hours since their origin otherwise.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Final

from autoscaler.core.reasons import Reason
from autoscaler.core.types import Decision, Step, Verdict
from autoscaler.record.catalog import FIGURES, SENTENCES, WORDS

Value = float | int | str | None

QUEUE_AGE: Final = "queue_age_s"
PART_FROM_S: Final = 30.0
"""A queue that was last heard of as a whole so long ago is told of in part."""

_PACED: Final = frozenset({"max_replicas", "quota_replicas", "budget_replicas", "event_replicas"})

EPOCH_FROM_S: Final = 1e9
EPOCH_TO_S: Final = 1e10
"""Sample times between the years 2001 and 2286 are taken for seconds since 1970."""


def sentence(decision: Decision) -> str:
    """The whole decision in one sentence: "6→9: 14 needed …; 9, not 14: the policy's maximum is 9"."""
    parts = [step_sentence(step) for step in decision.trace]
    if decision.reason is Reason.STEADY:
        parts.insert(0, step_sentence(Step("decide", decision.seen_replicas, decision.replicas, Reason.STEADY)))
    change = f"{decision.seen_replicas}→{decision.replicas}"
    return f"{change if decision.verdict is Verdict.SCALE else f'stays at {decision.replicas}'}: {'; '.join(parts)}"


def line(decision: Decision) -> str:
    """The sentence with its time and workload, as a log shows it."""
    return f"{clock(decision.now_s)} {decision.workload} {sentence(decision)}"


def page(decision: Decision) -> str:
    """The decision with its trace: every step's counts, sentence and figures, then the ages of the readings."""
    change = f"{decision.seen_replicas} → {decision.replicas}"
    head = f"{clock(decision.now_s)}  {decision.workload}  {change}  {decision.verdict.value}  {decision.reason.name}"
    rows = [head]
    ages: dict[str, Value] = {}
    for step in decision.trace:
        counts = f"{step.before} → {step.after}"
        rows.append(f"  {step.stage:<8} {counts:>9}  {step.reason.name}: {step_sentence(step)}")
        rows += [f"  {'':<8} {'':>9}    {figure}" for figure in _figures(step)]
        ages |= _ages(step)
    if ages:
        rows.append(f"  readings: {_aged(ages)}")
    return "\n".join(rows)


def step_sentence(step: Step) -> str:
    """One step in words, with every figure of its evidence that its reason's sentence speaks of."""
    given, words = dict(step.evidence), dict[str, str]()
    told: list[str] = []
    for piece, names in _pieces(step.reason):
        # A sentence speaks of a few figures of many, and every decision has one.
        for name in names:
            if name not in words:
                shown = _word(step, given, name)
                if shown is None:
                    break
                words[name] = shown
        else:
            told.append(piece.format_map(words))
    return "".join(told)


def _word(step: Step, given: dict[str, Value], name: str) -> str | None:
    """What stands in a sentence for `name`; None where it is not known."""
    if name in {"before", "after"}:
        return str(step.before if name == "before" else step.after)
    if name == "pace":
        return "step by step" if any(isinstance(n, int) and n < step.after for n in _limits(step)) else None
    if name in {"ages", "oldest"} and (ages := _ages(step)):
        return _aged(ages if name == "ages" else dict([max(ages.items(), key=lambda item: _number(item[1]))]))
    shown = figure(name, given.get(name))
    if name == "queue" and shown is not None and _number(given.get(QUEUE_AGE, 0.0)) > PART_FROM_S:
        return f"at least {shown}"  # a gateway, or pods, that may hold more of it tell nothing
    return shown


def figure(name: str, value: Value) -> str | None:
    """A figure as a person reads it, with its unit; None when it is not known."""
    if value is None:
        return None
    if isinstance(value, str):
        return WORDS.get(value, value)
    if name == "now_s":
        return f"{value:.15g}"
    if name.endswith("_s"):
        return duration(value)
    if name.endswith("_rps"):
        return f"{number(value)} requests/s"
    if name.endswith("_ratio"):
        return f"{number(100 * value)} %"
    return number(value)


def number(value: float) -> str:
    """Three significant digits, whole numbers whole: 0.0123, 12.3, 1,234."""
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):.10g}"


def duration(seconds: float) -> str:
    """Seconds in the unit a person would use: 45 s, 3 min, 2.5 h."""
    if abs(seconds) < 120:
        return f"{number(seconds)} s"
    if abs(seconds) < 7200:
        return f"{number(seconds / 60)} min"
    return f"{number(seconds / 3600)} h"


def clock(now_s: float) -> str:
    """A sample time: "2026-01-31 02:14:30Z" when it counts from 1970, else hours since its origin, "1d 02:14:30"."""
    if EPOCH_FROM_S <= now_s < EPOCH_TO_S:
        return f"{datetime.fromtimestamp(now_s, UTC):%Y-%m-%d %H:%M:%S}Z"
    whole = int(abs(now_s))
    days, rest = divmod(whole, 86400)
    text = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return f"{'-' if now_s < 0 else ''}{f'{days}d ' if days else ''}{text}"


def _figures(step: Step) -> Iterator[str]:
    """The evidence, one figure each, without the ages."""
    for name, value in step.evidence:
        if not name.endswith("_age_s"):
            yield f"{FIGURES.get(name, name)}: {figure(name, value) or 'not known'}"


def _limits(step: Step) -> list[Value]:
    """The limit that is reached at a pace and bound this step, if it was one."""
    return [value for name, value in step.evidence if name in _PACED]


def _ages(step: Step) -> dict[str, Value]:
    return {name.removesuffix("_age_s"): value for name, value in step.evidence if name.endswith("_age_s")}


def _aged(ages: dict[str, Value]) -> str:
    """Readings with their ages: "queue 5 s ago, in flight 20 s ago"."""
    return ", ".join(
        f"{signal.replace('_', ' ')} {'never' if age is None else f'{duration(_number(age))} ago'}"
        for signal, age in ages.items()
    )


def _number(age: Value) -> float:
    return float("inf") if age is None or isinstance(age, str) else float(age)


@cache
def _pieces(reason: Reason) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The parts of a reason's sentence, each with the names of what it speaks of."""
    return tuple((piece, tuple(re.findall(r"\{(\w+)\}", piece))) for piece in SENTENCES[reason])
