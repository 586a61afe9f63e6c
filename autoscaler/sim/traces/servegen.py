"""ServeGen rate tables: per client and 600-s window a published rate and burstiness, turned into arrivals.

Enters: a table with the columns below (Xiang et al., "ServeGen: Workload Characterization and Generation of LLM
Serving in Production", arXiv 2505.09999) and a selection. Leaves: a `Traffic` drawn client by client. A pair of
window and client without a row had no request. Scaling multiplies the clients' rates before the draw, so burstiness
stays that of the clients and nothing is thinned. Where a table of gaps lies beside the file, a day with missing data
is refused by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autoscaler.errors import InputError
from autoscaler.sim.traces.renewal import client_stream, renewal_arrivals
from autoscaler.sim.traces.selection import DAY_S, TraceSelection, listed
from autoscaler.sim.traces.table import Table, bad_field, checked, parse_csv, read_bytes
from autoscaler.sim.traces.tokens import ClientLengths, client_lengths
from autoscaler.sim.traffic import FloatArray, Traffic, bin_counts

REQUIRED = ("window_s", "model", "tenant", "rate_rps", "cv")
OPTIONAL = ("requests", "dist", "shape", "scale")
WHAT = "a ServeGen rate table"
WINDOW_S = 600.0
"""Width of the publisher's windows."""
_WINDOWS_PER_DAY = round(DAY_S / WINDOW_S)


@dataclass(frozen=True, slots=True)
class _Clients:
    """The selected part: names and, each of shape (clients, windows), rates in requests/s and cvs (1 where idle)."""

    names: tuple[str, ...]
    rates_rps: FloatArray
    cvs: FloatArray


def read(table: Table, selection: TraceSelection, *, step_s: float, with_requests: bool) -> Traffic:
    """The traffic of one model (or one of its clients) on the selected days, drawn from `selection.seed`.

    `with_requests` keeps each request's instant and draws its token counts from the token table beside the file;
    without it only counts per `step_s` are kept. InputError where the table is faulty, where the choice of model or
    day is open (listing what the file offers), or where a gap lies in the selected days.
    """
    table.require(REQUIRED, OPTIONAL, WHAT)
    index, rates, cvs = _checked(table)
    models = table.columns["model"]
    model = selection.model if selection.model is not None else _only_model(table.path, models, index)
    mine = np.array([name == model for name in models], dtype=bool)
    if not mine.any():
        raise InputError(f"{table.path}: no model {model!r}; it offers {listed(sorted(set(models)))}")
    first, last = _windows(table.path, model, index[mine], selection)
    last = min(last, int(index.max()) + 1)  # a table that ends within a day knows nothing of the rest of it
    _refuse_gaps(table.path, model, first * WINDOW_S, last * WINDOW_S)
    mine &= (index >= first) & (index < last)
    clients = _pivot(
        table, rows=np.flatnonzero(mine), window=index - first, rates=rates, cvs=cvs, windows=last - first,
        tenant=selection.tenant,
    )  # fmt: skip
    factor = 1.0
    if selection.rate_rps is not None:
        factor = selection.rate_rps / (float(clients.rates_rps.sum()) / (last - first))
    day = "" if selection.day is None else f"-day{selection.day}"
    return _draw(
        clients, factor, seed=selection.seed, origin_s=first * WINDOW_S, step_s=step_s,
        name=f"{selection.tenant or model}{day}", source=f"{table.path.name}{selection.describe()}",
        lengths=client_lengths(table.path, model) if with_requests else None, with_requests=with_requests,
    )  # fmt: skip


def _checked(table: Table) -> tuple[npt.NDArray[np.int64], FloatArray, FloatArray]:
    starts = table.numbers("window_s", whole=True)
    rates, cvs = table.numbers("rate_rps"), table.numbers("cv")
    if "requests" in table.columns:
        table.numbers("requests", whole=True)
    odd = np.flatnonzero(starts % WINDOW_S)
    if odd.size:
        row = int(odd[0])
        problem = f"is not a multiple of {WINDOW_S:g}, the width of a window"
        raise bad_field(table.path, table.lines[row], "window_s", table.columns["window_s"][row], problem)
    seen: dict[tuple[str, str], float] = {}
    for row, key in enumerate(zip(table.columns["model"], table.columns["tenant"], strict=True)):
        before = seen.get(key, -1.0)
        if starts[row] <= before:
            again = "stands twice for" if starts[row] == before else "goes backwards for"
            problem = f"{again} {key[1]} of {key[0]} (before: {before:g}); each client's windows must ascend"
            raise bad_field(table.path, table.lines[row], "window_s", table.columns["window_s"][row], problem)
        seen[key] = float(starts[row])
    return (starts / WINDOW_S).astype(np.int64), rates, cvs


