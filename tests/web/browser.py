"""A headless Chromium spoken to over its own protocol: enough to load a page and ask it things."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse
from yarl import URL

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


class Page:
    """One tab. `asked` is what it loaded; `complaints` gathers what the console, the security policy and uncaught
    errors said, and whatever was asked of another machine.
    """

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []
        self.asked: list[str] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one command of the protocol."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = json.loads((await self._socket.receive()).data)
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])
            self._listen(message)

    def _listen(self, message: dict[str, Any]) -> None:
        kind, params = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif kind == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(str(params["entry"]))
        elif kind == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
            self.complaints.append(str(params["args"]))
        elif kind == "Network.requestWillBeSent":
            url = URL(params["request"]["url"])
            self.asked.append(str(url))
            if url.host not in {None, "", "127.0.0.1"}:
                self.complaints.append(f"{url} was asked for")

    async def open(self, url: str, *, width: int, dark: bool = False) -> None:
        """Load `url` in a window of that width."""
        for domain in ("Runtime", "Log", "Page", "Network"):
            await self.call(f"{domain}.enable")
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Page.navigate", url=url)

    async def press(self, key: str, times: int = 1, *, text: str = "") -> None:
        """Press a key by its name, such as Tab; `text` is what it writes."""
        code = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39}.get(key, 0)
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        for _ in range(times):
            await self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **named)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    async def walk_to(self, selector: str) -> None:
        """Press Tab until what `selector` names has the focus, and see that it shows. AssertionError after a round."""
        for _ in range(60):
            await self.press("Tab")
            if await self.ask(f"document.activeElement.matches({selector!r})"):
                assert await self.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                return
        raise AssertionError(f"the keyboard does not come to {selector}")

    async def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def until(self, expression: str) -> None:
        """Return once the expression is true; the test's own time limit ends the waiting."""
        while not await self.ask(expression):
            await self.ask("new Promise((done) => setTimeout(done, 50))")


@asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Page]:
    """A fresh browser with one empty tab; `profile` is a folder that it may fill."""
    program = next(found for name in NAMES if (found := shutil.which(name)))
    command = (program, *FLAGS, f"--user-data-dir={profile}", "about:blank")
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stderr is not None
        while b"DevTools listening on" not in (line := await process.stderr.readline()):
            assert line, "the browser ended before it listened"
        port = line.split(b"127.0.0.1:")[1].split(b"/", maxsplit=1)[0].decode()
        async with ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                address = next(tab for tab in await answer.json() if tab["type"] == "page")["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                yield Page(socket)
    finally:
        process.terminate()
        await process.wait()
