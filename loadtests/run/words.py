"""A run in words, for a terminal and for the page: figures, what was missed, what is doubted.

Enters: figures or a whole document. Leaves: lines of text.
"""

from typing import Any, Final

from loadtests.run.document import SCOPE, Document, scaler_use
from loadtests.run.fidelity import Fidelity, Middle
from loadtests.run.measured import Figures
from loadtests.run.verdict import GOAL_RATIO, Cause, Remedy, WhatIf, recommended
from loadtests.run.watched import Sample
from loadtests.traffic.report import doubts


def told(figures: Figures) -> list[str]:
    """Figures, one line each."""
    hours, recovery_s = figures.gpu_hours, figures.recovery_s
    percentiles = ", ".join(f"{name} {seconds_text(value)}" for name, value in figures.ttft_s.items())
    lines = [
        f"in time   {in_time_text(figures)} of {figures.requests:,} requests",
        f"TTFT      {percentiles}",
        f"GPU-hours {hours.total:.3f}: warming {hours.warming:.3f}, serving {hours.serving:.3f}, idle {hours.idle:.3f}",
        f"replicas  at most {figures.most_replicas}, at the end {figures.last_replicas}",
    ]
    if recovery_s is not None:
        lines.insert(1, f"recovery  {recovery_text(recovery_s)}")
    return lines


def lines(document: Document) -> list[str]:
    """The whole result for a terminal."""
    course, use = document.course, scaler_use(document.course)
    found = [f"{document.scenario.title} ({SCOPE}), {document.label}: {ended(document)}", *told(document.measured)]
    found.append(f"decided   {len(course.decisions)} decisions, {moves(document)} of them changed the count")
    if use["cores"] is not None:
        found.append(f"scaler    {use['cores']:.2f} cores, at most {use['most_rss_mib']:.0f} MiB")
    if course.samples:
        last = course.samples[-1]
        found.append(f"harness   {harness(document)} over {last.at_s:.0f} s")
    found += [f"bottleneck {line}" for line in bottlenecks(document)]
    found += [f"warm      {warm_text(document)}", f"shedding  {shedding_text(document)}"]
    found += [f"what if   {what_if_text(each)}" for each in document.what_ifs]
    found += [f"recommend {line}" for line in recommendation(document)]
    found += [fidelity_text(row) for row in document.fidelity]
    return [*found, *(f"note: {note}" for note in notes(document))]


def middle_lines(found: Middle) -> list[str]:
    """What several runs come to, for a terminal."""
    return [middle_title(found), *told(found.measured), *(fidelity_text(row) for row in found.fidelity)]


def middle_title(found: Middle) -> str:
    """What the figures of several runs are."""
    return f"The middle of each figure of {found.runs} runs"


NO_SHARE: Final = 0.005
"""A share of the load that is none."""

MOMENT_COLUMNS: Final = (
    "Time", "What happened", "Asked for", "Ready", "Starting", "Leaving", "Waiting", "In a batch", "KV", "To shed",
)  # fmt: skip


def state_texts(state: Sample) -> list[str]:
    """A second's state, as `MOMENT_COLUMNS` from the third on have it."""
    signal = state.signal
    if signal is None:
        shed = "–"
    elif signal.shed_ratio is None:
        shed = signal.state
    else:
        shed = f"{100 * signal.shed_ratio:.0f} %"
    counts = (state.desired, state.ready, state.starting, state.leaving, state.waiting, state.running)
    return [*(str(count) for count in counts), f"{100 * state.kv_used_ratio:.0f} %", shed]


def about_lines(document: Document) -> list[tuple[str, list[str]]]:
    """What bound, what there was against it, and what would have helped; each with its title."""
    return [
        (f"What bound, {document.label}", bottlenecks(document)),
        ("Warm capacity", [warm_text(document)]),
        ("Shedding", [shedding_text(document)]),
        ("What would have helped, as the simulator says", [what_if_text(each) for each in document.what_ifs]),
        ("Recommended", recommendation(document)),
    ]


def notes(document: Document) -> list[str]:
    """What a reader must know to judge the figures."""
    course = document.course
    found = [*course.notes, *doubts(course.run, course.tally)]
    found += [f"{count} requests failed ({name}): {course.tally.example(name)}"
              for name, count in sorted(course.tally.failures.items())]  # fmt: skip
    if document.cut:
        found.append("the run was cut: what is shown is what was known until then, and nothing is compared")
    return found


def bottlenecks(document: Document) -> list[str]:
    """What late requests waited for, the longest first; a line that says so where nobody was late."""
    total = sum(document.causes.values())
    found = [f"{cause.value} ({count} of {total} s)" for cause, count in document.causes.most_common()]
    return found or ["none: nobody was late"]


def what_if_text(each: WhatIf) -> str:
    """One answer of the simulator."""
    told = each.figures
    late = "" if told.recovery_s is None else f", recovery {told.recovery_s:.0f} s"
    kept = f" and at most {each.kept_gpu_hours:.3f} to keep them warm" if each.kept_gpu_hours else ""
    hours = f"{told.gpu_hours.total:.3f} GPU-hours{kept}"
    return f"{each.change}: {100 * told.attainment_ratio:.1f} % in time, {hours}{late}"


