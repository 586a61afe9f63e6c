"""The table of cases: what a fleet is, what comes, what fails. Frozen: figures of one name stay comparable.

A need of 4 keeps four replicas busy all the time. Cases whose name ends in `-told`, `-true` or the like are the same
without the fault, to be read beside the others.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from autoscaler.errors import InputError
from loadtests.loop.closed import Case
from loadtests.loop.fleet import Fleet
from loadtests.loop.loads import Load, Pulses, Shape, Sine, ramp, steady, step
from loadtests.loop.readings import Asked, Faults
from loadtests.loop.recorded import Instants, Rates

HOUR_S: Final = 3600
RATES: Final = "inference/servegen_rates_week1.csv.gz"
CODE: Final = "inference/azure2023_code_h1.csv.gz"


def all_cases(data: Path) -> tuple[Case, ...]:
    """Every case; those on recorded traffic read their files below `data` when they run."""
    return (*_long_requests(), *_calm(), *_moving(), *_faults(), *_starts(), *_recorded(data))


def chosen(cases: tuple[Case, ...], only: str | None) -> tuple[Case, ...]:
    """Those whose name is, or begins with, one of the comma-separated words. InputError for one that fits none, and
    for a case whose file is not there."""
    words = [""] if only is None else [word.strip() for word in only.split(",")]
    for word in words:
        if not any(_fits(case.name, word) for case in cases):
            raise InputError(f"--only: {word!r} is no case; choose from {', '.join(case.name for case in cases)}")
    kept = tuple(case for case in cases if any(_fits(case.name, word) for word in words))
    for case in kept:
        if case.needs is not None and not case.needs.is_file():
            raise InputError(
                f"{case.needs}: not there, and {case.name} reads it; --data names another folder of trace files, "
                "--only leaves the case out"
            )
    return kept


def _fits(name: str, word: str) -> bool:
    return not word or name == word or name.startswith(f"{word}-")


def _long_requests() -> tuple[Case, ...]:
    """A need of 4 of requests longer than looks; five stand at first."""
    one, four = Fleet(1, "gateway", 5), Fleet(4, "pods", 5)
    minute = Load(steady(4.0), 60.0)
    return (
        Case("steady-gateway", minute, one, 4 * HOUR_S),
        Case("steady-pods", minute, replace(one, line="pods"), 4 * HOUR_S),
        Case("steady-four-slots", minute, four, 3 * HOUR_S),
        Case("steady-300s", Load(steady(4.0), 300.0), one, 6 * HOUR_S),
        Case("steady-tick-5", minute, one, 2 * HOUR_S, Asked(tick_s=5.0), phase_s=2.5),
    )


def _calm() -> tuple[Case, ...]:
    """Never full: 8 and 40 requests of 4.3 s a second on replicas of 16 slots, 54 and 77 % of them busy at first."""
    fleet = Fleet(16, "gateway", 4, start_cv=0.3)
    return (
        Case("never-full-8rps", Load(steady(8.0 * 4.3 / 16), 4.3), fleet, 2 * HOUR_S),
        Case("never-full-40rps", Load(steady(40.0 * 4.3 / 16), 4.3), replace(fleet, opens_with=14), HOUR_S),
    )


def _moving() -> tuple[Case, ...]:
    """Loads that change, of requests of 4.3 s on 16 slots, and of 2 s on 8."""
    fleet = Fleet(16, "gateway", 4, start_cv=0.3)
    slow = replace(fleet, start_s=600.0)
    short = Fleet(8, "gateway", 3)

    def case(name: str, shape: Shape, fleet: Fleet = fleet, onset_s: float | None = None, hours: float = 2) -> Case:
        return Case(name, Load(shape, 4.3 if fleet.slots == 16 else 2.0), fleet, round(hours * HOUR_S), onset_s=onset_s)

    idle = Pulses(0.0, 6.8, 100.0 * HOUR_S, HOUR_S, 1800.0)
    return (
        case("ramp-x6", ramp(2.0, 12.0, 1200.0, 1200.0)),
        case("sine", Sine(0.8, 5.6, HOUR_S), hours=3),
        case("step-x3", step(2.0, 6.0, 2400.0), onset_s=2400.0),
        case("step-x3-600s", step(2.0, 6.0, 2400.0), slow, 2400.0),
        case("step-x10", step(0.54, 5.4, 2400.0), replace(fleet, opens_with=1), 2400.0),
        case("spikes", Pulses(3.0, 9.0, 600.0, 20.0, 300.0), replace(short, opens_with=5)),
        case("on-off", Pulses(0.3, 6.0, 900.0, 180.0, 600.0), replace(short, opens_with=1), hours=3),
        case("idle-then-burst", idle, replace(short, opens_with=1), 1800.0),
        Case("gamma-cv4", Load(steady(4.0), 2.0, arrival_cv=4.0), replace(short, opens_with=5), 2 * HOUR_S),
    )


def _faults() -> tuple[Case, ...]:
    """Readings that lack or tell wrongly."""
    fleet = Fleet(8, "gateway", 3)
    wave = Case("kv-full", Load(Sine(2.0, 8.0, HOUR_S), 2.0), replace(fleet, opens_with=5), 2 * HOUR_S)
    onset_s = 1200.0
    five = Case("gateway-silent", Load(step(1.6, 8.0, onset_s), 2.0), fleet, HOUR_S, onset_s=onset_s)
    burst = step(1.6, 6.8, onset_s)
    silent, in_pods = (onset_s - 10.0, onset_s + 590.0), replace(fleet, line="pods")
    made = [
        replace(wave, faults=Faults(kv_full=True)),
        replace(wave, name="kv-true"),
        replace(five, faults=Faults(gateway_silent=silent)),
        replace(five, name="gateway-told"),
        replace(five, name="gateway-silent-pods", fleet=in_pods, faults=Faults(gateway_silent=silent)),
        replace(five, name="gateway-told-pods", fleet=in_pods),
        replace(five, name="pods-silent", faults=Faults(pods_silent=silent)),
        replace(five, name="counters-reset", faults=Faults(counters_reset_s=onset_s + 300.0)),
    ]
    for stay_s in (2.0, 20.0):
        for line in ("gateway", "pods"):
            load, its = Load(burst, stay_s), replace(fleet, line=line)
            told = Case(f"told-{stay_s:g}s-{line}", load, its, round(onset_s) + 2700, onset_s=onset_s)
            untold = Faults(untold_completions=True)
            made += [replace(told, name=f"untold-{stay_s:g}s-{line}", faults=untold), told]
    return tuple(made)


def _starts() -> tuple[Case, ...]:
    """Starts that fail or turn slow, a budget that comes back, people who leave."""
    onset_s = 1200.0
    fleet = Fleet(8, "gateway", 3)
    made: list[Case] = []
    for stay_s in (2.0, 20.0):
        slow = Load(step(1.6, 8.5, onset_s), stay_s)
        made.append(
            Case(
                f"slow-starts-{stay_s:g}s", slow, replace(fleet, slow_from_s=onset_s), round(onset_s) + HOUR_S,
                onset_s=onset_s,
            )
        )  # fmt: skip
        budget = Case(
            f"budget-{stay_s:g}s", Load(step(1.6, 6.8, onset_s), stay_s), fleet, round(onset_s) + HOUR_S,
            faults=Faults(no_budget=(onset_s, onset_s + 1500.0)), onset_s=onset_s + 1500.0,
        )  # fmt: skip
        impatient = replace(budget, name=f"budget-{stay_s:g}s-patience-60s", fleet=replace(fleet, patience_s=60.0))
        made += [budget, impatient]
    failing = Load(step(1.6, 6.8, onset_s), 2.0)
    made.append(Case("failing-starts", failing, replace(fleet, fails_ratio=0.3), 2 * HOUR_S, onset_s=onset_s))
    return tuple(made)


def _recorded(data: Path) -> tuple[Case, ...]:
    """Morning hours of two models of ServeGen at a mean need of 8, and all of Azure's code trace on single slots."""
    fleet = Fleet(8, "gateway", 8, start_cv=0.3)
    rates, code = data / RATES, data / CODE

    def hours(model: str) -> Case:
        load = Rates(rates, model, from_h=30.0, need=8.0, stay_s=4.0)
        return Case(f"trace-{model}", load, fleet, 4 * HOUR_S, needs=rates)

    return (
        hours("m-small"),
        hours("m-large"),
        Case("trace-azure-code", Instants(code), Fleet(1, "gateway", 4, start_s=60.0), 1716, needs=code),
    )
