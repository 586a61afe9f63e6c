"""A process that leads and patches a target without a pause, to be frozen: ``python -m tests.kube.leader URL UID``.

It prints a line when it leads and one when it has lost the lead.
"""

import asyncio
import contextlib
import sys

from autoscaler.adapters.kube.lease import Elector
from autoscaler.adapters.kube.scale import patch_scale, read_scale
from autoscaler.api.claims import TargetRef
from autoscaler.ports import PortError
from autoscaler.runtime.clock import WallClock
from tests.kube.clients import client

TIMES = {"lease_s": 1.0, "renew_s": 0.15, "deadline_s": 0.6}


async def main(url: str, uid: str) -> None:
    clock = WallClock()
    ref = TargetRef("apps", "v1", "deployments", "Deployment", "prod", "llama", uid)
    async with client(url) as api:
        elector = Elector(
            api, namespace="headroom", name="headroom", identity="child", address="", clock=clock, **TIMES
        )
        await elector.campaign()
        print("leads", flush=True)
        async with asyncio.TaskGroup() as group:
            holding = group.create_task(elector.hold())
            while not holding.done():
                with contextlib.suppress(PortError):
                    seen = await read_scale(api, ref, 1.0)
                    await patch_scale(
                        api, ref, seen_replicas=seen.replicas, replicas=seen.replicas % 50 + 1,
                        may_write=elector.may_write, remaining_s=elector.remaining_s, timeout_s=1.0,
                    )  # fmt: skip
        print("lost", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
