"""A leader that is a real process is frozen for longer than its lead, and thawed under a newer leader."""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from autoscaler.adapters.kube.lease import Elector
from autoscaler.runtime.clock import WallClock
from tests.kube.apis import Apis, ref_to, serving
from tests.kube.leader import TIMES
from tests.kube.machines import LEASE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("led_s", [0.0, 0.31, 0.47])
async def test_no_patch_of_a_leader_thawed_after_its_lead_reaches_the_server(led_s: float) -> None:
    apis, clock = Apis(), WallClock()
    apis.put(LEASE, {"kind": "Lease", "spec": {}})
    ref = ref_to(apis)
    patches: list[float] = []
    apis.before = lambda method, path: (
        patches.append(clock.monotonic()) if path.endswith("/scale") and method == "PATCH" else None
    )
    async with serving(apis) as api:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.kube.leader", api.server, ref.uid, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        try:
            assert await child.stdout.readline() == b"leads\n"
            await asyncio.sleep(0.2 + led_s)
            assert patches, "it patches while it leads"
            child.send_signal(signal.SIGSTOP)
            frozen_s = clock.monotonic()
            other = Elector(api, namespace="headroom", name="headroom", identity="b", address="", clock=clock, **TIMES)
            await other.campaign()
            assert clock.monotonic() - frozen_s > TIMES["deadline_s"]
            thawed_s = clock.monotonic()
            child.send_signal(signal.SIGCONT)
            assert await child.stdout.readline() == b"lost\n"
            assert clock.monotonic() - thawed_s < 0.5
            await other.release()
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()
    assert [at_s for at_s in patches if at_s > thawed_s] == []
