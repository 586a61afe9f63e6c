"""The answers in words, for a person at three in the morning: one sentence with a number for each question.

Enters: answers. Leaves: text. A sentence that cannot be said says so first, then why, then what would be needed; no
number is made up for it.
"""

from dataclasses import dataclass
from typing import Final

from autoscaler.core.demand.episodes import GATE
from autoscaler.preflight.answers import CannotTell, Measured
from autoscaler.preflight.bands import Bands
from autoscaler.preflight.bursts import STANDING, Bursts
from autoscaler.preflight.cluster import ClusterStudy
from autoscaler.preflight.offered import IN_FLIGHT, RATE
from autoscaler.preflight.phrases import behind, lasting, shown_ratio
from autoscaler.preflight.provision import Provision
from autoscaler.preflight.study import WorkloadStudy, recommended_replicas
from autoscaler.record.explain import duration, number

MOSTLY: Final = 1.0 - GATE
"""From this share on, what is over before capacity lands is called noise, as the controller itself does."""

TITLES: Final = {
    "floor": "What is always needed",
    "bursts": "Burst or noise",
    "residency": "GPU memory held, and used",
    "waiting": "What can wait",
}

WHOLE: Final = 0.9995
"""From this share on, a part of a record is told as all of it."""

TOLD_WAITS_S: Final = (60.0, 1800.0)
"""Of the tolerances that were tried, those that the sentence speaks of."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One question's answer; `told` is false where the first thing it says is that it cannot tell."""

    question: str
    text: str
    told: bool
    measured: str
    """Interval, count and window behind the number, or what would be needed."""


def workload_sentences(study: WorkloadStudy) -> tuple[Sentence, ...]:
    """The four answers about one workload."""
    return (_floor(study), _bursts(study.bursts), _residency(study), _waiting(study))


def cluster_sentences(study: ClusterStudy) -> tuple[Sentence, ...]:
    """The four answers about all workloads together."""
    return (_joint_floor(study), _bursts(study.bursts), _joint_residency(study), _joint_waiting(study))


def answered(study: WorkloadStudy) -> bool:
    """Whether anything at all is told of a workload, be it beside a question that has no answer."""
    waiting = study.waiting
    beside = _rate_floor(study.rate) or _tried(waiting.capacity_for, waiting.capacity_unit)
    return bool(beside) or any(sentence.told for sentence in workload_sentences(study))


def refused(question: str, refusal: CannotTell, before: str = "", after: str = "") -> Sentence:
    """The sentence of a question without an answer."""
    text = f"{before}Cannot tell: {refusal.text}.{after}"
    return Sentence(question, text, bool(before), f"Needed: {refusal.needed}.")


def _floor(study: WorkloadStudy) -> Sentence:
    found = study.concurrency
    if isinstance(found, CannotTell) or isinstance(found.floor, CannotTell):
        why = found if isinstance(found, CannotTell) else found.floor
        assert isinstance(why, CannotTell)
        rate = _rate_floor(study.rate)
        return refused("floor", why, after=rate)
    replicas = recommended_replicas(found.floor, study.slots)
    text = _levels(found)
    if isinstance(replicas, Measured) and replicas.value > 0:
        text += f" The floor is {_count(replicas.value, 'replica')}."
    return Sentence("floor", text, True, behind(found.floor))


def _rate_floor(rate: Bands | CannotTell) -> str:
    if isinstance(rate, CannotTell) or isinstance(rate.floor, CannotTell):
        return ""
    return f" At least {number(rate.floor.value)} requests/s arrive 95 % of the time."


