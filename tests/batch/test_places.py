"""What is kept for gangs that lost GPUs while the rest of them leaves, where hundreds lose them at once."""

import pytest

from autoscaler.core.batch import kept, places
from autoscaler.core.batch.owners import Owner, PodSeen
from tests.batch.builders import H100, gang, params, queue, racks
from tests.batch.story import Story

GANGS = 80
NODES = racks(8, 20)


def zone_lost() -> tuple[Story, list[PodSeen], list[str]]:
    """80 gangs of two nodes fill the cluster, and each loses one of its two; what is left, and the nodes lost."""
    story = Story(params(queue("a")), NODES)
    story.submit(*(gang(f"g{at:02}", pods=2, units=8, notice_s=60.0) for at in range(GANGS)))
    story.settle()
    where = {admitted.gang: [spot.node for spot in admitted.spots] for _, admitted in story.admitted}
    left = [PodSeen(stays, H100, 8, Owner.BATCH, name) for name, (_, stays) in where.items()]
    lost = [gone for gone, _ in where.values()]
    story.look([each for each in NODES if each.name not in lost], left)
    return story, left, lost


def looks(story: Story, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For whom a place is looked for from now on."""
    seen, real = list[str](), kept.start_again

    def count(*given: object) -> object:
        seen.append(given[1].name)  # type: ignore[attr-defined]
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(kept, "start_again", count)
    return seen


def test_one_cycle_looks_for_some_places_and_nothing_is_looked_for_again_before_room_is_gained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story, left, lost = zone_lost()
    seen, each_cycle = looks(story, monkeypatch), list[int]()
    for _ in range(5):
        before = len(seen)
        story.step()
        each_cycle.append(len(seen) - before)
    assert each_cycle == [32, 32, 16, 0, 0]
    assert len(set(seen)) == GANGS, "each once"
    seen.clear()
    story.now_s = places.AGAIN_S - 1.0
    story.settle()
    assert seen == []
    story.now_s = places.AGAIN_S
    story.step()
    assert len(seen) == places.MOST_LOOKS, "cores may have been gained, of which the count of GPUs says nothing"
    seen.clear()
    story.look([each for each in NODES if each.name not in lost[1:]], left)
    story.step()
    assert len(seen) == places.MOST_LOOKS
    assert len(story.room.ledger.starts) == 1, "the one that is mended is somebody's"


def test_who_comes_after_gangs_that_lost_a_node_takes_nothing_before_all_of_them_were_looked_at() -> None:
    """All nodes are mended before the first cycle, which looks at 32 of the 80."""
    story, left, _ = zone_lost()
    story.look(NODES, left)
    story.submit(*(gang(f"late{at}", units=8, created_s=1.0) for at in range(4)))
    story.settle()
    assert story.order()[GANGS:] == []
    assert len(story.room.ledger.starts) == GANGS
    assert story.room.contradictions() == []


def test_a_place_of_which_a_node_fails_is_looked_for_anew_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    story, left, lost = zone_lost()
    story.settle()
    mended = [each for each in NODES if each.name not in lost[2:]]
    story.look(mended, left)
    story.settle()
    seen = looks(story, monkeypatch)
    _, second = story.room.ledger.starts
    story.look([each for each in NODES if each.name not in lost[1:]], left)
    story.step()
    assert seen[0] == second
    assert len(story.room.ledger.starts) == 1
