"""The page and the report in a real browser: no complaint in the console, no sideways scrolling, honest figures."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.adapters.web.hub import Hub
from autoscaler.adapters.web.server import serving
from autoscaler.cli.simulation_report import write_report
from autoscaler.record.stream import Result, Results, SignalFrame
from tests.cli.test_simulation_report import decisions, played
from tests.web.browser import Page, browser
from tests.web.builders import decision, estimate, frame, quality, signals, workload

pytestmark = [pytest.mark.real, pytest.mark.needs("chromium")]

WIDTHS = (1400, 360)
LOAD = "(document.querySelector('[data-figure=load]')?.innerText ?? '')"
HYPHENS_APART = """(() => {
  const nodes = document.createTreeWalker(document.querySelector("code"), NodeFilter.SHOW_TEXT), found = [];
  for (let node = nodes.nextNode(); node; node = nodes.nextNode()) {
    for (const { index } of node.data.matchAll(/--/g)) {
      const tops = [index, index + 1].map((at) => {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + 1);
        return range.getBoundingClientRect().top;
      });
      if (tops[0] !== tops[1]) found.push(node.data.slice(index));
    }
  }
  return found;
})()"""
NO_SCROLL = "document.documentElement.scrollWidth <= innerWidth"
ALL_SHOWN = "((box) => box.scrollWidth <= box.clientWidth)(document.querySelector('#results .table'))"


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    async with browser(tmp_path / "profile") as made:
        yield made


def fill(hub: Hub, ticks: int = 200) -> None:
    """A quarter of an hour in which the load doubles and two replicas are ordered."""
    for tick in range(ticks):
        now_s, late = tick * 5.0, tick >= ticks // 2
        grown = decision(now_s, 4, 6) if tick == ticks // 2 else decision(now_s, 6, 6) if late else decision(now_s)
        hub.publish(frame(now_s, workload(now_s, load_rps=24.0 if late else 12.0, decision=grown)))


@pytest.mark.parametrize("width", WIDTHS)
async def test_the_page_draws_without_a_complaint_and_fits_the_window(page: Page, width: int) -> None:
    hub = Hub()
    fill(hub)
    async with serving(hub) as url:
        await page.open(url, width=width, dark=width == 360)
        await page.until("document.querySelectorAll('canvas').length === 3")
        assert "24" in await page.ask(LOAD)
        assert await page.ask(NO_SCROLL)
        shown = await page.ask("document.body.innerText")
        assert "4 → 6" in shown
        assert await page.ask("document.getElementById('said').getAttribute('aria-live')") == "polite"
        await page.ask("document.querySelector('.trace').open = true")
        await page.until("document.querySelector('.trace').innerText.includes('needed')")
        assert await page.ask(NO_SCROLL)
    assert page.complaints == []


@pytest.mark.parametrize("width", WIDTHS)
async def test_what_would_have_been_stands_beside_what_happened_and_the_forecast_over_time(
    page: Page, width: int
) -> None:
    hub = Hub()
    for tick in range(60):
        told = quality(coverage_ratio=0.8, drift="MISSES")
        hub.publish(frame(5.0 * tick, workload(5.0 * tick, mode="Shadow", shadow=estimate(), quality=told)))
    async with serving(hub) as url:
        await page.open(url, width=width, dark=width == 360)
        await page.until("document.querySelectorAll('canvas').length === 3")
        said = await page.ask("document.querySelector('.shadow').innerText")
        assert said.index("misplaced 0.2 % of the requests") < said.index("8 GPU-hours of 20 saved")
        rows = "[...document.querySelectorAll('.shadow tbody tr')].map((row) => row.children[1].innerText).join()"
        assert await page.ask(rows) == "10,10,6"
        await page.ask("document.querySelector('.quality').open = true")
        await page.until("document.querySelectorAll('canvas').length === 4")
        told = await page.ask("document.querySelector('.quality').innerText")
        assert "off its mark" in told
        assert "smoothed level × 0.91, leads" in told
        assert "ridge regression × 1.07, off" in told
        assert await page.ask(NO_SCROLL)
        hub.publish(frame(305.0, workload(305.0)))
        await page.until("document.querySelector('.shadow').hidden")
    assert page.complaints == []


async def test_new_frames_move_nothing_about(page: Page) -> None:
    hub = Hub()
    fill(hub)
    places = (
        "JSON.stringify([...document.querySelectorAll('.figure, .plot, .trace, .decisions')].map((n) => n.offsetTop))"
    )
    async with serving(hub) as url:
        await page.open(url, width=1400)
        await page.until("document.querySelectorAll('canvas').length === 3")
        before = await page.ask(places)
        long = "a sentence of a decision that goes on and on, with figures and reasons, " * 8
        changed = decision(2000.0, 4, 30, "FORECAST", text=long)
        hub.publish(frame(2000.0, workload(2000.0, load_rps=98765.4, starting=(), decision=changed)))
        await page.until(f"{LOAD}.includes('98.8k')")
        assert await page.ask(places) == before


async def test_a_figure_is_held_then_unknown_and_never_shown_as_current(page: Page) -> None:
    hub = Hub()
    fill(hub)
    async with serving(hub) as url:
        await page.open(url, width=1400)
        await page.until(f"{LOAD}.includes('24')")
        hub.publish(frame(1010.0, workload(1010.0, load_rps=24.0, queue=None, signals=signals("held", 10.0))))
        await page.until(f"{LOAD}.includes('held, 10 s old')")
        gone = workload(1100.0, load_rps=None, queue=None, wait_s=None, needs=None, forecast_rps=None, median_rps=None)
        hub.publish(frame(1100.0, replace(gone, signals=signals("unknown", 100.0))))
        await page.until(f"{LOAD}.includes('unknown')")
        assert "24" not in await page.ask(LOAD)
        for figure in ("queue", "wait", "forecast"):
            assert "unknown" in await page.ask(f"document.querySelector('[data-figure={figure}]').innerText")
        assert await page.ask("document.getElementById('total-load').innerText") == "unknown"
    assert page.complaints == []


async def test_latency_that_is_silent_because_nothing_is_served_alarms_nobody(page: Page) -> None:
    hub, quiet = Hub(), (*signals()[:-1], SignalFrame("latency", "unknown", 95.0, blocking=False))
    hub.publish(frame(0.0, workload(0.0, load_rps=0.0, queue=0.0, signals=quiet)))
    async with serving(hub) as url:
        await page.open(url, width=1400)
        await page.until("document.querySelectorAll('.signals li').length === 6")
        assert "unknown" not in await page.ask("document.querySelector('.status').innerText")
        assert "latency unknown 95 s" in await page.ask("document.querySelector('.signals').innerText")


async def test_before_any_metric_was_read_nothing_is_called_fresh(page: Page) -> None:
    hub = Hub()
    never = workload(0.0, load_rps=None, queue=None, needs=None, replica_rps=None, signals=signals("absent", None))
    hub.publish(frame(0.0, never))
    async with serving(hub) as url:
        await page.open(url, width=1400)
        await page.until("(document.querySelector('.status')?.innerText ?? '').includes('No metrics were read yet')")
        assert "fresh" not in await page.ask("document.querySelector('.status').innerText")


async def test_before_anything_is_learnt_nothing_is_called_well(page: Page) -> None:
    hub = Hub()
    hub.publish(frame(0.0, workload(0.0, replica_rps=None, capacity_rps=None, wait_s=None)))
    async with serving(hub) as url:
        await page.open(url, width=1400)
        await page.until("(document.querySelector('.status')?.innerText ?? '').includes('not known yet')")
        assert "capacity not known yet" in await page.ask("document.querySelector('[data-figure=wait]').innerText")


async def test_when_the_controller_ends_the_page_says_so_and_keeps_table_and_last_state(page: Page) -> None:
    hub = Hub()
    fill(hub)
    async with serving(hub) as url:
        await page.open(url, width=360)
        await page.until(f"{LOAD}.includes('24')")
        rows = (Result("ours", "headroom", "defaults", 0.9951, 10.0, 1.1234, 20.0, 30.0),)
        hub.end("The run has ended.")
        await page.until("document.getElementById('link-text').innerText.includes('ended')")
        hub.publish_results(Results("demo/chat", 3600.0, 0.99, rows, "what to know"))
        await page.until("document.getElementById('results').innerText !== ''")
    text = await page.ask("document.getElementById('results').innerText")
    assert "99.51 %" in text
    assert "× 1.123" in text
    assert await page.ask(ALL_SHOWN), "no column is pushed out of sight"
    assert "24" in await page.ask(LOAD)
    assert await page.ask(NO_SCROLL)
    assert page.complaints == []


async def test_metrics_that_were_held_when_the_run_ended_are_not_said_to_be_late(page: Page) -> None:
    """Nothing comes after the end: to wait for it would be wrong."""
    hub, status = Hub(), "document.querySelector('.status').innerText"
    hub.publish(frame(0.0, workload(0.0, signals=signals("held", 12.0))))
    async with serving(hub) as url:
        await page.open(url, width=400)
        await page.until("(document.querySelector('.status')?.innerText ?? '').includes('Metrics are late')")
        hub.end("The run has ended.")
        await page.until(f"!{status}.includes('are late')")
        assert (
            await page.ask(status) == "The last metrics came some time before the end: figures are as they stood then."
        )
    assert page.complaints == []


async def test_a_lost_connection_is_told_and_found_again(page: Page) -> None:
    hub = Hub()
    fill(hub)
    async with serving(hub) as url:
        await page.open(url, width=1400)
        await page.until(f"{LOAD}.includes('24')")
        for reader in list(hub._readers):
            reader.end()  # as if the connection broke: the stream ends without a word
        await page.until("document.getElementById('link-text').innerText.includes('connection lost')")
        hub.publish(frame(1200.0, workload(1200.0, load_rps=33.0)))
        await page.until(f"{LOAD}.includes('33')")
        await page.until("document.getElementById('link-text').innerText === 'live'")


@pytest.mark.parametrize("width", WIDTHS)
async def test_the_report_opens_from_a_file_and_draws(page: Page, width: int, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    write_report(path, "wave", [replace(played("hpa"), decisions=decisions()), played("kpa")])
    await page.open(path.as_uri(), width=width)
    await page.until("document.querySelectorAll('canvas').length >= 3")
    assert await page.ask(NO_SCROLL)
    assert "mean 3.03" in await page.ask("document.querySelector('#run-0 [data-legend=load]').innerText")
    assert page.complaints == []


async def test_no_line_of_the_command_ends_between_the_two_hyphens_of_an_option(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    command = "headroom simulate --warmup 180 --workload step-x3 --policy all --report out.html"
    write_report(path, "wave", [played("kpa")], command=command)
    await page.open(path.as_uri(), width=360)
    await page.until("document.querySelectorAll('canvas').length >= 3")
    assert await page.ask("document.querySelector('code').textContent") == command
    for width in range(300, 420, 4):
        await page.ask(f"document.querySelector('code').style.cssText = 'display: block; width: {width}px'")
        assert await page.ask(HYPHENS_APART) == []


async def test_what_is_printed_holds_the_charts_that_nobody_scrolled_to(page: Page, tmp_path: Path) -> None:
    """A chart is drawn when it comes near the window; a printer has none."""
    path = tmp_path / "out.html"
    write_report(path, "wave", [played("kpa") for _ in range(9)])
    last = "document.querySelector('#run-8 [data-legend=load]').innerText"
    await page.open(path.as_uri(), width=1400)
    await page.until("document.querySelectorAll('canvas').length >= 3")
    assert await page.ask(last) == ""
    await page.call("Page.printToPDF")
    assert "mean 3.03" in await page.ask(last)
    assert page.complaints == []


async def test_the_keyboard_alone_reads_a_reports_charts_and_looks_closer(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    write_report(path, "wave", [replace(played("hpa"), decisions=decisions())])
    legend = "document.querySelector('#run-0 [data-legend=load]').innerText"
    await page.open(path.as_uri(), width=360, dark=True)
    await page.until("document.querySelectorAll('canvas').length === 3")
    await page.walk_to(".table")
    await page.walk_to("[data-plot=load]")
    await page.press("ArrowLeft")
    await page.until(f"{legend}.includes(' at ')")
    await page.press("+", 5)
    await page.press("ArrowLeft", 5)
    assert " at 00:59:58" in await page.ask(legend), "what is read is what is shown"
    await page.press("-")
    await page.press("ArrowLeft", 5)
    assert " at 00:59:48" in await page.ask(legend), "reading goes on where it was"
    assert page.asked == [path.as_uri()], "a report is one file"
    assert page.complaints == []
