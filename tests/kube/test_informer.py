"""The cache follows the server through everything it may do, ends with what the server has, and told every change."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.adapters.kube.informer import Change, Informer, InformerTimes, Resource
from autoscaler.adapters.kube.objects import Pod
from autoscaler.adapters.kube.retry import BackoffBounds
from autoscaler.ports import Clock, Fault
from autoscaler.runtime.clock import ScaledClock, WallClock
from tests.kube.clients import client, until
from tests.kube.fakeserver import PODS, Connection, FakeServer, Handler, Request, answer, hang, hang_up, lines, status

QUICK = InformerTimes(page_s=0.2, idle_s=0.2, absent_s=0.05, backoff=BackoffBounds(0.001, 0.01, 0.01))
"""Waits for a test that runs in real time."""


@dataclass
class Seen:
    """An informer at work, and what it told."""

    server: FakeServer
    pods: Informer[Pod]
    changes: list[Change[Pod]]
    task: asyncio.Task[None]

    def told(self) -> list[str]:
        """Every change as ``+name``, ``~name`` or ``-name``."""
        return [f"{'+' if c.old is None else '-' if c.new is None else '~'}{c.key[5:]}" for c in self.changes]

    def current(self) -> bool:
        """The informer holds what the server has."""
        return held(self.pods.items) == truth(self.server)

    def queries(self, *, watches: bool) -> list[dict[str, str]]:
        return [request.query for request in self.server.requests if request.watches is watches]


def held(pods: Any) -> dict[str, tuple[str, str]]:
    return {key: (pod.metadata.uid, pod.metadata.resource_version) for key, pod in pods.items()}


def truth(server: FakeServer) -> dict[str, tuple[str, str]]:
    shown = server.objects[PODS]
    return {key: (pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]) for key, pod in shown.items()}


@asynccontextmanager
async def following(
    server: FakeServer, *, times: InformerTimes = QUICK, clock: Clock | None = None, seed: int = 1, **resource: str
) -> AsyncIterator[Seen]:
    """An informer of the server's pods, stopped when the block ends."""
    clock = clock or WallClock()
    changes: list[Change[Pod]] = []
    async with client(server.url, clock=clock) as api, asyncio.TaskGroup() as group:
        rng = np.random.default_rng(seed)
        pods = Informer(api, Resource(PODS, Pod, **resource), clock, changes.append, times=times, rng=rng)
        task = group.create_task(pods.run())
        try:
            yield Seen(server, pods, changes, task)
        finally:
            task.cancel()


async def test_what_is_there_is_told_first_and_then_every_change_in_order() -> None:
    async with FakeServer() as server:
        server.put("a")
        server.put("b", status={"phase": "Running", "podIP": "10.0.0.7"})
        async with following(server) as seen:
            assert not seen.pods.synced
            assert seen.pods.staleness_s() == math.inf
            await seen.pods.wait_synced()
            assert seen.pods.items["prod/b"].status.pod_ip == "10.0.0.7"
            server.put("a", status={"phase": "Running"})
            server.put("c")
            server.delete("b")
            await until(seen.current)
            await until(lambda: len(seen.changes) == 5)
    assert seen.told() == ["+a", "+b", "~a", "+c", "-b"]
    old, new = seen.changes[2].old, seen.changes[2].new
    assert old is not None
    assert new is not None
    assert (old.status.phase, new.status.phase) == ("", "Running")
    assert (seen.pods.error, seen.pods.lists, seen.pods.absent) == (None, 1, False)
    assert seen.pods.staleness_s() < 1.0


async def test_items_are_a_view_that_nobody_can_change() -> None:
    async with FakeServer() as server, following(server) as seen:
        with pytest.raises(TypeError):
            seen.pods.items["prod/x"] = Pod()  # type: ignore[index]


