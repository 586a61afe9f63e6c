"""Opens any trace file: tells its format by its content, never by its name.

Enters: a path and a selection. Leaves: a `Traffic`, or an InputError naming file, line, field and value; nothing is
half-read. Each format lives in a module beside this one.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from autoscaler.errors import InputError
from autoscaler.sim.traces import azure, burstgpt, mooncake, neutral, servegen
from autoscaler.sim.traces.parquet import parse_parquet
from autoscaler.sim.traces.requestlog import RequestLog, to_traffic
from autoscaler.sim.traces.selection import TraceSelection
from autoscaler.sim.traces.table import PARQUET_MAGIC, Table, checked, is_json, parse_csv, parse_header, read_bytes
from autoscaler.sim.traffic import Traffic

_LOGS: dict[str, Callable[[Table], RequestLog]] = {
    azure.WHAT: azure.read,
    burstgpt.WHAT: burstgpt.read,
    neutral.WHAT: neutral.read,
}
_COLUMNS: dict[str, tuple[str, ...]] = {
    azure.WHAT: azure.REQUIRED,
    burstgpt.WHAT: burstgpt.REQUIRED,
    neutral.WHAT: neutral.REQUIRED,
    servegen.WHAT: servegen.REQUIRED,
}
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


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
    found = _opened(path)
    if isinstance(found, RequestLog):
        return to_traffic(found, selection, step_s=step_s)
    return servegen.read(found, selection, step_s=step_s, with_requests=with_requests)


def read_workloads(
    path: Path, selection: TraceSelection, *, step_s: float = 1.0, with_requests: bool = False
) -> tuple[Traffic, ...]:
    """As `read_selection`, but every model of a request log is a traffic of its own, all over the log's whole length.

    A rate table is one traffic, as its model has to be named.
    """
    found = _opened(path)
    if not isinstance(found, RequestLog):
        return (servegen.read(found, selection, step_s=step_s, with_requests=with_requests),)
    names = sorted(set(found.models or ()) - {""}) if selection.model is None else []
    if not names:
        return (to_traffic(found, selection, step_s=step_s),)
    return tuple(to_traffic(found, replace(selection, model=name), step_s=step_s) for name in names)


def _opened(path: Path) -> RequestLog | Table:
    """The file as requests, or as a rate table."""
    content = read_bytes(path)
    if content.startswith(PARQUET_MAGIC):
        table = parse_parquet(path, content)
        form = _form(path, list(table.columns))
    elif is_json(checked(path, content)):
        return mooncake.read(path, content)
    else:
        # The format is settled on the header alone, so that a file of another kind is not judged by its rows.
        form = _form(path, parse_header(path, content))
        table = parse_csv(path, content)
    del content  # hundreds of megabytes of a long trace, beside the columns that follow
    return _LOGS[form](table) if form in _LOGS else table


def _form(path: Path, header: list[str]) -> str:
    """What the format is called that more than half of whose columns the header has; the closest one if several."""
    shares = {form: len(set(columns) & set(header)) / len(columns) for form, columns in _COLUMNS.items()}
    closest = max(shares, key=lambda form: shares[form])
    if shares[closest] > 0.5:
        return closest
    separator = next((mark for mark in _SEPARATORS if len(header) == 1 and mark in header[0]), ",")
    apart = header[0].split(separator) if separator != "," else header
    names = _folded(apart)
    for form, columns in _COLUMNS.items():
        if len(names & _folded(columns)) > 0.5 * len(columns):
            wrong = [f"its columns are separated by {_SEPARATORS[separator]}"] if separator != "," else []
            written = [name for name in apart if name not in columns and _folded([name]) & _folded(columns)]
            wrong += [f"{written[0]!r} is written otherwise"] if written else []
            wanted = f"{', '.join(columns)}, separated by commas"
            raise InputError(
                f"{path}: line 1: {' and '.join(wrong)}, where {form} has {wanted}; write it so (numbers have a point)"
            )
    known = "; ".join(f"{form}: {', '.join(columns)}" for form, columns in _COLUMNS.items())
    unknown = ", ".join(repr(name[:40]) for name in apart[:8])
    by = f", separated by {_SEPARATORS[separator]} where a trace has commas" if separator != "," else ""
    raise InputError(f"{path}: line 1: another format (columns {unknown}{by}); known are {known}; Mooncake JSON lines")


def _folded(columns: Collection[str]) -> set[str]:
    return {name.strip().casefold() for name in columns}
