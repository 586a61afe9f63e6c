"""Stretches are stepped together so that bins close together: the core forecasts where one does."""

from collections.abc import Iterator
from typing import Final, cast

import pytest

from autoscaler.core.types import Readings, ReplicaReading
from autoscaler.hindsight.crew import Look, abreast
from autoscaler.hindsight.recording import Looked

NOT_READ: Final = cast("Looked", None)


def looks(row: str, from_s: float, every_s: float, count: int) -> Iterator[Look]:
    for place in range(count):
        yield row, NOT_READ, Readings(from_s + place * every_s, ReplicaReading(1, 1))


def turns(*strands: Iterator[Look]) -> list[dict[str, float]]:
    """The instants of each turn, by row."""
    made: list[dict[str, float]] = []

    def step(turn: object) -> None:
        made.append({row: readings.now_s for row, _, readings in cast("list[Look]", turn)})

    abreast(step, strands)
    return made


def closing(made: list[dict[str, float]]) -> int:
    """Turns in which some row sees its first look of a bin of 10 s that is not its very first."""
    last: dict[str, float] = {}
    found = 0
    for turn in made:
        found += any(row in last and at_s // 10 > last[row] // 10 for row, at_s in turn.items())
        last.update(turn)
    return found


def test_a_stretch_that_begins_between_bins_waits_one_turn_and_closes_them_with_the_others() -> None:
    """Looks every 5 s from the seconds 0, 7205 and 14405 on: unless one waited, a bin would close in every turn."""
    made = turns(looks("a", 0.0, 5.0, 20), looks("b", 7205.0, 5.0, 20), looks("c", 14_405.0, 5.0, 20))
    assert len(made) == 21
    assert closing(made) == 10
    assert {len(turn) for turn in made[2:-1]} == {3}


@pytest.mark.parametrize("every_s", [(5.0, 5.0, 10.0), (2.0, 5.0, 15.0), (0.2, 5.0, 60.0)], ids=str)
def test_every_look_has_its_turn_in_its_order_and_none_waits_for_long(every_s: tuple[float, float, float]) -> None:
    """40 looks of each: a look waits for one turn at most."""
    made = turns(*(looks(name, 5.0, every, 40) for name, every in zip("abc", every_s, strict=True)))
    for name, every in zip("abc", every_s, strict=True):
        own = [turn[name] for turn in made if name in turn]
        assert own == [look[2].now_s for look in looks(name, 5.0, every, 40)]
    assert len(made) <= 80


def test_stretches_of_different_lengths_are_all_stepped_to_their_ends() -> None:
    made = turns(looks("a", 0.0, 5.0, 3), looks("b", 0.0, 5.0, 0), looks("c", 5.0, 5.0, 1))
    assert sum(len(turn) for turn in made) == 4
    assert turns() == []
