"""The leader's label: on the leader's pod, off every other one, and retried until it is so; on virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from autoscaler.adapters.kube.leader_label import LABEL, LeaderLabel
from autoscaler.runtime.clock import WallClock
from tests.kube.apis import Apis, Direct, Ill

pytestmark = pytest.mark.looptime(noop_cycles=1)

AT = "/api/v1/namespaces/headroom/pods"


class Pods(Apis):
    """A server that can list its pods by our label; those that are `ending` are gone once they were listed."""

    ending: tuple[str, ...] = ()

    def _handle(self, method: str, path: str, content_type: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if (method, path) == ("GET", AT):
            self.bodies.append({})
            found = [pod for path, pod in self.objects.items() if labelled(pod)]
            for name in self.ending:
                del self.objects[f"{AT}/{name}"]
            return 200, {"items": found}
        return super()._handle(method, path, content_type, body)


def labelled(pod: dict[str, Any]) -> bool:
    labels: dict[str, str] = pod["metadata"].get("labels", {})
    return labels.get(LABEL) == "true"


def cluster(*names: str, leaders: tuple[str, ...] = ()) -> Pods:
    apis = Pods()
    for name in names:
        labels = {"app": "headroom"} | ({LABEL: "true"} if name in leaders else {})
        apis.put(f"{AT}/{name}", {"metadata": {"labels": labels}})
    return apis


def leaders(apis: Apis) -> list[str]:
    return sorted(path.removeprefix(f"{AT}/") for path, pod in apis.objects.items() if labelled(pod))


class Lead:
    """Whether this process leads; a test sets it."""

    held = False


@asynccontextmanager
async def following(apis: Apis, lead: Lead, pod: str = "headroom-0") -> AsyncIterator[LeaderLabel]:
    label = LeaderLabel(Direct(apis), WallClock(), namespace="headroom", pod=pod, leading=lambda: lead.held)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(label.run())
        yield label
        running.cancel()


async def test_the_label_comes_with_the_lead_and_goes_with_it() -> None:
    apis, lead = cluster("headroom-0", "headroom-1"), Lead()
    async with following(apis, lead):
        await asyncio.sleep(1)
        assert leaders(apis) == []
        lead.held = True
        await asyncio.sleep(0.2)
        assert leaders(apis) == ["headroom-0"]
        lead.held = False
        await asyncio.sleep(0.2)
        assert leaders(apis) == []
    assert apis.objects[f"{AT}/headroom-0"]["metadata"]["labels"] == {"app": "headroom"}


async def test_a_process_started_anew_in_a_pod_that_led_takes_the_label_off() -> None:
    apis = cluster("headroom-0", "headroom-1", leaders=("headroom-0",))
    async with following(apis, Lead()):
        await asyncio.sleep(0.2)
        assert leaders(apis) == []


async def test_who_gains_the_lead_takes_the_label_off_everybody_else() -> None:
    # The last leader's node died, and with it whoever would have done so.
    apis, lead = cluster("headroom-0", "headroom-1", "headroom-2", leaders=("headroom-1", "headroom-2")), Lead()
    lead.held = True
    async with following(apis, lead):
        await asyncio.sleep(0.2)
        assert leaders(apis) == ["headroom-0"]


async def test_a_labelled_pod_that_is_gone_by_then_keeps_nobody_elses_label_on() -> None:
    apis, lead = cluster("headroom-0", "headroom-1", "headroom-2", leaders=("headroom-1", "headroom-2")), Lead()
    apis.ending, lead.held = ("headroom-1",), True
    async with following(apis, lead):
        await asyncio.sleep(0.2)
        assert leaders(apis) == ["headroom-0"]
        lead.held = False
        await asyncio.sleep(0.2)
        assert leaders(apis) == []


async def test_who_has_lost_the_lead_since_it_listed_takes_the_label_off_nobody_but_itself() -> None:
    """The machine was frozen between the two for as long as the next leader needs: KEDA would find no pod at all."""
    apis, lead = cluster("headroom-0", "headroom-1"), Lead()

    def thaw(method: str, path: str) -> None:
        if (method, path) == ("GET", AT):
            lead.held = False
            apis.edit(f"{AT}/headroom-1", metadata={"name": "headroom-1", "labels": {LABEL: "true"}})

    apis.before, lead.held = thaw, True
    async with following(apis, lead):
        await asyncio.sleep(0.2)
        assert leaders(apis) == ["headroom-0", "headroom-1"]
        await asyncio.sleep(1.0)
        assert leaders(apis) == ["headroom-1"]


async def test_a_label_of_which_only_the_first_half_was_written_goes_with_the_lead() -> None:
    apis, lead = cluster("headroom-0"), Lead()
    async with following(apis, lead):
        await asyncio.sleep(0.15)
        lead.held, apis.ills = True, [None, Ill.UNAVAILABLE]
        await asyncio.sleep(0.2)
        assert leaders(apis) == ["headroom-0"]
        lead.held = False
        await asyncio.sleep(1.0)
        assert leaders(apis) == []


@pytest.mark.parametrize("ill", [Ill.UNAVAILABLE, Ill.CLOSE, Ill.HANG, Ill.FORBIDDEN, Ill.HTML_500])
async def test_a_server_that_does_not_answer_is_asked_again(ill: Ill) -> None:
    apis, lead = cluster("headroom-0"), Lead()
    lead.held = True
    apis.ills = [ill, ill]
    async with following(apis, lead):
        await asyncio.sleep(10)
        assert leaders(apis) == ["headroom-0"]


async def test_a_lead_that_is_lost_while_the_server_is_away_is_never_labelled() -> None:
    apis, lead = cluster("headroom-0"), Lead()
    async with following(apis, lead):
        await asyncio.sleep(0.05)
        lead.held = True
        apis.ills = [Ill.UNAVAILABLE] * 3
        await asyncio.sleep(1.5)
        lead.held = False
        await asyncio.sleep(10)
    assert leaders(apis) == []
    assert not any(body.get("metadata", {}).get("labels", {}).get(LABEL) for body in apis.bodies)


async def test_outside_of_a_cluster_there_is_no_pod_and_no_further_question() -> None:
    apis = cluster("headroom-1")
    async with following(apis, Lead(), pod="laptop"):
        await asyncio.sleep(60)
    assert len(apis.asked) == 1


async def test_the_label_is_dropped_before_the_lead_is_given_back() -> None:
    apis = cluster("headroom-0", leaders=("headroom-0",))
    label = LeaderLabel(Direct(apis), WallClock(), namespace="headroom", pod="headroom-0", leading=lambda: True)
    await label.drop()
    assert leaders(apis) == []
