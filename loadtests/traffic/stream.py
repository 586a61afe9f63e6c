"""One streamed request to an OpenAI-compatible service.

Enters: what to ask. Leaves: a `Reply`: when the first and the last token came, how many events, and what went wrong.
Every trouble becomes one of the kinds of `Failure` with the service's own words; nothing is raised but a cancellation.
Prompts are random words, one or so tokens each, and differ from the first one on, so that no cache of prefixes hits.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import aiohttp
import msgspec
import numpy as np

from loadtests.traffic.sender import Ask
from loadtests.traffic.tally import Failure, Reply
from loadtests.traffic.target import PATHS, Target

MOST_EVENT_BYTES = 2**20
_TEXT = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work government number night point home water room mother "
    "area money story fact month lot right study book eye job word business issue side kind head house service friend "
    "father power hour game line end member law car city"
)
WORDS = _TEXT.split()

LEAVE_S = 1.0
"""How long a service that said [DONE] may take to end its answer before its connection is given up."""


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: msgspec.Raw | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


class Asking(msgspec.Struct, frozen=True):
    """How requests are written."""

    target: Target
    model: str
    headers: dict[str, str] = {}
    ignore_eos: bool = True
    """Ask vLLM and SGLang for exactly as many tokens as are wanted; services of other makes may refuse the field."""
    bases: tuple[str, ...] = ()
    """Replicas to spread the requests over in the target's place, as `Target.base` writes them."""


class Endpoint:
    """A service as requests see it; used by one event loop. Of several replicas the one with the fewest requests of
    ours open is asked."""

    def __init__(self, asking: Asking, session: aiohttp.ClientSession, rng: np.random.Generator) -> None:
        self.events = 0
        """Of all replies so far."""
        self._asking = asking
        self._session = session
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, int] = {}
        """Requests by replica; one that is asked no more stays until its last has ended."""
        self._bases: tuple[str, ...] = ()
        self._aimed = asyncio.Event()
        self.aim(asking.bases or (asking.target.base,))

    def aim(self, bases: Sequence[str]) -> None:
        """Ask these replicas from now on; while there are none, requests wait."""
        self._bases = tuple(bases)
        self._open = {base: self._open.get(base, 0) for base in {*bases, *(b for b, n in self._open.items() if n)}}
        if bases:
            self._aimed.set()
        else:
            self._aimed.clear()

    async def send(self, ask: Ask, reply: Reply) -> None:
        """Ask, and note in the reply what comes until the stream has ended."""
        while not self._bases:
            await self._aimed.wait()
        base = min(self._bases, key=self._open.__getitem__)
        self._open[base] += 1
        try:
            await self._ask(base + PATHS[self._asking.target.api], ask, reply)
        finally:
            self._open[base] -= 1

    async def _ask(self, url: str, ask: Ask, reply: Reply) -> None:
        try:
            async with self._session.post(url, data=self._body(ask), allow_redirects=False) as response:
                if response.status != 200:
                    words = (await response.content.read(300)).decode("utf-8", "replace")
                    reply.status = response.status
                    _fail(reply, Failure.STATUS, f"HTTP {response.status}: {' '.join(words.split())}")
                elif "event-stream" not in response.headers.get("Content-Type", ""):
                    kind = response.headers.get("Content-Type", "no content type")
                    _fail(reply, Failure.GARBLED, f"{kind} instead of text/event-stream")
                else:
                    await self._read(response.content, reply)
        except aiohttp.ClientConnectorError as error:
            _fail(reply, Failure.UNREACHABLE, str(error))
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientOSError) as error:
            _fail(reply, Failure.CLOSED, f"{type(error).__name__}: {error} ({reply.events} events had come)")
        except aiohttp.ClientError as error:
            _fail(reply, Failure.GARBLED, f"{type(error).__name__}: {error}")

    async def _read(self, content: aiohttp.StreamReader, reply: Reply) -> None:
        rest, ended = b"", False
        while not ended and (data := await content.readany()):
            now_s = self._loop.time()
            rest = (rest + data).replace(b"\r\n", b"\n")
            *events, rest = rest.split(b"\n\n")
            for event in events:
                ended = self._event(event, reply, now_s) or ended
            if len(rest) > MOST_EVENT_BYTES:
                _fail(reply, Failure.GARBLED, f"an event longer than {MOST_EVENT_BYTES} bytes")
            if reply.failure is not None:
                return
        if not ended:
            _fail(reply, Failure.CLOSED, f"the stream ended without [DONE] after {reply.events} events")
            return
        reply.end_s = self._loop.time()
        if not reply.events:
            _fail(reply, Failure.GARBLED, "the stream ended without a token")
        await _to_the_end(content)

    def _event(self, event: bytes, reply: Reply, now_s: float) -> bool:
        """Note one event; whether it is the last."""
        for line in event.split(b"\n"):
            if not line.startswith(b"data:"):
                continue
            payload = line[5:].strip()
            if payload == b"[DONE]":
                return True
            try:
                chunk = _decode(payload)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                _fail(reply, Failure.GARBLED, f"{error}: {payload[:100]!r}")
                return False
            if chunk.error is not None:
                _fail(reply, Failure.GARBLED, f"the stream tells of an error: {bytes(chunk.error)[:300]!r}")
                return False
            if chunk.usage is not None:
                reply.prompt_tokens, reply.output_tokens = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
            if any(_text(choice) for choice in chunk.choices):
                self.events += 1
                reply.events += 1
                reply.last_s = now_s
                if reply.first_s is None:
                    reply.first_s = now_s
        return False

    def _body(self, ask: Ask) -> bytes:
        words = " ".join([WORDS[at] for at in self._rng.integers(0, len(WORDS), ask.prompt_tokens)])
        content: Mapping[str, object] = (
            {"messages": [{"role": "user", "content": words}]}
            if self._asking.target.api == "chat"
            else {"prompt": words}
        )
        extra = {"ignore_eos": True} if self._asking.ignore_eos else {}
        return msgspec.json.encode(
            {
                "model": self._asking.model, **content, "max_tokens": ask.output_tokens, "stream": True,
                "stream_options": {"include_usage": True}, "user": f"tenant-{ask.tenant}", **extra,
            }
        )  # fmt: skip


async def _to_the_end(content: aiohttp.StreamReader) -> None:
    """Read what is left, so that the connection can be used again; one that breaks by now takes nothing from what was
    answered."""
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(LEAVE_S):
            while await content.readany():
                pass


def _text(choice: _Choice) -> str | None:
    delta = choice.delta
    if delta is None:
        return choice.text
    return delta.content or delta.reasoning_content or delta.reasoning


def _fail(reply: Reply, failure: Failure, detail: str) -> None:
    if reply.failure is None:
        reply.failure, reply.detail = failure, detail
