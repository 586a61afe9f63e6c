"""What a Job says of itself in labels and annotations: read with its units, or found wrong by name."""

import re

import pytest

from autoscaler.api.batch_work import (
    ANNOTATIONS,
    CHECKPOINT_NOTICE,
    EXPECTED_DURATION,
    LAST_CHECKPOINT,
    MAX_WIDTH,
    MIN_RUNTIME,
    MIN_WIDTH,
    PREFERRED_TOPOLOGY,
    QUEUE,
    REQUIRED_TOPOLOGY,
    WorkSays,
    read_work,
    seconds,
)
from autoscaler.core.batch.gangs import Topology

NOON_S = 1795863600.0
"""2026-11-28T11:00:00Z."""


def says(**annotations: str) -> WorkSays:
    found = read_work(
        {QUEUE: "vision"}, {f"headroom.dev/{n.replace('_', '-')}": v for n, v in annotations.items()}, NOON_S
    )
    assert found is not None
    return found


def test_an_object_without_the_label_is_none_of_ours() -> None:
    assert read_work({"app": "x"}, {MIN_WIDTH: "nonsense"}, NOON_S) is None


def test_a_label_alone_is_enough() -> None:
    assert says() == WorkSays("vision")


def test_everything_is_read_in_seconds_and_pods() -> None:
    found = says(
        min_width="2", max_width="8", checkpoint_notice="90s", last_checkpoint="2026-11-28T11:30:00+01:00",
        expected_duration="1h30m", min_runtime="15m", required_topology="rack", preferred_topology="island",
    )  # fmt: skip
    assert found == WorkSays("vision", 2, 8, 90.0, NOON_S - 1800, 5400.0, 900.0, Topology("rack", "island"))


@pytest.mark.parametrize(
    ("text", "value_s"),
    [("90s", 90), ("15m", 900), ("1.5h", 5400), ("2d", 172_800), ("1d2h3m4s", 93_784), ("0s", 0), ("0.25s", 0.25)],
)
def test_durations_have_units(text: str, value_s: float) -> None:
    assert seconds(text) == value_s


@pytest.mark.parametrize("text", ["", "90", "s", "1h1h", "30m1h", "-5m", "1 h", "1w", "1e3s", "٣m", "9" * 10 + "s"])
def test_what_is_no_duration_is_none(text: str) -> None:
    assert seconds(text) is None


WRONG = {
    "a width of 0": (MIN_WIDTH, "0", "'0'; give a whole number of pods, 1 to 16384", True),
    "a negative width": (MAX_WIDTH, "-3", "'-3'; give a whole number of pods, 1 to 16384", True),
    "an absurd width": (MAX_WIDTH, "99999999999", "give a whole number of pods, 1 to 16384", True),
    "half a pod": (MIN_WIDTH, "1.5", "'1.5'; give a whole number of pods, 1 to 16384", True),
    "a notice without unit": (CHECKPOINT_NOTICE, "90", "'90' has no unit; give 0s to 1h, such as 90s", True),
    "a notice of a day": (CHECKPOINT_NOTICE, "1d", "'1d'; give 0s to 1h, such as 90s", True),
    "a job of no time": (EXPECTED_DURATION, "0s", "'0s'; give 1s to 90d, such as 4h", True),
    "a job of years": (EXPECTED_DURATION, "999d", "'999d'; give 1s to 90d, such as 4h", True),
    "a runtime in words": (MIN_RUNTIME, "long", "'long'; give 0s to 30d, such as 30m", True),
    "a domain of a level that is none": (REQUIRED_TOPOLOGY, "zone", "'zone'; name one of rack, island, node", True),
    "a domain by its label": (
        PREFERRED_TOPOLOGY,
        "topology.kubernetes.io/rack",
        "name one of rack, island, node",
        True,
    ),
    "a domain of no name": (REQUIRED_TOPOLOGY, "", "''; name one of rack, island, node", True),
    "a checkpoint in words": (LAST_CHECKPOINT, "today", "'today'; write a date and time with offset", False),
    "a checkpoint without offset": (LAST_CHECKPOINT, "2026-11-28T11:00:00", "with offset, such as", False),
    "a checkpoint to come": (LAST_CHECKPOINT, "2026-11-29T11:00:00Z", "is in the future; write when it was", False),
}


@pytest.mark.parametrize(("name", "value", "words", "stops"), WRONG.values(), ids=WRONG)
def test_a_value_that_cannot_be_meant_is_named(name: str, value: str, words: str, stops: bool) -> None:
    found = read_work({QUEUE: "vision"}, {name: value}, NOON_S)
    assert found is not None
    (finding,) = found.findings
    assert finding.words.startswith(f"{name}: ")
    assert words in finding.words
    assert found.refused is stops
    assert (found.min_width, found.max_width, found.notice_s, found.checkpoint_s) == (None, None, None, None)


def test_a_minimum_above_the_maximum_is_named() -> None:
    found = says(min_width="9", max_width="8")
    assert [finding.words for finding in found.findings if finding.stops] == [
        "headroom.dev/min-width: 9 is above max-width 8; lower it, or raise max-width"
    ]
    assert found.refused


@pytest.mark.parametrize("queue", ["", "Vision", "-a", "a-", "a" * 64, "a/b"])
def test_a_label_that_names_no_queue_is_named(queue: str) -> None:
    found = read_work({QUEUE: queue}, {}, NOON_S)
    assert found is not None
    assert found.findings[0].field == QUEUE
    assert found.refused


def test_a_clock_a_little_ahead_is_taken_for_now() -> None:
    assert says(last_checkpoint="2026-11-28T11:02:00Z").checkpoint_s == NOON_S


def test_every_fault_is_told_at_once() -> None:
    found = says(min_width="0", expected_duration="4", last_checkpoint="x")
    assert {finding.field for finding in found.findings} == {MIN_WIDTH, EXPECTED_DURATION, LAST_CHECKPOINT}


def test_every_annotation_is_told_with_what_it_may_be() -> None:
    ends = re.compile("left out|writes it|holds|no effect")
    assert all(ends.search(words) for words in ANNOTATIONS.values())
