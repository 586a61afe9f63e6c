"""KEDA's side of one replica of the controller: what it is answered, where it asks, and how it finds the leader.

Enters: settings, the books of claims, the driver's steps. Leaves: a gRPC server from the first second, whose numbers
begin with the lead, and a label on the leader's pod. Where the settings leave KEDA out, nothing of it is there.
"""

import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import structlog

from autoscaler.adapters.keda.beside import Beside
from autoscaler.adapters.keda.certificates import Tls
from autoscaler.adapters.keda.counts import Counts
from autoscaler.adapters.keda.server import Listen
from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.cluster import Cluster
from autoscaler.adapters.kube.leader_label import LeaderLabel
from autoscaler.adapters.kube.writing import Requests
from autoscaler.api.claims import Claim
from autoscaler.app.guard import Guard
from autoscaler.app.hpa import HpaPreviews
from autoscaler.app.hpa_sight import Followed
from autoscaler.app.keda import Books, KedaAnswers
from autoscaler.ports import Clock
from autoscaler.record.keda_metrics import KedaFigures
from autoscaler.runtime.records import Feed
from autoscaler.settings.model import Settings

LOG: Final = structlog.get_logger("headroom")


class KedaSide:
    """Everything of one replica that KEDA meets. `hold` is told where an HPA will not follow, with why."""

    def __init__(
        self,
        settings: Settings,
        api: Requests,
        books: Books,
        clock: Clock,
        guard: Guard,
        *,
        cluster: Cluster,
        hold: Callable[[Claim, str], None],
    ) -> None:
        self._settings = settings.keda
        self._api = api
        self._clock = clock
        self._sight = Followed(cluster)
        self._counts = Counts()
        self._server = Beside(clock, self._counts)
        previews = HpaPreviews(self._sight, clock, guard, hold)
        self.answers = KedaAnswers(books, self._server.tell, clock, previews, guard=guard, hold_s=settings.keda.hold_s)
        self._label = LeaderLabel(
            api,
            clock,
            namespace=settings.namespace,
            pod=settings.identity or socket.gethostname(),
            leading=lambda: books.leading,
        )

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve for the length of the block. Raises InputError."""
        keda = self._settings
        if not keda.enabled:
            yield
            return
        given, files = keda.tls, None
        if given is not None:
            files = Tls(given.cert_file, given.key_file, given.client_ca_file, frozenset(given.client_names))
        listen = Listen(keda.host, keda.port, files, keda.max_streams)
        async with self._server.serving(listen, self.answers) as port:
            LOG.info(
                "the port for KEDA is open; the leader gives numbers",
                host=keda.host,
                port=port,
                encrypted=files is not None,
            )
            yield

    def works(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What runs as long as the replica does."""
        if not self._settings.enabled:
            return {}
        return {"keda-label": self._label.run(), "keda-version": self._sight.learn(self._api, self._clock)}

    async def lead(self, feed: Feed) -> None:
        """Give numbers, from the steps on the feed, until it ends."""
        await self.answers.run(feed)

    async def hand_over(self) -> None:
        """Let go of the callers before the lead is given back: they ask the next leader."""
        if not self._settings.enabled:
            return
        self._server.end_streams()
        try:
            await self._label.drop()
        except KubeError as error:
            LOG.warning("the pod keeps the leader's label", why=str(error))

    def figures(self) -> KedaFigures | None:
        """What the server has done, for the metrics; None where there is none."""
        if not self._settings.enabled:
            return None
        counts = self._counts
        return KedaFigures(
            calls=dict(counts.calls),
            streams=counts.streams,
            pushed=counts.pushed,
            held=counts.held,
            certificates=counts.certificates,
            certificates_refused=counts.certificates_refused,
            certificate_ends_s=counts.certificate_ends_s,
            plaintext=self._settings.tls is None,
            hpa=self.answers.previews.figures(),
        )
