"""Whose starts are like which, kept while a workload has no pods and over a restart."""

import json
from typing import Any

import pytest

from autoscaler.core.capacity import laststarts
from autoscaler.core.capacity.laststarts import LastStarts
from autoscaler.core.capacity.podtimes import Kind

H100 = Kind("sha256:ab chat", "8xH100", node_is_new=True, image_was_present=False)
L4 = Kind("sha256:cd chat", "1xL4", node_is_new=False, image_was_present=True)


def told(*notes: tuple[str, float, Kind]) -> LastStarts:
    last = LastStarts()
    for note in notes:
        last.note(*note)
    return last


def known(_: Kind) -> bool:
    return True


def kept(last: LastStarts) -> Any:
    return json.loads(json.dumps(last.pack(known)))


def test_the_newest_pod_speaks_whenever_it_is_told() -> None:
    last = told(("prod/chat", 100.0, L4), ("prod/chat", 50.0, H100))
    assert last.kind("prod/chat") == Kind("sha256:cd chat", "1xL4", False, False)
    last.note("prod/chat", 200.0, H100)
    assert last.kind("prod/chat") == Kind("sha256:ab chat", "8xH100", False, False)
    assert last.kind("prod/code") is None


def test_a_checkpoint_gives_the_same_answers() -> None:
    last = told(("prod/chat", 100.0, L4), ("prod/code", 50.0, H100), ("dev/chat", 60.0, L4))
    other = LastStarts()
    other.restore(kept(last))
    assert [other.kind(name) for name in ("prod/chat", "prod/code", "dev/chat")] == [
        last.kind(name) for name in ("prod/chat", "prod/code", "dev/chat")
    ]
    assert kept(other) == kept(last)


def test_a_checkpoint_that_arrives_late_overrules_nothing_that_is_newer() -> None:
    last = told(("prod/chat", 200.0, H100))
    last.restore(kept(told(("prod/chat", 100.0, L4), ("prod/code", 100.0, L4))))
    assert last.kind("prod/chat") == Kind("sha256:ab chat", "8xH100", False, False)
    assert last.kind("prod/code") == Kind("sha256:cd chat", "1xL4", False, False)


def test_of_workloads_that_come_and_go_the_last_ones_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laststarts, "MOST_WORKLOADS", 1)
    last = told(("prod/chat", 100.0, L4), ("prod/code", 50.0, L4))
    assert (last.kind("prod/chat"), last.kind("prod/code")) == (None, Kind("sha256:cd chat", "1xL4", False, False))


def test_a_checkpoint_holds_the_newest_and_none_whose_starts_were_never_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(laststarts, "KEEP_WORKLOADS", 1)
    last = told(("prod/chat", 100.0, L4), ("prod/code", 50.0, L4), ("prod/mail", 300.0, H100))
    assert list(last.pack(lambda kind: kind.shape == "1xL4")["workloads"]) == ["prod/chat"]


@pytest.mark.parametrize(
    "saved",
    [
        {"version": 2},
        {"version": 1, "kinds": [["a", "b"]], "workloads": {"prod/a": [1.0, 0], "prod/chat": [1.0, 1]}},
        {"version": 1, "kinds": [["a"]], "workloads": {}},
        {"version": 1, "kinds": [], "workloads": {"prod/chat": None}},
        {"version": 1, "kinds": [["a", "b"]], "workloads": {"prod/a": [1.0, 0], "prod/chat": [10**400, 0]}},
    ],
    ids=["another version", "a kind that is not there", "half a kind", "no entry", "an instant that no float holds"],
)
def test_a_faulty_checkpoint_is_refused_whole(saved: dict[str, Any]) -> None:
    last = told(("prod/chat", 100.0, L4))
    with pytest.raises(ValueError, match="last starts"):
        last.restore(saved)
    assert (last.kind("prod/a"), last.kind("prod/chat")) == (None, Kind("sha256:cd chat", "1xL4", False, False))
