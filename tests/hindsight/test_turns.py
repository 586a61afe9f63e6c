"""Looks at many workloads are decided on together, and it comes out as one by one."""

import json
from itertools import chain
from pathlib import Path

import pytest

from autoscaler.fitting.fit import fit
from autoscaler.hindsight import turns as module
from autoscaler.hindsight.estimates import estimates
from autoscaler.hindsight.overlay import Overlay
from autoscaler.hindsight.recording import Looked, Recording
from autoscaler.hindsight.replay import Replayed, replay
from autoscaler.hindsight.turns import turns
from autoscaler.sim.headroom import WORKLOAD
from tests.hindsight.recorded import lines, write


def named(given: tuple[bytes, ...], name: str) -> list[bytes]:
    """The same lines of another workload."""
    return [line.replace(WORKLOAD.encode(), name.encode()) for line in given]


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    """Three workloads of different traffic, recorded in turns as a controller does: inputs and decision together."""
    streams = [named(lines(seed=seed), f"prod/{seed}") for seed in (1, 2, 3)]
    begun = [stream[0] for stream in streams]
    steps = [[stream[i : i + 2] for i in range(1, len(stream), 2)] for stream in streams]
    together = chain.from_iterable(chain.from_iterable(step) for step in zip(*steps, strict=True))
    return write(tmp_path / "audit.jsonl", [*begun, *together])


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WIDEST", 1)


def again(audit: Path, *changes: str) -> Replayed:
    return replay(Recording.of([audit]), fit, overlay=Overlay.of(changes))


def test_a_turn_has_one_look_of_each_workload_and_what_lies_between_them_keeps_its_place(audit: Path) -> None:
    entries = list(turns(Recording.of([audit]).entries()))
    looked = [entry for entry in entries if isinstance(entry, tuple)]
    assert [entry.workload for entry in entries[:3] if not isinstance(entry, tuple)] == ["prod/1", "prod/2", "prod/3"]
    assert {tuple(look.workload for look in turn) for turn in looked} == {("prod/1", "prod/2", "prod/3")}
    assert len(looked) == 100


def test_of_one_workload_every_turn_is_one_look(audit: Path) -> None:
    entries = list(turns(Recording.of([audit]).entries(), "prod/2"))
    assert all(len(entry) == 1 for entry in entries if isinstance(entry, tuple))
    assert {look.workload for entry in entries if isinstance(entry, tuple) for look in entry} == {"prod/2"}
    assert all(isinstance(look, Looked) for entry in entries[1:] if isinstance(entry, tuple) for look in entry)


def test_every_decision_of_three_workloads_comes_out_again_byte_for_byte(audit: Path) -> None:
    done = again(audit)
    assert (done.rerun.compared, done.rerun.different) == (300, 0)
    assert done.workloads == ["prod/1", "prod/2", "prod/3"]


@pytest.mark.slow
def test_other_settings_change_the_same_decisions_together_as_one_by_one(
    audit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = again(audit, "max_replicas=8", "slo.wait_s=3")
    estimated = estimates(Recording.of([audit]), fit)
    one_by_one(monkeypatch)
    apart = again(audit, "max_replicas=8", "slo.wait_s=3")
    assert together.whatif is not None
    assert apart.whatif is not None
    assert together.whatif.told == apart.whatif.told
    assert any(told.differ for told in together.whatif.told.values())
    for name in together.workloads:
        assert together.whatif.estimates(name) == apart.whatif.estimates(name)
    assert estimated == estimates(Recording.of([audit]), fit)


def test_a_bad_look_is_named_and_its_neighbours_are_decided_on(audit: Path) -> None:
    given = audit.read_bytes().splitlines()
    at = next(i for i, line in enumerate(given) if b'"kind":"inputs"' in line and b"prod/2" in line)
    broken = json.loads(given[at])
    broken["policy"]["min_replicas"] = -1
    given[at] = json.dumps(broken, separators=(",", ":")).encode()
    done = again(write(audit, given))
    assert done.recording.bad == 1
    assert "min_replicas" in done.recording.faults[0]
    assert done.rerun.steps == 299
