"""Adapters of one replica as the settings want them."""

import socket
from collections.abc import Callable

from autoscaler.adapters.engines.scraper import Scraper
from autoscaler.adapters.kube.intake import Most
from autoscaler.adapters.kube.lease import Elector
from autoscaler.adapters.kube.replicas import News
from autoscaler.adapters.kube.scope import Scope
from autoscaler.adapters.kube.store import ConfigMapStore, Stored
from autoscaler.adapters.web.peer import address_of
from autoscaler.api.claims import Kind
from autoscaler.app.outside import Outside
from autoscaler.app.stores import PATIENCE_S, Patient
from autoscaler.ports import Clock
from autoscaler.settings.model import Settings


def elector(settings: Settings, outside: Outside, identity: str) -> Elector:
    """The elector of the replica `identity`."""
    lease, http = settings.lease, settings.http
    return Elector(
        outside.lease_api,
        namespace=settings.namespace,
        name=lease.name,
        identity=identity,
        address=address_of(http.advertised_host or socket.gethostname(), http.port, secure=http.tls is not None),
        clock=outside.clock,
        lease_s=lease.duration_s,
        renew_s=lease.renew_s,
        deadline_s=lease.deadline_s,
    )


def kept(
    settings: Settings, outside: Outside, what: Stored, may_write: Callable[[], bool], patience_s: float = PATIENCE_S
) -> Patient:
    """What whoever leads by the settings' lease keeps of one thing; it is asked for during `patience_s`."""
    prefix = what.prefix(settings.lease.name)
    store = ConfigMapStore(outside.api, settings.namespace, prefix, may_write)
    return Patient(store, outside.clock, prefix, patience_s)


def scraper(settings: Settings, clock: Clock, news: News) -> Scraper:
    """The reader of metrics pages, which tells `news`."""
    scrape = settings.scrape
    return Scraper(
        clock=clock,
        on_news=news.tell,
        interval_s=scrape.interval_s,
        timeout_s=scrape.timeout_s,
        cap_bytes=scrape.max_bytes,
        allow_loopback=settings.allow_loopback_targets,
    )


def scope(settings: Settings) -> Scope:
    """What of the cluster is followed."""
    return Scope(
        kinds=tuple(Kind(k.group, k.version, k.resource, k.kind) for k in settings.kinds),
        namespaces=settings.watch_namespaces,
        own_namespace=settings.namespace,
        freeze_config_map=settings.freeze_config_map,
        most=Most(settings.limits.namespace_workloads, settings.limits.workloads),
        gateway_namespaces=tuple(
            part.namespace for part in (*settings.gateways.values(), settings.gpu_exporter) if part is not None
        ),
        keda_addresses=settings.keda_addresses,
    )
