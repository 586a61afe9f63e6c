"""What one scrape costs: processor time of the scraper per page, and how much quicker than the library a page is read.

A real server in its own process serves the pages, over real sockets, one address per target. The scraper reads every
target once per interval, as it does in life; its own processor time is what is reported, with the delay that it causes
to others on its event loop. Half a core for a thousand targets a second is the aim.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from autoscaler.adapters.engines.catalogue import VLLM
from autoscaler.adapters.engines.facts import PageReader
from autoscaler.adapters.engines.scraper import HISTOGRAMS_S, Scraper
from autoscaler.adapters.engines.targets import ScrapeTarget
from autoscaler.runtime.clock import WallClock
from loadtests.bench.machine import command, machine, peak_rss_mib
from loadtests.bench.pages import address, page

TARGET_CORE_RATIO = 0.5
TARGET_PARSE_RATIO = 10.0
LAG_EVERY_S = 0.01
WORKLOADS = 20
"""The targets are the pods of so many workloads."""


def cpu_ms(call: Callable[[], object], rounds: int) -> float:
    """Processor time of one call in milliseconds, the best of three rounds."""
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        for _ in range(rounds):
            call()
        best = min(best, (time.process_time() - begin) / rounds)
    return best * 1e3


def parsing(interval_s: float) -> dict[str, object]:
    """How long the library and the filter take for one page."""
    body, reader = page(7), PageReader(VLLM)
    text = body.decode()
    library_ms = cpu_ms(lambda: list(text_string_to_metric_families(text)), 5)
    facts_ms = cpu_ms(lambda: reader.facts(body), 300)
    histograms_ms = cpu_ms(lambda: reader.histograms(body), 100)
    each_ms = facts_ms + histograms_ms * min(1.0, interval_s / HISTOGRAMS_S)
    return {
        "page_bytes": len(body),
        "page_samples": sum(not line.startswith("#") for line in text.splitlines()),
        "library_ms": round(library_ms, 3),
        "facts_ms": round(facts_ms, 3),
        "histograms_ms": round(histograms_ms, 3),
        "per_scrape_ms": round(each_ms, 3),
        "ratio_facts": round(library_ms / facts_ms, 1),
        "ratio_everything_read": round(library_ms / (facts_ms + histograms_ms), 1),
        "target_ratio": TARGET_PARSE_RATIO,
    }


async def lags(seconds: float) -> list[float]:
    """How late a timer fires, in milliseconds, asked every hundredth of a second."""
    found, loop = [], asyncio.get_running_loop()
    end_s = loop.time() + seconds
    clock = WallClock()
    while loop.time() < end_s:
        due_s = loop.time() + LAG_EVERY_S
        await clock.sleep_until(due_s)
        found.append(1e3 * (loop.time() - due_s))
    return found


async def scraping(
    targets: int, port: int, interval_s: float, seconds: float, profiler: cProfile.Profile | None
) -> dict[str, object]:
    """Scrape for `seconds`, after one interval and a half of warming up, and return the figures."""
    news: list[str] = []
    scraper = Scraper(clock=WallClock(), on_news=news.append, interval_s=interval_s, allow_loopback=True)
    names = [f"team-{i}/chat" for i in range(WORKLOADS)]
    pages = 0
    absorb = scraper._poller._absorb  # noqa: SLF001 - counted here, so that the product need not count for us

    def counted(*answer: object) -> bool:
        nonlocal pages
        pages += 1
        return absorb(*answer)  # type: ignore[arg-type]  # whatever it is, it is passed on

    scraper._poller._absorb = counted  # noqa: SLF001 - the same
    for i in range(targets):
        pod = ScrapeTarget(names[i % WORKLOADS], f"pod-{i}", f"uid-{i}", address(i), port, ready_since_s=0.0)
        scraper.put(pod)
    clock = WallClock()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scraper.run())
        await clock.sleep_until(clock.monotonic() + 1.5 * interval_s + 0.5)
        begin_pages, begin_s, begin_cpu_s = pages, clock.monotonic(), time.process_time()
        if profiler is not None:
            profiler.enable()
        late = await lags(seconds)
        if profiler is not None:
            profiler.disable()
        cpu_s, took_s = time.process_time() - begin_cpu_s, clock.monotonic() - begin_s
        read = pages - begin_pages
        silent = sum(len(scraper.found(name).silent) for name in names)
        sample_ms = cpu_ms(lambda: scraper.sample(names[0]), 50)
        task.cancel()
    p50, p99 = np.quantile(late, [0.5, 0.99])
    return {
        "targets": targets,
        "interval_s": interval_s,
        "seconds": round(took_s, 1),
        "pages": read,
        "pages_per_s": round(read / took_s, 1),
        "silent_at_the_end": silent,
        "cpu_s": round(cpu_s, 2),
        "cpu_ms_per_page": round(1e3 * cpu_s / max(1, read), 3),
        "core_ratio": round(cpu_s / took_s, 3),
        "target_core_ratio": TARGET_CORE_RATIO,
        "loop_lag_ms": {"p50": round(float(p50), 2), "p99": round(float(p99), 2), "max": round(max(late), 2)},
        "sample_ms_of_a_workload": round(sample_ms, 3),
        "news": len(news),
    }


def main(arguments: list[str]) -> int:
    """Print the figures as JSON; the exit code is 0 whatever they are."""
    parser = argparse.ArgumentParser(prog="bench scrape", description=__doc__)
    parser.add_argument("--targets", type=int, default=1000)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between two scrapes of a target")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--profile", action="store_true", help="list the functions that take the time (slows the run)")
    given = parser.parse_args(arguments)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    profiler = cProfile.Profile() if given.profile else None
    parse = parsing(given.interval)
    server = subprocess.Popen(
        [sys.executable, "-m", "loadtests.bench.pages", str(given.targets)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        figures = asyncio.run(scraping(given.targets, port, given.interval, given.seconds, profiler))
    finally:
        server.terminate()
        server.wait()
    report = {
        "bench": "scrape",
        "command": command("scrape", arguments),
        "machine": machine(),
        "files_soft_limit": soft,
        "peak_rss_mib": peak_rss_mib(),
        "parse": parse,
        "scrape": figures,
    }
    print(json.dumps(report, indent=2))
    if profiler is not None:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(30)
    return 0
