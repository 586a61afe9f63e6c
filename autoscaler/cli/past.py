"""What a report on the past is told as: text for a terminal, JSON for programs, a page with plots."""

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from autoscaler.errors import InputError
from autoscaler.hindsight.estimates import Past
from autoscaler.hindsight.page import Curve, Plot, Section, past_page
from autoscaler.record.estimate import Account, HourRow
from autoscaler.record.explain import clock, duration, number
from autoscaler.record.quality import Quality

HOUR_S: Final = 3600.0


def read_answer(body: bytes, path: str) -> list[Past]:
    """The controller's answer. Raises InputError for what is none."""
    try:
        return msgspec.json.decode(body, type=list[Past])
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: not an answer of a controller of this version: {error}") from error


def as_json(told: Sequence[Past]) -> str:
    """All figures."""
    return msgspec.json.format(msgspec.json.encode(told)).decode() + "\n"


def text(told: Sequence[Past], notes: Sequence[str] = ()) -> str:
    """The whole of it as a person reads it."""
    blocks = [f"{past.workload}\n" + "\n".join(f"  {line}" for line in _lines(past)) for past in told]
    if not told:
        blocks = ["no workload is in Shadow or Paused, so nothing is compared"]
    return "\n\n".join([*blocks, *(f"note: {note}" for note in notes)])


def page(told: Sequence[Past], notes: Sequence[str] = ()) -> str:
    """The same as a page that needs nothing else, with the hours drawn."""
    counted_s = max((past.estimate.counted_s for past in told if past.estimate is not None), default=0.0)
    facts = {"Workloads": str(len(told)), "Counted": duration(counted_s)}
    return past_page("Headroom report", "Beside what happened", facts, [_section(past) for past in told], notes)


def _lines(past: Past) -> list[str]:
    e, lines = past.estimate, list[str]()
    if e is None:
        lines.append("nothing was counted: arrivals, queue and what one replica carries were never known together")
    elif e.from_s is None or e.to_s is None:
        lines.append(e.text)
    else:
        counted = (
            f"counted {duration(e.counted_s)} from {clock(e.from_s)} to {clock(e.to_s)}, {duration(e.missing_s)} not "
            f"known; {number(round(e.requests))} requests, {duration(e.slack_s)} to wait at most"
        )
        lines += [
            e.text,
            counted,
            f"{'the same arrivals':<34}{'replica-hours':>14}{'late':>10}{'mean wait':>12}",
            _row("as it happened", e.observed),
            _row("the same replicas, by the model", e.modelled),
            _row("with Headroom's replicas", e.ours),
        ]
    return lines + _quality(past.quality)


def _row(name: str, account: Account) -> str:
    return f"{name:<34}{account.held_hours:>14.2f}{account.late:>10,.0f}{duration(round(account.wait_s, 3)):>12}"


def _quality(quality: Quality | None) -> list[str]:
    if quality is None or quality.coverage_ratio is None:
        return ["forecast: not scored yet"]
    q = quality
    asked = "" if q.asked_ratio is None else f", meant {100 * q.asked_ratio:.1f} %"
    band = ""
    if q.band is not None:
        least, most = (100 * share for share in q.band)
        band = f", by chance {least:.1f} to {most:.1f} % of {int(q.scored)} that do not overlap"
    return [f"forecast: {q.text}", f"bounds that held: {100 * (q.coverage_ratio or 0):.1f} %{asked}{band}"]


def _mean(held_hours: float, hour: HourRow) -> float:
    """Replicas over the part of an hour that was counted."""
    return held_hours * HOUR_S / hour.counted_s


def _section(past: Past) -> Section:
    hours = past.estimate.hours if past.estimate is not None else ()
    # A step is drawn forward from its instant: an hour begins where it began, the first and last where the count did.
    begun_s = -math.inf if past.estimate is None or past.estimate.from_s is None else past.estimate.from_s
    at_s = [max(begun_s, (math.ceil(h.to_s / HOUR_S) - 1) * HOUR_S) for h in hours]
    drawn = (*hours, *hours[-1:])
    plots = (
        Plot("held", "Replicas held, mean of the hour", (
            Curve("as it happened", "--order", [_mean(h.held_observed, h) for h in drawn], step=True),
            Curve("with Headroom's", "--ready", [_mean(h.held_ours, h) for h in drawn], step=True, fill="--ready-fill"),
        )),
        Plot("late", "Late requests in the hour", (
            Curve("as it happened", "--order", [h.late_observed for h in drawn], step=True),
            Curve("by the model", "--faint", [h.late_modelled for h in drawn], step=True, dashed=True),
            Curve("with Headroom's", "--ready", [h.late_ours for h in drawn], step=True),
        )),
        Plot("load", "Requests per second", (
            Curve("arrived", "--load", [h.requests / h.counted_s for h in drawn], step=True),
        )),
    )  # fmt: skip
    if len(hours) < 2:
        return Section(past.workload, _lines(past), (), ())
    return Section(past.workload, _lines(past), [*at_s, hours[-1].to_s], plots)
