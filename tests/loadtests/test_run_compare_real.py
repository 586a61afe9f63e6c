"""KEDA and HPA on the length of the queue, as `loadtests compare` starts them: they grow by what Prometheus says."""

import json
from pathlib import Path

import pytest

from loadtests.__main__ import main

pytestmark = [pytest.mark.real, pytest.mark.needs("keda", "keda-module", "prometheus"), pytest.mark.timeout(300)]

SCENARIO = """\
title: A queue that HPA sees
duration: 80s
scaling: keda-queue
traffic:
  rate: 6
  prompt-tokens: 256
  output-tokens: 96
engine:
  slots: 8
  kv-tokens: 40000
  warm-up: {graphs: 10s}
policy:
  ttft: 5s
  max-replicas: 4
"""


def test_hpa_grows_on_the_queue_and_each_count_it_wrote_is_told(tmp_path: Path) -> None:
    path, data, html = tmp_path / "queue.yaml", tmp_path / "out.json", tmp_path / "out.html"
    path.write_text(SCENARIO)
    assert main(["run", str(path), "--json", str(data), "--html", str(html)]) == 0
    record = json.loads(data.read_text())
    assert [line["reason"] for line in record["decisions"]] == ["HPA"] * len(record["decisions"])
    assert record["decisions"][0]["seen_replicas"] == 1
    assert 1 < max(sample["desired"] for sample in record["samples"]) <= 4
    assert record["predicted"] is None
    assert record["fidelity"] == []
    assert "KEDA and HPA on the queue" in html.read_text()
