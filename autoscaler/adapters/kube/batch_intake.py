"""Which gangs are taken in where there are more than may be: what runs, then as many of each tenant as of any other.

Enters: who asks, for which tenant, at which turn among the tenant's own. Leaves: who is taken in, and whose place
changed since that was last settled. Where not all fit, tenants give up their last ones, who has most first: a tenant
with no more than an equal part loses none, however many others bring that wait. What runs leaves less for all. Who is
taken in follows from who asks alone, not from who was heard of first, so that a restart finds the same ones.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

Turn = tuple[int, float, str]
"""Priority (negative), when the object was made, name: smaller goes first."""

GATHERED: Final = 256
"""Askers after whom places are settled at the latest: so many more than may be are taken in meanwhile at most."""


class Ask(NamedTuple):
    """One who asks."""

    tenant: str
    turn: Turn
    is_fixed: bool
    """Whether it counts and is taken in whatever there is besides."""


@dataclass(slots=True)
class _Line:
    """Those of one tenant by turn; whoever is inside goes before whoever is outside."""

    fixed: int = 0
    inside: list[Turn] = field(default_factory=list)
    outside: list[Turn] = field(default_factory=list)

    @property
    def taken(self) -> int:
        return self.fixed + len(self.inside)

    @property
    def asking(self) -> int:
        return self.taken + len(self.outside)


class BatchIntake:
    """The places of gangs by name; `most` are all there are."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._asks: dict[str, Ask] = {}
        self._lines: dict[str, _Line] = {}
        self._taken = 0
        self._level = most
        """How many a tenant may have, as of when that was last settled."""
        self.unsettled = 0
        """Changes since then."""

    @property
    def outside(self) -> Mapping[str, int]:
        """How many are not taken in, by tenant; none is 0."""
        return {tenant: len(line.outside) for tenant, line in self._lines.items() if line.outside}

    def takes(self, name: str) -> bool:
        """Whether one who asks is taken in, as far as that is settled."""
        ask = self._asks.get(name)
        if ask is None or ask.is_fixed:
            return ask is not None
        inside = self._lines[ask.tenant].inside
        return bool(inside) and ask.turn <= inside[-1]

    def ask(self, name: str, ask: Ask) -> None:
        """Note one who asks, or asks otherwise than before."""
        if self._asks.get(name) == ask:
            return
        self.leave(name)
        self._asks[name] = ask
        line = self._lines.setdefault(ask.tenant, _Line())
        self.unsettled += 1
        if ask.is_fixed:
            line.fixed += 1
            self._taken += 1
            return
        has_place = self._taken < self.most or line.taken < self._level
        is_next = not line.outside or ask.turn < line.outside[0]
        if (line.inside and ask.turn < line.inside[-1]) or (has_place and is_next):
            insort(line.inside, ask.turn)
            self._taken += 1
        else:
            insort(line.outside, ask.turn)

    def leave(self, name: str) -> None:
        """Note that one asks no more."""
        ask = self._asks.pop(name, None)
        if ask is None:
            return
        line = self._lines[ask.tenant]
        self.unsettled += 1
        if ask.is_fixed:
            line.fixed -= 1
            self._taken -= 1
        elif line.inside and ask.turn <= line.inside[-1]:
            del line.inside[bisect_left(line.inside, ask.turn)]
            self._taken -= 1
        else:
            del line.outside[bisect_left(line.outside, ask.turn)]
        if not line.asking:
            del self._lines[ask.tenant]

    def renew(self, asks: Mapping[str, Ask]) -> tuple[list[str], list[str]]:
        """Give all places anew, to these, as `settle` does.

        A hundred thousand who all ask otherwise than before are sorted at once: each by itself would shift the others.
        """
        had = dict.fromkeys(name for name in self._asks if self.takes(name))
        self._asks, self._lines = dict(asks), {}
        for ask in asks.values():
            line = self._lines.setdefault(ask.tenant, _Line())
            if ask.is_fixed:
                line.fixed += 1
            else:
                line.outside.append(ask.turn)
        for line in self._lines.values():
            line.outside.sort()
        self._taken = sum(line.fixed for line in self._lines.values())
        self.unsettled = 1
        self.settle()
        out = [name for name in had if name in asks and not self.takes(name)]
        back = [name for name in asks if name not in had and self.takes(name)]
        return out, sorted(back, key=lambda name: asks[name].turn)

    def settle(self) -> tuple[list[str], list[str]]:
        """Give all places anew. Who has none any more by that, and who has one now, by turn."""
        out, back = list[str](), list[str]()
        if not self.unsettled:
            return out, back
        self.unsettled = 0
        for tenant, places in self._places().items():
            line = self._lines[tenant]
            if len(line.inside) > places:
                moved, line.inside[places:] = line.inside[places:], []
                line.outside[:0] = moved
                out += (name for _, _, name in moved)
            elif line.outside and len(line.inside) < places:
                moved = line.outside[: places - len(line.inside)]
                del line.outside[: len(moved)]
                line.inside += moved
                back += (name for _, _, name in moved)
        self._taken += len(back) - len(out)
        return out, back

    def _places(self) -> dict[str, int]:
        """How many of each tenant are taken in besides those that are in any case."""
        lines = self._lines
        if sum(line.asking for line in lines.values()) <= self.most:
            self._level = self.most
            return {tenant: line.asking - line.fixed for tenant, line in lines.items()}
        low, high = 0, self.most
        while low < high:
            middle = (low + high + 1) // 2
            if sum(max(line.fixed, min(line.asking, middle)) for line in lines.values()) <= self.most:
                low = middle
            else:
                high = middle - 1
        self._level = low
        places = {tenant: max(0, min(line.asking, low) - line.fixed) for tenant, line in lines.items()}
        left = self.most - sum(line.fixed + places[tenant] for tenant, line in lines.items())
        wanting = (tenant for tenant in sorted(lines) if lines[tenant].fixed <= low < lines[tenant].asking)
        for tenant, _ in zip(wanting, range(left), strict=False):
            places[tenant] += 1
        return places
