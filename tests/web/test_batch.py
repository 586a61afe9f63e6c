"""Batch work over HTTP: rows, one queue, one gang, metrics; and who is told what to ask instead."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp.test_utils import TestClient, TestServer

from autoscaler.adapters.web.live import live_application
from tests.record.batches import BIG, TOLD, Book
from tests.web.test_live import FOLLOWING, HOSTS, Client, Controller, asked, refused


@pytest.fixture
def controller() -> Controller:
    return Controller(batch=Book())


@pytest.fixture
async def client(controller: Controller) -> AsyncIterator[Client]:
    async with TestClient(TestServer(live_application(controller.facts(), controller.hub, HOSTS))) as made:
        yield made


async def test_queues_and_gangs_are_told_as_rows(client: Client) -> None:
    told = await asked(client, "/api/batch")
    assert [(row["queue"], row["state"]) for row in told["queues"]][2] == ("broken", "not served")
    big = next(row for row in told["gangs"] if row["gang"] == "job/lab/big")
    assert (big["position"], big["wait_p50_s"], big["changes"]) == (1, 1200, ["8 more free units of h100"])
    assert told["waiting"][0] == {"reason": "ROOM", "means": "not enough free units", "gangs": 1}


@pytest.mark.parametrize("path", ["job/big", "job/lab/big"])
async def test_one_gang_is_explained(client: Client, path: str) -> None:
    told = await asked(client, f"/api/batch/gangs/{path}")
    assert told["gang"]["units"] == [["h100", 16]]
    assert "would start with: 8 more free units of h100" in told["explained"]


async def test_one_queue_is_explained(client: Client) -> None:
    told = await asked(client, "/api/batch/queues/vision")
    assert told["queue"]["weight"] == 2
    assert "below research, weight 2" in told["explained"]


async def test_its_metrics_stand_beside_the_others(client: Client) -> None:
    page = await (await client.get("/metrics")).text()
    assert 'headroom_batch_waiting_gangs{reason="QUOTA"} 1.0' in page
    assert 'headroom_batch_evicted_gangs_total{reason="RECALLED"} 1.0' in page


REFUSED = {
    "a queue that is not there": (
        "queues/nobody",
        404,
        "there is no BatchQueue 'nobody'; `headroom queue` (/api/batch) lists",
    ),
    "a gang that is not there": ("gangs/job/nobody", 404, "job/nobody is no batch work that a BatchQueue is named by"),
    "a gang of another namespace": ("gangs/job/other/big", 404, "job/other/big is no batch work"),
    "a kind that is none": ("gangs/cronjob/big", 404, "cronjob/big is no batch work"),
}


@pytest.mark.parametrize(("path", "status", "words"), REFUSED.values(), ids=REFUSED)
async def test_what_is_not_there_is_said_with_what_to_ask(client: Client, path: str, status: int, words: str) -> None:
    assert (await refused(client, f"/api/batch/{path}", status))["error"].startswith(words)


async def test_a_name_of_two_namespaces_is_asked_for_by_both(controller: Controller, client: Client) -> None:
    assert isinstance(controller.batch, Book)
    controller.batch.look = replace(TOLD, gangs=(BIG, replace(BIG, namespace="other")))
    told = await refused(client, "/api/batch/gangs/job/big", 409)
    assert told["error"] == "job/big stands in 2 namespaces; ask for one of job/lab/big, job/other/big"


async def test_before_the_first_look_and_off_the_lead_nothing_is_made_up(
    controller: Controller, client: Client
) -> None:
    assert isinstance(controller.batch, Book)
    controller.batch.look = None
    assert "not looked at yet" in (await refused(client, "/api/batch", 503))["error"]
    assert "headroom_batch" not in await (await client.get("/metrics")).text()
    controller.process = FOLLOWING
    assert "does not lead" in (await refused(client, "/api/batch", 503))["error"]


async def test_where_batch_work_is_not_admitted_it_is_said_how_it_would_be() -> None:
    made = Controller()
    async with TestClient(TestServer(live_application(made.facts(), made.hub, HOSTS))) as client:
        told = await refused(client, "/api/batch", 404)
    assert told["error"] == "batch work is not admitted here; set batch.enabled, and give the rights for it"
