"""What was read of an object, kept until the object, or anything else that it was read from, is another one.

Enters: objects as they are held, which are never changed in place. Leaves: the same frozen values as long as nothing
changed: of thousands of slots and nodes a look translates those that did.
"""

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Readings:
    """Values by object and pool, each with what it was made from."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, tuple[tuple[Any, ...], Any]]] = {}

    def of(self, key: str, pool: str, made_from: tuple[Any, ...], make: Callable[[], T]) -> T:
        """What `pool` reads of the object `key`; made anew where it was made from other objects (by identity)."""
        values = self._kept.setdefault(key, {})
        found = values.get(pool)
        if found is not None and all(a is b for a, b in zip(found[0], made_from, strict=True)):
            kept: T = found[1]
            return kept
        made = make()
        values[pool] = (made_from, made)
        return made

    def forget(self, key: str) -> None:
        """The object is gone."""
        self._kept.pop(key, None)
