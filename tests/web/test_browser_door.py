"""The page in a real browser where who asks must show a token: it is the password, and a stream that ends goes on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from autoscaler.adapters.web import live
from autoscaler.adapters.web.door import Door
from autoscaler.adapters.web.live import Place, serving_live
from tests.web.browser import Page, browser
from tests.web.test_browser_live import EVENING_S, tell
from tests.web.test_door import ApiServer
from tests.web.test_live import HOSTS, Controller, StoodStill

pytestmark = [pytest.mark.real, pytest.mark.needs("chromium")]


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    async with browser(tmp_path / "profile") as made:
        yield made


async def test_a_token_is_the_password_and_is_looked_at_again_as_often_as_a_stream_begins(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_AGAIN_S", 1.0)
    controller, api, clock = Controller(), ApiServer(), StoodStill()
    tell(controller.hub, EVENING_S, 1, 2)
    door = Door(api.review, clock, "headroom-system/headroom-reader")
    async with serving_live(controller.facts(), controller.hub, Place("127.0.0.1", 0, HOSTS, door=door)) as port:
        # As if it had been typed where the browser asks: a page whose own address holds a password may fetch nothing.
        await page.open(f"http://me:all@127.0.0.1:{port}/api/status", width=1400)
        await page.until("document.body?.innerText.includes('headroom-0_1')")
        await page.call("Page.navigate", url=f"http://127.0.0.1:{port}/")
        await page.until("document.body?.innerText.includes('team-2/chat-02')")
        clock.now_s += 61.0
        tell(controller.hub, EVENING_S + 5.0, 1, 2, 3)
        await page.until("document.body.innerText.includes('team-3/chat-03')")
        while api.asked.count(("all", "/headroom/events")) < 2:
            await page.ask("new Promise((done) => setTimeout(done, 50))")
    assert api.asked[:2] == [("all", "/headroom/api/status"), ("all", "/headroom/")]
