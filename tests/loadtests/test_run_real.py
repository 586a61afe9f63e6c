"""One scenario on the real control plane: from a queue in the servers to replicas that serve, and a run that is cut."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.__main__ import main
from tests.conftest import ROOT

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(300)]

SCENARIO = """\
title: More than one replica does
duration: 45s
traffic:
  rate: 4
  prompt-tokens: 256
  output-tokens: 96
engine:
  slots: 8
  kv-tokens: 40000
  warm-up: {weights: 8s, graphs: 2s}
policy:
  ttft: 5s
  max-replicas: 6
"""
"""Nearly twice what one replica of eight slots gets done; nobody would wait a minute even if no other started."""

WARM_UP_S = 10.0


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "more.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.mark.parametrize("make", ["ours", pytest.param("dynamo", marks=pytest.mark.needs("dynamo"))])
def test_a_queue_in_the_servers_becomes_replicas_that_serve(make: str, scenario: Path, tmp_path: Path) -> None:
    scenario.write_text(SCENARIO.replace("engine:", f"engine:\n  make: {make}"))
    data, html = tmp_path / "out.json", tmp_path / "out.html"
    assert main(["run", str(scenario), "--json", str(data), "--html", str(html)]) == 0
    record = json.loads(data.read_text())
    assert record["ended"] == "done"
    requests = record["traffic"]["requests"]
    assert (requests["failed"], requests["completed"]) == (0, requests["due"])
    later = [pod for pod in record["pods"] if pod["begun_s"] > 0]
    assert later, "the queue made it grow"
    assert all(pod["ready_s"] - pod["begun_s"] >= WARM_UP_S for pod in later if pod["ready_s"] is not None)
    assert max(sample["ready"] for sample in record["samples"]) > 1
    moved = [line for line in record["decisions"] if line["verdict"] == "SCALE"]
    assert moved
    assert all(line["reason"] and line["text"] for line in moved)
    assert record["scaler"]["cores"] > 0
    assert record["harness"]["cpu_s"] > 0
    assert {row["name"] for row in record["fidelity"]} == {"GPU-hours", "in time, %"}
    assert "control loop, not GPU" in html.read_text()


def test_a_run_that_is_cut_keeps_what_it_knows(scenario: Path, tmp_path: Path) -> None:
    data, html = tmp_path / "out.json", tmp_path / "out.html"
    command = [sys.executable, "-m", "loadtests", "run", str(scenario), "--json", str(data), "--html", str(html)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if " completed" in line:  # the first word of the load's progress
                os.kill(running.pid, signal.SIGINT)
                break
        running.stderr.read()
        assert running.wait(60) == 130
    record = json.loads(data.read_text())
    assert record["ended"] == "interrupted"
    assert record["fidelity"] == []
    assert 0 < record["traffic"]["took_s"] < 45
    assert "Partial report" in html.read_text()
    assert not _left(record["traffic"]["target"]["url"]), "no server outlives the run"


def _left(url: str) -> bool:
    host, _, port = url.split("/")[2].rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
