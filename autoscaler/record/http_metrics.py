"""The catalogue of what is told of the HTTP port's certificate: until when it is good, and whether a newer one is.

Enters: the port's figures. Leaves: families of the catalogue.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from autoscaler.record.families import Family, Kind, Metric


@dataclass(frozen=True, slots=True)
class HttpFigures:
    """The certificate with which the HTTP port greets."""

    ends_s: float | None
    """Unix time; None where it cannot be told."""
    refused: bool
    """Whether its files were of no use when somebody connected last, so that an older pair is shown."""


_REFUSED: Final = Metric(
    "headroom_http_certificates_refused",
    Kind.GAUGE,
    "1 while the HTTP port's files are of no use and the pair before them is shown, until it expires.",
)
_ENDS: Final = Metric(
    "headroom_http_certificate_not_after_timestamp_seconds",
    Kind.GAUGE,
    "When the certificate of the HTTP port ends, or the first that leads from it to its authority, as Unix time.",
)

HTTP: Final = (_REFUSED, _ENDS)
"""Both of them."""


def http_families(http: HttpFigures) -> Iterator[Family]:
    """The metrics of a port that has a certificate."""
    yield Family(_REFUSED, {(): float(http.refused)})
    yield Family(_ENDS, {} if http.ends_s is None else {(): http.ends_s})