async def test_a_long_list_is_read_in_pages_of_one_snapshot() -> None:
    async with FakeServer() as server:
        for number in range(1203):
            server.put(f"p{number:04}")
        async with following(server, label_selector="app in (a,b)", field_selector="spec.nodeName=n") as seen:
            await until(lambda: server.count(watches=True))
            assert len(seen.pods.items) == 1203
            lists, watches = seen.queries(watches=False), seen.queries(watches=True)
    assert [query["limit"] for query in lists] == ["500", "500", "500"]
    assert ["continue" in query for query in lists] == [False, True, True]
    for query in [*lists, *watches]:
        assert (query["labelSelector"], query["fieldSelector"]) == ("app in (a,b)", "spec.nodeName=n")
    assert watches[0]["allowWatchBookmarks"] == "true"
    assert watches[0]["resourceVersion"] == "1213"


async def test_a_page_that_has_expired_is_made_up_for_by_one_list_of_everything() -> None:
    async with FakeServer() as server:
        for number in range(600):
            server.put(f"p{number:04}")
        async with following(server) as seen:
            await until(lambda: server.requests)
            server.forget()
            server.delete("p0001")
            await seen.pods.wait_synced()
            await until(seen.current)
            await until(lambda: server.count(watches=True))
            lists = seen.queries(watches=False)
    assert len(lists) == 3
    assert "limit" not in lists[2]
    assert seen.pods.lists == 1


async def test_watches_are_asked_to_end_at_different_times() -> None:
    async with FakeServer() as server:
        server.ends_watches = True
        async with following(server) as seen:
            await until(lambda: server.count(watches=True) >= 8)
            asked_s = [int(query["timeoutSeconds"]) for query in seen.queries(watches=True)]
    assert all(240 <= seconds <= 480 for seconds in asked_s)
    assert len(set(asked_s)) > 4


async def test_after_a_cut_the_watch_goes_on_where_it_was_without_a_list() -> None:
    async with FakeServer() as server:
        server.put("a")
        async with following(server) as seen:
            await until(lambda: server.count(watches=True) == 1)
            server.raw(b'{"type":"ADDED","object":{"metadata":{"na')
            server.cut()
            server.put("b")
            await until(seen.current)
            assert seen.pods.error is None
    assert seen.told() == ["+a", "+b"]
    assert seen.pods.lists == 1


async def test_a_bookmark_saves_the_list_that_an_old_version_would_cost() -> None:
    async with FakeServer() as server:
        server.put("a")
        async with following(server) as seen:
            await until(lambda: server.count(watches=True) == 1)
            server.forget()
            server.bookmark()
            await asyncio.sleep(0.02)
            server.cut()
            await until(lambda: server.count(watches=True) == 2)
            server.put("b")
            await until(seen.current)
            watches = seen.queries(watches=True)
    assert seen.pods.lists == 1
    assert int(watches[1]["resourceVersion"]) == int(watches[0]["resourceVersion"]) + 1


@pytest.mark.parametrize("gone_as_status", [False, True], ids=["told in the stream", "told as a status"])
async def test_a_version_that_is_gone_costs_a_list_that_finds_what_was_missed(gone_as_status: bool) -> None:
    async with FakeServer(gone_as_status=gone_as_status) as server:
        for name in ("kept", "deleted", "made-again", "changed"):
            server.put(name)
        async with following(server) as seen:
            await until(lambda: server.count(watches=True) == 1)
            before = dict(seen.pods.items)
            server.frozen = True
            server.cut()
            server.delete("deleted")
            server.put("made-again", uid="another")
            server.put("changed")
            server.put("new")
            server.forget()
            server.frozen = False
            await until(lambda: seen.pods.lists == 2)
            assert seen.current()
            await until(lambda: seen.pods.error is None)
    assert sorted(seen.told()[4:]) == ["+made-again", "+new", "-deleted", "-made-again", "~changed"]
    again = [change for change in seen.changes[4:] if change.key == "prod/made-again"]
    assert again[0].old is before["prod/made-again"]
    assert again[0].new is None
    assert again[1].new is not None
    assert again[1].new.metadata.uid == "another"
    assert seen.pods.items["prod/kept"] is before["prod/kept"]


