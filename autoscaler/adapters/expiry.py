"""Until when certificates are good: the one thing in a file of them that Python's own library does not tell.

Enters: certificates in PEM. Leaves: the instant at which the first of them ends. It reads RFC 5280's Certificate in DER
as far as its validity and refuses to know what else one says; whether one is sound is OpenSSL's to judge.
"""

import re
import ssl
from datetime import UTC, datetime
from typing import Final

_BLOCK: Final = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)

_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
"""With two digits for the year, of which 50 to 99 are of the last century; GeneralizedTime has four."""


def not_after_s(pem: bytes) -> float | None:
    """The end of the certificate that ends first, in Unix seconds; None where it cannot be read."""
    blocks = _BLOCK.findall(pem.decode(errors="replace"))
    try:
        return min((_end_s(ssl.PEM_cert_to_DER_cert(block)) for block in blocks), default=None)
    except (ValueError, IndexError):
        return None


def _end_s(der: bytes) -> float:
    _, at, _ = _element(der, 0)  # Certificate
    _, at, _ = _element(der, at)  # TBSCertificate
    tag, _, after = _element(der, at)
    if tag == _VERSION:
        _, _, after = _element(der, after)  # serial number, which is first where there is no version
    for _ in range(2):  # signature, issuer
        _, _, after = _element(der, after)
    _, begin, _ = _element(der, after)  # Validity
    _, _, after = _element(der, begin)  # notBefore
    tag, begin, end = _element(der, after)
    text = der[begin:end].decode("ascii")
    if tag == _UTC_TIME:
        text = ("20" if text < "50" else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """The tag of the element at `at`, where its content begins, and where it ends."""
    tag, length, begin = der[at], der[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, begin = int.from_bytes(der[begin : begin + size], "big"), begin + size
    return tag, begin, begin + length
