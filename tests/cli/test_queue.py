"""`queue`, and `explain` of batch work: asked of the leader, told as tables, text or JSON."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoscaler.cli.main import app
from autoscaler.record.batch import BatchTold
from tests.cli.plane import Plane, plane
from tests.record.batches import BIG, TOLD, Book
from tests.record.test_board import AIM, step
from tests.web.test_live import CHAT, Controller

run = CliRunner().invoke


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Plane]:
    with plane(tmp_path, Controller(batch=Book())) as made:
        yield made


def asked(cluster: Plane, *arguments: str) -> tuple[int, str, str]:
    result = run(app, [*arguments, "--server", cluster.url])
    return result.exit_code, result.stdout, result.stderr


def cells(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def test_queues_gangs_and_owners_are_tables(cluster: Plane) -> None:
    code, out, err = asked(cluster, "queue")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert cells(lines[0]) == ["QUEUE", "STATE", "SHARE", "RUNNING", "WAITING", "IN USE", "GUARANTEED", "LIMIT"]
    assert cells(lines[2]) == ["vision", "served", "12.5 %", "1", "2", "16 h100", "16 h100", "64 h100"]
    assert lines[2].startswith("  vision"), "a queue stands below its parent"
    assert lines[4].startswith("broken: spec.parent: there is no BatchQueue 'nobody'")
    (big,) = (cells(line) for line in lines if line.startswith("job/lab/big"))
    assert big[:8] == ["job/lab/big", "vision", "1", "16 h100 in 2 pods", "waiting", "10 min", "20 min", "50 min"]
    (after,) = (cells(line) for line in lines if line.startswith("job/lab/next"))
    assert after[6:8] == ["?", "?"], "nothing that is known lets it start"
    assert cells(lines[-1]) == ["h100", "24", "0", "8", "8", "8", "4", "4", "8"]


def test_one_queue_alone_with_those_below_it(cluster: Plane) -> None:
    told = json.loads(asked(cluster, "queue", "research", "--json")[1])
    assert [row["queue"] for row in told["queues"]] == ["research", "vision"]
    assert len(told["gangs"]) == 5
    told = json.loads(asked(cluster, "queue", "broken", "--json")[1])
    assert told["gangs"] == []
    assert asked(cluster, "queue", "nobody") == (
        1, "", "error: there is no BatchQueue 'nobody'; `headroom queue` lists those there are\n",
    )  # fmt: skip


def test_where_nothing_is_carried_out_that_comes_first(cluster: Plane) -> None:
    book = cluster.controller.batch
    assert isinstance(book, Book)
    book.look = replace(TOLD, acting=False, idle_reason="the default mode is Shadow")
    assert asked(cluster, "queue")[1].startswith("ONLY TOLD: the default mode is Shadow\nQUEUE")
    book.look = BatchTold(0.0, acting=False, idle_reason="there is no BatchQueue")
    assert asked(cluster, "queue")[1].splitlines() == [
        "ONLY TOLD: there is no BatchQueue", "no BatchQueue yet; config/samples/batchqueue.yaml is one",
    ]  # fmt: skip


def test_a_kind_that_cannot_be_read_is_said_and_the_queues_all_the_same(cluster: Plane) -> None:
    book = cluster.controller.batch
    assert isinstance(book, Book)
    book.look = replace(TOLD, remarks=("JobSets are not followed: 500",))
    lines = asked(cluster, "queue")[1].splitlines()
    assert lines[0] == "JobSets are not followed: 500"
    assert lines[1].startswith("QUEUE")


def test_a_gang_and_a_queue_are_explained(cluster: Plane) -> None:
    for name in ("job/big", "job/lab/big"):
        code, out, _ = asked(cluster, "explain", name)
        assert code == 0
        assert "would start with: 8 more free units of h100" in out
    assert "below research, weight 2" in asked(cluster, "explain", "batchqueue/vision")[1]
    told = json.loads(asked(cluster, "explain", "job/big", "--json")[1])
    assert told["gang"]["name"] == BIG.name


def test_what_is_not_there_is_said_in_the_controllers_words(cluster: Plane) -> None:
    code, out, err = asked(cluster, "explain", "job/nobody")
    assert (code, out) == (1, "")
    assert err == (
        "error: job/nobody is no batch work that a BatchQueue is named by, or it has ended; "
        "`headroom queue` (/api/batch) lists what is; "
        "if a workload in namespace job is meant, add --kind workload\n"
    )
    code, _, err = asked(cluster, "explain", "job/lab/nobody")
    assert (code, "--kind" in err) == (1, False), "no workload is named like that"


def test_a_namespace_called_like_a_kind_of_work_is_meant_where_that_is_said(cluster: Plane) -> None:
    cluster.controller.workloads = {"job/big": CHAT}
    cluster.controller.board.stepped(step(100.0, workload="job/big"), AIM, 100.2)
    assert "would start with: 8 more free units" in asked(cluster, "explain", "job/big")[1]
    code, out, _ = asked(cluster, "explain", "job/big", "--kind", "workload")
    assert (code, "job/big" in out, "would start with" in out) == (0, True, False)
    for kind, name in (("job", "big"), ("job", "lab/big"), ("batchqueue", "vision")):
        assert asked(cluster, "explain", name, "--kind", kind)[0] == 0


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("big", "node", "error: --kind 'node': give one of workload, warmpool, batchqueue, job"),
        ("big", "workload", "error: big: --kind workload takes NAMESPACE/NAME"),
        ("lab/chat", "warmpool", "error: lab/chat: --kind warmpool takes NAME"),
        ("a/b/c", "job", "error: a/b/c: --kind job takes NAMESPACE/NAME or NAME"),
    ],
)
def test_a_kind_that_cannot_be_is_refused_with_what_can(cluster: Plane, name: str, kind: str, words: str) -> None:
    code, out, err = asked(cluster, "explain", name, "--kind", kind)
    assert (code, out, err.startswith(words)) == (2, "", True)