async def test_a_watch_that_expires_while_it_is_open_costs_a_list() -> None:
    async with FakeServer() as server, following(server) as seen:
        await until(lambda: server.count(watches=True) == 1)
        server.expire()
        await until(lambda: seen.pods.lists == 2)
        server.put("a")
        await until(seen.current)
        assert seen.told() == ["+a"]
        assert server.count(watches=False) == 2, "one list for what was missed, and no more"


async def test_an_object_made_again_within_a_watch_is_a_deletion_and_an_addition() -> None:
    async with FakeServer() as server:
        server.put("a", uid="one")
        async with following(server) as seen:
            await until(lambda: server.count(watches=True) == 1)
            server.raw(
                b'{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"prod","uid":"two",'
                b'"resourceVersion":"99"}}}\n'
            )
            await until(lambda: len(seen.changes) == 3)
    assert seen.told() == ["+a", "-a", "+a"]


async def test_an_event_of_five_megabytes_is_an_event() -> None:
    async with FakeServer() as server, following(server) as seen:
        await until(lambda: server.count(watches=True) == 1)
        server.put("fat", metadata={"annotations": {"blob": "x" * 5_000_000}})
        server.put("thin")
        await until(seen.current)
        assert seen.pods.large["prod/fat"] > 5_000_000
        assert seen.pods.items["prod/fat"].metadata.annotations == {}, "read, and not held"
    assert (seen.pods.lists, seen.pods.error) == (1, None)


@pytest.mark.parametrize("mended", ["smaller", "deleted"])
async def test_an_object_of_megabytes_is_named_until_it_is_smaller_or_gone(mended: str) -> None:
    async with FakeServer() as server, following(server) as seen:
        await until(lambda: server.count(watches=True) == 1)
        server.put("fat", metadata={"annotations": {"blob": "x" * 2_000_000}})
        server.put("thin")
        await until(seen.current)
        assert set(seen.pods.large) == {"prod/fat"}
        assert seen.pods.large["prod/fat"] > 2_000_000
        if mended == "smaller":
            server.put("fat", metadata={"annotations": {}})
        else:
            server.delete("fat")
        await until(seen.current)
        assert not seen.pods.large


async def test_one_of_megabytes_that_takes_the_place_of_another_is_named_too() -> None:
    async with FakeServer() as server, following(server) as seen:
        server.put("fat")
        await until(seen.current)
        server.objects[PODS].clear()
        server.put("fat", uid="another", metadata={"annotations": {"blob": "x" * 2_000_000}})
        await until(seen.current)
        assert set(seen.pods.large) == {"prod/fat"}


def listing(handler: Handler) -> Handler:
    """Makes every watch cost a list, which `handler` answers."""
    gone = status(410, "Expired", "too old")

    async def handle(request: Request, connection: Connection) -> None:
        await (gone if request.watches else handler)(request, connection)

    return handle


PERSISTENT = {
    "closes watches at once": (None, Fault.UNAVAILABLE, "the watch was ended after"),
    "knows no version": (lines(b'{"type":"ERROR","object":{"code":410,"message":"old"}}\n'), None, ""),
    "calls everything gone": (status(410, "Expired", "too old"), Fault.INVALID, "too old"),
    "forbids": (status(403, "Forbidden", "may not list pods"), Fault.DENIED, "may not list pods"),
    "does not know the token": (status(401, "Unauthorized", "Unauthorized"), Fault.DENIED, "401"),
    "answers with a web page": (answer(500, b"<html>", Content_Type="text/html"), Fault.UNAVAILABLE, "an HTML page"),
    "answers 200 with a web page": (listing(answer(200, b"<html>")), Fault.INVALID, "an HTML page"),
    "answers no list": (listing(answer(200, {"status": "ok"})), Fault.INVALID, "no list of objects"),
    "answers a list of no version": (listing(answer(200, {"metadata": {}, "items": []})), Fault.INVALID, "no list"),
    "answers half a list": (listing(answer(200, b'{"metadata":{},"items":[')), Fault.INVALID, "no list"),
    "hangs up": (hang_up, Fault.UNAVAILABLE, "disconnected"),
    "sends half a line": (lines(b'{"type":"ADDED","obj'), None, ""),
    "sends broken lines": (lines(b'{"type":"ADDED","obj\n'), None, ""),
    "is too busy": (status(429, "TooManyRequests", "slow down", Retry_After="1"), Fault.UNAVAILABLE, "slow down"),
}  # fmt: skip


