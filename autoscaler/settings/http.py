"""The part of the settings that concerns the HTTP port: where it is, with which certificate, and who may ask."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from autoscaler.settings.parts import ObjectName, Part, Port


class HttpTls(Part):
    """Certificate of the HTTP server; the files are read again when they change."""

    cert_file: Path
    """The server's certificate in PEM, with what leads to its authority."""
    key_file: Path
    ca_file: Path | None = None
    """The authority that the other replica's certificate is checked against; none: the system's."""
    server_name: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The name in the certificate by which the other replica knows it; none: the address that the lease gives."""


class Http(Part):
    """Where the process serves its metrics, its health and its answers to ``headroom explain``."""

    host: Annotated[str, Field(min_length=1, max_length=253)] = "::"
    """The default is every address of the pod, IPv4 and IPv6; where there is no IPv6, every one of IPv4."""
    port: Port = 8080
    """Metrics, health, the page, and what our own commands and gateways ask."""
    advertised_host: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Under which address the other replica reaches this one (the pod's IP); none: the machine's host name."""
    allowed_hosts: Annotated[tuple[ObjectName, ...], Field(max_length=100)] = ()
    """Further host names, without port, under which answers may be asked for: a load balancer's or an ingress's. An
    address, a name without a dot and the names of the cluster's own services are let in always; in a namespace of two
    letters, which a country's domain may have as well, those that end in `.svc` or `.cluster.local`."""
    tls: HttpTls | None = None
    """None: plain HTTP."""
    authorize: bool = False
    """Whether who asks must show a token of the cluster, as bearer or as a browser's password, whose account may `get`
    ``/metrics``, or the path that is asked for below ``/headroom`` (RBAC: nonResourceURLs). The two probes are answered
    to anybody. Needs `tls`."""
    reader: ObjectName = "headroom-reader"
    """The ServiceAccount of Headroom's namespace as which our own commands ask, where they are asked who they are."""

    @model_validator(mode="after")
    def _tokens_are_shown_over_tls(self) -> Self:
        if self.authorize and self.tls is None:
            raise ValueError(
                "authorize without tls: tokens could be read on their way; give tls.cert_file and key_file"
            )
        return self
