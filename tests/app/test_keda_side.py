"""How KEDA's side of a leader lets go of its callers: streams end in good order, and the Service finds it no more."""

import asyncio
from types import SimpleNamespace

import grpc
import pytest

from autoscaler.adapters.kube.leader_label import LABEL
from autoscaler.app.guard import Guard
from autoscaler.app.keda_side import KedaSide
from autoscaler.runtime.clock import WallClock
from autoscaler.settings.keda import Keda
from autoscaler.settings.model import Settings
from tests.app.keda_bench import CHAT, Known
from tests.cluster.processes import free_port
from tests.keda.book import calling, ref
from tests.kube.apis import Apis, Direct, Ill

POD = "/api/v1/namespaces/headroom-system/pods/headroom-0"


def side(apis: Apis, port: int) -> KedaSide:
    """A leader's, in a pod that is labelled so."""
    apis.put(POD, {"metadata": {"labels": {LABEL: "true"}}})
    clock = WallClock()
    keda = Keda(enabled=True, plaintext=True, host="127.0.0.1", port=port)
    return KedaSide(
        Settings(identity="headroom-0", keda=keda),
        Direct(apis),
        Known(),
        clock,
        Guard(clock),
        cluster=SimpleNamespace(),  # type: ignore[arg-type] # nothing is told, and so no HPA looked for
        hold=lambda claim, words: None,
    )


async def test_who_hands_over_ends_streams_in_good_order_and_takes_the_label_off() -> None:
    apis, port = Apis(), free_port()
    made = side(apis, port)
    made.answers.on_claim(CHAT)
    async with made.serving(), calling(port) as client:
        stream = client.StreamMetricSpec(ref())
        assert len((await stream.read()).metricSpecs) == 1
        await made.hand_over()
        assert await asyncio.wait_for(stream.read(), 1.0) is grpc.aio.EOF
        assert await stream.code() is grpc.StatusCode.OK
        assert LABEL not in apis.objects[POD]["metadata"]["labels"]
        assert len((await client.GetMetricSpec(ref())).metricSpecs) == 1  # until it ends, a spec is still to be had


async def test_who_cannot_take_the_label_off_says_so_and_hands_over(capsys: pytest.CaptureFixture[str]) -> None:
    apis, port = Apis(), free_port()
    made = side(apis, port)
    apis.ills = [Ill.FORBIDDEN]
    async with made.serving(), calling(port) as client:
        stream = client.StreamMetricSpec(ref())
        await stream.read()
        await made.hand_over()
        assert await asyncio.wait_for(stream.read(), 1.0) is grpc.aio.EOF
    assert "the pod keeps the leader's label" in capsys.readouterr().out
