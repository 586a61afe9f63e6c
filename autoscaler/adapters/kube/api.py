"""Requests to the API server: bytes out, bytes in, each inside one deadline and one limit on requests a second.

Enters: method, path, query, body. Leaves: an `Answer`, the lines of a stream, or a `KubeError`; nothing else. It
decodes nothing, knows no resource, and asks again only for whom it was told to: a command's reader that was put off.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

import aiohttp

from autoscaler.adapters.kube.answers import Answer, KubeError, refusal, translated
from autoscaler.adapters.kube.body import GuardedBody
from autoscaler.adapters.kube.connection import Access, Credentials, open_session, read_access
from autoscaler.adapters.kube.limiter import TokenBucket
from autoscaler.adapters.kube.retry import BackoffBounds
from autoscaler.ports import Clock, Fault

__all__ = ["Answer", "KubeApi", "KubeError"]

OPEN_S: Final = 10.0
"""A stream that has not begun by then will not; the API server sends the headers of a watch at once."""

TOLD_APART: Final = frozenset({404, 409, 429})
"""Counted by themselves: resources that a cluster does not have, and objects that somebody else wrote first, are no
trouble; too many requests are another one than the rest."""

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

_PATH: Final = re.compile(r"(/(?!\.{1,2}(/|$))[\w.:~@!$&'()*+,;=-]+)+")
"""No dot segments and nothing to escape: a name taken from a user's object must not lead to another namespace."""


def _always() -> bool:
    return True


