"""Which host names a request may name, so that a foreign web page cannot read answers by pointing its name here.

Enters: a ``Host`` header. Leaves: whether only whoever reached this server can have meant it. A page is let in by its
own site's name, which is public; so addresses, names without a dot, names of the cluster's own services and names from
the settings are let in, and nothing else (DNS rebinding). The API server's proxy passes the name under which it was
asked itself: our commands say by a header that they are no page, for no script may set one that begins with ``Sec-``
(fetch.spec.whatwg.org, forbidden request-header).
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Final

NO_PAGE: Final[Mapping[str, str]] = {"Sec-Headroom": "command"}
"""What our own commands and replicas send."""

INTRODUCTION: Final = "Sec-Headroom-Token"
"""In which our own commands show a token; the API server's proxy keeps the usual one for itself."""

COUNTRY: Final = 2
"""Letters of a country's domain."""

_NAME: Final = re.compile(r"[a-z0-9.-]+")
_CLUSTER: Final = (".svc", ".cluster.local")


class Hosts:
    """The names of one installation in `namespace`; `names` are further ones, without port.

    SERVICE.NAMESPACE is let in, but not where the namespace has two letters: each such word is, or may become, a
    country's domain (ISO 3166; ai and ml are), in which anybody has a name. SERVICE.NAMESPACE.svc is let in always.
    """

    def __init__(self, namespace: str = "", names: Iterable[str] = ()) -> None:
        self._namespace = namespace
        self._names = frozenset(name.lower() for name in names)

    def admits(self, headers: Mapping[str, str]) -> bool:
        """Whether a request with these headers can have been meant for this server."""
        host = headers.get("Host", "")
        return self.named(host) or all(headers.get(name) == value for name, value in NO_PAGE.items())

    def named(self, host: str) -> bool:
        """Whether a ``Host`` header, with or without a port, names this server and can name no public site."""
        name = (host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host).lower().rstrip(".")
        try:
            return bool(ipaddress.ip_address(name.strip("[]")))
        except ValueError:
            service, _, rest = name.partition(".")
            inside = (rest == self._namespace and len(rest) != COUNTRY) or name.endswith(_CLUSTER)
            return bool(service) and _NAME.fullmatch(name) is not None and (not rest or inside or name in self._names)
