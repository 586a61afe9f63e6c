"""When a certificate ends: as openssl says, of a chain the first, and unknown where it cannot be read."""

import math
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoscaler.adapters.expiry import not_after_s
from tests.keda.certs import Authority, told_by_openssl

pytestmark = pytest.mark.needs("openssl")


@pytest.mark.parametrize("days", [1, 365, 40_000], ids=["a day", "a year", "beyond 2050, which is written otherwise"])
def test_the_end_is_the_one_that_openssl_tells(tmp_path: Path, days: int) -> None:
    pair = Authority(tmp_path, "ours").sign("headroom", "DNS:headroom-keda", days=days)
    assert not_after_s(pair.cert.read_bytes()) == told_by_openssl(pair.cert)


def test_of_a_chain_the_certificate_counts_that_ends_first(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    leaf = authority.sign("headroom", days=900)
    chain = leaf.cert.read_bytes() + authority.cert.read_bytes()
    assert not_after_s(chain) == told_by_openssl(authority.cert) < told_by_openssl(leaf.cert)


def pem(der: bytes) -> bytes:
    return ssl.DER_cert_to_PEM_cert(der).encode()


@pytest.mark.parametrize("text", [b"", b"no key", b"\xff\xfe", pem(b""), pem(b"0"), pem(b"\x30\x84\xff")], ids=repr)
def test_what_cannot_be_read_is_unknown_and_no_instant(text: bytes) -> None:
    assert not_after_s(text) is None


@given(st.binary(max_size=300))
def test_no_bytes_whatever_end_the_controller(der: bytes) -> None:
    found = not_after_s(pem(der))
    assert found is None or math.isfinite(found)
