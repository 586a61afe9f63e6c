"""What a person reads where a budget binds."""

import pytest

from autoscaler.core.scale.sharing import Cut
from autoscaler.record.shares import budget_words

RANKS = ("critical", "normal", "scavenger")

CUTS = {
    "namespace prod has 24 GPUs, 18 of them go to critical work": Cut("prod", 24, ((0, 18),), 2, 0, ()),
    "the cluster has 2,000 GPUs, 900 of them go to critical and 300 to normal work": Cut(
        None, 2000, ((0, 900), (1, 300)), 7, 0, ()
    ),
    "the cluster has 12 GPUs, shared by 5 workloads": Cut(None, 12, (), 5, 0, ()),
    "the cluster has 12 GPUs": Cut(None, 12, (), 1, 0, ()),
    "the cluster has 12 GPUs; 4 will come free from dev/a": Cut(None, 12, (), 1, 4, ("dev/a",)),
    "the cluster has 12 GPUs; 6 will come free from dev/a and dev/b": Cut(None, 12, (), 1, 6, ("dev/a", "dev/b")),
    "the cluster has 12 GPUs; 9 will come free from dev/a, dev/b and 2 more": Cut(
        None, 12, (), 1, 9, ("dev/a", "dev/b", "dev/c", "dev/d")
    ),
    "namespace prod has 24 GPUs, 6 of them are held by pods not scaled here, 18 of them go to critical work": Cut(
        "prod", 24, ((0, 18),), 2, 0, (), 6
    ),
    "the cluster has 20 GPUs, 6 of them go to critical work": Cut(None, 20, ((0, 6),), 1, 4, ("prod/chat",)),
}


@pytest.mark.parametrize(("words", "cut"), CUTS.items(), ids=CUTS.keys())
def test_words(words: str, cut: Cut) -> None:
    assert budget_words("prod/chat", cut, RANKS) == words
