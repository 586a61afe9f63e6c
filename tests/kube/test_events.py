"""Events about targets: counted, limited, never in anybody's way, on virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.events import BURST, MOST_WAITING, EventWriter
from autoscaler.api.claims import TargetRef
from autoscaler.ports import Fault
from tests.kube.apis import Apis, Direct, Ill
from tests.kube.machines import Contest

pytestmark = pytest.mark.looptime(noop_cycles=1)

AT = "/api/v1/namespaces/prod/events/"


def ref(name: str = "llama", uid: str = "u-1") -> TargetRef:
    return TargetRef("apps", "v1", "deployments", "Deployment", "prod", name, uid)


@asynccontextmanager
async def writing(apis: Apis, server: Direct | None = None) -> AsyncIterator[EventWriter]:
    """A writer at work until the block ends."""
    writer = EventWriter(server or Direct(apis), Contest(1).machines[0], "headroom", "headroom-0")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(writer.run())
        yield writer
        task.cancel()


def told(apis: Apis) -> list[tuple[str, str, int]]:
    """(reason, message, count) of every Event on the server."""
    found = [content for path, content in apis.objects.items() if path.startswith(AT)]
    return [(event["reason"], event["message"], event["count"]) for event in found]


async def test_an_event_says_what_happened_to_which_object_and_who_says_so() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        writer.note(ref(), "Normal", "Scaled", "3 to 5 replicas: 12 requests wait")
        await asyncio.sleep(1.0)
    [(path, event)] = apis.objects.items()
    assert path.startswith(AT + "llama.")
    del event["metadata"]
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "prod", "name": "llama", "uid": "u-1",
        },
        "type": "Normal",
        "reason": "Scaled",
        "message": "3 to 5 replicas: 12 requests wait",
        "count": 1,
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
        "source": {"component": "headroom", "host": "headroom-0"},
        "reportingComponent": "headroom",
        "reportingInstance": "headroom-0",
    }  # fmt: skip


async def test_the_same_within_ten_minutes_counts_and_shows_the_newest_numbers() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        for count in (5, 6, 7):
            writer.note(ref(), "Normal", "Scaled", f"2 to {count} replicas")
            await asyncio.sleep(590.0)
    assert told(apis) == [("Scaled", "2 to 7 replicas", 3)]
    [event] = apis.objects.values()
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2027-01-15T08:00:00Z", "2027-01-15T08:19:40Z")


async def test_the_same_after_more_than_ten_minutes_is_another_event() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        writer.note(ref(), "Normal", "Scaled", "2 to 5 replicas")
        await asyncio.sleep(610.0)
        writer.note(ref(), "Normal", "Scaled", "2 to 6 replicas")
        await asyncio.sleep(1.0)
    assert told(apis) == [("Scaled", "2 to 5 replicas", 1), ("Scaled", "2 to 6 replicas", 1)]


@pytest.mark.parametrize(
    "other",
    [
        (ref("mistral"), "Normal", "Scaled", "2 to 5 replicas"),
        (ref(uid="u-2"), "Normal", "Scaled", "2 to 5 replicas"),
        (ref(), "Warning", "Scaled", "2 to 5 replicas"),
        (ref(), "Normal", "Refused", "2 to 5 replicas"),
        (ref(), "Normal", "Scaled", "2 to 5 replicas, which the budget allows"),
    ],
    ids=["another object", "the object made anew", "another type", "another reason", "other words"],
)
async def test_what_differs_in_more_than_numbers_is_another_event(other: Any) -> None:
    apis = Apis()
    async with writing(apis) as writer:
        writer.note(ref(), "Normal", "Scaled", "2 to 5 replicas")
        writer.note(*other)
        await asyncio.sleep(1.0)
    assert [count for _, _, count in told(apis)] == [1, 1]


async def test_an_object_noted_too_often_causes_25_writes_and_then_one_in_five_minutes() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        for _ in range(100):
            writer.note(ref(), "Warning", "Refused", "403 Forbidden")
            await asyncio.sleep(0.1)
        assert len(apis.asked) == BURST
        assert writer.lost == 75
        writer.note(ref("mistral"), "Warning", "Refused", "403 Forbidden")
        await asyncio.sleep(0.1)
        assert len(apis.asked) == BURST + 1, "another object has its own allowance"
        await asyncio.sleep(300.0)
        writer.note(ref(), "Warning", "Refused", "403 Forbidden")
        await asyncio.sleep(0.1)
    assert [count for _, _, count in told(apis)] == [101, 1], "and the count has all of them"


async def test_a_burst_of_one_kind_that_is_not_written_yet_is_one_write() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        for count in range(1000):
            writer.note(ref(), "Normal", "Scaled", f"2 to {count} replicas")
        await asyncio.sleep(1.0)
    assert told(apis) == [("Scaled", "2 to 999 replicas", 1000)]
    assert (len(apis.asked), writer.lost) == (1, 0)


@pytest.mark.parametrize(
    "ill",
    [Ill.HTML_500, Ill.UNAVAILABLE, Ill.TOO_MANY, Ill.HANG, Ill.LATE_HANG, Ill.CLOSE, Ill.LATE_CLOSE, Ill.WAITED_408],
)
async def test_an_event_survives_a_server_that_fails_for_a_while_and_is_there_once(ill: Ill) -> None:
    apis = Apis()
    apis.ills = [ill] * 3
    async with writing(apis) as writer:
        writer.note(ref(), "Normal", "Scaled", "2 to 5 replicas")
        await asyncio.sleep(60.0)
    assert told(apis) == [("Scaled", "2 to 5 replicas", 1)]
    assert (writer.lost, writer.error) == (0, None)


class OneNamespaceSick(Direct):
    """Events of the namespace ``sick`` are answered with an error of somebody's webhook."""

    async def request(self, method: str, path: str, **given: Any) -> Answer:
        if "/namespaces/sick/" in path:
            raise KubeError(
                Fault.UNAVAILABLE, f"{method} {path}: 500 InternalError: failed calling webhook", status=500
            )
        return await super().request(method, path, **given)


