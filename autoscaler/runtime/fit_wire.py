"""The bytes between the live driver and its fitting child: numpy archives without pickled objects, length first.

Floats cross unchanged, so a model fitted in the child equals one fitted inline to the last bit.
"""

import io
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from autoscaler.core.forecast.models import FittedModel, Trees
from autoscaler.core.forecast.training import FitRequest

Array = npt.NDArray[Any]
LENGTH_BYTES = 8
"""A message is its length as an unsigned little-endian integer, then that many bytes."""

_TREE_ARRAYS = ("feature", "threshold", "left", "right", "value")


def pack_request(request: FitRequest) -> bytes:
    """`request` as bytes."""
    return _pack(
        workload=np.array(request.workload),
        horizon_bins=np.array(request.horizon_bins),
        x=request.x,
        y=request.y,
        in_force_at_s=np.array(request.in_force_at_s),
    )


def unpack_request(body: bytes) -> FitRequest:
    """The request in `body`."""
    found = _unpack(body)
    return FitRequest(
        str(found["workload"]), int(found["horizon_bins"]), found["x"], found["y"], float(found["in_force_at_s"])
    )


def pack_answer(answer: FittedModel | str) -> bytes:
    """A model, or the message of an error, as bytes."""
    if isinstance(answer, str):
        return _pack(error=np.array(answer))
    trees: dict[str, Array] = {}
    if answer.trees is not None:
        trees = {name: getattr(answer.trees, name) for name in _TREE_ARRAYS}
        trees |= {"baseline": np.array(answer.trees.baseline), "depth": np.array(answer.trees.depth)}
    return _pack(
        in_force_at_s=np.array(answer.in_force_at_s),
        horizon_bins=np.array(answer.horizon_bins),
        coefficients=answer.coefficients,
        intercept=np.array(answer.intercept),
        rows=np.array(answer.rows),
        **trees,
    )


def unpack_answer(body: bytes) -> FittedModel | str:
    """The model in `body`, or the message of the error it carries."""
    found = _unpack(body)
    if "error" in found:
        return str(found["error"])
    trees = None
    if "value" in found:
        trees = Trees(
            found["feature"],
            found["threshold"],
            found["left"],
            found["right"],
            found["value"],
            baseline=float(found["baseline"]),
            depth=int(found["depth"]),
        )
    return FittedModel(
        in_force_at_s=float(found["in_force_at_s"]),
        horizon_bins=int(found["horizon_bins"]),
        coefficients=found["coefficients"],
        intercept=float(found["intercept"]),
        trees=trees,
        rows=int(found["rows"]),
    )


def framed(body: bytes) -> bytes:
    """`body` with its length in front."""
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next message of a blocking stream, or None at its end."""
    head = stream.read(LENGTH_BYTES)
    return stream.read(int.from_bytes(head, "little")) if len(head) == LENGTH_BYTES else None


def _pack(**arrays: Array) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def _unpack(body: bytes) -> dict[str, Array]:
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
