"""A replay as JSON for programs, and as a page with plots that needs nothing else."""

from typing import Any

import msgspec

from autoscaler.cli.replayed import DECISION, Shown, head, told_lines, world_names
from autoscaler.hindsight.comparison import Comparison
from autoscaler.hindsight.joined import Agreement
from autoscaler.hindsight.page import Curve, Plot, Section, past_page


def as_json(told: Shown) -> str:
    """All figures; differences carry both lines."""
    done = told.done
    rerun, recording = done.rerun, done.recording
    fields = {
        "files": [str(path) for path in recording.paths],
        "lines": recording.lines,
        "bad_lines": recording.bad,
        "faults": recording.faults,
        "gaps": done.gaps,
        "outdated": recording.outdated,
        "decisions_without_inputs": recording.alone,
        "workloads": {name: {"from_s": done.from_s[name], "to_s": done.to_s[name]} for name in done.workloads},
        "unbegun": sorted(rerun.unbegun),
        "decisions": rerun.compared,
        "decisions_taken_as_recorded": rerun.believed,
        "different": rerun.different,
        "differences": [
            {"where": d.where, "recorded": DECISION.decode(d.recorded), "again": DECISION.decode(d.again)}
            for d in rerun.differences
        ],
        "memories": rerun.memories,
        "memories_unlike": rerun.unlike,
        "decisions_before_any_memory": rerun.unknown,
        "agreements": {name: _figures(agreement) for name, agreement in done.agreements.items()},
        "comparisons": told.compared,
    }
    return msgspec.json.format(msgspec.json.encode(fields)).decode() + "\n"


def page(told: Shown) -> str:
    """The comparison as a page that needs nothing else."""
    done = told.done
    said = ", ".join(told.changes) or "the core's defaults"
    facts = {
        "Other settings": said,
        "Decisions": f"{done.rerun.steps:,}",
        "Files": f"{len(done.recording.paths)}",
        "Bad lines": f"{done.recording.bad:,}",
    }
    sections = [_section(each, told) for each in told.compared]
    return past_page("Headroom replay", f"What {said} would have changed", facts, sections, head(done))


def _figures(a: Agreement) -> dict[str, Any]:
    worlds = {
        name: {
            "looks": m.looks,
            "differ": m.differ,
            "agreed": m.agreed,
            "held_ratio": m.held_ratio,
            "late_ratio": m.late_ratio,
        }
        for name, m in (("as_is", a.as_is), ("other", a.other))
    }
    return {"stretches": a.laps, "joined": a.joined, "meetings": a.meetings, **worlds}


def _section(c: Comparison, told: Shown) -> Section:
    whatif, names = told.done.whatif, world_names(told)
    assert whatif is not None
    t = whatif.told[c.workload].timeline
    lines = list(told_lines(c, told))[2:]
    load = [a / s for a, s in zip(t.arrivals, t.span_s, strict=True)]
    plots = (
        Plot(
            "load",
            "Load, req/s",
            (
                Curve("arrived", "--load", load),
                Curve(
                    "capacity otherwise",
                    "--ready",
                    [n * r for n, r in zip(t.other, t.capacity_rps, strict=True)],
                    step=True,
                ),
            ),
        ),
        Plot(
            "replicas",
            "Replicas held",
            (
                Curve("happened", "--faint", [float(n) for n in t.observed], step=True),
                Curve(names[0], "--order", [float(n) for n in t.as_is], step=True),
                Curve(names[1], "--ready", [float(n) for n in t.other], step=True, fill="--ready-fill"),
            ),
            whole=True,
        ),
        Plot("queue", "Requests waiting, as measured", (Curve("waiting", "--queue", t.waiting),)),
    )
    return Section(c.workload, lines, t.at_s, plots if t.at_s else ())
