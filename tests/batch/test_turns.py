"""Whose turn it is when much changes at once: queues compared together, and cycles that stay within their bound."""

import numpy as np
import pytest

from autoscaler.core.batch import backlog
from autoscaler.core.batch.params import QueueSpec
from tests.batch.builders import gang, params, queue, racks
from tests.batch.story import Story


def deep(width: int) -> list[QueueSpec]:
    """Queues at three depths: two at the top, teams below two others, and one team has teams of its own."""
    leaves = [queue(f"t{team}-{at}", team % 3, f"t{team}") for team in range(3) for at in range(width)]
    below = [queue(f"u-{at}", 0, "u", weight=1.0 + at) for at in range(width)]
    teams = [queue("t0"), queue("t1", weight=2.0), queue("t2", 2 * width, "t1"), queue("u", 0, "t0")]
    return [*teams, queue("top0"), queue("top1", weight=3.0), *leaves, *below]


def waves(seed: int) -> list[str]:
    """Gangs of two dozen queues come and end in waves: the order in which they start."""
    rng = np.random.default_rng(seed)
    specs = deep(6)
    inner = {each.parent for each in specs}
    names = [each.name for each in specs if each.name not in inner]
    story = Story(params(*specs), racks(3, 4), takes_s=lambda gang: 60.0)
    for wave in range(4):
        for at, name in enumerate(names):
            for number in range(int(rng.integers(0, 4))):
                pods, rank = int(rng.integers(1, 5)), -1 - int(rng.integers(2))
                story.submit(gang(f"{wave}-{at}-{number}", name, pods, created_s=story.now_s, priority=rank))
        story.to(story.now_s + 40.0)
    story.run()
    assert not story.room.backlog.waiting
    return story.order()


@pytest.mark.parametrize("seed", range(3))
def test_queues_compared_together_take_the_turns_that_they_take_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MANY", 10_000)
    one_by_one = waves(seed)
    monkeypatch.setattr(backlog, "MANY", 1)
    assert waves(seed) == one_by_one


def test_gangs_whose_room_is_whole_at_once_start_within_the_bound_of_a_cycle_all_at_the_same_instant() -> None:
    story = Story(params(queue("a", 8), queue("b"), max_admissions=3), racks(1, 1))
    story.submit(*(gang(f"b{at}", "b", notice_s=5.0) for at in range(8)))
    story.settle()
    story.submit(*(gang(f"a{at}", "a", created_s=float(at)) for at in range(8)))
    story.settle()
    assert sorted(story.victims()) == [f"b{at}" for at in range(8)]
    story.now_s = 5.0
    for name in story.victims():
        story.room.left(name, 5.0)
    sizes: list[int] = []
    while story.step():
        sizes.append(len(story.admitted) - 8 - sum(sizes))
    assert sizes == [3, 3, 2]
    assert story.order()[8:] == [f"a{at}" for at in range(8)]


def test_gangs_that_go_from_behind_a_head_that_stays_are_let_go_of() -> None:
    """A head that never fits; for each of 20 rounds 500 gangs come behind it and are deleted, or edited."""
    story = Story(params(queue("a", 8)), racks(1, 1), takes_s=lambda gang: 1e9)
    story.submit(gang("running", units=8))
    story.settle()
    story.submit(gang("head", units=8, priority=-1))
    waiting = story.room.backlog
    for _ in range(20):
        story.submit(*(gang(f"g{at}", units=8, priority=-3) for at in range(500)))
        story.submit(*(gang(f"g{at}", units=4, priority=-2) for at in range(100)))
        for at in range(495):
            story.room.cancel(f"g{at}", 0.0)
        assert waiting.length(1) <= 2 * 501, "twice as many as ever waited at once"
    assert [each.gang.name for each in waiting.in_queue(1)] == ["head", *(f"g{at}" for at in range(495, 500))]
    story.room.finish("running", 1.0)
    story.settle()
    assert story.order() == ["running", "head"]
