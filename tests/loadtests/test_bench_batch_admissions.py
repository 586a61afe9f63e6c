"""The benchmark of admissions, small, on a real API server: what is written does not depend on the machine."""

import json

import pytest

from loadtests.bench import batch_admissions

pytestmark = [pytest.mark.real, pytest.mark.needs("control-plane"), pytest.mark.timeout(240)]


def test_a_job_is_let_in_by_one_write_whatever_waits_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Each of 60 Jobs by a patch of its own; what else is written is the status of 32 queues, once or twice."""
    assert batch_admissions.main(["--jobs", "60", "--backlog", "40", "--nodes", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    scene = found["scene"]
    assert (scene["jobs"], scene["backlog"], scene["nodes"]) == (60, 40, 2)
    writes = dict(found["admitted"]["writes"])
    assert writes.pop("patch jobs") >= 60
    assert {what for what in writes if not batch_admissions._aside(what)} <= {"patch batchqueues/status"}
    assert found["admitted"]["first_admission_s"] > 0.0
    assert found["of_the_bare_rate"] > 0.0
