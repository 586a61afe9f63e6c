"""Preflight's page in a real browser: every chart drawn, no complaint, nothing wider than the window."""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from autoscaler.preflight.examine import Source, examine
from autoscaler.preflight.given import Given
from autoscaler.preflight.history import Fact
from autoscaler.preflight.page import page as text_of
from tests.preflight.builders import DAY, GONE, history, track, wave
from tests.web.browser import Page, browser

pytestmark = [pytest.mark.real, pytest.mark.needs("chromium")]

NO_SCROLL = "document.documentElement.scrollWidth <= innerWidth"
SCROLLED = """(() => {
  const left = [...document.querySelectorAll("[data-plot]")].find((plot) => !plot.querySelector("canvas"));
  left?.scrollIntoView();
  return document.readyState === "complete" && !left;
})()"""
"""Charts are drawn as they come near the window: true once all of them were reached."""
NAMED = """(() => {
  const table = document.querySelector("#each + .table");
  table.scrollLeft = table.scrollWidth;
  const name = table.querySelector("tbody th a").getBoundingClientRect();
  return name.left >= table.getBoundingClientRect().left && name.width > 20 && name.height < 200;
})()"""
"""Scrolled to its last column, the table still says whose each row is, legibly."""


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Page]:
    async with browser(tmp_path / "profile") as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three workloads: one with a hole, one with a very long name, one that tells nothing."""
    holed = wave(7, low=10.0, high=50.0) + np.where(np.arange(7 * DAY) % 240 < 30, 60.0, 0.0)
    holed[DAY : DAY + 200] = np.nan
    made = [
        history(7 * DAY, running=track(holed), facts={Fact.PRIORITY_CLASS: "production", Fact.SHAPE: "h100"}),
        history(7 * DAY, workload="team/" + "x" * 120, running=track(wave(7, low=0.0, high=9.0))),
        history(7 * DAY, workload="blank", running=GONE, duration=GONE, arrivals_per_s=GONE, replicas=GONE,
                waiting=GONE, queue_wait=GONE, cold_start=GONE),
    ]  # fmt: skip
    findings = examine(
        [Source("Prometheus http://monitoring", made, 3)], Given(slots=8.0), command="headroom preflight"
    )
    path = tmp_path / "preflight.html"
    path.write_text(text_of(findings))
    return path


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (400, True)], ids=["wide", "narrow and dark"])
async def test_the_page_draws_without_a_complaint_and_fits_the_window(
    tab: Page, file: Path, width: int, dark: bool
) -> None:
    await tab.open(f"file://{file}", width=width, dark=dark)
    await tab.until(SCROLLED)
    assert await tab.ask("document.querySelectorAll('canvas').length") == 3
    assert await tab.ask("document.querySelectorAll('svg').length") >= 4
    await tab.ask("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert await tab.ask(NO_SCROLL)
    assert await tab.ask(NAMED)
    assert "floor" in await tab.ask("document.querySelector('[data-legend=w0]').innerText")
    assert tab.complaints == []
