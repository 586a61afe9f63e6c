"""Who may ask: whoever shows a token of the cluster whose account may `get` the path, as RBAC says it.

Enters: the headers of a request. Leaves: nothing, or `RefusedError` with what to do. What the API server said stands
for a minute, a no for ten seconds; while the API server cannot be asked an earlier yes stands for ten minutes, so that
metrics do not go dark in the very outage that they tell of. Tokens are kept as digests only, and no more than a bound.
Whoever shows token after token waits with no more than a few of them; what is beyond is refused unasked. Who was let in
before is none of these: one question looks each earlier yes up again, and whoever comes meanwhile is let in by it.

Every account of a cluster may get ``/api/*``, which is the API server's own (its ClusterRole system:discovery). So all
but ``/metrics``, which roles for Prometheus name everywhere, is asked about below ``/headroom``.

The API server's proxy takes the ``Authorization`` header for its own and passes it on to nobody (kubernetes/kubernetes,
staging/src/k8s.io/apiserver/pkg/endpoints/filters/authentication.go): our commands show theirs in another one.
"""

import base64
import hashlib
import re
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from autoscaler.adapters.web.asked import RefusedError
from autoscaler.adapters.web.hosts import INTRODUCTION
from autoscaler.ports import Clock, PortError

PREFIX: Final = "/headroom"
YES_S: Final = 60.0
NO_S: Final = 10.0
UNASKED_S: Final = 600.0
"""How long a yes stands while nobody can be asked."""

MOST_KEPT: Final = 4096
MOST_AT_ONCE: Final = 8
"""Questions of one address on their way to the API server, about what was not allowed before. It is asked at a bounded
pace by all callers together, first come first served: so nobody waits behind more than these of each other address."""

_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the API server says of a token: whose it is, None for nobody's, and whether that account may."""

    user: str | None
    allowed: bool = False


Review = Callable[[str, str], Awaitable[Verdict]]
"""Token and path to a verdict. Raises PortError."""

_Key = tuple[bytes, str]
"""A token's digest, and a path."""


@dataclass(frozen=True, slots=True)
class _Kept:
    verdict: Verdict
    at_s: float

    def stands(self, now_s: float) -> bool:
        return now_s < self.at_s + (YES_S if self.verdict.allowed else NO_S)


class Door:
    """Asks `review` as seldom as it can. `reader` is whose token a person takes, as NAMESPACE/NAME, for messages."""

    def __init__(self, review: Review, clock: Clock, reader: str) -> None:
        self._review = review
        self._clock = clock
        self._reader = reader
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._asking: Counter[str | _Key] = Counter()
        """By address, or by what is looked up again."""

    async def admit(self, headers: Mapping[str, str], path: str, address: str) -> None:
        """Return where whoever sends these headers from `address` may get `path`. Raises RefusedError."""
        token = shown(headers)
        if token is None:
            raise RefusedError(401, f"who asks? {self._remedy()}")
        path = named(path)
        verdict = await self._verdict(token, path, address)
        if verdict.user is None:
            raise RefusedError(401, f"this token is not, or no longer, one of this cluster's; {self._remedy()}")
        if not verdict.allowed:
            raise RefusedError(
                403, f"{verdict.user} may not get {path[:200]}: grant it the verb get on this path (nonResourceURLs in "
                "a ClusterRole), or bind it to the chart's ClusterRole whose name ends in -reader",
            )  # fmt: skip

    async def _verdict(self, token: str, path: str, address: str) -> Verdict:
        key = hashlib.sha256(token.encode()).digest(), path
        kept = self._kept.get(key)
        if kept is not None and kept.stands(self._clock.monotonic()):
            return kept.verdict
        earlier = self._earlier(kept)
        counted, most = (address, MOST_AT_ONCE) if earlier is None else (key, 1)
        if self._asking[counted] >= most:
            if earlier is not None:
                return earlier
            words = f"{MOST_AT_ONCE} other questions from {address} are being looked up; ask again in a second"
            raise RefusedError(429, words)
        self._asking[counted] += 1
        try:
            verdict = await self._review(token, path)
        except PortError as error:
            earlier = self._earlier(kept)
            if earlier is not None:
                return earlier
            raise RefusedError(503, f"whether you may ask could not be looked up: {error}") from error
        finally:
            self._asking[counted] -= 1
            if not self._asking[counted]:
                del self._asking[counted]
        self._kept[key] = _Kept(verdict, self._clock.monotonic())
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return verdict

    def _earlier(self, kept: _Kept | None) -> Verdict | None:
        """The yes that stands while nobody can be asked."""
        if kept is None or not kept.verdict.allowed or self._clock.monotonic() >= kept.at_s + UNASKED_S:
            return None
        return kept.verdict

    def _remedy(self) -> str:
        namespace, _, name = self._reader.partition("/")
        return (
            f"take one by kubectl -n {namespace} create token {name}, and show it as a bearer, in HEADROOM_TOKEN for "
            "headroom's own commands, or as the password in a browser, with any name"
        )


def named(path: str) -> str:
    """What a path is called in roles."""
    return path if path == "/metrics" else f"{PREFIX}{path}"


def shown(headers: Mapping[str, str]) -> str | None:
    """The token in these headers: our own one, a bearer's, or the password of a browser; None where there is none."""
    token = headers.get(INTRODUCTION)
    if token is None:
        scheme, _, rest = headers.get("Authorization", "").partition(" ")
        token = rest.strip() if scheme.lower() == "bearer" else None
        if scheme.lower() == "basic":
            try:
                token = base64.b64decode(rest.strip(), validate=True).decode().partition(":")[2]
            except ValueError:  # neither base64 nor UTF-8, or not even ASCII
                return None
    return token if token and _TOKEN.fullmatch(token) else None
