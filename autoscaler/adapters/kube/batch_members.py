"""The pods of which a piece of work consists where nothing stands above them, and the seats that they were given.

Enters: nothing; these are values. Leaves: which gated pod goes where. Each pod that is let in carries all seats of its
gang in an annotation, so that whoever starts anew knows where those belong that are gated still.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from autoscaler.adapters.kube.batch_objects import WorkPodSpec


class Seat(msgspec.Struct, frozen=True, gc=False):
    """Where one pod of a gang goes."""

    pod: str
    """Whom it was given to; another pod of the form may get it once that one is gone."""
    node: str
    host: str
    """The node by its hostname label."""
    shape: str
    form: str
    """Which pods are equal, as a word."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod that is not over."""

    name: str
    uid: str
    version: str
    form: str
    gate: int | None
    """Where our gate stands among its gates; None once it was let in."""
    host: str
    """To which node it was held when it was let in; empty before."""
    going: bool
    """It was told to end."""
    template: WorkPodSpec
    annotations: Mapping[str, str]

    @property
    def waits(self) -> bool:
        """Whether it stands behind our gate."""
        return self.gate is not None and not self.going


def free_seats(members: Iterable[Member], seats: Sequence[Seat]) -> Iterator[tuple[Member, Seat]]:
    """Gated pods with the seats that nobody sits on: each its own, or one that was left by a pod of its form."""
    every = list(members)
    taken = Counter((each.host, each.form) for each in every if each.gate is None)
    left = []
    for seat in seats:
        if taken[seat.host, seat.form] > 0:
            taken[seat.host, seat.form] -= 1
        else:
            left.append(seat)
    for member in sorted((each for each in every if each.waits), key=lambda each: each.name):
        mine = [seat for seat in left if seat.form == member.form]
        if mine:
            given = next((seat for seat in mine if seat.pod == member.name), mine[0])
            left.remove(given)
            yield member, given
