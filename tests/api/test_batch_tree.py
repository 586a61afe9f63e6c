"""Many BatchQueues become one tree: what contradicts is named, and never stops the queues that do not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.api.batch_findings import TreeCode
from autoscaler.api.batch_queue import BatchQueueSpec
from autoscaler.api.batch_tree import MOST_DEPTH, QueueSeen, Tree, beyond_capacity, compile_shapes, tree_of
from autoscaler.api.shapes import Shape
from autoscaler.core.batch.params import UNLIMITED, BatchParams, Quota
from autoscaler.core.pool.params import Sharing

SHAPES = {
    "h100": Shape(sku="h100", speed_ratio=2.0),
    "quarter": Shape(sku="a100", resource="nvidia.com/gpu.shared", sharing=Sharing.TIME_SLICING, parts=4),
}


def queue(parent: str | None = None, guaranteed: int | None = None, **fields: Any) -> BatchQueueSpec:
    quotas = [] if guaranteed is None else [{"shape": "h100", "guaranteed": guaranteed}]
    return BatchQueueSpec.model_validate({"parent": parent, "quotas": quotas, **fields})


def tree(specs: dict[str, BatchQueueSpec], before: dict[str, BatchQueueSpec] | None = None) -> Tree:
    seen = {name: QueueSeen(spec, created_s=at) for at, (name, spec) in enumerate(specs.items())}
    return tree_of(seen, SHAPES, before)


def codes(found: Tree) -> list[tuple[str, TreeCode]]:
    return [(f.queue, f.code) for f in found.findings if f.code is not TreeCode.NO_NAMESPACE]


def guaranteed(found: Tree) -> dict[str, int]:
    return {each.name: each.quotas["h100"].guaranteed for each in found.queues if "h100" in each.quotas}


def test_a_sound_tree_is_taken_as_it_stands() -> None:
    found = tree(
        {
            "research": queue(guaranteed=32, namespaces=["lab"]),
            "vision": queue("research", guaranteed=16, weight=2),
            "text": queue("research", guaranteed=16),
        }
    )
    assert found.findings == ()
    params = BatchParams(compile_shapes(SHAPES), found.queues)
    vision = next(each for each in params.queues if each.name == "vision")
    assert (vision.parent, vision.weight, vision.quotas["h100"]) == ("research", 2, Quota(16, UNLIMITED, UNLIMITED))
    assert [(shape.name, shape.weight) for shape in params.shapes] == [("h100", 2.0), ("quarter", 0.25)]


MISPLACED = {
    "a parent that is not there": (
        {"a": queue("nobody")}, ["a"], TreeCode.UNKNOWN_PARENT, "spec.parent: there is no BatchQueue 'nobody'; make"),
    "its own parent": ({"a": queue("a")}, ["a"], TreeCode.CYCLE, "spec.parent: the parents go in a circle: a -> a; "),
    "a circle of three": (
        {"a": queue("b"), "b": queue("c"), "c": queue("a")}, ["a", "b", "c"], TreeCode.CYCLE,
        "spec.parent: the parents go in a circle: a -> b -> c -> a; leave one parent out"),
    "a shape that nobody defined": (
        {"a": queue(quotas=[{"shape": "b200"}])}, ["a"], TreeCode.UNKNOWN_SHAPE,
        "spec.quotas: 'b200' is not among the administrator's shapes (h100, quarter); name one of them"),
}  # fmt: skip


@pytest.mark.parametrize(("specs", "left_out", "code", "words"), MISPLACED.values(), ids=MISPLACED)
def test_a_queue_that_cannot_stand_there_is_left_out_and_the_others_are_served(
    specs: dict[str, BatchQueueSpec], left_out: list[str], code: TreeCode, words: str
) -> None:
    found = tree({**specs, "other": queue(namespaces=["x"])})
    assert [each.name for each in found.queues] == ["other"]
    assert codes(found) == [(name, code) for name in left_out]
    assert words in found.of(left_out[0])[0].words
    assert all(finding.code.blocks for finding in found.findings)


def test_what_is_below_a_queue_that_is_left_out_says_why() -> None:
    found = tree({"a": queue("nobody"), "b": queue("a"), "c": queue("b")})
    assert found.queues == ()
    assert codes(found) == [
        ("a", TreeCode.UNKNOWN_PARENT), ("b", TreeCode.PARENT_LEFT_OUT), ("c", TreeCode.PARENT_LEFT_OUT),
    ]  # fmt: skip


def test_a_queue_that_hangs_on_a_circle_is_no_part_of_it() -> None:
    found = tree({"a": queue("b"), "b": queue("a"), "c": queue("a")})
    assert codes(found) == [("a", TreeCode.CYCLE), ("b", TreeCode.CYCLE), ("c", TreeCode.PARENT_LEFT_OUT)]


def test_a_tree_that_is_too_deep_ends_where_it_is() -> None:
    names = [f"q{at}" for at in range(MOST_DEPTH + 2)]
    found = tree({name: queue(parent) for name, parent in zip(names, [None, *names], strict=False)})
    assert [each.name for each in found.queues] == names[:MOST_DEPTH]
    assert {code for _, code in codes(found)} == {TreeCode.TOO_DEEP}


def test_a_spec_that_cannot_be_read_is_told_in_its_readers_words() -> None:
    seen = {"a": QueueSeen(None, fault="spec.weight: 0 is out of range"), "b": QueueSeen(queue("a"))}
    found = tree_of(seen, SHAPES)
    assert [(f.queue, f.code.value, f.words.partition(";")[0]) for f in found.findings] == [
        ("a", "Invalid", "spec.weight: 0 is out of range"),
        ("b", "ParentLeftOut", "spec.parent: 'a' is not served, so that nothing below it is"),
    ]


def test_an_edit_that_contradicts_leaves_the_queue_as_it_was() -> None:
    before = {"a": queue(guaranteed=8, namespaces=["x"]), "b": queue("a", guaranteed=4)}
    found = tree({"a": queue("b", guaranteed=8, namespaces=["x"]), "b": queue("a", guaranteed=4)}, before)
    assert {each.name: each.parent for each in found.queues} == {"a": None, "b": "a"}
    assert codes(found) == [("a", TreeCode.CYCLE)], "who was not edited is not told that it stands in a circle"
    assert found.held == {"a"}


def test_a_faulty_edit_leaves_the_queue_as_it_was() -> None:
    before = {"a": queue(guaranteed=8, namespaces=["x"])}
    found = tree_of({"a": QueueSeen(None, fault="spec.weight: 0 is out of range")}, SHAPES, before)
    assert (guaranteed(found), sorted(found.held)) == ({"a": 8}, ["a"])


def test_a_new_queue_that_closes_a_circle_is_the_one_that_is_left_out() -> None:
    before = {"a": queue(None, guaranteed=8)}
    found = tree({"a": queue("b", guaranteed=8), "b": queue("a")}, before)
    assert {each.name: each.parent for each in found.queues} == {"a": None, "b": "a"}


def test_a_parent_that_promised_too_much_is_told_and_its_children_get_their_parts() -> None:
    found = tree({"top": queue(guaranteed=16), "a": queue("top", guaranteed=30), "b": queue("top", guaranteed=10)})
    assert guaranteed(found) == {"top": 16, "a": 12, "b": 4}
    assert codes(found) == [("top", TreeCode.PROMISED_TOO_MUCH)]
    assert "guaranteed: 16 is less than the 40 that its children are guaranteed" in found.of("top")[0].words
    assert not found.of("top")[0].code.blocks


def test_a_parent_that_states_no_guarantee_has_as_much_as_its_children_within_its_limit() -> None:
    children = {"a": queue("top", guaranteed=24), "b": queue("top", guaranteed=8)}
    for quota, has, codes_of_top in (
        ({"shape": "h100", "limit": 64}, {"top": 32, "a": 24, "b": 8}, []),
        ({"shape": "h100", "limit": 16}, {"top": 16, "a": 12, "b": 4}, [("top", TreeCode.PROMISED_TOO_MUCH)]),
    ):
        found = tree({"top": queue(quotas=[quota]), **children})
        assert guaranteed(found) == has
        assert codes(found) == codes_of_top
    assert "limit: 16 is less than the 32" in found.of("top")[0].words


def test_a_promise_is_kept_through_a_queue_that_states_none() -> None:
    found = tree({"top": queue(guaranteed=8), "between": queue("top"), "leaf": queue("between", guaranteed=16)})
    assert guaranteed(found) == {"top": 8, "leaf": 8}


def test_a_namespace_in_two_queues_stays_with_the_older_one() -> None:
    found = tree({"z-old": queue(namespaces=["lab"]), "a-new": queue(namespaces=["lab", "own"])})
    assert found.namespaces == {"lab": "z-old", "own": "a-new"}
    assert codes(found) == [("a-new", TreeCode.NAMESPACE_TAKEN)]
    assert found.admits("lab", "z-old")
    assert not found.admits("lab", "a-new")


def test_a_namespace_may_use_all_queues_below_its_own() -> None:
    found = tree({"top": queue(namespaces=["lab"]), "a": queue("top"), "b": queue("top"), "other": queue()})
    assert [found.admits("lab", name) for name in ("top", "a", "b", "other", "gone")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert not found.admits("stranger", "a")


def test_a_leaf_that_no_namespace_may_use_says_so() -> None:
    found = tree({"top": queue(namespaces=["lab"]), "a": queue("top"), "alone": queue()})
    assert [(f.queue, f.code, f.code.blocks) for f in found.findings] == [("alone", TreeCode.NO_NAMESPACE, False)]


def test_guarantees_beyond_what_the_cluster_has_are_told_at_the_top() -> None:
    found = tree({"a": queue(guaranteed=40), "b": queue(guaranteed=30), "c": queue("a", guaranteed=40)})
    told = beyond_capacity(found, {"h100": 64})
    assert [finding.queue for finding in told] == ["a", "b"]
    assert "guaranteed 70 of h100 and the cluster has 64; add nodes, or promise less" in told[0].words
    assert beyond_capacity(found, {"h100": 70}) == ()


NAMES = ("a", "b", "c", "d", "e")
SPECS = st.builds(
    queue,
    parent=st.one_of(st.none(), st.sampled_from([*NAMES, "nobody"])),
    guaranteed=st.one_of(st.none(), st.integers(0, 20)),
    namespaces=st.lists(st.sampled_from(["x", "y"]), unique=True),
    weight=st.sampled_from([0.5, 1, 3]),
)
TREES = st.dictionaries(st.sampled_from(NAMES), SPECS)


@given(TREES, TREES)
def test_whatever_is_written_the_core_takes_what_is_left_and_nobody_vanishes_unsaid(
    now: dict[str, BatchQueueSpec], before: dict[str, BatchQueueSpec]
) -> None:
    served = tree(before).specs
    found = tree(now, dict(served))
    if found.queues:
        BatchParams(compile_shapes(SHAPES), found.queues)
    told = {finding.queue for finding in found.findings if finding.code.blocks}
    assert now.keys() - found.specs.keys() <= told
    assert found.held <= told
    assert found.specs.keys() <= now.keys()
    for name, spec in found.specs.items():
        assert spec == now[name] or (name in found.held and spec == served[name])