@pytest.mark.parametrize(("handler", "fault", "words"), PERSISTENT.values(), ids=PERSISTENT)
async def test_trouble_that_stays_is_shown_and_not_asked_for_in_a_busy_loop(handler, fault, words) -> None:
    async with FakeServer() as server:
        server.put("a")
        clock = ScaledClock(200.0)
        async with following(server, clock=clock, times=InformerTimes()) as seen:
            await until(lambda: server.count(watches=True) == 1)
            server.ends_watches = True
            server.always = handler
            asked, began_s = len(server.requests), clock.now()
            server.end_watches()
            await until(lambda: seen.pods.error is not None and clock.now() > began_s + 60.0)
            spent = len(server.requests) - asked
            error = seen.pods.error
            assert 4 <= spent <= 40, f"{spent} requests in a minute"
            assert error is not None
            assert fault in {None, error.fault}
            assert words in str(error)
            assert dict(seen.pods.items).keys() == {"prod/a"}
            assert seen.pods.staleness_s() < 130.0
            server.always, server.ends_watches = None, False
            server.put("b")
            await until(seen.current)
            await until(lambda: seen.pods.error is None)
    assert seen.told() == ["+a", "+b"]


async def test_watches_that_break_before_they_show_anything_are_no_news() -> None:
    """They are opened, so the server is there; what has changed meanwhile is not known."""
    async with FakeServer() as server:
        clock = ScaledClock(200.0)
        lasting_s = 300.0  # 1.5 s of this clock
        often = InformerTimes(lasting_s=lasting_s, caught_up_s=lasting_s, backoff=BackoffBounds(cap_s=4.0))
        async with following(server, clock=clock, times=often) as seen:
            await until(lambda: server.count(watches=True) == 1)
            server.always = lines(b'{"type":"ADDED","obj', then="cut")
            began_s = clock.now()
            server.end_watches()
            await until(lambda: clock.now() > began_s + 60.0)
            assert server.count(watches=True) > 5
            assert seen.pods.cut_off_s() > 50.0
            server.always = None
            await until(lambda: seen.pods.cut_off_s() == 0.0)


async def test_a_watch_that_lasted_is_opened_again_at_once() -> None:
    async with FakeServer() as server:
        slow = InformerTimes(lasting_s=0.0, backoff=BackoffBounds(30.0, 30.0))
        async with following(server, times=slow) as seen:
            await until(lambda: server.count(watches=True) == 1)
            server.end_watches()
            await until(lambda: server.count(watches=True) == 2)
            server.end_watches()
            await until(lambda: server.count(watches=True) == 3)
    assert seen.pods.error is None
    assert seen.pods.lists == 1


@pytest.mark.parametrize("how", ["cut", "silent"])
async def test_a_good_watch_that_breaks_is_opened_again_at_once_and_is_no_trouble(how: str) -> None:
    async with FakeServer() as server:
        patient = replace(QUICK, idle_s=0.05, lasting_s=0.01, backoff=BackoffBounds(30.0, 30.0))
        async with following(server, times=patient) as seen:

            def opened(watches: int) -> bool:
                assert seen.pods.error is None
                return server.count(watches=True) >= watches

            for nth in range(1, 4):
                await until(partial(opened, nth))
                await asyncio.sleep(0.02)
                if how == "cut":
                    server.cut()
            await until(partial(opened, 4))
            server.put("a")
            await until(seen.current)
    assert seen.pods.lists == 1


