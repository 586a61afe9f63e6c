"""Pages that several workloads read: each is asked for once in an interval, and taken apart once.

Enters: gateways' pods, one target for each workload behind them. Leaves: one question per page, and of its samples, for
each workload, those that may be its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autoscaler.adapters.engines.facts import Rows
from autoscaler.adapters.engines.targets import GatewayTarget, Place


@dataclass(frozen=True, slots=True)
class SharedPage:
    """One page, whoever reads it."""

    place: Place

    @property
    def uid(self) -> str:
        """Its address."""
        return f"{self.place.ip}:{self.place.port}{self.place.path}"

    @property
    def pod(self) -> str:
        """What people see of it."""
        return self.uid


class SharedPages:
    """Who reads which page."""

    def __init__(self) -> None:
        self._readers: dict[Place, dict[str, GatewayTarget]] = {}
        """By the UID of the target; none is empty."""
        self._places: dict[str, Place] = {}

    def put(self, target: GatewayTarget) -> SharedPage:
        """Have a target read its page from now on, which is to be asked for."""
        self._places[target.uid] = target.place
        self._readers.setdefault(target.place, {})[target.uid] = target
        return SharedPage(target.place)

    def moves(self, target: GatewayTarget) -> bool:
        """Whether a target read another page up to now."""
        return self._places.get(target.uid, target.place) != target.place

    def drop(self, uid: str) -> SharedPage | None:
        """Have a target read nothing any more; the page that nobody reads by that."""
        place = self._places.pop(uid, None)
        if place is None:
            return None
        self._readers[place].pop(uid)
        if self._readers[place]:
            return None
        del self._readers[place]
        return SharedPage(place)

    def readers(self, page: SharedPage) -> list[GatewayTarget]:
        """Who reads a page."""
        return list(self._readers.get(page.place, {}).values())


class Split:
    """The samples of a page by the value of a label, with those that lack it: a thousand pools would else be looked
    through a thousand times."""

    def __init__(self, rows: Mapping[str, Rows], label: str) -> None:
        self._of: defaultdict[str | None, dict[str, Rows]] = defaultdict(dict)
        for name, samples in rows.items():
            for row in samples:
                self._of[row[0].get(label)].setdefault(name, []).append(row)

    def rows(self, value: str) -> Mapping[str, Rows]:
        """The samples that carry this value, or none."""
        own, anybodys = self._of.get(value, {}), self._of.get(None, {})
        names: Iterable[str] = own.keys() | anybodys.keys()
        return {name: [*own.get(name, ()), *anybodys.get(name, ())] for name in names}
