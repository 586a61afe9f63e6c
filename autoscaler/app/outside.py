"""What one replica of the controller talks to, made from settings and closed in order.

Enters: settings. Leaves: clients, sinks and the fitting child; none of them speaks to anybody by itself.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from autoscaler.adapters.kube.access_review import AccessReviews
from autoscaler.adapters.kube.api import KubeApi
from autoscaler.adapters.prometheus.endpoints import Endpoint
from autoscaler.adapters.prometheus.live import LivePrometheus, querying
from autoscaler.adapters.store.files import RotatedFiles
from autoscaler.adapters.web.peer import Peer, peers
from autoscaler.adapters.web.tls import Tls
from autoscaler.errors import InputError
from autoscaler.ports import ModelFitter, RecordSink
from autoscaler.runtime.clock import WallClock
from autoscaler.runtime.fit_process import ProcessFitter
from autoscaler.runtime.unkept import Nowhere
from autoscaler.settings.model import Settings

LEASE_AT_ONCE: Final = 2
"""Renewals have a client of their own, so that a crowd of requests or a spent limit cannot starve them."""

REVIEWS_PER_S: Final = 10
REVIEWS_AT_ONCE: Final = 4
"""Whoever shows token after token has them looked up no faster, and by a client that nothing else waits for."""


@dataclass(frozen=True, slots=True)
class Outside:
    """What one replica of the controller talks to."""

    clock: WallClock
    api: KubeApi
    lease_api: KubeApi
    fitter: ModelFitter
    audit: RecordSink
    journal: RecordSink
    peer: Peer
    prometheus: LivePrometheus
    reviews: AccessReviews | None
    """None where nobody who asks over HTTP has to show a token."""


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Outside]:
    """Everything outside, for the length of the block. Raises InputError for settings that cannot be used."""
    clock, kube, http = WallClock(), settings.kube, settings.http
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        api = await enter(
            KubeApi.connect(
                kubeconfig=kube.kubeconfig, context=kube.context, clock=clock, qps=kube.qps, burst=kube.burst
            )
        )
        lease_api = await enter(
            KubeApi.connect(kubeconfig=kube.kubeconfig, context=kube.context, clock=clock, at_once=LEASE_AT_ONCE)
        )
        yield Outside(
            clock=clock,
            api=api,
            lease_api=lease_api,
            fitter=await enter(ProcessFitter()),
            audit=await _sink(settings, "audit", stack),
            journal=await _sink(settings, "journal", stack),
            # Our token may do more than read Headroom: where nobody asks who asks, it is not shown.
            peer=await enter(peers(tls=http_tls(settings), introduction=api.introduction if http.authorize else None)),
            reviews=await _reviews(settings, clock, stack),
            prometheus=await enter(querying(_endpoints(settings))),
        )


def http_tls(settings: Settings) -> Tls | None:
    """The files of the HTTP port; None for plain HTTP."""
    tls = settings.http.tls
    return None if tls is None else Tls(tls.cert_file, tls.key_file, tls.ca_file, tls.server_name)


async def _reviews(settings: Settings, clock: WallClock, stack: AsyncExitStack) -> AccessReviews | None:
    if not settings.http.authorize:
        return None
    kube = settings.kube
    api = KubeApi.connect(
        kubeconfig=kube.kubeconfig, context=kube.context, clock=clock, qps=REVIEWS_PER_S, burst=2 * REVIEWS_PER_S,
        at_once=REVIEWS_AT_ONCE,
    )  # fmt: skip
    return AccessReviews(await stack.enter_async_context(api))


async def _sink(settings: Settings, name: str, stack: AsyncExitStack) -> RecordSink:
    """Where lines of the record go."""
    chosen = settings.audit
    if chosen.directory is None:
        return Nowhere()
    try:
        chosen.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"audit.directory: {chosen.directory} cannot be made ({error.strerror}); name another"
        ) from error
    files = RotatedFiles(chosen.directory, name, max_bytes=chosen.max_bytes, keep=chosen.keep)
    return await stack.enter_async_context(files)


def _endpoints(settings: Settings) -> dict[str, Endpoint]:
    return {name: Endpoint(one.url, one.bearer_token_file, one.ca_file) for name, one in settings.prometheus.items()}
