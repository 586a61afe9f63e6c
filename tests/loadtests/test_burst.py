"""The load test of a burst on warm nodes: recorded on real Karpenter, told with the stage clock."""

import json
from pathlib import Path

import pytest

from loadtests import burst
from loadtests.burst import Burst, Record, Replica
from tests.real import parts


def test_a_record_is_told_burst_by_burst_with_the_stage_clock_below() -> None:
    warm, cold = Replica("chat-a", "gpu-1", True, 0.0, 5.0), Replica("chat-b", "gpu-9", False, 31.0, 36.0)
    told = list(burst.lines(Record((Burst("", (warm, cold), "the next start takes 5 s"),), ("a slot on a new node",))))
    assert told == [
        "burst 1: 1 of 2 replicas on warm nodes; seconds from its order until each is bound: 0, 31; ready: 5, 36",
        "  the controller before it: says nothing of the next start",
        "  the controller after it: the next start takes 5 s",
        "the stage clock, as `headroom explain` tells it of the pool and of the workload:",
        "  a slot on a new node",
    ]


def test_a_burst_that_was_foretold_is_told_beside_it() -> None:
    warm = Replica("chat-a", "gpu-1", True, 0.0, 6.0), Replica("chat-b", "gpu-2", True, 0.0, 3.0)
    foretold = Burst("the next start takes 3 s, 9 of 10 within 4 s, with a warm slot", warm, "")
    assert list(burst.lines(Record((foretold,), ())))[2] == (
        "  the last replica was ready after 1.50 times what was foretold for 9 of 10 starts; at most 1.6 is asked"
    )
    minutes = Burst("the next start takes 2 min, 9 of 10 within 2.5 min, with a warm slot", warm, "")
    assert minutes.over_foretold == 6.0 / 150.0


def test_a_number_of_replicas_out_of_range_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert burst.main(["--replicas", "0"]) == 2
    assert capsys.readouterr().err == "error: --replicas: 0 is out of range; it must be 1..8\n"


def test_a_part_that_is_not_built_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parts, "missing", lambda _: "karpenter is not built (python3 dev.py parts karpenter)")
    assert burst.main([]) == 2
    assert "python3 dev.py parts karpenter" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.needs("karpenter")
@pytest.mark.timeout(600)
def test_two_bursts_land_on_warm_nodes_and_what_was_measured_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "burst.json"
    assert burst.main(["--json", str(path)]) == 0
    told = json.loads(path.read_text())
    assert [len(each["replicas"]) for each in told["bursts"]] == [2, 2]
    assert all(replica["node_was_warm"] for each in told["bursts"] for replica in each["replicas"])
    assert "with a warm slot of chat" in told["bursts"][1]["said_before"]
    assert any(line.startswith("a slot on a new node, h100 on-demand") for line in told["stage_clock"])
    assert any(line.startswith("a replica, 8xGPU") for line in told["stage_clock"])
    assert "burst 2: 2 of 2 replicas on warm nodes" in capsys.readouterr().out