@asynccontextmanager
async def after_a_good_watch(server: FakeServer) -> AsyncIterator[Seen]:
    """An informer whose watch has lasted, and which would wait half a minute after a failure."""
    times = replace(QUICK, idle_s=0.1, lasting_s=0.01, backoff=BackoffBounds(30.0, 30.0))
    async with following(server, times=times) as seen:
        await until(lambda: server.count(watches=True) == 1)
        await asyncio.sleep(0.02)
        yield seen


def freeze(server: FakeServer, seen: Seen) -> None:
    server.frozen = True
    server.cut()


def refuse(server: FakeServer, seen: Seen) -> None:
    server.always = status(503, "ServiceUnavailable", "starting")
    server.end_watches()


def close(server: FakeServer, seen: Seen) -> None:
    server.ends_watches = True
    server.end_watches()


def refuse_a_list(server: FakeServer, seen: Seen) -> None:
    server.always = status(503, "ServiceUnavailable", "starting")
    seen.pods.relist()


@pytest.mark.parametrize("fail", [freeze, refuse, close, refuse_a_list])
async def test_the_first_failure_after_a_good_watch_is_shown_and_waits(
    fail: Callable[[FakeServer, Seen], None],
) -> None:
    async with FakeServer() as server, after_a_good_watch(server) as seen:
        fail(server, seen)
        await until(lambda: seen.pods.error)
        asked = len(server.requests)
        await asyncio.sleep(0.15)
        assert len(server.requests) == asked


@pytest.mark.parametrize("end", [FakeServer.cut, FakeServer.end_watches])
async def test_an_old_version_costs_a_list_but_no_wait(end: Callable[[FakeServer], None]) -> None:
    async with FakeServer() as server, after_a_good_watch(server) as seen:
        server.forget()
        end(server)
        await until(lambda: seen.pods.lists == 2)
        assert seen.pods.error is None
        assert seen.pods.staleness_s() < 2.0, "and not the half a minute that a failure would have to wait"


async def test_after_a_good_watch_waits_begin_at_the_floor_again() -> None:
    async with FakeServer() as server:
        server.script.extend([status(503, "ServiceUnavailable", "starting")] * 4)
        async with following(server, times=replace(QUICK, lasting_s=0.01)) as seen:
            await until(lambda: server.count(watches=True) == 1)
            assert seen.pods._backoff._upper_s == QUICK.backoff.cap_s
            await asyncio.sleep(0.02)
            server.end_watches()
            await until(lambda: server.count(watches=True) == 2)
            assert seen.pods._backoff._upper_s == QUICK.backoff.floor_s


async def test_a_list_that_is_asked_for_is_tried_until_it_succeeds() -> None:
    async with FakeServer() as server, following(server) as seen:
        await until(lambda: server.count(watches=True) == 1)
        server.script.extend([status(503, "ServiceUnavailable", "starting")] * 3)
        seen.pods.relist()
        await until(lambda: seen.pods.lists == 2)
        assert server.count(watches=False) == 1 + 3 + 1, "the first, three that were refused, and the one that counts"


async def test_what_the_server_asks_for_is_waited_for() -> None:
    async with FakeServer() as server:
        server.script.append(status(429, "TooManyRequests", "later", Retry_After="20"))
        clock = ScaledClock(100.0)
        async with following(server, clock=clock, times=InformerTimes()) as seen:
            began_s = clock.now()
            await seen.pods.wait_synced()
            assert clock.now() >= began_s + 20.0