def _levels(found: Bands) -> str:
    """Floor, usual and highest level in one sentence."""
    assert isinstance(found.floor, Measured)
    what = {IN_FLIGHT: "requests are in flight", RATE: "requests/s arrive"}.get(found.unit, f"{found.unit} are needed")
    usual = f"half of the time at least {number(found.usual.value)}" if isinstance(found.usual, Measured) else ""
    most = f"never more than {number(found.highest.value)}" if isinstance(found.highest, Measured) else ""
    over = f"(averages over one cold start of {duration(found.width_s)})"
    if isinstance(found.peak, Measured) and found.peak.value <= 0:
        return "Nothing: no request came in the whole record."
    if found.floor.value <= 0:
        unit = found.unit if found.unit in {IN_FLIGHT, RATE} else f"of {found.unit}"
        return f"Nothing: more than one in twenty cold starts would pass without work; {usual}, {most} {unit} {over}."
    return f"At least {number(found.floor.value)} {what} 95 % of the time; {usual}, {most} {over}."


def _bursts(found: Bursts | CannotTell) -> Sentence:
    if isinstance(found, CannotTell):
        return refused("bursts", found)
    stood = _stood(found)
    if isinstance(found.over_before, CannotTell):
        return refused("bursts", found.over_before, after=stood)
    share, lead = found.over_before.value, duration(found.cold_start_s)
    text = f"{100 * share:.0f} of 100 surges above {found.level} end before capacity could land ({lead})"
    if isinstance(found.excess_before, Measured):
        early = found.excess_before.value
        after = f"{shown_ratio(1 - early)} of the excess comes after that"
        if early >= 1.0:
            text = f"Noise: {text}, and all of the excess with them. Let it queue."
        elif early >= MOSTLY:
            text = f"Noise: {text}, and only {after}. Let it queue."
        elif early > 0.5:
            text = f"Mostly noise: {text}, and {after}. Let the short ones queue."
        elif share >= MOSTLY:
            text = f"Short ones are noise, long ones are not: {text}, but {after}. Let the short ones queue."
        else:
            text = f"Bursts: {text}, and {after}. Capacity has to come before them."
    return Sentence("bursts", text + stood, True, behind(found.over_before))


def _stood(found: Bursts) -> str:
    """How often demand was above what stood, where that was too rarely to measure surges by."""
    if found.above_stood is None or found.level == STANDING:
        return ""
    times = {0: "never", 1: "once"}.get(found.above_stood, f"{found.above_stood} times")
    return f" Demand was {times} above {STANDING}."


def _residency(study: WorkloadStudy) -> Sentence:
    computing, beyond = study.residency.computing, _beyond(study.provision)
    waste = f"{beyond}." if beyond else ""
    if isinstance(computing, CannotTell):
        return refused("residency", computing, after=waste)
    text = f"Replicas compute for {_computing(computing)} of the time that they hold GPU memory."
    idle, longest = study.residency.idle_hours, study.residency.longest_idle
    if isinstance(idle, Measured) and isinstance(longest, Measured) and idle.value >= 0.1:
        hours = f"{number(idle.value)} replica-hours were held with no work at all"
        if idle.low != idle.high:  # requests that waited were not recorded
            hours = f"{number(idle.value)} replica-hours were held with no running request (waiting ones: not known)"
        text += f" {hours}, the longest stretch {lasting(longest.value)}."
    return Sentence("residency", text + waste, True, behind(computing))


def _computing(found: Measured) -> str:
    if found.low is not None and found.high is not None and found.high - found.low > 0.02:
        return f"{100 * found.low:.0f} to {100 * found.high:.0f} %"
    return f"{100 * found.value:.3g} %"


def _waiting(study: WorkloadStudy) -> Sentence:
    found = study.waiting
    tried = _tried(found.capacity_for, found.capacity_unit)
    allowed = found.allowed
    may = (
        f" They may wait {lasting(allowed.value)} ({allowed.how})."
        if isinstance(allowed, Measured)
        else " How long they may wait, nobody wrote down."
    )
    middle, last = found.waits[0], found.waits[2]
    if isinstance(last, CannotTell) or isinstance(middle, CannotTell):
        why = last if isinstance(last, CannotTell) else middle
        assert isinstance(why, CannotTell)
        if isinstance(allowed, Measured):
            return Sentence("waiting", f"{may.strip()}{tried}", True, f"Not known: {why.text}.")
        return refused("waiting", why, after=tried)
    text = (
        f"Half of the requests waited {lasting(middle.value)} or less, one in a hundred {lasting(last.value)} or more."
    )
    return Sentence("waiting", f"{text}{may}{tried}", True, behind(last))