def _only_model(path: Path, models: Sequence[str], index: npt.NDArray[np.int64]) -> str:
    offered = sorted(set(models))
    if len(offered) > 1:
        first, last = (int(index[at] // _WINDOWS_PER_DAY) for at in (index.argmin(), index.argmax()))
        raise InputError(
            f"{path}: which model? It offers {listed(offered)} over days {first} to {last}: name one, "
            f"for example #model={offered[0]}&day={first}"
        )
    return offered[0]


def _windows(path: Path, model: str, index: npt.NDArray[np.int64], selection: TraceSelection) -> tuple[int, int]:
    """First and last window (exclusive) of the selected days."""
    offered = sorted({int(day) for day in np.unique(index // _WINDOWS_PER_DAY)})
    if selection.day is None and len(offered) > 1:
        raise InputError(
            f"{path}: which day of {model}? It offers {listed([str(day) for day in offered])}: name one, for example "
            f"#model={model}&day={offered[0]}, or several with &days=N"
        )
    day = offered[0] if selection.day is None else selection.day
    for wanted in range(day, day + selection.days):
        if wanted not in offered:
            raise InputError(
                f"{path}: no day {wanted} of {model}; it offers {listed([str(known) for known in offered])}"
            )
    return day * _WINDOWS_PER_DAY, (day + selection.days) * _WINDOWS_PER_DAY


def _refuse_gaps(path: Path, model: str, start_s: float, end_s: float) -> None:
    for suffix in (".csv", ".csv.gz"):
        gaps_path = path.with_name(path.name.split(".")[0].replace("rates", "gaps") + suffix)
        if "rates" not in path.name or not gaps_path.is_file():
            continue
        gaps = parse_csv(gaps_path, checked(gaps_path, read_bytes(gaps_path)))
        gaps.require(("model", "start_s", "end_s"), (), "a table of gaps")
        starts, ends = gaps.numbers("start_s"), gaps.numbers("end_s")
        for row, name in enumerate(gaps.columns["model"]):
            if name == model and starts[row] < end_s and ends[row] > start_s:
                raise InputError(
                    f"{path}: day {int(starts[row] // DAY_S)} of {model} lacks data in "
                    f"[{starts[row]:g}, {ends[row]:g}) s ({gaps_path.name}, line {gaps.lines[row]}); "
                    "choose a day without a gap"
                )


def _pivot(
    table: Table,
    *,
    rows: npt.NDArray[np.intp],
    window: npt.NDArray[np.int64],
    rates: FloatArray,
    cvs: FloatArray,
    windows: int,
    tenant: str | None,
) -> _Clients:
    tenants = list(table.columns["tenant"])
    names = sorted({tenants[row] for row in rows})
    if tenant is not None:
        if tenant not in names:
            raise InputError(f"{table.path}: no tenant {tenant!r} in the selection; it offers {listed(names)}")
        names = [tenant]
    place = {name: at for at, name in enumerate(names)}
    rows = np.array([row for row in rows if tenants[row] in place], dtype=np.intp)
    at = np.array([place[tenants[row]] for row in rows], dtype=np.intp)
    clients = _Clients(tuple(names), np.zeros((len(names), windows)), np.ones((len(names), windows)))
    clients.rates_rps[at, window[rows]] = rates[rows]
    clients.cvs[at, window[rows]] = cvs[rows]
    if not clients.rates_rps.any():
        raise InputError(f"{table.path}: every rate of the selection is 0, so there is no traffic to draw")
    return clients


def _draw(
    clients: _Clients,
    factor: float,
    *,
    seed: int,
    origin_s: float,
    step_s: float,
    name: str,
    source: str,
    lengths: ClientLengths | None,
    with_requests: bool,
) -> Traffic:
    duration_s = clients.rates_rps.shape[1] * WINDOW_S
    counts = bin_counts(np.empty(0), duration_s, step_s)
    instants: list[FloatArray] = []
    tokens: list[tuple[FloatArray, FloatArray]] = []
    for at, client in enumerate(clients.names):
        stream = client_stream(seed, client, origin_s)
        drawn = renewal_arrivals(clients.rates_rps[at] * factor, clients.cvs[at], window_s=WINDOW_S, stream=stream)
        counts += bin_counts(drawn, duration_s, step_s)
        if with_requests:
            instants.append(drawn)
            if lengths is not None:
                tokens.append(lengths.draw(client, drawn + origin_s, stream))
    if not with_requests:
        return Traffic(name=name, step_s=step_s, arrivals=counts, source=source, seed=seed)
    arrival_s = np.concatenate(instants)
    order = np.argsort(arrival_s, kind="stable")
    prompt, output = (np.concatenate(column)[order] for column in zip(*tokens, strict=True)) if tokens else (None, None)
    return Traffic(
        name=name, step_s=step_s, arrivals=counts, source=source, seed=seed,
        arrival_s=arrival_s[order], prompt_tokens=prompt, output_tokens=output,
    )  # fmt: skip