async def test_a_frozen_server_is_noticed_and_its_return_too() -> None:
    async with FakeServer() as server:
        server.put("a")
        async with following(server) as seen:
            await until(lambda: server.count(watches=True) == 1)
            server.frozen = True
            await until(lambda: seen.pods.error is not None)
            error = seen.pods.error
            assert error is not None
            assert error.fault is Fault.TIMEOUT
            assert seen.pods.staleness_s() >= 0.2
            assert "prod/a" in seen.pods.items
            server.delete("a")
            server.put("b")
            server.frozen = False
            await until(seen.current)
            await until(lambda: seen.pods.error is None)


async def test_a_server_that_freezes_before_the_first_list_keeps_nobody_waiting_for_ever() -> None:
    async with FakeServer() as server:
        server.always = hang
        async with following(server) as seen:
            await until(lambda: seen.pods.error is not None)
            assert (seen.pods.synced, seen.pods.staleness_s()) == (False, math.inf)
            server.always = None
            await seen.pods.wait_synced()


async def test_an_object_that_cannot_be_read_is_named_and_hides_no_other() -> None:
    async with FakeServer() as server:
        server.put("good")
        server.put("bad", spec={"containers": "none"})
        async with following(server) as seen:
            await until(lambda: server.count(watches=True) == 1)
            assert seen.pods.items.keys() == {"prod/good"}
            assert seen.pods.synced
            error = seen.pods.error
            assert error is not None
            assert error.fault is Fault.INVALID
            assert "prod/bad cannot be read: Expected `array`, got `str` - at `$.spec.containers`" in str(error)
            server.put("worse", metadata={"labels": []})
            server.put("third")
            await until(lambda: "prod/third" in seen.pods.items)
            assert "prod/bad cannot be read" in str(seen.pods.error)
            assert str(seen.pods.error).endswith("; and 1 more")
            server.put("bad", spec={})
            server.delete("worse")
            await until(lambda: seen.pods.error is None)
            assert seen.current()
    assert (seen.pods.lists, server.count(watches=True)) == (1, 1)


async def test_of_an_object_that_can_no_longer_be_read_the_last_version_stays_until_it_is_gone() -> None:
    async with FakeServer() as server:
        server.put("a", uid="one")
        async with following(server) as seen:
            await until(lambda: server.count(watches=True) == 1)
            before = seen.pods.items["prod/a"]
            server.put("a", status=7)
            await until(lambda: seen.pods.error)
            assert seen.pods.items["prod/a"] is before
            seen.pods.relist()
            await until(lambda: seen.pods.lists == 2)
            assert seen.pods.items["prod/a"] is before
            server.put("a", uid="two", status=7)
            await until(lambda: not seen.pods.items)
            server.delete("a")
            await until(lambda: seen.pods.error is None)
    assert seen.told() == ["+a", "-a"]


async def test_a_resource_that_is_not_served_is_absent_until_it_is() -> None:
    async with FakeServer() as server:
        pods = server.objects.pop(PODS)
        async with following(server) as seen:
            await seen.pods.wait_synced()
            assert (seen.pods.absent, seen.pods.error, dict(seen.pods.items)) == (True, None, {})
            server.objects[PODS] = pods
            server.put("a")
            await until(seen.current)
            assert not seen.pods.absent


async def test_an_absent_resource_is_looked_for_twice_a_minute() -> None:
    async with FakeServer() as server:
        del server.objects[PODS]
        clock = ScaledClock(200.0)
        async with following(server, clock=clock, times=InformerTimes()) as seen:
            await until(lambda: clock.now() > 100.0)
            assert seen.pods.absent
            assert len(server.requests) == 4


async def test_what_was_served_is_not_taken_for_gone_at_the_first_404() -> None:
    async with FakeServer() as server:
        server.put("a")
        async with following(server, times=replace(QUICK, absent_s=0.1)) as seen:
            await until(lambda: server.count(watches=True) == 1)
            pods = server.objects.pop(PODS)
            server.cut()
            await until(lambda: seen.pods.error is not None and seen.pods.error.status == 404)
            assert (seen.pods.absent, seen.told()) == (False, ["+a"])
            server.objects[PODS] = pods
            await until(lambda: seen.pods.error is None)
            assert seen.told() == ["+a"]
            del server.objects[PODS]
            server.cut()
            await until(lambda: seen.pods.absent)
            assert (seen.told(), seen.pods.error) == (["+a", "-a"], None)