def warm_text(document: Document) -> str:
    """What was kept warm, and what starts took instead."""
    told, engine = document.starts, document.scenario.engine
    found = ["none was kept"]
    if engine.warm_slots:
        hours = engine.gpus * told.slots_idle_s / 3600.0
        found = [f"{engine.warm_slots} slots were kept, idle for {hours:.3f} GPU-hours until they were taken"]
    if told.ready_at_onset is not None:
        found.append(f"{told.ready_at_onset} replicas served when the load rose")
    for took_s, where, asked_s in (
        (told.warm_took_s, " on a warm slot", engine.last_s),
        (told.took_s, "", engine.warm_up_s),
    ):
        if took_s:
            what = f"{len(took_s)} start{'' if len(took_s) == 1 else 's'}{where}"
            span = f"{took_s[0]:.1f} to {took_s[-1]:.1f} s"
            found.append(f"{what} took {span} from the pod to readiness (the scenario: {asked_s:g} s)")
    return "; ".join(found)


def shedding_text(document: Document) -> str:
    """What gateways were told."""
    told = document.shedding
    if not told.told:
        return f"not signalled: {document.label} has no word for gateways"
    asked = f"; unknown in {told.unknown_s} s" if told.unknown_s else ""
    if told.from_s is None or told.to_s is None:
        return f"not signalled: demand fitted in {told.of_s - told.unknown_s} of {told.of_s} s{asked}"
    share = f"at most {100 * told.most_ratio:.0f} % of the load to shed"
    if told.most_ratio < NO_SHARE:
        share = "no share of the load to shed, as the rate was served and only the queue was too long"
    when = f"signalled in {told.overloaded_s} of {told.of_s} s, from {told.from_s:.0f} to {told.to_s:.0f} s"
    short = f"at most {told.most_deficit} replicas short"
    return f"{when}: {share}, {short}{asked}; no gateway takes part, so everything was sent all the same"


def recommendation(document: Document) -> list[str]:
    """What to change before the next time, from what was recorded and what the simulator says of it."""
    if not document.what_ifs:
        return []
    best, longest = document.recommended, next(iter(document.causes.most_common(1)), None)
    found = []
    if longest is not None and longest[0] in {Cause.SILENT, Cause.COMPUTE}:
        found.append("look at the engine and at what is before it: late requests mostly did not wait for a replica")
    if best is None:
        found.append(f"none of these reaches {100 * GOAL_RATIO:.0f} % in time; raise max-replicas, or shed")
    else:
        found.append(f"{best.change}, the cheapest of these that reaches {100 * GOAL_RATIO:.0f} % in time")
        if best.remedy is Remedy.FORECAST:
            others = [each for each in document.what_ifs if each.remedy not in {None, Remedy.FORECAST}]
            blind = recommended(others)
            if blind is not None:
                found.append(f"where the rise cannot be foreseen: {blind.change}")
    return found


def ended(document: Document) -> str:
    """How far it came."""
    course, whole_s = document.course, document.scenario.duration
    if not document.cut:
        return f"the whole {whole_s:g} s"
    return f"cut after {course.end_s - course.start_s:.0f} s of {whole_s:g} s ({course.run.ended})"


def why(line: dict[str, Any]) -> str:
    """A decision's reason in words, without the name of the only workload."""
    return str(line["text"]).partition(": ")[2]


def moves(document: Document) -> int:
    """Decisions that changed the count."""
    return sum(line["verdict"] == "SCALE" for line in document.course.decisions)


def harness(document: Document) -> str:
    """What the harness itself used."""
    course = document.course
    own_s = course.samples[-1].harness_cpu_s if course.samples else 0.0
    return f"{own_s:.1f} s of processor for servers and following, {course.tally.cpu_s:.1f} s for traffic"


def fidelity_text(row: Fidelity) -> str:
    """One row of the comparison with the simulator."""
    measured, predicted = (("–" if value is None else f"{value:.4g}") for value in (row.measured, row.predicted))
    return f"predicted {row.name}: {predicted}, measured {measured}: {apart_text(row)}"


def apart_text(row: Fidelity) -> str:
    """How far apart, and whether that is near enough."""
    if row.apart is None:
        return "cannot be told"
    verdict = "held" if row.held else "MISSED"
    where = "within" if row.within else "outside"
    span = f"what was measured is {where} {row.span[0]:.3g} to {row.span[1]:.3g}, by chance"
    turned = "" if row.turned is None else f"; at this run's own instants: {row.turned:.4g}"
    return f"{row.apart:+.1f} {row.unit}, {verdict} ({row.allowed:g} {row.unit} allowed); {span}{turned}"


def in_time_text(figures: Figures) -> str:
    """A share of requests for a person."""
    return f"{100 * figures.attainment_ratio:.1f} %" if figures.requests else "not known"


def seconds_text(seconds: float | None) -> str:
    """Seconds for a person."""
    return "–" if seconds is None else f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


def recovery_text(seconds: float) -> str:
    """A recovery for a person."""
    return "nobody was late" if seconds == 0.0 else f"{seconds:.1f} s after the onset the last late request was due"
