"""Fit lines: a model that was handed to the core, one line of versioned JSON where that happened.

Enters: a workload and its model as packed bytes, which this module does not look into. Leaves: bytes without a line
end. In an audit stream whose start lines say `models` a fit line stands wherever a workload got a model: whoever
replays it installs that one there and fits none, so that a fit which came late, failed, or was made by another version
of the fitting library changes nothing.
"""

from typing import Final

import msgspec

PREFIX: Final = b'{"kind":"fit"'
"""How every fit line begins, and no other line of an audit stream."""

VERSION: Final = 1
"""Raised when a key changes its meaning or goes; a new key does not raise it."""


class Fit(msgspec.Struct, frozen=True):
    """A fit line as it is read; `msgspec.json.Decoder(Fit)` raises msgspec.DecodeError for any other."""

    kind: str
    version: int
    now_s: float
    """When it was installed."""
    workload: str
    model: bytes
    """Some 20 KB, as base64 in the line; what is in it is the packer's business."""


def fit_line(workload: str, now_s: float, model: bytes) -> bytes:
    """A model of `workload` as one line of JSON, without the line end."""
    return msgspec.json.encode(Fit("fit", VERSION, now_s, workload, model))
