"""Clients of a fake API server, without a kubeconfig and without kubernetes-asyncio."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.kube.connection import Access, open_session
from autoscaler.adapters.kube.limiter import TokenBucket
from autoscaler.ports import Clock
from autoscaler.runtime.clock import WallClock


@asynccontextmanager
async def client(
    url: str,
    *,
    clock: Clock | None = None,
    qps: float = 1e6,
    burst: int = 1000,
    at_once: int = 10,
    comes_again: bool = False,
) -> AsyncIterator[KubeApi]:
    """A client of the server at `url`, without credentials and in effect without a limit."""

    async def nothing() -> None:
        return None

    clock = clock or WallClock()
    access = Access(url, None, nothing)
    async with open_session(access) as session:
        bucket = TokenBucket(clock, qps, burst)
        yield KubeApi(session, access, clock, bucket, at_once=at_once, comes_again=comes_again)


async def until(holds: Callable[[], object], within_s: float = 2.0) -> None:
    """Return as soon as `holds()`, looked at between turns of the loop. AssertionError that shows it otherwise."""
    try:
        async with asyncio.timeout(within_s):
            while not holds():  # noqa: ASYNC110 # any state may be waited for, and none knows that
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise AssertionError(f"waited {within_s:g} s in vain for {inspect.getsource(holds).strip()}") from None