async def test_only_an_unbroken_row_of_404s_makes_a_resource_absent() -> None:
    async with FakeServer() as server:
        server.put("a")
        async with following(server, times=replace(QUICK, absent_s=0.1)) as seen:

            def last_status() -> int | None:
                return seen.pods.error.status if seen.pods.error else None

            await until(lambda: server.count(watches=True) == 1)
            del server.objects[PODS]
            server.cut()
            await until(lambda: last_status() == 404)
            server.always = status(503, "ServiceUnavailable", "starting")
            await until(lambda: last_status() == 503)
            await asyncio.sleep(0.1)
            server.always = None
            await until(lambda: last_status() == 404)
            assert not seen.pods.absent
            await until(lambda: seen.pods.absent)


async def test_a_list_that_is_asked_for_does_not_wait_for_the_end_of_the_watch() -> None:
    async with FakeServer() as server, following(server, times=replace(QUICK, idle_s=30.0)) as seen:
        await until(lambda: server.count(watches=True) == 1)
        seen.pods.relist()
        await until(lambda: seen.pods.lists == 2)
        await until(lambda: server.count(watches=True) == 2)
        assert [request.watches for request in server.requests] == [False, True, False, True]


async def test_a_list_that_is_asked_for_begins_after_it_was_asked_for() -> None:
    async with FakeServer() as server:
        server.put("a")
        async with following(server) as seen:
            await until(lambda: server.count(watches=True) == 1)
            server.frozen = True
            seen.pods.relist()
            await asyncio.sleep(0.01)
            server.put("b")
            seen.pods.relist()
            assert seen.pods.lists == 1
            server.frozen = False
            await until(lambda: seen.pods.lists == 2)
            assert seen.current()


async def test_a_list_that_was_under_way_does_not_count() -> None:
    async with FakeServer() as server:
        for number in range(1100):
            server.put(f"p{number:04}")
        server.script.extend([server.honest, hang])
        async with following(server) as seen:
            await until(lambda: len(server.requests) == 2)
            seen.pods.relist()
            seen.pods.relist()
            await until(lambda: server.count(watches=True) == 1)
            assert seen.pods.lists == 1
            assert server.count(watches=False) == 5
            assert len(seen.changes) == 1100


async def test_a_list_that_was_read_when_another_was_asked_for_does_not_count() -> None:
    async with FakeServer() as server, client(server.url) as api, asyncio.TaskGroup() as group:
        server.put("a")
        pods = Informer(api, Resource(PODS, Pod), WallClock(), lambda _: pods.relist(), times=QUICK)
        task = group.create_task(pods.run())
        await until(lambda: pods.lists)
        assert (pods.lists, server.count(watches=False)) == (1, 2)
        task.cancel()


async def test_a_list_that_is_asked_for_does_not_wait_for_the_back_off() -> None:
    async with FakeServer() as server:
        server.always = status(503, "ServiceUnavailable", "soon")
        slow = replace(QUICK, backoff=BackoffBounds(30.0, 30.0))
        async with following(server, times=slow) as seen:
            await until(lambda: seen.pods.error is not None)
            server.always = None
            seen.pods.relist()
            await until(lambda: seen.pods.lists == 1)
            assert seen.pods.error is None
            assert server.count(watches=False) == 2, "asked at once, and not again and again"


async def test_a_listener_that_fails_is_not_taken_for_the_server() -> None:
    def broken(change: Change[Pod]) -> None:
        raise TimeoutError("mine")

    async with FakeServer() as server, client(server.url) as api:
        server.put("a")
        pods = Informer(api, Resource(PODS, Pod), WallClock(), broken, times=QUICK)
        with pytest.raises(TimeoutError, match="mine"):
            await pods.run()


