"""A step that is not put in words: the same counts, and the same words for whoever asks."""

from dataclasses import replace
from functools import partial

import pytest

from autoscaler.core import engine
from autoscaler.core.params import Params
from autoscaler.core.state import Table
from autoscaler.core.types import Readings
from tests.core.toy import Toy

NAMES = ("a", "b", "c")


def fleet() -> Table:
    table = Table.empty()
    for number, name in enumerate(NAMES):
        table.put(name, Params(max_replicas=4 + number, warmup_prior_s=60.0))
    return table


def _load(most_rps: float, second: float) -> float:
    return most_rps if second >= 120.0 else 1.0


def looks(minutes: int) -> list[list[tuple[str, Readings]]]:
    """A look every ten seconds at three workloads; from second 120 on more comes than their two replicas carry."""
    toys = {name: Toy.of(2, partial(_load, 4.0 + at)) for at, name in enumerate(NAMES)}
    seen = []
    for _ in range(6 * minutes):
        for toy in toys.values():
            toy.advance(10.0)
        seen.append([(name, toy.readings()) for name, toy in toys.items()])
    return seen


def test_counts_and_words_are_those_of_a_step() -> None:
    table, other, told = fleet(), fleet(), 0
    for batch in looks(10):
        step, made = engine.step(table, batch), engine.advance(other, batch)
        assert made.counts == tuple((d.workload, d.now_s, d.seen_replicas, d.replicas) for d in step.decisions)
        assert tuple(made.decision(name) for name in reversed(NAMES)) == step.decisions[::-1]
        told += any(d.replicas != d.seen_replicas for d in step.decisions)
    assert told > 10, "orders were among them"


def test_what_was_outdated_holds_and_says_so() -> None:
    table, now = fleet(), looks(1)[-1]
    engine.advance(table, now)
    late = [(name, replace(reading, now_s=reading.now_s - 30.0)) for name, reading in now[:1]]
    for batch in (late, [*late, *now[1:]]):
        made = engine.advance(table, batch)
        assert made.counts[0].replicas == made.counts[0].seen_replicas
        assert made.decision("a").reason.name == "OUTDATED"
    with pytest.raises(KeyError):
        engine.advance(table, late).decision("c")
    with pytest.raises(KeyError):
        engine.advance(table, now[1:]).decision("a")
