"""Which decisions of an audit file `explain` prints. Enters: a file and a choice. Leaves: decisions in time order."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from autoscaler.cli.stdin import bytes_in
from autoscaler.core.types import Decision
from autoscaler.errors import InputError
from autoscaler.record.audit import read_audit, read_lines


def select(file: Path, workload: str | None, at_s: float | None, last: int) -> list[Decision]:
    """The last decisions of each workload, up to the instant `at_s` when it is given, in the order of the file.

    The file is read once and only what may be printed is kept. Raises InputError when nothing fits.
    """
    kept: dict[str, deque[tuple[int, Decision]]] = {}
    others: set[str] = set()
    first_s: float | None = None
    for number, decision in enumerate(_decisions(file)):
        if workload is not None and workload not in {decision.workload, decision.workload.rpartition("/")[2]}:
            others.add(decision.workload)
            continue
        first_s = decision.now_s if first_s is None else first_s
        if at_s is None or decision.now_s <= at_s:
            kept.setdefault(decision.workload, deque(maxlen=last)).append((number, decision))
    if kept:
        return [d for _, d in sorted((pair for ring in kept.values() for pair in ring), key=lambda pair: pair[0])]
    if first_s is not None:
        raise InputError(f"{file}: --at {at_s:.15g}: the first decision is at {first_s:.15g}; give a later time")
    if others:
        raise InputError(f"{file}: no decision on {workload!r}; it holds {_few(others)}")
    raise InputError(f"{file}: no decision in it, only errors; mend the lines that were sent to `decide`")


def _decisions(file: Path) -> Iterator[Decision]:
    return read_lines(bytes_in("explain"), "standard input") if str(file) == "-" else read_audit(file)


def _few(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")