async def test_a_namespace_that_takes_no_events_keeps_nobody_elses_from_being_told() -> None:
    apis = Apis()
    async with writing(apis, OneNamespaceSick(apis)) as writer:
        for number in range(20):
            writer.note(replace(ref(f"lost-{number}"), namespace="sick"), "Normal", "Scaled", "2 to 5 replicas")
        writer.note(ref(), "Normal", "Scaled", "2 to 5 replicas")
        await asyncio.sleep(600.0)
        assert told(apis) == [("Scaled", "2 to 5 replicas", 1)]
        for _ in range(3):
            writer.note(ref("mistral"), "Normal", "Scaled", "2 to 6 replicas")
            await asyncio.sleep(60.0)
        assert told(apis)[1:] == [("Scaled", "2 to 6 replicas", 3)]


async def test_what_is_noted_while_it_is_being_written_is_written_again() -> None:
    apis = Apis()
    async with writing(apis, Slow(apis)) as writer:
        for count in range(3):
            writer.note(ref(), "Normal", "Scaled", f"2 to {count} replicas")
            await asyncio.sleep(0.4)
        await asyncio.sleep(5.0)
    assert told(apis) == [("Scaled", "2 to 2 replicas", 3)]


class Slow(Direct):
    """Every answer takes a second."""

    async def request(self, method: str, path: str, **given: Any) -> Answer:
        answer = await super().request(method, path, **given)
        await asyncio.sleep(1.0)
        return answer


async def test_an_event_that_expired_on_the_server_is_made_again() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        writer.note(ref(), "Normal", "Scaled", "2 to 5 replicas")
        await asyncio.sleep(1.0)
        apis.objects.clear()
        writer.note(ref(), "Normal", "Scaled", "2 to 6 replicas")
        await asyncio.sleep(1.0)
    assert told(apis) == [("Scaled", "2 to 6 replicas", 2)]


async def test_what_the_server_refuses_is_given_up_at_once_and_counted() -> None:
    apis = Apis()
    apis.ills = [Ill.FORBIDDEN]
    async with writing(apis) as writer:
        writer.note(ref(), "Normal", "Scaled", "2 to 5 replicas")
        writer.note(ref("mistral"), "Normal", "Scaled", "2 to 5 replicas")
        await asyncio.sleep(1.0)
        assert writer.lost == 1
    assert len(apis.asked) == 2
    assert told(apis) == [("Scaled", "2 to 5 replicas", 1)]


