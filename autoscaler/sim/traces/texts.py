"""A column of texts in little memory: a string object for each of fifty million cells would take gigabytes.

Enters: blocks of cells, in order. Leaves: the same texts, as a sequence, and their numbers. A block of few different
texts keeps each once; any other is an array of fixed width. It knows nothing of files.
"""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from autoscaler.sim.traffic import FloatArray

_FEW = 0.25
"""Share of different cells up to which a block refers to each once, which costs 8 bytes a cell."""
_WASTE = 4
"""How many times the characters of its cells an array of fixed width may take: one long cell would fill the memory."""


class Texts(Sequence[str]):
    """Texts in the order in which `append` was given them."""

    __slots__ = ("_blocks", "_ends", "_known")

    def __init__(self) -> None:
        self._blocks: list[tuple[str, ...] | npt.NDArray[np.bytes_]] = []
        self._ends: list[int] = []
        self._known: dict[str, str] = {}

    def append(self, cells: tuple[str, ...]) -> None:
        """Add a block of cells, none of which may hold a NUL character."""
        self._blocks.append(self._compact(cells))
        self._ends.append(len(self) + len(cells))

    def numbers(self) -> FloatArray:
        """Each text as float() reads it, shape (cells,). ValueError where it reads none."""
        values = np.empty(len(self))
        begin = 0
        for block, end in zip(self._blocks, self._ends, strict=True):
            values[begin:end] = _as_numbers(block)
            begin = end
        return values

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[str]:
        for block in self._blocks:
            yield from _as_texts(block)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        row = at + len(self) if at < 0 else at
        if not 0 <= row < len(self):
            raise IndexError(f"row {at} of {len(self)}")
        place = int(np.searchsorted(self._ends, row, side="right"))
        block = self._blocks[place]
        cell = block[row - (self._ends[place - 1] if place else 0)]
        return cell if isinstance(cell, str) else cell.decode("ascii")

    def _compact(self, cells: tuple[str, ...]) -> tuple[str, ...] | npt.NDArray[np.bytes_]:
        different = set(cells)
        if len(different) > _FEW * len(cells):
            characters, longest = sum(map(len, cells)), max(map(len, cells))
            if longest * len(cells) <= _WASTE * characters and all(map(str.isascii, cells)):
                return np.array(cells, dtype=np.bytes_)
        known = {text: self._known.setdefault(text, text) for text in different}
        return tuple(map(known.__getitem__, cells))


def _as_texts(block: tuple[str, ...] | npt.NDArray[np.bytes_]) -> Sequence[str]:
    if isinstance(block, tuple):
        return block
    texts: list[str] = block.astype(np.str_).tolist()
    return texts


def _as_numbers(block: tuple[str, ...] | npt.NDArray[np.bytes_]) -> FloatArray:
    return np.array(block, dtype=np.float64) if isinstance(block, tuple) else block.astype(np.float64)
