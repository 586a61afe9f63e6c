"""`headroom replay` of a workload's past in Debian's Prometheus, beside what is worked out by hand."""

import json
import time
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from tests.prometheus.backfilled import Backfilled, Exposition

pytestmark = [pytest.mark.real, pytest.mark.needs("prometheus"), pytest.mark.timeout(300)]

STEP_S: Final = 30
STEPS: Final = 480
"""Four hours up to ten minutes ago."""
PODS: Final = "abcd"


def past(begin_s: int) -> Exposition:
    """Four pods serve one request a second each without a queue; for six minutes two a second come to each and wait."""
    told, at = Exposition(), begin_s + STEP_S * np.arange(STEPS)
    burst = (np.arange(STEPS) >= 200) & (np.arange(STEPS) < 212)
    waiting = np.where(burst, 30.0 * (np.arange(STEPS) - 199), 0.0)
    waiting[212:224] = 360.0 - 30.0 * np.arange(1, 13)
    done = np.cumsum(np.where(waiting > 0, 2.0, 1.0)) * STEP_S
    for pod in PODS:
        labels = {"namespace": "prod", "pod": f"chat-7d4b9c6f58-x2x9{pod}", "job": "pods", "model_name": "m"}
        for name, values in (
            ("vllm:num_requests_running", np.full(STEPS, 2.0)), ("vllm:num_requests_waiting", waiting),
            ("vllm:request_success_total", done), ("vllm:generation_tokens_total", 100 * done),
        ):  # fmt: skip
            told.add(name, labels, at.tolist(), values.tolist())
    for pod in PODS:
        owned = {"namespace": "prod", "pod": f"chat-7d4b9c6f58-x2x9{pod}", "job": "ksm"}
        by_set = {**owned, "owner_kind": "ReplicaSet", "owner_name": "chat-7d4b9c6f58"}
        told.add("kube_pod_owner", by_set, at.tolist(), [1.0] * STEPS)
    named = {"namespace": "prod", "replicaset": "chat-7d4b9c6f58", "owner_kind": "Deployment", "owner_name": "chat"}
    told.add("kube_replicaset_owner", named, at.tolist(), [1.0] * STEPS)
    return told


def test_a_past_in_prometheus_is_laid_beside_two_policies(tmp_path: Path) -> None:
    begin_s = (int(time.time()) - 600) // STEP_S * STEP_S - STEPS * STEP_S
    out, page = tmp_path / "out.json", tmp_path / "out.html"
    with Backfilled(tmp_path / "prometheus", past(begin_s)) as prometheus:
        prometheus.wait_ready()
        given = ["replay", "--prometheus", prometheus.url, "--workload", "prod/chat", "--days", "0.2"]
        done = CliRunner().invoke(app, [*given, "--set", "max_replicas=2", "--json", str(out), "--report", str(page)])
        gone = CliRunner().invoke(app, ["replay", "--prometheus", prometheus.url, "--workload", "prod/none"])
    assert done.exit_code == 0, done.output
    assert "prod/chat with max_replicas=2:" in done.stdout
    (told,) = json.loads(out.read_text())["comparisons"]
    happened = told["happened"]
    assert happened["observed"]["held_hours"] == pytest.approx(4 * happened["counted_s"] / 3600, rel=0.01)
    assert told["other"]["account"]["held_hours"] < told["as_is"]["account"]["held_hours"]
    assert told["optimum"]["held_hours"] > 0
    assert "max_replicas=2" in page.read_text()
    assert gone.exit_code == 2
    assert "prod/none" in gone.stderr
