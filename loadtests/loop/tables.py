"""The table of `loadtests loop`: a row per case, ours beside the rivals.

Enters: the report as it is written. Leaves: lines of Markdown. Each cell is the mean of the seeds, but for the most
that stood. An HPA stands there at the target that is best in hindsight: the cheapest at which 99 % are in time, else
the one that makes the fewest late.
"""

from collections.abc import Iterator
from typing import Any, Final

from loadtests.loop.closed import TARGET_LATE
from loadtests.loop.scores import mean

OURS: Final = "headroom"
CONSTANT: Final = "constant"
HPA_ON_RUNNING: Final = "hpa-running-"
HPA_ON_ALL: Final = "hpa-all-"
HEAD: Final = ("case", "cost, late", "late after a third", "stood: most, mean", "turns", "recovery")
RIVALS: Final = ("best constant count", "HPA on what runs", "HPA on all in the system")

Told = dict[str, Any]
"""A score as it is written."""


def table(report: dict[str, Any]) -> Iterator[str]:
    """The command, then the rows of its results."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in report["results"]:
        rows.setdefault(row["case"], []).append(row)
    with_rivals = CONSTANT in report["results"][0]["scores"]
    seeds = ", ".join(str(seed) for seed in report["seeds"])
    yield f"`{report['command']}`, commit {report['commit']}, seeds {seeds}; each cell the mean of the seeds."
    yield ""
    heads = (*HEAD, *(f"{name}: cost, late" for name in RIVALS)) if with_rivals else HEAD
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for case, each in rows.items():
        told = (*_ours(each), *(_rivals(each) if with_rivals else ()))
        yield f"| {' | '.join((case, *told))} |"


def _ours(rows: list[dict[str, Any]]) -> Iterator[str]:
    ours = [row["scores"][OURS] for row in rows]
    recovery = _mean(ours, "recovery_s")
    yield _pair(_mean(ours, "cost"), _mean(ours, "late"))
    yield f"{_mean(ours, 'late_settled'):.2%}"
    yield f"{max(score['most'] for score in ours)}, {_mean(ours, 'mean_settled'):.1f}"
    yield f"{_mean(ours, 'turns'):.0f}"
    yield "–" if recovery is None else f"{recovery:.0f} s"


def _rivals(rows: list[dict[str, Any]]) -> Iterator[str]:
    constants = [row["scores"][CONSTANT] for row in rows]
    counts = sorted({row["constant"] for row in rows if row["constant"] is not None})
    if None in constants:
        yield "none"
    else:
        yield f"{_pair(_mean(constants, 'cost'), _mean(constants, 'late'))} ({'–'.join(map(str, counts))})"
    for kind in (HPA_ON_RUNNING, HPA_ON_ALL):
        targets = {name: [row["scores"][name] for row in rows] for name in rows[0]["scores"] if name.startswith(kind)}
        name = best(targets)
        yield f"{_pair(_mean(targets[name], 'cost'), _mean(targets[name], 'late'))} ({name.removeprefix(kind)})"


def best(targets: dict[str, list[Told]]) -> str:
    """The cheapest that has 99 % in time on average of the seeds; where none has, the one with the fewest late."""
    late = {name: sum(score["late"] for score in scores) / len(scores) for name, scores in targets.items()}
    cost = {name: sum(score["ordered_h"] for score in scores) for name, scores in targets.items()}
    in_time = [name for name in targets if late[name] <= TARGET_LATE]
    return min(in_time, key=cost.__getitem__) if in_time else min(targets, key=lambda name: (late[name], cost[name]))


def number(cost: float | None) -> str:
    """A cost for people."""
    return "–" if cost is None else f"{cost:.2f}"


def _pair(cost: float | None, late: float | None) -> str:
    return "–" if late is None else f"{number(cost)}, {late:.2%}"


def _mean(scores: list[Told], field: str) -> float | None:
    return mean([score[field] for score in scores])
