"""A leader that is a real process is frozen for longer than its lead, and thawed under a newer leader that has written.

Where it is frozen is chance. The last question is asked some microseconds before the kernel has the bytes, and no
client can close that: one patch may then come late, and what it asks for holds only where nobody wrote in between.
"""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from autoscaler.adapters.kube.lease import Elector
from autoscaler.adapters.kube.scale import patch_scale, read_scale
from autoscaler.ports import Patch
from autoscaler.runtime.clock import WallClock
from tests.kube.apis import Apis, ref_to, serving
from tests.kube.leader import TIMES
from tests.kube.machines import LEASE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("led_s", [0.0, 0.31, 0.47])
async def test_a_leader_thawed_after_its_lead_changes_nothing(led_s: float) -> None:
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
            seen = await read_scale(api, ref, 1.0)
            written = await patch_scale(
                api, ref, seen_replicas=seen.replicas, replicas=77, may_write=other.may_write,
                remaining_s=other.remaining_s, timeout_s=1.0,
            )  # fmt: skip
            assert written is Patch.APPLIED
            thawed_s = clock.monotonic()
            child.send_signal(signal.SIGCONT)
            assert await child.stdout.readline() == b"lost\n"
            assert clock.monotonic() - thawed_s < 0.5
            await other.release()
            assert (await read_scale(api, ref, 1.0)).replicas == 77
            assert len([at_s for at_s in patches if at_s > thawed_s]) <= 1
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()
