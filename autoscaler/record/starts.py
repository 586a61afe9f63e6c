"""Start lines: what the core remembered of a workload when a driver took it up, one line of versioned JSON.

Enters: the checkpoint that the workload's row was filled from, None where it began afresh. Leaves: bytes without a line
end. In an audit stream a start line stands before the first inputs line of a workload, and wherever its memory was
replaced: by a restart, a hand-over, or a bug that it provoked. Whoever replays the stream makes the row anew there:
removes it, puts it with any policy (the next inputs line brings its own), restores the checkpoint (`core.state`) and
sets when its model was asked for last. Nothing that was learned before a start line counts after it.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

PREFIX: Final = b'{"kind":"start"'
"""How every start line begins, and no other line of an audit stream."""

VERSION: Final = 1
"""Raised when a key changes its meaning or goes; a new key does not raise it."""


class Start(msgspec.Struct, frozen=True, omit_defaults=True):
    """A start line as it is read; `msgspec.json.Decoder(Start)` raises msgspec.DecodeError for any other."""

    kind: str
    version: int
    now_s: float
    workload: str
    fit_asked_s: float | None
    """When a model was asked for last, for a workload of a crowd may be later than now; None where never."""
    checkpoint: dict[str, Any] | None
    """What `core.checkpoint.restore` takes, at most 4 KiB; None where the workload began afresh."""
    models: bool = False
    """Every model that the workload gets from here on has a fit line; a replay fits none. Left out where not so."""


def start_line(
    workload: str, now_s: float, checkpoint: Mapping[str, Any] | None, fit_asked_s: float, *, models: bool = False
) -> bytes:
    """The beginning of `workload` as one line of JSON, without the line end."""
    asked_s = fit_asked_s if math.isfinite(fit_asked_s) else None
    return msgspec.json.encode(
        Start("start", VERSION, now_s, workload, asked_s, None if checkpoint is None else dict(checkpoint), models)
    )
