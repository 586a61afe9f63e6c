"""The live cluster's page in a real browser: a hundred services, dates, modes, and a replica that does not lead."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.adapters.web.hub import Hub, Standing
from autoscaler.adapters.web.server import serving
from autoscaler.core.scale.overload import Overload
from autoscaler.record.batch_lines import batch_lines
from autoscaler.record.pool_status import pool_line
from autoscaler.record.stream import Frame, WorkloadFrame
from tests.record.batches import TOLD
from tests.record.pool_statuses import short_pool, young_pool
from tests.web.browser import Page, browser
from tests.web.builders import decision, signals, workload
from tests.web.test_browser import NO_SCROLL

pytestmark = [pytest.mark.real, pytest.mark.needs("chromium")]

EVENING_S = 1764255600.0
"""2025-11-27 15:00:00 UTC."""
SHORT = Overload(
    deficit_replicas=6, admissible_rps=16.0, shed_ratio=0.25, wait_s=23.0, retry_after_s=45.0, expires_s=EVENING_S + 10
)
LINES = "document.querySelectorAll('#lines > li:not([hidden])').length"


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    async with browser(tmp_path / "profile") as made:
        yield made


def service(number: int, now_s: float) -> WorkloadFrame:
    """One of a hundred: some without metrics, some overloaded, some paused."""
    name = f"team-{number % 10}/chat-{number:02d}"
    made = workload(now_s, workload=name, load_rps=10.0 + number, decision=decision(now_s))
    if number == 7:
        return replace(made, load_rps=None, queue=None, wait_s=None, needs=None, signals=signals("unknown", 90.0))
    if number == 8:
        return replace(made, overload=SHORT)
    return replace(made, mode="Shadow") if number == 9 else made


def tell(hub: Hub, at_s: float, *numbers: int) -> None:
    hub.publish(Frame(at_s, 1.0, tuple(service(number, at_s) for number in numbers or range(100))))


def text(selector: str) -> str:
    return f"(document.querySelector({selector!r})?.innerText ?? '')"


def line(name: str) -> str:
    return f"[...document.querySelectorAll('#lines > li')].find((n) => n.innerText.includes('{name}'))"


@pytest.mark.parametrize("width", [1400, 390])
async def test_a_hundred_services_are_a_line_each_and_one_that_is_opened_draws_its_charts(
    page: Page, width: int
) -> None:
    hub = Hub()
    for tick in range(20):
        tell(hub, EVENING_S - 100.0 + 5.0 * tick)
    async with serving(hub) as url:
        await page.open(url, width=width)
        await page.until(f"{LINES} === 100")
        assert await page.ask("document.querySelectorAll('canvas').length") == 0
        assert await page.ask(NO_SCROLL)
        await page.until("document.getElementById('total-time').innerText === '14:59:55'")
        assert await page.ask("document.getElementById('time-name').innerText") == "Time, UTC"
        assert await page.ask("document.getElementById('total-load').innerText") == "5933 + 1 ?"
        await page.ask(f"{line('chat-09')}.querySelector('button').click()")
        await page.until("document.querySelectorAll('canvas').length === 3")
        await page.until(f"{text('.service .mode')}.includes('Shadow: decides, never acts')")
        assert await page.ask("location.hash") == "#team-9%2Fchat-09"
        assert await page.ask(NO_SCROLL)
        tell(hub, EVENING_S)
        await page.until("document.getElementById('total-time').innerText === '15:00:00'")
        await page.ask(f"{line('chat-09')}.querySelector('button').click()")
        await page.until("document.querySelectorAll('canvas').length === 0")
    assert page.complaints == []


async def test_services_in_trouble_are_named_found_and_shown_alone(page: Page) -> None:
    hub = Hub()
    tell(hub, EVENING_S - 60.0)
    tell(hub, EVENING_S, *(number for number in range(100) if number != 3))
    async with serving(hub) as url:
        await page.open(url, width=1400)
        await page.until(f"{LINES} === 100")
        await page.until(f"{text('#found')}.includes('100 services, 3 in trouble')")
        await page.ask("document.getElementById('troubled').click()")
        assert await page.ask(LINES) == 3
        shown = await page.ask(text("#lines"))
        for words in ("silent 60 s", "no metrics", "overloaded"):
            assert words in shown
        await page.ask("document.getElementById('troubled').click()")
        await page.ask(
            "(() => { const f = document.getElementById('find'); f.value = 'SHADOW'; "
            "f.dispatchEvent(new Event('input')); })()"
        )
        assert "1 of 100 services" in await page.ask(text("#found"))
        assert "team-9/chat-09" in await page.ask(text("#lines"))
    assert page.complaints == []


async def test_the_keyboard_alone_finds_a_service_opens_it_and_reads_its_charts(page: Page) -> None:
    hub = Hub()
    for tick in range(20):
        tell(hub, EVENING_S - 100.0 + 5.0 * tick)
    legend = text(".service [data-legend=load]")
    async with serving(hub) as url:
        await page.open(url, width=390)
        await page.until(f"{LINES} === 100")
        await page.walk_to("#find")
        for letter in "chat-09":
            await page.press(letter, text=letter)
        await page.until(f"{LINES} === 1")
        await page.walk_to("#lines button")
        await page.press("Enter", text="\r")
        await page.until("document.querySelectorAll('canvas').length === 3")
        await page.walk_to("[data-plot=load]")
        assert "14:59" not in await page.ask(legend)
        await page.press("ArrowLeft", 2)
        await page.until(f"{legend}.includes('14:59:50')")
        assert [one for one in page.asked if not one.startswith(url)] == []
    assert page.complaints == []


async def test_a_link_opens_what_was_open_and_the_place_of_a_line_never_changes(page: Page) -> None:
    hub = Hub()
    tell(hub, EVENING_S)
    order = "JSON.stringify([...document.querySelectorAll('.cell-name')].map((n) => n.innerText))"
    async with serving(hub) as url:
        await page.open(f"{url}#team-1%2Fchat-01,team-2%2Fchat-02", width=1400)
        await page.until("document.querySelectorAll('.service').length === 2")
        before = await page.ask(order)
        for tick in range(1, 4):
            tell(hub, EVENING_S + 5.0 * tick, 50, 20, 10)
        await page.until("document.getElementById('total-time').innerText === '15:00:15'")
        assert await page.ask(order) == before
        hub.forget("team-1/chat-01")
        await page.until("document.querySelectorAll('.service').length === 1")
        await page.until("document.getElementById('total-services').innerText === '99'")
    assert page.complaints == []


async def test_when_few_become_many_the_open_cards_stay_open_below_their_lines(page: Page) -> None:
    hub = Hub()
    tell(hub, EVENING_S, 1, 2)
    async with serving(hub) as url:
        await page.open(url, width=1400)
        await page.until("document.querySelectorAll('#services .service').length === 2")
        tell(hub, EVENING_S + 5.0)
        await page.until(f"{LINES} === 100")
        await page.until("document.querySelectorAll('#lines .service').length === 2")
        tell(hub, EVENING_S + 10.0, 1)
        await page.until(f"{text('.service [data-figure=load]')}.includes('11')")
    assert page.complaints == []


@pytest.mark.parametrize("width", [1400, 390])
async def test_a_replica_that_does_not_lead_says_who_does_and_shows_no_figures(page: Page, width: int) -> None:
    hub = Hub()
    hub.stand(Standing(leading=False, holder="headroom-6c9d8b5f4-x2x7q"))
    async with serving(hub) as url:
        await page.open(url, width=width)
        await page.until(f"{text('#standing')} !== ''")
        assert "headroom-6c9d8b5f4-x2x7q leads" in await page.ask(text("#standing"))
        await page.until("document.getElementById('link-text').innerText === 'standing by'")
        assert await page.ask(NO_SCROLL)
        hub.stand(Standing(leading=True, holder="headroom-0", frozen=True))
        tell(hub, EVENING_S, 1)
        await page.until("document.querySelectorAll('.service').length === 1")
        assert "nothing is acted upon" in await page.ask(text("#standing"))
        hub.stand(Standing(leading=True, holder="headroom-0"))
        await page.until("document.getElementById('standing').hidden")
    assert page.complaints == []


async def test_a_step_of_five_seconds_is_no_silence(page: Page) -> None:
    """Between two steps of a live workload nothing is told; that is no reason to call its figures held."""
    hub = Hub()
    tell(hub, EVENING_S, 1)
    async with serving(hub) as url:
        await page.open(url, width=1400)
        await page.until(f"{text('#link-text')} === 'live'")
        await page.ask("new Promise((done) => setTimeout(done, 4500))")
        assert await page.ask("document.getElementById('link-text').innerText") == "live"
        await page.until("document.getElementById('link-text').innerText.includes('no new record')")


@pytest.mark.parametrize("width", [1400, 390])
async def test_a_warm_pool_is_a_card_with_a_cell_for_every_slot(page: Page, width: int) -> None:
    hub = Hub()
    tell(hub, EVENING_S, 1)
    async with serving(hub) as url:
        await page.open(url, width=width)
        await page.until("document.querySelector('.service') && document.getElementById('pools')?.hidden")
        short = short_pool()
        asks = replace(short.breakers[0], zone="b", state="half-open")
        hub.publish_pools((pool_line(replace(short, breakers=(*short.breakers, asks))),))
        await page.until("!document.getElementById('pools').hidden")
        assert await page.ask("document.querySelectorAll('.pool-cells i').length") == 3
        assert await page.ask("document.querySelectorAll('.pool-cells i[data-tone=warm]').length") == 2
        told = await page.ask(text(".pool"))
        for words in (
            "no capacity: h100 on-demand a, open",
            "capacity may be back: h100 on-demand b, half-open",
            "99.0 %",
            "1 ordered, 2 warm",
            "not 0: the pool's minimum",
        ):
            assert words in told
        assert await page.ask(NO_SCROLL)
        hub.publish_pools((pool_line(young_pool()),))
        await page.until("document.querySelector('.pool-state').innerText === 'warm'")
        assert await page.ask("document.querySelectorAll('.pool ul li').length") == 0
        hub.publish_pools(())
        await page.until("document.getElementById('pools').hidden")
    assert page.complaints == []


@pytest.mark.parametrize("width", [1400, 390])
async def test_batch_work_is_shown_with_places_reasons_and_starts(page: Page, width: int) -> None:
    hub = Hub()
    tell(hub, EVENING_S, 1)
    async with serving(hub) as url:
        await page.open(url, width=width)
        await page.until("document.querySelector('.service') && document.getElementById('batch')?.hidden")
        hub.publish_batch(batch_lines(TOLD))
        await page.until("!document.getElementById('batch').hidden")
        assert await page.ask("document.querySelectorAll('.owners-bar i').length") == 7
        assert await page.ask("document.querySelectorAll('.batch-queues tbody tr').length") == 3
        told = await page.ask(text("#batch"))
        for words in (
            "h100: 64 units",
            "8 lent to batch",
            "there is no BatchQueue 'nobody'",
            "1 × not enough free units",
            "20 min to 50 min",
            "not foreseen",
            "8 more free units of h100",
        ):
            assert words in told
        assert await page.ask(NO_SCROLL)
        hub.publish_batch(batch_lines(replace(TOLD, gangs=(), acting=False, idle_reason="Shadow")))
        await page.until("!document.querySelector('.batch-idle').hidden")
        assert await page.ask("document.querySelectorAll('.batch-gangs tbody tr').length") == 0
        hub.publish_batch(None)
        await page.until("document.getElementById('batch').hidden")
    assert page.complaints == []
