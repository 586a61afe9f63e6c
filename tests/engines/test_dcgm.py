"""GPU health from pages of the DCGM exporter."""

import asyncio

from autoscaler.adapters.engines.dcgm import _BLANK, FATAL_XIDS, GpuHealth, GpuWatch, _Node
from autoscaler.adapters.engines.fetch import Trouble
from autoscaler.adapters.engines.targets import GpuTarget
from autoscaler.ports import Fault
from autoscaler.runtime.clock import WallClock
from tests.engines.pods import serving

POD = "team/chat-0"


def gpu(uuid: str, *, pod: str = "chat-0", xid: int | None = 0, used=60_000, free=20_000, busy=50, **more: str) -> str:
    labels = {"gpu": "0", "UUID": uuid, "Hostname": "n1", "container": "vllm", "namespace": "team", "pod": pod, **more}
    if not pod:
        del labels["namespace"], labels["pod"]
    text = ",".join(f'{name}="{value}"' for name, value in labels.items())
    lines = [f"DCGM_FI_DEV_FB_USED{{{text}}} {used}", f"DCGM_FI_DEV_FB_FREE{{{text}}} {free}"]
    lines += [f"DCGM_FI_DEV_GPU_UTIL{{{text}}} {busy}"]
    lines += [f'DCGM_FI_DEV_XID_ERRORS{{{text},err_code="{xid}",err_msg="..."}} {xid}'] if xid is not None else []
    return "\n".join(lines) + "\n"


def see(node: _Node, at_s: float, *gpus: str) -> list[str]:
    return node.absorb("n1", "".join(gpus).encode(), 1000.0 + at_s, at_s)


def health(node: _Node, pod: str = POD) -> GpuHealth:
    return node.health[pod]


def test_memory_is_summed_over_a_pods_gpus_and_utilisation_averaged() -> None:
    node = _Node()
    see(node, 0.0, gpu("a", busy=20), gpu("b", busy=60), gpu("c", pod="other-0", busy=99))
    found = health(node)
    assert (found.gpus, found.node, found.at_s) == (2, "n1", 1000.0)
    assert (found.memory_used_bytes, found.memory_free_bytes) == (120_000 * 2**20, 40_000 * 2**20)
    assert found.utilisation_ratio == 0.4
    assert (found.xid, found.failed) == (None, False)


def test_a_fatal_error_that_appears_is_a_veto_told_once() -> None:
    node = _Node()
    assert see(node, 0.0, gpu("a"), gpu("b")) == []
    assert see(node, 10.0, gpu("a"), gpu("b", xid=79)) == [POD]
    assert see(node, 20.0, gpu("a"), gpu("b", xid=79)) == []
    found = health(node)
    assert (found.xid, found.failed, found.failed_since_s) == (79, True, 1010.0)


def test_exporters_that_write_no_error_at_all_for_a_healthy_gpu_are_understood() -> None:
    node = _Node()
    see(node, 0.0, gpu("a", xid=None))
    assert see(node, 10.0, gpu("a", xid=48)) == [POD]


def test_an_error_that_was_there_at_first_sight_is_reported_and_no_veto() -> None:
    node = _Node()
    assert see(node, 0.0, gpu("a", xid=79)) == []
    assert see(node, 10.0, gpu("a", xid=79)) == []
    assert (health(node).xid, health(node).failed) == (79, False)


def test_errors_of_processes_are_no_veto() -> None:
    for xid in (13, 31, 43, 45, 68, 94, 109):
        node = _Node()
        see(node, 0.0, gpu("a"))
        assert see(node, 10.0, gpu("a", xid=xid)) == []
        assert (health(node).xid, health(node).failed) == (xid, False)
    assert not FATAL_XIDS & {13, 31, 43, 45, 68, 94, 109}


def test_a_veto_outlives_the_errors_that_follow_and_ends_when_none_is_shown() -> None:
    node = _Node()
    see(node, 0.0, gpu("a"))
    see(node, 10.0, gpu("a", xid=48))
    see(node, 20.0, gpu("a", xid=45))
    assert (health(node).failed, health(node).xid) == (True, 45)
    see(node, 30.0, gpu("a", xid=0))
    assert not health(node).failed


def test_a_failed_gpu_that_is_shown_no_more_still_vetoes_its_pod() -> None:
    node = _Node()
    see(node, 0.0, gpu("a"), gpu("b", pod="other-0"))
    see(node, 10.0, gpu("a", xid=79), gpu("b", pod="other-0"))
    see(node, 20.0, gpu("b", pod="other-0"))
    found = health(node)
    assert (found.failed, found.memory_free_bytes, found.utilisation_ratio) == (True, None, None)
    assert not health(node, "team/other-0").failed


def test_what_dcgm_could_not_read_is_missing() -> None:
    node = _Node()
    see(node, 0.0, gpu("a", used=_BLANK, busy=_BLANK, xid=_BLANK))
    found = health(node)
    assert (found.memory_used_bytes, found.utilisation_ratio, found.xid) == (None, None, None)
    assert found.memory_free_bytes is not None


def test_a_slice_has_its_own_utilisation() -> None:
    node = _Node()
    labels = 'UUID="a",GPU_I_ID="3",namespace="team",pod="chat-0"'
    see(node, 0.0, f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.7\nDCGM_FI_DEV_FB_FREE{{{labels}}} 9\n")
    assert (health(node).utilisation_ratio, health(node).memory_free_bytes) == (0.7, 9 * 2**20)


def test_a_gpu_of_nobody_is_nobodys() -> None:
    node = _Node()
    see(node, 0.0, gpu("a", pod=""))
    see(node, 10.0, gpu("a", pod="", xid=79))
    assert node.health == {}


async def test_a_watch_asks_exporters_and_forgets_what_is_old() -> None:
    failed: list[str] = []
    watch = GpuWatch(clock=WallClock(), on_failed=failed.append, interval_s=0.05, allow_loopback=True)
    async with serving("127.4.0.1") as pods, asyncio.TaskGroup() as group:
        pods.answers["127.4.0.1"] = gpu("a")
        watch.put(GpuTarget("n1", "dcgm-x", "uid-x", "127.4.0.1", pods.port))
        task = group.create_task(watch.run())
        async with asyncio.timeout(20):
            while watch.health(POD) is None:  # noqa: ASYNC110 - what is waited for is a server's answer
                await asyncio.sleep(0.01)
            pods.answers["127.4.0.1"] = gpu("a", xid=79)
            while not failed:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.01)
        assert failed == [POD]
        assert watch.health("team/nobody") is None
        watch._nodes["uid-x"].page_s -= 61.0
        pods.answers.clear()
        assert watch.health(POD) is None
        assert not watch._absorb(GpuTarget("n1", "dcgm-x", "uid-x", "127.4.0.1", 1), Trouble(Fault.TIMEOUT, "slow"))
        watch.drop("uid-x")
        task.cancel()
