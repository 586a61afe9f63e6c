"""The catalogue of what is told of KEDA: the server that it asks, and what its HPAs make of the numbers.

Enters: the server's figures. Leaves: families of the catalogue.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from autoscaler.record.families import OWNER, Family, Kind, Metric, owner


@dataclass(frozen=True, slots=True)
class KedaFigures:
    """What the server that KEDA asks has done since it started."""

    calls: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By method and gRPC status code, such as ("GetMetrics", "OK")."""
    streams: int = 0
    pushed: int = 0
    held: int = 0
    certificates: int = 0
    certificates_refused: bool = False
    certificate_ends_s: float | None = None
    """Unix time; None without a certificate, or where its end cannot be told."""
    plaintext: bool = False
    hpa: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """By workload the count that its HPA makes of the last number, and codes of what keeps it from that number."""


_KEDA_CALLS: Final = Metric(
    "headroom_keda_calls_total", Kind.COUNTER, "Calls of KEDA's external scaler that ended.", ("method", "code")
)
_KEDA_STREAMS: Final = Metric("headroom_keda_streams", Kind.GAUGE, "Streams that KEDA has open.")
_KEDA_PUSHED: Final = Metric("headroom_keda_pushed_total", Kind.COUNTER, "Messages pushed to KEDA.")
_KEDA_HELD: Final = Metric(
    "headroom_keda_held_total", Kind.COUNTER, "Values told that were the last good ones, for want of metrics."
)
_KEDA_CERTIFICATES: Final = Metric(
    "headroom_keda_certificates_total", Kind.COUNTER, "Times that the certificates were read."
)
_KEDA_REFUSED: Final = Metric(
    "headroom_keda_certificates_refused",
    Kind.GAUGE,
    "1 while the certificates' files are of no use and the pair before them is shown, until it expires.",
)
_KEDA_ENDS: Final = Metric(
    "headroom_keda_certificate_not_after_timestamp_seconds",
    Kind.GAUGE,
    "When the certificate that KEDA is shown ends, or the first that leads from it to its authority, as Unix time.",
)
_KEDA_PLAINTEXT: Final = Metric(
    "headroom_keda_plaintext", Kind.GAUGE, "1 while KEDA is answered without encryption: whoever reaches it may ask."
)
_HPA: Final = Metric(
    "headroom_hpa_replicas", Kind.GAUGE, "Replicas that the HPA makes of the number that KEDA was told last.", OWNER
)
_HPA_LIMIT: Final = Metric(
    "headroom_hpa_limit", Kind.GAUGE, "1 for what keeps the HPA from the number that KEDA was told.", (*OWNER, "limit")
)

KEDA: Final = (
    _KEDA_CALLS, _KEDA_STREAMS, _KEDA_PUSHED, _KEDA_HELD, _KEDA_CERTIFICATES, _KEDA_REFUSED, _KEDA_ENDS,
    _KEDA_PLAINTEXT, _HPA, _HPA_LIMIT,
)  # fmt: skip
"""Every metric of KEDA's side."""


def keda_families(keda: KedaFigures) -> Iterator[Family]:
    """The metrics of KEDA's side."""
    yield Family(_KEDA_CALLS, {labels: float(count) for labels, count in keda.calls.items()})
    yield Family(_KEDA_STREAMS, {(): keda.streams})
    yield Family(_KEDA_PUSHED, {(): keda.pushed})
    yield Family(_KEDA_HELD, {(): keda.held})
    yield Family(_KEDA_CERTIFICATES, {(): keda.certificates})
    yield Family(_KEDA_REFUSED, {(): float(keda.certificates_refused)})
    ends_s = keda.certificate_ends_s
    yield Family(_KEDA_ENDS, {} if ends_s is None else {(): ends_s})
    yield Family(_KEDA_PLAINTEXT, {(): float(keda.plaintext)})
    yield Family(_HPA, {owner(workload): float(replicas) for workload, (replicas, _) in keda.hpa.items()})
    limits = ((owner(workload), code) for workload, (_, codes) in keda.hpa.items() for code in codes)
    yield Family(_HPA_LIMIT, {(*labels, code): 1.0 for labels, code in limits})
