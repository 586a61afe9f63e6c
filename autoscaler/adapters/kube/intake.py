"""Which claims are taken up where more are made than may be: those that are already, then the oldest.

Enters: claims as they come and go, each with the age of the object that asks. Leaves: whose place changed. A claim that
is taken up keeps its place until it goes, however many come: nobody's workload loses its controller because somebody
adds objects. Who begins knows of no places; `settle` gives them to those who had one, as far as that is known, then by
age. Places of those that may ask in a list that could not be read yet are kept until it can, for `KEPT_S` at most.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Final

KEPT_S: Final = 3600.0
"""How long a place is kept for whom nobody can hear (a guess): a right that lacks is granted within the hour, or not at
all."""

Age = tuple[float, str]
"""When the object that asks was made, in seconds since 1970, and its UID where that is the same."""


@dataclass(frozen=True, slots=True)
class Most:
    """How many workloads are taken up: of one namespace, and of all together."""

    of_namespace: int
    in_all: int

    @property
    def words(self) -> str:
        """What to tell whoever is not taken up, and what would help."""
        return (
            f"it is not taken up: Headroom takes up at most {self.of_namespace} workloads of a namespace and "
            f"{self.in_all} in all, and others came before it; Headroom leaves its replicas alone. Its turn comes "
            "as soon as one of them goes: delete what is not needed, or have the administrator raise "
            "settings.limits.namespace_workloads or settings.limits.workloads"
        )


KEPT_WORDS: Final = (
    "; of these places some are kept, for an hour at most, for workloads that had one and cannot be read now: let "
    "Headroom list what headroom doctor says it may not, or wait"
)


class Intake:
    """The places of claims, which are known by ``namespace/name``."""

    def __init__(self, most: Most) -> None:
        self.most = most
        self._ages: dict[str, Age] = {}
        """Of every claim there is."""
        self._taken: dict[str, set[str]] = defaultdict(set)
        """Namespace -> its claims that are taken up; none is empty."""
        self._total = 0
        self._kept: dict[str, set[str]] = defaultdict(set)
        """Namespace -> workloads that nobody is heard to ask for, and whose places nobody else gets."""
        self.keeps = 0
        """Places that are kept so."""
        self._waiting: dict[str, list[tuple[Age, str]]] = {}
        """Namespace -> its claims that are not, by age; none is empty."""

    @property
    def taken(self) -> int:
        """Claims that are taken up."""
        return self._total

    @property
    def waiting(self) -> int:
        """Claims that are not."""
        return len(self._ages) - self._total

    @property
    def line(self) -> list[str]:
        """The claims that are not."""
        return [key for line in self._waiting.values() for _, key in line]

    @property
    def words(self) -> str:
        """What to tell whoever is not taken up now."""
        return self.most.words + (KEPT_WORDS if self.keeps else "")

    @property
    def asking(self) -> Iterator[str]:
        """Every claim there is."""
        return iter(self._ages)

    def takes(self, key: str) -> bool:
        """Whether a claim is taken up."""
        return key in self._taken.get(_namespace(key), ())

    def ask(self, key: str, age: Age) -> None:
        """Note a claim that came or changed; it is taken up if there is room, and waits by its age if there is none."""
        before = self._ages.get(key)
        if before == age:
            return
        self._ages[key] = age
        if before is not None and self.takes(key):
            return
        if before is not None:
            self._unlist(key, before)
        if key in self._kept.get(_namespace(key), ()):
            self._kept[_namespace(key)].remove(key)
            self.keeps -= 1
        if self._has_room(_namespace(key)):
            self._take(key)
        else:
            insort(self._waiting.setdefault(_namespace(key), []), (age, key))

    def leave(self, key: str) -> str | None:
        """Note that a claim is gone; whose turn it is by that, if it is anybody's."""
        age = self._ages.pop(key, None)
        if age is None:
            return None
        namespace = _namespace(key)
        if not self.takes(key):
            self._unlist(key, age)
            return None
        self._taken[namespace].remove(key)
        self._total -= 1
        if not self._taken[namespace]:
            del self._taken[namespace]
        return self._next()

    def keep(self, keys: Iterable[str]) -> None:
        """Keep the places of these, as far as they do not ask: whether they do cannot be read."""
        for key in keys:
            if key not in self._ages and key not in self._kept[_namespace(key)]:
                self._kept[_namespace(key)].add(key)
                self.keeps += 1

    def release(self) -> list[str]:
        """Keep no place any more for who does not ask. Whose turn it is by that."""
        self._kept.clear()
        self.keeps = 0
        return list(iter(self._next, None))

    def settle(self, *before: Set[str]) -> list[str]:
        """Give all places anew: to those of `before` first, set by set, then by age. Whose place is another by that.

        What came when is chance while everything is being listed; it decides nothing of what lasts.
        """
        if not self.waiting:
            return []
        rank = {key: number for number, keys in reversed([*enumerate(before)]) for key in keys}
        had = {key for keys in self._taken.values() for key in keys}
        self._taken, self._waiting, self._total = defaultdict(set), {}, 0
        for _, age, key in sorted((rank.get(key, len(before)), age, key) for key, age in self._ages.items()):
            if self._has_room(_namespace(key)):
                self._take(key)
            else:
                self._waiting.setdefault(_namespace(key), []).append((age, key))
        for line in self._waiting.values():
            line.sort()
        return [key for key in self._ages if (key in had) != self.takes(key)]

    def _next(self) -> str | None:
        """Take up whose turn it is, the oldest whose namespace has a place left; None where nobody's is."""
        firsts = [line[0] for name, line in self._waiting.items() if self._has_room(name)]
        if not firsts:
            return None
        first_age, first = min(firsts)
        self._unlist(first, first_age)
        self._take(first)
        return first

    def _has_room(self, namespace: str) -> bool:
        mine = len(self._taken.get(namespace, ())) + len(self._kept.get(namespace, ()))
        return self._total + self.keeps < self.most.in_all and mine < self.most.of_namespace

    def _take(self, key: str) -> None:
        self._taken[_namespace(key)].add(key)
        self._total += 1

    def _unlist(self, key: str, age: Age) -> None:
        namespace = _namespace(key)
        line = self._waiting[namespace]
        del line[bisect_left(line, (age, key))]
        if not line:
            del self._waiting[namespace]


def _namespace(key: str) -> str:
    return key.partition("/")[0]