def _tried(capacity_for: tuple[tuple[float, float], ...], unit: str) -> str:
    """What waiting saves: the capacity without any wait, and how much less it is with waits of a minute and half an
    hour."""
    levels = dict(capacity_for)
    none = levels.get(0.0, 0.0)
    waits = [wait for wait in TOLD_WAITS_S if wait in levels]
    if not none or not waits:
        return ""
    saved = {wait: 1 - levels[wait] / none for wait in waits}
    less = " and ".join(
        f"{shown_ratio(share) if share > 0 else 'no'} less if they may wait {duration(wait)}"
        for wait, share in saved.items()
    )
    what = "requests at once" if unit == IN_FLIGHT else unit
    return f" Constant capacity for {number(none)} {what} makes nobody wait; {less}."


def _joint_floor(study: ClusterStudy) -> Sentence:
    if isinstance(study.bands, CannotTell):
        return refused("floor", study.bands)
    if isinstance(study.bands.floor, CannotTell):
        return refused("floor", study.bands.floor)
    text = _levels(study.bands)
    gain = study.ceiling.gain
    if isinstance(gain, Measured) and study.workloads > 1 and isinstance(study.ceiling.apart, Measured):
        apart = number(study.ceiling.apart.value)
        text += f" Apart, the workloads' highest levels add up to {apart}: sharing takes {100 * gain.value:.0f} % less."
    return Sentence("floor", text, True, behind(study.bands.floor))


def _joint_residency(study: ClusterStudy) -> Sentence:
    beyond, wasted, waste = _beyond(study.provision), study.provision.wasted, ""
    if beyond and isinstance(wasted, Measured):
        some = f" ({wasted.count} of {study.workloads} workloads can tell)"
        waste = beyond + ("." if wasted.count == study.workloads else f"{some}.")
    if isinstance(study.computing, CannotTell):
        return refused("residency", study.computing, after=waste)
    text = f"Replicas compute for {_computing(study.computing)} of the time that they hold GPU memory."
    return Sentence("residency", text + waste, True, behind(study.computing))


def _beyond(part: Provision) -> str:
    """What was held beyond need, in GPU-hours and, with a price, in money; without its end."""
    wasted, held, cost = part.wasted, part.compared, part.cost
    if isinstance(wasted, CannotTell) or isinstance(held, CannotTell) or held.value <= 0:
        return ""
    hours = f"{number(wasted.value)} of {number(held.value)} GPU-hours held"
    hours += f" ({100 * wasted.value / held.value:.0f} %)"
    money = ""
    if isinstance(cost, Measured):
        some = "" if cost.count == wasted.count else f" in the {_count(cost.count, 'workload')} with a price"
        money = f", which cost {number(cost.value)}{some}"
    window = wasted.window
    known_ratio = window.known_s / max(window.until_s - window.from_s, 1e-9)
    part_of_it = (
        "" if known_ratio >= WHOLE else f"In the {shown_ratio(known_ratio)} of the record where need is known, "
    )
    return f" {part_of_it}{hours} were beyond need{money}"


def _joint_waiting(study: ClusterStudy) -> Sentence:
    tried = _tried(study.capacity_for, study.unit)
    shares = dict(study.work)
    kinds = ", ".join(f"{100 * share:.0f} % {kind}" for kind, share in shares.items() if share > 0)
    mix = f" By priority class the demand is {kinds}." if kinds and shares.get("not named", 0.0) < 0.999 else ""
    if isinstance(study.longest_wait, CannotTell):
        return refused("waiting", study.longest_wait, after=f"{mix}{tried}")
    worst = lasting(study.longest_wait.value)
    text = f"One request in a hundred waited {worst} or more at {study.longest_wait_of}, the longest of all."
    return Sentence("waiting", f"{text}{mix}{tried}", True, behind(study.longest_wait))


def _count(value: float, noun: str) -> str:
    return f"{value:,.0f} {noun}" + ("" if value == 1 else "s")
