"""The leader's snapshot on its way to a follower: whole, kept while nobody answers, and with its age."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from autoscaler.adapters.web.peer import peers
from autoscaler.app import snapshots
from autoscaler.app.snapshots import PATH, Fetched, Kept, left
from autoscaler.ports import Fault
from autoscaler.runtime.clock import WallClock

LEARNT: dict[str, dict[str, Any]] = {"prod/chat": {"version": 3, "columns": {"rps": [2.5]}}}


class Leader:
    """A driver that has learnt something, and its page of it."""

    def __init__(self) -> None:
        self.kept = Kept(self, WallClock())  # type: ignore[arg-type] # all of a driver that is asked for
        self.says: bytes | None = None
        """In place of the snapshot."""
        self.status = 200

    async def snapshot(self) -> dict[str, dict[str, Any]]:
        return LEARNT

    async def answer(self, _: web.Request) -> web.Response:
        return web.Response(body=self.says or self.kept.bytes or b"", status=self.status)


async def until(holds: Any) -> None:
    async with asyncio.timeout(5.0):
        while not holds():  # noqa: ASYNC110 # what is waited for has no event
            await asyncio.sleep(0.002)


async def test_a_follower_holds_what_the_leader_learnt_and_keeps_it_through_any_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "EVERY_S", 0.01)
    leader, app = Leader(), web.Application()
    app.router.add_get(PATH, leader.answer)
    async with TestServer(app, shutdown_timeout=0.0) as server, peers() as others, asyncio.TaskGroup() as group:
        address = ""
        fetched = Fetched(others, WallClock(), lambda: address)
        works = [group.create_task(leader.kept.run()), group.create_task(fetched.run())]
        await asyncio.sleep(0.05)
        assert (fetched.age_s, fetched.error, fetched.checkpoints) == (None, None, {}), "nobody leads, nobody asked"
        address = f"127.0.0.1:{server.port}"
        await until(lambda: fetched.checkpoints == LEARNT)
        for body, status, fault in (
            (b'["not a snapshot"]', 200, Fault.INVALID),
            (b"<html>", 200, Fault.INVALID),
            (b'{"prod/\xe4": {}}', 200, Fault.INVALID),
            (b'{"error": "this replica does not lead"}', 503, Fault.UNAVAILABLE),
        ):
            leader.says, leader.status = body, status
            await until(lambda fault=fault: fetched.error is not None and fetched.error.fault is fault)
            aged_s = fetched.age_s
            assert aged_s is not None
            assert fetched.checkpoints == LEARNT, "an older one is better than none"
            leader.says, leader.status = None, 200
            await until(lambda: fetched.error is None)
            assert fetched.age_s is not None
            assert fetched.age_s < aged_s + 1.0
        for work in works:
            work.cancel()


@pytest.mark.parametrize(
    ("workloads", "lease", "words"),
    [
        (2, "blue", "checkpoints of 2 workloads, which go on from there"),
        (
            0,
            "headroom",
            "no checkpoints were read (ConfigMaps headroom-checkpoint-...): what was learnt of workloads begins afresh",
        ),
        (0, "blue", "a version that called them headroom-checkpoint-... for every lease left its own there"),
    ],
    ids=["it goes on", "the first leader", "another lease's name, after an upgrade"],
)
def test_who_begins_to_lead_says_what_was_left_and_where_it_was_looked_for(
    workloads: int, lease: str, words: str
) -> None:
    assert left(workloads, lease).endswith(words)