@dataclass
class _Replay:
    """What a listener knows that has seen only the changes."""

    pods: dict[str, Pod] = field(default_factory=dict)

    def take(self, change: Change[Pod]) -> None:
        assert self.pods.get(change.key) is change.old, "a change begins where the last one ended"
        if change.old is not None and change.new is not None:
            assert change.old.metadata.uid == change.new.metadata.uid, "another object is never a mere change"
        if change.new is None:
            del self.pods[change.key]
        else:
            self.pods[change.key] = change.new


NAMES = st.sampled_from("abcd")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "put", "remake", "delete", "spoil"]), NAMES),
        st.tuples(st.sampled_from(["forget", "cut", "end", "expire", "half", "bookmark", "relist", "wait", "500"])),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(steps=STEPS, paged=st.booleans())
def test_whatever_happens_the_informer_ends_with_the_servers_truth_and_told_all_of_it(steps, paged: bool) -> None:
    asyncio.run(_play(steps, paged=paged))


async def _play(steps: list[tuple[str, ...]], *, paged: bool) -> None:
    async with FakeServer() as server:
        for number in range(502 if paged else 1):
            server.put(f"p{number:04}")
        async with following(server) as seen:
            for step in steps:
                _act(server, seen.pods, *step)
                await asyncio.sleep(0.002 if step[0] == "wait" else 0.0)
            for name in "abcd":
                if f"prod/{name}" in server.objects[PODS]:
                    server.put(name)
            await until(lambda: seen.pods.synced and seen.current() and seen.pods.error is None)
    replay = _Replay()
    for change in seen.changes:
        replay.take(change)
    assert held(replay.pods) == truth(server)


def _act(server: FakeServer, pods: Informer[Pod], step: str, name: str = "") -> None:
    match step:
        case "put":
            server.put(name)
        case "remake":
            server.put(name, uid=f"uid-{len(server.requests)}-{server._version}")
        case "spoil":
            server.put(name, spec=[])
        case "delete":
            if f"prod/{name}" in server.objects[PODS]:
                server.delete(name)
        case "half":
            server.raw(b'{"type":"ADD')
            server.cut()
        case "500":
            server.script.append(answer(500, b"<html>"))
        case _:
            plain: dict[str, Callable[[], None]] = {
                "forget": server.forget, "cut": server.cut, "end": server.end_watches, "expire": server.expire,
                "bookmark": server.bookmark, "relist": pods.relist, "wait": lambda: None,
            }  # fmt: skip
            plain[step]()


@pytest.mark.parametrize("hangs", [False, True], ids=["the stream breaks", "the stream falls silent"])
async def test_how_far_behind_it_may_be_counts_from_the_break_or_from_the_last_word(hangs: bool) -> None:
    """A quiet stream is heard once a minute; that it breaks makes nothing of before doubtful."""
    times = replace(QUICK, idle_s=0.6, lasting_s=0.3)
    async with FakeServer() as server, following(server, times=times) as seen:
        await seen.pods.wait_synced()
        assert seen.pods.cut_off_s() == 0.0
        await asyncio.sleep(0.4)
        server.always = status(500, "Unwell", "down")
        if not hangs:
            server.cut()
        await until(lambda: seen.pods.error is not None)
        assert (seen.pods.cut_off_s() >= 0.6) is hangs
        assert seen.pods.staleness_s() >= 0.4
        server.always = None
        await until(lambda: seen.pods.cut_off_s() == 0.0)


async def test_before_the_first_list_it_may_be_behind_without_bound() -> None:
    async with FakeServer() as server:
        server.always = status(500, "Unwell", "down")
        async with following(server) as seen:
            await until(lambda: seen.pods.error is not None)
            assert seen.pods.cut_off_s() == math.inf
