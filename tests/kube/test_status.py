"""Statuses of policies: dated, seldom written, never unchanged, never without the lead, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from autoscaler.adapters.kube.answers import Answer, refusal
from autoscaler.adapters.kube.status import StatusWriter, dated
from tests.kube.apis import Apis, Direct, Ill
from tests.kube.machines import Contest

pytestmark = pytest.mark.looptime(noop_cycles=1)

AT = "/apis/headroom.dev/v1alpha1/namespaces/prod/scalingpolicies/"


@asynccontextmanager
async def writing(
    apis: Apis, may_write: Callable[[], bool] = lambda: True, *, wire: Direct | None = None
) -> AsyncIterator[StatusWriter]:
    """A writer at work until the block ends."""
    writer = StatusWriter(wire or Direct(apis), Contest(1).machines[0], may_write=may_write)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(writer.run())
        yield writer
        task.cancel()


def served(*names: str) -> Apis:
    """A server with policies."""
    apis = Apis()
    for name in names or ("llama",):
        apis.put(AT + name, {"kind": "ScalingPolicy", "spec": {}})
    return apis


def condition(kind: str, status: str, at: str, **others: Any) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": at, "observedGeneration": 1, **others}


def shown(apis: Apis, name: str = "llama") -> dict[str, Any]:
    status = apis.objects[AT + name].get("status", {})
    assert isinstance(status, dict)
    return status


def wanting(replicas: int, at: str = "2027-01-15T08:00:00Z", ready: str = "True") -> dict[str, Any]:
    return {"desiredReplicas": replicas, "conditions": [condition("Ready", ready, at)]}


async def test_a_status_is_written_at_once_and_whole() -> None:
    apis = served()
    apis.edit(AT + "llama", status={"desiredReplicas": 9, "overload": {"deficitReplicas": 2}})
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(0.1)
        assert shown(apis) == wanting(3), "and nothing is left of what another process wrote"
        assert apis.asked == [("PATCH", AT + "llama/status")]
        assert apis.objects[AT + "llama"]["spec"] == {}


async def test_a_policy_is_written_at_most_every_five_seconds_and_its_latest_status_wins() -> None:
    apis = served()
    async with writing(apis) as writer:
        for tenth in range(120):
            writer.put("prod", "llama", wanting(tenth))
            await asyncio.sleep(0.1)
        assert len(apis.asked) == 3
        await asyncio.sleep(5.0)
        assert shown(apis)["desiredReplicas"] == 119
    assert len(apis.asked) == 4


async def test_one_policys_gap_delays_no_other() -> None:
    apis = served("llama", "mistral")
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(1))
        await asyncio.sleep(1.0)
        writer.put("prod", "llama", wanting(2))
        writer.put("prod", "mistral", wanting(3))
        await asyncio.sleep(0.1)
        assert (shown(apis)["desiredReplicas"], shown(apis, "mistral")["desiredReplicas"]) == (1, 3)


async def test_what_did_not_change_is_never_written_again() -> None:
    apis = served()
    async with writing(apis) as writer:
        for second in range(60):
            writer.put("prod", "llama", wanting(3, f"2027-01-15T08:00:{second:02}Z"))
            await asyncio.sleep(1.0)
        writer.put("prod", "llama", wanting(4))
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(10.0)
    assert len(apis.asked) == 1


async def test_a_new_process_writes_nothing_where_the_object_shows_the_same_already() -> None:
    apis = served()
    shows = wanting(3, "2027-01-01T00:00:00Z")
    apis.edit(AT + "llama", status=shows)
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(3), seen=shows)
        await asyncio.sleep(10.0)
        assert apis.asked == []
        writer.put("prod", "llama", wanting(4), seen=shows)
        await asyncio.sleep(10.0)
    assert shown(apis) == wanting(4, "2027-01-01T00:00:00Z")


async def test_a_condition_is_dated_by_the_last_change_of_its_status() -> None:
    apis = served()
    async with writing(apis) as writer:
        for second, ready in enumerate(["True", "True", "False", "False", "True"]):
            writer.put("prod", "llama", wanting(second, f"2027-01-15T08:00:0{second}Z", ready))
            await asyncio.sleep(6.0)
            expected = [0, 0, 2, 2, 4][second]
            assert shown(apis)["conditions"][0]["lastTransitionTime"] == f"2027-01-15T08:00:0{expected}Z"


def test_reason_message_and_generation_change_without_a_new_date_and_a_new_condition_has_its_own() -> None:
    before = [condition("Ready", "True", "earlier", reason="Fine")]
    now = [
        condition("Ready", "True", "now", reason="Other") | {"observedGeneration": 2},
        condition("Paused", "False", "now"),
    ]
    assert dated(now, before) == [
        condition("Ready", "True", "earlier", reason="Other") | {"observedGeneration": 2},
        condition("Paused", "False", "now"),
    ]


async def test_nothing_is_written_without_the_lead() -> None:
    apis = served()
    leads = [False]
    async with writing(apis, lambda: leads[0]) as writer:
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(20.0)
        assert apis.asked == []
        leads[0] = True
        await asyncio.sleep(5.0)
    assert shown(apis) == wanting(3)


@pytest.mark.parametrize("ill", [ill for ill in Ill if ill not in {Ill.FORBIDDEN, Ill.HTML_200, Ill.EMPTY_200}])
async def test_a_status_outlives_a_server_that_fails_for_minutes_without_asking_it_all_the_time(ill: Ill) -> None:
    apis = served("llama", "mistral")
    apis.ills = [ill] * 1000
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(3))
        writer.put("prod", "mistral", wanting(3))
        await asyncio.sleep(300.0)
        assert 10 < len(apis.asked) < 80
        assert "scalingpolicies" in str(writer.error)
        apis.ills.clear()
        writer.put("prod", "llama", wanting(4))
        await asyncio.sleep(20.0)
        assert writer.error is None
    assert shown(apis) == wanting(4)
    assert shown(apis, "mistral") == wanting(3)


async def test_an_answer_that_was_lost_is_not_taken_for_the_status_before() -> None:
    apis = served()
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(6.0)
        apis.ills = [Ill.LATE_CLOSE]
        writer.put("prod", "llama", wanting(4))
        await asyncio.sleep(0.1)
        assert shown(apis) == wanting(4)
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(20.0)
    assert shown(apis) == wanting(3)


async def test_a_policy_that_is_gone_is_dropped_and_one_made_anew_is_written() -> None:
    apis = served()
    del apis.objects[AT + "llama"]
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(300.0)
        assert len(apis.asked) == 1
        apis.put(AT + "llama", {"kind": "ScalingPolicy", "spec": {}})
        writer.forget("prod", "llama")
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(1.0)
    assert shown(apis) == wanting(3)


class Starting(Direct):
    """An API server that does not serve our kinds yet."""

    served = False

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        if not self.served:
            self.apis.asked.append((method, path))
            raise refusal(f"{method} {path}", 404, {"Content-Type": "text/plain"}, b"404 page not found\n")
        return await super().request(method, path, **options)


async def test_a_status_whose_kind_is_not_served_yet_is_written_within_a_minute_after_it_is() -> None:
    apis = served()
    wire = Starting(apis)
    async with writing(apis, wire=wire) as writer:
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(130.0)
        assert len(apis.asked) == 3
        assert "404 page not found" in str(writer.error)
        wire.served = True
        await asyncio.sleep(60.0)
        assert (shown(apis), writer.error) == (wanting(3), None)
        await asyncio.sleep(300.0)
    assert len(apis.asked) == 4


async def test_a_policy_forgotten_before_its_write_is_not_written() -> None:
    apis = served()
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(3))
        writer.forget("prod", "llama")
        await asyncio.sleep(10.0)
    assert apis.asked == []


async def test_a_refused_status_is_tried_again_after_a_minute_and_holds_up_no_other() -> None:
    apis = served("llama", "mistral")
    apis.ills = [Ill.FORBIDDEN]
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(3))
        writer.put("prod", "mistral", wanting(3))
        await asyncio.sleep(1.0)
        assert (shown(apis), shown(apis, "mistral")) == ({}, wanting(3))
        await asyncio.sleep(58.0)
        assert shown(apis) == {}
        await asyncio.sleep(2.0)
    assert shown(apis) == wanting(3)


async def test_another_status_than_the_refused_one_does_not_wait_for_a_minute() -> None:
    apis = served()
    apis.ills = [Ill.FORBIDDEN]
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(1.0)
        writer.put("prod", "llama", wanting(4))
        await asyncio.sleep(5.0)
        assert shown(apis) == wanting(4)
        await asyncio.sleep(51.0)
        for replicas in (5, 6):
            writer.put("prod", "llama", wanting(replicas))
            await asyncio.sleep(1.0)
        await asyncio.sleep(2.0)
        assert shown(apis) == wanting(5), "and the minute's end is no reason to write before the gap's"
        await asyncio.sleep(120.0)
    assert shown(apis) == wanting(6)
    assert len(apis.asked) == 4


async def test_a_status_put_while_another_is_on_its_way_follows_it() -> None:
    apis = served()
    apis.ills = [Ill.LATE_HANG]
    async with writing(apis) as writer:
        writer.put("prod", "llama", wanting(3))
        await asyncio.sleep(1.0)
        writer.put("prod", "llama", wanting(4))
        await asyncio.sleep(20.0)
    assert shown(apis) == wanting(4)


async def test_the_status_of_a_warm_pool_is_written_where_it_has_no_namespace() -> None:
    apis, path = Apis(), "/apis/headroom.dev/v1alpha1/warmpools/chat"
    apis.put(path, {"kind": "WarmPool", "spec": {}})
    writer = StatusWriter(Direct(apis), Contest(1).machines[0], may_write=lambda: True, plural="warmpools")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(writer.run())
        writer.put("", "chat", {"warmSlots": 2, "conditions": []})
        await asyncio.sleep(0.1)
        task.cancel()
    assert apis.asked == [("PATCH", f"{path}/status")]
    assert apis.objects[path]["status"] == {"warmSlots": 2, "conditions": []}
