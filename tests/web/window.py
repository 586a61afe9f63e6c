"""A browser's window beside a scene that is not asynchronous: it stays open, and is looked at now and then."""

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.web.browser import Page, browser

HEIGHT: Final = 900
PATIENCE_S: Final = 60.0
"""How long the page may take to show what is waited for, on a loaded machine."""


class Window:
    """One page, open all the time."""

    def __init__(self, runner: asyncio.Runner, page: Page) -> None:
        self._runner, self._page = runner, page

    @property
    def complaints(self) -> list[str]:
        """What the console, the security policy and uncaught errors said so far."""
        return self._page.complaints

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        return self._runner.run(self._page.ask(expression))

    def text(self, selector: str) -> str:
        """All that is written where `selector` points, hidden parts left out; empty where nothing is."""
        return str(self.ask(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def wait(self, expression: str) -> None:
        """Until an expression is true. AssertionError with what the page shows where that takes too long."""
        try:
            self._runner.run(asyncio.wait_for(self._page.until(expression), PATIENCE_S))
        except TimeoutError:
            raise AssertionError(f"the page does not come to {expression}; it shows: {self.text('main')}") from None

    def shoot(self, path: Path, *, width: int, dark: bool) -> None:
        """The whole page as a picture, in a window of that width."""
        path.write_bytes(self._runner.run(self._shot(width, dark)))

    async def _shot(self, width: int, dark: bool) -> bytes:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self._page.call("Emulation.setEmulatedMedia", features=[scheme])
        await self._size(width)
        made = await self._page.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(made["data"])

    async def _size(self, width: int) -> None:
        await self._page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=False
        )


@contextmanager
def window(profile: Path, url: str, *, width: int = 1400) -> Iterator[Window]:
    """A page that is loaded and stays open for the block; `profile` is a folder that the browser may fill."""
    with asyncio.Runner() as runner:
        made = browser(profile)
        page = runner.run(made.__aenter__())
        try:
            runner.run(page.open(url, width=width))
            yield Window(runner, page)
        finally:
            runner.run(made.__aexit__(None, None, None))
