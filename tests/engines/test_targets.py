"""Which places are asked for a page."""

import pytest

from autoscaler.adapters.engines.targets import Place, objection, url

REFUSED = {
    "loopback": ("127.0.0.1", "loopback"),
    "loopback elsewhere in its range": ("127.8.3.1", "loopback"),
    "loopback of IPv6": ("::1", "loopback"),
    "loopback dressed as IPv6": ("::ffff:127.0.0.1", "loopback"),
    "the cloud's credentials": ("169.254.169.254", "link-local"),
    "the cloud's credentials dressed as IPv6": ("::ffff:169.254.169.254", "link-local"),
    "the cloud's credentials behind NAT64": ("64:ff9b::a9fe:a9fe", "link-local"),
    "the cloud's credentials behind a prefix of old": ("::169.254.169.254", "link-local"),
    "the cloud's credentials behind 6to4": ("2002:a9fe:a9fe::1", "link-local"),
    "loopback behind NAT64": ("64:ff9b::7f00:1", "loopback"),
    "the metadata of AWS over IPv6": ("fd00:ec2::254", "metadata"),
    "the metadata of Google over IPv6": ("fd20:ce::254", "metadata"),
    "the wire server of Azure": ("168.63.129.16", "metadata"),
    "the wire server of Azure dressed as IPv6": ("::ffff:168.63.129.16", "metadata"),
    "the metadata of Alibaba": ("100.100.100.200", "metadata"),
    "link-local of IPv6": ("fe80::1", "link-local"),
    "link-local with an interface": ("fe80::1%eth0", "interface"),
    "multicast": ("224.0.0.1", "multicast"),
    "multicast of IPv6": ("ff02::1", "multicast"),
    "no address yet": ("0.0.0.0", "unspecified"),
    "no address yet of IPv6": ("::", "unspecified"),
    "broadcast": ("255.255.255.255", "broadcast"),
    "a name": ("metadata.google.internal", "not an address"),
    "nothing": ("", "not an address"),
    "an address with a port": ("10.0.0.1:80", "not an address"),
    "octal": ("0177.0.0.1", "not an address"),
}


@pytest.mark.parametrize(("ip", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_pods_address_is_refused(ip: str, words: str) -> None:
    assert words in (objection(Place(ip, 8000)) or "")


@pytest.mark.parametrize(
    "ip", ["10.244.3.7", "192.168.9.1", "100.64.0.9", "240.10.0.3", "34.1.2.3", "fd00::17", "64:ff9b::a01:203"]
)
def test_addresses_that_pods_have_are_not(ip: str) -> None:
    assert objection(Place(ip, 8000)) is None


def test_a_test_may_allow_loopback_and_nothing_else() -> None:
    assert objection(Place("127.3.4.5", 80), allow_loopback=True) is None
    assert "link-local" in (objection(Place("169.254.169.254", 80), allow_loopback=True) or "")


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_is_a_port(port: int) -> None:
    assert "port" in (objection(Place("10.0.0.1", port)) or "")


@pytest.mark.parametrize("path", ["metrics", "", "//evil.example/metrics", "/a b", "/a\r\nHost: evil", "@evil.example"])
def test_a_path_is_absolute_and_holds_no_blanks(path: str) -> None:
    assert "path" in (objection(Place("10.0.0.1", 80, path)) or "")


@pytest.mark.parametrize("path", ["/metrics", "/prometheus/metrics?format=text", "/@evil.example:1/#x", "/\\evil"])
def test_a_path_changes_neither_address_nor_port(path: str) -> None:
    made = url(Place("10.0.0.1", 8000, path))
    assert (made.scheme, made.host, made.port, made.user) == ("http", "10.0.0.1", 8000, None)


def test_an_address_of_ipv6_is_put_in_brackets() -> None:
    assert str(url(Place("fd00::17", 8000))) == "http://[fd00::17]:8000/metrics"
