"""The part of the settings that concerns KEDA: where it asks, who may, and which ScaledObjects mean us."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from autoscaler.settings.parts import NO_SWITCH, Label, Part, Port


class KedaTls(Part):
    """Certificates of the server that KEDA calls; the files are read again when they change."""

    cert_file: Path
    """The server's certificate in PEM, with what leads to its authority."""
    key_file: Path
    client_ca_file: Path | None = None
    """The authority of those that may call, who must then show a certificate of it; none: anybody may."""
    client_names: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=253)], ...], Field(max_length=100)] = ()
    """Names in certificates (alternative names or common name) that may call; none: all of the authority's."""

    @model_validator(mode="after")
    def _names_are_of_an_authority(self) -> Self:
        if self.client_names and self.client_ca_file is None:
            raise ValueError("client_names are given without client_ca_file; give the authority that vouches for them")
        return self


HostAndPort = Annotated[
    str,
    Field(
        pattern=r"^(dns:///)?[A-Za-z0-9.\-\[\]:]+:\d{1,5}$",
        max_length=300,
        json_schema_extra={"legal": "a host and a port, such as headroom-keda.headroom-system:8090"},
    ),
]


class Keda(Part):
    """Where KEDA's operator asks for replica counts, and which ScaledObjects mean us."""

    enabled: bool = False
    """Whether KEDA may ask for counts; takes `tls`, or `plaintext`."""
    host: Annotated[str, Field(min_length=1, max_length=253)] = "::"
    """The default is every address of the pod, IPv4 and IPv6; where there is no IPv6, every one of IPv4."""
    port: Port = 8090
    """Where KEDA asks, over gRPC."""
    tls: KedaTls | None = None
    """None only with `plaintext`."""
    plaintext: bool = False
    """Speak without encryption, to whoever reaches the port."""
    service: Label = "headroom-keda"
    """The Service in front of the replica that leads; a trigger's scalerAddress names it."""
    addresses: Annotated[tuple[HostAndPort, ...], Field(max_length=100)] = ()
    """Further spellings of scalerAddress that mean us, where the Service's own names are not used."""
    hold_s: Annotated[float, Field(ge=10, le=3600), NO_SWITCH] = 120.0
    """How long the last good count is told while metrics cannot be read; then KEDA's own fallback has its turn."""
    max_streams: Annotated[int, Field(ge=1, le=100_000), NO_SWITCH] = 4096
    """Streams of external-push triggers at once, two for each; 30 kB of memory per stream."""

    @model_validator(mode="after")
    def _is_encrypted_or_meant_not_to_be(self) -> Self:
        if self.enabled and self.tls is None and not self.plaintext:
            raise ValueError(
                "enabled without tls; give tls.cert_file and tls.key_file, or plaintext: true to speak unencrypted"
            )
        if self.tls is not None and self.plaintext:
            raise ValueError("tls and plaintext: true contradict each other; leave one out")
        return self
