"""A GPU that fails under a serving pod, from the exporter's page to the count of replicas that serve."""

import asyncio
from datetime import UTC, datetime

import pytest
from aiohttp import web

from autoscaler.adapters.kube.cache import Change
from autoscaler.adapters.kube.meta import Condition, Meta
from autoscaler.adapters.kube.pods import Pod, PodSpec, PodStatus
from autoscaler.app.health import GpuVeto
from autoscaler.errors import InputError
from autoscaler.record.gpu_metrics import GpuUse
from autoscaler.runtime.clock import ScaledClock
from autoscaler.settings.parts import GpuExporter
from tests.kube.clients import until

MIB = 1 << 20
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
PAGE = 'DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",gpu="0",namespace="prod",pod="chat-a"} %d\n'


def exporter(ip: str, port: int, *, namespace: str = "gpu-operator", app: str = "nvidia-dcgm-exporter") -> Change[Pod]:
    meta = Meta("dcgm", namespace, "u1", labels={"app": app})
    ready = Condition("Ready", "True", last_transition_time=NOON)
    return Change("x", None, Pod(meta, PodSpec(node_name="gpu-1"), PodStatus("Running", ip, (ready,))))


async def test_memory_and_utilisation_are_those_of_all_gpus_of_a_workload() -> None:
    """Two pods of one workload, the second with two GPUs, and one of nobody's; the third workload's GPU shows less."""
    shown = "".join(
        f'DCGM_FI_DEV_{name}{{UUID="{uuid}",gpu="0",namespace="prod",pod="{pod}"}} {value}\n'
        for uuid, pod, figures in (
            ("a", "chat-1", {"FB_USED": 60_000, "FB_FREE": 20_000, "GPU_UTIL": 30}),
            ("b", "chat-2", {"FB_USED": 70_000, "FB_FREE": 10_000, "GPU_UTIL": 60}),
            ("c", "chat-2", {"FB_USED": 70_000, "FB_FREE": 10_000, "GPU_UTIL": 90}),
            ("d", "other-1", {"FB_USED": 1, "FB_FREE": 1, "GPU_UTIL": 1}),
            ("e", "code-1", {"FB_USED": 1_000, "GPU_UTIL": 10}),
            ("f", "code-2", {"FB_USED": 1_000, "FB_FREE": 1_000}),
        )
        for name, value in figures.items()
    )  # fmt: skip

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=shown)

    def workload_of(pod: str) -> str | None:
        return None if pod.startswith("prod/other") else pod.rpartition("-")[0]

    app = web.Application()
    app.router.add_get("/metrics", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.11", 0).start()
    port = runner.addresses[0][1]
    veto = GpuVeto(GpuExporter(port=port), ScaledClock(60.0), lambda _: None, allow_loopback=True)
    veto.on_pod(exporter("127.0.0.11", port))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        asking = group.create_task(veto.run())
        await until(lambda: veto.uses(workload_of))
        asking.cancel()
    await runner.cleanup()
    chat, code = veto.uses(workload_of).values()
    assert (chat.memory_used_bytes, chat.memory_free_bytes) == (200_000 * MIB, 40_000 * MIB)
    assert chat.utilisation_ratio == pytest.approx(0.6)
    assert code == GpuUse(2_000 * MIB, None, None)


async def test_an_error_that_appears_vetoes_the_pod_and_is_told_once() -> None:
    xid, told, failed = 0, list[str](), asyncio.Event()

    def hear(pod: str) -> None:
        told.append(pod)
        failed.set()

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=PAGE % xid)

    app = web.Application()
    app.router.add_get("/metrics", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.11", 0)
    await site.start()
    port = runner.addresses[0][1]
    veto = GpuVeto(GpuExporter(port=port), ScaledClock(60.0), hear, allow_loopback=True)
    veto.on_pod(exporter("127.0.0.11", port))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        asking = group.create_task(veto.run())
        await asyncio.sleep(0.5)
        assert not veto.failed("prod/chat-a")
        xid = 79
        await failed.wait()
        asking.cancel()
    await runner.cleanup()
    failure = veto.failure("prod/chat-a")
    assert failure is not None
    assert (told, failure.xid, failure.node) == (["prod/chat-a"], 79, "gpu-1")
    assert not veto.failed("prod/chat-b")


@pytest.mark.parametrize(
    "change",
    [exporter("127.0.0.11", 1, namespace="elsewhere"), exporter("127.0.0.11", 1, app="other")],
    ids=["another namespace", "another app"],
)
async def test_a_pod_that_is_no_exporter_is_not_asked(change: Change[Pod]) -> None:
    veto = GpuVeto(GpuExporter(), ScaledClock(1.0), lambda _: None, allow_loopback=True)
    veto.on_pod(change)
    assert not veto._watch._nodes


async def test_an_exporter_whose_selector_cannot_be_read_is_refused_at_the_start() -> None:
    with pytest.raises(InputError, match="label selector"):
        GpuVeto(GpuExporter(selector="app in (a)"), ScaledClock(1.0), lambda _: None, allow_loopback=False)
