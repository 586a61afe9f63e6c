"""The OpenAI-compatible side of an engine: completions and chat, streamed or whole, models, health and metrics.

Enters: HTTP requests. Leaves: server-sent events as the engine emits tokens, each token its own event. A word of a
prompt is a token, as is each number of a prompt given in tokens; what is generated is always the same word. A client
that leaves takes its request out of the engine. It knows nothing of addresses, faults and warm-up; `Gate` tells
whether to answer.
"""

import itertools
from contextlib import suppress
from typing import Literal, Protocol

import msgspec
from aiohttp import ClientConnectionResetError, web

from loadtests.engines.engine import Engine, Stream
from loadtests.engines.pages import PAGES

MOST_BODY_BYTES = 16 * 2**20
DEFAULT_TOKENS = 16
"""Of a request that does not say: OpenAI's own default for completions."""

WORD = " word"
END = b"data: [DONE]\n\n"


class Gate(Protocol):
    """What is in front of the engine."""

    async def admitted(self) -> None:
        """Return once an answer may be given: never, while the server hangs."""
        ...

    @property
    def ready(self) -> bool:
        """Whether the engine takes requests; while it does not, health is 503."""
        ...


class _Options(msgspec.Struct):
    include_usage: bool = False


class _Message(msgspec.Struct):
    content: str | list[dict[str, object]] | None = None


class _Ask(msgspec.Struct):
    """What is read of a request; everything else in it is allowed and of no effect."""

    model: str | None = None
    prompt: str | list[str | int] | None = None
    messages: list[_Message] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream: bool = False
    stream_options: _Options | None = None
    n: int = 1

    @property
    def prompt_tokens(self) -> int:
        """At least one, as an engine adds a token of its own in front."""
        if self.messages is not None:
            texts = [message.content for message in self.messages]
            return max(1, sum(len(str(text).split()) for text in texts))
        if isinstance(self.prompt, str):
            return max(1, len(self.prompt.split()))
        return max(1, sum(len(each.split()) if isinstance(each, str) else 1 for each in self.prompt or ()))

    @property
    def output_tokens(self) -> int:
        for asked in (self.max_completion_tokens, self.max_tokens):
            if asked is not None:
                return asked
        return DEFAULT_TOKENS


Kind = Literal["text_completion", "chat.completion"]


class Api:
    """The routes of one engine."""

    def __init__(self, engine: Engine, gate: Gate, *, model: str, pages: str) -> None:
        self._engine = engine
        self._gate = gate
        self._model = model
        self._pages = pages
        self._numbers = itertools.count(1)
        self._decoder = msgspec.json.Decoder(_Ask)

    def application(self) -> web.Application:
        """What is served."""
        app = web.Application(client_max_size=MOST_BODY_BYTES)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def _health(self, _: web.Request) -> web.Response:
        await self._gate.admitted()
        return web.Response(status=200 if self._gate.ready else 503)

    async def _models(self, _: web.Request) -> web.Response:
        await self._gate.admitted()
        row = {"id": self._model, "object": "model", "created": 0, "owned_by": "loadtests"}
        return _json({"object": "list", "data": [row]})

    async def _metrics(self, _: web.Request) -> web.Response:
        await self._gate.admitted()
        text = PAGES[self._pages](self._engine, self._model)
        return web.Response(body=text.encode(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "text_completion")

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, "chat.completion")

    async def _answer(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        body = await request.read()
        await self._gate.admitted()
        if not self._gate.ready:
            return _refused(503, "the engine is warming up")
        try:
            ask = self._decoder.decode(body)
        except msgspec.DecodeError as error:
            return _refused(400, str(error))
        wrong = self._wrong(ask, kind)
        if wrong is not None:
            return _refused(*wrong)
        stream = self._engine.submit(ask.prompt_tokens, ask.output_tokens)
        words = _Words(f"cmpl-{next(self._numbers)}", kind, self._model)
        try:
            if ask.stream:
                return await self._streamed(request, stream, words, ask)
            while await stream.more():
                pass
            if stream.lost:
                return _refused(500, "the engine died")
            return _json(words.whole(ask))
        finally:
            self._engine.cancel(stream)

    def _wrong(self, ask: _Ask, kind: Kind) -> tuple[int, str] | None:
        if ask.model not in {None, self._model}:
            return 404, f"The model `{ask.model}` does not exist."
        if (ask.messages is None) is (kind == "chat.completion"):
            return 400, "completions need a prompt, chat completions need messages"
        if ask.n != 1 or ask.output_tokens < 1:
            return 400, "n must be 1 and max_tokens at least 1"
        if not self._engine.batch.fits(ask.prompt_tokens, ask.output_tokens):
            asked = ask.prompt_tokens + ask.output_tokens
            return 400, f"the request needs {asked} tokens; the KV cache holds {self._engine.speed.kv_tokens}"
        return None

    async def _streamed(
        self, request: web.Request, stream: Stream, words: "_Words", ask: _Ask
    ) -> web.StreamResponse:  # fmt: skip
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        left = ask.output_tokens
        with suppress(ClientConnectionResetError):  # the client left, or the server was crashed on purpose
            await response.prepare(request)
            await response.write(words.opening)
            while count := await stream.more():
                left -= count
                await response.write(words.token * count if left else words.token * (count - 1) + words.last)
            if left == 0:
                usage = words.usage(ask) if ask.stream_options and ask.stream_options.include_usage else b""
                await response.write(usage + END)
                await response.write_eof()
        return response


class _Words:
    """The events of one stream, made once."""

    def __init__(self, number: str, kind: Kind, model: str) -> None:
        self._base: dict[str, object] = {"id": number, "object": kind, "created": 0, "model": model}
        self._chat = kind == "chat.completion"
        chunk = f"{kind}.chunk" if self._chat else kind
        self._chunk = {**self._base, "object": chunk}
        self.opening = self._event({"role": "assistant", "content": ""}) if self._chat else b""
        self.token = self._event({"content": WORD})
        self.last = self._event({"content": WORD}, "length")

    def _event(self, delta: dict[str, str], reason: str | None = None) -> bytes:
        content = {"delta": delta} if self._chat else {"text": delta["content"]}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": reason}
        return b"data: " + msgspec.json.encode({**self._chunk, "choices": [choice]}) + b"\n\n"

    def usage(self, ask: _Ask) -> bytes:
        return b"data: " + msgspec.json.encode({**self._chunk, "choices": [], "usage": _usage(ask)}) + b"\n\n"

    def whole(self, ask: _Ask) -> dict[str, object]:
        text = WORD * ask.output_tokens
        content = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        return {**self._base, "choices": [{"index": 0, **content, "finish_reason": "length"}], "usage": _usage(ask)}


def _usage(ask: _Ask) -> dict[str, int]:
    total = ask.prompt_tokens + ask.output_tokens
    return {"prompt_tokens": ask.prompt_tokens, "completion_tokens": ask.output_tokens, "total_tokens": total}


def _json(content: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), status=status, content_type="application/json")


def _refused(status: int, message: str) -> web.Response:
    return _json({"error": {"message": message, "type": "loadtests", "code": status}}, status)
