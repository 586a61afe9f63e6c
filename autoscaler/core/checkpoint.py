"""What of the table outlives a restart: a checkpoint per workload, and back.

Enters: a row of the table, or plain JSON values. Leaves: the other. A checkpoint keeps what a restart in mid-burst must
not lose, under 4 KiB per workload; the rest is measured again within minutes.
"""

import math
from typing import Any

import numpy as np

from autoscaler.core.forecast import conformal
from autoscaler.core.params import NO_BIN
from autoscaler.core.state import Table

CHECKPOINT_VERSION = 1
COARSE_S = 300.0
"""A checkpoint keeps the load history in five-minute means."""

RECENT_BINS = 24
"""Bins kept as they were: four minutes, twice the shortest hold."""

COARSE_KEEP = 72
"""Six hours of them."""

_RECENT_LOAD = ("count", "cover_s", "need_rps")
_RECENT_COUNTS = ("bin", "wanted", "ordered_high", "ordered_low")
_LEVELS = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.998])


def checkpoint(table: Table, name: str) -> dict[str, Any]:
    """Return one workload's checkpoint as plain JSON values; raise KeyError for an unknown workload."""
    row = table.rows[name]
    track = table.track(row)
    kept = {key: packed for key, group in table.groups().items() if (packed := group.pack(row))}
    return {
        "version": CHECKPOINT_VERSION,
        "workload": name,
        "columns": kept,
        "lead_samples_s": [round(s, 1) for s in track.lead.samples_s[-12:]],
        "zero_signal": track.zero_signal,
        "load": _coarse(table, row),
        "recent": _recent(table, row),
        "scores": _quantiles(table, row),
    }


def restore(table: Table, name: str, saved: dict[str, Any]) -> None:
    """Put a checkpoint back into a workload that is already in the table.

    Raises ValueError when the checkpoint has another version or shape; the table is then unchanged but for the row,
    which the caller should remove and add again.
    """
    if saved.get("version") != CHECKPOINT_VERSION:
        raise ValueError(
            f"checkpoint of {name}: version {saved.get('version')!r}, this build reads {CHECKPOINT_VERSION}"
        )
    row = table.rows[name]
    track = table.track(row)
    groups = table.groups()
    for key, packed in saved["columns"].items():
        groups[key].unpack(row, packed)
    track.lead.samples_s = [float(s) for s in saved["lead_samples_s"]]
    track.zero_signal = bool(saved["zero_signal"])
    _restore_load(table, row, saved["load"], saved["recent"])
    _restore_recent(table, row, saved["recent"])
    _restore_quantiles(table, row, saved["scores"])


def known(table: Table, saved: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a checkpoint without the groups of columns that this build does not have, and their names.

    A later build that learns more keeps it in a group of its own, under the same version: after a rollback the rest is
    as good as it was. Raises what `restore` raises for a checkpoint without columns.
    """
    groups = table.groups()
    columns = {key: packed for key, packed in saved["columns"].items() if key in groups}
    return saved | {"columns": columns}, tuple(sorted(saved["columns"].keys() - columns.keys()))


def _coarse(table: Table, row: int) -> dict[str, Any]:
    """Load history as means per five minutes, newest last, with the head bin."""
    head = int(table.history.head[row])
    per = int(COARSE_S / 10.0)
    if head == NO_BIN:
        return {"head": NO_BIN, "rps": []}
    index = (head - 1 - np.arange(per * COARSE_KEEP)) % table.history.count.shape[1]
    count = table.history.count[row, index].reshape(COARSE_KEEP, per).sum(axis=1)
    cover = table.history.cover_s[row, index].reshape(COARSE_KEEP, per).sum(axis=1)
    known = cover > 0.5 * COARSE_S
    rates = [float(f"{c / s:.3g}") if k else None for c, s, k in zip(count, cover, known, strict=True)]
    while rates and rates[-1] is None:
        rates.pop()
    return {"head": head, "rps": rates}


def _restore_load(table: Table, row: int, load: dict[str, Any], recent: dict[str, Any]) -> None:
    head = int(load["head"])
    if head == -1 and not load["rps"] and not recent["load"]:
        head = NO_BIN  # builds that took every bin for a positive one said so
    table.history.head[row] = head
    per = int(COARSE_S / 10.0)
    for block, rate in enumerate(load["rps"]):
        if rate is None:
            continue
        index = (head - 1 - block * per - np.arange(per)) % table.history.count.shape[1]
        table.history.count[row, index] = rate * 10.0
        table.history.cover_s[row, index] = 10.0
        table.history.need_rps[row, index] = rate


def _recent(table: Table, row: int) -> dict[str, Any]:
    """The last minutes as they were: load and need per bin, newest first, and the counts the bounds remember."""
    head = int(table.history.head[row])
    index = (head - 1 - np.arange(RECENT_BINS)) % table.history.count.shape[1]
    load = zip(*(getattr(table.history, n)[row, index].tolist() for n in _RECENT_LOAD), strict=True)
    told = [] if head == NO_BIN else [[None if math.isnan(v) else float(f"{v:.4g}") for v in entry] for entry in load]
    bounds = table.bounds
    newest = np.argsort(-bounds.bin[row])[:RECENT_BINS]
    counts = [[int(getattr(bounds, n)[row, slot]) for n in _RECENT_COUNTS] for slot in newest.tolist()]
    return {"load": told, "counts": [entry for entry in counts if entry[0] != NO_BIN]}


def _restore_recent(table: Table, row: int, recent: dict[str, Any]) -> None:
    head = int(table.history.head[row])
    for back, entry in enumerate(recent["load"]):
        slot = (head - 1 - back) % table.history.count.shape[1]
        for name, value in zip(_RECENT_LOAD, entry, strict=True):
            getattr(table.history, name)[row, slot] = np.nan if value is None else value
    for entry in recent["counts"]:
        slot = entry[0] % table.bounds.bin.shape[1]
        for name, value in zip(_RECENT_COUNTS, entry, strict=True):
            getattr(table.bounds, name)[row, slot] = value


def _quantiles(table: Table, row: int) -> dict[str, Any]:
    """The score histograms as quantiles at a few levels, with their weights."""
    stage = table.forecaster.conformal
    rows = np.full(len(_LEVELS), row)
    values = conformal.quantile(stage, rows, _LEVELS)
    total = stage.weight[row].sum(axis=1)
    return {
        "weight": [float(f"{w:.4g}") for w in total],
        "values": [[float(f"{v:.3g}") for v in column] for column in values.T],
    }


def _restore_quantiles(table: Table, row: int, saved: dict[str, Any]) -> None:
    """Rebuild each histogram with its mass spread evenly between the kept quantiles."""
    share = np.diff(np.concatenate([[0.0], _LEVELS, [1.0]]))
    centre = 0.5 * (conformal.EDGES[1:] + conformal.EDGES[:-1])
    for model, (weight, values) in enumerate(zip(saved["weight"], saved["values"], strict=True)):
        inner = np.asarray(values)
        bounds = np.concatenate([[inner[0] - 0.05], inner, [inner[-1] + 0.1]])
        target = np.zeros(len(centre))
        for low, high, part in zip(bounds[:-1], bounds[1:], share, strict=True):
            cells = np.flatnonzero((centre >= low) & (centre <= high))
            if not len(cells):
                cells = np.array([int(np.abs(centre - 0.5 * (low + high)).argmin())])
            target[cells] += weight * part / len(cells)
        table.forecaster.conformal.weight[row, model] = target.astype(np.float32)
