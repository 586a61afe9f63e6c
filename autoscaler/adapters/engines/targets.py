"""Where pages are, and which addresses may be asked for one.

An address comes from a pod's status, which whoever runs the pod's node or forges its status controls. So the adapter
asks pods only: never this machine, never the link-local addresses behind which clouds keep credentials, never a group.
"""

import ipaddress
from dataclasses import dataclass

from yarl import URL

METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in (
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42"),
        *("168.63.129.16", "100.100.100.200", "192.0.0.192"),
    )
)
"""Of AWS (and its pod identities), Google, Oracle and Scaleway over IPv6, of Azure, Alibaba and Oracle over IPv4; most
others are link-local."""

_TRANSLATED = tuple(ipaddress.ip_network(prefix) for prefix in ("64:ff9b::/96", "::/96"))
"""Prefixes of IPv6 before an address of IPv4: of NAT64 (RFC 6052), and the old one of RFC 4291."""


@dataclass(frozen=True, slots=True)
class Place:
    """One page: http, an address (not a name), a port and an absolute path with an optional query."""

    ip: str
    port: int
    path: str = "/metrics"


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """A serving pod of a workload (``namespace/name``). `uid` tells a pod from a later one of the same name."""

    workload: str
    pod: str
    uid: str
    ip: str
    port: int
    path: str = "/metrics"
    profile: str = "vllm"
    ready_since_s: float | None = None
    """When it became ready, in the clock's origin; None while it is not."""

    @property
    def place(self) -> Place:
        """Where its page is."""
        return Place(self.ip, self.port, self.path)


@dataclass(frozen=True, slots=True)
class GatewayTarget:
    """A pod of the endpoint picker in front of one workload's pool.

    Pools are told apart by `namespace` and `pool`: a series that carries another pool's or namespace's name is another
    workload's (kubernetes-sigs/gateway-api-inference-extension#2309).
    """

    workload: str
    pod: str
    uid: str
    ip: str
    port: int
    namespace: str
    pool: str
    path: str = "/metrics"
    profile: str = "llm-d-epp"

    @property
    def place(self) -> Place:
        """Where its page is."""
        return Place(self.ip, self.port, self.path)

    @property
    def own(self) -> tuple[tuple[str, str], ...]:
        """The labels that its series carry, if they carry them at all."""
        return (("inference_pool", self.pool), ("namespace", self.namespace), ("target_namespace", self.namespace))


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """A pod of the DCGM exporter; its page speaks of all serving pods of its node."""

    node: str
    pod: str
    uid: str
    ip: str
    port: int = 9400
    path: str = "/metrics"

    @property
    def place(self) -> Place:
        """Where its page is."""
        return Place(self.ip, self.port, self.path)


def objection(place: Place, *, allow_loopback: bool = False) -> str | None:
    """Why nothing is asked of this place, or None. Loopback is for tests; link-local is refused even there."""
    try:
        address = ipaddress.ip_address(place.ip)
    except ValueError:
        return f"{place.ip!r} is not an address"
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return f"{place.ip} names an interface of this machine"
        address = _embedded(address) or address
    if address.is_loopback and not allow_loopback:
        return f"{place.ip} is this machine's own (loopback)"
    for what, wrong in (
        ("link-local", address.is_link_local),
        ("a multicast group", address.is_multicast),
        ("unspecified", address.is_unspecified),
        ("where a cloud keeps its metadata", address in METADATA),
        ("a broadcast address", address == ipaddress.IPv4Address("255.255.255.255")),
    ):
        if wrong:
            return f"{place.ip} is {what}"
    if not 1 <= place.port <= 65535:
        return f"port {place.port} is not between 1 and 65535"
    if not place.path.startswith("/") or place.path.startswith("//") or any(c <= " " for c in place.path):
        return f"path {place.path!r} is not absolute"
    return None


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The address of IPv4 that an address of IPv6 leads to; None for one that leads to none."""
    own = address.is_unspecified or address.is_loopback
    if not own and any(address in prefix for prefix in _TRANSLATED):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def url(place: Place) -> URL:
    """The place as a URL; its path can change neither scheme, address nor port. Call it on unobjectionable places."""
    path, _, query = place.path.partition("?")
    return URL.build(scheme="http", host=place.ip, port=place.port, path=path, query_string=query)
