"""Where the load may go: this machine, and what was named on purpose.

Enters: a URL as a person writes it, the hosts they allowed. Leaves: a `Target`, or an InputError. Only literal loopback
addresses and `localhost` count as this machine; what a name resolves to can change while the load runs.
"""

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec

from autoscaler.errors import InputError

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}


class Target(msgspec.Struct, frozen=True):
    """A service: `base` without the path of an API, and the API."""

    base: str
    api: str = "completions"
    """A key of `PATHS`."""

    @property
    def url(self) -> str:
        """What requests are posted to."""
        return self.base + PATHS[self.api]

    @property
    def models_url(self) -> str:
        """What tells the models."""
        return self.base + "/v1/models"


def parse_target(text: str, *, api: str | None, allowed: Collection[str]) -> Target:
    """The service at a URL, which may end in the path of an API; `api` beats that. InputError says what is wrong."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"{text}: no URL ({error})") from error
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment or parts.username:
        raise InputError(f"{text}: write http://HOST:PORT or https://HOST:PORT, without user, query and fragment")
    if not (_loopback(host) or host in allowed):
        raise InputError(
            f"{text}: {host} is not this machine; load is sent to other hosts only when they are named: "
            f"--allow-host {host}"
        )
    path = parts.path.rstrip("/")
    found = next((name for name, known in PATHS.items() if path.endswith(known)), None)
    path = path.removesuffix(PATHS[found] if found else "/v1")
    return Target(f"{parts.scheme}://{parts.netloc}{path}", api or found or "completions")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
