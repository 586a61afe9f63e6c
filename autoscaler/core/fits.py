"""Fits that fall due: for whom, and the past they are made from.

Enters: the table and the rows that were just forecast. Leaves: requests for fits, which the driver has made elsewhere.
"""

from collections.abc import Container

import numpy as np

from autoscaler.core.capacity import throughput
from autoscaler.core.columns import F64, I64
from autoscaler.core.forecast import training
from autoscaler.core.forecast.training import FitRequest
from autoscaler.core.observe import history
from autoscaler.core.params import BIN_S, HISTORY_BINS, Feature
from autoscaler.core.state import Table


def due(table: Table, rows: I64, now_s: F64, horizon_bins: I64, supplied: Container[str]) -> list[FitRequest]:
    """Return the fits of these rows that fall due; of `supplied` workloads none, though they fall due all the same.

    `now_s` and `horizon_bins`, how far ahead a row is forecast, have shape (B,).
    """
    return [
        request
        for row, at_s, ahead in zip(rows.tolist(), now_s.tolist(), horizon_bins.tolist(), strict=True)
        if Feature.LEARNED not in table.track(row).params.without
        if (request := _request(table, row, at_s, ahead, supplied)) is not None
    ]


def _request(table: Table, row: int, now_s: float, horizon_bins: int, supplied: Container[str]) -> FitRequest | None:
    track = table.track(row)
    if now_s - track.fit_asked_s < training.REFIT_S:
        return None
    head = int(table.history.head[row])
    index = (head - np.arange(HISTORY_BINS - 1, 0, -1)) % HISTORY_BINS
    count = table.history.count[row, index].astype(np.float64)
    cover_s = table.history.cover_s[row, index].astype(np.float64)
    first = int(np.argmax(cover_s > 0))
    count, cover_s, index = count[first:], cover_s[first:], index[first:]
    if len(count) < training.needed_bins(horizon_bins):
        return None
    track.fit_asked_s = now_s
    if track.name in supplied:
        return None  # a training set costs as much as dozens of decisions
    minute = np.lib.stride_tricks.sliding_window_view(count, 6), np.lib.stride_tricks.sliding_window_view(cover_s, 6)
    ahead = history.envelope(*minute, np.full(len(minute[0]), table.policy.slack_s[row]))
    need = table.history.need_rps[row, index].astype(np.float64)
    if throughput.long_s(table.throughput, np.array([row]))[0] > BIN_S:
        ahead = need[history.ENVELOPE_BINS - 1 :]  # as it was when each minute closed: over a stay
    made = training.training_set(count, cover_s, need, ahead, horizon_bins)
    if made is None:
        return None
    return FitRequest(track.name, horizon_bins, *made, in_force_at_s=now_s + training.IN_FORCE_AFTER_S)