async def test_a_server_that_stays_away_costs_the_caller_nothing_and_the_events_of_that_time() -> None:
    apis = Apis()
    apis.ills = [Ill.HANG] * 10_000
    began_s = asyncio.get_running_loop().time()
    async with writing(apis) as writer:
        for number in range(MOST_WAITING + 500):
            writer.note(ref(f"llama-{number}"), "Normal", "Scaled", "2 to 5 replicas")
        assert asyncio.get_running_loop().time() == began_s
        assert writer.lost == 500
        await asyncio.sleep(3600.0)
        assert writer.lost == MOST_WAITING + 500
        assert 20 < len(apis.asked) < 120, "it is not asked in a busy loop"
        apis.ills.clear()
        writer.note(ref(), "Normal", "Scaled", "3 to 5 replicas")
        await asyncio.sleep(120.0)
        assert writer.error is None
    assert ("Scaled", "3 to 5 replicas", 1) in told(apis)


async def test_a_crowd_that_is_noted_aside_neither_delays_nor_costs_the_events_of_others() -> None:
    apis = Apis()
    async with writing(apis, Slow(apis)) as writer:
        for number in range(3000):
            writer.note(ref(f"waits-{number}"), "Warning", "TooManyWorkloads", "it is not taken up", aside=True)
        assert writer.lost == 3000 - MOST_WAITING
        await asyncio.sleep(10.5)
        for number in range(20):
            writer.note(ref(f"llama-{number}"), "Normal", "ScaledOut", "2 to 5 replicas")
        await asyncio.sleep(21.0)
        assert [reason for reason, _, _ in told(apis)[11:31]] == ["ScaledOut"] * 20, "as soon as one is written"
        assert writer.lost == 3000 - MOST_WAITING + 9, "the last of the crowd, for whom there was no room"
        await asyncio.sleep(1000.0)
    assert len(told(apis)) > 600


async def test_events_noted_aside_are_told_though_a_namespace_takes_none_of_the_others() -> None:
    apis = Apis()
    async with writing(apis, OneNamespaceSick(apis)) as writer:
        writer.note(replace(ref("lost"), namespace="sick"), "Normal", "Scaled", "2 to 5 replicas")
        for number in range(3):
            writer.note(ref(f"waits-{number}"), "Warning", "TooManyWorkloads", "it is not taken up", aside=True)
        await asyncio.sleep(60.0)
        assert len(told(apis)) == 3


async def test_a_crowd_of_a_namespace_that_takes_no_events_delays_those_of_others_by_one_failure_each() -> None:
    apis = Apis()
    async with writing(apis, OneNamespaceSick(apis)) as writer:
        for number in range(300):
            crowd = replace(ref(f"waits-{number}"), namespace="sick")
            writer.note(crowd, "Warning", "TooManyWorkloads", "it is not taken up", aside=True)
        await asyncio.sleep(30.0)
        for number in range(5):
            writer.note(ref(f"llama-{number}"), "Normal", "ScaledOut", "2 to 5 replicas")
        await asyncio.sleep(60.0)
        assert len(told(apis)) == 5


async def test_memory_of_objects_and_events_is_bounded() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        for number in range(5000):
            writer.note(ref(f"llama-{number}"), "Normal", "Scaled", "2 to 5 replicas")
            if number % 500 == 0:
                await asyncio.sleep(1.0)
        assert writer.lost == 0
        assert len(writer._events) == len(writer._tokens) == 4096


async def test_a_message_is_remembered_no_longer_than_it_is_shown() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        for tail in "ab":
            writer.note(ref(), "Warning", "Invalid", "x" * 1000 + tail * 200_000)
            await asyncio.sleep(1.0)
    assert told(apis) == [("Invalid", "x" * 1000, 2)], "what differs beyond is the same, and is not kept"


async def test_a_long_name_and_a_long_message_make_a_valid_event() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        writer.note(ref("a" * 199 + "-" + "b" * 53), "Normal", "Scaled", "x" * 5000)
        await asyncio.sleep(1.0)
    [event] = apis.objects.values()
    assert len(event["metadata"]["name"]) == 199 + 17
    assert "-." not in event["metadata"]["name"]
    assert len(event["message"]) == 1000


async def test_an_event_about_an_object_of_no_namespace_stands_in_the_namespace_default() -> None:
    apis = Apis()
    async with writing(apis) as writer:
        writer.note(replace(ref("chat"), kind="WarmPool", namespace=""), "Normal", "SlotsOrdered", "2 ordered")
        await asyncio.sleep(1.0)
    [(path, event)] = apis.objects.items()
    assert path.startswith("/api/v1/namespaces/default/events/chat.")
    assert event["metadata"]["namespace"] == "default"
    assert event["involvedObject"]["namespace"] == ""