class KubeApi:
    """One API server. Made by `connect`; safe to share among all tasks of one event loop."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        access: Access,
        clock: Clock,
        bucket: TokenBucket,
        *,
        at_once: int = 50,
        comes_again: bool = False,
    ) -> None:
        self.server = access.server
        """The base URL, for messages."""
        self._session = session
        self._access = access
        self._credentials = Credentials(access, clock)
        self._bucket = bucket
        self._clock = clock
        self._places = asyncio.Semaphore(at_once)
        """Of requests. Streams have none: they are as many as what is followed, and last."""
        self._comes_again = comes_again
        self.answers: Counter[tuple[str, str]] = Counter()
        """Requests that ended, by method and what came: 2xx, 404, 409, 429, 4xx for all others of these, 5xx, or the
        fault where nothing did."""

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        *,
        kubeconfig: Path | None = None,
        context: str | None = None,
        clock: Clock,
        qps: float = 50.0,
        burst: int = 100,
        at_once: int = 50,
        comes_again: bool = False,
    ) -> AsyncIterator["KubeApi"]:
        """A client for the cluster that `kubeconfig` names, else for the one this pod runs in.

        `qps` requests a second after a `burst`; `at_once` of them at a time, each on a connection of its own as every
        stream is. The server is not spoken to yet. With `comes_again` a GET that the server puts off (429 with a
        Retry-After, as it answers the first reader of a resource) is asked again if its deadline lets it: for commands,
        which have no later look of their own. Raises InputError when the configuration cannot be used.
        """
        access = await read_access(kubeconfig, context)
        async with open_session(access) as session:
            bucket = TokenBucket(clock, qps, burst)
            yield cls(session, access, clock, bucket, at_once=at_once, comes_again=comes_again)

    async def introduction(self) -> str | None:
        """The ``Authorization`` header by which the API server knows this client; None for one with a certificate."""
        return await self._credentials.header()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float = 10.0,
        admit: Callable[[], bool] = _always,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Answer:
        """The answer, if it is 2xx. Waiting for a turn, connecting, sending and reading share `timeout_s`.

        `admit` is asked when its turn has come and again as its body leaves; `headers` are sent besides our own.
        Raises KubeError. After a TIMEOUT or UNAVAILABLE without a status, a write that was `sent` may have been done or
        may still be.
        """
        call = f"{method} {path}"
        guarded = None if body is None else GuardedBody(body, content_type, admit)
        until_s = self._clock.monotonic() + timeout_s
        sent = False
        try:
            with translated(call, timeout_s):
                async with asyncio.timeout(timeout_s):
                    while True:
                        async with self._places:
                            own = await self._turn(call, path, content_type if guarded else "", admit)
                            sent = True
                            async with await self._send(method, path, query, guarded, {**headers, **own}) as response:
                                answer = Answer(response.status, await response.read(), response.headers)
                        again_s = self._again_s(method, answer)
                        if again_s is None or again_s >= until_s:
                            break
                        await self._clock.sleep_until(again_s)
                    self._accept(call, answer)
        except KubeError as error:
            error.sent = sent and not (guarded and guarded.withheld)
            self.answers[method, _class(error)] += 1
            raise
        self.answers[method, "2xx"] += 1
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, query: Sequence[tuple[str, str]] = (), *, idle_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer as they come, each of any length and without its line end.

        Raises KubeError, from here when it does not begin, from the iterator when it breaks: TIMEOUT when no line was
        completed for `idle_s`, UNAVAILABLE when it was cut, which includes an end in the middle of a line.
        """
        call = f"GET {path}"
        open_s = min(idle_s, OPEN_S)
        with translated(call, open_s):
            async with asyncio.timeout(open_s):
                headers = await self._turn(call, path, "", _always)
                response = await self._send("GET", path, query, None, headers)
        try:
            if not 200 <= response.status < 300:
                with translated(call, open_s):
                    async with asyncio.timeout(open_s):
                        answer = Answer(response.status, await response.read(), response.headers)
                raise self._refusal(call, answer)
            async with aclosing(_lines(call, response.content, idle_s)) as lines:
                yield lines
        finally:
            response.close()

    async def _turn(self, call: str, path: str, content_type: str, admit: Callable[[], bool]) -> dict[str, str]:
        """Wait until a request may be sent, and ask whether it still shall be; its headers."""
        if not _PATH.fullmatch(path):
            raise KubeError(Fault.INVALID, f"{call}: not the path of an object")
        await self._bucket.take()
        headers = {"Content-Type": content_type} if content_type else {}
        authorization = await self._credentials.header()
        if authorization:
            headers["Authorization"] = authorization
        if not admit():
            raise _withheld(call)
        return headers

    async def _send(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        body: GuardedBody | None,
        headers: dict[str, str],
    ) -> aiohttp.ClientResponse:
        try:
            return await self._session.request(
                method,
                self.server + path,
                params=list(query),
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=self._access.proxy,
                server_hostname=self._access.tls_name,
            )
        except aiohttp.ClientError as error:
            if body is not None and body.withheld:
                raise _withheld(f"{method} {path}") from error
            raise

    def _again_s(self, method: str, answer: Answer) -> float | None:
        """When to ask again, on the clock; None for never."""
        if not self._comes_again or method != "GET" or answer.status != 429:
            return None
        asked_s = refusal(method, answer.status, answer.headers, answer.body).retry_after_s
        return None if asked_s is None else self._clock.monotonic() + max(asked_s, BackoffBounds().floor_s)

    def _accept(self, call: str, answer: Answer) -> None:
        if not 200 <= answer.status < 300:
            raise self._refusal(call, answer)

    def _refusal(self, call: str, answer: Answer) -> KubeError:
        error = refusal(call, answer.status, answer.headers, answer.body)
        if answer.status != 401:
            return error
        self._credentials.refused()
        if not self._credentials.problem:
            return error
        return KubeError(
            error.fault, f"{error}; credentials: {self._credentials.problem}", status=error.status, reason=error.reason
        )


def _withheld(call: str) -> KubeError:
    return KubeError(Fault.DENIED, f"{call}: not sent: it was allowed no more when its turn came")


def _class(error: KubeError) -> str:
    if error.status is None:
        return error.fault.value
    return str(error.status) if error.status in TOLD_APART else f"{error.status // 100}xx"


async def _lines(call: str, content: aiohttp.StreamReader, idle_s: float) -> AsyncGenerator[bytes, None]:
    parts: list[bytes] = []
    while True:
        with translated(f"{call}: stream", idle_s):
            async with asyncio.timeout(idle_s):
                chunk = await content.readany()
                while chunk and b"\n" not in chunk:
                    parts.append(chunk)
                    chunk = await content.readany()
        first, *others = chunk.split(b"\n")
        parts.append(first)
        if not others:
            break
        yield b"".join(parts)
        for line in others[:-1]:
            yield line
        parts = [others[-1]]
    if any(parts):
        raise KubeError(Fault.UNAVAILABLE, f"{call}: the stream ended in the middle of a line")
