"""Memory lines: the same memory out of a line as went in, whatever is in it, and no other line taken for one."""

import json
import zlib
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.core.capacity.leadtime import LeadTrack
from autoscaler.core.observe.sums import PodTrack
from autoscaler.core.params import Params
from autoscaler.core.recall import Memory, remember
from autoscaler.core.state import Table
from autoscaler.core.types import PodReading, StartingReplica
from autoscaler.record.audit import read_lines
from autoscaler.record.memories import PREFIX, Kept, Models, memory_line, plain, unpacked

NAMES = st.text(min_size=1, max_size=12)
INSTANTS = st.floats(0, 1e10)
STARTS = st.tuples(INSTANTS, st.none() | NAMES)


def fresh() -> Memory:
    table = Table.empty()
    table.put("prod/chat", Params())
    return remember(table, "prod/chat")


@given(
    waited=st.sets(STARTS, max_size=4), placed=st.dictionaries(STARTS, INSTANTS, max_size=4),
    pods=st.none() | st.frozensets(NAMES, max_size=4),
    seen_s=st.dictionaries(st.sampled_from(["queue", "arrivals", "kv"]), INSTANTS), samples=st.lists(INSTANTS),
)  # fmt: skip
def test_what_went_into_a_line_comes_out_of_it(waited, placed, pods, seen_s, samples) -> None:
    empty = fresh()
    starting = tuple(StartingReplica(*start) for start in sorted(waited, key=repr))
    lead = LeadTrack(samples, starting, waited, placed, 3, 2, pods)
    read = {name: PodTrack(PodReading(name, 1.5, waiting=2.0), 7.0, 6.0) for name in pods or ()}
    given_ = replace(empty, lead=lead, seen_s=tuple(seen_s.items()), pods=replace(empty.pods, pods=read))
    line = memory_line("prod/chat", 7.0, given_, Models(None, b"model"))
    kept = msgspec.json.decode(line, type=Kept)
    again = unpacked(kept.memory)
    assert plain(again) == plain(given_)
    assert (again.lead, again.seen_s, again.columns) == (lead, given_.seen_s, empty.columns)
    assert (kept.workload, kept.now_s, kept.fitted, kept.coming) == ("prod/chat", 7.0, None, b"model")


def test_a_line_begins_as_no_other_does_and_readers_of_decisions_pass_it_over() -> None:
    line = memory_line("prod/chat", 7.0, fresh(), Models())
    assert line.startswith(PREFIX)
    assert json.loads(line)["version"] == 1
    assert list(read_lines([line + b"\n"], "audit")) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda: b"", "cut off"), (lambda: b"not compressed", "error"), (lambda: zlib.compress(b""), "DecodeError"),
        (lambda: zlib.compress(plain(fresh()))[:-9], "cut off"),
        (lambda: zlib.compress(b"\x93\x01\x02\x03"), "ValidationError"),
        (lambda: zlib.compress(b"\0" * (64 << 20)), "larger than any memory"),
        (lambda: zlib.compress(b"\x91" * 100_000), "Error"),
    ],
    ids=["nothing", "text", "empty", "cut", "three numbers", "a bomb", "nested"],
)  # fmt: skip
def test_what_is_no_memory_is_refused_in_words(body: Callable[[], bytes], words: str) -> None:
    """The bodies are made here, and not in each process that collects tests: one is of 64 MB."""
    made = body()
    with pytest.raises(ValueError, match=words):
        unpacked(made)
