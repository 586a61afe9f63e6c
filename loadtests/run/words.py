"""A run in words, for a terminal and for the page: figures, what was missed, what is doubted.

Enters: figures or a whole document. Leaves: lines of text.
"""

from loadtests.run.document import SCOPE, Document, Fidelity, scaler_use
from loadtests.run.measured import Figures
from loadtests.run.verdict import WhatIf
from loadtests.traffic.report import doubts


def told(figures: Figures) -> list[str]:
    """Figures, one line each."""
    hours, recovery_s = figures.gpu_hours, figures.recovery_s
    percentiles = ", ".join(f"{name} {seconds_text(value)}" for name, value in figures.ttft_s.items())
    lines = [
        f"in time   {100 * figures.attainment_ratio:.1f} % of {figures.requests:,} requests",
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
    found += [f"what if   {what_if_text(each)}" for each in document.what_ifs]
    found += [fidelity_text(row) for row in document.fidelity]
    return [*found, *(f"note: {note}" for note in notes(document))]


def notes(document: Document) -> list[str]:
    """What a reader must know to judge the figures."""
    course = document.course
    found = [*course.notes, *doubts(course.run, course.tally)]
    found += [f"{count} requests failed ({name}): {course.tally.examples[name]}"
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
    return f"{each.change}: {100 * told.attainment_ratio:.1f} % in time, {told.gpu_hours.total:.3f} GPU-hours{late}"


def ended(document: Document) -> str:
    """How far it came."""
    course, whole_s = document.course, document.scenario.duration
    if not document.cut:
        return f"the whole {whole_s:g} s"
    return f"cut after {course.end_s - course.start_s:.0f} s of {whole_s:g} s ({course.run.ended})"


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
    span = f"what was measured is {where} {row.span[0]:.3g} to {row.span[1]:.3g}, by when pages are read"
    return f"{row.apart:+.1f} {row.unit}, {verdict} ({row.allowed:g} {row.unit} allowed); {span}"


def seconds_text(seconds: float | None) -> str:
    """Seconds for a person."""
    return "–" if seconds is None else f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"


def recovery_text(seconds: float) -> str:
    """A recovery for a person."""
    return "nobody was late" if seconds == 0.0 else f"{seconds:.1f} s after the onset the last late request was due"
