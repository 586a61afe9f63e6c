"""Where a Prometheus is: named in the settings by the administrator, never in a policy."""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from autoscaler.errors import InputError
from autoscaler.ports import Fault, PortError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server of Prometheus' HTTP API. Raises InputError for a URL that cannot be one."""

    url: str
    """Its base, ``http`` or ``https``, with the prefix of a query frontend if there is one."""
    token_file: Path | None = None
    """Holds a bearer token; read for every query, because tokens rotate."""
    ca_file: Path | None = None
    """Certificates (PEM) that its own is checked against; none: the system's."""
    namespace_label: str = "namespace"
    pod_label: str = "pod"
    """What the scraped series call the pod they are of."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InputError(f"Prometheus endpoint {self.url!r}: write http://host:port or https://host:port")
        if parts.username or parts.query or parts.fragment:
            raise InputError(f"Prometheus endpoint {parts.hostname}: a token belongs in a file, queries are made here")

    def api(self, path: str) -> str:
        """The address of an API path."""
        return f"{self.url.rstrip('/')}/api/v1/{path}"

    def tls(self) -> ssl.SSLContext | None:
        """What its certificate is checked with; None where the system's own certificates do. Raises InputError."""
        if self.ca_file is None:
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise InputError(f"Prometheus endpoint {self.url}: no certificates in {self.ca_file}: {error}") from error

    async def headers(self) -> dict[str, str]:
        """What to send along. Raises PortError when the token cannot be read."""
        if self.token_file is None:
            return {}
        try:
            token = await asyncio.to_thread(self.token_file.read_text, encoding="ascii")
        except (OSError, ValueError) as error:
            raise PortError(Fault.DENIED, f"the token for {self.url} cannot be read: {error}") from error
        return {"Authorization": f"Bearer {token.strip()}"}
