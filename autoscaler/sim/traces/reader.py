"""Opens any trace file: tells its format by its content, never by its name.

Enters: a path and a selection. Leaves: a `Traffic`, or an InputError naming file, line, field and value; nothing is
half-read. The formats live in the modules beside this one.
"""

from pathlib import Path

from autoscaler.sim.traces import servegen
from autoscaler.sim.traces.selection import TraceSelection
from autoscaler.sim.traces.table import decode, parse_csv, read_bytes
from autoscaler.sim.traffic import Traffic


def read_traffic(
    path: Path | str,
    *,
    seed: int,
    model: str | None = None,
    tenant: str | None = None,
    day: int | None = None,
    mean_rps: float | None = None,
    step_s: float = 1.0,
    with_requests: bool = False,
) -> Traffic:
    """The selected part of a trace file as traffic; see `read_selection`. `seed` draws what a file does not hold."""
    selection = TraceSelection(model=model, tenant=tenant, day=day, rate_rps=mean_rps, seed=seed)
    return read_selection(Path(path), selection, step_s=step_s, with_requests=with_requests)


def read_selection(
    path: Path, selection: TraceSelection, *, step_s: float = 1.0, with_requests: bool = False
) -> Traffic:
    """The selected part of a trace file in bins of `step_s`.

    `with_requests` asks a rate table for each request's instant and tokens too (recordings always have them); a day
    at 200 requests/s then holds 17 million requests. InputError where the file is missing, empty, damaged, of another
    format or faulty in any row, or where the selection is not in it.
    """
    table = parse_csv(path, decode(path, read_bytes(path)))
    return servegen.read(table, selection, step_s=step_s, with_requests=with_requests)
