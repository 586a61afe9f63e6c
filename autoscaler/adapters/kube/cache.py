"""The objects of one resource by key, and what changed: compared by UID, told in order.

Enters: objects as lists and watches show them. Leaves: changes, each told after `items` shows it. An object that cannot
be read is neither there nor gone: the version of it that was read last stays, and `unread` says why.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, Final, Generic, cast

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.meta import Thin, thinned
from autoscaler.adapters.kube.wire import T, Unread
from autoscaler.ports import Fault

LARGE_BYTES: Final = 1_000_000
"""An event beyond this is read like any other and told: objects that scaling reads have some 10 kB, and the API server
itself takes none of more than a few MB."""


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What became of the object `key`: None stands for absent. `old` and `new` are the same object (UID), changed."""

    key: str
    old: T | None
    new: T | None


class Cache(Generic[T]):
    """What is held of one resource; `on_change` is told of every change."""

    def __init__(self, on_change: Callable[[Change[T]], None]) -> None:
        self.items: dict[str, T] = {}
        self.unread: dict[str, Unread] = {}
        """Objects whose newest version cannot be read, by key."""
        self.large: dict[str, int] = {}
        """Bytes of the newest event about an object, by key, where they are `LARGE_BYTES` or more."""
        self._on_change = on_change

    def put(self, new: T) -> None:
        """Hold `new`. One that takes the place of another object of its name is told as a deletion and an addition."""
        key, uid, version = new.metadata.key, new.metadata.uid, new.metadata.resource_version
        self.unread.pop(key, None)
        self._make_room(key, uid)
        old = self.items.get(key)
        if old is not None and version and old.metadata.resource_version == version:
            return
        self.items[key] = new
        self._on_change(Change(key, old, new))

    def thin(self, key: str) -> None:
        """Hold no more of an object than tells its next version from this one; nobody is told."""
        held = self.items.get(key)
        if held is not None and not isinstance(held.metadata, Thin):
            self.items[key] = cast(Any, type(held))(metadata=thinned(held.metadata))

    def restore(self, thin: T | None, new: T) -> bool:
        """Hold `new` in the place of the `thin` one that it was read anew for, and tell it; False where that one has
        another version by now, which may be newer."""
        key, now = new.metadata.key, self.items.get(new.metadata.key)
        if thin is None or now is not thin or thin.metadata.uid != new.metadata.uid:
            return False
        self.unread.pop(key, None)
        self.items[key] = new
        self._on_change(Change(key, thin, new))
        return True

    def mark(self, unread: Unread) -> None:
        """Note an object that cannot be read; an older version of it stays."""
        self._make_room(unread.key, unread.uid)
        self.unread[unread.key] = unread

    def weigh(self, key: str, size_bytes: int) -> None:
        """Note how large the newest event about an object was."""
        if size_bytes >= LARGE_BYTES:
            self.large[key] = size_bytes
        else:
            self.large.pop(key, None)

    def drop(self, key: str) -> None:
        """Forget an object that was deleted, if it was held."""
        self.unread.pop(key, None)
        self.large.pop(key, None)
        old = self.items.pop(key, None)
        if old is not None:
            self._on_change(Change(key, old, None))

    def keep_only(self, keys: Set[str]) -> None:
        """Drop everything that a complete list does not show."""
        for key in [key for key in (*self.items, *self.unread) if key not in keys]:
            self.drop(key)

    def trouble(self, path: str) -> KubeError | None:
        """What to say of the objects of `path` that cannot be read; None while there are none."""
        if not self.unread:
            return None
        key = min(self.unread)
        others = f"; and {len(self.unread) - 1} more" if len(self.unread) > 1 else ""
        return KubeError(Fault.INVALID, f"GET {path}: {key} cannot be read: {self.unread[key].why}{others}")

    def _make_room(self, key: str, uid: str) -> None:
        """Drop another object of the same name; an unknown UID ("") is taken for the same object."""
        old = self.items.get(key)
        if old is not None and uid and old.metadata.uid != uid:
            self.drop(key)
